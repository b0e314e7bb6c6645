//! The list as the design describes it: every rule in turn, patterns by the `regex` crate.

use super::World;
use crate::{Action, Criterion, Decision, PatternMode, Rule, Then, Verdict};
use paceline_expr::{Counter, Expr, Input, Kind};
use paceline_types::{Attributes, Name, Priority};
use regex::{Regex, RegexBuilder};

/// The regular expression equivalent to a criterion.
pub(crate) fn regex_of(criterion: &Criterion) -> Regex {
    let pattern = match criterion.mode {
        PatternMode::Exact => format!("\\A{}\\z", regex::escape(&criterion.pattern)),
        PatternMode::Glob => regex_of_glob(&criterion.pattern),
        PatternMode::Regex => criterion.pattern.clone(),
    };
    RegexBuilder::new(&pattern).case_insensitive(criterion.nocase).build().unwrap()
}

fn regex_of_glob(glob: &str) -> String {
    let escape = |c: char| regex::escape(&c.to_string());
    let mut out = String::from("\\A");
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => out.push_str("(?s:.)*"),
            '?' => out.push_str("(?s:.)"),
            '\\' => out.push_str(&escape(chars.next().unwrap())),
            '[' => {
                out.push('[');
                if chars.next_if_eq(&'!').is_some() {
                    out.push('^');
                }
                let mut members: Vec<(char, bool)> = vec![];
                while members.is_empty() || chars.peek() != Some(&']') {
                    match chars.next().unwrap() {
                        '\\' => members.push((chars.next().unwrap(), true)),
                        c => members.push((c, false)),
                    }
                }
                chars.next();
                for (at, (c, escaped)) in members.iter().enumerate() {
                    let between = at > 0 && at + 1 < members.len();
                    if *c == '-' && !escaped && between {
                        out.push('-');
                    } else {
                        out.push_str(&format!("\\x{{{:x}}}", *c as u32));
                    }
                }
                out.push(']');
            }
            c => out.push_str(&escape(c)),
        }
    }
    out + "\\z"
}

/// What the reference needs of a rule.
pub(crate) struct Naive<'r> {
    rules: Vec<(&'r Rule, Vec<Regex>, Option<Expr>)>,
}

impl<'r> Naive<'r> {
    pub(crate) fn new(rules: &'r [Rule], world: &World) -> Self {
        let compile = |rule: &'r Rule| {
            let when = rule.when.as_ref();
            let when = when.map(|t| paceline_expr::compile(t, Kind::Condition, world).unwrap());
            (rule, rule.criteria.iter().map(regex_of).collect(), when)
        };
        Self { rules: rules.iter().map(compile).collect() }
    }

    pub(crate) fn decide(&self, attributes: &Attributes, input: &World) -> Decision {
        // As in the seed: one number, where -128 is the rejection.
        let (mut number, mut kept, mut rejected_by) = (0i32, 0i32, 0);
        let (mut matched, mut errors) = (vec![], vec![]);
        let mut stopped_at = self.rules.len();
        for (index, (rule, patterns, when)) in self.rules.iter().enumerate() {
            let value = |name: &Name| match name {
                Name::Priority => kept.to_string(),
                name => attributes.value(name).to_owned(),
            };
            let fits =
                rule.criteria.iter().zip(patterns).all(|(c, p)| p.is_match(&value(&c.attribute)));
            if rule.disabled || !fits {
                continue;
            }
            let seen =
                Seen { world: input, attributes, priority: Priority::new(kept.into()).unwrap() };
            match when.as_ref().map_or(Ok(true), |when| when.condition(&seen)) {
                Ok(true) => matched.push(index as u32),
                Ok(false) => continue,
                Err(_) => {
                    errors.push(index as u32);
                    continue;
                }
            }
            match rule.action {
                Action::Nothing => {}
                Action::Set(priority) => number = priority.number().into(),
                Action::Raise(n) if number != -128 => number = (number + i32::from(n)).min(127),
                Action::Lower(n) if number != -128 => number = (number - i32::from(n)).max(-127),
                Action::Raise(_) | Action::Lower(_) => {}
                Action::Reject => {
                    number = -128;
                    rejected_by = rule.number;
                }
            }
            if number != -128 {
                kept = number;
            }
            if rule.then == Then::Stop {
                stopped_at = index;
                break;
            }
        }
        let verdict = match Priority::new(number.into()) {
            Some(priority) => Verdict::Priority(priority),
            None => Verdict::Rejected { rule: rejected_by },
        };
        Decision { verdict, matched, stopped_at, errors }
    }
}

/// A request at one rule.
pub(crate) struct Seen<'w> {
    pub(crate) world: &'w World,
    pub(crate) attributes: &'w Attributes,
    pub(crate) priority: Priority,
}

impl Input for Seen<'_> {
    fn attribute(&self, name: &Name) -> &str {
        self.attributes.value(name)
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        self.world.counter(counter, key)
    }
}
