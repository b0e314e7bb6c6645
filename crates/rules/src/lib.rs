//! Rules: criteria, and which priority a request gets (seed 000).
//!
//! This crate owns what a rule is ([`Rule`]) and its text form, and the compiled form of a list that
//! classifies requests ([`Ruleset`]). It promises:
//!
//! - R2: a text that is no rule is an error that says where and why, never an empty list.
//! - R3: matching takes time linear in the text, and compiled patterns are bounded.
//! - The answer is the one that trying every rule in turn would give, but the cost does not grow
//!   with the number of rules the way trying them does.
//!
//! A request is classified in two halves: [`Ruleset::candidates`] matches patterns, evaluates the
//! conditions that read nothing but attributes, and needs no lock; [`Ruleset::decide`] evaluates those
//! that read counters or the priority so far, and is short. It never reads a clock, counts requests
//! or chooses a pool.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod build;
mod choose;
mod classes;
mod compile;
mod counts;
mod decide;
mod error;
mod exact;
mod fold;
mod glob;
mod index;
mod literals;
mod pattern;
mod program;
mod rule;
mod ruleset;
mod run;
mod sets;
mod steps;
mod takers;
mod text;
mod trace;

pub use counts::{Counts, RuleCounts};
pub use decide::{Decision, Verdict};
pub use error::{CompileRuleError, Fault, Part};
pub use rule::{Action, CRITERIA_MAX, Criterion, PatternMode, Rule, STEP_MAX, Then};
pub use ruleset::{Candidates, Ruleset};
pub use text::{
    NewRule, ParseRuleError, Problem, RULE_BYTES_MAX, parse_action, parse_criteria, show_criteria,
};
pub use trace::{Outcome, Step, Trace};

#[cfg(test)]
mod tests;
