//! Every invalid rule gets one clear error with its place, and limits are reached.

use super::{LIST_BYTES_MAX, compile};
use crate::tests::WORLD;
use crate::{Action, CRITERIA_MAX, CompileRuleError, Fault, Part, Rule, Ruleset};
use paceline_types::limits;

fn rule(text: &str) -> Rule {
    Rule::parse(text).unwrap()
}

fn refused(rules: &[Rule]) -> CompileRuleError {
    Ruleset::compile(rules, &WORLD).unwrap_err()
}

#[test]
fn wrong_rules_name_rule_part_and_place() {
    for (text, error) in [
        (
            "20 user exact a and text regex 'a(b' set 1",
            "rule 20: criterion 2: column 2: unclosed group",
        ),
        (
            "20 user glob a[b set 1 disabled",
            "rule 20: criterion 1: column 2: this set has no closing bracket",
        ),
        (
            "20 text regex a{30000} set 1",
            "rule 20: criterion 1: the pattern is too large when compiled, \
             expected at most 4095 characters with all repetitions written out, fewer where there are \
             many loops and branches",
        ),
        (
            "20 text regex (a{30000})? set 1",
            "rule 20: criterion 1: the pattern is too large when compiled, \
             expected at most 4095 characters with all repetitions written out, fewer where there are \
             many loops and branches",
        ),
    ] {
        assert_eq!(refused(&[rule("10 set 1"), rule(text)]).to_string(), error);
    }
}

#[test]
fn wrong_conditions_keep_their_place() {
    for text in ["30 when 'user ==' set 1", "30 when 'rate(\"none\") > 1.0' set 1 disabled"] {
        let error = refused(&[rule(text)]);
        assert_eq!((error.rule, error.part), (30, Part::When), "{text}");
        assert!(matches!(error.fault, Fault::When(_)), "{text}");
        assert!(error.to_string().starts_with("rule 30: when: "), "{error}");
    }
}

#[test]
fn numbers_must_rise() {
    for second in [5, 10] {
        let error = refused(&[rule("10 set 1"), rule(&format!("{second} set 1"))]);
        assert_eq!((error.rule, error.fault), (second, Fault::Order));
    }
}

#[test]
fn steps_are_1_to_254() {
    for (action, wrong) in [
        (Action::Raise(0), true),
        (Action::Lower(255), true),
        (Action::Raise(254), false),
        (Action::Lower(1), false),
    ] {
        let result = Ruleset::compile(&[Rule { action, ..rule("1 nothing") }], &WORLD);
        assert_eq!(result.is_err_and(|error| error.part == Part::Action), wrong, "{action:?}");
    }
}

#[test]
fn limits_are_reached() {
    let mut long = rule("1 text exact a set 1");
    long.criteria[0].pattern = "a".repeat(limits::PATTERN_BYTES_MAX);
    assert!(Ruleset::compile(std::slice::from_ref(&long), &WORLD).is_ok());
    long.criteria[0].pattern.push('a');
    let bytes = limits::PATTERN_BYTES_MAX + 1;
    assert_eq!(refused(&[long]).fault, Fault::PatternTooLong { bytes });
    let mut wide = rule("1 text exact a set 1");
    wide.criteria = vec![wide.criteria[0].clone(); CRITERIA_MAX + 1];
    assert_eq!(refused(&[wide]).fault, Fault::TooManyCriteria);
    let many = |n: usize| (0..n as u32).map(|n| rule("1 set 1").numbered_for_test(n)).collect();
    let full: Vec<Rule> = many(limits::RULES_MAX);
    assert!(Ruleset::compile(&full, &WORLD).is_ok());
    let over: Vec<Rule> = many(limits::RULES_MAX + 1);
    assert_eq!(refused(&over).fault, Fault::TooManyRules);
}

#[test]
fn r3_all_patterns_together_are_bounded() {
    let rules: Vec<Rule> =
        (0..100).map(|n| rule(&format!("{n} text regex 'a{{{n}}}b[0-9]{{9}}' set 1"))).collect();
    assert!(compile(&rules, &WORLD, LIST_BYTES_MAX).is_ok());
    let error = compile(&rules, &WORLD, 30_000).unwrap_err();
    assert_eq!(error.fault, Fault::ListTooLarge);
    assert!((10..90).contains(&error.rule), "the rule that is too much is named: {error}");
}

impl Rule {
    fn numbered_for_test(self, number: u32) -> Self {
        Self { number, ..self }
    }
}
