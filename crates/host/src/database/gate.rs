//! The gate before the head, for threads that find the head taken.
//!
//! Promises that at most one thread of each user or address waits for the head itself, however many connections it
//! has. The others of that user or address wait here. So a client waits for about one turn of each other user
//! or address that waits, and not for one turn of each of their connections. A client that finds the head free does not
//! come here.

use super::lock;
use crate::places::Peer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The users and addresses that wait. Each has a lock, which is held while one of its threads waits for the head.
#[derive(Default)]
pub(super) struct Gate(Mutex<BTreeMap<Peer, Arc<Mutex<()>>>>);

impl Gate {
    /// Waits for the other threads of `peer` that came before, and then calls `enter`, which waits for the head.
    pub(super) fn pass<T>(&self, peer: Peer, enter: impl FnOnce() -> T) -> T {
        let own = lock(&self.0).entry(peer).or_default().clone();
        let turn = lock(&own);
        let entered = enter();
        drop(turn);
        let mut all = lock(&self.0);
        // Threads get a pointer only while they hold the lock of the map, so if there are two pointers, no thread waits.
        if Arc::strong_count(&own) == 2 {
            all.remove(&peer);
        }
        entered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    /// D4: while one thread of a user waits for the head, its other threads do not, and another user does not wait for
    /// them.
    #[test]
    fn one_thread_of_each_user_passes_at_a_time_d4() {
        let (gate, inside) = (Gate::default(), AtomicUsize::new(0));
        let (begun, is_inside) = channel();
        let (leave, may_leave) = channel::<()>();
        let may_leave = Mutex::new(may_leave);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let begun = begun.clone();
                let (gate, inside, may_leave) = (&gate, &inside, &may_leave);
                scope.spawn(move || {
                    gate.pass(Peer::User(1), || {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                        begun.send(()).unwrap();
                        may_leave.lock().unwrap().recv().unwrap();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    });
                });
            }
            for _ in 0..8 {
                is_inside.recv().unwrap();
                // The test would not end if this waited for the others.
                gate.pass(Peer::User(2), || ());
                leave.send(()).unwrap();
            }
        });
        assert!(lock(&gate.0).is_empty(), "nobody waits");
    }
}
