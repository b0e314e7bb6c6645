//! Why something cannot be held, or is no longer held.

use paceline_engine::RequestError;
use paceline_locks::LockError;
use paceline_tables::Error;
use paceline_types::{Refusal, RequestId, Span};

/// Why something cannot be held, or is held no longer. Doors say it in their own words.
#[derive(Clone, Debug)]
pub enum HoldError {
    /// A permit of this id was asked for with another body.
    OtherBody,
    /// There is no such permit.
    NoPermit,
    /// Its lease ran out, and what it held is given back.
    PermitExpired,
    /// The permit that was waited for was granted, and has ended since.
    PermitOver,
    /// There is no such session.
    NoSession,
    /// Its lease ran out, and what it held is given back.
    SessionExpired,
    /// The session ended while something was waited for.
    SessionEnded,
    /// The session gave up its place in line while something was waited for.
    GivenUp,
    /// A session with a lease does not depend on processes.
    NotBound,
    /// So many there may be, and are.
    TooMany(&'static str, usize),
    /// A lease is shorter or longer than these.
    Lease {
        /// The shortest lease.
        min: Span,
        /// The longest.
        max: Span,
        /// The one that was asked for.
        found: Span,
    },
    /// It could not be written to disk.
    NotWritten(Error),
    /// The system gives no random numbers.
    NoSecret(String),
    /// It is no request.
    Request(RequestError),
    /// What the client may do was taken away meanwhile.
    TakenAway,
    /// The daemon ends.
    Ending,
    /// A lock cannot be asked for, or given back.
    Lock(LockError),
    /// Another session owns the lock; no name if it has released it meanwhile.
    Taken {
        /// The name of the session that owns it.
        owner: Option<String>,
        /// How long was waited for it.
        waited: Span,
    },
}

/// Why there is no permit.
#[derive(Clone, Debug)]
pub enum AskError {
    /// The request was turned away.
    Refused(RequestId, Refusal),
    /// Anything else.
    Hold(HoldError),
}

impl From<HoldError> for AskError {
    fn from(error: HoldError) -> Self {
        Self::Hold(error)
    }
}
