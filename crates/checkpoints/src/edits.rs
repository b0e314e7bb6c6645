//! Edits of a limit, applied to millions of counters one small table at a time.
//!
//! Owns what is needed to bring a counter that was last touched some edits ago up to date: an edit
//! of a rate keeps `tat`, rounded up to a whole nanosecond, but no later than the edit's time plus the
//! whole burst; an edit of the period starts the meters anew. Promises the same result whether a
//! counter is brought up to date at the edit or much later.

use crate::counter::Counter;
use crate::meter::Meter;
use crate::pace::Moment;
use paceline_types::Time;
use std::collections::VecDeque;

/// Edits remembered at a time. Past this the oldest is forgotten, and a counter that nobody touched
/// since then is held to the next one's bound, which is later.
pub(crate) const EDITS_MAX: usize = 1_024;

/// The edits so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    last: u32,
    /// For edits of a rate, its number and the latest `tat` it leaves. Later edits have later bounds: one
    /// with an earlier bound makes those before it needless.
    bounds: VecDeque<(u32, Time)>,
    /// The last edit that started the meters anew.
    meters: u32,
}

impl Edits {
    /// The number of the last edit; a counter that is up to date has seen it.
    pub(crate) const fn last(&self) -> u32 {
        self.last
    }

    /// Remembers an edit: the latest `tat` it leaves, and whether the meters start anew.
    pub(crate) fn push(&mut self, tat_max: Option<Time>, meters: bool) {
        self.last += 1;
        if meters {
            self.meters = self.last;
        }
        let Some(tat_max) = tat_max else { return };
        while self.bounds.back().is_some_and(|(_, bound)| *bound >= tat_max) {
            self.bounds.pop_back();
        }
        self.bounds.push_back((self.last, tat_max));
        if self.bounds.len() > EDITS_MAX {
            self.bounds.pop_front();
        }
    }

    /// Brings a counter that has seen the edit `seen`, and none since, up to date.
    pub(crate) fn bring(&self, seen: u32, counter: &mut Counter) {
        if seen < self.meters {
            counter.meter = Meter::default();
        }
        let next = self.bounds.partition_point(|(edit, _)| *edit <= seen);
        if let Some((_, bound)) = self.bounds.get(next) {
            counter.set_tat(Moment::at(counter.tat().ceil().min(*bound)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EDITS_MAX, Edits};
    use crate::counter::Counter;
    use crate::pace::Moment;
    use paceline_types::{Span, Time};

    fn counter(ns: u64) -> Counter {
        let mut counter = Counter::default();
        counter.set_tat(Moment { ns, fraction: 1 });
        counter
    }

    /// One step at a time and all at once give the same.
    #[test]
    fn late_equals_at_once() {
        let mut edits = Edits::default();
        let bounds = [500, 300, 900, 700, 1_000, 950];
        let mut at_once: Vec<Counter> = vec![];
        for bound in bounds {
            at_once.push(counter(960));
            let seen = edits.last();
            edits.push(Some(Time(bound)), false);
            for counter in &mut at_once {
                edits.bring(seen, counter);
            }
        }
        for (seen, early) in at_once.iter().enumerate() {
            let mut late = counter(960);
            edits.bring(seen as u32, &mut late);
            assert_eq!(late.tat(), early.tat(), "untouched since edit {seen}");
        }
        let mut late = counter(960);
        edits.bring(edits.last(), &mut late);
        assert_eq!(late.tat(), Moment { ns: 960, fraction: 1 }, "nothing to bring");
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
        for edit in 0..2 * EDITS_MAX as u64 {
            edits.push(Some(Time(edit)), false);
        }
        assert_eq!(edits.bounds.len(), EDITS_MAX);
        let mut old = counter(u64::MAX - 1);
        edits.bring(0, &mut old);
        assert_eq!(old.tat().ns, EDITS_MAX as u64, "held to the oldest bound that is known");
    }
}
