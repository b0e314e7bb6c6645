//! The values of columns: atoms, and the sets and maps made of them.
//!
//! Owns the values, their order, their notation and the checks of a column's type. Values are
//! small (24 bytes each), cheap to clone and immutable; large ones are shared.

mod atom;
mod datum;
mod diff;
mod symbols;

pub use atom::Atom;
pub use datum::Datum;
pub(crate) use datum::check_count;
pub(crate) use diff::trim_common;
pub use diff::{apply_diff, diff};
pub use symbols::Symbols;
