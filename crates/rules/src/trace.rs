//! Every rule in turn, with its outcome, for `explain`.
//!
//! The candidates are tried as [`Ruleset::decide`] tries them, so explaining costs what deciding costs. What did not match in
//! the other rules is found out afterwards, and apart, because it may take long. Promises the same as trying each rule
//! without an index, which a test holds it to.

use crate::decide::{Decision, Miss, Verdict, Walk};
#[cfg(test)]
use crate::rule::Then;
use crate::ruleset::{Candidates, Matcher, Matching, Ruleset};
use paceline_expr::Input;
use paceline_types::Attributes;

/// The outcome of a request at each rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The rules that were reached, in order, without disabled ones.
    pub steps: Vec<Step>,
    /// The result.
    pub decision: Decision,
}

/// One rule that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The index of the rule.
    pub rule: u32,
    /// Its outcome.
    pub outcome: Outcome,
}

/// The outcome of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It matched; this would be the result if no further rule followed.
    Matched(Verdict),
    /// The criterion with this index, counted from 0, did not match.
    Criterion(usize),
    /// Its condition does not hold.
    Condition,
    /// Its condition could not be evaluated, for this reason.
    Error(String),
}

impl Ruleset {
    /// Tries the candidates of a request, with what became of each. [`Ruleset::complete`] adds the other rules.
    #[must_use]
    pub fn trace(&self, candidates: &Candidates, input: &impl Input) -> Trace {
        let mut steps = vec![];
        let decision = self.visit_all(candidates, input, |walk, rule, visited| {
            steps.push(Step { rule, outcome: Outcome::of(walk, visited) });
        });
        Trace { steps, decision }
    }

    /// Adds the rules that were reached and are no candidates. This may take long where a rule has several criteria,
    /// and needs nothing but the request's attributes.
    pub fn complete(&self, trace: &mut Trace, attributes: &Attributes) {
        let mut scratch = self.scratch();
        let mut walk = Walk::new(self);
        let mut tried = std::mem::take(&mut trace.steps).into_iter().peekable();
        for rule in 0..self.rules().len() as u32 {
            if rule as usize > trace.decision.stopped_at {
                break;
            }
            let Some(matcher) = self.matcher(rule) else { continue };
            let step = tried.next_if(|step| step.rule == rule).unwrap_or_else(|| {
                let failing = self.failing(matcher, attributes, &mut scratch.matching);
                let failing = failing.or_else(|| walk.failing_priority(matcher));
                Step { rule, outcome: failing.map_or(Outcome::Condition, Outcome::Criterion) }
            });
            if matches!(step.outcome, Outcome::Matched(_)) {
                walk.act(rule, matcher.action);
            }
            trace.steps.push(step);
        }
    }

    /// The criterion on an attribute that a rule fails which is no candidate; none if that is its condition.
    fn failing(
        &self,
        matcher: &Matcher,
        attributes: &Attributes,
        matching: &mut Matching,
    ) -> Option<usize> {
        match &*matcher.checks {
            // If the others match, it is the last one that does not, which need not be tried.
            [others @ .., last] if !matcher.settled => {
                Some(self.first_failing(others, attributes, matching).unwrap_or(last.at))
            }
            checks => self.first_failing(checks, attributes, matching),
        }
    }

    /// Tries the rules one by one, without an index.
    #[cfg(test)]
    pub(crate) fn trace_slowly(&self, attributes: &Attributes, input: &impl Input) -> Trace {
        let mut scratch = self.scratch();
        let mut walk = Walk::new(self);
        let mut steps = vec![];
        for rule in 0..self.rules().len() as u32 {
            let Some(matcher) = self.matcher(rule) else { continue };
            let failing = self.first_failing(&matcher.checks, attributes, &mut scratch.matching);
            let outcome = match failing {
                Some(at) => Outcome::Criterion(at),
                None => {
                    let visited = walk.visit(rule, matcher, None, input);
                    Outcome::of(&walk, visited)
                }
            };
            let stops = matches!(outcome, Outcome::Matched(_)) && matcher.then == Then::Stop;
            steps.push(Step { rule, outcome });
            if stops {
                walk.decision.stopped_at = rule as usize;
                break;
            }
        }
        Trace { steps, decision: walk.finish() }
    }
}

impl Outcome {
    /// What became of a rule whose patterns on attributes match.
    fn of(walk: &Walk<'_>, visited: Result<(), Miss>) -> Self {
        match visited {
            Ok(()) => Self::Matched(walk.verdict()),
            Err(Miss::Criterion(at)) => Self::Criterion(at),
            Err(Miss::Condition) => Self::Condition,
            Err(Miss::Error(error)) => Self::Error(error.to_string()),
        }
    }
}
