//! Our rules as a file of version 2.
//!
//! Owns what each rule becomes (this file) and in which mode its patterns are written (`patterns`). Two rules that an
//! import made of one become one again. The layout is that of Comdb2's own `save_ruleset`.

mod patterns;

use super::error::{ExportError, ExportProblem};
use super::read::{Action as Theirs, BLANKS};
use super::{
    DEFAULT_POOL, KnownPool, RULESET_FILE_BYTES_MAX, RULESET_RULES_MAX, RULESET_THREADS_MAX,
};
use crate::rule::{Action, Criterion, PatternMode, Rule, Then};
use paceline_types::{Known, Name, Priority, limits};
use std::collections::BTreeMap;

pub(super) fn write(rules: &[Rule], pools: &[KnownPool]) -> Result<String, ExportError> {
    let mut writer = Writer { pools, used: BTreeMap::new(), state: State::default() };
    let (mut lines, mut rest) = (vec![], rules);
    while let Some((line, len)) = writer.line(rest)? {
        lines.push(line);
        rest = rest.get(len..).unwrap_or_default();
    }
    if let Some(line) = lines.get(RULESET_RULES_MAX as usize) {
        return Err(line.error(ExportProblem::TooManyRules));
    }
    let mut out = String::from("version 2\n");
    for (at, (_, pool)) in writer.used.values().enumerate() {
        let threads = pool.threads.map_or(String::new(), |threads| format!(" threads {threads}"));
        let gap = if at == 0 { "\n" } else { "" };
        out.push_str(&format!("{gap}pool {}{threads}\n", pool.name));
    }
    let keeps_numbers =
        lines.iter().all(|line| (1..=RULESET_RULES_MAX).contains(&line.rule.number));
    for (line, counted) in lines.iter().zip(1..) {
        out.push('\n');
        line.write(if keeps_numbers { line.rule.number } else { counted }, &mut out)?;
        if out.len() > RULESET_FILE_BYTES_MAX {
            return Err(line.error(ExportProblem::TooLong));
        }
    }
    Ok(out)
}

/// A rule of the file.
struct Line<'r> {
    /// The rule with its flags.
    rule: &'r Rule,
    action: Theirs,
    pool: Option<&'r str>,
    criteria: Vec<&'r Criterion>,
}

impl Line<'_> {
    fn error(&self, problem: ExportProblem) -> ExportError {
        ExportError { rule: self.rule.number, problem }
    }

    fn write(&self, number: u32, out: &mut String) -> Result<(), ExportError> {
        // No line is too long, because patterns and names are not.
        let mut property =
            |name: &str, value: &str| out.push_str(&format!("rule {number} {name} {value}\n"));
        let action = match self.action {
            Theirs::None => "NONE",
            Theirs::Reject => "REJECT",
            Theirs::Unreject => "UNREJECT",
            Theirs::SetPool => "SET_POOL",
        };
        property("action", action);
        if let Some(pool) = self.pool {
            property("pool", pool);
        }
        let flags = [
            (self.rule.disabled, "DISABLE"),
            (self.rule.log, "PRINT"),
            (self.rule.then == Then::Stop, "STOP"),
        ];
        let flags: Vec<&str> = flags.iter().filter(|(is_set, _)| *is_set).map(|f| f.1).collect();
        if !flags.is_empty() {
            property("flags", &format!("{{{}}}", flags.join(" ")));
        }
        let patterns = patterns::write(&self.criteria).map_err(|problem| self.error(problem))?;
        for (name, value) in patterns {
            property(name, &value);
        }
        Ok(())
    }
}

/// What the rules so far may have done to a request.
#[derive(Clone, Copy, Default)]
struct State {
    /// It may have a priority other than 0.
    may_have_pool: bool,
    /// It may be rejected and have a priority other than 0, which Comdb2 cannot tell from rejected.
    may_have_both: bool,
}

struct Writer<'r> {
    pools: &'r [KnownPool],
    /// The pools that rules set, each with its priority, by name.
    used: BTreeMap<&'r str, (Priority, &'r KnownPool)>,
    state: State,
}

impl<'r> Writer<'r> {
    /// What the next one or two rules become, and how many they are.
    fn line(&mut self, rules: &'r [Rule]) -> Result<Option<(Line<'r>, usize)>, ExportError> {
        let Some(first) = rules.first() else { return Ok(None) };
        let error = |problem| ExportError { rule: first.number, problem };
        if first.when.is_some() {
            return Err(error(ExportProblem::When));
        }
        let second = rules.get(1).filter(|second| is_pair(first, second));
        let (rule, len) = second.map_or((first, 1), |second| (second, 2));
        let on_priority = first.criteria.iter().filter(|c| c.attribute == Name::Priority).count();
        let mut pool = None;
        let action = match (first.action, rule.action) {
            (Action::Set(Priority::START), _) if on_priority > 0 => {
                let is_whole = len == 2 || !self.state.may_have_pool || is_silent(rule);
                let is_zero = on_priority == 1 && first.criteria.iter().any(is_at_zero);
                if !is_zero || !is_whole || self.state.may_have_both {
                    return Err(error(ExportProblem::Priority));
                }
                Theirs::Unreject
            }
            _ if on_priority > 0 => return Err(error(ExportProblem::Priority)),
            (_, Action::Nothing) => Theirs::None,
            (_, Action::Reject) => {
                let keeps_pool = self.state.may_have_pool && len == 1;
                self.state.may_have_both |= keeps_pool && rule.then == Then::Continue;
                Theirs::Reject
            }
            (_, Action::Set(priority)) => {
                let name = self.pool(priority).map_err(error)?;
                let is_left = name != DEFAULT_POOL && rule.then == Then::Continue;
                self.state.may_have_pool |= is_left;
                pool = Some(name);
                Theirs::SetPool
            }
            (_, Action::Raise(_) | Action::Lower(_)) => return Err(error(ExportProblem::Step)),
        };
        let is_written = |c: &&Criterion| c.attribute != Name::Priority && !is_sql(c);
        let criteria = rule.criteria.iter().filter(is_written).collect();
        Ok(Some((Line { rule, action, pool, criteria }, len)))
    }

    fn pool(&mut self, priority: Priority) -> Result<&'r str, ExportProblem> {
        if priority == Priority::START {
            return Ok(DEFAULT_POOL);
        }
        let holds = |pool: &&KnownPool| {
            pool.range.is_some_and(|(low, high)| low <= priority && priority <= high)
        };
        let pool = self.pools.iter().find(holds);
        let pool = pool.filter(|pool| pool.name != DEFAULT_POOL);
        let pool = pool.ok_or(ExportProblem::NoPool(priority.number()))?;
        let name = pool.name.as_str();
        let is_name = !name.is_empty()
            && name.len() <= limits::NAME_BYTES_MAX
            && !name.contains(|c: char| BLANKS.contains(&c) || c.is_control())
            && !name.eq_ignore_ascii_case(DEFAULT_POOL);
        let is_threads = pool.threads.is_none_or(|n| (1..=RULESET_THREADS_MAX).contains(&n));
        if !is_name || !is_threads {
            return Err(ExportProblem::PoolName(name.to_owned()));
        }
        let (used, _) = self.used.entry(name).or_insert((priority, pool));
        if *used != priority {
            return Err(ExportProblem::TwoPriorities(name.to_owned()));
        }
        Ok(name)
    }
}

/// Whether an import may have made these two rules of one: a rejection at priority 0, or its undoing.
fn is_pair(first: &Rule, second: &Rule) -> bool {
    let without_priority: Vec<&Criterion> =
        first.criteria.iter().filter(|c| c.attribute != Name::Priority).collect();
    let is_undoing = without_priority.len() < first.criteria.len();
    let fits = if is_undoing { Action::Nothing } else { Action::Reject };
    first.action == Action::Set(Priority::START)
        && is_silent(first)
        && first.disabled == second.disabled
        && second.when.is_none()
        && second.action == fits
        && second.criteria.iter().eq(without_priority)
}

/// Whether it makes no difference beyond its action that a rule matches.
fn is_silent(rule: &Rule) -> bool {
    rule.then == Then::Continue && !rule.log
}

fn is_at_zero(criterion: &Criterion) -> bool {
    criterion.attribute == Name::Priority
        && criterion.mode == PatternMode::Exact
        && criterion.pattern == "0"
}

/// Whether it says that the request is SQL, as all requests in Comdb2 are.
fn is_sql(criterion: &Criterion) -> bool {
    criterion.attribute == Name::Known(Known::Kind)
        && criterion.mode == PatternMode::Exact
        && criterion.pattern == "sql"
}
