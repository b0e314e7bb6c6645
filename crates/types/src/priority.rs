//! Priorities, and the one order of every queue.
//!
//! Owns the arithmetic of priorities (seed 000: -127 to 127, starting at 0) and of ranks. A rank is fixed at arrival
//! and never re-sorted. A higher priority is a head start in time, so it is served first, and no request starves.

use crate::{RequestId, Span, Time};
use std::fmt;

/// How urgent a request is: -127 to 127, starting at 0. A rejection is not a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(i8);

impl Priority {
    /// The initial priority of every request.
    pub const START: Self = Self(0);
    /// The least urgent.
    pub const MIN: Self = Self(-127);
    /// The most urgent.
    pub const MAX: Self = Self(127);
    /// The number displayed in tables and lists for a rejected request.
    pub const REJECTED: i8 = -128;

    /// The priority with this number, if it is valid.
    #[must_use]
    pub const fn new(number: i64) -> Option<Self> {
        if number < -127 || number > 127 { None } else { Some(Self(number as i8)) }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> i8 {
        self.0
    }

    /// Higher by `n`, and at most 127.
    #[must_use]
    pub const fn raised(self, n: u8) -> Self {
        let sum = self.0 as i16 + n as i16;
        Self(if sum > 127 { 127 } else { sum as i8 })
    }

    /// Lower by `n`, and at least -127.
    #[must_use]
    pub const fn lowered(self, n: u8) -> Self {
        let difference = self.0 as i16 - n as i16;
        Self(if difference < -127 { -127 } else { difference as i8 })
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where a request stands in every queue: arrival - priority x `age_step`, then the request's number. A request that
/// had waited before it arrived counts as one that arrived so much earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    at: i64,
    /// The request that has this rank.
    pub id: RequestId,
}

impl Rank {
    /// The rank of a request that arrived at `arrival`.
    #[must_use]
    pub fn new(arrival: Time, priority: Priority, age_step: Span, id: RequestId) -> Self {
        let head_start =
            i64::try_from(age_step.0).unwrap_or(i64::MAX).saturating_mul(i64::from(priority.0));
        let arrival = i64::try_from(arrival.0).unwrap_or(i64::MAX);
        Self { at: arrival.saturating_sub(head_start), id }
    }

    /// The same for a request that had waited for so long when it arrived.
    #[must_use]
    pub fn after(self, waited: Span) -> Self {
        let waited = i64::try_from(waited.0).unwrap_or(i64::MAX);
        Self { at: self.at.saturating_sub(waited), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::{Priority, Rank};
    use crate::{RequestId, Span, Time};

    #[test]
    fn raising_and_lowering_saturate() {
        let five = Priority::new(5).unwrap();
        assert_eq!(five.raised(10).number(), 15);
        assert_eq!(five.lowered(10).number(), -5);
        assert_eq!(five.raised(255), Priority::MAX);
        assert_eq!(five.lowered(255), Priority::MIN);
        assert_eq!(Priority::MAX.raised(1), Priority::MAX);
        assert_eq!(Priority::MIN.lowered(1), Priority::MIN);
    }

    #[test]
    fn only_minus_127_to_127_are_priorities() {
        assert_eq!(Priority::new(-127), Some(Priority::MIN));
        assert_eq!(Priority::new(127), Some(Priority::MAX));
        for wrong in [-129, -128, 128, i64::MIN, i64::MAX] {
            assert_eq!(Priority::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_higher_priority_is_a_head_start() {
        let step = Span::from_secs(1);
        let rank = |ms, priority, id| {
            Rank::new(Time(0).plus_ms(ms), Priority::new(priority).unwrap(), step, RequestId(id))
        };
        assert!(rank(900, 1, 2) < rank(0, 0, 1), "one step up is worth one second");
        assert!(rank(1_100, 1, 2) > rank(0, 0, 1), "but no more than that");
        assert!(rank(1_000, 1, 2) > rank(0, 0, 1), "a tie goes to the earlier number");
        assert!(rank(0, -1, 1) > rank(999, 0, 2));
    }

    #[test]
    fn what_it_waited_before_counts_as_time_in_the_queue() {
        let step = Span::from_secs(1);
        let rank = |ms, waited_ms, id| {
            let rank = Rank::new(Time(0).plus_ms(ms), Priority::START, step, RequestId(id));
            rank.after(Span::from_ms(waited_ms))
        };
        assert!(rank(5, 10, 2) < rank(0, 0, 1), "also if it waited longer than this clock runs");
        assert!(rank(5, 4, 2) > rank(0, 0, 1));
        assert!(rank(5, 5, 2) > rank(0, 0, 1), "a tie goes to the earlier number");
        assert!(rank(9, 30, 3) < rank(5, 10, 2), "in the order in which they first came");
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let far = Rank::new(Time(u64::MAX), Priority::MIN, Span(u64::MAX), RequestId(1));
        let near = Rank::new(Time(0), Priority::MAX, Span(u64::MAX), RequestId(2));
        assert!(near < far);
        assert!(near.after(Span(u64::MAX)) <= near && far.after(Span(u64::MAX)) < far);
    }
}
