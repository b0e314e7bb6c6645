//! Texts that are composed of known statements: the splitter must find them again, and the class must know them.

use super::{Dice, check};
use crate::text::{Command, Dialect, classify, split};

/// A statement, and what must be found out about it.
struct Known {
    text: String,
    command: Command,
    writes: bool,
}

/// Values, names and comments that contain what ends other things.
fn piece(dice: &mut Dice, dialect: Dialect) -> &'static str {
    let common = [
        "1",
        "a",
        "';'",
        "'it''s ;'",
        "\";\"",
        "\"a\"\";\"",
        "/* ; ' */ 1",
        "1 -- ; ' $$\n",
        "(a)",
        "t.end",
        "'BEGIN ATOMIC'",
    ];
    let postgres = [
        "$$;'$$",
        "$x$ ; $$ ; $x$",
        "E'\\';'",
        "E'\\\\'",
        "/* /* ; */ ' */ 1",
        "U&';'",
        "U&\";\"",
        "B'1'",
        "$1::int",
        "E'a'\n'\\';'",
        "'a'\n';'",
        "CASE WHEN a THEN 1 END",
        "a -> ';'",
        "'\\'",
        "1 -- ;\r",
    ];
    let sqlite = [
        "[;]",
        "`;`",
        "/* /* ; */ 1",
        "?1",
        ":a",
        "@b",
        "'\\'",
        "1 -- ;\r;\n",
        "CASE WHEN a THEN 1 END",
        "x'0a'",
    ];
    let own: &[&str] = if dialect == Dialect::Sqlite { &sqlite } else { &postgres };
    if dice.roll(2) == 0 { dice.pick(&common) } else { dice.pick(own) }
}

/// A list of such pieces.
fn list(dice: &mut Dice, dialect: Dialect) -> String {
    let pieces: Vec<_> = (0..=dice.roll(3)).map(|_| piece(dice, dialect)).collect();
    pieces.join(" , ")
}

/// A statement without a body.
fn simple(dice: &mut Dice, dialect: Dialect) -> Known {
    let list = list(dice, dialect);
    let (text, command, writes) = match dice.roll(10) {
        0 => (format!("SELECT {list}"), Command::Select, false),
        1 => (format!("INSERT INTO t VALUES ({list})"), Command::Insert, true),
        2 => (format!("UPDATE t SET a = ({list})"), Command::Update, true),
        3 => (format!("DELETE FROM t WHERE a IN ({list})"), Command::Delete, true),
        4 => (format!("VALUES ({list})"), Command::Select, false),
        5 => (format!("WITH a AS (SELECT {list}) SELECT {list}"), Command::Select, false),
        6 => (
            format!("WITH a AS (SELECT {list}), b AS (SELECT 1) DELETE FROM t"),
            Command::Delete,
            true,
        ),
        7 => {
            (format!("WITH a AS (DELETE FROM t RETURNING {list}) SELECT 1"), Command::Select, true)
        }
        8 => (format!("/* ; */ CREATE TABLE u AS SELECT {list}"), Command::Create, true),
        _ => (format!("EXPLAIN SELECT {list}"), Command::Explain, false),
    };
    Known { text, command, writes }
}

/// A statement that may contain others.
fn statement(dice: &mut Dice, dialect: Dialect) -> Known {
    let create = |text: String| Known { text, command: Command::Create, writes: true };
    let body = |dice: &mut Dice| -> String {
        (0..=dice.roll(3)).map(|_| simple(dice, dialect).text + "\n; ").collect()
    };
    match (dice.roll(12), dialect) {
        (0, Dialect::Sqlite) => {
            create(format!("CREATE TRIGGER a AFTER INSERT ON t BEGIN {} END", body(dice)))
        }
        (0, _) => {
            create(format!("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC {} END", body(dice)))
        }
        (1, Dialect::Postgres) => {
            let (one, two) = (body(dice), body(dice));
            create(format!(
                "CREATE SCHEMA s CREATE PROCEDURE p() BEGIN ATOMIC {one} END CREATE FUNCTION f() RETURNS int BEGIN ATOMIC CREATE FUNCTION g() RETURNS int BEGIN ATOMIC {two} END; END"
            ))
        }
        (2, Dialect::Postgres) => {
            create(format!("CREATE RULE r AS ON INSERT TO t DO ({})", body(dice)))
        }
        (3, _) => Known { text: "BEGIN".to_owned(), command: Command::Begin, writes: false },
        (4, _) => Known { text: "END".to_owned(), command: Command::Commit, writes: false },
        _ => simple(dice, dialect),
    }
}

#[test]
fn composed_texts_are_split_into_what_they_were_composed_of() {
    let mut dice = Dice(2024);
    for round in 0..6_000 {
        let dialect = if round % 3 == 0 { Dialect::Sqlite } else { Dialect::Postgres };
        let known: Vec<Known> = (0..=dice.roll(4)).map(|_| statement(&mut dice, dialect)).collect();
        let mut text = String::new();
        for known in &known {
            text += dice.pick(&["", " ", "\n\t", ";", " ; /* ; */ ; ", "-- ; '\n;"]);
            // A line comment may be the last thing in a statement, and would swallow the `;`.
            text += &known.text;
            text += dice.pick(&["\n;", "\n ; ", "\n;;"]);
        }
        check(&text, dialect);
        let found: Vec<&str> = split(&text, dialect).map(|place| &text[place]).collect();
        let expected: Vec<&str> = known.iter().map(|known| known.text.trim_end()).collect();
        assert_eq!(found, expected, "{text}");
        for (known, found) in known.iter().zip(found) {
            let class = classify(found, dialect);
            assert_eq!((class.command, class.writes), (known.command, known.writes), "{found}");
            assert!(!class.is_broken, "{found}");
        }
    }
}
