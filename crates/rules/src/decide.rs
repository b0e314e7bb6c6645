//! The second half of classification: conditions that read counters or the current priority, actions, and where the
//! list stops.
//!
//! Owns the meaning of the ten results (seed 000). A request starts at priority 0. Raising and lowering saturate.
//! Rejecting keeps the current priority, which later rules still see. A later `set` undoes the rejection; raising and
//! lowering do not. A condition that fails to evaluate counts as no match and is reported.

use crate::rule::{Action, Then};
use crate::ruleset::{Candidates, Matcher, Ruleset};
use paceline_expr::{Counter, EvalError, Input};
use paceline_types::{Name, Priority};

/// The result of the rules for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The result.
    pub verdict: Verdict,
    /// Indexes of the rules that matched, in order.
    pub matched: Vec<u32>,
    /// The index of the rule that stopped, or the number of rules if none did. The rules up to and including it were
    /// evaluated if they are enabled.
    pub stopped_at: usize,
    /// Indexes of the rules whose condition could not be evaluated.
    pub errors: Vec<u32>,
}

/// A priority or a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request continues with this priority.
    Priority(Priority),
    /// The request is rejected.
    Rejected {
        /// The number of the rule that last rejected it.
        rule: u32,
    },
}

impl Ruleset {
    /// Decides on a request, given its candidates from this same ruleset. Conditions see the priority given by the
    /// rules so far; the priority of `input` is ignored.
    #[must_use]
    pub fn decide(&self, candidates: &Candidates, input: &impl Input) -> Decision {
        self.visit_all(candidates, input, |_, _, _| ())
    }

    /// The same; `seen` learns of each rule that is tried.
    pub(crate) fn visit_all(
        &self,
        candidates: &Candidates,
        input: &impl Input,
        mut seen: impl FnMut(&Walk<'_>, u32, Result<(), Miss>),
    ) -> Decision {
        let mut walk = Walk::new(self);
        let (mut matching, mut always) = (&candidates.rules[..], self.always());
        loop {
            let rule = match (matching, always) {
                ([first, rest @ ..], []) => take(first, rest, &mut matching),
                ([], [first, rest @ ..]) => take(first, rest, &mut always),
                ([a, rest @ ..], [b, ..]) if a < b => take(a, rest, &mut matching),
                ([..], [b, rest @ ..]) => take(b, rest, &mut always),
                ([], []) => break,
            };
            let Some(matcher) = self.matcher(rule) else { continue };
            let settled = matcher.settled.then(|| candidates.settled(rule));
            let visited = walk.visit(rule, matcher, settled, input);
            let stops = visited.is_ok() && matcher.then == Then::Stop;
            seen(&walk, rule, visited);
            if stops {
                walk.decision.stopped_at = rule as usize;
                break;
            }
        }
        walk.finish()
    }
}

fn take<'l>(first: &u32, rest: &'l [u32], list: &mut &'l [u32]) -> u32 {
    *list = rest;
    *first
}

/// Why a rule does not match although its patterns on attributes do.
pub(crate) enum Miss {
    /// A criterion on the priority, with its index.
    Criterion(usize),
    /// The condition does not hold.
    Condition,
    /// The condition could not be evaluated.
    Error(EvalError),
}

/// The state of a request on its way through the list.
pub(crate) struct Walk<'r> {
    ruleset: &'r Ruleset,
    pub(crate) priority: Priority,
    pub(crate) rejected: Option<u32>,
    pub(crate) decision: Decision,
}

impl<'r> Walk<'r> {
    pub(crate) fn new(ruleset: &'r Ruleset) -> Self {
        let verdict = Verdict::Priority(Priority::START);
        let stopped_at = ruleset.rules().len();
        let decision = Decision { verdict, matched: vec![], stopped_at, errors: vec![] };
        Self { ruleset, priority: Priority::START, rejected: None, decision }
    }

    /// Tries a rule whose patterns on attributes match, and applies its action if it matches. If its condition was
    /// already evaluated, `settled` is the result.
    pub(crate) fn visit(
        &mut self,
        rule: u32,
        matcher: &Matcher,
        settled: Option<Result<bool, EvalError>>,
        input: &impl Input,
    ) -> Result<(), Miss> {
        if let Some(at) = self.failing_priority(matcher) {
            return Err(Miss::Criterion(at));
        }
        if let Some(when) = matcher.when {
            let input = SoFar { input, priority: self.priority };
            match settled.unwrap_or_else(|| self.ruleset.expr(when).condition(&input)) {
                Ok(true) => {}
                Ok(false) => return Err(Miss::Condition),
                Err(error) => {
                    self.decision.errors.push(rule);
                    return Err(Miss::Error(error));
                }
            }
        }
        self.decision.matched.push(rule);
        self.act(rule, matcher.action);
        Ok(())
    }

    /// The index of a criterion on the priority so far that does not match.
    pub(crate) fn failing_priority(&self, matcher: &Matcher) -> Option<usize> {
        let fails = matcher.priority.iter().find(|(_, bits)| !bits.contains(self.priority));
        fails.map(|(at, _)| *at)
    }

    pub(crate) fn act(&mut self, rule: u32, action: Action) {
        match action {
            Action::Nothing => {}
            Action::Set(priority) => {
                self.priority = priority;
                self.rejected = None;
            }
            Action::Raise(_) | Action::Lower(_) if self.rejected.is_some() => {}
            Action::Raise(n) => self.priority = self.priority.raised(n),
            Action::Lower(n) => self.priority = self.priority.lowered(n),
            Action::Reject => self.rejected = Some(rule),
        }
    }

    pub(crate) fn finish(mut self) -> Decision {
        self.decision.verdict = self.verdict();
        self.decision
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self.rejected {
            Some(rule) => Verdict::Rejected { rule: self.ruleset.rules()[rule as usize].number },
            None => Verdict::Priority(self.priority),
        }
    }
}

/// A request as a rule sees it: with the priority that the previous rules gave it.
struct SoFar<'i, I> {
    input: &'i I,
    priority: Priority,
}

impl<I: Input> Input for SoFar<'_, I> {
    fn attribute(&self, name: &Name) -> &str {
        self.input.attribute(name)
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        self.input.counter(counter, key)
    }
}
