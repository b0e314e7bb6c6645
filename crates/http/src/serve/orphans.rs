//! Counts orphans, in all workers together.
//!
//! Each orphan holds a connection to a server, but no client connection. If limits have many keys, or are high, a
//! client that sends requests and disconnects could use up all connections to servers. So orphans may hold at most a
//! quarter of these, and at most `ORPHANS_MAX`. The oldest orphan, whose server has had the most time to notice,
//! makes room for the next one, and for a request that finds no descriptor (D1).

use crate::serve::descriptors::Wanted;
use paceline_host::broken;
use paceline_types::BackendId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Maximum orphans at a time.
const ORPHANS_MAX: usize = 8192;

/// Orphans may hold the maximum of connections to servers divided by this.
const PARTS: usize = 4;

/// All orphans.
#[derive(Debug)]
pub(crate) struct Orphans {
    max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the last orphan.
    last: u64,
    /// Orphans that were not asked to end.
    count: usize,
    /// How many have to end and have not yet, in all and at each backend.
    ending: usize,
    ending_at: BTreeMap<BackendId, usize>,
    /// How each is asked to make room, the oldest of each backend first.
    by_backend: BTreeMap<BackendId, BTreeMap<u64, Arc<Notify>>>,
}

impl Kept {
    /// The oldest orphan of the backends that must give up descriptors.
    fn oldest(&self, gives: impl Fn(BackendId) -> bool) -> Option<(BackendId, u64)> {
        let first = |(backend, by_age): (&BackendId, &BTreeMap<u64, _>)| {
            let (number, _) = by_age.first_key_value()?;
            gives(*backend).then_some((*backend, *number))
        };
        self.by_backend.iter().filter_map(first).min_by_key(|(_, number)| *number)
    }

    fn ending_at(&self, backend: BackendId) -> usize {
        self.ending_at.get(&backend).copied().unwrap_or(0)
    }

    /// One has to end.
    fn end(&mut self, backend: BackendId, number: u64) -> Option<Arc<Notify>> {
        let told = self.remove(backend, number)?;
        self.ending += 1;
        *self.ending_at.entry(backend).or_default() += 1;
        Some(told)
    }

    /// One that had to end has ended.
    fn has_ended(&mut self, backend: BackendId) {
        self.ending -= 1;
        if let Some(ending) = self.ending_at.get_mut(&backend) {
            *ending -= 1;
            if *ending == 0 {
                self.ending_at.remove(&backend);
            }
        }
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
    /// No orphans yet. `connections_max` is the maximum of connections to servers.
    pub fn new(connections_max: usize) -> Self {
        let max = (connections_max / PARTS).clamp(1, ORPHANS_MAX);
        Self { max, kept: Mutex::default() }
    }

    /// Counts one more orphan, at a server of this backend. If there are too many, the oldest one ends.
    pub fn enter(self: &Arc<Self>, backend: BackendId) -> Entry {
        let told = Arc::<Notify>::default();
        let mut kept = self.kept();
        kept.last += 1;
        kept.count += 1;
        let number = kept.last;
        kept.by_backend.entry(backend).or_default().insert(number, Arc::clone(&told));
        // However many are ending already: each one more has to.
        let max = self.max;
        Self::displace_in(kept, |kept, _| kept.count > max);
        Entry { all: Arc::clone(self), backend, number, told }
    }

    /// Ends the oldest orphans of the backends that have to give, until as many are ending as requests want that, or none is
    /// left.
    pub fn displace(&self, wanted: impl Fn(BackendId) -> Wanted) {
        Self::displace_in(self.kept(), |kept, backend| match wanted(backend) {
            Wanted::ByAll(wanted) => kept.ending < wanted,
            Wanted::ByOwn(wanted) => kept.ending_at(backend) < wanted,
        });
    }

    fn displace_in(mut kept: MutexGuard<'_, Kept>, gives: impl Fn(&Kept, BackendId) -> bool) {
        let mut told = vec![];
        while let Some((backend, number)) = kept.oldest(|backend| gives(&kept, backend)) {
            told.extend(kept.end(backend, number));
        }
        drop(kept);
        told.iter().for_each(|told| told.notify_one());
    }

    /// Whether every orphan was already asked to end.
    pub fn is_empty(&self) -> bool {
        self.kept().count == 0
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(broken)
    }
}

/// Counts an orphan until it is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    all: Arc<Orphans>,
    backend: BackendId,
    number: u64,
    told: Arc<Notify>,
}

impl Entry {
    /// Returns when the orphan must make room.
    pub async fn displaced(&self) {
        self.told.notified().await;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut kept = self.all.kept();
        if kept.remove(self.backend, self.number).is_none() {
            kept.has_ended(self.backend);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, ORPHANS_MAX, Orphans, PARTS, Wanted};
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
        // The absolute maximum, and a quarter of the connections.
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

    /// Notified orphans end a little later. For each one that arrives until then, another one is notified.
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
        let by_all = |wanted| move |_| Wanted::ByAll(wanted);
        let by = |of, wanted| move |backend| Wanted::ByAll(if backend == of { wanted } else { 0 });
        orphans.displace(by(B, 1));
        assert!(is_displaced(&second) && !is_displaced(&first) && !is_displaced(&third));
        orphans.displace(by_all(1));
        assert!(!is_displaced(&first), "the second is about to make room");
        orphans.displace(by_all(2));
        assert!(is_displaced(&first) && !is_displaced(&third));
        orphans.displace(by(A, 9));
        assert!(!is_displaced(&third), "there is none left");
        drop((first, second));
        let kept = orphans.kept();
        assert_eq!((kept.count, kept.ending), (1, 0));
    }

    /// A backend that gives to its own requests alone ends as many as these are, whatever ends elsewhere.
    #[test]
    fn the_oldest_make_room_for_requests_of_their_own_backend_d1() {
        let orphans = Arc::new(Orphans::new(100));
        let [other, first, second, third] = [A, B, B, B].map(|backend| orphans.enter(backend));
        orphans.displace(|backend| Wanted::ByAll(if backend == A { 9 } else { 0 }));
        assert!(is_displaced(&other));
        let own = |wanted| move |backend| Wanted::ByOwn(if backend == B { wanted } else { 0 });
        (0..3).for_each(|_| orphans.displace(own(1)));
        assert!(is_displaced(&first) && !is_displaced(&second), "one for one request");
        orphans.displace(own(2));
        assert!(is_displaced(&second) && !is_displaced(&third));
        drop((other, first, second));
        let kept = orphans.kept();
        assert_eq!((kept.count, kept.ending, kept.ending_at.len()), (1, 0, 0));
    }
}
