//! The result of this part: a Markdown table with one line for each load and rival.

use std::fmt::Write;

use super::rivals::Rival;
use crate::machine::Fact;
use crate::turn::{Turn, cpu_us, rate, with_spread};

/// The measurements of one load.
#[derive(Debug)]
pub struct Line {
    /// What was done.
    pub name: &'static str,
    /// The unit of its rates.
    pub unit: &'static str,
    /// The target.
    pub aim: &'static str,
    /// Each side's rounds; the first side is Paceline.
    pub sides: Vec<(Rival, Vec<Turn>)>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_ratio_above_one_is_ours() {
        let turn = |count, ms| Turn {
            count,
            elapsed: Duration::from_secs(1),
            cpu: Duration::from_millis(ms),
        };
        let sides = vec![
            (Rival::Paceline, vec![turn(100, 1), turn(200, 2), turn(300, 3)]),
            (Rival::Redis, vec![turn(100, 2)]),
        ];
        let text = markdown(&[], &[Line { name: "n", unit: "u", aim: "1", sides }]);
        let expected =
            "| n | u | redis | 100 ±0% | 200 ±50% | **2.00** | 1 | 20.0 µs | 10.0 µs | **2.00** |";
        assert!(text.contains(expected), "{text}");
    }
}
