//! Points on the daemon's own clock.
//!
//! A [`Time`] counts nanoseconds from an arbitrary start, so tests write `Time(0)`. It never comes
//! from a clock inside this crate: the host reads one and passes it in.

use crate::Span;

/// A point in time, in nanoseconds from the start of the clock that the host chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The point `ms` milliseconds later; the end of time if that overflows.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }

    /// The point `span` later; the end of time if that overflows.
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The time from `earlier` to here, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Whole milliseconds from `earlier` to here, zero if `earlier` is later.
    #[must_use]
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn milliseconds_add_and_subtract() {
        assert_eq!(Time(5).plus_ms(2), Time(2_000_005));
        assert_eq!(Time(2_000_004).ms_since(Time(5)), 1);
        assert_eq!(Time(0).ms_since(Time(5)), 0);
        assert_eq!(Time(1).plus_ms(u64::MAX), Time(u64::MAX));
    }
}
