//! Tests of the whole module with made-up texts: what must hold for any text, and a model that knows the statements it
//! wrote.

mod model;

use super::{Dialect, Lexer, Tags, classify, fingerprint, normalize, split};

const DIALECTS: [Dialect; 3] = [Dialect::Postgres, Dialect::PostgresBackslash, Dialect::Sqlite];

/// A small generator of numbers, the same on every run for the same seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// What must hold for any text.
fn check(text: &str, dialect: Dialect) {
    let mut end = 0;
    for token in Lexer::new(text, dialect) {
        assert!(token.start == end && token.end > end, "no gap, no overlap: {text:?}");
        assert!(text.is_char_boundary(token.end), "{text:?}");
        end = token.end;
    }
    assert_eq!(end, text.len(), "{text:?}");
    let mut end = 0;
    let mut form = String::new();
    for place in split(text, dialect) {
        assert!(place.start >= end && place.end > place.start, "in order: {text:?}");
        end = place.end;
        let piece = &text[place];
        let mut again = split(piece, dialect);
        let first = again.next().expect("a statement has a token");
        assert_eq!(first, 0..piece.len(), "a statement is one statement: {piece:?}");
        assert_eq!(again.next(), None, "a statement is one statement: {piece:?}");
        assert!(classify(piece, dialect).command != super::Command::Empty, "{piece:?}");
        fingerprint(piece, dialect, &mut form);
        assert!(form.ends_with(';') && form.len() <= 7 * piece.len() + 8, "{piece:?}: {form:?}");
    }
    classify(text, dialect);
    normalize(text, dialect, &mut form);
    assert!(Tags::new(text, dialect).count() <= super::TAGS_MAX);
}

const FRAGMENTS: &[&str] = &[
    "'",
    "''",
    "\"",
    "`",
    "[",
    "]",
    "$",
    "$$",
    "$a$",
    "$1",
    "\\",
    "\\'",
    "/*",
    "*/",
    "/",
    "*",
    "--",
    "-",
    "\n",
    "\r",
    " ",
    ";",
    "(",
    ")",
    ",",
    ".",
    ":",
    "::",
    "?",
    "@",
    "{",
    "}",
    "E'",
    "U&'",
    "u&\"",
    "x'",
    "B'",
    "n'",
    "0x",
    "1_0",
    "1e",
    ".5",
    "é",
    "😀",
    "\0",
    "CREATE ",
    "OR REPLACE ",
    "FUNCTION f() ",
    "BEGIN ",
    "ATOMIC ",
    "END",
    "CASE ",
    "TRIGGER ",
    "RULE ",
    "SCHEMA ",
    "AS ",
    "WITH ",
    "SELECT ",
    "INSERT ",
    "INTO ",
    "TEMP ",
    "IN (",
    "NULL",
    "IS ",
    "NOT ",
    "FROM ",
    "SET ",
    "EXEC PROCEDURE ",
    "EXPLAIN (",
    "ANALYZE",
    "COPY ",
    "PREPARE a AS ",
    "DECLARE ",
    "FOR ",
    "set_config(",
    "true",
    "a='1'",
];

#[test]
fn any_text_is_covered_split_and_read_without_a_panic() {
    let mut dice = Dice(14);
    for _ in 0..30_000 {
        let text: String = (0..dice.roll(14)).map(|_| dice.pick(FRAGMENTS)).collect();
        for dialect in DIALECTS {
            check(&text, dialect);
        }
    }
}

#[test]
fn long_texts_are_read_in_linear_time() {
    for fragment in FRAGMENTS {
        let text = fragment.repeat(250_000 / fragment.len());
        for dialect in DIALECTS {
            classify(&text, dialect);
            normalize(&text, dialect, &mut String::new());
            assert!(Tags::new(&text, dialect).count() <= super::TAGS_MAX);
        }
    }
}

/// A word of a template: `?` is a value, a word in capitals a keyword, and every word changes its case.
fn rendered(dice: &mut Dice, word: &str, dialect: Dialect) -> String {
    let values: &[&str] = match dialect {
        Dialect::Sqlite => {
            &["1", "1.5e-3", "'a; b'", "'it''s'", "x'00ff'", "?", ":name", "NULL", "0x1F"]
        }
        _ => &[
            "1", "1.5e-3", "'a; b'", "'it''s'", "x'0f'", "$1", "$$ ' $$", "$t$;$t$", "E'\\'--'",
            "NULL", "'a'\n'b'", "1_000",
        ],
    };
    match word {
        "?" => dice.pick(values).to_owned(),
        "?,?" => (0..=dice.roll(4)).map(|_| dice.pick(values)).collect::<Vec<_>>().join(", "),
        _ if dice.roll(2) == 0 => word.to_ascii_lowercase(),
        _ => word.to_ascii_uppercase(),
    }
}

#[test]
fn values_blanks_comments_and_case_do_not_change_a_fingerprint() {
    let templates = [
        "SELECT a , ? + b , count ( * ) FROM t WHERE x IN ( ?,? ) AND y = ? OR z IS NOT NULL",
        "INSERT INTO t ( a , b ) VALUES ( ? , ? ) , ( ? , f ( ? ) )",
        "UPDATE t SET a = ? || b WHERE c BETWEEN ? AND ? AND d IN ( SELECT e FROM u LIMIT ? )",
        "WITH w AS ( SELECT ? ) DELETE FROM t WHERE a IN ( ?,? ) AND b <> ?",
        "SELECT CASE a WHEN ? THEN ? ELSE b END FROM t JOIN u ON t . id = u . id ORDER BY ?",
    ];
    let mut dice = Dice(7);
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let nested = if dialect == Dialect::Sqlite { "/* ; ' */" } else { "/* ; /* ' */ */" };
        let blanks = [" ", "\n", "\t \n", " -- it's ; one\n", "/* a */", nested];
        for template in templates {
            let mut seen: Option<(String, String)> = None;
            for _ in 0..200 {
                let mut text = String::new();
                for word in template.split(' ') {
                    text += &rendered(&mut dice, word, dialect);
                    text += dice.pick(&blanks);
                }
                let mut form = String::new();
                let found = fingerprint(&text, dialect, &mut form).to_string();
                let expected = seen.get_or_insert_with(|| (form.clone(), found.clone()));
                assert_eq!(*expected, (form, found), "{text}");
            }
        }
    }
}
