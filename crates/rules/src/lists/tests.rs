//! The lists as the seed and the design tell them.

use super::{ListError, Lists};
use crate::{NewRule, Rule};
use paceline_types::limits;

fn new(text: &str) -> NewRule {
    Rule::parse_new(text).unwrap()
}

fn numbers(rules: &[Rule]) -> Vec<u32> {
    rules.iter().map(|rule| rule.number).collect()
}

#[test]
fn a_new_rule_goes_to_the_end() {
    let mut lists = Lists::default();
    assert_eq!(lists.add(new("nothing")), Ok(10));
    assert_eq!(lists.add(new("nothing")), Ok(20));
    assert_eq!(lists.add(new("25 nothing")), Ok(25));
    assert_eq!(lists.add(new("nothing")), Ok(35));
    assert_eq!(lists.add(new("15 nothing")), Ok(15), "a number of its own is its place");
    assert_eq!(numbers(lists.running()), [10, 15, 20, 25, 35]);
    let before = lists.clone();
    assert_eq!(lists.add(new("20 reject")), Err(ListError::Duplicate(20)));
    assert_eq!(lists, before, "an error changes nothing");
}

#[test]
fn a_new_rule_is_transient_until_saved() {
    let mut lists = Lists::default();
    lists.add(new("set 1")).unwrap();
    assert_eq!(lists.saved(), []);
    lists.save();
    lists.add(new("set 2")).unwrap();
    lists.restart();
    assert_eq!(numbers(lists.running()), [10]);
}

#[test]
fn clearing_leaves_what_was_saved() {
    let mut lists = Lists::default();
    lists.add(new("set 1")).unwrap();
    lists.save();
    lists.clear();
    assert_eq!((lists.running().len(), lists.saved().len()), (0, 1));
    assert_eq!(lists.add(new("set 2")), Ok(10), "the running list alone gives the number");
    lists.clear();
    lists.restart();
    assert_eq!(lists.running(), lists.saved());
}

#[test]
fn r1_saving_overwrites_the_whole_saved_list() {
    let mut lists = Lists::default();
    for _ in 0..3 {
        lists.add(new("set 1")).unwrap();
    }
    lists.save();
    lists.clear();
    lists.add(new("99 set 2")).unwrap();
    lists.save();
    assert_eq!(lists.saved(), lists.running());
    lists.clear();
    lists.save();
    assert_eq!(lists.saved(), [], "saving no rules saves that there are none");
}

#[test]
fn r2_saved_rules_that_are_no_list_are_refused() {
    let rule = |number| new("nothing").numbered(number);
    let lists = Lists::from_saved(vec![rule(20), rule(10)]).unwrap();
    assert_eq!(numbers(lists.running()), [10, 20]);
    assert_eq!(lists.saved(), lists.running());
    assert_eq!(Lists::from_saved(vec![rule(20), rule(20)]), Err(ListError::Duplicate(20)));
    let many = (0..=limits::RULES_MAX as u32).map(rule).collect();
    assert_eq!(Lists::from_saved(many), Err(ListError::Full));
}

#[test]
fn flags_and_deletion_go_by_number() {
    let mut lists = Lists::default();
    lists.add(new("set 1")).unwrap();
    lists.add(new("set 2")).unwrap();
    lists.set_disabled(20, true).unwrap();
    lists.set_log(20, true).unwrap();
    assert_eq!(lists.running()[1].to_string(), "20 set 2 continue log disabled");
    lists.set_disabled(20, false).unwrap();
    assert_eq!(lists.delete(10).unwrap().number, 10);
    assert_eq!(numbers(lists.running()), [20]);
    assert_eq!(lists.delete(10), Err(ListError::NoSuchRule(10)));
    assert_eq!(lists.set_log(10, true), Err(ListError::NoSuchRule(10)));
    assert_eq!(lists.set_disabled(10, true), Err(ListError::NoSuchRule(10)));
}

#[test]
fn limits_are_reached() {
    let mut lists = Lists::default();
    assert_eq!(lists.add(new("4294967290 nothing")), Ok(4_294_967_290));
    assert_eq!(lists.add(new("nothing")), Err(ListError::NoNumber));
    let mut lists = Lists::default();
    for _ in 0..limits::RULES_MAX {
        lists.add(new("nothing")).unwrap();
    }
    assert_eq!(lists.add(new("nothing")), Err(ListError::Full));
    assert_eq!(lists.running().len(), limits::RULES_MAX);
}
