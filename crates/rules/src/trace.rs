//! Every rule in turn, with what became of it: for `explain`.
//!
//! Owns the slow way: no index is used, each rule is tried. Promises the same decision as
//! [`Ruleset::decide`], which a test holds it to.

use crate::decide::{Decision, Miss, Verdict, Walk};
use crate::rule::Then;
use crate::ruleset::Ruleset;
use paceline_expr::Input;
use paceline_types::Attributes;

/// What became of a request at each rule.
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
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It matched; this would be the result if no further rule came.
    Matched(Verdict),
    /// The criterion with this index, counted from 0, did not match.
    Criterion(usize),
    /// Its condition does not hold.
    Condition,
    /// Its condition could not be evaluated, for this reason.
    Error(String),
}

impl Ruleset {
    /// Tries the rules one by one.
    #[must_use]
    pub fn trace(&self, attributes: &Attributes, input: &impl Input) -> Trace {
        let mut scratch = self.scratch();
        let mut walk = Walk::new(self);
        let mut steps = vec![];
        for rule in 0..self.rules().len() as u32 {
            let Some(matcher) = self.matcher(rule) else { continue };
            let outcome = match self.first_failing(matcher, attributes, &mut scratch.matching) {
                Some(at) => Outcome::Criterion(at),
                None => match walk.visit(rule, matcher, None, input) {
                    Ok(()) => Outcome::Matched(walk.verdict()),
                    Err(Miss::Criterion(at)) => Outcome::Criterion(at),
                    Err(Miss::Condition) => Outcome::Condition,
                    Err(Miss::Error(error)) => Outcome::Error(error.to_string()),
                },
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
