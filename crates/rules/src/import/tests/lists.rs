//! Random lists: Comdb2's against the model, and ours written and read again.

use super::model::{self, REGEXPS, Theirs};
use super::{imported, known, pool};
use crate::tests::random::Random;
use crate::tests::{WORLD, decide};
use crate::{
    Action, ExportProblem, Imported, KnownPool, Rule, Ruleset, Then, Verdict, export_ruleset,
    import_ruleset,
};
use paceline_types::{Attributes, Priority};

const POOLS: [&str; 5] = ["default", "fast", "slow", "new", "bare"];
const VALUES: [&str; 9] = ["a", "b", "ab", "aab", "B", "A b", "axb", "é", "É"];

fn random_theirs(random: &mut Random, number: u32) -> Theirs {
    let mode = ["EXACT", "GLOB", "REGEXP"][random.below(3)];
    let pattern = |random: &mut Random| match mode {
        "EXACT" => ["a", "ab", "B", "é", "axb"][random.below(5)],
        "GLOB" => ["*", "a*", "?", "[^a]*", "*[A-B]", "é", "*b*"][random.below(7)],
        _ => REGEXPS[random.below(REGEXPS.len())].0,
    };
    let actions = ["NONE", "REJECT", "REJECT_ALL", "UNREJECT", "SET_POOL", "SET_POOL"];
    Theirs {
        number,
        action: actions[random.below(6)],
        pool: POOLS[random.below(5)],
        stop: random.one_in(6),
        disable: random.one_in(8),
        print: random.one_in(4),
        mode,
        nocase: random.one_in(2),
        user: random.one_in(3).then(|| pattern(random)),
        sql: (!random.one_in(3)).then(|| pattern(random)),
    }
}

fn random_attributes(random: &mut Random) -> (Attributes, Option<&'static str>, &'static str) {
    let mut attributes = Attributes::new();
    attributes.set("kind", "sql").unwrap();
    let sql = VALUES[random.below(VALUES.len())];
    attributes.set("text", sql).unwrap();
    let user = (!random.one_in(3)).then(|| VALUES[random.below(VALUES.len())]);
    if let Some(user) = user {
        attributes.set("user", user).unwrap();
    }
    (attributes, user, sql)
}

/// The pool that a list sends a request to, or `None` if it rejects it.
fn pool_of(list: &Ruleset, attributes: &Attributes, pools: &[KnownPool]) -> Option<String> {
    let Verdict::Priority(priority) = decide(list, attributes, &WORLD).verdict else { return None };
    let holds = |pool: &&KnownPool| {
        let range = pool.range.filter(|_| priority != Priority::START);
        range.is_some_and(|(low, high)| low <= priority && priority <= high)
    };
    let pool = pools.iter().find(holds);
    Some(pool.map_or_else(|| "default".to_owned(), |pool| pool.name.clone()))
}

/// All pools after an import.
fn all_pools(before: &[KnownPool], imported: &Imported) -> Vec<KnownPool> {
    let mut pools = before.to_vec();
    for proposed in &imported.pools {
        pools.retain(|pool| pool.name != proposed.name);
        let (name, range) = (proposed.name.clone(), Some(proposed.range));
        pools.push(KnownPool { name, range, threads: proposed.threads });
    }
    pools
}

#[test]
fn an_imported_list_decides_as_comdb2_does_and_so_does_the_list_written_and_read_again() {
    let mut pairs = 0;
    for seed in 0..800 {
        let mut random = Random::new(seed);
        let theirs: Vec<Theirs> =
            (0..random.below(9)).map(|n| random_theirs(&mut random, n as u32 + 1)).collect();
        let lines: String = theirs.iter().rev().map(Theirs::lines).collect();
        let text = format!("version 2\npool new threads 2\n{lines}");
        let first = imported(&text);
        let pools = all_pools(&known(), &first);
        let written = export_ruleset(&first.rules, &pools);
        let written = written.unwrap_or_else(|error| panic!("seed {seed} {error}\n{text}"));
        let second = import_ruleset(&written, &pools).unwrap();
        assert_eq!(second.pools, [], "seed {seed}: all pools are known now");
        pairs += usize::from(first.scale > 1);
        let list = Ruleset::compile(&first.rules, &WORLD).unwrap();
        let again = Ruleset::compile(&second.rules, &WORLD).unwrap();
        for _ in 0..15 {
            let (attributes, user, sql) = random_attributes(&mut random);
            let expected = model::decide(&theirs, user, sql);
            let found = pool_of(&list, &attributes, &pools);
            assert_eq!(found.as_deref(), expected, "seed {seed} {user:?} {sql:?}\n{text}");
            let found = pool_of(&again, &attributes, &pools);
            assert_eq!(found.as_deref(), expected, "seed {seed} {user:?} {sql:?}\n{written}");
        }
    }
    assert!(pairs > 25, "too few rules became two: {pairs}");
}

#[test]
fn the_result_of_comdb2_is_one_of_three() {
    let check = |lines: &[&str], expected: Option<&str>| {
        let lines: Vec<String> =
            lines.iter().zip(1..).map(|(line, n)| format!("rule {n} action {line}\n")).collect();
        let first = imported(&format!("version 2\n{}", lines.concat()));
        let list = Ruleset::compile(&first.rules, &WORLD).unwrap();
        let attributes = crate::tests::attributes(&[("kind", "sql"), ("text", "select 1")]);
        let found = pool_of(&list, &attributes, &all_pools(&known(), &first));
        assert_eq!(found.as_deref(), expected, "{lines:?}");
    };
    let fast = "SET_POOL pool fast";
    check(&["NONE"], Some("default"));
    check(&[fast], Some("fast"));
    check(&["REJECT", fast], Some("fast"));
    check(&[fast, "REJECT"], None);
    check(&[fast, "REJECT", "UNREJECT"], Some("default"));
    check(&[fast, "UNREJECT"], Some("fast"));
    check(&["REJECT", fast, "UNREJECT"], Some("fast"));
    check(&["REJECT", "UNREJECT", fast], Some("fast"));
    check(&[fast, "REJECT_ALL", "UNREJECT", "SET_POOL pool slow"], Some("slow"));
    check(&[fast, "REJECT", "UNREJECT", "REJECT"], None);
    check(&[fast, "SET_POOL pool default"], Some("default"));
    check(&[fast, "SET_POOL"], Some("default"));
    check(&[fast, "REJECT flags STOP", "UNREJECT"], None);
    check(&["REJECT", "NONE flags STOP", "UNREJECT"], None);
    check(&[fast, "REJECT", "UNREJECT flags STOP", "REJECT"], Some("default"));
    check(&[fast, "UNREJECT flags STOP", "REJECT"], Some("fast"));
    check(&["REJECT", fast, "UNREJECT flags STOP", "REJECT"], Some("fast"));
}

/// A list of our rules, most of which can be written.
fn random_ours(random: &mut Random) -> Vec<Rule> {
    let count = random.below(8);
    let rules = (0..count).map(|n| {
        let mut rule = random.rule(10 * n as u32 + 10);
        rule.when = rule.when.filter(|_| random.one_in(10));
        for criterion in &mut rule.criteria {
            let name = random.pick(&["text", "user", "task"]);
            criterion.attribute = paceline_types::Name::parse(name).unwrap();
        }
        if random.one_in(6) {
            let at_zero = Rule::parse("1 priority exact 0 reject").unwrap().criteria;
            rule.criteria.extend(at_zero);
            rule.action = Action::Set(Priority::START);
        } else if !matches!(rule.action, Action::Nothing | Action::Reject) {
            let priority = [0, 0, 5, 5, -11, -12, 100][random.below(7)];
            rule.action = Action::Set(Priority::new(priority).unwrap());
        }
        rule.then = if random.one_in(5) { Then::Stop } else { Then::Continue };
        rule
    });
    rules.collect()
}

#[test]
fn our_list_means_the_same_when_written_and_read_again() {
    let pools = [pool("fast", 5, 9), pool("slow", -20, -11)];
    let (mut written, mut undone) = (0, 0);
    for seed in 0..2_500 {
        let mut random = Random::new(seed);
        let rules = random_ours(&mut random);
        let file = match export_ruleset(&rules, &pools) {
            Ok(file) => file,
            Err(error) => {
                assert_ne!(error.problem, ExportProblem::TooManyRules, "{error}");
                continue;
            }
        };
        let read = import_ruleset(&file, &pools).unwrap_or_else(|error| panic!("{error}\n{file}"));
        assert_eq!(read.pools, []);
        let list = Ruleset::compile(&rules, &WORLD).unwrap();
        let again = Ruleset::compile(&read.rules, &WORLD).unwrap();
        for _ in 0..15 {
            let mut attributes = Attributes::new();
            attributes.set("kind", "sql").unwrap();
            for name in ["text", "user", "task"] {
                let value = random.text(4).replace(['\u{212a}', 'ſ'], "k");
                attributes.set(name, &value).unwrap();
            }
            let expected = pool_of(&list, &attributes, &pools);
            let found = pool_of(&again, &attributes, &pools);
            assert_eq!(found, expected, "seed {seed} {attributes:?} {rules:#?}\n{file}");
        }
        written += 1;
        undone += usize::from(file.contains("UNREJECT"));
    }
    assert!(written > 500 && undone > 40, "too few: {written} {undone}");
}

#[test]
fn imported_rules_leave_everything_but_sql_alone() {
    let first = imported("version 2\nrule 1 action REJECT\nrule 2 action SET_POOL pool fast");
    let list = Ruleset::compile(&first.rules, &WORLD).unwrap();
    let attributes = crate::tests::attributes(&[("kind", "http"), ("user", "bob")]);
    assert_eq!(decide(&list, &attributes, &WORLD).verdict, Verdict::Priority(Priority::START));
}
