//! Points in time as the API writes them: RFC 3339, UTC, microseconds.
//!
//! The engine's clock starts with the daemon. A moment is computed from its distance to that start and the wall clock,
//! which is read for each answer, because it may be set.

use paceline_host::Clock;
use paceline_types::{Time, civil};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How far the wall clock may seem to have moved before the change is accepted: the two clocks are not read at
/// the same instant, and a time that is shown twice should be shown the same.
const JITTER_US_MAX: u64 = 1_000;

/// The offset of the wall clock to the engine's clock.
#[derive(Debug)]
pub(crate) struct Wall {
    clock: Clock,
    /// Microseconds since 1970 when the engine's clock started.
    start_us: AtomicI64,
}

impl Wall {
    pub(crate) fn new(clock: Clock) -> Self {
        let wall = Self { clock, start_us: AtomicI64::new(0) };
        wall.now();
        wall
    }

    /// Reads both clocks.
    pub(crate) fn now(&self) -> Now {
        let time = self.clock.now();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        let start_us = wall_us.saturating_sub(us(time.0));
        let known = self.start_us.load(Ordering::Relaxed);
        if known.abs_diff(start_us) <= JITTER_US_MAX {
            return Now { time, start_us: known };
        }
        self.start_us.store(start_us, Ordering::Relaxed);
        Now { time, start_us }
    }
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// The engine's clock.
    pub(crate) time: Time,
    start_us: i64,
}

fn us(nanos: u64) -> i64 {
    i64::try_from(nanos / 1_000).unwrap_or(i64::MAX)
}

impl Now {
    /// A point of the engine's clock as text.
    pub(crate) fn text(&self, at: Time) -> String {
        rfc3339(self.us(at))
    }

    /// The same in microseconds since 1970.
    pub(crate) fn us(&self, at: Time) -> i64 {
        self.start_us.saturating_add(us(at.0))
    }
}

/// Milliseconds since 1970 as text.
pub(crate) fn rfc3339_of_ms(ms: u64) -> String {
    rfc3339(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000))
}

/// Microseconds since 1970 as text. Earlier times are shown as 1970, times after the year 9999 as its end.
pub(crate) fn rfc3339(us: i64) -> String {
    const LAST: i64 = 253_402_300_799_999_999;
    let us = us.clamp(0, LAST);
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    // Every permit contains two times, and formatting with widths takes ten times as long as this.
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    let parts = [year, month, day, hour, minute, second, fraction];
    for (place, mut number) in PLACES.into_iter().zip(parts) {
        for digit in text.get_mut(place).into_iter().flatten().rev() {
            *digit = b'0' + (number % 10).unsigned_abs() as u8;
            number /= 10;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The positions of the digits of year, month, day, hour, minute, second and fraction.
const PLACES: [Range<usize>; 7] = [0..4, 5..7, 8..10, 11..13, 14..16, 17..19, 20..26];

#[cfg(test)]
mod tests {
    use super::{Now, rfc3339};
    use paceline_types::Time;

    #[test]
    fn known_dates_are_right() {
        for (us, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_200_000_001, "2024-03-01T00:00:00.000001Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999999Z"),
            (-5, "1970-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339(us), text);
        }
    }

    #[test]
    fn times_are_told_from_the_start_of_the_clock() {
        let now = Now { time: Time(5_000_000_000), start_us: 86_395_000_000 };
        assert_eq!(now.text(Time(6_000_001_999)), "1970-01-02T00:00:01.000001Z");
        assert_eq!(now.text(Time(4_000_000_000)), "1970-01-01T23:59:59.000000Z");
    }
}
