//! Named locks: served in order of arrival, stolen at will, each grant with a fencing number.
//!
//! This crate owns the owner of each lock, its waiters in order, and the fencing numbers of grants.
//! It promises:
//!
//! - L1: a lock has at most one owner, and lockers receive it first come, first served; a locker
//!   who was robbed regains it before those still queued, and a locker that waited before a restart
//!   of the server stands before those that waited less ([`Locks::lock_after`]).
//! - L2: every grant carries a fencing number larger than all before it. The host reserves a range
//!   of numbers on disk. When the range is used up, nothing is granted until it is extended.
//! - L4: all effects of a call concern sessions other than the caller, and are queued when the call
//!   returns. A host that sends the effects first and the answer second keeps the promised order.
//!
//! It never reads a clock, writes a file, starts a thread or takes a lock of its own.
//!
//! What a session may do with a name, and the resulting states:
//!
//! ```text
//!            lock, free              stolen, came by lock
//!  nothing ------------> owner ------------------------------> waiting, in front
//!     |   ------------>    |   ------------------------------> robbed
//!     |      steal         |         stolen, came by steal
//!     |                    |
//!     | lock, taken        | unlock, end        waiting --- its turn ---> owner
//!     +------> waiting     +------> nothing     waiting, robbed --- unlock, end ---> nothing
//! ```

mod changed;
mod ledger;
mod line;
mod locks;

pub use ledger::{ENTRY_BYTES, Standing, cost};
pub use locks::{LockView, Locks};
pub use paceline_types::SessionId;

use std::fmt;
use std::sync::Arc;

/// A notification for a session that did not make the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A session that waited owns the lock now.
    Locked {
        /// The new owner.
        session: SessionId,
        /// The lock.
        name: Arc<str>,
        /// The number of this grant.
        fencing: u64,
    },
    /// The owner lost the lock to another session.
    Stolen {
        /// The session that lost it.
        session: SessionId,
        /// The lock.
        name: Arc<str>,
    },
}

/// Why a lock operation was not done. An operation that returns an error changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// The session already locked or stole this name and has not unlocked it since.
    MustUnlock,
    /// The session neither locked nor stole this name since it last unlocked it.
    NotLocked,
    /// No fencing number is left in the reserved range.
    Exhausted,
    /// One more entry would exceed the session's budget of bytes.
    TooMany,
    /// All clients together, or all sessions of one client, have reached a limit; the text says
    /// which. The owner of the sessions returns this error.
    TooManyTogether(&'static str),
    /// The session has ended. The owner of the sessions returns this error: this crate does not
    /// know them.
    Ended,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockError::MustUnlock => "this session must unlock before it locks or steals again",
            LockError::NotLocked => "this session has nothing to unlock here",
            LockError::Exhausted => "no fencing number is left in the reserved range",
            LockError::TooMany => "the locks of this session exceed its memory budget",
            LockError::TooManyTogether(which) => {
                return write!(f, "{which} take as much memory as they may");
            }
            LockError::Ended => "this session has ended",
        })
    }
}

impl std::error::Error for LockError {}
