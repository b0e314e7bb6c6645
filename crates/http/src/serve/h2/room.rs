//! The memory for what clients send before it can be forwarded, one account for all connections (D1).
//!
//! One client gets at most a quarter, so a client that fills its part leaves the rest to others. Once a request has a
//! connection to a server, it no longer counts here: the window of its stream bounds what it keeps, and the number of
//! server connections bounds all such requests together. So it is never refused from then on, and takes no room from
//! others.

use crate::serve::clients::Account;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of bodies and trailers that all HTTP/2 requests may keep: full windows of 4,096 streams.
const EARLY_BYTES_MAX: usize = 256 << 20;

/// One client may use the room divided by this.
const PARTS_OF_ONE: usize = 4;

/// One for the whole process, because its memory is shared.
static ROOM: Room = Room::new(EARLY_BYTES_MAX);

/// A number of bytes, and how many of them are in use.
#[derive(Debug)]
pub(super) struct Room {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Room {
    pub const fn new(bytes_max: usize) -> Self {
        Self { used: AtomicUsize::new(0), bytes_max }
    }

    /// The room of the process.
    pub const fn of_process() -> &'static Self {
        &ROOM
    }

    /// An empty part of the room, for a client of this account.
    pub const fn part<'a>(&'static self, account: &'a Account) -> Part<'a> {
        Part { room: self, account, has_left: false, bytes: 0 }
    }
}

/// The part of the room that one request uses. It is returned on drop.
#[derive(Debug)]
pub(super) struct Part<'a> {
    room: &'static Room,
    account: &'a Account,
    has_left: bool,
    bytes: usize,
}

impl Part<'_> {
    /// Returns the whole part. From now on nothing counts here.
    pub fn leave(&mut self) {
        self.has_left = true;
        let bytes = std::mem::take(&mut self.bytes);
        self.give_back(bytes);
    }

    /// Changes the size of the part. Returns whether there is room; if not, the part keeps its size.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        if self.has_left {
            return true;
        }
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.give_back(self.bytes - bytes);
            self.bytes = bytes;
            return true;
        };
        let max = self.room.bytes_max;
        let own = self.account.early_bytes.fetch_add(more, Ordering::Relaxed) + more;
        let all = self.room.used.fetch_add(more, Ordering::Relaxed) + more;
        if all > max || (own > max / PARTS_OF_ONE && !self.account.is_of_many) {
            self.give_back(more);
            return false;
        }
        self.bytes = bytes;
        true
    }

    fn give_back(&self, bytes: usize) {
        // Most requests use nothing, and all workers share the account.
        if bytes > 0 {
            self.account.early_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.room.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Room;
    use crate::serve::clients::{Account, Client, Clients};
    use std::sync::Arc;

    fn many() -> Arc<Account> {
        Clients::default().account(Client::Trusted)
    }

    #[test]
    fn the_room_is_for_all_and_is_given_back_d1() {
        static ROOM: Room = Room::new(100);
        let proxy = many();
        let (mut one, mut other) = (ROOM.part(&proxy), ROOM.part(&proxy));
        assert!(one.resize(60) && other.resize(40));
        assert!(!one.resize(61) && !other.resize(41), "there is no more");
        assert!(one.resize(50) && other.resize(50), "less makes room for another");
        drop(one);
        assert!(other.resize(100));
        drop(other);
        assert!(ROOM.part(&proxy).resize(100), "all of it is given back");
    }

    #[test]
    fn one_client_leaves_room_for_others_d1() {
        static ROOM: Room = Room::new(100);
        let (greedy, other) = (Account::default(), Account::default());
        let (mut one, mut two) = (ROOM.part(&greedy), ROOM.part(&greedy));
        assert!(one.resize(20) && !two.resize(6) && two.resize(5));
        assert!(ROOM.part(&other).resize(25));
        assert!(!ROOM.part(&other).resize(26), "nor has another more than its part");
        drop((one, two));
        assert!(ROOM.part(&greedy).resize(25));
    }

    /// A request with a connection to a server continues whatever the others use, and takes no room from them.
    #[test]
    fn what_can_be_passed_on_takes_no_room_from_others_d1() {
        static ROOM: Room = Room::new(100);
        let (greedy, other) = (Account::default(), Account::default());
        let mut runs = ROOM.part(&greedy);
        assert!(runs.resize(25) && !ROOM.part(&greedy).resize(1));
        runs.leave();
        assert!(runs.resize(90));
        assert!(ROOM.part(&other).resize(25) && ROOM.part(&greedy).resize(25));
        drop(runs);
        assert!(ROOM.part(&many()).resize(100));
    }
}
