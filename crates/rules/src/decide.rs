//! The second half of classifying: conditions that read counters or the priority so far, actions,
//! and where the list stops.
//!
//! Owns the meaning of the ten results (seed 000). A request starts at priority 0. Raising and
//! lowering saturate. Rejecting keeps the priority so far, which later rules still see; a later `set`
//! takes the rejection back, raising and lowering do not. A condition that fails to evaluate
//! counts as no match and is reported.

use crate::rule::{Action, Then};
use crate::ruleset::{Candidates, Matcher, Ruleset};
use paceline_expr::{Counter, EvalError, Input};
use paceline_types::{Name, Priority};

/// What the rules say of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The result.
    pub verdict: Verdict,
    /// Indexes of the rules that matched, in order.
    pub matched: Vec<u32>,
    /// Index of the rule that stopped, the number of rules if none did: the rules up to it, and
    /// itself, were evaluated if they are enabled.
    pub stopped_at: usize,
    /// Indexes of the rules whose condition could not be evaluated.
    pub errors: Vec<u32>,
}

/// A priority or a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request goes on with this priority.
    Priority(Priority),
    /// The request is turned away.
    Rejected {
        /// The number of the rule that rejected it last.
        rule: u32,
    },
}

impl Ruleset {
    /// Decides on a request, given its candidates from this same ruleset. The priority that
    /// conditions see is that of the rules so far; the input's own is not looked at.
    #[must_use]
    pub fn decide(&self, candidates: &Candidates, input: &impl Input) -> Decision {
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
            if walk.visit(rule, matcher, settled, input).is_ok() && matcher.then == Then::Stop {
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

/// Why a rule whose patterns on attributes match does not match all the same.
pub(crate) enum Miss {
    /// A criterion on the priority, with its index.
    Criterion(usize),
    /// The condition does not hold.
    Condition,
    /// The condition could not be evaluated.
    Error(EvalError),
}

/// A request on its way through the list.
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

    /// Tries a rule whose patterns on attributes match, and does what it says if it matches. Its
    /// condition is not evaluated if what it says is `settled`.
    pub(crate) fn visit(
        &mut self,
        rule: u32,
        matcher: &Matcher,
        settled: Option<Result<bool, EvalError>>,
        input: &impl Input,
    ) -> Result<(), Miss> {
        let fails = matcher.priority.iter().find(|(_, bits)| !bits.contains(self.priority));
        if let Some((at, _)) = fails {
            return Err(Miss::Criterion(*at));
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

    fn act(&mut self, rule: u32, action: Action) {
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

/// The request as a rule sees it: with the priority that the rules before gave it.
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
