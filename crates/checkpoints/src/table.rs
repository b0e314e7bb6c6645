//! Counters of keys, by the million.
//!
//! Owns which key belongs to which of many small sub-tables, under linear hashing: as keys come one
//! sub-table is split at a time, as they go one pair is joined at a time, so no call ever moves more
//! than a few dozen counters, and nothing large is ever allocated or copied at once.
//!
//! Promises that a counter equal to a new one goes away: a cursor looks at a few per call.

use crate::counter::Counter;
use crate::edits::Edits;
use crate::hash::KeyHash;
use crate::store::{ENTRIES_MAX, Entry, Store};
use paceline_types::{Span, Time};

/// Past this many keys per sub-table one is split.
const MEAN_MAX: usize = 32;
/// Below this many keys per sub-table two are joined.
const MEAN_MIN: usize = 12;

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
    store: Store,
    keys: usize,
    /// Where the sweep goes on: a sub-table and a place in it.
    cursor: (usize, usize),
}

impl Table {
    /// How many counters are kept.
    pub(crate) const fn keys(&self) -> usize {
        self.keys
    }

    /// Where the counter of `key` is, up to date; `None` if it has none.
    pub(crate) fn find(&mut self, key: KeyHash, edits: &Edits) -> Option<Spot> {
        let table = self.table_of(key);
        let index = self.store.find(table, key)?;
        self.store.bring(table, edits);
        Some(Spot { table, index })
    }

    /// A copy of the counter of `key`, up to date, without touching anything.
    pub(crate) fn peek(&self, key: KeyHash, edits: &Edits) -> Option<Counter> {
        let table = self.table_of(key);
        self.store.brought(table, self.store.find(table, key)?, edits)
    }

    /// Makes a counter for `key`, which has none. `None` if there is no place for it.
    pub(crate) fn insert(&mut self, key: KeyHash, counter: Counter, edits: &Edits) -> Option<Spot> {
        if self.keys >= self.store.len() * MEAN_MAX {
            self.split(edits);
        }
        let table = self.table_of(key);
        self.store.bring(table, edits);
        let index = self.store.push(table, Entry { key, counter })?;
        self.keys += 1;
        Some(Spot { table, index })
    }

    /// Whether there is a place for a counter of `key`, which has none.
    pub(crate) fn has_place(&self, key: KeyHash) -> bool {
        self.store.len_of(self.table_of(key)) < ENTRIES_MAX
    }

    /// The counter at a place that `find` or `insert` just gave.
    pub(crate) fn at(&mut self, spot: Spot) -> Option<&mut Counter> {
        self.store.entry_mut(spot.table, spot.index).map(|entry| &mut entry.counter)
    }

    /// Takes away the counter at a place that `find` just gave.
    pub(crate) fn remove(&mut self, spot: Spot) {
        if self.store.remove(spot.table, spot.index).is_some() {
            self.keys -= 1;
        }
    }

    /// Looks at the next `count` counters and drops those that equal a new one.
    pub(crate) fn sweep(&mut self, count: usize, now: Time, period: Span, edits: &Edits) {
        for _ in 0..count {
            let (table, index) = self.cursor;
            if table >= self.store.len() {
                self.cursor = (0, 0);
                if self.keys == 0 {
                    break;
                }
                continue;
            }
            self.store.bring(table, edits);
            match self.store.entry(table, index) {
                None => self.cursor = (table + 1, 0),
                Some(entry) if entry.counter.is_fresh(now, period) => {
                    self.remove(Spot { table, index });
                }
                Some(_) => self.cursor.1 += 1,
            }
        }
        for _ in 0..JOINS {
            if self.keys < self.store.len().saturating_sub(1) * MEAN_MIN {
                self.join(edits);
            } else if self.keys == 0 {
                self.store.shrink();
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
        let (mut fresh, mut left) = (0, count.min(self.keys));
        let tables = (first..self.store.len()).chain(0..first.min(self.store.len()) + 1);
        for table in tables.take(count) {
            let end = self.store.len_of(table).min(index + left);
            for index in index..end {
                let counter = self.store.brought(table, index, edits);
                fresh += usize::from(counter.is_some_and(|c| c.is_fresh(now, period)));
            }
            left -= end.saturating_sub(index);
            index = 0;
        }
        fresh
    }

    /// Gives back the memory of the last sub-table and forgets keys. Whether there was one. What is
    /// left can only be dropped in the same way.
    pub(crate) fn drop_one(&mut self) -> bool {
        let dropped = self.store.drop_last();
        self.keys -= dropped.unwrap_or(0);
        dropped.is_some()
    }

    /// Linear hashing: so many bits of the hash as number all sub-tables, one fewer where that
    /// names one that does not exist yet.
    fn table_of(&self, key: KeyHash) -> usize {
        let count = self.store.len().max(1);
        let wide = count.next_power_of_two();
        let table = key.0[0] as usize & (wide - 1);
        if table < count { table } else { table - wide / 2 }
    }

    /// Adds a sub-table and moves to it what belongs there, all from one other.
    fn split(&mut self, edits: &Edits) {
        let new = self.store.len();
        self.store.grow(edits);
        if new == 0 {
            return;
        }
        let old = new - (new + 1).next_power_of_two() / 2;
        self.store.bring(old, edits);
        let mut index = 0;
        while let Some(entry) = self.store.entry(old, index) {
            if entry.key.0[0] as usize & ((new + 1).next_power_of_two() - 1) != new {
                index += 1;
            } else if let Some(entry) = self.store.remove(old, index) {
                self.store.push(new, entry);
            }
        }
    }

    /// Takes away the last sub-table and moves its counters to the one it was split from, if they
    /// find a place there.
    fn join(&mut self, edits: &Edits) {
        let Some(gone) = self.store.len().checked_sub(1).filter(|gone| *gone > 0) else { return };
        let into = gone - (gone + 1).next_power_of_two() / 2;
        if self.store.len_of(gone) + self.store.len_of(into) > ENTRIES_MAX {
            return;
        }
        self.store.bring(gone, edits);
        self.store.bring(into, edits);
        for index in (0..self.store.len_of(gone)).rev() {
            if let Some(entry) = self.store.remove(gone, index) {
                self.store.push(into, entry);
            }
        }
        self.store.shrink();
    }
}

#[cfg(test)]
mod tests;
