//! Programs against the `regex` crate, both ways of running them.

use crate::error::Fault;
use crate::program::{self, Classes, Program};
use crate::run::Work;
use crate::tests::random::Random;
use regex::RegexBuilder;

fn compile(pattern: &str, nocase: bool) -> Result<Program, Fault> {
    Program::compile(&program::parse(pattern, nocase)?, &mut Classes::default())
}

#[test]
fn programs_mean_what_the_regex_crate_means() {
    let mut work = Work::default();
    let mut matches = 0;
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let (pattern, nocase) = (random.regex(3), random.one_in(2));
        let program = compile(&pattern, nocase).unwrap();
        let regex = RegexBuilder::new(&pattern).case_insensitive(nocase).build().unwrap();
        for _ in 0..20 {
            let text = random.text(10);
            let expected = regex.is_match(&text);
            let place = format!("seed {seed}: {pattern:?} nocase {nocase} {text:?}");
            let marks = program.steps.len() * (text.len() + 1);
            assert_eq!(program.matches_by_path(&text, marks, &mut work), expected, "{place}");
            assert_eq!(program.matches_by_all(&text, &mut work), expected, "{place}");
            matches += usize::from(expected);
        }
    }
    assert!(matches > 20_000, "only {matches} texts matched, too few to show anything");
}

/// R3: the steps taken grow with the text, and a program has a greatest size.
#[test]
fn r3_time_is_linear_and_size_bounded() {
    let mut work = Work::default();
    // A matcher that follows all paths one after another would never end.
    let program = compile("^(a*)*(a|a)*(a+)+$", false).unwrap();
    assert!(!program.matches(&("a".repeat(200) + "b"), &mut work));
    assert!(!program.matches(&("a".repeat(200_000) + "b"), &mut work));
    assert!(program.matches(&"a".repeat(200_000), &mut work));
    for pattern in ["a{20000}", "((a{100}){100}){100}", "(\\w{9}x?){4000}", "[^\\s\\S]{900000000}"]
    {
        assert_eq!(compile(pattern, false).unwrap_err(), Fault::PatternTooLarge, "{pattern}");
    }
    assert!(compile("(?:){1000000000}", false).is_ok(), "nothing, repeated, is nothing");
    assert!(compile("a{5000}", false).is_ok());
}

#[test]
fn classes_are_shared() {
    let mut classes = Classes::default();
    let compile = |classes: &mut Classes| {
        Program::compile(&program::parse("\\w+-\\w+", false).unwrap(), classes).unwrap();
        classes.bytes()
    };
    let first = compile(&mut classes);
    let second = compile(&mut classes) - first;
    assert!(second < 200, "the second takes {second} bytes");
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
