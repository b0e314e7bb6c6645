//! Tests of the class: commands, actions, and what may stand anywhere in a statement.

use super::{Action, Class, Command, Discard, Transfer, classify};
use crate::text::{Dialect, IDENTIFIER_BYTES_MAX, Isolation, Scope, Value};

fn class(text: &str) -> Class<'_> {
    classify(text, Dialect::Postgres)
}

/// The command, the one within it after `>`, and a letter for every other trait: Analyzes, Writes, Reshapes,
/// Temporary, Locks, Sets, Own names, Broken.
fn traits(text: &str) -> String {
    let class = class(text);
    let mut found = class.command.name().to_owned();
    if let Some(inner) = class.inner {
        found += &format!(">{}", inner.name());
    }
    let letters = [
        (class.analyzes, 'A'),
        (class.writes, 'W'),
        (class.reshapes, 'R'),
        (class.is_temporary, 'T'),
        (class.locks_session, 'L'),
        (class.sets_session, 'S'),
        (class.names_own, 'O'),
        (class.is_broken, 'B'),
    ];
    let letters: String =
        letters.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
    if letters.is_empty() { found } else { format!("{found} {letters}") }
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(traits(text), *expected, "{text}");
        let text = format!("/* a */ {text} -- b");
        assert_eq!(traits(&text), *expected, "{text}");
    }
}

/// The action, and `+` if more text follows what was understood.
fn action(text: &str) -> String {
    let class = class(text);
    let name = |name: &Option<std::borrow::Cow<'_, str>>| name.as_deref().unwrap_or("*").to_owned();
    let found = match &class.action {
        Action::Begin(begin) => {
            let isolation = begin.isolation.map_or(String::new(), |level| format!(" {level:?}"));
            let read_only = begin.is_read_only.map_or("", |is| if is { " ro" } else { " rw" });
            let deferrable = begin.is_deferrable.map_or("", |is| if is { " d" } else { " nd" });
            format!("begin{isolation}{read_only}{deferrable}")
        }
        Action::Commit { chains } => format!("commit{}", if *chains { " chain" } else { "" }),
        Action::Rollback { chains } => format!("rollback{}", if *chains { " chain" } else { "" }),
        Action::Savepoint(name) => format!("savepoint {name}"),
        Action::Release(name) => format!("release {name}"),
        Action::RollbackTo(name) => format!("to {name}"),
        Action::Set(set) => {
            let local = if set.scope == Scope::Local { "local " } else { "" };
            let value = match &set.value {
                None => format!("({})", set.text),
                Some(Value::Default) => "default".to_owned(),
                Some(Value::Text(text)) => format!("<{text}>"),
            };
            format!("set {local}{}={value}", set.name)
        }
        Action::Reset(name) => format!("reset {name}"),
        Action::Show(name) => format!("show {name}"),
        Action::Listen(name) => format!("listen {name}"),
        Action::Notify(name) => format!("notify {name}"),
        Action::Unlisten(which) => format!("unlisten {}", name(which)),
        Action::Prepare(name) => format!("prepare {name}"),
        Action::Execute(name) => format!("execute {name}"),
        Action::Deallocate(which) => format!("deallocate {}", name(which)),
        Action::Close(which) => format!("close {}", name(which)),
        Action::Declare { name, is_held } => {
            format!("declare {name}{}", if *is_held { " hold" } else { "" })
        }
        Action::Copy(Transfer { writes_table, uses_client }) => {
            let place = if *uses_client { "client" } else { "server" };
            format!("copy {} {place}", if *writes_table { "from" } else { "to" })
        }
        other => format!("{other:?}"),
    };
    let more = if class.is_complete || class.action == Action::None { "" } else { " +" };
    format!("{found}{more}")
}

fn check_actions(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(action(text), *expected, "{text}");
        // Blanks, comments and small letters change nothing.
        let spaced = text.replace(' ', "/*x*/ \n");
        assert_eq!(action(&spaced).replace("/*x*/ \n", " "), *expected, "{spaced}");
        if !text.contains(['"', '\'', '$']) {
            let small = text.to_ascii_lowercase();
            assert_eq!(action(&small), expected.to_string(), "{small}");
        }
    }
}

#[test]
fn the_command_is_the_first_word() {
    check(&[
        ("SELECT 1", "SELECT"),
        ("((SELECT 1) UNION SELECT 2)", "SELECT"),
        ("VALUES (1)", "SELECT"),
        ("TABLE t", "SELECT"),
        ("insert into t values (1)", "INSERT W"),
        ("Update t SET a = 1", "UPDATE W"),
        ("DELETE FROM t", "DELETE W"),
        ("MERGE INTO t USING u ON a WHEN MATCHED THEN DELETE", "MERGE W"),
        ("CALL p()", "CALL W"),
        ("DO $$ BEGIN END $$", "DO W"),
        ("TRUNCATE t", "TRUNCATE W"),
        ("LOAD 'x'", "LOAD"),
        ("LOCK TABLE t", "LOCK"),
        ("FETCH 1 FROM c", "FETCH"),
        ("VACUUM t", "VACUUM W"),
        ("frobnicate", ""),
        ("\"select\" 1", ""),
        ("", ""),
        ("SELECT 'a", "SELECT B"),
    ]);
    assert_eq!(class("").command, Command::Empty);
    assert_eq!(class(" -- x").command, Command::Empty);
    assert_eq!(class("1").command, Command::Unknown);
    assert_eq!(classify("PRAGMA x", Dialect::Sqlite).command.name(), "PRAGMA");
    assert_eq!(classify("REPLACE INTO t VALUES (1)", Dialect::Sqlite).command.name(), "REPLACE");
}

#[test]
fn with_belongs_to_its_main_command() {
    check(&[
        ("WITH a AS (SELECT 1) SELECT * FROM a", "SELECT"),
        (
            "WITH RECURSIVE a(x) AS (SELECT 1), b AS MATERIALIZED (SELECT 2) INSERT INTO t SELECT 1",
            "INSERT W",
        ),
        ("WITH a AS (SELECT 1) UPDATE t SET x = 1", "UPDATE W"),
        ("WITH a AS (SELECT 1) DELETE FROM t", "DELETE W"),
        ("WITH a AS (SELECT 1) MERGE INTO t USING a ON x WHEN MATCHED THEN DELETE", "MERGE W"),
        ("WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a", "SELECT W"),
        ("WITH a AS NOT MATERIALIZED (UPDATE t SET x = 1 RETURNING *) SELECT 1", "SELECT W"),
        ("WITH a AS (WITH b AS (SELECT 1) INSERT INTO t SELECT 1 RETURNING x) TABLE a", "SELECT W"),
        ("WITH a AS (SELECT 1) (SELECT 2)", "SELECT"),
        ("WITH a AS (VALUES (1)) VALUES (2)", "SELECT"),
        // Names that look like commands.
        ("WITH update AS (SELECT 1), delete AS (SELECT 2) SELECT * FROM update", "SELECT"),
        ("WITH recursive AS (SELECT 1) SELECT 1", "SELECT"),
        ("WITH RECURSIVE insert AS (SELECT 1) SELECT 1", "SELECT"),
        ("WITH a(insert) AS (SELECT max(update) FROM t) SELECT (delete), 1", "SELECT"),
        ("WITH a AS (SELECT 1 FOR UPDATE) SELECT 1", "SELECT"),
        ("WITH a AS (SELECT 1) SEARCH DEPTH FIRST BY x, update SET insert SELECT 1", "SELECT"),
        ("WITH a AS (SELECT 1) SEARCH DEPTH FIRST BY x SET set UPDATE t SET x = 1", "UPDATE W"),
        (
            "WITH a AS (SELECT 1) CYCLE delete SET c TO true DEFAULT false USING merge DELETE FROM t",
            "DELETE W",
        ),
    ]);
}

#[test]
fn what_is_explained_prepared_declared_or_copied_is_seen() {
    check(&[
        ("EXPLAIN SELECT 1", "EXPLAIN>SELECT"),
        ("EXPLAIN DELETE FROM t", "EXPLAIN>DELETE"),
        ("EXPLAIN ANALYZE DELETE FROM t", "EXPLAIN>DELETE AW"),
        (
            "EXPLAIN ANALYSE VERBOSE WITH a AS (SELECT 1) INSERT INTO t SELECT 1",
            "EXPLAIN>INSERT AW",
        ),
        ("EXPLAIN (ANALYZE, BUFFERS) UPDATE t SET a = 1", "EXPLAIN>UPDATE AW"),
        ("EXPLAIN (FORMAT json, ANALYZE off) UPDATE t SET a = 1", "EXPLAIN>UPDATE"),
        ("EXPLAIN (COSTS, ANALYZE true) SELECT 1", "EXPLAIN>SELECT A"),
        ("EXPLAIN (SELECT 1)", "EXPLAIN>SELECT"),
        ("EXPLAIN ((SELECT 1))", "EXPLAIN>SELECT"),
        ("EXPLAIN WITH a AS (DELETE FROM t RETURNING 1) SELECT 1", "EXPLAIN>SELECT"),
        ("EXPLAIN ANALYZE WITH a AS (DELETE FROM t RETURNING 1) SELECT 1", "EXPLAIN>SELECT AW"),
        ("EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1", "EXPLAIN>CREATE AWRT"),
        ("EXPLAIN CREATE TEMP TABLE t AS SELECT 1", "EXPLAIN>CREATE"),
        ("EXPLAIN ANALYZE EXECUTE s", "EXPLAIN>EXECUTE AW"),
        ("EXPLAIN QUERY PLAN SELECT 1", "EXPLAIN>SELECT"),
        ("PREPARE s AS DELETE FROM t", "PREPARE>DELETE"),
        ("PREPARE s (int, text) AS WITH a AS (SELECT 1) SELECT 1", "PREPARE>SELECT"),
        ("DECLARE c CURSOR FOR SELECT 1", "DECLARE>SELECT"),
        ("COPY t FROM STDIN", "COPY W"),
        ("COPY t TO STDOUT", "COPY"),
        ("COPY (SELECT 1) TO STDOUT", "COPY>SELECT"),
        ("COPY (WITH a AS (SELECT 1) DELETE FROM t RETURNING 1) TO STDOUT", "COPY>DELETE W"),
    ]);
}

#[test]
fn session_state_is_seen_anywhere() {
    check(&[
        ("SELECT pg_advisory_lock(1)", "SELECT L"),
        ("SELECT 1 WHERE PG_CATALOG.Pg_Try_Advisory_Lock_Shared(1, 2)", "SELECT L"),
        ("SELECT \"pg_advisory_lock_shared\"(1)", "SELECT L"),
        ("EXECUTE s(pg_try_advisory_lock(1))", "EXECUTE WL"),
        ("SELECT pg_advisory_xact_lock(1), pg_advisory_unlock(1), 'pg_advisory_lock'", "SELECT"),
        ("SELECT set_config('a', 'b', false)", "SELECT S"),
        ("SELECT pg_catalog.set_config('a', f(1, 2), $1)", "SELECT S"),
        ("SELECT set_config('a', f(1, 2), TRUE)", "SELECT"),
        ("SELECT set_config('a', 'b', true), set_config('a', 'b', false)", "SELECT S"),
        ("SELECT set_config('a', 'b', true AND false)", "SELECT S"),
        ("SELECT set_config('a', 'b', NOT true)", "SELECT S"),
        ("SELECT set_config('a', 'b', (true))", "SELECT S"),
        ("SELECT set_config('a', set_config('b', 'c', true), true)", "SELECT S"),
        ("SELECT set_config('a', 'b'", "SELECT S"),
        ("SELECT \"set_config\" ('a', 'b', false)", "SELECT S"),
        ("SELECT set_config FROM t", "SELECT"),
        ("SELECT * FROM pg_temp.t", "SELECT T"),
        ("SELECT * FROM pg_temp_3.t", "SELECT T"),
        ("SELECT * FROM pg_temperature", "SELECT"),
        ("CREATE FUNCTION pg_temp.f() RETURNS int AS 'x'", "CREATE WRT"),
        ("CREATE TEMP TABLE t (a int)", "CREATE WRT"),
        ("CREATE LOCAL TEMPORARY VIEW v AS SELECT 1", "CREATE WRT"),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT 1", "CREATE WRT"),
        ("CREATE TEMP SEQUENCE s", "CREATE WT"),
        ("CREATE TABLE temp (a int)", "CREATE WR"),
        ("SELECT 1 INTO TEMP t", "SELECT WRT"),
        ("SELECT 1 INTO LOCAL TEMPORARY TABLE t FROM u", "SELECT WRT"),
        ("WITH a AS (SELECT 1) SELECT 1 INTO TEMP t", "SELECT WRT"),
        ("SELECT 1 INTO t", "SELECT WR"),
        ("INSERT INTO temp VALUES (1)", "INSERT W"),
        ("WITH a AS (INSERT INTO temp VALUES (1)) SELECT 1", "SELECT W"),
        ("EXPLAIN SELECT 1 INTO TEMP t", "EXPLAIN>SELECT T"),
    ]);
}

#[test]
fn changes_of_shape_are_seen() {
    check(&[
        ("ALTER TABLE t ADD a int", "ALTER WR"),
        ("DROP VIEW v", "DROP WR"),
        ("CREATE OR REPLACE FUNCTION f() RETURNS int RETURN 1", "CREATE WR"),
        ("CREATE UNLOGGED TABLE t (a int)", "CREATE WR"),
        ("IMPORT FOREIGN SCHEMA s FROM SERVER x INTO y", "IMPORT WR"),
        ("DROP OWNED BY u", "DROP WR"),
        ("CREATE INDEX i ON t (a)", "CREATE W"),
        ("CREATE UNIQUE INDEX i ON t (a)", "CREATE W"),
        ("ALTER SYSTEM SET a = 1", "ALTER W"),
        ("ALTER ROLE r SET a = 1", "ALTER W"),
    ]);
}

#[test]
fn own_names_are_seen() {
    check(&[
        ("SELECT comdb2_list_pools()", "SELECT O"),
        ("SELECT * FROM Comdb2_Ruleset", "SELECT O"),
        ("SELECT * FROM \"comdb2_ruleset\"", "SELECT O"),
        ("SELECT * FROM paceline.activity", "SELECT O"),
        ("SELECT * FROM \"paceline\" . activity", "SELECT O"),
        ("SELECT * FROM paceline", "SELECT"),
        ("SELECT 'comdb2_x', comdb2, a.paceline", "SELECT"),
        ("EXECUTE s(comdb2_why(1))", "EXECUTE WO"),
    ]);
}

#[test]
fn transactions_begin_and_end() {
    check_actions(&[
        ("BEGIN", "begin"),
        ("BEGIN WORK", "begin"),
        ("BEGIN TRANSACTION", "begin"),
        ("START TRANSACTION", "begin"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "begin Serializable"),
        ("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", "begin RepeatableRead ro"),
        ("START TRANSACTION READ WRITE NOT DEFERRABLE", "begin rw nd"),
        ("BEGIN ISOLATION LEVEL READ UNCOMMITTED DEFERRABLE", "begin ReadUncommitted d"),
        ("BEGIN ISOLATION LEVEL READ COMMITTED", "begin ReadCommitted"),
        ("BEGIN IMMEDIATE TRANSACTION", "begin +"),
        ("BEGIN NONSENSE", "begin +"),
        ("BEGIN READ", "begin +"),
        ("START", "None"),
        ("COMMIT", "commit"),
        ("END WORK", "commit"),
        ("COMMIT AND CHAIN", "commit chain"),
        ("COMMIT TRANSACTION AND NO CHAIN", "commit"),
        ("COMMIT AND", "commit +"),
        ("ROLLBACK", "rollback"),
        ("ABORT", "rollback"),
        ("ROLLBACK WORK AND CHAIN", "rollback chain"),
        ("ROLLBACK TO a", "to a"),
        ("ROLLBACK TRANSACTION TO SAVEPOINT a", "to a"),
        ("ROLLBACK TO SAVEPOINT", "to savepoint"),
        ("ROLLBACK TO", "None"),
        ("SAVEPOINT a", "savepoint a"),
        ("SAVEPOINT \"A b\"", "savepoint A b"),
        ("RELEASE a", "release a"),
        ("RELEASE SAVEPOINT a", "release a"),
        ("PREPARE TRANSACTION 'x'", "PrepareTransaction"),
        ("COMMIT PREPARED 'x'", "FinishPrepared"),
        ("ROLLBACK PREPARED 'x'", "FinishPrepared"),
    ]);
    let begin = class("BEGIN ISOLATION LEVEL SERIALIZABLE");
    let Action::Begin(begin) = begin.action else { panic!("{begin:?}") };
    assert_eq!(begin.isolation, Some(Isolation::Serializable));
    for (text, dialect, is_complete) in [
        ("BEGIN IMMEDIATE TRANSACTION", Dialect::Sqlite, true),
        ("BEGIN DEFERRED", Dialect::Sqlite, true),
        ("BEGIN READ ONLY", Dialect::Sqlite, false),
        ("BEGIN WORK TRANSACTION", Dialect::Postgres, false),
    ] {
        assert_eq!(classify(text, dialect).is_complete, is_complete, "{text}");
    }
}

#[test]
fn settings_have_a_name_a_scope_and_a_value() {
    check_actions(&[
        ("SET a = 1", "set a=<1>"),
        ("SET a TO b", "set a=<b>"),
        ("SET SESSION a = 'it''s'", "set a=<it's>"),
        ("SET LOCAL a = -1.5", "set local a=<-1.5>"),
        ("SET a.b.c = on", "set a.b.c=<on>"),
        ("SET \"A\" = \"B\"", "set A=<B>"),
        ("SET a = DEFAULT", "set a=default"),
        ("SET a = $$x$$", "set a=<x>"),
        ("SET a = $t$x$t$", "set a=<x>"),
        ("SET a = E'x'", "set a=<x>"),
        ("SET a = E'\\x'", "set a=(E'\\x')"),
        ("SET search_path TO a, b", "set search_path=(a, b) +"),
        ("SET search_path = ''", "set search_path=<>"),
        ("SET TIME ZONE 'UTC'", "set timezone=<UTC>"),
        ("SET LOCAL TIME ZONE LOCAL", "set local timezone=default"),
        ("SET TIME ZONE INTERVAL '1' HOUR", "set timezone=(INTERVAL '1' HOUR) +"),
        ("SET timezone = utc", "set timezone=<utc>"),
        ("SET SCHEMA 'x'", "set search_path=<x>"),
        ("SET NAMES 'utf8'", "set client_encoding=<utf8>"),
        ("SET NAMES", "set client_encoding=default"),
        ("SET ROLE NONE", "set role=<none>"),
        ("SET role = x", "set role=<x>"),
        ("SET LOCAL ROLE x", "set local role=<x>"),
        ("SET SESSION AUTHORIZATION x", "set session_authorization=<x>"),
        ("SET SESSION SESSION AUTHORIZATION DEFAULT", "set session_authorization=default"),
        ("SET LOCAL SESSION AUTHORIZATION x", "set local session_authorization=<x>"),
        ("SET XML OPTION DOCUMENT", "set xmloption=<document>"),
        ("SET session = 1", "set session=<1>"),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SetTransaction"),
        ("SET LOCAL TRANSACTION READ ONLY", "SetTransaction"),
        ("SET TRANSACTION SNAPSHOT 'x'", "SetTransaction +"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SetCharacteristics"),
        ("SET CONSTRAINTS ALL DEFERRED", "SetConstraints +"),
        ("SET a", "None"),
        ("RESET a.b", "reset a.b"),
        ("RESET ALL", "ResetAll"),
        ("RESET TIME ZONE", "reset timezone"),
        ("RESET SESSION AUTHORIZATION", "reset session_authorization"),
        ("SHOW TRANSACTION ISOLATION LEVEL", "show transaction_isolation"),
        ("SHOW ALL", "show all"),
        ("SHOW a", "show a"),
    ]);
}

#[test]
fn what_stays_in_the_session_has_a_name() {
    check_actions(&[
        ("LISTEN a", "listen a"),
        ("UNLISTEN *", "unlisten *"),
        ("UNLISTEN a", "unlisten a"),
        ("NOTIFY a", "notify a"),
        ("NOTIFY a, 'x'", "notify a +"),
        ("PREPARE a AS SELECT 1", "prepare a +"),
        ("PREPARE transaction AS SELECT 1", "prepare transaction +"),
        ("EXECUTE a", "execute a"),
        ("EXECUTE a(1)", "execute a +"),
        ("EXPLAIN EXECUTE a", "execute a"),
        ("DEALLOCATE a", "deallocate a"),
        ("DEALLOCATE PREPARE a", "deallocate a"),
        ("DEALLOCATE prepare", "deallocate prepare"),
        ("DEALLOCATE ALL", "deallocate *"),
        ("DEALLOCATE PREPARE ALL", "deallocate *"),
        ("DEALLOCATE \"all\"", "deallocate all"),
        ("DISCARD ALL", "Discard(All)"),
        ("DISCARD PLANS", "Discard(Plans)"),
        ("DISCARD SEQUENCES", "Discard(Sequences)"),
        ("DISCARD TEMP", "Discard(Temporary)"),
        ("DISCARD ALL x", "Discard(All) +"),
        ("DISCARD x", "None"),
        ("DECLARE a CURSOR FOR SELECT 1", "declare a +"),
        ("DECLARE a BINARY SCROLL CURSOR WITH HOLD FOR SELECT 1", "declare a hold +"),
        ("DECLARE a CURSOR WITHOUT HOLD FOR SELECT 1", "declare a +"),
        ("CLOSE a", "close a"),
        ("CLOSE ALL", "close *"),
        ("COPY t FROM STDIN", "copy from client"),
        ("COPY t (a, b) FROM STDIN WITH (FORMAT csv)", "copy from client +"),
        ("COPY t FROM '/x'", "copy from server +"),
        ("COPY t TO STDOUT", "copy to client"),
        ("COPY (SELECT a FROM b) TO STDOUT", "copy to client +"),
        ("COPY (SELECT 1) TO PROGRAM 'x'", "copy to server +"),
        ("COPY t", "None"),
        ("SELECT 1", "None"),
    ]);
    assert_eq!(class("DISCARD TEMPORARY").action, Action::Discard(Discard::Temporary));
}

#[test]
fn names_are_folded_and_cut_as_postgres_stores_them() {
    for (written, stored) in [
        ("AbC", "abc".to_owned()),
        ("\"AbC\"", "AbC".to_owned()),
        ("\"a\"\"b\"", "a\"b".to_owned()),
        ("U&\"ab\"", "ab".to_owned()),
        ("u&\"\\0061\"", "u&\"\\0061\"".to_owned()),
        (&"x".repeat(IDENTIFIER_BYTES_MAX), "x".repeat(IDENTIFIER_BYTES_MAX)),
        (&"X".repeat(IDENTIFIER_BYTES_MAX + 1), "x".repeat(IDENTIFIER_BYTES_MAX)),
        (&format!("\"{}\"", "é".repeat(40)), "é".repeat(31)),
    ] {
        let text = format!("DEALLOCATE {written}");
        assert_eq!(class(&text).action, Action::Deallocate(Some(stored.into())), "{written}");
    }
}
