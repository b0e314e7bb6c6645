//! The wire, without any I/O: where messages begin and end, and what they say.

mod frame;
mod message;

pub use frame::{FrameError, Framer};
pub use message::{Message, MessageError, PROBE_ID};
