//! One side's turn in a round, and the results of many turns: the median rate, its spread, the cost.

use std::time::Duration;

/// The work of one side in its turn.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Operations done.
    pub count: u64,
    /// How long they took.
    pub elapsed: Duration,
    /// The server's processor time.
    pub cpu: Duration,
}

/// The median of the rates.
pub fn rate(turns: &[Turn]) -> f64 {
    median(rates(turns))
}

/// The median, and half the difference between the lowest and the highest.
pub fn with_spread(turns: &[Turn]) -> String {
    let rates = rates(turns);
    let spread = match (rates.first(), rates.last()) {
        (Some(low), Some(high)) => (high - low) / 2.0 / rate(turns) * 100.0,
        _ => f64::NAN,
    };
    format!("{:.0} ±{spread:.0}%", rate(turns))
}

/// Microseconds of processor time for one operation, over all turns, because the kernel counts in ticks.
pub fn cpu_us(turns: &[Turn]) -> f64 {
    let cpu: Duration = turns.iter().map(|one| one.cpu).sum();
    let count: u64 = turns.iter().map(|one| one.count).sum();
    cpu.as_secs_f64() * 1e6 / count as f64
}

/// The median of the microseconds for one operation, for turns that are long compared with a tick. Other work on the
/// machine during one turn does not affect it.
pub fn cpu_us_median(turns: &[Turn]) -> f64 {
    median(turns.iter().map(Turn::cpu_us).collect())
}

/// The median of the ratio of both sides' costs for one operation, round by round.
pub fn cpu_ratio(these: &[Turn], those: &[Turn]) -> f64 {
    median(these.iter().zip(those).map(|(this, that)| this.cpu_us() / that.cpu_us()).collect())
}

impl Turn {
    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let above = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    let below = values.len().checked_sub(1).and_then(|last| values.get(last / 2));
    below.map_or(above, |below| (above + below) / 2.0)
}

fn rates(turns: &[Turn]) -> Vec<f64> {
    let mut rates: Vec<f64> =
        turns.iter().map(|one| one.count as f64 / one.elapsed.as_secs_f64()).collect();
    rates.sort_by(f64::total_cmp);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disturbed_round_does_not_count() {
        let turns = |costs: [u64; 3]| {
            let elapsed = Duration::from_secs(1);
            costs.map(|ms| Turn { count: 1000, elapsed, cpu: Duration::from_millis(ms) })
        };
        let (these, those) = (turns([30, 20, 900]), turns([10, 10, 300]));
        assert_eq!(cpu_us_median(&these), 30.0);
        assert_eq!(cpu_ratio(&these, &those), 3.0);
        assert_eq!(median(vec![1.0, 4.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }
}
