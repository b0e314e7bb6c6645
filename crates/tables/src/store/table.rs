//! The rows of one table, by slot, with hash indexes on the UUID and on the unique column sets.
//!
//! Snapshots share the slots (`slots.rs`). The indexes (`index.rs`) hold slot numbers only and are never shared.

use super::index::{Index, Keys};
use super::slots::Slots;
use super::{Row, row_uuid};
use crate::schema::{ColumnId, TableSchema};
use crate::value::Datum;
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use paceline_types::Uuid;
use std::hash::BuildHasher;

#[derive(Debug)]
pub(super) struct Table {
    slots: Slots,
    free: Vec<u32>,
    by_uuid: HashTable<u32>,
    indexes: Vec<Index>,
    hasher: FixedState,
}

impl Table {
    pub(super) fn new(schema: &TableSchema, hash_seed: u64) -> Self {
        Self {
            slots: Slots::default(),
            free: Vec::new(),
            by_uuid: HashTable::new(),
            indexes: schema.indexes.iter().map(|_| Index::default()).collect(),
            hasher: FixedState::with_seed(hash_seed),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_uuid.len()
    }

    /// How many slots there are, including those of deleted rows.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.slots.rows()
    }

    pub(super) fn share(&self) -> Slots {
        self.slots.clone()
    }

    pub(super) fn row(&self, uuid: Uuid) -> Option<&Row> {
        self.slot_of(uuid).and_then(|slot| self.row_at(slot))
    }

    pub(super) fn row_at(&self, slot: u32) -> Option<&Row> {
        self.slots.row(slot as usize)
    }

    /// The slot of the row with this UUID.
    pub(super) fn slot_of(&self, uuid: Uuid) -> Option<u32> {
        let hash = self.hasher.hash_one(uuid);
        let found = |slot: &u32| has_uuid(&self.slots, *slot, uuid);
        self.by_uuid.find(hash, found).copied()
    }

    pub(super) fn indexed<'a>(
        &'a self,
        index: usize,
        columns: &'a [ColumnId],
        values: &'a [&'a Datum],
    ) -> impl Iterator<Item = &'a Row> {
        let keys = Keys { slots: &self.slots, columns, hasher: &self.hasher };
        let slots = self.indexes[index].find(keys, values);
        slots.filter_map(|slot| self.slots.row(slot as usize))
    }

    /// Replaces the row with this UUID by `new`. `slot` is the row's slot, if the row exists.
    pub(super) fn put(
        &mut self,
        schema: &TableSchema,
        (uuid, slot): (Uuid, Option<u32>),
        new: Option<Row>,
    ) -> Option<Row> {
        let old = slot.and_then(|slot| self.row_at(slot)).cloned();
        match (slot, new) {
            (None, None) => {}
            (None, Some(new)) => {
                let slot = self.vacant_slot();
                self.index(schema, slot, &new, None);
                self.set(slot, Some(new));
                let hash = self.hasher.hash_one(uuid);
                let Self { by_uuid, slots, hasher, .. } = self;
                by_uuid.insert_unique(hash, slot, |slot| hash_uuid(hasher, slots, *slot));
            }
            (Some(slot), Some(new)) => {
                self.unindex(schema, slot, old.as_deref(), Some(&new));
                self.index(schema, slot, &new, old.as_deref());
                self.set(slot, Some(new));
            }
            (Some(slot), None) => {
                self.unindex(schema, slot, old.as_deref(), None);
                let hash = self.hasher.hash_one(uuid);
                if let Ok(entry) = self.by_uuid.find_entry(hash, |other| *other == slot) {
                    entry.remove();
                }
                self.set(slot, None);
                self.free.push(slot);
            }
        }
        old
    }

    fn vacant_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let first = self.slots.grow() as u32;
        self.free.extend((first + 1..self.slots.len() as u32).rev());
        first
    }

    fn set(&mut self, slot: u32, row: Option<Row>) {
        self.slots.set(slot as usize, row);
    }

    /// Adds `row` to each unique index whose columns differ from those of `old`.
    fn index(&mut self, schema: &TableSchema, slot: u32, row: &[Datum], old: Option<&[Datum]>) {
        let Self { indexes, slots, hasher, .. } = self;
        for (index, columns) in indexes.iter_mut().zip(&schema.indexes) {
            let keys = Keys { slots, columns, hasher };
            if !old.is_some_and(|old| keys.agree(old, row)) {
                index.add(keys, slot, row);
            }
        }
    }

    /// Removes `row` from each unique index whose columns differ from those of `new`.
    fn unindex(
        &mut self,
        schema: &TableSchema,
        slot: u32,
        row: Option<&[Datum]>,
        new: Option<&[Datum]>,
    ) {
        let Some(row) = row else { return };
        let Self { indexes, slots, hasher, .. } = self;
        for (index, columns) in indexes.iter_mut().zip(&schema.indexes) {
            let keys = Keys { slots, columns, hasher };
            if !new.is_some_and(|new| keys.agree(row, new)) {
                index.remove(keys, slot, row);
            }
        }
    }
}

fn has_uuid(slots: &Slots, slot: u32, uuid: Uuid) -> bool {
    slots.row(slot as usize).is_some_and(|row| row_uuid(row) == uuid)
}

fn hash_uuid(hasher: &FixedState, slots: &Slots, slot: u32) -> u64 {
    slots.row(slot as usize).map_or(0, |row| hasher.hash_one(row_uuid(row)))
}
