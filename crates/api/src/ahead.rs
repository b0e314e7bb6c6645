//! The bytes that a client on the unix socket sends while its request is answered.
//!
//! The HTTP library reads nothing then. A client could send its own end of the connection as a descriptor: it would
//! stay unread in the daemon's socket and keep the connection open after the client's death (P4). So the daemon reads
//! what arrives at once, which drops descriptors, and keeps the bytes for the library. Promises to keep at most
//! [`BYTES_MAX`]: a client that sends more behind a waiting request is disconnected.

use std::collections::VecDeque;
use std::io::Read as _;
use std::sync::{Mutex, MutexGuard};
use tokio::io::ReadBuf;

/// Bytes that are kept of one connection.
pub(crate) const BYTES_MAX: usize = 96 << 10;

/// Received bytes that the library has not read.
#[derive(Debug, Default)]
pub(crate) struct Ahead(Mutex<VecDeque<u8>>);

impl Ahead {
    /// How many more bytes fit.
    pub(crate) fn room(&self) -> usize {
        BYTES_MAX.saturating_sub(self.bytes().len())
    }

    /// Keeps these bytes.
    pub(crate) fn keep(&self, bytes: &[u8]) {
        self.bytes().extend(bytes);
    }

    /// Moves the bytes that fit into a buffer. Returns whether there were any.
    pub(crate) fn read(&self, buffer: &mut ReadBuf<'_>) -> bool {
        let mut bytes = self.bytes();
        if bytes.is_empty() {
            return false;
        }
        // Reading from memory cannot fail.
        let count = bytes.read(buffer.initialize_unfilled()).unwrap_or(0);
        buffer.advance(count);
        if bytes.is_empty() {
            *bytes = VecDeque::new();
        }
        true
    }

    fn bytes(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.0.lock().unwrap_or_else(paceline_host::broken)
    }
}
