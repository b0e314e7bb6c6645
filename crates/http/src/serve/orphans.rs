//! How many orphans there are, in all workers together.
//!
//! Each orphan has a connection to a server, and no client has a connection of its own for it. Where limits have many keys, or
//! are high, a client that sends requests and disconnects could use up all connections to servers. So orphans have at most
//! a quarter of these, and at most `ORPHANS_MAX`. The oldest orphan, whose server has had the most time to notice, makes
//! room for the next one, and for a request that finds no descriptor (D1).

use paceline_host::broken;
use paceline_types::BackendId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Orphans at a time.
const ORPHANS_MAX: usize = 8192;

/// The part of all connections to servers that orphans may have: one of so many.
const PARTS: usize = 4;

/// All orphans there are.
#[derive(Debug)]
pub(crate) struct Orphans {
    max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the last one.
    last: u64,
    /// How many there are that do not have to end.
    count: usize,
    /// How many have to end and have not yet.
    ending: usize,
    /// How each is asked to make room, the oldest of each backend first.
    by_backend: BTreeMap<BackendId, BTreeMap<u64, Arc<Notify>>>,
}

impl Kept {
    /// The oldest one of those backends that have to give.
    fn oldest(&self, gives: impl Fn(BackendId) -> bool) -> Option<(BackendId, u64)> {
        let first = |(backend, by_age): (&BackendId, &BTreeMap<u64, _>)| {
            let (number, _) = by_age.first_key_value()?;
            gives(*backend).then_some((*backend, *number))
        };
        self.by_backend.iter().filter_map(first).min_by_key(|(_, number)| *number)
    }

    fn remove(&mut self, backend: BackendId, number: u64) -> Option<Arc<Notify>> {
        let by_age = self.by_backend.get_mut(&backend)?;
        let told = by_age.remove(&number)?;
        if by_age.is_empty() {
            self.by_backend.remove(&backend);
        }
        self.count -= 1;
        Some(told)
    }
}

impl Orphans {
    /// None yet, where there may be so many connections to servers.
    pub fn new(connections_max: usize) -> Self {
        let max = (connections_max / PARTS).clamp(1, ORPHANS_MAX);
        Self { max, kept: Mutex::default() }
    }

    /// Counts one more, at a server of this backend. If there are too many, the oldest one ends.
    pub fn enter(self: &Arc<Self>, backend: BackendId) -> Entry {
        let told = Arc::<Notify>::default();
        let mut kept = self.kept();
        kept.last += 1;
        kept.count += 1;
        let number = kept.last;
        kept.by_backend.entry(backend).or_default().insert(number, Arc::clone(&told));
        // However many are ending already: each one more has to.
        let wanted = kept.ending + kept.count.saturating_sub(self.max);
        Self::displace_in(kept, wanted, |_| true);
        Entry { all: Arc::clone(self), backend, number, told }
    }

    /// Ends the oldest orphans of the backends that have to give, until so many are ending or none is left.
    pub fn displace(&self, wanted: usize, gives: impl Fn(BackendId) -> bool) {
        Self::displace_in(self.kept(), wanted, gives);
    }

    fn displace_in(
        mut kept: MutexGuard<'_, Kept>,
        wanted: usize,
        gives: impl Fn(BackendId) -> bool,
    ) {
        let mut told = vec![];
        while kept.ending < wanted
            && let Some((backend, number)) = kept.oldest(&gives)
        {
            told.extend(kept.remove(backend, number));
            kept.ending += 1;
        }
        drop(kept);
        told.iter().for_each(|told| told.notify_one());
    }

    /// Whether there is any that does not have to end.
    pub fn is_empty(&self) -> bool {
        self.kept().count == 0
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(broken)
    }
}

/// That an orphan is counted; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    all: Arc<Orphans>,
    backend: BackendId,
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
        let mut kept = self.all.kept();
        if kept.remove(self.backend, self.number).is_none() {
            kept.ending -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, ORPHANS_MAX, Orphans, PARTS};
    use paceline_types::BackendId;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    const A: BackendId = BackendId(1);
    const B: BackendId = BackendId(2);

    fn is_displaced(entry: &Entry) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(entry.displaced()).poll(&mut cx).is_ready()
    }

    #[test]
    fn the_oldest_makes_room_for_one_too_many_d1() {
        // As many as there may ever be, and a quarter of the connections that there may be.
        for (connections, max) in [(usize::MAX, ORPHANS_MAX), (170, 42), (1, 1)] {
            let orphans = Arc::new(Orphans::new(connections));
            let mut entries: Vec<_> = (0..max).map(|_| orphans.enter(A)).collect();
            drop(entries.remove(0));
            entries.push(orphans.enter(B));
            assert!(!is_displaced(&entries[0]), "there was room");
            let _last = orphans.enter(B);
            assert!(is_displaced(&entries[0]));
            assert!(entries.iter().skip(1).all(|entry| !is_displaced(entry)));
            drop(entries);
            assert_eq!(orphans.kept().count, 1, "those that have ended do not count");
            assert_eq!(orphans.kept().ending, 0);
        }
    }

    /// Those that are told end a little later. As many more that come until then are told as well.
    #[test]
    fn each_one_too_many_makes_room_d1() {
        const MAX: usize = 10;
        let orphans = Arc::new(Orphans::new(MAX * PARTS));
        let entries: Vec<_> = (0..5 * MAX).map(|_| orphans.enter(A)).collect();
        let told = entries.iter().filter(|entry| is_displaced(entry)).count();
        assert_eq!(told, 4 * MAX);
        assert!(!entries[4 * MAX..].iter().any(is_displaced), "the oldest are");
        drop(entries);
        let kept = orphans.kept();
        assert_eq!((kept.count, kept.ending), (0, 0));
    }

    #[test]
    fn the_oldest_of_a_backend_that_has_to_give_makes_room_d1() {
        let orphans = Arc::new(Orphans::new(100));
        let [first, second, third] = [A, B, B].map(|backend| orphans.enter(backend));
        orphans.displace(1, |backend| backend == B);
        assert!(is_displaced(&second) && !is_displaced(&first) && !is_displaced(&third));
        orphans.displace(1, |_| true);
        assert!(!is_displaced(&first), "the second is about to make room");
        orphans.displace(2, |_| true);
        assert!(is_displaced(&first) && !is_displaced(&third));
        orphans.displace(9, |backend| backend == A);
        assert!(!is_displaced(&third), "there is none left");
        drop((first, second));
        let kept = orphans.kept();
        assert_eq!((kept.count, kept.ending), (1, 0));
    }
}
