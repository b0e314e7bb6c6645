//! Places for connections at a door's socket.
//!
//! Promises that no user and no address takes all places: each has a bound beside the total, users without a role share
//! a small one, and some places are reserved for root and the user who runs the daemon. The log lines about refused
//! connections are bounded.

use crate::access::Granted;
use paceline_types::Role;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The shortest time between two log lines about refused connections of one socket.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// How many connections a socket accepts.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// All together.
    pub total: usize,
    /// The part of the total that only root and the user who runs the daemon may take.
    pub kept: usize,
    /// Each user with a role, or each address.
    pub each: usize,
    /// All users without a role together, who may do next to nothing.
    pub strangers: usize,
    /// Each user without a role.
    pub strangers_each: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { total: 10_000, kept: 100, each: 5_000, strangers: 1_000, strangers_each: 100 }
    }
}

impl Capacity {
    /// The same with at most `total` in all, and the other bounds reduced in proportion.
    #[must_use]
    pub fn at_most(self, total: usize) -> Self {
        if total >= self.total {
            return self;
        }
        let part = |bound: usize| (bound.saturating_mul(total) / self.total).max(1);
        Self {
            total,
            kept: part(self.kept),
            each: part(self.each),
            strangers: part(self.strangers),
            strangers_each: part(self.strangers_each),
        }
    }
}

/// The peer of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Peer {
    /// Root, or the user who runs the daemon.
    Owner,
    /// A user of this machine with a role.
    User(u32),
    /// A user of this machine without a role.
    Stranger(u32),
    /// A machine.
    Address(IpAddr),
}

impl Peer {
    /// A user of this machine, from the result of [`crate::Access::of_user`].
    #[must_use]
    pub fn of_user(uid: u32, access: &(Option<Role>, Option<Arc<Granted>>)) -> Self {
        match access {
            (None, _) => Self::Stranger(uid),
            (Some(_), Some(_)) => Self::User(uid),
            (Some(_), None) => Self::Owner,
        }
    }

    /// A machine. Addresses that one machine can choose freely are treated as one: all loopback addresses, and
    /// the last 64 bits of an IPv6 address.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        let address = match address.to_canonical() {
            own if own.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                [a, b, c, d, 0, 0, 0, 0].into()
            }
            v4 @ IpAddr::V4(_) => v4,
        };
        Self::Address(address)
    }

    const fn is_stranger(self) -> bool {
        matches!(self, Self::Stranger(_))
    }
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// There are too many connections.
    All,
    /// There are too many connections of users without a role.
    Strangers,
    /// This peer has too many.
    Of(Peer),
}

impl fmt::Display for Full {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("too many connections")?;
        match self {
            Self::All | Self::Of(Peer::Owner) => Ok(()),
            Self::Strangers => out.write_str(" of users without a role"),
            Self::Of(Peer::User(uid) | Peer::Stranger(uid)) => write!(out, " of user {uid}"),
            Self::Of(Peer::Address(address)) => write!(out, " from {address}"),
        }
    }
}

/// The places of one socket.
#[derive(Debug)]
pub struct Places {
    name: String,
    capacity: Capacity,
    all: Arc<Semaphore>,
    state: Mutex<Occupied>,
}

#[derive(Debug, Default)]
struct Occupied {
    taken: usize,
    strangers: usize,
    /// Only peers that have connections.
    each: BTreeMap<Peer, usize>,
    /// Connections refused and not logged yet.
    refused: u64,
    logged: Option<Instant>,
}

/// A place that is taken; dropping it frees it.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    peer: Peer,
    _one: OwnedSemaphorePermit,
}

impl Places {
    /// Free places of a socket; `name` is its name in logs.
    #[must_use]
    pub fn new(name: impl Into<String>, capacity: Capacity) -> Arc<Self> {
        // The semaphore has its own bound, far above what a process may open.
        let total = capacity.total.min(Semaphore::MAX_PERMITS);
        let (name, capacity) = (name.into(), Capacity { total, ..capacity });
        let all = Arc::new(Semaphore::new(total));
        Arc::new(Self { name, capacity, all, state: Mutex::default() })
    }

    /// A place for a new connection.
    ///
    /// # Errors
    ///
    /// When there is no place for this peer, which is logged.
    pub fn take(self: &Arc<Self>, peer: Peer) -> Result<Place, Full> {
        let mut state = self.state();
        if let Some(full) = self.full(&state, peer) {
            state.log(&self.name, full);
            return Err(full);
        }
        let one = Arc::clone(&self.all).try_acquire_owned().map_err(|_| Full::All)?;
        state.taken += 1;
        state.strangers += usize::from(peer.is_stranger());
        *state.each.entry(peer).or_default() += 1;
        drop(state);
        Ok(Place { places: Arc::clone(self), peer, _one: one })
    }

    /// Waits until all places are free.
    pub async fn all_free(&self) {
        let total = u32::try_from(self.capacity.total).unwrap_or(u32::MAX);
        drop(self.all.acquire_many(total).await);
    }

    fn full(&self, state: &Occupied, peer: Peer) -> Option<Full> {
        let Capacity { total, kept, each, strangers, strangers_each } = self.capacity;
        let (all, own) = match peer {
            Peer::Owner => (total, usize::MAX),
            Peer::User(_) => (total.saturating_sub(kept), each),
            Peer::Stranger(_) => (total.saturating_sub(kept), strangers_each),
            // Over a network the client is not authenticated yet, so only the total bounds all of them.
            Peer::Address(_) => (total, each),
        };
        if state.taken >= all {
            return Some(Full::All);
        }
        if peer.is_stranger() && state.strangers >= strangers {
            return Some(Full::Strangers);
        }
        let taken = state.each.get(&peer).copied().unwrap_or_default();
        (taken >= own).then_some(Full::Of(peer))
    }

    fn state(&self) -> MutexGuard<'_, Occupied> {
        self.state.lock().unwrap_or_else(crate::broken)
    }
}

impl Occupied {
    fn log(&mut self, name: &str, full: Full) {
        self.refused += 1;
        let now = Instant::now();
        if self.logged.is_some_and(|logged| now.duration_since(logged) < LOG_PAUSE) {
            return;
        }
        self.logged = Some(now);
        let refused = std::mem::take(&mut self.refused);
        tracing::warn!(socket = name, refused, "refused connections: {full}");
    }
}

impl Place {
    /// The peer that has the place.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.state();
        state.taken -= 1;
        state.strangers -= usize::from(self.peer.is_stranger());
        if let Some(count) = state.each.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                state.each.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Capacity, Full, Peer, Places};
    use std::net::IpAddr;

    const CAPACITY: Capacity =
        Capacity { total: 10, kept: 2, each: 4, strangers: 3, strangers_each: 2 };

    fn address(text: &str) -> Peer {
        Peer::of_address(text.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn nobody_shuts_out_root_and_the_owner() {
        let places = Places::new("test", CAPACITY);
        let take = |peer| places.take(peer);
        let mut taken = Vec::new();
        for (peer, full) in [
            (Peer::Stranger(1), Full::Of(Peer::Stranger(1))),
            (Peer::Stranger(2), Full::Strangers),
            (Peer::User(3), Full::Of(Peer::User(3))),
            (Peer::User(4), Full::All),
        ] {
            let refused = loop {
                match take(peer) {
                    Ok(place) => taken.push(place),
                    Err(full) => break full,
                }
            };
            assert_eq!(refused, full);
        }
        assert_eq!(taken.len(), 8);
        let owner = [take(Peer::Owner).unwrap(), take(Peer::Owner).unwrap()];
        assert_eq!(take(Peer::Owner).unwrap_err(), Full::All);
        drop(owner);
        taken.clear();
        let state = places.state();
        assert_eq!((state.taken, state.strangers, state.each.len()), (0, 0, 0));
        drop(state);
        // Only root may take all.
        assert_eq!((0..11).filter_map(|_| take(Peer::Owner).ok()).collect::<Vec<_>>().len(), 10);
    }

    #[test]
    fn an_address_has_a_bound_whatever_it_calls_itself() {
        let places = Places::new("test", CAPACITY);
        let own = ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"];
        let taken: Vec<_> = own.iter().map(|own| places.take(address(own)).unwrap()).collect();
        assert!(places.take(address("127.9.9.9")).is_err());
        let near = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:0:ffff::"];
        let near: Vec<_> = near.iter().map(|near| places.take(address(near)).unwrap()).collect();
        let full = places.take(address("2001:db8::5")).unwrap_err();
        assert_eq!(full.to_string(), "too many connections from 2001:db8::");
        let far = places.take(address("2001:db8:0:1::1")).unwrap();
        assert_eq!(places.take(address("10.0.0.1")).map(|_| ()), Ok(()));
        drop((taken, near, far));
    }
}
