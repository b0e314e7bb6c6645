//! Tests of the splitter: bodies, what looks like bodies, and empty pieces.

use super::split;
use crate::text::Dialect;

/// The statements, with `|` between them.
fn pieces(text: &str, dialect: Dialect) -> String {
    split(text, dialect).map(|place| &text[place]).collect::<Vec<_>>().join("|")
}

fn check(text: &str, expected: &str) {
    assert_eq!(pieces(text, Dialect::Postgres), expected, "{text}");
}

/// A text that is one statement.
fn whole(text: &str) {
    check(text, text);
    check(&format!("{text} ; DROP TABLE t"), &format!("{text}|DROP TABLE t"));
    check(&format!("SELECT 1;{text};"), &format!("SELECT 1|{text}"));
}

#[test]
fn semicolons_separate_statements() {
    check("", "");
    check(" ; ;\n/* c */ ; -- x", "");
    check("SELECT 1", "SELECT 1");
    check(" SELECT 1 ; ", "SELECT 1");
    check("SELECT 1;SELECT 2;;SELECT 3", "SELECT 1|SELECT 2|SELECT 3");
    check(
        "/* a */ SELECT 1 /* b */; /* c */ SELECT 2 -- d",
        "/* a */ SELECT 1 /* b */|/* c */ SELECT 2 -- d",
    );
    check("SELECT 1; /* c */", "SELECT 1");
    check(";;é", "é");
    check("BEGIN; SELECT 1; END; SELECT 2", "BEGIN|SELECT 1|END|SELECT 2");
    check("SELECT (1; DROP TABLE t", "SELECT (1|DROP TABLE t");
}

#[test]
fn semicolons_in_strings_and_comments_separate_nothing() {
    whole("SELECT ';' /* ; */ , \";\" , $$;$$ , $a$;$$;$a$ -- ;\n + 1");
    whole(r"SELECT E'\';'");
    whole("SELECT /* ; /* ; */ ; */ 1");
    whole("SELECT E'a'\n'\\';'");
    check("SELECT E'a'\n'\\''; DROP TABLE t; --'", "SELECT E'a'\n'\\''|DROP TABLE t");
    check(r"SELECT '\'; DROP TABLE t; --'", r"SELECT '\'|DROP TABLE t");
    check("SELECT 'a; DROP TABLE t", "SELECT 'a; DROP TABLE t");
    let text = r"SELECT '\'; DROP TABLE t; --'";
    assert_eq!(pieces(text, Dialect::PostgresBackslash), text);
    check("SELECT 1 -- a\r; DROP TABLE t", "SELECT 1 -- a|DROP TABLE t");
    let text = "SELECT 1 -- a\r; DROP TABLE t";
    assert_eq!(pieces(text, Dialect::Sqlite), text);
}

#[test]
fn the_body_of_a_routine_is_one_statement() {
    whole("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END");
    whole("create or replace procedure p() begin /* c */ atomic insert into t values (1); end");
    whole("CREATE FUNCTION f() RETURNS int LANGUAGE begin BEGIN ATOMIC END");
    whole("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC ; SELECT CASE WHEN a THEN 1 END; END");
    whole(
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE a WHEN CASE 1 WHEN 2 THEN 3 END THEN 4 END END; END",
    );
    whole(
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC CREATE FUNCTION g() RETURNS int BEGIN ATOMIC SELECT 1; END; SELECT 2; END",
    );
    whole(
        "CREATE SCHEMA s CREATE TABLE t (a int) CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END CREATE VIEW v AS SELECT 1",
    );
    whole(
        "CREATE SCHEMA s CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END CREATE PROCEDURE p() BEGIN ATOMIC SELECT 1; END",
    );
}

#[test]
fn names_neither_open_nor_keep_open_a_body() {
    let body =
        |label: &str| format!("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1 {label}; END");
    for label in [
        "AS case",
        "case",
        "AS end",
        "end",
        "AS begin",
        "begin atomic",
        "\"end\"",
        "+ t.case",
        "AS create",
    ] {
        whole(&body(label));
    }
    for text in [
        "CREATE FUNCTION f(begin atomic) RETURNS int LANGUAGE sql AS 'x'",
        "SELECT begin atomic FROM t",
        "CREATE VIEW v AS SELECT begin atomic FROM t",
        "CREATE VIEW v AS SELECT t.create function, begin atomic FROM t",
        "CREATE SCHEMA s CREATE VIEW v AS SELECT begin atomic",
        "CREATE SCHEMA s CREATE VIEW v AS SELECT t.create function, begin atomic FROM t",
        "CREATE SCHEMA s CREATE FUNCTION f() RETURNS int RETURN 1 CREATE VIEW v AS SELECT begin atomic",
        "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN ATOMIC; END; $$",
        "CREATE FUNCTION \"BEGIN\" () RETURNS \"ATOMIC\" AS 'x'",
        "CREATE TRIGGER t AFTER INSERT ON begin EXECUTE FUNCTION atomic()",
        "CREATE TABLE function (begin atomic)",
    ] {
        whole(text);
    }
    // Within a body, too, only a routine opens another one.
    whole("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT begin atomic FROM t; END");
}

#[test]
fn the_actions_of_a_rule_are_in_parentheses() {
    whole("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2;)");
    whole("CREATE OR REPLACE RULE r AS ON DELETE TO t DO INSTEAD (DELETE FROM a; (SELECT 1))");
    check(
        "CREATE RULE r AS ON INSERT TO t DO SELECT 1; SELECT 2",
        "CREATE RULE r AS ON INSERT TO t DO SELECT 1|SELECT 2",
    );
    check("SELECT rule FROM (SELECT 1; SELECT 2)", "SELECT rule FROM (SELECT 1|SELECT 2)");
}

#[test]
fn a_trigger_of_sqlite_is_one_statement() {
    for trigger in [
        "CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 1; UPDATE t SET a = CASE WHEN b THEN 1 END; END",
        "create temp trigger begin after insert on begin when new.end begin select 1 as end; end",
        "EXPLAIN QUERY PLAN CREATE TEMPORARY TRIGGER a AFTER INSERT ON t BEGIN DELETE FROM t; END",
    ] {
        assert_eq!(pieces(trigger, Dialect::Sqlite), trigger);
        let more = format!("{trigger}; DROP TABLE t");
        assert_eq!(pieces(&more, Dialect::Sqlite), format!("{trigger}|DROP TABLE t"));
    }
    let text = "BEGIN; CREATE TRIGGER x; SELECT trigger, begin; END";
    assert_eq!(pieces(text, Dialect::Sqlite), "BEGIN|CREATE TRIGGER x|SELECT trigger, begin|END");
    let text = "CREATE FUNCTION f() BEGIN ATOMIC; END";
    assert_eq!(pieces(text, Dialect::Sqlite), "CREATE FUNCTION f() BEGIN ATOMIC|END");
    assert_eq!(pieces("SELECT 1 /* ", Dialect::Sqlite), "SELECT 1 /* ");
    assert_eq!(pieces("SELECT 1 /*", Dialect::Sqlite), "SELECT 1 /*");
    assert_eq!(pieces("SELECT [;], `;`; x", Dialect::Sqlite), "SELECT [;], `;`|x");
}

#[test]
fn no_text_takes_more_than_linear_time() {
    let nasty = [
        "(;",
        ";",
        "a;",
        "CREATE FUNCTION f() BEGIN ATOMIC;",
        "BEGIN ATOMIC;",
        "; END;",
        "CREATE RULE (;",
        "';",
        "''\n;",
        "/*;",
        "$a$;",
        "CREATE SCHEMA CREATE FUNCTION BEGIN ATOMIC;END ",
        "CREATE TRIGGER BEGIN;",
    ];
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        for piece in nasty {
            let of = |bytes: usize| {
                let text = piece.repeat(bytes / piece.len());
                let mut statements = split(&text, dialect);
                while statements.next().is_some() {}
                statements.lexer.steps
            };
            let (short, long) = (of(100_000), of(1_000_000));
            assert!(short <= 400_000, "{piece:?} takes {short} steps");
            assert!(long <= 11 * short.max(10), "{piece:?} takes {short} and {long} steps");
        }
    }
}
