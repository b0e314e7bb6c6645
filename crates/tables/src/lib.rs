//! The database: OVSDB schemas, rows, transactions, journal records and monitors (RFC 7047 and the
//! extensions that today's clients use).
//!
//! Pure: the head is a plain structure, a transaction is a call that returns results and changes, a monitor is a
//! function from changes to text. No file, socket, clock, lock or thread. Randomness comes from a seed given at
//! construction, and no behaviour depends on the order of a hash table.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod changes;
mod condition;
mod convert;
mod error;
pub mod json;
mod members;
pub mod monitor;
mod mutation;
mod record;
pub mod schema;
mod store;
mod transact;
pub mod value;

pub use changes::{Changes, RowChange};
pub use condition::{Clause, Condition, Function};
pub use convert::convert;
pub use error::{Error, Violation, tag};
pub use members::is_id;
pub use mutation::Mutation;
pub use record::{write_record, write_snapshot};
pub use store::{Row, Snapshot, Store, WeakSnapshot, row_memory, row_uuid};
pub use transact::{
    Context, Database, Done, Estimate, Interest, OpResult, Operations, Outcome, Selected, Test,
    Transaction, Work,
};
