//! Tests of the whole crate: every answer equals that of trying each rule in turn.

pub(crate) mod random;
pub(crate) mod reference;

use crate::{Candidates, Counts, Decision, Outcome, Rule, RuleCounts, Ruleset, Verdict};
use paceline_expr::{Counter, Input, Scope};
use paceline_types::{Attributes, CheckpointId, Name, PoolId, Priority};
use random::Random;
use reference::{Naive, Seen};

/// One checkpoint `c`, one pool `p`, and their counters.
pub(crate) struct World {
    pub(crate) waiting: f64,
}

impl World {
    pub(crate) fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        match counter {
            Counter::Rate(_) => key.map_or(0.0, |key| key.len() as f64),
            _ => self.waiting,
        }
    }
}

impl Scope for World {
    fn checkpoint(&self, name: &str) -> Option<CheckpointId> {
        (name == "c").then_some(CheckpointId(1))
    }

    fn pool(&self, name: &str) -> Option<PoolId> {
        (name == "p").then_some(PoolId(1))
    }

    fn names(&self) -> Vec<&str> {
        vec!["c", "p"]
    }
}

pub(crate) const WORLD: World = World { waiting: 0.0 };

pub(crate) fn compiled(lines: &[&str]) -> Ruleset {
    let rules: Vec<Rule> = lines.iter().map(|line| Rule::parse(line).unwrap()).collect();
    Ruleset::compile(&rules, &WORLD).unwrap()
}

pub(crate) fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    let mut attributes = Attributes::new();
    for (name, value) in pairs {
        attributes.set(name, value).unwrap();
    }
    attributes
}

/// Decides both ways, which must agree.
pub(crate) fn decide(ruleset: &Ruleset, attributes: &Attributes, world: &World) -> Decision {
    // The priority of the input is wrong on purpose: only the rules' own priority counts.
    let input = Seen { world, attributes, priority: Priority::MAX };
    let decision = ruleset.decide(&ruleset.candidates(attributes), &input);
    let slowly = ruleset.trace_slowly(attributes, &input);
    assert_eq!(slowly.decision, decision, "{attributes:?} {:#?}", ruleset.rules());
    let mut trace = ruleset.trace(&ruleset.candidates(attributes), &input);
    ruleset.complete(&mut trace, attributes);
    assert_eq!(trace, slowly, "{attributes:?} {:#?}", ruleset.rules());
    decision
}

fn check(lines: &[&str], pairs: &[(&str, &str)], expected: &str) {
    let decision = decide(&compiled(lines), &attributes(pairs), &WORLD);
    let shown = match decision.verdict {
        Verdict::Priority(priority) => priority.to_string(),
        Verdict::Rejected { rule } => format!("rejected by {rule}"),
    };
    assert_eq!(shown, expected, "{lines:?} {pairs:?}");
}

#[test]
fn the_indexed_answer_is_that_of_every_rule_in_turn() {
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let world = World { waiting: random.below(8) as f64 };
        let rules: Vec<Rule> =
            (0..random.below(60)).map(|n| random.rule(10 * n as u32 + 10)).collect();
        let ruleset = Ruleset::compile(&rules, &world).unwrap();
        let naive = Naive::new(&rules, &world);
        let mut counts = Counts::new(&rules);
        let mut expected = vec![RuleCounts::default(); rules.len()];
        for _ in 0..25 {
            let attributes = random.attributes();
            let decision = decide(&ruleset, &attributes, &world);
            let by_hand = naive.decide(&attributes, &world);
            assert_eq!(decision, by_hand, "seed {seed} {attributes:?} {rules:#?}");
            counts.record(&decision);
            count_by_hand(&mut expected, &rules, &by_hand);
        }
        assert_eq!(counts.read(), expected, "seed {seed}");
    }
}

fn count_by_hand(counts: &mut [RuleCounts], rules: &[Rule], decision: &Decision) {
    for (index, rule) in rules.iter().enumerate() {
        let reached = index <= decision.stopped_at && !rule.disabled;
        counts[index].evaluations += u64::from(reached);
        counts[index].matches += u64::from(decision.matched.contains(&(index as u32)));
        counts[index].errors += u64::from(decision.errors.contains(&(index as u32)));
    }
}

#[test]
fn the_ten_results_of_the_seed() {
    for (result, expected) in [
        ("nothing continue", "1"),
        ("nothing stop", "0"),
        ("set 5 continue", "6"),
        ("set 5 stop", "5"),
        ("raise 7 continue", "8"),
        ("raise 7 stop", "7"),
        ("lower 7 continue", "-6"),
        ("lower 7 stop", "-7"),
        ("reject continue", "rejected by 10"),
        ("reject stop", "rejected by 10"),
    ] {
        check(&[&format!("10 {result}"), "20 raise 1"], &[], expected);
    }
    check(&["10 reject continue", "20 set 3"], &[], "3");
    check(&["10 reject stop", "20 set 3"], &[], "rejected by 10");
    check(&["10 reject", "20 set 3"], &[], "rejected by 10");
    check(&["10 set 5", "20 raise 1"], &[], "6");
    check(&[], &[], "0");
}

#[test]
fn priorities_saturate_and_rejections_last() {
    check(&["10 set 120", "20 raise 20", "30 lower 1"], &[], "126");
    check(&["10 set -120", "20 lower 20", "30 raise 1"], &[], "-126");
    check(&["10 lower 254"], &[], "-127");
    check(&["10 reject continue", "20 raise 254", "30 lower 3"], &[], "rejected by 10");
    check(&["10 reject continue", "20 reject"], &[], "rejected by 20");
    check(&["10 set 4", "20 reject continue", "30 priority exact 4 set 9"], &[], "9");
}

#[test]
fn a_missing_attribute_is_empty() {
    let user = [("user", "eva")];
    check(&["10 user exact \"\" set 1"], &[], "1");
    check(&["10 user exact \"\" set 1"], &user, "0");
    check(&["10 header.x exact \"\" set 1"], &user, "1");
    check(&["10 header.x glob * set 1"], &user, "1");
    check(&["10 header.x regex '^$' set 1"], &user, "1");
    check(&["10 header.x regex '^$' set 1"], &[("header.x", "y")], "0");
    check(&["10 header.x glob [!a]* set 1"], &user, "0");
    check(&["10 fingerprint exact 8a1f set 1"], &[("fingerprint", "8a1f")], "1");
}

#[test]
fn all_criteria_must_match() {
    let lines = ["10 user exact nocase EVA and text regex '^select\\b' and host glob db?-* set 5"];
    let pairs = [("user", "Eva"), ("text", "select 1"), ("host", "db1-x")];
    check(&lines, &pairs, "5");
    for at in 0..pairs.len() {
        let mut wrong = pairs;
        wrong[at].1 = "other";
        check(&lines, &wrong, "0");
    }
}

#[test]
fn conditions_see_counters_and_the_priority_so_far() {
    let lines = [
        "10 set 5",
        "20 when 'priority == 5 && waiting(\"p\") > 50' lower 20",
        "30 when '1 / user.size() > 0' reject",
    ];
    let ruleset = compiled(&lines);
    assert!(ruleset.reads_counters());
    assert_eq!(ruleset.conditions().map(|(rule, _)| rule).collect::<Vec<_>>(), [1, 2]);
    let busy = decide(&ruleset, &attributes(&[]), &World { waiting: 51.0 });
    assert_eq!(busy.verdict, Verdict::Priority(Priority::new(-15).unwrap()));
    assert_eq!(busy.errors, [2], "an error is no match and is reported");
    let idle = decide(&ruleset, &attributes(&[]), &WORLD);
    assert_eq!(idle.matched, [0]);
    let disabled = compiled(&["10 when 'waiting(\"p\") > 50' reject disabled", "20 set 1"]);
    assert!(!disabled.reads_counters());
}

/// What is evaluated under the engine's lock: nothing that attributes alone decide.
#[test]
fn deciding_evaluates_no_condition_on_attributes_alone() {
    /// A request whose attributes must not be read.
    struct Locked;

    impl Input for Locked {
        fn attribute(&self, name: &Name) -> &str {
            panic!("{name} was asked for when deciding")
        }

        fn priority(&self) -> Priority {
            Priority::START
        }

        fn counter(&self, _: Counter, _: Option<&str>) -> f64 {
            7.0
        }
    }

    let ruleset = compiled(&[
        "10 user exact eva and priority exact 1 when 'text.size() / 0 == 1' set 50",
        "20 user exact eva when 'text.startsWith(\"s\")' raise 1",
        "30 when 'text == \"x\"' reject stop",
        "40 when '1 / (text.size() - 6) > 0' reject",
        "50 when 'waiting(\"p\") > 5' raise 2",
        "60 user glob e* when 'host == \"\"' raise 4 stop",
        "70 when '1 / (text.size() - 6) > 0' reject",
    ]);
    let candidates = ruleset.candidates(&attributes(&[("user", "eva"), ("text", "select")]));
    let decision = ruleset.decide(&candidates, &Locked);
    assert_eq!(decision.verdict, Verdict::Priority(Priority::new(7).unwrap()));
    assert_eq!(decision.matched, [1, 4, 5]);
    assert_eq!(
        decision.errors,
        [3],
        "neither one before which the priority differs nor a later one"
    );
    assert_eq!(decision.stopped_at, 5);
}

#[test]
fn a_trace_names_what_did_not_match() {
    let ruleset = compiled(&[
        "10 user exact eva and text glob a* set 1",
        "20 set 2 disabled",
        "30 user exact eva and priority exact 1 set 3",
        "40 when 'user == text' reject",
        "50 when '1 / text.size() > 0' reject",
        "60 reject stop",
        "70 set 7",
    ]);
    let attributes = attributes(&[("user", "eva")]);
    let seen = Seen { world: &WORLD, attributes: &attributes, priority: Priority::START };
    let mut trace = ruleset.trace(&ruleset.candidates(&attributes), &seen);
    ruleset.complete(&mut trace, &attributes);
    let rules: Vec<u32> = trace.steps.iter().map(|step| step.rule).collect();
    assert_eq!(rules, [0, 2, 3, 4, 5], "neither disabled rules nor those behind a stop");
    let mut outcomes = trace.steps.into_iter().map(|step| step.outcome);
    assert_eq!(outcomes.next(), Some(Outcome::Criterion(1)));
    assert_eq!(outcomes.next(), Some(Outcome::Criterion(1)));
    assert_eq!(outcomes.next(), Some(Outcome::Condition));
    assert!(matches!(outcomes.next(), Some(Outcome::Error(_))));
    assert_eq!(outcomes.next(), Some(Outcome::Matched(Verdict::Rejected { rule: 60 })));
}

#[test]
fn candidates_end_at_a_rule_that_stops() {
    let ruleset = compiled(&["10 user glob e* set 1 stop", "20 user glob ev* set 2"]);
    let candidates: Candidates = ruleset.candidates(&attributes(&[("user", "eva")]));
    assert_eq!(candidates.iter().collect::<Vec<_>>(), [0]);
}

#[test]
fn many_patterns_without_a_literal_are_all_found() {
    let rules: Vec<String> = (0..1_500)
        .map(|n| {
            format!("{n} text regex '^[a-z]{{{}}}[0-9]{{{}}}$' raise 1", n / 40 + 1, n % 40 + 1)
        })
        .collect();
    let ruleset = compiled(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    for (letters, digits) in [(1, 1), (3, 17), (37, 20), (38, 20), (38, 21), (40, 1)] {
        let text = "x".repeat(letters) + &"7".repeat(digits);
        let decision = decide(&ruleset, &attributes(&[("text", &text)]), &WORLD);
        let at = ((letters - 1) * 40 + digits - 1) as u32;
        let expected = if at < 1_500 { vec![at] } else { vec![] };
        assert_eq!(decision.matched, expected, "{text}");
    }
}

#[test]
fn many_literals_are_all_found() {
    let rules: Vec<String> =
        (0..3_000).map(|n| format!("{n} text regex nocase 'Orders_{n}\\b' raise 1")).collect();
    let ruleset = compiled(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    for n in [0, 7, 17, 171, 1_711, 2_999] {
        let text = format!("select * from orders_{n}");
        let decision = decide(&ruleset, &attributes(&[("text", &text)]), &WORLD);
        assert_eq!(decision.matched, [n], "{text}");
    }
    let text = "orders_1 orders_22 ORDERS_333 orders_3000";
    assert_eq!(decide(&ruleset, &attributes(&[("text", text)]), &WORLD).matched, [1, 22, 333]);
}

#[test]
fn counts_go_on_for_rules_that_match_the_same() {
    let old = compiled(&["10 raise 1", "20 user exact eva raise 1", "30 raise 2", "50 reject"]);
    let mut counts = Counts::new(old.rules());
    for user in ["eva", "ann"] {
        counts.record(&decide(&old, &attributes(&[("user", user)]), &WORLD));
    }
    let new = compiled(&[
        "10 raise 1 log disabled",
        "20 user exact ann raise 1",
        "30 raise 2",
        "40 set 1",
        "50 raise 3",
    ]);
    let mut counts = counts.carry_over(&old, &new);
    counts.record(&decide(&new, &attributes(&[]), &WORLD));
    let read: Vec<_> = counts.read().iter().map(|c| (c.evaluations, c.matches)).collect();
    assert_eq!(
        read,
        [(2, 2), (1, 0), (3, 3), (1, 1), (3, 3)],
        "other flags and another result keep counts, another pattern does not"
    );
}

#[test]
fn a_ruleset_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&compiled(&["10 user glob e* set 1"]));
}
