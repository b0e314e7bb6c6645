//! Where the counters of a table lie: in blocks of one size, in one list without holes.
//!
//! Owns the sub-tables, each a short list of blocks and a one-byte tag for each entry, which is
//! scanned to find a key, and the blocks of all of them. A block that becomes empty is filled with the
//! last one, so that the list only ever grows and shrinks at its end, a piece of some hundred blocks at
//! a time. Promises that neither a key that comes nor one that goes makes the allocator search: with
//! one allocation for each sub-table, giving back millions of them stalls it for milliseconds.

use crate::counter::Counter;
use crate::edits::Edits;
use crate::hash::KeyHash;
use crate::segments::Segments;

/// Entries in one block.
const BLOCK_LEN: usize = 8;

/// Blocks of one sub-table, at most.
const BLOCKS_MAX: usize = 14;

/// Entries of one sub-table, at most. Shortly before it is split its mean is 64, from which this is
/// six standard deviations away: a key that finds no place here has no room in the table.
pub(crate) const ENTRIES_MAX: usize = BLOCK_LEN * BLOCKS_MAX;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) key: KeyHash,
    pub(crate) counter: Counter,
}

#[derive(Debug)]
struct Block {
    entries: [Entry; BLOCK_LEN],
    /// The sub-table that has it.
    owner: u32,
}

#[derive(Debug)]
struct SubTable {
    len: u32,
    /// The last edit that these counters have seen.
    seen: u32,
    /// As many as are needed for `len` entries, all full but the last.
    blocks: [u32; BLOCKS_MAX],
    /// The tag of each entry, in the same order.
    tags: [u8; ENTRIES_MAX],
}

/// All sub-tables and their entries.
#[derive(Debug, Default)]
pub(crate) struct Store {
    tables: Segments<SubTable>,
    blocks: Segments<Block>,
}

impl Store {
    /// How many sub-tables there are.
    pub(crate) const fn len(&self) -> usize {
        self.tables.len()
    }

    /// How many entries a sub-table has.
    pub(crate) fn len_of(&self, table: usize) -> usize {
        self.tables.get(table).map_or(0, |sub| sub.len as usize)
    }

    /// Adds a sub-table, at the end.
    pub(crate) fn grow(&mut self, edits: &Edits) {
        let (blocks, tags) = ([0; BLOCKS_MAX], [0; ENTRIES_MAX]);
        self.tables.push(SubTable { len: 0, seen: edits.last(), blocks, tags });
    }

    /// Takes away the last sub-table, if it is empty.
    pub(crate) fn shrink(&mut self) {
        if self.len() > 0 && self.len_of(self.len() - 1) == 0 {
            self.tables.pop();
        }
    }

    /// Gives back the memory of the last sub-table, whatever is in it, and of as many blocks. What is
    /// left can only be dropped in the same way. Returns how many entries it had.
    pub(crate) fn drop_last(&mut self) -> Option<usize> {
        let len = self.tables.pop()?.len as usize;
        for _ in 0..len.div_ceil(BLOCK_LEN) {
            self.blocks.pop();
        }
        Some(len)
    }

    /// Where a key stands in its sub-table.
    pub(crate) fn find(&self, table: usize, key: KeyHash) -> Option<usize> {
        let sub = self.tables.get(table)?;
        let tag = tag(key);
        let (eights, _) = sub.tags.as_chunks::<8>();
        for (number, eight) in eights.iter().take((sub.len as usize).div_ceil(8)).enumerate() {
            let mut hits = equal_bytes(u64::from_le_bytes(*eight), tag);
            while hits != 0 {
                let index = number * 8 + hits.trailing_zeros() as usize / 8;
                if self.entry(table, index).is_some_and(|entry| entry.key == key) {
                    return Some(index);
                }
                hits &= hits - 1;
            }
        }
        None
    }

    pub(crate) fn entry(&self, table: usize, index: usize) -> Option<&Entry> {
        let block = self.block_of(table, index)?;
        self.blocks.get(block)?.entries.get(index % BLOCK_LEN)
    }

    pub(crate) fn entry_mut(&mut self, table: usize, index: usize) -> Option<&mut Entry> {
        let block = self.block_of(table, index)?;
        self.blocks.get_mut(block)?.entries.get_mut(index % BLOCK_LEN)
    }

    /// The counter of an entry as it would be if the sub-table were up to date.
    pub(crate) fn brought(&self, table: usize, index: usize, edits: &Edits) -> Option<Counter> {
        let mut counter = self.entry(table, index)?.counter;
        edits.bring(self.tables.get(table)?.seen, &mut counter);
        Some(counter)
    }

    /// Brings all counters of a sub-table up to date.
    pub(crate) fn bring(&mut self, table: usize, edits: &Edits) {
        let Some(sub) = self.tables.get_mut(table) else { return };
        let seen = std::mem::replace(&mut sub.seen, edits.last());
        if seen != edits.last() {
            for index in 0..self.len_of(table) {
                if let Some(entry) = self.entry_mut(table, index) {
                    edits.bring(seen, &mut entry.counter);
                }
            }
        }
    }

    /// Adds an entry to a sub-table that is up to date. Where it stands; `None` if there is no place.
    pub(crate) fn push(&mut self, table: usize, entry: Entry) -> Option<usize> {
        let sub = self.tables.get_mut(table)?;
        let index = sub.len as usize;
        *sub.tags.get_mut(index)? = tag(entry.key);
        if index.is_multiple_of(BLOCK_LEN) {
            *sub.blocks.get_mut(index / BLOCK_LEN)? = self.blocks.len() as u32;
            let entries = [Entry::default(); BLOCK_LEN];
            self.blocks.push(Block { entries, owner: table as u32 });
        }
        sub.len += 1;
        *self.entry_mut(table, index)? = entry;
        Some(index)
    }

    /// Takes away an entry; the last of its sub-table takes its place.
    pub(crate) fn remove(&mut self, table: usize, index: usize) -> Option<Entry> {
        let removed = *self.entry(table, index)?;
        let last = self.len_of(table) - 1;
        let moved = *self.entry(table, last)?;
        *self.entry_mut(table, index)? = moved;
        let sub = self.tables.get_mut(table)?;
        *sub.tags.get_mut(index)? = tag(moved.key);
        sub.len -= 1;
        if last.is_multiple_of(BLOCK_LEN) {
            let block = *sub.blocks.get(last / BLOCK_LEN)?;
            self.free(block);
        }
        Some(removed)
    }

    /// Takes a block out of the list and puts the last one in its place.
    fn free(&mut self, block: u32) {
        let Some(last) = self.blocks.pop() else { return };
        let number = self.blocks.len() as u32;
        if let Some(place) = self.blocks.get_mut(block as usize)
            && let Some(owner) = self.tables.get_mut(last.owner as usize)
        {
            let its = (owner.len as usize).div_ceil(BLOCK_LEN);
            if let Some(found) = owner.blocks.iter_mut().take(its).find(|b| **b == number) {
                *found = block;
            }
            *place = last;
        }
    }

    fn block_of(&self, table: usize, index: usize) -> Option<usize> {
        let sub = self.tables.get(table).filter(|sub| index < sub.len as usize)?;
        sub.blocks.get(index / BLOCK_LEN).map(|block| *block as usize)
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
