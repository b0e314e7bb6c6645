//! Random schemas, transactions and monitor requests, from small pools of values so that rows interact: equal index
//! values, matching conditions, references to existing rows.

mod atoms;
mod monitor;
mod schema;
mod transaction;

pub use atoms::{constrained, pool_uuid};
pub use monitor::{Shape, condition_change, requests};
pub use schema::{column, schema};
pub use transaction::transaction;
