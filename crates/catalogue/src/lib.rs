//! The catalogue: every kind of object that users configure, and each of its settings, defined once.
//!
//! Owns names, columns, types, ranges, defaults, roles and one sentence of documentation for each setting. The schema
//! of the database, the configuration file, the API, its OpenAPI document, the command line and `docs/reference.md`
//! are made from it. To add a setting, add its entry here and its meaning to the model.
//!
//! Never reads a file or a value itself: the doors do, according to the catalogue.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod example;
mod http;
mod path;
mod reference;
mod setting;
mod sql;
mod who;
mod work;

pub use example::as_toml;
pub use http::{BACKENDS, FRONTENDS, HTTP, SERVERS};
pub use path::setting_of;
pub use reference::reference;
pub use setting::{Default, Each, Figure, Holds, Kind, Measure, Setting, Shape, Where};
pub use sql::SQL_TARGETS;
pub use who::{API, TOKENS, USERS};
pub use work::{CHECKPOINTS, POOLS, RESOURCES, RULES, SAVED_RULES};

/// Every kind of object, in the order of the reference page.
pub const KINDS: [&Kind; 13] = [
    &POOLS,
    &RULES,
    &SAVED_RULES,
    &CHECKPOINTS,
    &RESOURCES,
    &API,
    &HTTP,
    &FRONTENDS,
    &BACKENDS,
    &SERVERS,
    &SQL_TARGETS,
    &USERS,
    &TOKENS,
];

/// The kind whose rows are in this table.
#[must_use]
pub fn kind_of(table: &str) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.table == table)
}

#[cfg(test)]
mod tests;
