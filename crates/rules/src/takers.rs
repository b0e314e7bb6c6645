//! Which positions of a pattern take which characters.
//!
//! Owns their sorting, so that for any character all positions that take it are found at once: by blocks of ASCII
//! characters that the same positions take, by single characters beyond ASCII, and by large classes, each of which is
//! tested once however many positions have it.

use crate::classes::CharClass;
use crate::steps::Step;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Classes with at most this many characters beyond ASCII are enumerated.
const SMALL_CLASS: usize = 8;

/// Positions, in order, by the characters that they take.
#[derive(Default)]
pub(crate) struct Takers {
    /// By blocks of ASCII characters, one bit each; every character is in one block.
    pub(crate) ascii: Vec<(u128, Vec<u32>)>,
    pub(crate) chars: BTreeMap<char, Vec<u32>>,
    pub(crate) large: Vec<(Arc<CharClass>, Vec<u32>)>,
    /// The positions that take every character beyond ASCII.
    pub(crate) beyond: Vec<u32>,
}

impl Takers {
    /// Sorts the steps of all positions.
    pub(crate) fn new<'s>(steps: impl Iterator<Item = &'s Step>) -> Self {
        let mut takers = Self::default();
        let mut sets: BTreeMap<u128, Vec<u32>> = BTreeMap::new();
        for (step, position) in steps.zip(0..) {
            let ascii = match step {
                Step::Char(c) if c.is_ascii() => 1 << (*c as u32),
                Step::Char(c) => {
                    takers.chars.entry(*c).or_default().push(position);
                    0
                }
                Step::Class(class) => {
                    takers.add_class(class, position);
                    class.ascii()
                }
                _ => 0,
            };
            sets.entry(ascii).or_default().push(position);
        }
        takers.ascii = blocks(&sets);
        takers
    }

    /// All lists of positions except `beyond`.
    pub(crate) fn all(&self) -> impl Iterator<Item = &[u32]> {
        let ascii = self.ascii.iter().map(|(_, positions)| positions);
        let large = self.large.iter().map(|(_, positions)| positions);
        ascii.chain(self.chars.values()).chain(large).map(Vec::as_slice)
    }

    fn add_class(&mut self, class: &Arc<CharClass>, position: u32) {
        if class.has_all_beyond() {
            self.beyond.push(position);
        } else if let Some(few) = class.few_beyond(SMALL_CLASS) {
            few.for_each(|c| self.chars.entry(c).or_default().push(position));
        } else {
            let found = self.large.iter().position(|(other, _)| Arc::ptr_eq(other, class));
            let at = found.unwrap_or_else(|| {
                self.large.push((class.clone(), vec![]));
                self.large.len() - 1
            });
            self.large[at].1.push(position);
        }
    }
}

/// Splits the ASCII characters into blocks that belong to the same sets.
fn blocks(sets: &BTreeMap<u128, Vec<u32>>) -> Vec<(u128, Vec<u32>)> {
    let mut blocks = vec![u128::MAX];
    for set in sets.keys() {
        for at in 0..blocks.len() {
            let (inside, outside) = (blocks[at] & set, blocks[at] & !set);
            if inside != 0 && outside != 0 {
                blocks[at] = inside;
                blocks.push(outside);
            }
        }
    }
    let takers = |block: u128| {
        let sets = sets.iter().filter(|(set, _)| *set & block != 0);
        (block, sets.flat_map(|(_, positions)| positions).copied().collect())
    };
    blocks.into_iter().map(takers).collect()
}
