//! Rules: criteria, and the priority that a request gets (seed 000).
//!
//! This crate owns what a rule is ([`Rule`]) and its text form, and the compiled form of a list that
//! classifies requests ([`Ruleset`]). It promises:
//!
//! - R2: a text that is not a rule is an error that says where and why, never an empty list.
//! - R3: matching takes time linear in the text, and compiled patterns are bounded.
//! - The answer is the one that trying every rule in turn would give, but the cost does not grow in proportion to the
//!   number of rules.
//!
//! A request is classified in two halves. [`Ruleset::candidates`] matches patterns, evaluates the conditions that
//! read only attributes, and needs no lock. [`Ruleset::decide`] evaluates the conditions that read counters or the
//! current priority, and is short. It never reads a clock, counts requests or chooses a pool.
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
mod import;
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
pub use import::{
    ExportError, ExportProblem, ImportError, ImportProblem, Imported, KnownPool, ProposedPool,
    RULESET_FILE_BYTES_MAX, RULESET_LINE_BYTES_MAX, RULESET_RULES_MAX, RULESET_THREADS_MAX,
    export_ruleset, import_ruleset,
};
pub use rule::{Action, CRITERIA_MAX, Criterion, PatternMode, Rule, STEP_MAX, Then};
pub use ruleset::{Candidates, Ruleset};
pub use text::{
    NewRule, ParseRuleError, Problem, RULE_BYTES_MAX, parse_action, parse_criteria, show_criteria,
};
pub use trace::{Outcome, Step, Trace};

#[cfg(test)]
mod tests;
