//! The wire format, without any I/O: where messages begin and end, and what they contain.

mod frame;
mod message;

pub use frame::{FrameError, Framer};
pub use message::{Message, MessageError, PROBE_ID};
