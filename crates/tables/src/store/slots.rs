//! The rows of one table by slot, as a tree that the head and its snapshots share.
//!
//! Slots are in chunks, chunks in groups; a copy of the whole is one pointer per group. The first change to a part
//! that a copy shares copies one group and one chunk of pointers, never a row. So a snapshot alone keeps in memory
//! only what has changed since.

use super::Row;
use std::sync::Arc;

const CHUNK: usize = 128;
const GROUP: usize = 128;

type Chunk = [Option<Row>; CHUNK];
type Group = [Option<Arc<Chunk>>; GROUP];

#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    groups: Vec<Arc<Group>>,
    chunks: usize,
}

impl Slots {
    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.chunks * CHUNK
    }

    /// Adds empty slots. Returns the first of them; the others follow up to the new length.
    pub(super) fn grow(&mut self) -> usize {
        let first = self.len();
        let (group, chunk) = (self.chunks / GROUP, self.chunks % GROUP);
        if group == self.groups.len() {
            self.groups.push(Arc::new(std::array::from_fn(|_| None)));
        }
        let empty: Chunk = std::array::from_fn(|_| None);
        Arc::make_mut(&mut self.groups[group])[chunk] = Some(Arc::new(empty));
        self.chunks += 1;
        first
    }

    pub(super) fn row(&self, slot: usize) -> Option<&Row> {
        let (group, chunk, at) = place(slot);
        self.groups.get(group)?.get(chunk)?.as_ref()?.get(at)?.as_ref()
    }

    /// Sets or empties an existing slot.
    pub(super) fn set(&mut self, slot: usize, row: Option<Row>) {
        let (group, chunk, at) = place(slot);
        if let Some(chunk) = &mut Arc::make_mut(&mut self.groups[group])[chunk] {
            Arc::make_mut(chunk)[at] = row;
        }
    }

    /// The rows from slot `first` on, each with its slot.
    pub(super) fn rows_from(&self, first: usize) -> impl Iterator<Item = (usize, &Row)> {
        let (group, chunk, _) = place(first);
        let chunks = self.groups.iter().skip(group).flat_map(|group| group.iter());
        let numbered = chunks.enumerate().skip(chunk);
        numbered
            .flat_map(move |(number, chunk)| {
                let base = group * GROUP * CHUNK + number * CHUNK;
                let rows = chunk.iter().flat_map(|chunk| chunk.iter().enumerate());
                rows.map(move |(at, row)| (base + at, row))
            })
            .filter_map(
                move |(slot, row)| if slot < first { None } else { Some((slot, row.as_ref()?)) },
            )
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        let chunks = self.groups.iter().flat_map(|group| group.iter().flatten());
        chunks.flat_map(|chunk| chunk.iter().flatten())
    }

    /// Bytes that this keeps in memory and `later`, a later state of the same table, does not.
    pub(super) fn memory_beside(&self, later: &Self) -> usize {
        let mut bytes = size_of_val(self.groups.as_slice());
        for (number, group) in self.groups.iter().enumerate() {
            let beside = later.groups.get(number);
            if beside.is_some_and(|beside| Arc::ptr_eq(group, beside)) {
                continue;
            }
            bytes += size_of::<Group>();
            for (number, chunk) in group.iter().enumerate() {
                let Some(chunk) = chunk else { continue };
                let beside = beside.and_then(|group| group.get(number)?.as_ref());
                if !beside.is_some_and(|beside| Arc::ptr_eq(chunk, beside)) {
                    bytes += size_of::<Chunk>() + rows_beside(chunk, beside);
                }
            }
        }
        bytes
    }
}

/// Bytes of the rows that `chunk` has and its later state does not.
fn rows_beside(chunk: &Chunk, later: Option<&Arc<Chunk>>) -> usize {
    let of_row = |(at, row): (usize, &Option<Row>)| {
        let Some(row) = row else { return 0 };
        let beside = later.and_then(|later| later.get(at)?.as_ref());
        if beside.is_some_and(|beside| Arc::ptr_eq(row, beside)) {
            return 0;
        }
        let value = |(at, value): (usize, &crate::value::Datum)| {
            let beside = beside.and_then(|beside| beside.get(at));
            let is_shared = beside.is_some_and(|beside| value.shares_memory_with(beside));
            size_of_val(value) + if is_shared { 0 } else { value.memory() }
        };
        row.iter().enumerate().map(value).sum()
    };
    chunk.iter().enumerate().map(of_row).sum()
}

fn place(slot: usize) -> (usize, usize, usize) {
    (slot / (GROUP * CHUNK), slot / CHUNK % GROUP, slot % CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Datum;

    fn row() -> Row {
        Arc::from([Datum::Empty, Datum::Empty])
    }

    fn filled(count: usize) -> Slots {
        let mut slots = Slots::default();
        while slots.len() < count {
            slots.grow();
        }
        (0..count).for_each(|slot| slots.set(slot, Some(row())));
        slots
    }

    #[test]
    fn rows_are_found_from_any_slot_on() {
        let count = GROUP * CHUNK + 3 * CHUNK;
        let mut slots = filled(count);
        slots.set(CHUNK, None);
        slots.set(GROUP * CHUNK, None);
        for first in [0, 1, CHUNK, CHUNK + 1, GROUP * CHUNK - 1, GROUP * CHUNK, count - 1, count] {
            let expected: Vec<usize> =
                (first..count).filter(|slot| slots.row(*slot).is_some()).collect();
            let found: Vec<usize> = slots.rows_from(first).map(|(slot, _)| slot).collect();
            assert_eq!(found, expected, "from slot {first}");
        }
        assert_eq!(slots.rows().count(), count - 2);
    }

    /// D1: a copy alone keeps only what has changed since.
    #[test]
    fn a_copy_keeps_what_has_changed_since_d1() {
        let mut slots = filled(GROUP * CHUNK + 1);
        let copy = slots.clone();
        let pointers = 2 * size_of::<usize>();
        assert_eq!(copy.memory_beside(&slots), pointers);
        let kept = Arc::downgrade(slots.row(7).unwrap());
        slots.set(7, Some(row()));
        let of_row = 2 * size_of::<Datum>();
        let expected = pointers + size_of::<Group>() + size_of::<Chunk>() + of_row;
        assert_eq!(copy.memory_beside(&slots), expected);
        // Changing the slot again keeps nothing more.
        slots.set(7, None);
        assert_eq!(copy.memory_beside(&slots), expected);
        slots.set(8, None);
        assert_eq!(copy.memory_beside(&slots), expected + of_row);
        drop(copy);
        assert!(kept.upgrade().is_none());
    }
}
