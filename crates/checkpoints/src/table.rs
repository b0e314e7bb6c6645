//! Counters of keys, by the million.
//!
//! Owns which key belongs to which of many small sub-tables, by linear hashing. As keys are added, one
//! sub-table is split at a time. As keys are removed, one pair is joined at a time. So no call ever moves
//! more than a few dozen counters, and nothing large is ever allocated or copied at once.
//!
//! Promises that a counter equal to a new one is dropped: a cursor looks at a few counters per call.

use crate::counter::Counter;
use crate::edits::Edits;
use crate::hash::KeyHash;
pub(crate) use crate::store::Spot;
use crate::store::{ENTRIES_MAX, Entry, Store};
use paceline_types::{Span, Time};

/// Above this mean number of keys per sub-table, one is split.
const MEAN_MAX: usize = 32;
/// Below this mean number of keys per sub-table, two are joined.
const MEAN_MIN: usize = 12;

/// The most pairs joined per sweep.
const JOINS: usize = 2;

/// The counters of one checkpoint's keys.
#[derive(Debug, Default)]
pub(crate) struct Table {
    store: Store,
    keys: usize,
    /// Where the sweep continues: a block and an index in it. Adjacent blocks are quick to look at, whichever
    /// sub-tables their keys belong to.
    cursor: (usize, usize),
}

impl Table {
    /// How many counters are kept.
    pub(crate) const fn keys(&self) -> usize {
        self.keys
    }

    /// Where the counter of `key` is, up to date; `None` if it has none.
    pub(crate) fn find(&mut self, key: KeyHash, edits: &Edits) -> Option<Spot> {
        let spot = self.store.find(self.table_of(key), key)?;
        self.store.bring(spot, edits);
        Some(spot)
    }

    /// A copy of the counter of `key`, up to date, without changing anything.
    pub(crate) fn peek(&self, key: KeyHash, edits: &Edits) -> Option<Counter> {
        self.store.brought_at(self.store.find(self.table_of(key), key)?, edits)
    }

    /// Creates a counter for `key`, which has none. `None` if there is no place for it.
    pub(crate) fn insert(&mut self, key: KeyHash, counter: Counter, edits: &Edits) -> Option<Spot> {
        if self.keys >= self.store.tables() * MEAN_MAX {
            self.split(edits);
        }
        let spot = self.store.push(self.table_of(key), Entry { key, counter }, edits)?;
        self.keys += 1;
        Some(spot)
    }

    /// Whether there is a place for a counter of `key`, which has none.
    pub(crate) fn has_place(&self, key: KeyHash) -> bool {
        self.store.len_of(self.table_of(key)) < ENTRIES_MAX
    }

    /// The counter at a spot that `find` or `insert` just returned.
    pub(crate) fn at(&mut self, spot: Spot) -> Option<&mut Counter> {
        self.store.at_mut(spot).map(|entry| &mut entry.counter)
    }

    /// Removes the counter at a spot that `find` just returned.
    pub(crate) fn remove(&mut self, spot: Spot, edits: &Edits) {
        if self.store.remove(spot, edits).is_some() {
            self.keys -= 1;
        }
    }

    /// Looks at the next `count` counters and drops those equal to a new one.
    pub(crate) fn sweep(&mut self, count: usize, now: Time, period: Span, edits: &Edits) {
        for _ in 0..count {
            let (block, index) = self.cursor;
            if block >= self.store.blocks() {
                self.cursor = (0, 0);
                if self.keys == 0 {
                    break;
                }
                continue;
            }
            // Edits are forgotten after a while, so each round of the sweep applies them to all counters.
            self.store.bring_block(block, edits);
            match self.store.brought(block, index, edits) {
                None => self.cursor = (block + 1, 0),
                Some(counter) if !counter.is_fresh(now, period) => self.cursor.1 += 1,
                Some(_) => {
                    if let Some(spot) = self.store.spot_in(block, index) {
                        self.remove(spot, edits);
                    }
                }
            }
        }
        for _ in 0..JOINS {
            if self.keys < self.store.tables().saturating_sub(1) * MEAN_MIN {
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
        let (first, mut from) = self.cursor;
        let (mut fresh, mut left) = (0, count.min(self.keys));
        let blocks = (first..self.store.blocks()).chain(0..first.min(self.store.blocks()) + 1);
        for block in blocks.take(count) {
            let counters = (std::mem::take(&mut from)..)
                .map_while(|index| self.store.brought(block, index, edits));
            for counter in counters.take(left) {
                fresh += usize::from(counter.is_fresh(now, period));
                left -= 1;
            }
        }
        fresh
    }

    /// Frees the memory of the last sub-table and forgets its keys. Returns whether there was one. The rest
    /// can only be dropped in the same way.
    pub(crate) fn drop_one(&mut self) -> bool {
        let dropped = self.store.drop_last();
        self.keys -= dropped.unwrap_or(0);
        dropped.is_some()
    }

    /// Linear hashing: as many bits of the hash as it takes to number all sub-tables, or one bit fewer if
    /// they name a sub-table that does not exist yet.
    fn table_of(&self, key: KeyHash) -> usize {
        let count = self.store.tables().max(1);
        let wide = count.next_power_of_two();
        let table = key.0[0] as usize & (wide - 1);
        if table < count { table } else { table - wide / 2 }
    }

    /// Adds a sub-table and moves the counters that belong there, all from one other sub-table.
    fn split(&mut self, edits: &Edits) {
        let new = self.store.tables();
        self.store.grow();
        if new == 0 {
            return;
        }
        let old = new - (new + 1).next_power_of_two() / 2;
        let mut index = 0;
        while let Some(spot) = self.store.spot(old, index) {
            let goes =
                |entry: &Entry| entry.key.0[0] as usize & ((new + 1).next_power_of_two() - 1);
            if self.store.at(spot).map(goes) != Some(new) {
                index += 1;
            } else if let Some(entry) = self.store.remove(spot, edits) {
                self.store.push(new, entry, edits);
            }
        }
    }

    /// Removes the last sub-table and moves its counters to the one it was split from, if they fit there.
    fn join(&mut self, edits: &Edits) {
        let Some(gone) = self.store.tables().checked_sub(1).filter(|gone| *gone > 0) else {
            return;
        };
        let into = gone - (gone + 1).next_power_of_two() / 2;
        if self.store.len_of(gone) + self.store.len_of(into) > ENTRIES_MAX {
            return;
        }
        for index in (0..self.store.len_of(gone)).rev() {
            let spot = self.store.spot(gone, index);
            if let Some(entry) = spot.and_then(|spot| self.store.remove(spot, edits)) {
                self.store.push(into, entry, edits);
            }
        }
        self.store.shrink();
    }
}

#[cfg(test)]
mod tests;
