//! Globs are compared with the equivalent regular expressions.

use super::{Glob, Parsed};
use crate::classes::Classes;
use crate::error::Fault;
use crate::fold::Fold;
use crate::tests::random::Random;
use crate::tests::reference::regex_of;
use crate::{Criterion, PatternMode};
use paceline_types::{Known, Name};

fn compile(glob: &str) -> Glob {
    Parsed::new(glob, None).unwrap().compile(&mut Classes::default()).unwrap()
}

fn check(glob: &str, yes: &[&str], no: &[&str]) {
    let compiled = compile(glob);
    for (texts, expected) in [(yes, true), (no, false)] {
        for text in texts {
            assert_eq!(compiled.matches(text), expected, "{glob} {text}");
        }
    }
}

#[test]
fn a_glob_matches_the_whole_text() {
    check("", &[""], &["a"]);
    check("abc", &["abc"], &["abcd", "xabc", ""]);
    check("*", &["", "a", "a\nb"], &[]);
    check("etl-*", &["etl-", "etl-1"], &["etl", "xetl-1"]);
    check("*-etl", &["-etl", "a-etl"], &["etl", "a-etl1"]);
    check("a?c", &["abc", "aéc"], &["ac", "abbc"]);
    check("a*b*c", &["abc", "aXbYc", "abcbc"], &["acb", "ab"]);
    check("ab*ba", &["abba", "abxba"], &["aba"]);
    check("*ab?c*", &["xabbc", "ababxcx"], &["abc"]);
}

#[test]
fn sets_and_escapes() {
    check("[abc]", &["a", "c"], &["d", "", "ab"]);
    check("[a-c]x", &["bx"], &["dx"]);
    check("[!a-c]", &["d", "é"], &["a", ""]);
    check("[]a]", &["]", "a"], &["b"]);
    check("[!]a]", &["b"], &["]", "a"]);
    check("[a-]", &["a", "-"], &["b"]);
    check("[-a]", &["a", "-"], &["b"]);
    check("[a\\-c]", &["a", "-", "c"], &["b"]);
    check("[a^]", &["a", "^"], &["b"]);
    check("\\*\\[\\\\", &["*[\\"], &["x[\\"]);
    check("a]", &["a]"], &["a"]);
}

#[test]
fn wrong_globs_say_where() {
    for (glob, column, message) in [
        ("é[ab", 2, "this set has no closing bracket"),
        ("[]", 1, "this set has no closing bracket"),
        ("[!]", 1, "this set has no closing bracket"),
        ("a\\", 2, "expected a character after the last backslash"),
        ("[a\\", 3, "expected a character after the last backslash"),
        ("x[z-a]", 3, "the range z-a is empty, expected its lower end first"),
    ] {
        match Parsed::new(glob, None).map(|_| ()) {
            Err(Fault::Pattern { message: found, column: at, line: 1, .. }) => {
                assert_eq!((at, found.as_str()), (column, message), "{glob}");
            }
            other => panic!("{glob}: {other:?}"),
        }
    }
}

#[test]
fn globs_mean_what_their_regular_expressions_mean() {
    let mut matches = 0;
    for seed in 0..4_000 {
        let mut random = Random::new(seed);
        let (pattern, nocase) = (random.glob(), random.one_in(2));
        let mut fold = Fold::default();
        let parsed = Parsed::new(&pattern, nocase.then_some(&mut fold)).unwrap();
        let glob = parsed.compile(&mut Classes::default()).unwrap();
        let (attribute, mode) = (Name::Known(Known::Text), PatternMode::Glob);
        let regex = regex_of(&Criterion { attribute, mode, nocase, pattern: pattern.clone() });
        for _ in 0..20 {
            let text = random.text(6);
            let folded = if nocase { fold.text(&text) } else { text.clone() };
            assert_eq!(
                glob.matches(&folded),
                regex.is_match(&text),
                "seed {seed}: {pattern:?} {text:?}"
            );
            let whole =
                !glob.matches(&folded) || parsed.literals().iter().all(|l| folded.contains(l));
            assert!(whole, "seed {seed}: {pattern:?} {text:?}");
            matches += usize::from(regex.is_match(&text));
        }
    }
    assert!(matches > 5_000, "only {matches} texts matched, too few to show anything");
}

#[test]
fn many_stars_take_no_more_than_text_times_pattern() {
    // A matcher that backtracks at each star would take longer than the age of the universe.
    let glob = compile(&"*a?".repeat(1_000));
    assert!(!glob.matches(&"ab".repeat(999)));
    assert!(glob.matches(&"ab".repeat(1_000)));
}
