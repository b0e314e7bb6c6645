//! The messages of the PostgreSQL protocol, in both directions.
//!
//! Owns the form of every message of protocol versions 3.0 and 3.2: where it ends (`frame`), the packets before the
//! first typed message (`startup`), the messages of clients (`frontend`) and servers (`backend`), and errors and notices
//! as values (`report`). Promises D3 (every length has a maximum) and D4 (no input panics, and none takes more than
//! linear time): a message with a wrong length or count, a missing NUL or bytes left over is refused, and what is
//! accepted has one reading only. Pure: it sees slices, never sockets, clocks or random numbers, and it does not know
//! which message may follow which.

pub mod backend;
mod body;
pub mod frame;
pub mod frontend;
pub mod kind;
pub mod report;
pub mod startup;
mod state;
mod values;

pub use body::{BodyError, TooLong};
pub use state::SqlState;
pub use values::{Format, Formats, FormatsIter, Oids, OidsIter, Values, ValuesIter};

#[cfg(test)]
mod tests;
