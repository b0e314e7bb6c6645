//! The arithmetic of rates: exact, on nanoseconds and fractions of one.
//!
//! Owns [`Pace`], a rate of N per D with burst B, and [`Moment`], a time with a fraction in units of 1/N ns
//! (N and D divided by their common divisor). Promises that no sum of steps of D/N is ever off by a fraction
//! of a nanosecond. Sums past the end of time stay there: from then on nothing passes and nothing recovers,
//! because the real debt is no longer known.

use crate::spec::RECOVERY_MAX;
use paceline_types::{Span, Time};

/// A point in time between two nanoseconds, in the units of one [`Pace`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) ns: u64,
    /// In units of 1/N ns, less than N.
    pub(crate) fraction: u32,
}

impl Moment {
    pub(crate) const fn at(time: Time) -> Self {
        Self { ns: time.0, fraction: 0 }
    }

    /// Whether it is the last nanosecond, which stands for all later times.
    const fn is_end(self) -> bool {
        self.ns == u64::MAX
    }

    /// The first whole nanosecond that is not earlier.
    pub(crate) const fn ceil(self) -> Time {
        Time(self.ns.saturating_add((self.fraction > 0) as u64))
    }
}

/// N per D with burst B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// N, divided by its common divisor with D.
    parts: u32,
    /// D in nanoseconds, divided by its common divisor with N.
    span: u64,
    /// The time that one unit of cost takes: whole nanoseconds and the fraction.
    step: Moment,
    pub(crate) burst: u32,
}

impl Pace {
    /// `count` per `per`, both greater than zero.
    pub(crate) fn new(count: u32, per: Span, burst: u32) -> Self {
        debug_assert!(count > 0 && per.0 > 0, "a rate lets something pass");
        let shared = shared_factor(per.0, u64::from(count.max(1))).max(1);
        let (parts, span) = ((u64::from(count.max(1)) / shared) as u32, per.0 / shared);
        let n = u64::from(parts);
        let step = Moment { ns: span / n, fraction: (span % n) as u32 };
        Self { parts, span, step, burst }
    }

    /// Whether a request of this cost may pass at `now` without waiting.
    pub(crate) fn conforms(&self, tat: Moment, now: Time, cost: u32) -> bool {
        cost <= self.burst
            && self.pass_at(tat, u64::from(cost)) <= now
            && !self.spend(tat, now, cost).is_end()
    }

    /// When the head of a queue, of this cost, passes; never if its cost would reach the end of time.
    pub(crate) fn head_at(&self, tat: Moment, cost: u64) -> Option<Time> {
        (!self.later(tat, cost).is_end()).then(|| self.pass_at(tat, cost))
    }

    /// The counter after spending `cost` at or after `from`.
    pub(crate) fn spend(&self, tat: Moment, from: Time, cost: u32) -> Moment {
        self.later(tat.max(Moment::at(from)), u64::from(cost))
    }

    /// The counter after refunding `cost`, which was spent `ago`. The part that has recovered by itself since
    /// then is not refunded. Otherwise a late refund would let more pass than the rate (S1).
    pub(crate) fn refund(&self, tat: Moment, cost: u32, ago: Span) -> Moment {
        let spent = self.lasts(u64::from(cost));
        match spent.ns.checked_sub(ago.0) {
            Some(ns) if !tat.is_end() => self.before(tat, Moment { ns, ..spent }),
            _ => tat,
        }
    }

    /// When the last of this much cost may pass: `tat + (cost - B)T`, which may be in the past.
    pub(crate) fn pass_at(&self, tat: Moment, cost: u64) -> Time {
        let burst = u64::from(self.burst);
        if cost > burst {
            self.later(tat, cost - burst).ceil()
        } else {
            self.earlier(tat, burst - cost).ceil()
        }
    }

    /// The counter after an edit from another pace. It owes as many units of cost as before, rounded up to a
    /// whole nanosecond, even if that is more than this burst. Otherwise lowering a burst and raising it
    /// again would let through what was spent before (S1).
    pub(crate) fn owing(&self, before: &Self, tat: Moment, at: Time) -> Time {
        if tat <= Moment::at(at) || tat.is_end() {
            return tat.ceil();
        }
        let owed = before.before(tat, Moment::at(at));
        let parts = u128::from(owed.ns) * u128::from(before.parts) + u128::from(owed.fraction);
        let step = u128::from(before.span) * u128::from(self.parts);
        let lasts = parts.checked_mul(u128::from(self.span)).map(|all| all.div_ceil(step));
        let lasts = lasts.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(u64::MAX);
        at.plus(Span(lasts.min(RECOVERY_MAX.0)))
    }

    /// How long the whole burst takes to recover, rounded up to a whole nanosecond.
    pub(crate) fn recovery(&self) -> Span {
        Span(self.later(Moment::default(), u64::from(self.burst)).ceil().0)
    }

    fn later(&self, from: Moment, cost: u64) -> Moment {
        let more = self.lasts(cost);
        let fraction = u64::from(from.fraction) + u64::from(more.fraction);
        let parts = u64::from(self.parts);
        let carry = u64::from(fraction >= parts);
        Moment {
            ns: from.ns.saturating_add(more.ns).saturating_add(carry),
            fraction: (fraction - carry * parts) as u32,
        }
    }

    fn earlier(&self, from: Moment, cost: u64) -> Moment {
        self.before(from, self.lasts(cost))
    }

    /// `from` minus `less`, but not earlier than the start of time.
    fn before(&self, from: Moment, less: Moment) -> Moment {
        if from < less {
            return Moment::default();
        }
        let borrow = u64::from(from.fraction < less.fraction);
        let fraction =
            u64::from(from.fraction) + borrow * u64::from(self.parts) - u64::from(less.fraction);
        Moment { ns: from.ns - less.ns - borrow, fraction: fraction as u32 }
    }

    /// How long this much cost takes.
    fn lasts(&self, cost: u64) -> Moment {
        match cost {
            0 => Moment::default(),
            1 => self.step,
            _ => {
                let (all, parts) =
                    (u128::from(cost) * u128::from(self.span), u128::from(self.parts));
                let ns = u64::try_from(all / parts).unwrap_or(u64::MAX);
                Moment { ns, fraction: (all % parts) as u32 }
            }
        }
    }
}

fn shared_factor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { shared_factor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::{Moment, Pace};
    use paceline_types::{Span, Time};

    /// 3 per 1s over 10^6 passes: the last one is not a nanosecond off.
    #[test]
    fn a_third_of_a_second_does_not_drift() {
        let pace = Pace::new(3, Span::from_secs(1), 1);
        let mut tat = Moment::default();
        for pass in 0..1_000_000u64 {
            let exact = u128::from(pass) * 1_000_000_000;
            assert_eq!(u128::from(tat.ns) * 3 + u128::from(tat.fraction), exact);
            tat = pace.spend(tat, Time(0), 1);
        }
        assert_eq!(tat, Moment { ns: 333_333_333_333_333, fraction: 1 });
    }

    /// Compared with plain fractions, for rates whose N does not divide D.
    #[test]
    fn equals_plain_fractions() {
        let mut state = 11u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
            (state >> 20) % below
        };
        for _ in 0..20_000 {
            let (count, per) = (1 + next(5_000) as u32, 1 + next(3_000_000_000));
            let burst = 1 + next(50) as u32;
            let pace = Pace::new(count, Span(per), burst);
            // In units of 1/count ns.
            let (n, d) = (i128::from(count), i128::from(per));
            let plain = |m: Moment| {
                i128::from(m.ns) * n + i128::from(m.fraction) * n / i128::from(pace.parts)
            };
            let start = pace.spend(Moment::default(), Time(next(1 << 40)), next(60) as u32);
            let cost = next(100) as u32;
            let spent = pace.spend(start, Time(0), cost);
            assert_eq!(plain(spent), plain(start) + i128::from(cost) * d);
            assert_eq!(pace.refund(spent, cost, Span(0)), start);
            let ago = next(1 << 32);
            let back = (i128::from(cost) * d - i128::from(ago) * n).max(0);
            assert_eq!(plain(pace.refund(spent, cost, Span(ago))), plain(spent) - back);
            let pass = (plain(start) + (i128::from(cost) - i128::from(burst)) * d).max(0);
            let ceil = (pass + n - 1) / n;
            assert_eq!(i128::from(pace.pass_at(start, u64::from(cost)).0), ceil);
            let now = next(1 << 40);
            let at = plain(start).max(i128::from(now) * n);
            let fits = at + i128::from(cost) * d - i128::from(now) * n <= i128::from(burst) * d;
            assert_eq!(pace.conforms(start, Time(now), cost), fits);
        }
    }

    #[test]
    fn the_ends_of_time_hold() {
        let pace = Pace::new(1, Span(u64::MAX), 1);
        let tat = pace.spend(Moment::default(), Time(5), 1_000_000);
        assert_eq!(tat.ns, u64::MAX);
        assert_eq!(pace.refund(tat, 1_000_000, Span(0)).ns, u64::MAX, "nothing comes back");
        assert!(!pace.conforms(tat, Time(u64::MAX - 1), 1));
        let fast = Pace::new(u32::MAX, Span(1), 1);
        let mut tat = Moment::default();
        for _ in 0..10 {
            tat = fast.spend(tat, Time(0), u32::MAX);
        }
        assert_eq!(tat, Moment { ns: 10, fraction: 0 });
    }
}
