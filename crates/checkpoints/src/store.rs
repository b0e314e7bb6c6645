//! Storage of a table's counters: in blocks of one size, in one list without holes.
//!
//! Owns the blocks and the sub-tables. Each sub-table is a short list of blocks and a one-byte tag for each
//! entry, which is scanned to find a key. A block that becomes empty is filled with the last one, so the list
//! only grows and shrinks at its end, in pieces of some hundred blocks. Promises that adding or removing a
//! key never makes the allocator search: with one allocation per sub-table, freeing millions of them stalls
//! it for milliseconds.

use crate::counter::Counter;
use crate::edits::Edits;
use crate::hash::KeyHash;
use crate::segments::Segments;

/// Entries in one block.
const BLOCK_LEN: usize = 8;

/// Blocks of one sub-table, at most.
const BLOCKS_MAX: usize = 14;

/// The most entries of one sub-table. Shortly before a sub-table is split, its mean is 64; this is six
/// standard deviations more. A key that finds no place here has no room in the table.
pub(crate) const ENTRIES_MAX: usize = BLOCK_LEN * BLOCKS_MAX;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) key: KeyHash,
    pub(crate) counter: Counter,
}

#[derive(Debug)]
struct Block {
    entries: [Entry; BLOCK_LEN],
    /// The sub-table that owns it, and in the lowest four bits its number of entries.
    owner_and_len: u32,
    /// The last edit that these counters have seen.
    seen: u32,
}

#[derive(Debug)]
struct SubTable {
    len: u32,
    /// As many blocks as `len` entries need, all full but the last.
    blocks: [u32; BLOCKS_MAX],
    /// The tag of each entry, in the same order.
    tags: [u8; ENTRIES_MAX],
}

/// Where an entry is stored; valid until the next one is added or removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    table: usize,
    index: usize,
    block: usize,
}

/// All sub-tables and their entries.
#[derive(Debug, Default)]
pub(crate) struct Store {
    tables: Segments<SubTable>,
    blocks: Segments<Block>,
}

impl Store {
    /// How many sub-tables there are.
    pub(crate) const fn tables(&self) -> usize {
        self.tables.len()
    }

    /// How many blocks there are.
    pub(crate) const fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// How many entries a sub-table has.
    pub(crate) fn len_of(&self, table: usize) -> usize {
        self.tables.get(table).map_or(0, |sub| sub.len as usize)
    }

    /// Adds a sub-table, at the end.
    pub(crate) fn grow(&mut self) {
        self.tables.push(SubTable { len: 0, blocks: [0; BLOCKS_MAX], tags: [0; ENTRIES_MAX] });
    }

    /// Removes the last sub-table, if it is empty.
    pub(crate) fn shrink(&mut self) {
        if self.tables() > 0 && self.len_of(self.tables() - 1) == 0 {
            self.tables.pop();
        }
    }

    /// Frees the memory of the last sub-table, whatever it contains, and of as many blocks. The rest can only
    /// be dropped in the same way. Returns how many entries it had.
    pub(crate) fn drop_last(&mut self) -> Option<usize> {
        let len = self.tables.pop()?.len as usize;
        for _ in 0..len.div_ceil(BLOCK_LEN) {
            self.blocks.pop();
        }
        Some(len)
    }

    /// Where a key is stored in its sub-table.
    pub(crate) fn find(&self, table: usize, key: KeyHash) -> Option<Spot> {
        let sub = self.tables.get(table)?;
        let tag = tag(key);
        let (eights, _) = sub.tags.as_chunks::<8>();
        for (number, eight) in eights.iter().take((sub.len as usize).div_ceil(8)).enumerate() {
            let mut hits = equal_bytes(u64::from_le_bytes(*eight), tag);
            while hits != 0 {
                let index = number * 8 + hits.trailing_zeros() as usize / 8;
                let spot = sub.spot(table, index);
                if spot.is_some_and(|spot| self.at(spot).is_some_and(|entry| entry.key == key)) {
                    return spot;
                }
                hits &= hits - 1;
            }
        }
        None
    }

    /// Where the entry with this index in its sub-table is stored.
    pub(crate) fn spot(&self, table: usize, index: usize) -> Option<Spot> {
        self.tables.get(table)?.spot(table, index)
    }

    /// Where the entry with this index in a block is stored.
    pub(crate) fn spot_in(&self, block: usize, index: usize) -> Option<Spot> {
        let table = self.blocks.get(block).filter(|block| index < block.len())?.owner();
        let nth = self.tables.get(table)?.position(block)?;
        Some(Spot { table, index: nth * BLOCK_LEN + index, block })
    }

    /// An entry. It may not have seen the last edits.
    pub(crate) fn at(&self, spot: Spot) -> Option<&Entry> {
        self.blocks.get(spot.block)?.entries.get(spot.index % BLOCK_LEN)
    }

    pub(crate) fn at_mut(&mut self, spot: Spot) -> Option<&mut Entry> {
        self.blocks.get_mut(spot.block)?.entries.get_mut(spot.index % BLOCK_LEN)
    }

    /// The counter with this index in a block, after all edits.
    pub(crate) fn brought(&self, block: usize, index: usize, edits: &Edits) -> Option<Counter> {
        let block = self.blocks.get(block).filter(|block| index < block.len())?;
        let mut counter = block.entries.get(index)?.counter;
        edits.bring(block.seen, &mut counter);
        Some(counter)
    }

    /// The same for an entry.
    pub(crate) fn brought_at(&self, spot: Spot, edits: &Edits) -> Option<Counter> {
        self.brought(spot.block, spot.index % BLOCK_LEN, edits)
    }

    /// Brings an entry, and all of its block, up to date.
    pub(crate) fn bring(&mut self, spot: Spot, edits: &Edits) {
        self.bring_block(spot.block, edits);
    }

    /// Brings a block up to date.
    pub(crate) fn bring_block(&mut self, block: usize, edits: &Edits) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.bring(edits);
        }
    }

    /// Adds an entry, which is up to date, to a sub-table. `None` if there is no place.
    pub(crate) fn push(&mut self, table: usize, entry: Entry, edits: &Edits) -> Option<Spot> {
        let sub = self.tables.get_mut(table)?;
        let index = sub.len as usize;
        *sub.tags.get_mut(index)? = tag(entry.key);
        if index.is_multiple_of(BLOCK_LEN) {
            *sub.blocks.get_mut(index / BLOCK_LEN)? = self.blocks.len() as u32;
            self.blocks.push(Block::new(table, edits));
        }
        sub.len += 1;
        let spot = sub.spot(table, index)?;
        let block = self.blocks.get_mut(spot.block)?;
        block.bring(edits);
        block.owner_and_len += 1;
        *block.entries.get_mut(index % BLOCK_LEN)? = entry;
        Some(spot)
    }

    /// Removes an entry; the last one of its sub-table takes its place. Returns it up to date.
    pub(crate) fn remove(&mut self, spot: Spot, edits: &Edits) -> Option<Entry> {
        let last = self.spot(spot.table, self.len_of(spot.table).checked_sub(1)?)?;
        self.bring(spot, edits);
        self.bring(last, edits);
        let (removed, moved) = (*self.at(spot)?, *self.at(last)?);
        *self.at_mut(spot)? = moved;
        let sub = self.tables.get_mut(spot.table)?;
        *sub.tags.get_mut(spot.index)? = tag(moved.key);
        sub.len -= 1;
        self.blocks.get_mut(last.block)?.owner_and_len -= 1;
        if last.index.is_multiple_of(BLOCK_LEN) {
            self.free(last.block);
        }
        Some(removed)
    }

    /// Removes an empty block from the list and moves the last block into its place.
    fn free(&mut self, block: usize) {
        let Some(last) = self.blocks.pop() else { return };
        let number = self.blocks.len();
        if let Some(place) = self.blocks.get_mut(block)
            && let Some(owner) = self.tables.get_mut(last.owner())
        {
            if let Some(nth) = owner.position(number)
                && let Some(its) = owner.blocks.get_mut(nth)
            {
                *its = block as u32;
            }
            *place = last;
        }
    }
}

impl SubTable {
    fn spot(&self, table: usize, index: usize) -> Option<Spot> {
        let block = self.blocks.get(index / BLOCK_LEN).filter(|_| index < self.len as usize)?;
        Some(Spot { table, index, block: *block as usize })
    }

    /// The position of this block among the blocks of its sub-table.
    fn position(&self, block: usize) -> Option<usize> {
        let its = self.blocks.iter().take((self.len as usize).div_ceil(BLOCK_LEN));
        its.enumerate().find(|(_, its)| **its as usize == block).map(|(nth, _)| nth)
    }
}

impl Block {
    fn new(owner: usize, edits: &Edits) -> Self {
        let entries = [Entry::default(); BLOCK_LEN];
        Self { entries, owner_and_len: (owner as u32) << 4, seen: edits.last() }
    }

    const fn owner(&self) -> usize {
        (self.owner_and_len >> 4) as usize
    }

    const fn len(&self) -> usize {
        (self.owner_and_len & 0xf) as usize
    }

    fn bring(&mut self, edits: &Edits) {
        if self.seen != edits.last() {
            let len = self.len();
            for entry in self.entries.iter_mut().take(len) {
                edits.bring(self.seen, &mut entry.counter);
            }
            self.seen = edits.last();
        }
    }
}

/// The high bit of every byte of `eight` that equals `tag`. Bits above the lowest hit may be wrong, bits
/// below never.
const fn equal_bytes(eight: u64, tag: u8) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_where_equal = eight ^ (LOW * tag as u64);
    zero_where_equal.wrapping_sub(LOW) & !zero_where_equal & HIGH
}

const fn tag(key: KeyHash) -> u8 {
    key.0[1] as u8
}
