//! The result of this part: a table of speed and cost, and a table of figures with required values.
//!
//! A side that was not measured, or does not support the load, is shown as a dash.

use std::fmt::Write;

use super::proxy::Kind;
use crate::machine::Fact;
use crate::turn::{Turn, cpu_ratio, cpu_us_median, rate, with_spread};

/// The measurements of one load about speed.
#[derive(Debug)]
pub struct Speed {
    /// What was done.
    pub name: String,
    /// The target ratio of processor time.
    pub aim: &'static str,
    /// Each side's turns.
    pub sides: Vec<(Kind, Vec<Turn>)>,
}

/// A figure with a required value, read one or more times.
#[derive(Debug)]
pub struct Figure {
    /// What was done, and what is read.
    pub name: &'static str,
    /// The target.
    pub aim: &'static str,
    /// Whether a reading meets the target; none if the figure is only informative.
    pub holds: Option<fn(f64) -> bool>,
    /// Decimal places.
    pub digits: usize,
    /// Each side's readings.
    pub sides: Vec<(Kind, Vec<f64>)>,
}

/// The results of a load.
#[derive(Debug, Default)]
pub struct Found {
    /// Lines of the first table.
    pub speeds: Vec<Speed>,
    /// Lines of the second one.
    pub figures: Vec<Figure>,
}

/// The facts, both tables, and the failures.
pub fn markdown(facts: &[Fact], found: &Found, failed: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (name, value) in facts {
        let _ = writeln!(out, "- {name}: {value}");
    }
    if !found.speeds.is_empty() {
        write_speeds(&mut out, &found.speeds);
    }
    if !found.figures.is_empty() {
        write_figures(&mut out, &found.figures);
    }
    for (name, error) in failed {
        let _ = writeln!(out, "\n{name} failed: {error}");
    }
    out
}

fn write_speeds(out: &mut String, speeds: &[Speed]) {
    out.push_str(concat!(
        "\n| load | peer | requests/s peer | requests/s paceline | ratio ",
        "| CPU/request peer | CPU/request paceline | CPU ratio | aim |\n",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    ));
    for speed in speeds {
        let ours = speed.sides.iter().find(|(kind, _)| *kind == Kind::Paceline);
        let ours = ours.map(|(_, turns)| turns.as_slice());
        for (kind, theirs) in speed.sides.iter().filter(|(kind, _)| *kind != Kind::Paceline) {
            let or_dash = |write: &dyn Fn(&[Turn]) -> String| ours.map_or("-".into(), write);
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {:.1} µs | {} | {} | {} |",
                speed.name,
                kind.name(),
                with_spread(theirs),
                or_dash(&with_spread),
                or_dash(&|ours| format!("{:.2}", rate(ours) / rate(theirs))),
                cpu_us_median(theirs),
                or_dash(&|ours| format!("{:.1} µs", cpu_us_median(ours))),
                or_dash(&|ours| format!("**{:.2}**", cpu_ratio(theirs, ours))),
                speed.aim,
            );
        }
    }
    out.push_str(concat!(
        "\nMedian of the rounds, with half the distance between the lowest and the highest; processor ",
        "time is that of all the proxy's processes, and its ratio the median of the rounds' ratios. ",
        "A ratio above 1 means Paceline is better.\n"
    ));
}

fn write_figures(out: &mut String, figures: &[Figure]) {
    let kinds = [Kind::Paceline, Kind::Haproxy, Kind::Nginx];
    out.push_str("\n| figure | aim | paceline | haproxy | nginx |\n");
    out.push_str("| --- | ---: | ---: | ---: | ---: |\n");
    for figure in figures {
        let _ = write!(out, "| {} | {} |", figure.name, figure.aim);
        for kind in kinds {
            let _ = write!(out, " {} |", figure.text(kind));
        }
        out.push('\n');
    }
    out.push_str(concat!(
        "\nEvery round's reading; **bold** holds what is aimed at, ~~struck~~ does not. ",
        "A dash: has no such thing, or was not measured.\n"
    ));
}

impl Figure {
    /// The text of a side's readings in the table.
    fn text(&self, kind: Kind) -> String {
        let found = self.sides.iter().find(|(side, _)| *side == kind);
        let Some((_, readings)) = found.filter(|(_, readings)| !readings.is_empty()) else {
            return "-".into();
        };
        let digits = self.digits;
        let each: Vec<String> =
            readings.iter().map(|reading| format!("{reading:.digits$}")).collect();
        let text = if each.iter().all(|one| Some(one) == each.first()) {
            each.into_iter().next().unwrap_or_default()
        } else {
            each.join(", ")
        };
        match self.holds {
            None => text,
            Some(holds) if readings.iter().all(|&reading| holds(reading)) => format!("**{text}**"),
            Some(_) => format!("~~{text}~~"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn turn(count: u64, ms: u64) -> Turn {
        Turn { count, elapsed: Duration::from_secs(1), cpu: Duration::from_millis(ms) }
    }

    #[test]
    fn a_ratio_above_one_is_ours_and_a_missing_side_a_dash() {
        let peer = (Kind::Haproxy, vec![turn(100, 2)]);
        let both = vec![(Kind::Paceline, vec![turn(200, 2)]), peer.clone()];
        let speeds = [both, vec![peer]]
            .map(|sides| Speed { name: "n".into(), aim: "1.0", sides })
            .into_iter()
            .collect();
        let text = markdown(&[], &Found { speeds, figures: vec![] }, &[("x", "why".into())]);
        let row = "| n | haproxy | 100 ±0% | 200 ±0% | 2.00 | 20.0 µs | 10.0 µs | **2.00** | 1.0 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| n | haproxy | 100 ±0% | - | - | 20.0 µs | - | - | 1.0 |"),
            "{text}"
        );
        assert!(text.ends_with("\nx failed: why\n"), "{text}");
    }

    #[test]
    fn one_reading_that_misses_is_a_miss() {
        let sides = vec![
            (Kind::Paceline, vec![10.0, 10.0]),
            (Kind::Haproxy, vec![10.0, 11.0]),
            (Kind::Nginx, vec![]),
        ];
        let holds: Option<fn(f64) -> bool> = Some(|most| most <= 10.0);
        let figure = Figure { name: "most", aim: "10", holds, digits: 0, sides };
        let text = markdown(&[], &Found { speeds: vec![], figures: vec![figure] }, &[]);
        assert!(text.contains("| most | 10 | **10** | ~~10, 11~~ | - |"), "{text}");
    }
}
