//! The named UUIDs of one transaction.
//!
//! A name stands for one UUID throughout the transaction, from its first mention on, whether that
//! mention is the `insert` that creates the row or a reference to it.

use paceline_types::{Uuid, UuidSource};
use std::collections::BTreeMap;

/// Names mentioned so far in one transaction, and the source of new UUIDs.
pub struct Symbols<'a> {
    names: BTreeMap<Box<str>, Symbol>,
    uuids: &'a mut UuidSource,
}

struct Symbol {
    uuid: Uuid,
    created: bool,
}

impl<'a> Symbols<'a> {
    /// No names yet; new UUIDs come from `uuids`.
    pub fn new(uuids: &'a mut UuidSource) -> Self {
        Self { names: BTreeMap::new(), uuids }
    }

    /// Registers that a later insert gives `uuid` to the row of this name.
    pub fn announce(&mut self, name: &str, uuid: Uuid) {
        self.names.entry(name.into()).or_insert(Symbol { uuid, created: false });
    }

    /// The UUID that `name` stands for.
    pub fn resolve(&mut self, name: &str) -> Uuid {
        self.symbol(name).uuid
    }

    /// Marks `name` as the row being inserted, whose UUID is `uuid` if the client chose one. Returns the row's
    /// UUID, or `None` if an earlier insert used the name already.
    pub fn create(&mut self, name: &str, uuid: Option<Uuid>) -> Option<Uuid> {
        let symbol = self.symbol(name);
        if symbol.created {
            return None;
        }
        symbol.created = true;
        if let Some(uuid) = uuid {
            symbol.uuid = uuid;
        }
        Some(symbol.uuid)
    }

    /// A UUID that is not in use yet.
    pub fn fresh(&mut self) -> Uuid {
        self.uuids.next_uuid()
    }

    fn symbol(&mut self, name: &str) -> &mut Symbol {
        let uuids = &mut *self.uuids;
        self.names
            .entry(name.into())
            .or_insert_with(|| Symbol { uuid: uuids.next_uuid(), created: false })
    }
}
