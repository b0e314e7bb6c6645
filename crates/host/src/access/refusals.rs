//! Which refusals are recorded: a burst, then one per second. The others are only counted.
//!
//! Refusals of unauthenticated clients have a bound of their own, so that a client that guesses tokens cannot hide the
//! refusals of clients that have a role.

use paceline_types::Time;

/// How many refusals are recorded at once.
const BURST: u32 = 100;

/// After the burst, one refusal is recorded per this time.
const PER_NANOS: u64 = 1_000_000_000;

/// The kind of client that was refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A client whose name is known.
    Known,
    /// An unauthenticated client.
    Unknown,
}

/// Which refusals are recorded, and how many were not.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    known: Bucket,
    unknown: Bucket,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Records of the burst that are used up.
    used: u32,
    /// The time up to which used records have been credited back.
    counted: Time,
    left_out: u64,
}

impl Refusals {
    /// If a refusal is to be recorded now, returns how many before it were not.
    pub(super) fn admit(&mut self, now: Time, kind: Kind) -> Option<u64> {
        match kind {
            Kind::Known => self.known.admit(now),
            Kind::Unknown => self.unknown.admit(now),
        }
    }

    /// How many refusals were not recorded since the last record.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.known.left_out) + std::mem::take(&mut self.unknown.left_out)
    }
}

impl Bucket {
    fn admit(&mut self, now: Time) -> Option<u64> {
        let back = now.0.saturating_sub(self.counted.0) / PER_NANOS;
        self.counted.0 += back * PER_NANOS;
        self.used = self.used.saturating_sub(u32::try_from(back).unwrap_or(u32::MAX));
        if self.used >= BURST {
            self.left_out += 1;
            return None;
        }
        self.used += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::{BURST, Kind, PER_NANOS, Refusals};
    use paceline_types::Time;

    #[test]
    fn refusals_that_come_too_fast_are_counted_and_told_with_the_next_a1() {
        let mut refusals = Refusals::default();
        let now = Time(77 * PER_NANOS + 5);
        let recorded = (0..1_000).filter(|_| refusals.admit(now, Kind::Known).is_some()).count();
        assert_eq!(recorded, BURST as usize);
        assert_eq!(refusals.admit(now, Kind::Unknown), Some(0), "others have their own bound");
        let later = Time(now.0 + PER_NANOS);
        assert_eq!(refusals.admit(later, Kind::Known), Some(1_000 - u64::from(BURST)));
        assert_eq!(refusals.admit(later, Kind::Known), None);
        assert_eq!(refusals.take_left_out(), 1);
        assert_eq!(refusals.take_left_out(), 0);
        let recorded = (0..3_600 * 10).filter(|tenth| {
            let at = Time(later.0 + PER_NANOS + tenth * PER_NANOS / 10);
            refusals.admit(at, Kind::Known).is_some()
        });
        assert_eq!(recorded.count(), 3_600, "an hour of it");
    }
}
