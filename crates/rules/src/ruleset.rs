//! A compiled list of rules: immutable, shared by all threads, and the first half of classification.
//!
//! Owns the matchers of all enabled rules and the indexes that find them. [`Ruleset::candidates`] looks the value of
//! each attribute up once, which finds few rules. It verifies these in order, including conditions that read only
//! attributes. The second half is in `decide`.
//!
//! Memory for look-ups is kept in a pool, one entry per thread that looks up at the same time; its content never
//! changes an answer. Each entry takes at most the bound in `sets`, [`FOLDED_BYTES_MAX`] between requests, and some
//! bytes for each rule and literal.

use crate::compile;
use crate::error::CompileRuleError;
use crate::fold::Fold;
use crate::index::{Index, IndexWork};
use crate::pattern::Pattern;
use crate::rule::{Action, Rule, Then};
use paceline_expr::{Counter, EvalError, Expr, Input, Scope};
use paceline_types::{Attributes, Name, Priority};
use regex_automata::util::pool::{Pool, PoolGuard};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A compiled list of rules.
#[derive(Debug)]
pub struct Ruleset {
    rules: Vec<Rule>,
    /// `None` for a rule that is disabled or can never be reached.
    matchers: Vec<Option<Matcher>>,
    exprs: Vec<Expr>,
    /// Rules without a criterion on an attribute or a condition on attributes alone: they are candidates for every
    /// request.
    always: Vec<u32>,
    /// Rules without a criterion on an attribute, but with a condition on attributes alone.
    conditional: Vec<u32>,
    fold: Fold,
    attributes: Vec<Name>,
    /// By attribute; `None` if no rule is found by that attribute.
    indexes: Vec<Option<Index>>,
    /// Indexed attributes that every request may have.
    known: Vec<u32>,
    /// Indexed attributes that few requests have, by name.
    others: Vec<(Box<str>, u32)>,
    /// Those in `others` that have rules for requests without the attribute.
    others_missing: Vec<u32>,
    reads_counters: bool,
    /// The enabled rules that are not candidates for every request, in order.
    keyed: Vec<u32>,
    pool: Pool<Scratch, MakeScratch>,
}

/// The most bytes of folded values that are kept between requests to reuse their memory.
const FOLDED_BYTES_MAX: usize = 256 << 10;

/// Up to this many rules are tried one by one, which is then faster than looking them up.
const FEW_RULES: usize = 16;

/// Rules whose patterns match a request, and whose condition, if it reads only attributes, is not false. They are
/// passed to [`Ruleset::decide`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Indexes in order, without the rules that are candidates for every request.
    pub(crate) rules: Vec<u32>,
    /// The candidates whose condition could not be evaluated, in order.
    pub(crate) failed: Vec<(u32, EvalError)>,
}

/// The compiled form of an enabled rule.
#[derive(Debug)]
pub(crate) struct Matcher {
    /// Patterns on attributes, cheap ones first.
    pub(crate) checks: Vec<Check>,
    /// Patterns on the priority so far, with the index of the criterion.
    pub(crate) priority: Vec<(usize, Bits)>,
    /// Index of the condition.
    pub(crate) when: Option<u32>,
    /// Whether the condition reads only attributes. Then it was already evaluated for candidates.
    pub(crate) settled: bool,
    pub(crate) action: Action,
    pub(crate) then: Then,
}

/// One pattern on one attribute.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) attribute: u32,
    pub(crate) pattern: Pattern,
    /// Index of the criterion in its rule.
    pub(crate) at: usize,
}

/// A set of priorities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits([u64; 4]);

type MakeScratch = Box<dyn Fn() -> Scratch + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// Memory for matching one request.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    found: Vec<u32>,
    indexes: Vec<IndexWork>,
    pub(crate) matching: Matching,
}

/// Memory for verifying candidates: folded values.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    folded: FoldedValues,
}

/// Folded values of one request's attributes, each computed on first use.
#[derive(Debug, Default)]
struct FoldedValues {
    /// By attribute; valid if it has the current stamp.
    values: Vec<(u64, String)>,
    stamp: u64,
    /// Their size.
    bytes: usize,
}

impl Default for Ruleset {
    /// No rules: every request keeps priority 0.
    fn default() -> Self {
        Self::assemble(vec![], vec![], vec![], vec![], Fold::default(), vec![], vec![])
    }
}

impl Ruleset {
    /// Compiles a list of rules, which are in order of their numbers.
    ///
    /// # Errors
    ///
    /// When a rule, even a disabled one, cannot be compiled: the error says which and why.
    pub fn compile(rules: &[Rule], scope: &dyn Scope) -> Result<Self, CompileRuleError> {
        compile::compile(rules, scope, compile::LIST_BYTES_MAX)
    }

    pub(crate) fn assemble(
        rules: Vec<Rule>,
        matchers: Vec<Option<Matcher>>,
        exprs: Vec<Expr>,
        always: Vec<u32>,
        fold: Fold,
        attributes: Vec<Name>,
        indexes: Vec<Option<Index>>,
    ) -> Self {
        let used = matchers.iter().flatten().filter_map(|matcher| matcher.when);
        let reads_counters = used.into_iter().any(|when| exprs[when as usize].reads_counters());
        let is_keyed =
            |rule: &u32| matchers[*rule as usize].is_some() && always.binary_search(rule).is_err();
        let keyed = (0..rules.len() as u32).filter(is_keyed).collect();
        let is_settled =
            |rule: &u32| matchers[*rule as usize].as_ref().is_some_and(|matcher| matcher.settled);
        let (conditional, always) = always.into_iter().partition(is_settled);
        let len = attributes.len();
        let make: MakeScratch = Box::new(move || Scratch::new(len));
        let (known, others, others_missing) = (vec![], vec![], vec![]);
        let mut ruleset = Self {
            rules,
            matchers,
            exprs,
            always,
            conditional,
            fold,
            attributes,
            indexes,
            known,
            others,
            others_missing,
            reads_counters,
            keyed,
            pool: Pool::new(make),
        };
        ruleset.sort_attributes();
        ruleset
    }

    fn sort_attributes(&mut self) {
        for (at, (name, index)) in self.attributes.iter().zip(&self.indexes).enumerate() {
            let (Some(index), at) = (index, at as u32) else { continue };
            let Name::Other(name) = name else {
                self.known.push(at);
                continue;
            };
            let mut found = vec![];
            index.find("", "", &mut IndexWork::default(), &mut found);
            if !found.is_empty() {
                self.others_missing.push(at);
            }
            self.others.push((name.clone(), at));
        }
        self.others.sort_unstable();
    }

    /// The rules whose patterns match these attributes, as far as attributes decide.
    #[must_use]
    pub fn candidates(&self, attributes: &Attributes) -> Candidates {
        let mut candidates = Candidates::default();
        if self.known.is_empty() && self.others.is_empty() && self.conditional.is_empty() {
            return candidates;
        }
        let mut scratch = self.scratch();
        let Scratch { found, indexes, matching } = &mut *scratch;
        found.clear();
        if self.keyed.len() <= FEW_RULES {
            found.extend_from_slice(&self.keyed);
        } else {
            self.look_up(attributes, found, indexes, matching);
        }
        found.extend_from_slice(&self.conditional);
        found.sort_unstable();
        found.dedup();
        for rule in found.drain(..) {
            let Some(matcher) = &self.matchers[rule as usize] else { continue };
            if self.first_failing(&matcher.checks, attributes, matching).is_some() {
                continue;
            }
            match self.settled(matcher, attributes) {
                Ok(false) => continue,
                Ok(true) if matcher.always_stops() => {
                    candidates.rules.push(rule);
                    break;
                }
                Ok(true) => {}
                Err(error) => candidates.failed.push((rule, error)),
            }
            candidates.rules.push(rule);
        }
        candidates
    }

    /// The result of a rule's condition if it reads only attributes; otherwise true.
    fn settled(&self, matcher: &Matcher, attributes: &Attributes) -> Result<bool, EvalError> {
        match matcher.when {
            Some(when) if matcher.settled => {
                self.exprs[when as usize].condition(&AttributesOnly(attributes))
            }
            _ => Ok(true),
        }
    }

    fn look_up(
        &self,
        attributes: &Attributes,
        found: &mut Vec<u32>,
        indexes: &mut [IndexWork],
        matching: &mut Matching,
    ) {
        let mut one = |at: u32, value: &str| {
            if let Some(index) = &self.indexes[at as usize] {
                let folded = if index.reads_folded() {
                    matching.folded.value(at, value, &self.fold)
                } else {
                    value
                };
                index.find(value, folded, &mut indexes[at as usize], found);
            }
        };
        for at in &self.known {
            one(*at, attributes.value(&self.attributes[*at as usize]));
        }
        if self.others.is_empty() {
            return;
        }
        for (name, value) in attributes.iter() {
            if let Ok(place) = self.others.binary_search_by(|(other, _)| (**other).cmp(name)) {
                one(self.others[place].1, value);
            }
        }
        for at in &self.others_missing {
            if attributes.value(&self.attributes[*at as usize]).is_empty() {
                one(*at, "");
            }
        }
    }

    /// The index, in its rule, of a criterion among `checks` that does not match. Those on the priority are not
    /// looked at here.
    pub(crate) fn first_failing(
        &self,
        checks: &[Check],
        attributes: &Attributes,
        matching: &mut Matching,
    ) -> Option<usize> {
        let fails = |check: &&Check| {
            let value = attributes.value(&self.attributes[check.attribute as usize]);
            !matching.matches(check, value, &self.fold)
        };
        checks.iter().find(fails).map(|check| check.at)
    }

    /// The rules, in order; the indexes in decisions and counts are indexes of this.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a condition of an enabled rule reads counters. If none does, deciding needs only the request.
    #[must_use]
    pub fn reads_counters(&self) -> bool {
        self.reads_counters
    }

    /// The conditions of all enabled rules, each with the index of its rule.
    pub fn conditions(&self) -> impl Iterator<Item = (u32, &Expr)> {
        self.matchers.iter().enumerate().filter_map(|(rule, matcher)| {
            let when = matcher.as_ref()?.when?;
            Some((rule as u32, &self.exprs[when as usize]))
        })
    }

    pub(crate) fn matcher(&self, rule: u32) -> Option<&Matcher> {
        self.matchers[rule as usize].as_ref()
    }

    pub(crate) fn expr(&self, when: u32) -> &Expr {
        &self.exprs[when as usize]
    }

    pub(crate) fn always(&self) -> &[u32] {
        &self.always
    }

    /// Memory for matching one request.
    pub(crate) fn scratch(&self) -> PoolGuard<'_, Scratch, MakeScratch> {
        let mut scratch = self.pool.get();
        scratch.matching.folded.begin();
        scratch
    }
}

/// The input of conditions that read only attributes.
struct AttributesOnly<'a>(&'a Attributes);

impl Input for AttributesOnly<'_> {
    fn attribute(&self, name: &Name) -> &str {
        self.0.value(name)
    }

    fn priority(&self) -> Priority {
        debug_assert!(false, "a condition that reads the priority is not settled before");
        Priority::START
    }

    fn counter(&self, _: Counter, _: Option<&str>) -> f64 {
        debug_assert!(false, "a condition that reads a counter is not settled before");
        0.0
    }
}

impl Candidates {
    /// The result of a candidate's condition, if it was evaluated.
    pub(crate) fn settled(&self, rule: u32) -> Result<bool, EvalError> {
        match self.failed.binary_search_by_key(&rule, |(failed, _)| *failed) {
            Ok(at) => Err(self.failed[at].1),
            Err(_) => Ok(true),
        }
    }

    /// The indexes of the rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.rules.iter().copied()
    }
}

impl Matcher {
    /// Whether the rule matches and stops for certain once its patterns on attributes match.
    fn always_stops(&self) -> bool {
        let decided = self.when.is_none() || self.settled;
        decided && self.priority.is_empty() && self.then == Then::Stop
    }
}

impl Bits {
    pub(crate) fn insert(&mut self, priority: Priority) {
        let at = Self::place(priority);
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(crate) fn contains(&self, priority: Priority) -> bool {
        let at = Self::place(priority);
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn place(priority: Priority) -> usize {
        usize::from(priority.number().cast_unsigned())
    }
}

impl Scratch {
    fn new(attributes: usize) -> Self {
        let mut scratch = Self::default();
        scratch.indexes.resize_with(attributes, IndexWork::default);
        scratch.matching.folded.values.resize_with(attributes, || (0, String::new()));
        scratch
    }
}

impl Matching {
    fn matches(&mut self, check: &Check, value: &str, fold: &Fold) -> bool {
        let folded = if check.pattern.reads_folded() {
            self.folded.value(check.attribute, value, fold)
        } else {
            value
        };
        check.pattern.matches(value, folded)
    }
}

impl FoldedValues {
    /// Drops the values of the previous request.
    fn begin(&mut self) {
        self.stamp += 1;
        if self.bytes > FOLDED_BYTES_MAX {
            self.values.iter_mut().for_each(|(_, folded)| *folded = String::new());
            self.bytes = 0;
        }
    }

    /// The folded form of an attribute's value.
    fn value<'t>(&'t mut self, attribute: u32, value: &'t str, fold: &Fold) -> &'t str {
        if !fold.is_active() {
            return value;
        }
        let (stamp, folded) = &mut self.values[attribute as usize];
        if *stamp != self.stamp {
            *stamp = self.stamp;
            self.bytes -= folded.capacity();
            fold.apply(value, folded);
            self.bytes += folded.capacity();
        }
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::FOLDED_BYTES_MAX;
    use crate::tests::{attributes, compiled};

    #[test]
    fn memory_of_folded_values_is_given_back() {
        let lines: Vec<String> =
            (0..20).map(|n| format!("{n} header.h{n} glob nocase *X{n}* raise 1")).collect();
        let ruleset = compiled(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let long = "x".repeat(200 << 10) + "x7";
        for n in 0..20 {
            let _ = ruleset.candidates(&attributes(&[(&format!("header.h{n}"), &long)]));
        }
        let scratch = ruleset.scratch();
        let folded = &scratch.matching.folded;
        let bytes: usize = folded.values.iter().map(|(_, value)| value.capacity()).sum();
        assert_eq!(folded.bytes, bytes);
        assert!(bytes <= FOLDED_BYTES_MAX, "{bytes}");
        assert!(ruleset.fold.is_active(), "values are folded");
    }
}
