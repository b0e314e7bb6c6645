//! Changes in progress: rows are put into the head and their old versions kept.
//!
//! Every change of a transaction to the head uses [`Edit::put`]. Until it is committed, [`Edit::abort`] puts the
//! old rows back.

use crate::error::Error;
use crate::schema::{ColumnId, Schema, TableId};
use crate::store::{Lookup, Row, Store};
use paceline_types::Uuid;

/// A row the transaction has touched, as it was before.
pub(super) struct Touched {
    pub(super) table: TableId,
    pub(super) uuid: Uuid,
    pub(super) old: Option<Row>,
}

/// A set of changes that is not committed yet.
pub(crate) struct Edit<'a> {
    pub(super) store: &'a mut Store,
    pub(super) touched: Vec<Touched>,
    places: Option<Lookup<(TableId, Uuid), u32>>,
}

/// Up to this many touched rows are searched one by one; more get a hash map.
const FEW: usize = 8;

impl<'a> Edit<'a> {
    /// Begins changing `store`.
    pub(crate) fn new(store: &'a mut Store) -> Self {
        Self { store, touched: Vec::new(), places: None }
    }

    /// The schema.
    pub(crate) fn schema(&self) -> &Schema {
        self.store.schema()
    }

    /// The row as it is now.
    pub(crate) fn row(&self, table: TableId, uuid: Uuid) -> Option<Row> {
        self.store.row(table, uuid).cloned()
    }

    /// Whether the transaction touched this row, even if the row is deleted now.
    pub(crate) fn has_touched(&self, table: TableId, uuid: Uuid) -> bool {
        self.place(table, uuid).is_some()
    }

    fn place(&self, table: TableId, uuid: Uuid) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(&(table, uuid)).map(|place| *place as usize),
            None => self.touched.iter().position(|t| t.uuid == uuid && t.table == table),
        }
    }

    /// The row as it was before the transaction, if the transaction touched it.
    pub(super) fn before(&self, table: TableId, uuid: Uuid) -> Option<&Touched> {
        self.place(table, uuid).and_then(|place| self.touched.get(place))
    }

    /// Replaces the row with this UUID by `new`, or removes it.
    pub(crate) fn put(&mut self, table: TableId, uuid: Uuid, new: Option<Row>) {
        let old = self.store.put(table, uuid, new);
        self.note(table, uuid, old);
    }

    /// Replaces the row with this UUID by `new`. The strong references that it lost in columns for which
    /// `is_released` returns true are already released.
    pub(super) fn put_released(
        &mut self,
        table: TableId,
        uuid: Uuid,
        new: Row,
        is_released: impl Fn(ColumnId) -> bool,
    ) {
        let old = self.store.put_released(table, uuid, Some(new), is_released);
        self.note(table, uuid, old);
    }

    /// Records a changed row, and its state before the first change.
    fn note(&mut self, table: TableId, uuid: Uuid, old: Option<Row>) {
        if self.has_touched(table, uuid) {
            return;
        }
        let place = self.touched.len() as u32;
        self.touched.push(Touched { table, uuid, old });
        if let Some(places) = &mut self.places {
            places.entry((table, uuid)).or_insert(place);
        } else if self.touched.len() > FEW {
            self.places = Some(places_of(&self.touched));
        }
    }

    /// Sets the rows touched so far to `touched`.
    pub(super) fn restore_touched(&mut self, touched: Vec<Touched>) {
        if touched.len() <= FEW {
            self.places = None;
        } else if self.places.is_some() {
            self.places = Some(places_of(&touched));
        }
        self.touched = touched;
    }

    /// Restores everything as it was.
    pub(crate) fn abort(self) {
        for touched in self.touched.into_iter().rev() {
            self.store.put(touched.table, touched.uuid, touched.old);
        }
        self.store.take_unreferenced();
    }

    /// Restores everything and returns `error`.
    pub(super) fn fail<T>(self, error: Error) -> Result<T, Error> {
        self.abort();
        Err(error)
    }
}

fn places_of(touched: &[Touched]) -> Lookup<(TableId, Uuid), u32> {
    let mut places = Lookup::new(0);
    for (place, touched) in touched.iter().enumerate() {
        places.entry((touched.table, touched.uuid)).or_insert(place as u32);
    }
    places
}
