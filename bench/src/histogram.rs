//! Stores many durations in little memory, so that the rare long ones can be reported.
//!
//! Owns counts in fixed steps of at most one part in 64. Promises that recording allocates nothing, because memory is
//! measured at the same time, and that the longest duration is exact.

/// Steps for each doubling.
const STEPS: usize = 64;

/// Durations in nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    most: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { counts: vec![0; STEPS * 60], count: 0, most: 0 }
    }

    /// Adds a duration.
    pub fn record(&mut self, ns: u64) {
        self.counts[step(ns)] += 1;
        self.count += 1;
        self.most = self.most.max(ns);
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    /// The longest duration.
    pub fn most(&self) -> f64 {
        self.most as f64
    }

    /// The duration that a fraction `part` of all durations, from 0 to 1, does not exceed.
    pub fn quantile(&self, part: f64) -> f64 {
        let rank = (self.count as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= rank
        };
        self.counts.iter().position(reached).map_or(f64::NAN, |at| value(at).min(self.most()))
    }
}

fn step(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let doubling = ns.ilog2() - STEPS.ilog2();
    (doubling as usize) * STEPS + (ns >> doubling) as usize
}

/// The middle of a step.
fn value(step: usize) -> f64 {
    if step < 2 * STEPS {
        return step as f64;
    }
    let doubling = step / STEPS - 1;
    ((STEPS + step % STEPS) as f64 + 0.5) * (1u64 << doubling) as f64
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn quantiles_are_right_to_one_part_in_64() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|ns| histogram.record(ns));
        for (part, right) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.9999, 99_990.0), (1e-5, 1.0)] {
            let found = histogram.quantile(part);
            assert!((found - right).abs() <= right / 64.0, "{part}: {found}, not {right}");
        }
        assert_eq!(histogram.most(), 100_000.0);
        histogram.record(u64::MAX);
        let (found, right) = (histogram.quantile(1.0), u64::MAX as f64);
        assert!((found - right).abs() <= right / 64.0, "{found}, not {right}");
        assert_eq!(histogram.most(), right);
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut one, mut other) = (Histogram::new(), Histogram::new());
        one.record(10);
        other.record(1_000);
        other.record(1_010);
        one.merge(&other);
        assert_eq!(one.quantile(0.3), 10.0);
        assert_eq!(one.most(), 1_010.0);
        assert!(one.quantile(0.6) > 980.0);
    }
}
