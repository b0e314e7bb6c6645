//! What clients of the API hold: sessions and permits, and the leases that end them.
//!
//! A session or a permit is in one of two states: held, or gone. It goes when it is given back, when
//! its lease runs out, or when the connection it is bound to ends, whichever comes first; a permit of
//! a session goes with it. Time is looked at in every call, so a lease that ran out is over whether or
//! not the task that sweeps has come by (P2). The lock is never held while the host is called.

mod expired;
mod leases;
mod permits;
mod restore;
mod secret;
mod sessions;

pub(crate) use leases::sweep;
pub(crate) use permits::{Given, Join, PermitView, Stage, Terms, is_own_name};
pub(crate) use secret::Secret;
pub(crate) use sessions::{ApiSession, Beginning, SessionView};

use crate::limits::Limits;
use crate::moment::Wall;
use expired::Expired;
use leases::{Lease, Leases};
use paceline_host::{Clock, Host};
use paceline_types::{RequestId, SessionId};
use permits::Slot;
use sessions::SessionEntry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, broadcast};

/// Lock notices that one who follows may be behind before it misses some.
const NOTICES_MAX: usize = 1_024;

/// All sessions and permits of the API.
pub(crate) struct Registry {
    pub(crate) host: Arc<Host>,
    clock: Clock,
    wall: Arc<Wall>,
    /// What the secrets of sessions are made from.
    secret: Secret,
    limits: Limits,
    state: Mutex<State>,
    /// Woken when an earlier lease came.
    rearm: Notify,
    /// What happens to the locks of sessions.
    pub(crate) notices: broadcast::Sender<crate::mailbox::Notice>,
}

struct State {
    sessions: HashMap<String, SessionEntry>,
    /// The names under which sessions are shown.
    names: HashMap<SessionId, String>,
    permits: BTreeMap<String, Slot>,
    /// The permits by their requests.
    by_request: HashMap<RequestId, String>,
    leases: Leases,
    expired: Expired,
}

impl Registry {
    pub(crate) fn new(
        host: Arc<Host>,
        wall: Arc<Wall>,
        secret: Secret,
        limits: Limits,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock: host.clock(),
            wall,
            secret,
            host,
            limits,
            state: Mutex::new(State {
                sessions: HashMap::new(),
                names: HashMap::new(),
                permits: BTreeMap::new(),
                by_request: HashMap::new(),
                leases: Leases::default(),
                expired: Expired::new(limits.expired_max),
            }),
            rearm: Notify::new(),
            notices: broadcast::channel(NOTICES_MAX).0,
        })
    }

    /// How many sessions and permits there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.sessions.len(), state.by_request.len())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
