//! What clients hold: sessions, permits and locks, and the leases that end them.
//!
//! A session or a permit is in one of two states: held, or gone. It is gone when it is released, when its lease
//! expires, or when the connection that it is bound to ends, whichever is first. The permits of a session end
//! with it. Every call checks the time, so an expired lease has ended whether or not the task that removes it
//! has run (P2). The lock is never held while the host is called.

mod ask;
mod error;
mod expired;
mod leases;
mod locks;
mod permits;
mod restore;
mod sessions;
mod shares;
mod standings;
#[cfg(test)]
mod tests;

pub use ask::Chosen;
pub use error::{AskError, HoldError};
pub use locks::Asking;
pub use permits::{Asker, PermitView, Terms};
pub use sessions::{Beginning, HeldSession, SessionView};
pub use standings::Notice;

use crate::{Clock, Host, KeptSession};
use expired::Expired;
use leases::{Lease, Leases};
use paceline_types::{RequestId, SessionId, limits};
use permits::Slot;
use sessions::SessionEntry;
use shares::Shares;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, broadcast};

/// How many lock notices a listener may lag behind before it misses some.
const NOTICES_MAX: usize = 1_024;

/// Derives the secret key of a session from what is kept of it.
pub type Keys = Box<dyn Fn(&str) -> String + Send + Sync>;

/// Bounds of what clients hold.
#[derive(Clone, Copy, Debug)]
pub struct HoldLimits {
    /// Sessions at a time. Of this and the next three limits one user has a quarter at most, and the last tenth
    /// is reserved for root and the user who runs the daemon, who may have all.
    pub sessions_max: usize,
    /// Permits that are held or waited for.
    pub requests_max: usize,
    /// Attributes, claims and names of these together.
    pub bytes_max: usize,
    /// Names and bookkeeping of the locks that sessions own or wait for.
    pub lock_bytes_max: usize,
    /// Expired leases that are remembered, so that a late renewal gets the reason why it fails.
    pub expired_max: usize,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self {
            sessions_max: 100_000,
            requests_max: limits::REQUESTS_MAX,
            bytes_max: limits::REQUESTS_BYTES_MAX,
            lock_bytes_max: limits::LOCKS_BYTES_MAX,
            expired_max: 10_000,
        }
    }
}

/// Everything that clients hold.
pub struct Registry {
    host: Arc<Host>,
    clock: Clock,
    keys: Keys,
    shares: Arc<Shares>,
    state: Mutex<Entries>,
    /// Woken when an earlier lease was added.
    rearm: Notify,
    /// Notices about the locks of sessions.
    notices: broadcast::Sender<Notice>,
}

struct Entries {
    sessions: HashMap<String, SessionEntry>,
    /// The names under which sessions are shown.
    names: HashMap<SessionId, String>,
    /// Their keys by these names.
    keys: HashMap<String, String>,
    permits: BTreeMap<String, Slot>,
    /// The permits by their requests.
    by_request: HashMap<RequestId, String>,
    leases: Leases,
    expired: Expired,
    /// What was released, and is not known to be on disk.
    unwritten: BTreeSet<String>,
    /// Bound sessions of the last run whose processes are not watched yet.
    restored: Vec<KeptSession>,
}

impl Registry {
    /// Nothing held yet; [`Registry::take_over`] adds what an earlier run left.
    #[must_use]
    pub fn new(host: Arc<Host>, keys: Keys, limits: HoldLimits) -> Arc<Self> {
        Arc::new(Self {
            clock: host.clock(),
            keys,
            host,
            shares: Shares::new(limits),
            state: Mutex::new(Entries {
                sessions: HashMap::new(),
                names: HashMap::new(),
                keys: HashMap::new(),
                permits: BTreeMap::new(),
                by_request: HashMap::new(),
                leases: Leases::default(),
                expired: Expired::new(limits.expired_max),
                unwritten: BTreeSet::new(),
                restored: Vec::new(),
            }),
            rearm: Notify::new(),
            notices: broadcast::channel(NOTICES_MAX).0,
        })
    }

    /// Subscribes to notices about the locks of sessions from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    /// How many sessions and permits there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.sessions.len(), state.by_request.len())
    }

    fn state(&self) -> MutexGuard<'_, Entries> {
        crate::sync::lock(&self.state)
    }
}
