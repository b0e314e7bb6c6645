//! Backends: servers that do the same work. The servers are objects of their own.

use super::Object;
use super::values::text;
use paceline_catalogue::{BACKENDS, Kind, SERVERS};
use paceline_tables::{Function, Transaction};

/// The table Backend.
pub(super) struct Backend;

impl Object for Backend {
    const KIND: &'static Kind = &BACKENDS;

    fn delete_parts(key: &str, transaction: Transaction) -> Transaction {
        transaction.delete(SERVERS.table, [("backend", Function::Equal, text(key))])
    }
}
