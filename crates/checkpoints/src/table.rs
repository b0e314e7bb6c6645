//! Counters of keys, by the million.
//!
//! Owns many small sub-tables under linear hashing: as keys come one sub-table is split at a time, as
//! they go one pair is joined at a time, so no call ever moves more than a few dozen counters, and
//! nothing large is ever allocated or copied at once. A sub-table is a dense list of counters and,
//! in the directory itself, one-byte tags that are scanned to find a key. One allocation each, none
//! of them tiny, and few calls to shrink it: allocators can stall for long after freeing a million
//! small pieces.
//!
//! Promises that a counter equal to a new one goes away: a cursor looks at a few per call.

use crate::counter::Counter;
use crate::edits::Edits;
use crate::hash::KeyHash;
use crate::segments::Segments;
use paceline_types::{Span, Time};

/// Past this many keys per sub-table one is split.
const MEAN_MAX: usize = 32;
/// Below this many keys per sub-table two are joined.
const MEAN_MIN: usize = 12;

/// Tags of one sub-table. Shortly before it is split, one in 10,000 has more keys; those are found
/// without a tag.
const TAGS: usize = 96;

/// So many pairs are joined per sweep, at most.
const JOINS: usize = 2;

/// Where a counter stands, until the next key comes or goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    table: usize,
    index: usize,
}

/// The counters of one checkpoint's keys.
#[derive(Debug, Default)]
pub(crate) struct Table {
    tables: Segments<SubTable>,
    keys: usize,
    /// Where the sweep goes on: a sub-table and a place in it.
    cursor: (usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: KeyHash,
    counter: Counter,
}

#[derive(Debug)]
struct SubTable {
    /// The tag of each entry, in the same order.
    tags: [u8; TAGS],
    entries: Vec<Entry>,
    /// The last edit that these counters have seen.
    seen: u32,
}

impl Table {
    /// How many counters are kept.
    pub(crate) const fn keys(&self) -> usize {
        self.keys
    }

    /// Where the counter of `key` is, up to date; `None` if it has none.
    pub(crate) fn find(&mut self, key: KeyHash, edits: &Edits) -> Option<Spot> {
        let table = self.table_of(key);
        let sub = self.tables.get_mut(table)?;
        let index = sub.find(key)?;
        sub.bring(edits);
        Some(Spot { table, index })
    }

    /// A copy of the counter of `key`, up to date, without touching anything.
    pub(crate) fn peek(&self, key: KeyHash, edits: &Edits) -> Option<Counter> {
        let sub = self.tables.get(self.table_of(key))?;
        let mut counter = sub.entries.get(sub.find(key)?)?.counter;
        edits.bring(sub.seen, &mut counter);
        Some(counter)
    }

    /// Makes a new counter for `key`, which has none.
    pub(crate) fn insert(&mut self, key: KeyHash, edits: &Edits) -> Spot {
        if self.keys >= self.tables.len() * MEAN_MAX {
            self.split(edits);
        }
        let table = self.table_of(key);
        self.keys += 1;
        let index = match self.tables.get_mut(table) {
            Some(sub) => {
                sub.bring(edits);
                sub.push(Entry { key, counter: Counter::default() });
                sub.entries.len() - 1
            }
            None => 0,
        };
        Spot { table, index }
    }

    /// The counter at a place that `find` or `insert` just gave.
    pub(crate) fn at(&mut self, spot: Spot) -> Option<&mut Counter> {
        Some(&mut self.tables.get_mut(spot.table)?.entries.get_mut(spot.index)?.counter)
    }

    /// Looks at the next `count` counters and drops those that equal a new one.
    pub(crate) fn sweep(&mut self, count: usize, now: Time, period: Span, edits: &Edits) {
        for _ in 0..count {
            let (table, index) = self.cursor;
            let Some(sub) = self.tables.get_mut(table) else {
                self.cursor = (0, 0);
                if self.keys == 0 {
                    break;
                }
                continue;
            };
            sub.bring(edits);
            match sub.entries.get(index) {
                None => {
                    sub.trim();
                    self.cursor = (table + 1, 0);
                }
                Some(entry) if entry.counter.is_fresh(now, period) => {
                    sub.remove(index);
                    self.keys -= 1;
                }
                Some(_) => self.cursor.1 += 1,
            }
        }
        for _ in 0..JOINS {
            if self.keys < self.tables.len().saturating_sub(1) * MEAN_MIN {
                self.join(edits);
            } else if self.keys == 0 {
                self.tables.pop();
            }
        }
    }

    /// How many of the next `count` counters equal a new one.
    pub(crate) fn count_fresh(
        &self,
        count: usize,
        now: Time,
        period: Span,
        edits: &Edits,
    ) -> usize {
        let (first, mut index) = self.cursor;
        let mut fresh = 0;
        let mut left = count.min(self.keys);
        let tables = (first..self.tables.len()).chain(0..first.min(self.tables.len()) + 1);
        for sub in tables.take(count).filter_map(|table| self.tables.get(table)) {
            for entry in sub.entries.iter().skip(std::mem::take(&mut index)).take(left) {
                let mut counter = entry.counter;
                edits.bring(sub.seen, &mut counter);
                fresh += usize::from(counter.is_fresh(now, period));
                left -= 1;
            }
        }
        fresh
    }

    /// Takes away the counter at a place that `find` just gave.
    pub(crate) fn remove(&mut self, spot: Spot) {
        if let Some(sub) = self.tables.get_mut(spot.table) {
            sub.remove(spot.index);
            self.keys -= 1;
        }
    }

    /// Gives back the memory of the last sub-table and forgets its keys. Whether there was one.
    pub(crate) fn drop_one(&mut self) -> bool {
        match self.tables.pop() {
            Some(sub) => {
                self.keys -= sub.entries.len();
                true
            }
            None => false,
        }
    }

    /// Linear hashing: so many bits of the hash as number all sub-tables, one fewer where that
    /// names one that does not exist yet.
    fn table_of(&self, key: KeyHash) -> usize {
        let count = self.tables.len().max(1);
        let wide = count.next_power_of_two();
        let table = key.0[0] as usize & (wide - 1);
        if table < count { table } else { table - wide / 2 }
    }

    /// Adds a sub-table and moves to it what belongs there, all from one other.
    fn split(&mut self, edits: &Edits) {
        let new = self.tables.len();
        self.tables.push(SubTable::new(edits));
        if new == 0 {
            return;
        }
        let old = new - (new + 1).next_power_of_two() / 2;
        let Some(sub) = self.tables.get_mut(old) else { return };
        sub.bring(edits);
        let all = std::mem::take(&mut sub.entries);
        let goes = |entry: &Entry| entry.key.0[0] as usize & ((new + 1).next_power_of_two() - 1);
        let moved = all.iter().filter(|entry| goes(entry) == new).count();
        sub.entries.reserve_exact(all.len() - moved);
        all.iter().filter(|entry| goes(entry) != new).for_each(|entry| sub.push(*entry));
        if let Some(sub) = self.tables.get_mut(new) {
            sub.entries.reserve_exact(moved);
            all.iter().filter(|entry| goes(entry) == new).for_each(|entry| sub.push(*entry));
        }
    }

    /// Takes away the last sub-table and moves its counters to the one it was split from.
    fn join(&mut self, edits: &Edits) {
        let Some(mut gone) = self.tables.pop() else { return };
        gone.bring(edits);
        let Some(into) = gone.entries.first().map(|entry| self.table_of(entry.key)) else { return };
        if let Some(sub) = self.tables.get_mut(into) {
            sub.bring(edits);
            sub.entries.reserve_exact(gone.entries.len());
            gone.entries.iter().for_each(|entry| sub.push(*entry));
        }
    }
}

impl SubTable {
    const fn new(edits: &Edits) -> Self {
        Self { tags: [0; TAGS], entries: vec![], seen: edits.last() }
    }

    fn find(&self, key: KeyHash) -> Option<usize> {
        let is_at = |index: usize| self.entries.get(index).is_some_and(|entry| entry.key == key);
        let tag = tag(key);
        let (eights, _) = self.tags.as_chunks::<8>();
        for (number, eight) in eights.iter().take(self.entries.len().div_ceil(8)).enumerate() {
            let mut hits = equal_bytes(u64::from_le_bytes(*eight), tag);
            while hits != 0 {
                let index = number * 8 + hits.trailing_zeros() as usize / 8;
                if is_at(index) {
                    return Some(index);
                }
                hits &= hits - 1;
            }
        }
        (TAGS..self.entries.len()).find(|index| is_at(*index))
    }

    /// Grows by an eighth, not by half: the slack of all sub-tables is what a key costs besides itself.
    fn push(&mut self, entry: Entry) {
        let len = self.entries.len();
        if len == self.entries.capacity() {
            self.entries.reserve_exact((len / 8).max(4));
        }
        if let Some(place) = self.tags.get_mut(len) {
            *place = tag(entry.key);
        }
        self.entries.push(entry);
    }

    fn remove(&mut self, index: usize) {
        self.entries.swap_remove(index);
        if let (Some(place), Some(entry)) = (self.tags.get_mut(index), self.entries.get(index)) {
            *place = tag(entry.key);
        }
    }

    /// Gives back room that is not needed.
    fn trim(&mut self) {
        let (len, room) = (self.entries.len(), self.entries.capacity());
        if len < room / 2 {
            self.entries.shrink_to(len + len / 8);
        }
    }

    fn bring(&mut self, edits: &Edits) {
        if self.seen != edits.last() {
            for entry in &mut self.entries {
                edits.bring(self.seen, &mut entry.counter);
            }
            self.seen = edits.last();
        }
    }
}

/// The high bit of every byte of `eight` that equals `tag`; above a hit it may be wrong, never below.
const fn equal_bytes(eight: u64, tag: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_where_equal = eight ^ (LOW * tag as u64);
    zero_where_equal.wrapping_sub(LOW) & !zero_where_equal & HIGH
}

const fn tag(key: KeyHash) -> u8 {
    key.0[1] as u8
}

#[cfg(test)]
mod tests;
