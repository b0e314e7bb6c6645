//! The required texts are in every text that matches.

use super::{fixed, required};
use crate::fold::Fold;
use crate::steps;
use crate::tests::random::Random;
use regex::RegexBuilder;

fn check(pattern: &str, expected: &[&[&str]]) {
    let hir = steps::parse(pattern, false).unwrap();
    assert_eq!(required(&hir, &mut Fold::default()), expected, "{pattern}");
}

#[test]
fn literals_are_found_wherever_they_stand() {
    check("^select .* from orders", &[&["select "], &[" from orders"]]);
    check("(?i)etl-[0-9]+", &[&["etl-"]]);
    check("(abc)+x", &[&["abc"], &["x"]]);
    check("foo|bar", &[&["foo", "bar"]]);
    check("(foo|bar)-[ab]", &[&["foo-a", "foo-b", "bar-a", "bar-b"]]);
    check("\\w+abc|de\\d", &[&["abc", "de"]]);
    check("a?", &[]);
    check("\\w+|abc", &[]);
    check("[a-z]*x{0}", &[]);
}

#[test]
fn a_class_with_too_many_characters_cuts() {
    check("ab[0-9]cd", &[&["ab"], &["cd"]]);
    check(
        &"[abcd]".repeat(5),
        &[&cross(4)[..], &["a", "b", "c", "d"][..]]
            .map(|set| set.to_vec())
            .iter()
            .map(|set| &set[..])
            .collect::<Vec<_>>(),
    );
}

/// All texts of four letters from a to d.
fn cross(len: usize) -> Vec<&'static str> {
    let mut all = vec![String::new()];
    for _ in 0..len {
        all = all.iter().flat_map(|t| ["a", "b", "c", "d"].map(|c| format!("{t}{c}"))).collect();
    }
    all.into_iter().map(|text| &*text.leak()).collect()
}

#[test]
fn fixed_texts_are_recognised() {
    for (pattern, text, at_start, at_end, folded) in [
        ("abc", "abc", false, false, false),
        ("^abc", "abc", true, false, false),
        ("abc$", "abc", false, true, false),
        ("^$", "", true, true, false),
        ("(?i)^aÉ-1$", "aÉ-1", true, true, true),
    ] {
        let mut fold = Fold::default();
        let found = fixed(&steps::parse(pattern, false).unwrap(), &mut fold).unwrap();
        let text = if folded { fold.text(text) } else { text.to_owned() };
        assert_eq!(
            (found.text, found.at_start, found.at_end, found.folded),
            (text, at_start, at_end, folded),
            "{pattern}"
        );
    }
    for pattern in ["a.c", "(?m)^a", "a(?i)b", "a|b", "ab*", "[ab]", "(?i-u)k"] {
        let hir = steps::parse(pattern, false).unwrap();
        assert!(fixed(&hir, &mut Fold::default()).is_none(), "{pattern}");
    }
}

#[test]
fn every_match_has_what_is_required() {
    let mut shown = 0;
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let (pattern, nocase) = (random.regex(2), random.one_in(2));
        let mut fold = Fold::default();
        let sets = required(&steps::parse(&pattern, nocase).unwrap(), &mut fold);
        let regex = RegexBuilder::new(&pattern).case_insensitive(nocase).build().unwrap();
        for _ in 0..20 {
            let text = random.text(10);
            if !regex.is_match(&text) {
                continue;
            }
            let folded = fold.text(&text);
            for set in &sets {
                let found = set.iter().any(|literal| folded.contains(&fold.text(literal)));
                assert!(found, "seed {seed}: {pattern:?} {nocase} {text:?} {set:?}");
                shown += 1;
            }
        }
    }
    assert!(shown > 3_000, "only {shown} sets were seen, too few to show anything");
}
