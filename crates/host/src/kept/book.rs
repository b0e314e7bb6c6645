//! The book: which rows must be written again, and in which order.
//!
//! Owns the keys of rows that are out of date. It holds no rows: the writer reads what the engine, the
//! locks and the keeper hold at the moment of writing. A key is noted under the lock of the part that made
//! the decision, so the order of keys is the order of decisions: a release is written with or before the
//! grants that it makes possible. At most one batch is being written. The keys of a batch that fails return
//! to their places, and the next attempt follows after [`RETRY`]; until then waiters fail at once. Each key
//! is in the book at most once, so the book is bounded by what is held and what was held when writing last
//! succeeded.
//!
//! Its mutex is the last in the lock order, and the book calls no other part.

use paceline_tables::Error;
use paceline_types::{RequestId, Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The shortest time between a write that failed and the next one.
pub(crate) const RETRY: Span = Span(100_000_000);

/// Most keys of one batch, so that the head is not locked for long.
const BATCH_MAX: usize = 1_024;

/// What a row stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A session, by its name.
    Session(Arc<str>),
    /// A lock, by its name.
    Lock(Arc<str>),
    /// A permit, by the number of its request.
    Permit(RequestId),
}

/// Why something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something new is held: it has no row yet.
    Granted,
    /// Something that is held changed, or may have.
    Changed,
    /// A client asked for it. This is written even while the daemon shuts down.
    Asked,
    /// It ended with a connection, a lease or the daemon. Rows of things that end with the daemon stay on disk
    /// for the next run.
    Ended,
}

/// Waits until every key that was in the book at the time is written.
type Waiter = oneshot::Sender<Result<(), Error>>;

/// How a waiter learns whether something is written.
pub(crate) enum Wait {
    /// It is known already.
    Known(Result<(), Error>),
    /// The outcome arrives here.
    Told(oneshot::Receiver<Result<(), Error>>),
}

/// Waiters and their outcomes, to be delivered after the book's mutex is released.
pub(crate) type Told = Vec<(Waiter, Result<(), Error>)>;

/// The book.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// The place of the next key.
    next: u64,
    changed: BTreeMap<u64, Key>,
    places: BTreeMap<Key, Place>,
    under_way: Option<Batch>,
    waiters: VecDeque<(u64, Waiter)>,
    failed: Option<Failed>,
    /// Whether the row of something that ends is deleted; otherwise it stays for the next run.
    is_open: bool,
    /// Keys whose rows stay for the next run.
    left: BTreeSet<Key>,
}

/// Where a key stands in the book.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    /// Whether it stands for something new that was in no batch yet and so has no row.
    is_fresh: bool,
}

#[derive(Debug)]
struct Batch {
    keys: Vec<(u64, Key)>,
    /// When the batch is written, every key before this place is written.
    before: u64,
}

#[derive(Debug)]
struct Failed {
    error: Error,
    retry_at: Time,
}

impl Book {
    /// Notes that the row of this key is out of date.
    pub fn note(&mut self, key: Key, cause: Cause) {
        if cause == Cause::Ended && !self.is_open {
            // Its row stays as it is, even if it was about to be rewritten.
            self.strike(&key);
            self.left.insert(key);
            return;
        }
        match self.places.get(&key) {
            // It was granted and released before anything was written.
            Some(Place { is_fresh: true, .. }) if matches!(cause, Cause::Asked | Cause::Ended) => {
                self.strike(&key);
            }
            // A key that is in the book keeps its place: writing it earlier is never wrong.
            Some(_) => {}
            None => {
                let place = Place { at: self.next, is_fresh: cause == Cause::Granted };
                self.places.insert(key.clone(), place);
                self.changed.insert(self.next, key);
                self.next += 1;
            }
        }
    }

    fn strike(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.changed.remove(&place.at);
        }
    }

    pub fn set_open(&mut self, is_open: bool) -> bool {
        std::mem::replace(&mut self.is_open, is_open)
    }

    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether there is a batch to take. After a failure it may not be due yet.
    pub fn has_batch(&self) -> bool {
        self.under_way.is_none() && !self.changed.is_empty()
    }

    /// Takes the next batch. The caller must call [`Book::finish`] afterwards.
    pub fn take(&mut self, now: Time) -> Option<Vec<Key>> {
        let is_due = self.failed.as_ref().is_none_or(|failed| failed.retry_at <= now);
        if !self.has_batch() || !is_due {
            return None;
        }
        let keys: Vec<(u64, Key)> =
            std::iter::from_fn(|| self.changed.pop_first()).take(BATCH_MAX).collect();
        for (_, key) in &keys {
            self.places.remove(key);
        }
        let before = self.changed.first_key_value().map_or(self.next, |(place, _)| *place);
        let taken = keys.iter().map(|(_, key)| key.clone()).collect();
        self.under_way = Some(Batch { keys, before });
        Some(taken)
    }

    /// Ends the batch. Also returns whether the outcome differs from the last one, so that the log gets one
    /// line per change.
    pub fn finish(&mut self, now: Time, outcome: &Result<(), Error>) -> (Told, bool) {
        let Some(batch) = self.under_way.take() else { return (vec![], false) };
        let had_failed = self.failed.is_some();
        match outcome {
            Ok(()) => {
                self.failed = None;
                let count = self.waiters.partition_point(|(place, _)| *place <= batch.before);
                let told = self.waiters.drain(..count).map(|(_, waiter)| (waiter, Ok(())));
                let mut told: Told = told.collect();
                told.extend(self.settle());
                (told, had_failed)
            }
            Err(error) => {
                for (at, key) in batch.keys {
                    if self.left.contains(&key) {
                        continue;
                    }
                    let place = Place { at, is_fresh: false };
                    if let Some(later) = self.places.insert(key.clone(), place) {
                        self.changed.remove(&later.at);
                    }
                    self.changed.insert(at, key);
                }
                self.failed = Some(Failed { error: error.clone(), retry_at: now.plus(RETRY) });
                let told = self.waiters.drain(..).map(|(_, waiter)| (waiter, Err(error.clone())));
                (told.collect(), !had_failed)
            }
        }
    }

    /// Returns the outcome for everything in the book now, if it is known, and the place behind it.
    pub fn known(&self, now: Time) -> (Option<Result<(), Error>>, u64) {
        (self.outcome(now, self.next), self.next)
    }

    /// Returns the outcome for everything before a place, or a receiver for it.
    pub fn wait(&mut self, now: Time, before: u64) -> Wait {
        if let Some(known) = self.outcome(now, before) {
            return Wait::Known(known);
        }
        let (sender, receiver) = oneshot::channel();
        self.waiters.push_back((self.next, sender));
        Wait::Told(receiver)
    }

    /// Returns the outcome for everything before a place, if it is known.
    pub fn outcome(&self, now: Time, before: u64) -> Option<Result<(), Error>> {
        let is_before = |place: Option<&u64>| place.is_some_and(|place| *place < before);
        let under_way = self.under_way.as_ref();
        let writes = under_way.and_then(|batch| batch.keys.first()).map(|(place, _)| place);
        if !is_before(self.changed.keys().next()) && !is_before(writes) {
            return Some(Ok(()));
        }
        let failed = self.failed.as_ref().filter(|failed| failed.retry_at > now);
        failed.filter(|_| under_way.is_none()).map(|failed| Err(failed.error.clone()))
    }

    /// The waiters, if no row is out of date: what they waited for was granted and released in the meantime.
    pub fn settle(&mut self) -> Told {
        if self.waiters.is_empty() || !self.is_written() {
            return vec![];
        }
        self.waiters.drain(..).map(|(_, waiter)| (waiter, Ok(()))).collect()
    }

    /// Lets the next [`Book::take`] retry at once.
    pub fn retry_now(&mut self) {
        if let Some(failed) = &mut self.failed {
            failed.retry_at = Time(0);
        }
    }

    /// Whether the last attempt failed.
    pub const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether a batch is being written.
    pub const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// How many rows are to be written.
    pub fn waiting(&self) -> usize {
        self.changed.len()
    }

    /// Whether all rows are up to date.
    pub fn is_written(&self) -> bool {
        self.changed.is_empty() && self.under_way.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_MAX, Book, Cause, Key, RETRY, Wait};
    use paceline_tables::{Error, tag};
    use paceline_types::{RequestId, Time};

    fn permit(number: u64) -> Key {
        Key::Permit(RequestId(number))
    }

    fn full() -> Result<(), Error> {
        Err(Error::new(tag::RESOURCES, "no space left"))
    }

    fn wait(book: &mut Book, now: Time) -> Wait {
        let (known, place) = book.known(now);
        known.map_or_else(|| book.wait(now, place), Wait::Known)
    }

    fn open() -> Book {
        let mut book = Book::default();
        book.set_open(true);
        book
    }

    fn told(wait: Wait) -> tokio::sync::oneshot::Receiver<Result<(), Error>> {
        match wait {
            Wait::Told(receiver) => receiver,
            Wait::Known(known) => panic!("{known:?}"),
        }
    }

    fn known(wait: Wait) -> Result<(), Error> {
        match wait {
            Wait::Known(known) => known,
            Wait::Told(_) => panic!("it is not known"),
        }
    }

    #[test]
    fn what_was_given_back_goes_before_what_was_granted_because_of_it_p3() {
        let mut book = open();
        for number in [1, 2, 1] {
            book.note(permit(number), Cause::Asked);
        }
        assert_eq!(book.take(Time(0)), Some(vec![permit(1), permit(2)]));
        book.note(permit(2), Cause::Ended);
        book.note(permit(3), Cause::Asked);
        assert_eq!(book.take(Time(0)), None, "one batch at a time");
        assert!(book.finish(Time(0), &full()).1, "news");
        assert_eq!(book.take(Time(0)), None, "not at once");
        let later = Time(0).plus(RETRY);
        let all = vec![permit(1), permit(2), permit(3)];
        assert_eq!(book.take(later), Some(all.clone()), "in their old places");
        assert!(!book.finish(later, &full()).1);
        book.retry_now();
        assert_eq!(book.take(later), Some(all));
        assert!(book.finish(later, &Ok(())).1);
        assert!(book.is_written());
    }

    #[test]
    fn a_waiter_is_told_when_all_before_it_is_written() {
        let mut book = open();
        assert_eq!(known(wait(&mut book, Time(0))), Ok(()));
        (0..=BATCH_MAX as u64).for_each(|number| book.note(permit(number), Cause::Asked));
        assert_eq!(book.take(Time(0)).unwrap().len(), BATCH_MAX);
        let mut last = told(wait(&mut book, Time(0)));
        let (heard, _) = book.finish(Time(0), &Ok(()));
        assert_eq!(heard.len(), 0, "the last key is not written yet");
        assert_eq!(book.take(Time(0)).unwrap().len(), 1);
        let mut same = told(wait(&mut book, Time(0)));
        book.note(permit(5), Cause::Asked);
        let mut next = told(wait(&mut book, Time(0)));
        for (sender, outcome) in book.finish(Time(0), &Ok(())).0 {
            sender.send(outcome).unwrap();
        }
        assert_eq!((last.try_recv(), same.try_recv()), (Ok(Ok(())), Ok(Ok(()))));
        assert!(next.try_recv().is_err());
        book.take(Time(0)).unwrap();
        for (sender, outcome) in book.finish(Time(0), &full()).0 {
            sender.send(outcome).unwrap();
        }
        assert!(next.try_recv().unwrap().is_err());
        assert!(known(wait(&mut book, Time(0))).is_err(), "j5: refused at once while it fails");
    }

    /// J5: what is granted and refused while the disk is full leaves nothing in the book.
    #[test]
    fn what_comes_and_goes_before_it_is_written_leaves_nothing() {
        let mut book = open();
        book.note(permit(1), Cause::Asked);
        book.take(Time(0)).unwrap();
        for number in 10..1_000 {
            book.note(permit(number), Cause::Granted);
            book.note(permit(number), Cause::Asked);
        }
        let mut waiter = told(wait(&mut book, Time(0)));
        for (sender, outcome) in book.finish(Time(0), &Ok(())).0 {
            sender.send(outcome).unwrap();
        }
        assert_eq!(waiter.try_recv(), Ok(Ok(())));
        assert!(book.is_written());
        // A key that changed before it was written stays in the book, and a key that is being written may have
        // a row.
        book.note(permit(2), Cause::Granted);
        book.note(permit(2), Cause::Changed);
        assert_eq!(book.take(Time(0)), Some(vec![permit(2)]));
        book.note(permit(2), Cause::Asked);
        book.finish(Time(0), &Ok(()));
        assert_eq!(book.take(Time(0)), Some(vec![permit(2)]));
    }

    /// J5: with 30,000 releases that a full disk refuses, refusing a client costs no more than without them.
    /// One attempt of a batch serves all clients that ask before the next attempt is due.
    #[test]
    fn refusals_on_a_full_disk_do_not_write_what_is_left_over_again_j5() {
        const LEFT: u64 = 30_000;
        const ASKED: u64 = 1_000;
        let mut book = open();
        (0..LEFT).for_each(|number| book.note(permit(number), Cause::Asked));
        let mut tried = 0;
        for number in LEFT..LEFT + ASKED {
            // All requests arrive within one retry: each grant is noted, waited for, and withdrawn.
            let now = Time(RETRY.0 * (number - LEFT) / ASKED);
            book.note(permit(number), Cause::Granted);
            let wait = wait(&mut book, now);
            if let Some(keys) = book.take(now) {
                tried += keys.len();
                book.finish(now, &full());
            }
            assert!(matches!(wait, Wait::Known(Err(_))) || number == LEFT, "it waits for the disk");
            book.note(permit(number), Cause::Asked);
        }
        assert!(tried <= BATCH_MAX, "{tried} rows were tried for {ASKED} refusals");
        assert_eq!(book.changed.len() as u64, LEFT, "who was refused leaves nothing in the book");
    }

    #[test]
    fn what_ends_with_the_daemon_stays_for_the_next_run() {
        let mut book = open();
        book.note(permit(1), Cause::Asked);
        book.note(permit(2), Cause::Asked);
        assert!(book.take(Time(0)).is_some());
        book.note(permit(1), Cause::Asked);
        assert!(book.set_open(false));
        book.note(permit(1), Cause::Ended);
        book.finish(Time(0), &full());
        book.retry_now();
        assert_eq!(book.take(Time(0)), Some(vec![permit(2)]), "the row of 1 stays as it is");
        book.finish(Time(0), &Ok(()));
        assert!(book.is_written());
        book.note(permit(2), Cause::Asked);
        assert_eq!(book.take(Time(0)), Some(vec![permit(2)]), "j5: what is given back is");
    }
}
