//! From a list of rules to a [`Ruleset`].
//!
//! Owns the checks and the order of work: every rule is checked, disabled or not; enabled rules get a matcher; then
//! keys are chosen and indexes built. Equal patterns and equal conditions are compiled once. Never changes an earlier
//! ruleset.

use crate::choose::{self, Choice, Offer};
use crate::classes::Classes;
use crate::error::{CompileRuleError, Fault, Part};
use crate::fold::Fold;
use crate::index::Index;
use crate::pattern::{Compiled, Key, Pattern};

use crate::rule::{Action, CRITERIA_MAX, Criterion, PatternMode, Rule, STEP_MAX, Then};
use crate::ruleset::{Bits, Check, Matcher, Ruleset};
use crate::sets::Budget;
use paceline_expr::{Expr, Kind, Scope};
use paceline_types::{Name, Priority, limits};
use std::collections::BTreeMap;

/// The most bytes that the compiled patterns of one list may take (promise R3). The sets of expressions, and the
/// memory for look-ups, have their own bounds.
pub(crate) const LIST_BYTES_MAX: usize = 256 << 20;

/// How many copies of a criterion's text are kept: in its rule, as a pattern, and as a key.
const TEXT_COPIES: usize = 4;

/// The most bytes that one byte of a literal takes in the automaton.
const LITERAL_BYTE_COST: usize = 32;

/// Compiles a list whose patterns take at most `bytes_max`.
pub(crate) fn compile(
    rules: &[Rule],
    scope: &dyn Scope,
    bytes_max: usize,
) -> Result<Ruleset, CompileRuleError> {
    let mut compiler = Compiler::new(scope, bytes_max);
    let mut before = None;
    for (index, rule) in rules.iter().enumerate() {
        let fail = |part, fault| CompileRuleError { rule: rule.number, part, fault };
        if index >= limits::RULES_MAX {
            return Err(fail(Part::Whole, Fault::TooManyRules));
        }
        if before.is_some_and(|before| before >= rule.number) {
            return Err(fail(Part::Whole, Fault::Order));
        }
        before = Some(rule.number);
        compiler.add(index as u32, rule).map_err(|(part, fault)| fail(part, fault))?;
    }
    let last = rules.last().map_or(0, |rule| rule.number);
    compiler.finish(rules).map_err(|fault| CompileRuleError {
        rule: last,
        part: Part::Whole,
        fault,
    })
}

struct Compiler<'r> {
    scope: &'r dyn Scope,
    bytes_max: usize,
    fold: Fold,
    classes: Classes,
    literal_bytes: usize,
    patterns: BTreeMap<(PatternMode, bool, &'r str), Compiled>,
    conditions: BTreeMap<&'r str, u32>,
    exprs: Vec<Expr>,
    names: BTreeMap<&'r Name, u32>,
    matchers: Vec<Option<Matcher>>,
    offers: Vec<(u32, Vec<Offer>)>,
    always: Vec<u32>,
    /// Whether a rule was added that matches everything and stops: no later rule is ever reached.
    closed: bool,
}

impl<'r> Compiler<'r> {
    fn new(scope: &'r dyn Scope, bytes_max: usize) -> Self {
        Self {
            scope,
            bytes_max,
            fold: Fold::default(),
            classes: Classes::default(),
            literal_bytes: 0,
            patterns: BTreeMap::new(),
            conditions: BTreeMap::new(),
            exprs: vec![],
            names: BTreeMap::new(),
            matchers: vec![],
            offers: vec![],
            always: vec![],
            closed: false,
        }
    }

    fn add(&mut self, index: u32, rule: &'r Rule) -> Result<(), (Part, Fault)> {
        if let Action::Raise(n) | Action::Lower(n) = rule.action
            && !(1..=STEP_MAX).contains(&n)
        {
            return Err((Part::Action, Fault::Step(n)));
        }
        if rule.criteria.len() > CRITERIA_MAX {
            return Err((Part::Whole, Fault::TooManyCriteria));
        }
        let mut compiled = vec![];
        for index in 0..rule.criteria.len() {
            let part = |fault| (Part::Criterion(index), fault);
            compiled.push(self.criterion(rule, index).map_err(part)?);
        }
        let when = match &rule.when {
            Some(text) => Some(self.condition(text).map_err(|fault| (Part::When, fault))?),
            None => None,
        };
        let used = !(rule.disabled || self.closed);
        let matcher = used.then(|| self.matcher(index, rule, compiled, when));
        self.matchers.push(matcher);
        Ok(())
    }

    fn criterion(&mut self, rule: &'r Rule, index: usize) -> Result<Compiled, Fault> {
        let criterion = &rule.criteria[index];
        let bytes = size_of::<Check>() + size_of::<Criterion>();
        self.classes.count(bytes + criterion.pattern.len() * TEXT_COPIES);
        let key = (criterion.mode, criterion.nocase, criterion.pattern.as_str());
        if let Some(compiled) = self.patterns.get(&key) {
            let compiled = compiled.clone();
            return self.within_bounds().map(|()| compiled);
        }
        let compiled = Compiled::new(criterion, &mut self.fold, &mut self.classes)?;
        for key in &compiled.keys {
            if let Key::Literals(texts) = key {
                self.literal_bytes += texts.iter().map(String::len).sum::<usize>();
            }
        }
        self.patterns.insert(key, compiled.clone());
        self.within_bounds().map(|()| compiled)
    }

    fn within_bounds(&self) -> Result<(), Fault> {
        let bytes = self.classes.bytes() + self.literal_bytes * LITERAL_BYTE_COST;
        if bytes > self.bytes_max { Err(Fault::ListTooLarge) } else { Ok(()) }
    }

    fn condition(&mut self, text: &'r str) -> Result<u32, Fault> {
        if let Some(at) = self.conditions.get(text) {
            return Ok(*at);
        }
        let expr =
            paceline_expr::compile(text, Kind::Condition, self.scope).map_err(Fault::When)?;
        let at = self.exprs.len() as u32;
        self.exprs.push(expr);
        self.conditions.insert(text, at);
        Ok(at)
    }

    fn matcher(
        &mut self,
        index: u32,
        rule: &'r Rule,
        compiled: Vec<Compiled>,
        when: Option<u32>,
    ) -> Matcher {
        let (mut checks, mut priority, mut offers) = (vec![], vec![], vec![]);
        for (at, (compiled, criterion)) in compiled.into_iter().zip(&rule.criteria).enumerate() {
            match (&compiled.pattern, &criterion.attribute) {
                (Pattern::Always, _) => {}
                (pattern, Name::Priority) => priority.push((at, bits(pattern))),
                (pattern, name) => {
                    let next = self.names.len() as u32;
                    let attribute = *self.names.entry(name).or_insert(next);
                    checks.push(Check { attribute, pattern: pattern.clone(), at });
                    offers.push(Offer { attribute, compiled });
                }
            }
        }
        checks.sort_by_key(|check| check.pattern.cost());
        let unconditional = priority.is_empty() && when.is_none();
        if offers.is_empty() {
            self.always.push(index);
            self.closed = unconditional && rule.then == Then::Stop;
        } else {
            self.offers.push((index, offers));
        }
        let (action, then) = (rule.action, rule.then);
        let settled = when.is_some_and(|when| {
            let expr = &self.exprs[when as usize];
            !expr.reads_counters() && !expr.reads_priority()
        });
        Matcher { checks, priority, when, settled, action, then }
    }

    fn finish(self, rules: &[Rule]) -> Result<Ruleset, Fault> {
        let mut names: Vec<(&Name, u32)> = self.names.into_iter().collect();
        names.sort_by_key(|(_, at)| *at);
        let attributes = names.into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let mut choices: Vec<Vec<Choice>> = attributes.iter().map(|_| vec![]).collect();
        for choice in choose::choose(self.offers, &self.fold) {
            choices[choice.attribute as usize].push(choice);
        }
        let mut budget = Budget::default();
        let index = |choices: Vec<Choice>| match choices.is_empty() {
            true => Ok(None),
            false => Index::new(choices, &mut budget).map(Some),
        };
        let indexes = choices.into_iter().map(index).collect::<Result<_, _>>()?;
        Ok(Ruleset::assemble(
            rules.to_vec(),
            self.matchers,
            self.exprs,
            self.always,
            self.fold,
            attributes,
            indexes,
        ))
    }
}

/// The priorities whose decimal text matches, so that deciding needs no text.
fn bits(pattern: &Pattern) -> Bits {
    let mut bits = Bits::default();
    for number in -127..=127 {
        let text = number.to_string();
        // Digits have no case, so the text is its own folded form.
        if let Some(priority) = Priority::new(number)
            && pattern.matches(&text, &text)
        {
            bits.insert(priority);
        }
    }
    bits
}

#[cfg(test)]
mod tests;
