//! The room for what clients send before it can be passed on, one account for all connections (D1).

use std::sync::atomic::{AtomicUsize, Ordering};

/// What all requests of HTTP/2 may keep of bodies and trailers: full windows of 4,096 streams.
const EARLY_BYTES_MAX: usize = 256 << 20;

/// Of the whole process: its memory is one.
static ROOM: Room = Room::new(EARLY_BYTES_MAX);

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

    /// A part of it, nothing yet.
    pub const fn part(&'static self) -> Part {
        Part { room: self, bytes: 0 }
    }
}

/// What one request has of the room. It is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Part {
    room: &'static Room,
    bytes: usize,
}

impl Part {
    /// Has so many bytes from now on; tells whether there is room for them. If not, it has what it had.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        let used = &self.room.used;
        if let Some(more) = bytes.checked_sub(self.bytes) {
            let before = used.fetch_add(more, Ordering::Relaxed);
            if before + more > self.room.bytes_max {
                used.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Most requests have nothing, and the account is every worker's.
        if self.bytes > 0 {
            self.room.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn the_room_is_for_all_and_is_given_back_d1() {
        static ROOM: Room = Room::new(100);
        let (mut one, mut other) = (ROOM.part(), ROOM.part());
        assert!(one.resize(60) && other.resize(40));
        assert!(!one.resize(61) && !other.resize(41), "there is no more");
        assert!(one.resize(50) && other.resize(50), "less makes room for another");
        drop(one);
        assert!(other.resize(100));
        drop(other);
        assert!(ROOM.part().resize(100), "all of it is given back");
    }
}
