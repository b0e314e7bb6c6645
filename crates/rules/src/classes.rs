//! Sets of characters, shared by all patterns of a list.
//!
//! Owns the large classes such as `\w`, each stored once however many patterns name it, and the size of the compiled
//! patterns of a list. That is why ten thousand patterns take a few megabytes.

use regex_syntax::hir::Class;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A set of characters.
#[derive(Debug)]
pub(crate) struct CharClass {
    ascii: u128,
    ranges: Box<[(char, char)]>,
}

impl CharClass {
    /// The ASCII characters in it, one bit each.
    pub(crate) fn ascii(&self) -> u128 {
        self.ascii
    }

    /// Whether it contains every character beyond ASCII.
    pub(crate) fn has_all_beyond(&self) -> bool {
        self.ranges.last().is_some_and(|(start, end)| *start <= '\u{80}' && *end == char::MAX)
    }

    /// The characters beyond ASCII, if there are at most `max`.
    pub(crate) fn few_beyond(&self, max: usize) -> Option<impl Iterator<Item = char>> {
        let first = self.ranges.partition_point(|(_, end)| end.is_ascii());
        let beyond = self.ranges[first..].iter().map(|(start, end)| (*start.max(&'\u{80}'), *end));
        let count = beyond.clone().map(|(start, end)| end as usize - start as usize + 1);
        (count.sum::<usize>() <= max).then(|| beyond.flat_map(|(start, end)| start..=end))
    }

    pub(crate) fn contains(&self, c: char) -> bool {
        if c.is_ascii() {
            return self.ascii >> (c as u32) & 1 == 1;
        }
        let at = self.ranges.partition_point(|(_, end)| *end < c);
        self.ranges.get(at).is_some_and(|(start, _)| *start <= c)
    }
}

/// Classes that patterns share.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// By a hash of the ranges, because comparing large classes with each other takes long.
    shared: BTreeMap<u64, Vec<Arc<CharClass>>>,
    bytes: usize,
}

impl Classes {
    /// Bytes of everything counted so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts memory of the compiled list.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn share(&mut self, class: &Class) -> Arc<CharClass> {
        match class {
            Class::Unicode(class) => {
                self.share_ranges(class.ranges().iter().map(|r| (r.start(), r.end())))
            }
            // The parser guarantees UTF-8, so bytes are ASCII.
            Class::Bytes(class) => {
                self.share_ranges(class.ranges().iter().map(|r| (r.start().into(), r.end().into())))
            }
        }
    }

    /// The class of these ranges, which are sorted and disjoint.
    pub(crate) fn share_ranges(
        &mut self,
        ranges: impl Iterator<Item = (char, char)> + Clone,
    ) -> Arc<CharClass> {
        let hash = ranges.clone().fold(0u64, |hash, (start, end)| {
            let range = u64::from(start) << 32 | u64::from(end);
            (hash.rotate_left(5) ^ range).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let equal = self.shared.entry(hash).or_default();
        let found = equal.iter().find(|class| class.ranges.iter().copied().eq(ranges.clone()));
        if let Some(class) = found {
            return class.clone();
        }
        let ascii = ranges.clone().fold(0, |bits, (start, end)| bits | ascii_bits(start, end));
        let class = Arc::new(CharClass { ascii, ranges: ranges.collect() });
        self.bytes += size_of_val(&*class.ranges) + size_of::<CharClass>();
        equal.push(class.clone());
        class
    }
}

fn ascii_bits(start: char, end: char) -> u128 {
    if !start.is_ascii() {
        return 0;
    }
    let end = u32::from(end).min(127);
    (u128::MAX >> (127 - end)) & (u128::MAX << u32::from(start))
}
