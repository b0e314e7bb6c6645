//! Why something cannot be held, or is no longer held.

use paceline_engine::RequestError;
use paceline_locks::LockError;
use paceline_tables::Error;
use paceline_types::{Refusal, RequestId, Span};

/// Why something cannot be held, or is no longer held. Doors translate it to their own errors.
#[derive(Clone, Debug)]
pub enum HoldError {
    /// A permit of this id was asked for with another body.
    OtherBody,
    /// There is no such permit.
    NoPermit,
    /// Its lease expired, and what it held was released.
    PermitExpired,
    /// The permit that was waited for was granted, and has ended since.
    PermitOver,
    /// There is no such session.
    NoSession,
    /// Its lease expired, and what it held was released.
    SessionExpired,
    /// The session ended while its request waited.
    SessionEnded,
    /// The session left the line while its request waited.
    GivenUp,
    /// A session with a lease does not depend on processes.
    NotBound,
    /// There are as many of these already as there may be.
    TooMany(&'static str, usize),
    /// A lease is shorter or longer than allowed.
    Lease {
        /// The shortest lease.
        min: Span,
        /// The longest.
        max: Span,
        /// The requested lease.
        found: Span,
    },
    /// It could not be written to disk.
    NotWritten(Error),
    /// The system provides no random numbers.
    NoSecret(String),
    /// The request is invalid.
    Request(RequestError),
    /// The client disconnected while it waited.
    Left,
    /// The client's role was revoked meanwhile.
    TakenAway,
    /// The daemon shuts down.
    Ending,
    /// The daemon is read-only.
    ReadOnly,
    /// A lock cannot be requested or released.
    Lock(LockError),
    /// Another session owns the lock; no name if it has released it meanwhile.
    Taken {
        /// The name of the session that owns it.
        owner: Option<String>,
        /// How long the request waited for it.
        waited: Span,
    },
}

/// Why no permit was granted.
#[derive(Clone, Debug)]
pub enum AskError {
    /// The request was refused.
    Refused(RequestId, Refusal),
    /// Anything else.
    Hold(HoldError),
}

impl From<HoldError> for AskError {
    fn from(error: HoldError) -> Self {
        Self::Hold(error)
    }
}
