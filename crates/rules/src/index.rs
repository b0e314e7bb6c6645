//! The index of one attribute: from a value to the rules that may match it.
//!
//! Owns the table of whole values, the automaton of literals and the sets of expressions. Promises to return every
//! rule whose key criterion matches. It may return more, which are verified.

use crate::choose::Choice;
use crate::error::Fault;
use crate::exact::Exact;
use crate::pattern::Key;
use crate::sets::{self, Budget, Set, SetWork, Single};
use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::BTreeMap;

/// From this number of literals on, the time to build their automaton matters.
const MANY_LITERALS: usize = 1_000;

/// The look-up structures for the values of one attribute.
#[derive(Debug, Default)]
pub(crate) struct Index {
    exact: Exact,
    literals: Option<Literals>,
    sets: Vec<Set>,
    /// Rules that are tried one by one.
    singles: Vec<Single>,
}

#[derive(Debug)]
struct Literals {
    automaton: AhoCorasick,
    /// The rules of each literal.
    rules: Vec<Vec<u32>>,
}

/// Memory for look-ups.
#[derive(Debug, Default)]
pub(crate) struct IndexWork {
    /// One bit per literal that was seen; all clear between look-ups.
    seen: Vec<u64>,
    hits: Vec<u32>,
    /// One per set, made when first used.
    sets: Vec<SetWork>,
}

impl Index {
    /// An index of these choices, which all concern one attribute.
    pub(crate) fn new(choices: Vec<Choice>, budget: &mut Budget) -> Result<Self, Fault> {
        let (mut whole, mut parts) =
            (BTreeMap::<_, Vec<u32>>::new(), BTreeMap::<_, Vec<u32>>::new());
        let (mut expressions, mut singles) = (vec![], vec![]);
        for Choice { rule, key, .. } in choices {
            match key {
                Key::Whole(text) => whole.entry(text).or_default().push(rule),
                Key::Literals(texts) => {
                    texts.into_iter().for_each(|text| parts.entry(text).or_default().push(rule));
                }
                Key::Expression(hir) => expressions.push((hir, rule)),
            }
        }
        let sets = sets::build(&expressions, budget, &mut singles);
        let literals = if parts.is_empty() { None } else { Some(Literals::new(parts)?) };
        Ok(Self { exact: Exact::new(whole), literals, sets, singles })
    }

    /// Adds the rules that may match, possibly with duplicates, in no order.
    pub(crate) fn find(
        &self,
        value: &str,
        folded: &str,
        work: &mut IndexWork,
        rules: &mut Vec<u32>,
    ) {
        rules.extend_from_slice(self.exact.find(folded));
        if let Some(literals) = &self.literals {
            literals.find(folded, work, rules);
        }
        while work.sets.len() < self.sets.len() {
            work.sets.push(self.sets[work.sets.len()].work());
        }
        for (set, work) in self.sets.iter().zip(&mut work.sets) {
            set.find(value, work, rules);
        }
        rules.extend(self.singles.iter().filter_map(|single| single.fits(value.len())));
    }

    /// Whether [`Self::find`] reads the folded form.
    pub(crate) fn reads_folded(&self) -> bool {
        self.literals.is_some() || !self.exact.is_empty()
    }
}

impl Literals {
    fn new(parts: BTreeMap<String, Vec<u32>>) -> Result<Self, Fault> {
        let (texts, mut rules): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let mut literals: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        // The automaton's builder moves its final states to the front, one by one. The time is the square of their
        // number divided by the number of states that were in front before. So a long literal is put before many
        // literals; no text contains it, because it is not valid UTF-8.
        let never = vec![0xff; literals.len() / 16];
        if literals.len() >= MANY_LITERALS {
            literals.insert(0, &never);
            rules.insert(0, vec![]);
        }
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(literals);
        Ok(Self { automaton: automaton.map_err(|_| Fault::ListTooLarge)?, rules })
    }

    fn find(&self, folded: &str, work: &mut IndexWork, rules: &mut Vec<u32>) {
        work.seen.resize(self.rules.len().div_ceil(64), 0);
        for hit in self.automaton.find_overlapping_iter(folded) {
            let literal = hit.pattern().as_usize();
            let (word, bit) = (literal / 64, 1 << (literal % 64));
            if work.seen[word] & bit == 0 {
                work.seen[word] |= bit;
                work.hits.push(literal as u32);
            }
        }
        for literal in work.hits.drain(..) {
            work.seen[literal as usize / 64] = 0;
            rules.extend_from_slice(&self.rules[literal as usize]);
        }
    }
}
