//! Patterns in Comdb2's notation, what they match there, and both translations.

use super::super::{glob, regexp};
use super::model;
use crate::tests::random::Random;
use crate::tests::reference::regex_of;
use crate::{Criterion, PatternMode, Rule, export_ruleset, import_ruleset, steps};
use paceline_types::Name;

/// What one of our patterns matches.
fn matcher(mode: PatternMode, nocase: bool, pattern: &str) -> impl Fn(&str) -> bool {
    let attribute = Name::parse("text").unwrap();
    let pattern = pattern.to_owned();
    let regex = regex_of(&Criterion { attribute, mode, nocase, pattern });
    move |text| regex.is_match(text)
}

/// A random text without the two characters whose case Comdb2 does not know.
fn random_text(random: &mut Random, len_max: usize) -> String {
    random.text(len_max).replace(['\u{212a}', 'ſ'], "k")
}

#[test]
fn globs_match_what_sqlite_matches() {
    let mut random = Random::new(1);
    let pieces = ["a", "B", "*", "?", "[", "]", "^", "-", "!", "\\", "[a", "[^a", "a-c]", "é", "]"];
    let letters = ["a", "A", "b", "B", "c", "]", "^", "-", "!", "\\", "[", "é", "É", " "];
    let mut count = 0;
    for _ in 0..8_000 {
        let theirs: String = (0..random.below(7)).map(|_| random.pick(&pieces)).collect();
        let nocase = random.one_in(2);
        let Ok((ours, our_nocase)) = glob::import(&theirs, nocase) else {
            assert!(theirs.contains('['), "{theirs}");
            continue;
        };
        let back = glob::export(&glob::read_ours(&ours), our_nocase);
        let found = matcher(PatternMode::Glob, our_nocase, &ours);
        for _ in 0..8 {
            let text: String = (0..random.below(4)).map(|_| random.pick(&letters)).collect();
            let expected = model::glob(&theirs, &text, nocase);
            assert_eq!(found(&text), expected, "{theirs:?} {ours:?} {nocase} {text:?}");
            let again = model::glob(&back, &text, our_nocase);
            assert_eq!(again, expected, "{theirs:?} {back:?} {nocase} {text:?}");
            count += usize::from(expected);
        }
    }
    assert!(count > 2_000, "too few matches to mean anything: {count}");
}

#[test]
fn our_globs_mean_the_same_when_written_and_read_again() {
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let (ours, nocase) = (random.glob(), random.one_in(2));
        let theirs = glob::export(&glob::read_ours(&ours), nocase);
        let (again, again_nocase) = glob::import(&theirs, nocase).unwrap();
        let expression = glob::expression(&glob::read_ours(&ours));
        let before = matcher(PatternMode::Glob, nocase, &ours);
        let after = matcher(PatternMode::Glob, again_nocase, &again);
        let by_regex = matcher(PatternMode::Regex, nocase, &expression);
        for _ in 0..20 {
            let text = random_text(&mut random, 4);
            let expected = before(&text);
            assert_eq!(after(&text), expected, "{ours:?} {theirs:?} {again:?} {nocase} {text:?}");
            assert_eq!(by_regex(&text), expected, "{ours:?} {expression:?} {nocase} {text:?}");
        }
    }
}

#[test]
fn regular_expressions_are_translated() {
    let check = |theirs: &str, nocase: bool, expected: &str| {
        let (ours, ours_nocase) = regexp::import(theirs, nocase).unwrap();
        let mark = if ours_nocase { "nocase " } else { "" };
        assert_eq!(format!("{mark}{ours}"), expected, "{theirs}");
    };
    check("sleep", true, "nocase sleep");
    check("^DROP .*$", true, "nocase (?s)^DROP .*$");
    check("^a|b", false, "^(a|b)");
    check("a|^b", false, "a|^b");
    check("(a|b$)", false, "(a|b$)");
    check("a.c", false, "(?s)a.c");
    check(
        "\\w+\\W\\d\\D\\s\\S\\b",
        false,
        "[0-9A-Za-z_]+[^0-9A-Za-z_][0-9][^0-9][\\t-\\r ][^\\t-\\r ](?-u:\\b)",
    );
    check("[]a]x[^]]", false, "[\\x5da]x[^\\x5d]");
    check("[a-c&&b]", false, "[\\x26a-c]");
    check("[!-^]", true, "nocase [\\x21-\\x40\\x5b-\\x5e]");
    check("[A-C]é", true, "[A-Ca-c]é");
    check("kÉ", true, "[Kk]É");
    check("a{2}b{2,}c{2,3}d{,3}e{2,0}", false, "a{2}b{2,}c{2,3}d{0,3}e{2,}");
    check("\\x41\\u00e9\\t\\v\\.\\]]}", false, "A\u{e9}\t\u{b}\\.\\]\\]\\}");
    check("a||()", false, "a||()");
}

#[test]
fn regular_expressions_that_sqlite_gets_wrong_or_refuses_are_refused() {
    for theirs in [
        "(",
        ")",
        "a)",
        "*",
        "+a",
        "a|?",
        "a{",
        "a{x}",
        "a{0}",
        "a{0,0}",
        "a{3,2}",
        "a{10001}",
        "[",
        "[]",
        "[a",
        "[a-]",
        "[[:alpha:]]",
        "[\\d]",
        "[b-a]",
        "\\",
        "\\q",
        "\\-",
        "\\x4",
        "\\u123",
        "\\ud800",
        "\\x00",
        "$a",
        "(a$)b",
        "(a$)*",
        "a**",
        "a+?",
        "a{2}*",
        "^*",
        "\\b+",
        "(?:a)",
    ] {
        assert!(regexp::import(theirs, false).is_err(), "{theirs}");
    }
    for theirs in ["\\x41", "[\\x41]"] {
        assert!(regexp::import(theirs, true).is_err(), "{theirs}");
    }
    assert!(regexp::import(&format!("{}{}", "(".repeat(50), ")".repeat(50)), false).is_ok());
    assert!(regexp::import(&format!("{}{}", "(".repeat(51), ")".repeat(51)), false).is_err());
}

#[test]
fn our_regular_expressions_mean_the_same_when_written_and_read_again() {
    let mut count = 0;
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let (ours, nocase) = (random.small_regex(2), random.one_in(2));
        let hir = steps::parse(&ours, nocase).unwrap();
        for written_nocase in [nocase, false] {
            let Ok(theirs) = regexp::export(&hir, written_nocase, random.one_in(2)) else {
                continue;
            };
            let (again, again_nocase) = regexp::import(&theirs, written_nocase).unwrap();
            let before = matcher(PatternMode::Regex, nocase, &ours);
            let after = matcher(PatternMode::Regex, again_nocase, &again);
            for _ in 0..10 {
                let text = random_text(&mut random, 6);
                let expected = before(&text);
                assert_eq!(
                    after(&text),
                    expected,
                    "{ours:?} {theirs:?} {again:?} {nocase} {text:?}"
                );
            }
            count += 1;
        }
    }
    assert!(count > 700, "too few expressions can be written: {count}");
}

#[test]
fn every_criterion_that_is_written_is_read_as_the_same() {
    let mut count = 0;
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let mut criterion = random.criterion();
        criterion.attribute = Name::parse(random.pick(&["text", "identity", "user"])).unwrap();
        let mut rule = Rule::parse("1 kind exact sql reject").unwrap();
        rule.criteria.push(criterion.clone());
        let Ok(file) = export_ruleset(&[rule], &[]) else { continue };
        let read = import_ruleset(&file, &[]).unwrap_or_else(|error| panic!("{error} {file}"));
        let read = &read.rules[0].criteria[1..];
        let before = regex_of(&criterion);
        let after: Vec<_> = read.iter().map(regex_of).collect();
        for _ in 0..10 {
            let text = random_text(&mut random, 5) + "k";
            let found = after.iter().all(|read| read.is_match(&text));
            assert_eq!(found, before.is_match(&text), "{criterion} {file} {read:?} {text:?}");
        }
        count += 1;
    }
    assert!(count > 500, "too few criteria can be written: {count}");
}
