//! The order of waiters over an orderly shutdown of the daemon.
//!
//! A client may send a *place*, a secret of its own, with a request, and send it again when it asks again. At
//! an orderly shutdown, each waiter that has a place is left to the next run as a row of the table Waiter: the
//! hash of the place, how long it had waited, and the holders of its own sessions that it may wait for. The next run reads and deletes the rows when its doors open.
//! For [`limits::PLACE_KEPT`] from then on, a client that asks with one of these places counts as having waited
//! all the time. Each place is used once; a request that is refused as it is submitted gives it back. After a crash there are no rows, and all waiters are new.
//!
//! A duration is kept and not a date, so it does not matter if the wall clock is set. The door computes the
//! hash from the place, the user and what is asked for: no other user can use a place, and it cannot be used
//! for anything else.

use super::{Keeper, Ledger};
use crate::own;
use paceline_tables::schema::TableSchema;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Error, Row};
use paceline_types::{RequestId, Span, Time, limits};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The hash of a place, of the user who asks, and of the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceHash(pub [u8; 32]);

/// A waiter when the daemon shuts down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftWaiter {
    pub(crate) place: PlaceHash,
    pub(crate) waited: Span,
    /// Permits of its own sessions that were granted after it was submitted.
    pub(crate) beside: Box<[RequestId]>,
}

/// The waiters of the last run that have not asked again.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    waited: BTreeMap<PlaceHash, (Span, Box<[RequestId]>)>,
    /// When the doors of this run opened.
    opened: Time,
}

/// A waiter of the last run that asks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Returned {
    /// How long it had waited when the last run ended.
    pub(crate) before: Span,
    /// Permits of its own sessions that were granted after it was first submitted.
    pub(crate) beside: Box<[RequestId]>,
    opened: Time,
}

impl Returned {
    /// How long it has waited now. The time between the two runs is unknown and does not count.
    pub(crate) const fn waited(&self, now: Time) -> Span {
        Span(self.before.0.saturating_add(now.since(self.opened).0))
    }
}

impl Awaited {
    /// Whether no waiter of the last run can ask again.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waited.is_empty()
    }

    fn open(&mut self, now: Time, waiters: impl Iterator<Item = LeftWaiter>) {
        let waited = |waiter: LeftWaiter| (waiter.place, (waiter.waited, waiter.beside));
        self.waited = waiters.map(waited).collect();
        self.opened = now;
    }

    /// Returns what is known of a place that a client sent, and forgets it.
    fn take(&mut self, now: Time, place: PlaceHash) -> Option<Returned> {
        if now.since(self.opened) > limits::PLACE_KEPT {
            self.waited = BTreeMap::new();
        }
        let (before, beside) = self.waited.remove(&place)?;
        Some(Returned { before, beside, opened: self.opened })
    }

    /// Returns a place that was taken and not used.
    fn put_back(&mut self, place: PlaceHash, returned: Returned) {
        self.waited.insert(place, (returned.before, returned.beside));
    }
}

impl Ledger {
    /// How long a client that sent this place had waited, if it waited when the last run ended.
    pub(crate) fn returned(&self, now: Time, place: PlaceHash) -> Option<Returned> {
        crate::sync::lock(&self.awaited).take(now, place)
    }

    /// Keeps a place for another attempt, because the request was refused as it was submitted.
    pub(crate) fn not_returned(&self, place: PlaceHash, returned: Returned) {
        crate::sync::lock(&self.awaited).put_back(place, returned);
    }
}

impl Keeper {
    /// Called when the doors open: from now on the waiters of the last run may ask again. A start that fails
    /// before leaves them to the next one.
    pub(super) fn await_waiters(&self) {
        let waiters = self.own.own_rows(own::WAITER_TABLE, |table, row| {
            // An unreadable row belongs to no waiter.
            Some(LeftWaiter::read(table, row))
        });
        if waiters.is_empty() {
            return;
        }
        let now = self.clock.now();
        crate::sync::lock(&self.ledger.awaited).open(now, waiters.into_iter().flatten());
        let ledger = Arc::clone(&self.ledger);
        let done = move |outcome: Result<(), Error>| {
            if let Err(error) = outcome {
                // The next run would find them again.
                tracing::error!(%error, "cannot delete the waiters of the last run; they have lost their places");
                crate::sync::lock(&ledger.awaited).waited.clear();
            }
        };
        // A grant that depends on a place is written after this, so that no place is used in two runs.
        self.own.replace_own(own::WAITER_TABLE, vec![], Some(Box::new(done)));
        self.own.flush();
    }

    /// Called at shutdown: the waiters may ask the next run again.
    pub(crate) fn leave_waiters(&self, waiters: Vec<LeftWaiter>) {
        let waiters = longest(waiters);
        // Rows of an earlier run exist only if they could not be deleted; they are deleted now.
        let has_rows = !self.own.own_rows(own::WAITER_TABLE, |_, _| Some(())).is_empty();
        if waiters.is_empty() && !has_rows {
            return;
        }
        let done = |outcome: Result<(), Error>| {
            if let Err(error) = outcome {
                tracing::error!(%error, "cannot write the waiting requests; they will be new in the next run");
            }
        };
        let rows = waiters.iter().map(LeftWaiter::row).collect();
        self.own.replace_own(own::WAITER_TABLE, rows, Some(Box::new(done)));
    }
}

/// The waiters that have waited longest, as many as are kept; of several with one place the first.
fn longest(mut waiters: Vec<LeftWaiter>) -> Vec<LeftWaiter> {
    waiters.sort_unstable_by_key(|waiter| (waiter.place, std::cmp::Reverse(waiter.waited)));
    waiters.dedup_by_key(|waiter| waiter.place);
    waiters.sort_by_key(|waiter| std::cmp::Reverse(waiter.waited));
    waiters.truncate(limits::PLACES_MAX);
    waiters
}

impl LeftWaiter {
    fn row(&self) -> Vec<(&'static str, Datum)> {
        let waited = i64::try_from(self.waited.0).unwrap_or(i64::MAX);
        let number = |id: &RequestId| Atom::Integer(i64::try_from(id.0).unwrap_or(i64::MAX));
        let beside = self.beside.iter().map(number).collect();
        vec![
            ("place", Datum::One(Atom::string(&self.place.to_string()))),
            ("waited", Datum::One(Atom::Integer(waited))),
            ("beside", Datum::set_of(beside)),
        ]
    }

    pub(super) fn read(table: &TableSchema, row: &Row) -> Option<Self> {
        let datum = |name: &str| row.get(table.column_id(name)?.index());
        let atom = |name: &str| datum(name)?.single();
        let number = |atom: &Atom| u64::try_from(atom.as_integer()?).ok();
        let place = PlaceHash::parse(atom("place")?.as_str()?)?;
        let beside = datum("beside").map_or(&[][..], Datum::atoms).iter();
        let beside = beside.filter_map(|atom| number(atom).map(RequestId)).collect();
        Some(Self { place, waited: Span(number(atom("waited")?)?), beside })
    }
}

impl PlaceHash {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().chunks_exact(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Vec<u8> = digits.collect::<Option<_>>()?;
        bytes.try_into().ok().map(Self).filter(|hash| hash.to_string() == text)
    }
}

impl fmt::Display for PlaceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PlaceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlaceHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::{Awaited, LeftWaiter, PlaceHash, longest};
    use paceline_types::{Span, Time, limits};

    fn waiter(number: u8, waited: u64) -> LeftWaiter {
        LeftWaiter { place: PlaceHash([number; 32]), waited: Span(waited), beside: Box::default() }
    }

    #[test]
    fn a_place_is_used_once_and_within_a_minute() {
        let mut awaited = Awaited::default();
        let opened = Time(0).plus(Span::from_secs(7));
        awaited.open(opened, [waiter(1, 50), waiter(2, 60), waiter(3, 70)].into_iter());
        let later = opened.plus(Span::from_secs(5));
        assert_eq!(awaited.take(later, PlaceHash([9; 32])), None, "invented");
        let returned = awaited.take(later, PlaceHash([1; 32])).unwrap();
        assert_eq!((returned.before, returned.waited(later)), (Span(50), Span(5_000_000_050)));
        assert_eq!(awaited.take(later, PlaceHash([1; 32])), None, "used");
        let last = opened.plus(limits::PLACE_KEPT);
        assert!(awaited.take(last, PlaceHash([2; 32])).is_some());
        assert_eq!(awaited.take(last.plus(Span(1)), PlaceHash([3; 32])), None, "too late");
    }

    #[test]
    fn those_that_waited_longest_are_kept_each_place_once() {
        let three = vec![waiter(1, 5), waiter(2, 9), waiter(1, 7)];
        assert_eq!(longest(three), [waiter(2, 9), waiter(1, 7)]);
        let place = |number: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            PlaceHash(bytes)
        };
        let many = 0..limits::PLACES_MAX + 5;
        let many =
            many.map(|number| LeftWaiter { place: place(number), ..waiter(0, number as u64) });
        let kept = longest(many.collect());
        assert_eq!(kept.len(), limits::PLACES_MAX);
        assert_eq!(kept.last().unwrap().waited, Span(5), "the shortest waits are left out");
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = PlaceHash(std::array::from_fn(|at| 250 - at as u8));
        assert_eq!(PlaceHash::parse(&hash.to_string()), Some(hash));
        let upper = hash.to_string().to_uppercase();
        for wrong in ["", "0", "ab", "zz", upper.as_str(), &"é".repeat(32)] {
            assert_eq!(PlaceHash::parse(wrong), None, "{wrong}");
        }
    }
}
