//! No text that a user writes overflows the stack, panics or grows without bound.

use super::{Dice, Names, good, request};
use crate::{BRACKETS_MAX, CompileError, DEPTH_MAX, EvalError, Kind, STRING_BYTES_MAX, compile};
use paceline_types::limits::{ATTRIBUTE_NAME_BYTES_MAX, EXPRESSION_BYTES_MAX};

fn bad(text: &str) -> CompileError {
    compile(text, Kind::Condition, &Names).expect_err(text)
}

/// Runs on a quarter of the usual stack of a thread.
fn on_a_small_stack(work: fn()) {
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work).unwrap();
    thread.join().unwrap();
}

#[test]
fn an_expression_has_a_longest_length() {
    let longest = format!("true{}", " ".repeat(EXPRESSION_BYTES_MAX - 4));
    good(&longest, Kind::Condition);
    let error = bad(&format!("{longest} "));
    assert_eq!(error.offset, EXPRESSION_BYTES_MAX);
    assert_eq!(error.message, "an expression may have at most 4096 bytes");
    let split = format!("{}é", "x".repeat(EXPRESSION_BYTES_MAX - 1));
    assert_eq!(bad(&split).offset, EXPRESSION_BYTES_MAX - 1, "at the start of a character");
}

#[test]
fn brackets_nest_to_a_limit() {
    on_a_small_stack(|| {
        for (open, value, close) in [
            ("(", "true", ")"),
            ("!(", "true", ")"),
            ("(true && ", "true", ")"),
            ("(false ? true : ", "true", ")"),
            ("string(", "true", ")"),
            ("-(", "priority", ")"),
        ] {
            let nested = |depth| format!("{}{value}{}", open.repeat(depth), close.repeat(depth));
            let deepest = if open == "(" { BRACKETS_MAX } else { BRACKETS_MAX - 1 };
            good(&nested(deepest), Kind::Key);
            let error = bad(&nested(BRACKETS_MAX + 1));
            assert_eq!(error.message, "more than 32 brackets are open at once");
            assert_eq!(
                error.offset,
                (BRACKETS_MAX + 1) * open.len() - open.len() + open.find('(').unwrap()
            );
        }
    });
}

#[test]
fn the_deepest_brackets_fit_a_small_stack() {
    on_a_small_stack(|| {
        for (open, close) in [
            ("[", "]"),
            ("header[", "]"),
            ("1 in [", "]"),
            ("user.size(", ")"),
            ("rate('total', ", ")"),
            ("(user ? user && ", " : user)"),
            ("(user == user + -", ")"),
        ] {
            for depth in [BRACKETS_MAX / 2, BRACKETS_MAX] {
                let text = format!("{}user{}", open.repeat(depth), close.repeat(depth));
                bad(&text);
            }
        }
    });
}

#[test]
fn operators_in_a_row_have_a_limit() {
    on_a_small_stack(|| {
        for operator in ["+", "*", "-", "%"] {
            let chain = |n: usize| format!("1{}", format!("{operator}1").repeat(n));
            good(&chain(DEPTH_MAX - 1), Kind::Weight);
            let error = bad(&chain(DEPTH_MAX));
            assert_eq!(error.message, "the expression has more than 64 levels");
            assert_eq!(error.offset, 2 * DEPTH_MAX - 1, "at the operator that is too much");
        }
        let choices = |n: usize| format!("{}1", "true?1:".repeat(n));
        good(&choices(DEPTH_MAX - 1), Kind::Weight);
        assert_eq!(bad(&choices(DEPTH_MAX)).message, "the expression has more than 64 levels");
        let mixed = format!("{}1{}", "(1+1+1+".repeat(20), ")".repeat(20));
        assert_eq!(bad(&mixed).message, "the expression has more than 64 levels");
    });
}

#[test]
fn long_lists_and_chains_of_logic_are_flat() {
    on_a_small_stack(|| {
        for operator in ["||", "&&"] {
            let part = "user=='a'";
            let parts = EXPRESSION_BYTES_MAX / (part.len() + 2);
            good(&vec![part; parts].join(operator), Kind::Condition);
        }
        good(&format!("user in [{}'b']", "'a',".repeat(1_000)), Kind::Condition);
        good(&format!("user == '{}'", "x".repeat(4_000)), Kind::Condition);
    });
}

#[test]
fn four_kilobytes_of_anything_are_refused_in_peace() {
    on_a_small_stack(|| {
        for part in [
            "(",
            "!",
            "-",
            "[",
            "{",
            ")",
            "]",
            "a?a:",
            "true?1:",
            "a?",
            "?",
            ":",
            "\"",
            "'",
            "\"\"+",
            "'a'+",
            "1+",
            "1-",
            "--",
            "!-",
            "1<",
            "a.",
            "a.b(",
            "f(",
            "header[",
            "a[",
            "//",
            "/",
            "\\",
            "a||",
            "a&&",
            "!(",
            "-(",
            "[[],",
            "1,",
            ",",
            "é",
            "\u{0}",
            "0x",
            "1.",
            "1e",
            ".",
            "r\"",
            "b'",
            "a in ",
            "in ",
            "`",
            "((a))&&",
            "(a)+(",
            "size(size(",
            "\n",
            "'''",
            "true ",
        ] {
            let text = part.repeat(EXPRESSION_BYTES_MAX / part.len());
            bad(&text);
            let closed = format!("{}true", &text[..text.len() - 4 * part.len()]);
            let _ = compile(&closed, Kind::Condition, &Names);
        }
    });
}

#[test]
fn produced_strings_have_a_limit() {
    let mut request = request();
    request.attributes.set("text", &"x".repeat(STRING_BYTES_MAX)).unwrap();
    let key = |text: &str| good(text, Kind::Key).key(&request).map(|key| key.len());
    assert_eq!(key("text"), Ok(STRING_BYTES_MAX), "what is only read may be longer");
    assert_eq!(key("'' + text"), Ok(STRING_BYTES_MAX));
    assert_eq!(key("'a' + text"), Err(EvalError::TooLong { at: 4 }));
    assert_eq!(key("(text + '') + ('' + 'b')"), Err(EvalError::TooLong { at: 12 }));
    assert_eq!(key("text.upperAscii()"), Ok(STRING_BYTES_MAX));
    let mut longer = super::request();
    longer.attributes.set("text", &"x".repeat(STRING_BYTES_MAX + 1)).unwrap();
    let upper = good("text.upperAscii()", Kind::Key);
    assert_eq!(upper.key(&longer), Err(EvalError::TooLong { at: 15 }));
    let lower = good("text.lowerAscii()", Kind::Key);
    assert!(lower.key(&longer).is_ok(), "nothing is produced");
    assert_eq!(good("size(text) == 65537", Kind::Condition).condition(&longer), Ok(true));
}

#[test]
fn names_of_attributes_have_a_limit() {
    let header = |len: usize| format!("header['{}'] == ''", "n".repeat(len));
    let longest = ATTRIBUTE_NAME_BYTES_MAX - "header.".len();
    good(&header(longest), Kind::Condition);
    let error = bad(&header(longest + 1));
    assert_eq!(error.message, "an attribute name may have at most 256 bytes");
    assert_eq!(error.offset, 7);
}

const SEEDS: [&str; 18] = [
    "user == \"etl\" && path.startsWith(\"/api/\") && rate(\"per-user\", user) > 100.0",
    "rate('per-user', user) > 100.0 || waiting('batch') > 50",
    "header[\"x-user\"] + '@' + host",
    "user in ['a', 'b', \"etl\"] ? 10 : (user == 'web' ? 5 : 1)",
    "int(header.n) % 3 == 0 && !(priority < -5)",
    "'Übersicht' + path.lowerAscii() + string(1.5e3)",
    "-(priority + 1) * 2 - -3 / 0x1f",
    "inflight('total') >= 7u || queued('per-user', attr['shift']) <= 1",
    "size(text) > 10 && text.contains(r\"\\d\") && text.endsWith('''x''')",
    "double('1.5') / 0.0 != 2.0 || 2.5 in [1, 2.5]",
    "tag.job.upperAscii() == 'NIGHTLY' // comment",
    "true ? false ? 1 : 2 : 3",
    "header.all(x, x)",
    "has(header.x)",
    "\"\\u00e9\\n\" < '\\x41'",
    "((user)) == cookie[\"Id\"]",
    "{'a': 1}.a[?0].?b",
    "9223372036854775807 + 1 > 0 || true",
];

const PIECES: [&str; 52] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\\",
    "`",
    ".",
    ",",
    "?",
    ":",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "=",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "&",
    " in ",
    "//",
    "\n",
    "\r",
    "\u{0}",
    "é",
    "😀",
    "0",
    "9223372036854775808",
    "0x",
    "1.",
    "1e5",
    "e",
    "u",
    "r'",
    "b\"",
    "'''",
    "user",
    "header",
    "rate(",
    "true",
    "null",
    "if",
    "has(",
];

fn mutated(dice: &mut Dice) -> String {
    let mut text: Vec<char> = dice.pick(&SEEDS).chars().collect();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(text.len() + 1);
        let end = (at + dice.roll(8)).min(text.len());
        match dice.roll(5) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..at, dice.pick(&PIECES).chars())),
            2 => drop(text.splice(at..end, dice.pick(&PIECES).chars())),
            3 => {
                let copy = text[at..end].to_vec();
                let to = dice.roll(text.len() + 1);
                drop(text.splice(to..to, copy));
            }
            _ => {
                let other: Vec<char> = dice.pick(&SEEDS).chars().collect();
                let from = dice.roll(other.len());
                drop(text.splice(at..end, other[from..].iter().take(20).copied()));
            }
        }
    }
    text.into_iter().collect()
}

#[test]
fn mutated_expressions_never_panic() {
    let (mut dice, request) = (Dice(7), request());
    let (mut compiled, mut refused) = (0, 0);
    for round in 0..20_000 {
        let text = mutated(&mut dice);
        let kind = *dice.pick(&[Kind::Condition, Kind::Key, Kind::Weight]);
        match compile(&text, kind, &Names) {
            Ok(expr) => {
                compiled += 1;
                let _ = (expr.condition(&request), expr.key(&request), expr.weight(&request));
            }
            Err(error) => {
                refused += 1;
                assert!(text.is_char_boundary(error.offset), "round {round}: {text:?}");
            }
        }
    }
    assert!(compiled > 500 && refused > 5_000, "{compiled} compiled, {refused} refused");
}
