//! The room for what clients send before it can be passed on, one account for all connections (D1).
//!
//! A client has a quarter of it at most, so that one that fills its part leaves the rest to others. A request that was
//! admitted is never refused for want of room: what it has counts, and is bounded by the connections to servers.

use crate::serve::waiters::Client;
use paceline_host::{Peer, broken};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// What all requests of HTTP/2 may keep of bodies and trailers: full windows of 4,096 streams.
const EARLY_BYTES_MAX: usize = 256 << 20;

/// The part that one client may have: one of so many.
const PARTS_OF_ONE: usize = 4;

/// So many clients are known before those are forgotten that have no connection any more.
const SHARES_MIN: usize = 1_024;

/// Of the whole process: its memory is one.
static ROOM: Room = Room::new(EARLY_BYTES_MAX);

/// What clients have of it, of those that have a connection.
static SHARES: Mutex<BTreeMap<Option<Peer>, Weak<Share>>> = Mutex::new(BTreeMap::new());

/// What one client has of the room, over all its connections.
#[derive(Debug, Default)]
pub(super) struct Share(AtomicUsize);

impl Share {
    /// That of a client; none of a trusted proxy, which stands for many.
    pub fn of(client: Client) -> Option<Arc<Self>> {
        let peer = match client {
            Client::Address(address) => Some(Peer::of_address(address)),
            Client::Unnamed => None,
            Client::Trusted => return None,
        };
        let mut shares = SHARES.lock().unwrap_or_else(broken);
        if let Some(share) = shares.get(&peer).and_then(Weak::upgrade) {
            return Some(share);
        }
        if shares.len() >= SHARES_MIN.max(2 * shares.values().filter(|one| is_used(one)).count()) {
            shares.retain(|_, share| is_used(share));
        }
        let share = Arc::new(Self::default());
        shares.insert(peer, Arc::downgrade(&share));
        Some(share)
    }
}

fn is_used(share: &Weak<Share>) -> bool {
    share.strong_count() > 0
}

/// So many bytes, and how many of them are in use.
#[derive(Debug)]
pub(super) struct Room {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Room {
    pub const fn new(bytes_max: usize) -> Self {
        Self { used: AtomicUsize::new(0), bytes_max }
    }

    /// That of the process.
    pub const fn of_process() -> &'static Self {
        &ROOM
    }

    /// A part of it for a client of this share, nothing yet.
    pub const fn part<'a>(&'static self, share: Option<&'a Share>) -> Part<'a> {
        Part { room: self, share, is_admitted: false, bytes: 0 }
    }
}

/// What one request has of the room. It is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Part<'a> {
    room: &'static Room,
    share: Option<&'a Share>,
    is_admitted: bool,
    bytes: usize,
}

impl Part<'_> {
    /// It has what it needs from now on.
    pub const fn admit(&mut self) {
        self.is_admitted = true;
    }

    /// Has so many bytes from now on; tells whether there is room for them. If not, it has what it had.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        let own = self.share.map(|share| (&share.0, self.room.bytes_max / PARTS_OF_ONE));
        let accounts = [own, Some((&self.room.used, self.room.bytes_max))];
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.give_back(self.bytes - bytes);
            self.bytes = bytes;
            return true;
        };
        let mut has_room = true;
        for (used, max) in accounts.into_iter().flatten() {
            has_room &= used.fetch_add(more, Ordering::Relaxed) + more <= max;
        }
        if !has_room && !self.is_admitted {
            self.give_back(more);
            return false;
        }
        self.bytes = bytes;
        true
    }

    fn give_back(&self, bytes: usize) {
        let own = self.share.map(|share| &share.0);
        for used in [own, Some(&self.room.used)].into_iter().flatten() {
            used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        // Most requests have nothing, and the account is every worker's.
        if self.bytes > 0 {
            self.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Room, Share};
    use crate::serve::waiters::Client;
    use std::sync::Arc;

    #[test]
    fn the_room_is_for_all_and_is_given_back_d1() {
        static ROOM: Room = Room::new(100);
        let (mut one, mut other) = (ROOM.part(None), ROOM.part(None));
        assert!(one.resize(60) && other.resize(40));
        assert!(!one.resize(61) && !other.resize(41), "there is no more");
        assert!(one.resize(50) && other.resize(50), "less makes room for another");
        drop(one);
        assert!(other.resize(100));
        drop(other);
        assert!(ROOM.part(None).resize(100), "all of it is given back");
    }

    #[test]
    fn one_client_leaves_room_for_others_d1() {
        static ROOM: Room = Room::new(100);
        let (greedy, other) = (Share::default(), Share::default());
        let (mut one, mut two) = (ROOM.part(Some(&greedy)), ROOM.part(Some(&greedy)));
        assert!(one.resize(20) && !two.resize(6) && two.resize(5));
        assert!(ROOM.part(Some(&other)).resize(25));
        // What was admitted goes on whatever the others have.
        two.admit();
        assert!(two.resize(90));
        assert!(!ROOM.part(Some(&other)).resize(1), "it counts");
        drop((one, two));
        assert!(ROOM.part(Some(&greedy)).resize(25));
    }

    #[test]
    fn connections_of_one_client_share() {
        let address = |text: &str| Client::Address(text.parse().unwrap());
        let share = Share::of(address("192.0.2.1")).unwrap();
        assert!(Arc::ptr_eq(&share, &Share::of(address("192.0.2.1")).unwrap()));
        assert!(!Arc::ptr_eq(&share, &Share::of(address("192.0.2.2")).unwrap()));
        assert!(Share::of(Client::Trusted).is_none());
    }
}
