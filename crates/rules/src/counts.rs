//! How often each rule was evaluated, matched, and failed.
//!
//! Owns plain numbers. The cost of recording depends on the rules that matched, not on the length of the list: only
//! the rule where each request stopped is counted, and evaluations are summed up when read. Disabled rules are not
//! evaluated.

use crate::decide::Decision;
use crate::rule::Rule;
use crate::ruleset::Ruleset;

/// Counts of all rules of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that stopped at each rule; the last entry counts the requests that stopped nowhere.
    stopped_at: Vec<u64>,
    rules: Vec<RuleCounts>,
    enabled: Vec<bool>,
}

/// Counts of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Requests that reached it while it was enabled.
    pub evaluations: u64,
    /// Requests that matched.
    pub matches: u64,
    /// Requests for which its condition could not be evaluated.
    pub errors: u64,
}

impl Counts {
    /// All zero.
    #[must_use]
    pub fn new(rules: &[Rule]) -> Self {
        Self {
            stopped_at: vec![0; rules.len() + 1],
            rules: vec![RuleCounts::default(); rules.len()],
            enabled: rules.iter().map(|rule| !rule.disabled).collect(),
        }
    }

    /// Counts one decision of the same ruleset.
    pub fn record(&mut self, decision: &Decision) {
        debug_assert!(decision.stopped_at < self.stopped_at.len(), "a decision of these rules");
        if let Some(stopped) = self.stopped_at.get_mut(decision.stopped_at) {
            *stopped += 1;
        }
        for rule in &decision.matched {
            if let Some(counts) = self.rules.get_mut(*rule as usize) {
                counts.matches += 1;
            }
        }
        for rule in &decision.errors {
            if let Some(counts) = self.rules.get_mut(*rule as usize) {
                counts.errors += 1;
            }
        }
    }

    /// The counts of every rule, in order.
    #[must_use]
    pub fn read(&self) -> Vec<RuleCounts> {
        let mut counts = self.rules.clone();
        let mut reached = self.stopped_at.last().copied().unwrap_or(0);
        for (index, counts) in counts.iter_mut().enumerate().rev() {
            reached += self.stopped_at[index];
            if self.enabled[index] {
                counts.evaluations += reached;
            }
        }
        counts
    }

    /// Counts for `new`. A rule that is also in `old`, with the same number, criteria and condition, keeps its counts;
    /// its result and its flags may differ.
    #[must_use]
    pub fn carry_over(&self, old: &Ruleset, new: &Ruleset) -> Self {
        let mut counts = Self::new(new.rules());
        let before = self.read();
        for (index, rule) in new.rules().iter().enumerate() {
            if let Ok(at) = old.rules().binary_search_by_key(&rule.number, |rule| rule.number)
                && old.rules()[at].matches_the_same(rule)
            {
                counts.rules[index] = before[at];
            }
        }
        counts
    }
}
