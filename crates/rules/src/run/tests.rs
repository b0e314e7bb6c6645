//! Programs are compared with the `regex` crate, and their bounds are tested.

use crate::classes::Classes;
use crate::error::Fault;
use crate::program::{POSITIONS_MAX, Program};
use crate::steps;
use crate::tests::random::Random;
use paceline_types::limits;
use regex::RegexBuilder;

fn compile(pattern: &str, nocase: bool) -> Result<Program, Fault> {
    Program::compile(&steps::parse(pattern, nocase)?, &mut Classes::default())
}

#[test]
fn programs_mean_what_the_regex_crate_means() {
    let (mut matches, mut wides) = (0, 0);
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let (pattern, nocase) = (random.small_regex(3), random.one_in(2));
        let regex = RegexBuilder::new(&pattern).case_insensitive(nocase).build().unwrap();
        let program = compile(&pattern, nocase).unwrap();
        // No text contains the added prefix, so this is an equivalent pattern with more words.
        let len_max = [60, 130, 300, 600][seed as usize % 4];
        let len = 1 + random.below(len_max);
        let Ok(wide) = compile(&format!("\\x01{{{len}}}|(?:{pattern})"), nocase) else { continue };
        wides += 1;
        for _ in 0..20 {
            let text = random.text(10);
            let expected = regex.is_match(&text);
            let place = format!("seed {seed}: {pattern:?} nocase {nocase} {text:?}");
            assert_eq!(program.matches(&text), expected, "{place}");
            assert_eq!(wide.matches(&text), expected, "{place} behind {len}");
            matches += usize::from(expected);
        }
    }
    assert!(wides > 3_000, "only {wides} patterns fit behind others");
    assert!(matches > 20_000, "only {matches} texts matched, too few to show anything");
}

/// R3: the cost of a character does not depend on the characters before it.
#[test]
fn r3_time_is_linear() {
    // A backtracking matcher would never finish.
    let program = compile("^(a*)*(a|a)*(a+)+$", false).unwrap();
    assert!(!program.matches(&("a".repeat(200_000) + "b")));
    assert!(program.matches(&"a".repeat(200_000)));
    // A matcher that follows the paths separately in parallel would take minutes.
    let text = "ab".repeat(limits::ATTRIBUTES_BYTES_MAX / 2);
    for pattern in ["[ab]{0,3000}[cd]", "[ab]*a[ab]{3000}[cd]", "(?:[ab]{1,20}){20}\\d$"] {
        assert!(!compile(pattern, false).unwrap().matches(&text), "{pattern}");
    }
}

/// R3: the size of a pattern, and its cost for each character, are bounded.
#[test]
fn r3_programs_are_bounded() {
    for pattern in [
        "a{20000}",
        "((a{100}){100}){100}",
        "(\\w{9}x?){4000}",
        "[^\\s\\S]{900000000}",
        "(?:abc?){0,200}(?:d|e?f?)*(?:(?:gh)?(?:ij)?){90}",
        "(?:\\b|a|^|$|b?){300}",
    ] {
        assert_eq!(compile(pattern, false).unwrap_err(), Fault::PatternTooLarge, "{pattern}");
    }
    assert!(compile("(?:){1000000000}", false).is_ok(), "nothing, repeated, is nothing");
    let full = POSITIONS_MAX - 1;
    let program = compile(&format!("a{{{full}}}"), false).unwrap();
    assert!(program.matches(&"a".repeat(full)) && !program.matches(&"a".repeat(full - 1)));
    let over = compile(&format!("a{{{POSITIONS_MAX}}}"), false);
    assert_eq!(over.unwrap_err(), Fault::PatternTooLarge, "the match is a position too");
}

#[test]
fn long_lists_of_words_are_no_large_patterns() {
    let words: Vec<String> = (100..400).map(|n| format!("u{n}")).collect();
    let words = words.join("|");
    for pattern in
        [format!("^(?:{words})$"), format!("\\b(?:{words})\\b"), format!("^(?:{words})(?:-\\d+)?$")]
    {
        let program = compile(&pattern, true).unwrap();
        assert!(program.matches("U399") && program.matches("u100") && !program.matches("u80"));
    }
}

#[test]
fn classes_are_shared() {
    let mut classes = Classes::default();
    let compile = |classes: &mut Classes| {
        Program::compile(&steps::parse("\\w+-\\w+", false).unwrap(), classes).unwrap();
        classes.bytes()
    };
    let first = compile(&mut classes);
    let second = compile(&mut classes) - first;
    assert!(second < 600 && second * 10 < first, "the first takes {first}, the second {second}");
}

#[test]
fn wrong_expressions_say_where() {
    for (pattern, offset, line, column, message) in [
        ("é(a", 2, 1, 2, "unclosed group"),
        ("a\n[z", 2, 2, 1, "unclosed character class"),
        ("a{3,1}", 1, 1, 2, "invalid repetition count range, the start must be <= the end"),
        ("(?=a)", 0, 1, 1, "look-around, including look-ahead and look-behind, is not supported"),
        ("(?-u:\\xff)", 5, 1, 6, "pattern can match invalid UTF-8"),
    ] {
        let expected = Fault::Pattern { message: message.into(), offset, line, column };
        assert_eq!(compile(pattern, false).unwrap_err(), expected, "{pattern}");
    }
    let deep = "(".repeat(200) + "a" + &")".repeat(200);
    assert!(matches!(compile(&deep, false), Err(Fault::Pattern { .. })), "nesting is bounded");
}
