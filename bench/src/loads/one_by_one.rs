//! The plain way to match rules, for comparison: every rule in turn, with patterns compiled in advance.

use crate::Outcome;
use paceline_expr::{Counter, Expr, Input, Kind, Scope, compile};
use paceline_rules::{Action, PatternMode, Rule, Then, Verdict};
use paceline_types::{Attributes, CheckpointId, Name, PoolId, Priority};
use regex::{Regex, RegexBuilder};

/// Rules that are tried in turn.
pub struct OneByOne(Vec<Tried>);

struct Tried {
    criteria: Vec<(Name, Matcher)>,
    when: Option<Expr>,
    action: Action,
    then: Then,
    number: u32,
}

enum Matcher {
    Exact(String),
    ExactNoCase(String),
    Regex(Regex),
}

impl OneByOne {
    /// Compiles each pattern separately.
    pub fn new(rules: &[Rule]) -> Outcome<Self> {
        let one = |rule: &Rule| -> Outcome<Tried> {
            let matcher = |criterion: &paceline_rules::Criterion| {
                let pattern = &criterion.pattern;
                let matcher = match (criterion.mode, criterion.nocase) {
                    (PatternMode::Exact, false) => Matcher::Exact(pattern.clone()),
                    (PatternMode::Exact, true) => Matcher::ExactNoCase(pattern.clone()),
                    (PatternMode::Glob, nocase) => Matcher::Regex(regex(&glob(pattern), nocase)?),
                    (PatternMode::Regex, nocase) => Matcher::Regex(regex(pattern, nocase)?),
                };
                Ok((criterion.attribute.clone(), matcher))
            };
            let when = rule.when.as_ref();
            Ok(Tried {
                criteria: rule.criteria.iter().map(matcher).collect::<Outcome<_>>()?,
                when: when.map(|text| compile(text, Kind::Condition, &NoNames)).transpose()?,
                action: rule.action,
                then: rule.then,
                number: rule.number,
            })
        };
        Ok(Self(rules.iter().map(one).collect::<Outcome<_>>()?))
    }

    /// The decision of the rules for a request.
    pub fn decide(&self, attributes: &Attributes) -> Verdict {
        let (mut priority, mut rejected) = (Priority::START, None);
        for rule in &self.0 {
            if !rule.matches(attributes, priority) {
                continue;
            }
            match rule.action {
                Action::Nothing => {}
                Action::Set(to) => (priority, rejected) = (to, None),
                Action::Raise(by) => priority = priority.raised(by),
                Action::Lower(by) => priority = priority.lowered(by),
                Action::Reject => rejected = Some(rule.number),
            }
            if rule.then == Then::Stop {
                break;
            }
        }
        rejected.map_or(Verdict::Priority(priority), |rule| Verdict::Rejected { rule })
    }
}

impl Tried {
    fn matches(&self, attributes: &Attributes, priority: Priority) -> bool {
        let fits = |(name, matcher): &(Name, Matcher)| {
            let value = attributes.value(name);
            match matcher {
                Matcher::Exact(text) => value == text,
                Matcher::ExactNoCase(text) => value.eq_ignore_ascii_case(text),
                Matcher::Regex(regex) => regex.is_match(value),
            }
        };
        let asking = Asking { attributes, priority };
        self.criteria.iter().all(fits)
            && self.when.as_ref().is_none_or(|when| when.condition(&asking) == Ok(true))
    }
}

fn regex(pattern: &str, nocase: bool) -> Outcome<Regex> {
    Ok(RegexBuilder::new(pattern).case_insensitive(nocase).build()?)
}

/// The rules here use no other wildcard than `*`. At either end it is omitted, which is much faster.
fn glob(pattern: &str) -> String {
    let middle = pattern.trim_matches('*');
    let parts: Vec<_> = middle.split('*').map(regex::escape).collect();
    let begin = if pattern.starts_with('*') { "" } else { "^" };
    let end = if pattern.ends_with('*') { "" } else { "$" };
    format!("(?s){begin}{}{end}", parts.join(".*"))
}

/// A request that a rule is matched against.
pub struct Asking<'a> {
    /// Its attributes.
    pub attributes: &'a Attributes,
    /// Its priority so far.
    pub priority: Priority,
}

impl Input for Asking<'_> {
    fn attribute(&self, name: &Name) -> &str {
        self.attributes.value(name)
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn counter(&self, _: Counter, _: Option<&str>) -> f64 {
        0.0
    }
}

/// The rules here read no counter.
pub struct NoNames;

impl Scope for NoNames {
    fn checkpoint(&self, _: &str) -> Option<CheckpointId> {
        None
    }

    fn pool(&self, _: &str) -> Option<PoolId> {
        None
    }

    fn names(&self) -> Vec<&str> {
        vec![]
    }
}
