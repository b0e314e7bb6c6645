//! What a checkpoint remembers of one key: the state of its rate, its meter, how many requests it let in, and
//! its queue if requests wait.
//!
//! Promises a size of 32 bytes, and that a counter which equals a new one can be recognized, because such a
//! counter need not be kept.

use crate::meter::Meter;
use crate::pace::Moment;
use paceline_types::{Span, Time};

/// One counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    tat_ns: u64,
    tat_fraction: u32,
    pub(crate) meter: Meter,
    /// Requests that passed here and are not settled.
    pub(crate) inflight: u32,
    queue: u32,
}

const NO_QUEUE: u32 = u32::MAX;

impl Default for Counter {
    fn default() -> Self {
        Self { tat_ns: 0, tat_fraction: 0, meter: Meter::default(), inflight: 0, queue: NO_QUEUE }
    }
}

impl Counter {
    /// The time at which the rate has fully recovered.
    pub(crate) const fn tat(&self) -> Moment {
        Moment { ns: self.tat_ns, fraction: self.tat_fraction }
    }

    pub(crate) const fn set_tat(&mut self, tat: Moment) {
        self.tat_ns = tat.ns;
        self.tat_fraction = tat.fraction;
    }

    /// The queue of this counter, if requests wait.
    pub(crate) const fn queue(&self) -> Option<u32> {
        if self.queue == NO_QUEUE { None } else { Some(self.queue) }
    }

    pub(crate) const fn set_queue(&mut self, queue: Option<u32>) {
        self.queue = match queue {
            Some(queue) => queue,
            None => NO_QUEUE,
        };
    }

    /// Whether the counter equals a new one. Such a counter is treated as none, whether or not it is still
    /// stored.
    pub(crate) fn is_fresh(&self, now: Time, period: Span) -> bool {
        self.inflight == 0
            && self.queue == NO_QUEUE
            && self.tat() <= Moment::at(now)
            && self.meter.is_over(now, period)
    }
}

#[cfg(test)]
mod tests {
    use super::Counter;
    use crate::pace::Moment;
    use paceline_types::{Span, Time};

    #[test]
    fn a_counter_is_small() {
        assert_eq!(size_of::<Counter>(), 32);
    }

    #[test]
    fn whatever_differs_from_a_new_one_is_kept() {
        let (now, period) = (Time(10_000), Span(1_000));
        let fresh = |change: &dyn Fn(&mut Counter)| {
            let mut counter = Counter::default();
            change(&mut counter);
            counter.is_fresh(now, period)
        };
        assert!(fresh(&|_| ()));
        assert!(fresh(&|c| c.set_tat(Moment::at(now))));
        assert!(!fresh(&|c| c.set_tat(Moment { ns: 10_000, fraction: 1 })));
        assert!(!fresh(&|c| c.inflight = 1));
        assert!(!fresh(&|c| c.set_queue(Some(0))));
        assert!(!fresh(&|c| c.meter.count(Time(9_500), period)));
        assert!(fresh(&|c| c.meter.count(Time(8_999), period)));
    }
}
