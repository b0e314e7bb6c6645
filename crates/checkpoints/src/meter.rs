//! Meters: how many arrivals per second, over the running period and the one before.
//!
//! Owns two counts per meter. A reading is what arrived in the running period, plus what arrived in the
//! previous period weighted by the part of it that still lies in a window of one period. Periods are counted
//! from the start of the clock, so that two meters with the same period agree.

use paceline_types::{Span, Time};

/// The meter of one key. It is small because there are millions.
///
/// The number of the period is kept to 32 bits. A meter that is not used for exactly 2^32 periods would be
/// read as a running one; arrivals at the checkpoint sweep it before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    tick: u32,
    this: u32,
    last: u32,
}

impl Meter {
    pub(crate) fn count(&mut self, now: Time, period: Span) {
        let tick = (now.0 / period.0) as u32;
        (self.this, self.last) = match tick.wrapping_sub(self.tick) {
            0 => (self.this.saturating_add(1), self.last),
            1 => (1, self.this),
            _ => (1, 0),
        };
        self.tick = tick;
    }

    pub(crate) fn per_second(&self, now: Time, period: Span) -> f64 {
        let tick = (now.0 / period.0) as u32;
        let (this, last) = match tick.wrapping_sub(self.tick) {
            0 => (self.this, self.last),
            1 => (0, self.this),
            _ => (0, 0),
        };
        weigh(u64::from(this), u64::from(last), now, period)
    }

    /// Whether all its counts are too old to matter, as in a new meter.
    pub(crate) fn is_over(&self, now: Time, period: Span) -> bool {
        match ((now.0 / period.0) as u32).wrapping_sub(self.tick) {
            0 => self.this == 0 && self.last == 0,
            1 => self.this == 0,
            _ => true,
        }
    }
}

/// The meter of a whole checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TotalMeter {
    tick: u64,
    this: u64,
    last: u64,
}

impl TotalMeter {
    pub(crate) fn count(&mut self, now: Time, period: Span) {
        let tick = now.0 / period.0;
        (self.this, self.last) = match tick.wrapping_sub(self.tick) {
            0 => (self.this + 1, self.last),
            1 => (1, self.this),
            _ => (1, 0),
        };
        self.tick = tick;
    }

    pub(crate) fn per_second(&self, now: Time, period: Span) -> f64 {
        match (now.0 / period.0).wrapping_sub(self.tick) {
            0 => weigh(self.this, self.last, now, period),
            1 => weigh(0, self.this, now, period),
            _ => 0.0,
        }
    }
}

fn weigh(this: u64, last: u64, now: Time, period: Span) -> f64 {
    if this == 0 && last == 0 {
        return 0.0;
    }
    let left = (period.0 - now.0 % period.0) as f64 / period.0 as f64;
    (this as f64 + last as f64 * left) / period.as_secs()
}

#[cfg(test)]
mod tests {
    use super::{Meter, TotalMeter};
    use paceline_types::{Span, Time};

    #[test]
    fn the_window_slides_over_two_periods() {
        let period = Span::from_secs(2);
        let at = |ms| Time(0).plus_ms(ms);
        let (mut meter, mut total) = (Meter::default(), TotalMeter::default());
        assert!(meter.is_over(at(0), period));
        for ms in [0, 100, 1_900, 1_999] {
            meter.count(at(ms), period);
            total.count(at(ms), period);
        }
        for (ms, expected) in
            [(1_999, 2.0), (2_000, 2.0), (3_000, 1.0), (3_500, 0.5), (4_000, 0.0), (9_000, 0.0)]
        {
            assert_eq!(meter.per_second(at(ms), period), expected, "at {ms} ms");
            assert_eq!(total.per_second(at(ms), period), expected, "at {ms} ms");
        }
        assert!(!meter.is_over(at(3_999), period));
        assert!(meter.is_over(at(4_000), period));
        meter.count(at(3_000), period);
        assert_eq!(meter.per_second(at(3_000), period), 1.5);
        assert_eq!(meter.per_second(at(4_000), period), 0.5);
    }
}
