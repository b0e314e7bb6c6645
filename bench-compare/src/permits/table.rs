//! The result of this part: a Markdown table with one line for each load and rival.

use std::fmt::Write;
use std::time::Duration;

use super::rivals::Rival;
use crate::machine::Fact;

/// One round of one side.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Operations done.
    pub count: u64,
    /// How long they took.
    pub elapsed: Duration,
    /// The server's processor time.
    pub cpu: Duration,
}

/// One load, measured.
#[derive(Debug)]
pub struct Line {
    /// What was done.
    pub name: &'static str,
    /// The unit of its rates.
    pub unit: &'static str,
    /// What is aimed at.
    pub aim: &'static str,
    /// Each side's rounds; the first side is ours.
    pub sides: Vec<(Rival, Vec<Reading>)>,
}

/// The facts and the table.
pub fn markdown(facts: &[Fact], lines: &[Line]) -> String {
    let mut out = String::new();
    for (name, value) in facts {
        let _ = writeln!(out, "- {name}: {value}");
    }
    out.push_str(concat!(
        "\n| load | unit | rival | rival's | paceline's | ratio | aim ",
        "| CPU/op rival | CPU/op paceline | CPU ratio |\n",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    ));
    for line in lines {
        let Some(((_, ours), rivals)) = line.sides.split_first() else { continue };
        for (rival, theirs) in rivals {
            let (rate, cpu) = (rate(ours) / rate(theirs), cpu_us(theirs) / cpu_us(ours));
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | **{rate:.2}** | {} | {:.1} µs | {:.1} µs | **{cpu:.2}** |",
                line.name,
                line.unit,
                rival.name(),
                with_spread(theirs),
                with_spread(ours),
                line.aim,
                cpu_us(theirs),
                cpu_us(ours),
            );
        }
    }
    out.push_str(concat!(
        "\nMedian of the rounds, with half the distance between the lowest and the highest; ",
        "processor time is the server's alone, over all rounds. A ratio above 1 means Paceline is better.\n"
    ));
    out
}

fn rates(readings: &[Reading]) -> Vec<f64> {
    let mut rates: Vec<f64> =
        readings.iter().map(|one| one.count as f64 / one.elapsed.as_secs_f64()).collect();
    rates.sort_by(f64::total_cmp);
    rates
}

/// The median of the rates.
fn rate(readings: &[Reading]) -> f64 {
    let rates = rates(readings);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

fn with_spread(readings: &[Reading]) -> String {
    let rates = rates(readings);
    let spread = match (rates.first(), rates.last()) {
        (Some(low), Some(high)) => (high - low) / 2.0 / rate(readings) * 100.0,
        _ => f64::NAN,
    };
    format!("{:.0} ±{spread:.0}%", rate(readings))
}

/// Microseconds of processor time for one operation.
fn cpu_us(readings: &[Reading]) -> f64 {
    let cpu: Duration = readings.iter().map(|one| one.cpu).sum();
    let count: u64 = readings.iter().map(|one| one.count).sum();
    cpu.as_secs_f64() * 1e6 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_one_is_ours() {
        let reading = |count, ms| Reading {
            count,
            elapsed: Duration::from_secs(1),
            cpu: Duration::from_millis(ms),
        };
        let sides = vec![
            (Rival::Paceline, vec![reading(100, 1), reading(200, 2), reading(300, 3)]),
            (Rival::Redis, vec![reading(100, 2)]),
        ];
        let text = markdown(&[], &[Line { name: "n", unit: "u", aim: "1", sides }]);
        let expected =
            "| n | u | redis | 100 ±0% | 200 ±50% | **2.00** | 1 | 20.0 µs | 10.0 µs | **2.00** |";
        assert!(text.contains(expected), "{text}");
    }
}
