//! How many orphans there are, in all workers together.
//!
//! Each has a socket, and no client pays for it with one of its own: where limits have many keys, or are high, whoever
//! asks and disconnects could have as many as the system has descriptors. So there are `ORPHANS_MAX` at most; the
//! oldest one, whose server has had the longest to find out, makes room for the next.

use paceline_host::broken;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Orphans at a time.
const ORPHANS_MAX: usize = 8192;

/// All orphans there are.
#[derive(Debug, Default)]
pub(crate) struct Orphans(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The number of the last one.
    last: u64,
    /// How each is told to make room, the oldest first.
    by_age: BTreeMap<u64, Arc<Notify>>,
}

impl Orphans {
    /// Counts one more; if these are too many, the oldest is told.
    pub fn enter(self: &Arc<Self>) -> Entry {
        let told = Arc::<Notify>::default();
        let mut kept = self.kept();
        kept.last += 1;
        let number = kept.last;
        kept.by_age.insert(number, Arc::clone(&told));
        let is_too_much = kept.by_age.len() > ORPHANS_MAX;
        let oldest = if is_too_much { kept.by_age.pop_first() } else { None };
        drop(kept);
        oldest.inspect(|(_, oldest)| oldest.notify_one());
        Entry { all: Arc::clone(self), number, told }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(broken)
    }
}

/// That an orphan is counted; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    all: Arc<Orphans>,
    number: u64,
    told: Arc<Notify>,
}

impl Entry {
    /// Returns when it has to make room.
    pub async fn displaced(&self) {
        self.told.notified().await;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.all.kept().by_age.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, ORPHANS_MAX, Orphans};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    fn is_displaced(entry: &Entry) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(entry.displaced()).poll(&mut cx).is_ready()
    }

    #[test]
    fn the_oldest_makes_room_for_one_too_many_d1() {
        let orphans = Arc::<Orphans>::default();
        let mut entries: Vec<_> = (0..ORPHANS_MAX).map(|_| orphans.enter()).collect();
        drop(entries.remove(0));
        entries.push(orphans.enter());
        assert!(!is_displaced(&entries[0]), "there was room");
        let _last = orphans.enter();
        assert!(is_displaced(&entries[0]));
        assert!(!is_displaced(&entries[1]));
        drop(entries);
        assert_eq!(orphans.kept().by_age.len(), 1, "those that have ended do not count");
    }
}
