//! The rows of one table, by slot, with hash indexes on the UUID and on the unique column sets.
//!
//! Snapshots share the slots (`slots.rs`). The indexes hold slot numbers only and are never shared.

use super::slots::Slots;
use super::{Row, row_uuid};
use crate::schema::{ColumnId, TableSchema};
use crate::value::Datum;
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use paceline_types::Uuid;
use std::hash::{BuildHasher, Hash, Hasher};

#[derive(Debug)]
pub(super) struct Table {
    slots: Slots,
    free: Vec<u32>,
    by_uuid: HashTable<u32>,
    indexes: Vec<HashTable<u32>>,
    hasher: FixedState,
}

impl Table {
    pub(super) fn new(schema: &TableSchema, hash_seed: u64) -> Self {
        Self {
            slots: Slots::default(),
            free: Vec::new(),
            by_uuid: HashTable::new(),
            indexes: schema.indexes.iter().map(|_| HashTable::new()).collect(),
            hasher: FixedState::with_seed(hash_seed),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_uuid.len()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.slots.rows()
    }

    pub(super) fn share(&self) -> Slots {
        self.slots.clone()
    }

    pub(super) fn row(&self, uuid: Uuid) -> Option<&Row> {
        self.slot_of(uuid).and_then(|slot| self.slots.row(slot as usize))
    }

    fn slot_of(&self, uuid: Uuid) -> Option<u32> {
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
        let hash = hash_values(&self.hasher, values.iter().copied());
        self.indexes[index].iter_hash(hash).filter_map(move |slot| {
            let row = self.slots.row(*slot as usize)?;
            let same = columns.iter().zip(values).all(|(column, v)| &row[column.index()] == *v);
            same.then_some(row)
        })
    }

    pub(super) fn put(
        &mut self,
        schema: &TableSchema,
        uuid: Uuid,
        new: Option<Row>,
    ) -> Option<Row> {
        let slot = self.slot_of(uuid);
        let old = slot.and_then(|slot| self.slots.row(slot as usize)).cloned();
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
            if old.is_some_and(|old| same_columns(columns, old, row)) {
                continue;
            }
            let hash = hash_columns(hasher, columns, row);
            index.insert_unique(hash, slot, |other| {
                slots.row(*other as usize).map_or(0, |row| hash_columns(hasher, columns, row))
            });
        }
    }

    /// Takes `row` out of each unique index whose columns differ from those of `new`.
    fn unindex(
        &mut self,
        schema: &TableSchema,
        slot: u32,
        row: Option<&[Datum]>,
        new: Option<&[Datum]>,
    ) {
        let Some(row) = row else { return };
        for (index, columns) in self.indexes.iter_mut().zip(&schema.indexes) {
            if new.is_some_and(|new| same_columns(columns, row, new)) {
                continue;
            }
            let hash = hash_columns(&self.hasher, columns, row);
            if let Ok(entry) = index.find_entry(hash, |other| *other == slot) {
                entry.remove();
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

fn same_columns(columns: &[ColumnId], a: &[Datum], b: &[Datum]) -> bool {
    columns.iter().all(|column| a[column.index()] == b[column.index()])
}

fn hash_columns(hasher: &FixedState, columns: &[ColumnId], row: &[Datum]) -> u64 {
    hash_values(hasher, columns.iter().map(|column| &row[column.index()]))
}

fn hash_values<'a>(hasher: &FixedState, values: impl Iterator<Item = &'a Datum>) -> u64 {
    let mut state = hasher.build_hasher();
    for value in values {
        value.hash(&mut state);
    }
    state.finish()
}
