//! Schemas: the tables, their columns, and the types of the columns.
//!
//! Owns the parsed and checked schema and its JSON notation. A [`Schema`] that exists is valid:
//! references point to tables that exist, indexes name persistent columns, names are ids.

mod column;
mod database;
mod table;
mod types;

pub use column::Column;
pub use database::Schema;
pub use table::TableSchema;
pub use types::{AtomType, BaseType, Bounds, Reference, Type};

/// A table, by its index in the schema's tables sorted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

impl TableId {
    /// The id as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A column, by its index in a row: `_uuid`, `_version`, then the others by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u16);

impl ColumnId {
    /// The row's own identifier.
    pub const UUID: Self = Self(0);
    /// Changes whenever the row does.
    pub const VERSION: Self = Self(1);
    /// How many columns every row has before those of the schema.
    pub const FIRST: usize = 2;

    /// The id as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
