//! The limits of the SQL door (D1, D3).

use std::time::Duration;

/// How long a login may take.
pub(crate) const LOGIN_MAX: Duration = Duration::from_secs(10);

/// The longest message of a client that is kept as a whole. Data of COPY is not: it is forwarded as it arrives.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 16 << 20;

/// The longest message of a server that is kept as a whole. Rows and data of COPY are not.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Bytes that may wait to be written to one side before the other side is read again.
pub(crate) const UNSENT_BYTES_MAX: usize = 64 << 10;

/// Bytes of long messages that all clients and servers together may have in memory.
pub(crate) const LONG_BYTES_MAX: usize = 512 << 20;

/// How long a server has to end the statement of a client that has disconnected.
pub(crate) const ORPHAN_MAX: Duration = Duration::from_secs(5);

/// How long a cancel request to a server may take.
pub(crate) const CANCEL_MAX: Duration = Duration::from_secs(5);

/// How long a statement waits before its client gets a notice.
pub(crate) const NOTICE_AFTER: Duration = Duration::from_secs(1);
