//! Edits of a limit, applied to millions of counters one small table at a time.
//!
//! Owns what is needed to bring a counter up to date that was last used some edits ago. An edit of a rate
//! keeps the debt, so that neither a new rate nor a new burst gives anything away. An edit of the period
//! resets the meters. Promises the same result whether a counter is brought up to date at the edit or much
//! later.

use crate::counter::Counter;
use crate::meter::Meter;
use crate::pace::{Moment, Pace};
use paceline_types::Time;
use std::collections::VecDeque;

/// Edits remembered at a time. Past this the oldest is forgotten, and a counter that was not used since then
/// is assumed to have the largest possible debt.
pub(crate) const EDITS_MAX: usize = 16;

/// An edit of a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at: Time,
    pub(crate) from: Pace,
    pub(crate) to: Pace,
    /// Whether the checkpoint only watched until the edit. Debt from watch mode held no request back, so it
    /// is reduced to at most one burst.
    pub(crate) watched: bool,
}

impl Change {
    /// The time of a counter after the edit, from its time before the edit.
    fn apply(&self, tat: Moment) -> Moment {
        let owing = self.to.owing(&self.from, tat, self.at);
        let most = self.at.plus(self.to.recovery());
        Moment::at(if self.watched { owing.min(most) } else { owing })
    }

    /// The largest debt before this edit of a counter that has not been used since a forgotten edit: the
    /// largest debt at that edit, or the whole burst.
    fn most_before(&self, forgotten: Moment) -> Moment {
        forgotten.max(Moment::at(self.at.plus(self.from.recovery())))
    }
}

/// The edits so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    last: u32,
    /// Edits of the rate, with their numbers.
    changes: VecDeque<(u32, Change)>,
    /// The last edit of the rate that was forgotten.
    forgotten: u32,
    /// The latest time, after that edit, of a counter that has not seen it.
    latest: Moment,
    /// The last edit that reset the meters.
    meters: u32,
}

impl Edits {
    /// The number of the last edit. A counter that is up to date has seen it.
    pub(crate) const fn last(&self) -> u32 {
        self.last
    }

    /// Adds an edit: its change of the rate, and whether it resets the meters.
    pub(crate) fn push(&mut self, change: Option<Change>, meters: bool) {
        self.last += 1;
        if meters {
            self.meters = self.last;
        }
        let Some(change) = change else { return };
        self.changes.push_back((self.last, change));
        if self.changes.len() > EDITS_MAX
            && let Some((edit, change)) = self.changes.pop_front()
        {
            self.forgotten = edit;
            self.latest = change.apply(change.most_before(self.latest));
        }
    }

    /// Brings a counter up to date whose last seen edit is `seen`.
    pub(crate) fn bring(&self, seen: u32, counter: &mut Counter) {
        if seen < self.meters {
            counter.meter = Meter::default();
        }
        let next = self.changes.partition_point(|(edit, _)| *edit <= seen);
        for (index, (_, change)) in self.changes.range(next..).enumerate() {
            let is_lost = index == 0 && seen < self.forgotten;
            counter.set_tat(change.apply(if is_lost { self.latest } else { counter.tat() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, EDITS_MAX, Edits};
    use crate::counter::Counter;
    use crate::pace::{Moment, Pace};
    use paceline_types::{Span, Time};

    fn counter(ns: u64) -> Counter {
        let mut counter = Counter::default();
        counter.set_tat(Moment { ns, fraction: 1 });
        counter
    }

    fn change(at: u64, from: Pace, to: Pace) -> Change {
        Change { at: Time(at), from, to, watched: false }
    }

    /// Applying edits one at a time and all at once gives the same result.
    #[test]
    fn late_equals_at_once() {
        let mut edits = Edits::default();
        let pace = |per, burst| Pace::new(3, Span(per), burst);
        let paces = [pace(100, 20), pace(1_000, 2), pace(70, 9), pace(100, 1), pace(500, 30)];
        let mut at_once: Vec<Counter> = vec![];
        for (edit, pair) in paces.windows(2).enumerate() {
            at_once.push(counter(500));
            let seen = edits.last();
            edits.push(Some(change(100 * edit as u64, pair[0], pair[1])), false);
            for counter in &mut at_once {
                edits.bring(seen, counter);
            }
        }
        for (seen, early) in at_once.iter().enumerate() {
            let mut late = counter(500);
            edits.bring(seen as u32, &mut late);
            assert_eq!(late.tat(), early.tat(), "untouched since edit {seen}");
        }
        let mut late = counter(500);
        edits.bring(edits.last(), &mut late);
        assert_eq!(late.tat(), Moment { ns: 500, fraction: 1 }, "nothing to bring");
    }

    #[test]
    fn a_new_period_starts_meters_anew() {
        let (period, now) = (Span(1_000), Time(1_500));
        let mut edits = Edits::default();
        edits.push(None, true);
        edits.push(None, false);
        for (seen, kept) in [(0, false), (1, true), (2, true)] {
            let mut counter = Counter::default();
            counter.meter.count(now, period);
            edits.bring(seen, &mut counter);
            assert_eq!(!counter.meter.is_over(now, period), kept, "seen {seen}");
        }
    }

    #[test]
    fn edits_are_bounded() {
        let mut edits = Edits::default();
        let pace = Pace::new(1, Span(10), 5);
        for edit in 0..2 * EDITS_MAX as u64 {
            edits.push(Some(change(edit, pace, pace)), false);
        }
        assert_eq!(edits.changes.len(), EDITS_MAX);
        let mut old = counter(0);
        edits.bring(0, &mut old);
        assert_eq!(old.tat().ns, EDITS_MAX as u64 - 1 + 50, "taken to owe the whole burst then");
    }
}
