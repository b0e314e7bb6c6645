//! The printed result: a Markdown table for people, JSON for programs.
//!
//! Owns medians, spreads, ratios and the format of figures. A ratio above 1 always means that Paceline is better,
//! whether higher or lower figures are better. It measures nothing.

use std::fmt::Write;

use crate::machine::Fact;
use crate::rounds::{Better, Line, Reading};
use crate::server::Side;

/// A load that could not be measured.
pub type Failed = (&'static str, String);

/// The Markdown page: facts, table, and failures.
pub fn markdown(facts: &[Fact], lines: &[Line], failed: &[Failed]) -> String {
    let mut out = String::new();
    for (name, value) in facts {
        let _ = writeln!(out, "- {name}: {value}");
    }
    out.push_str(concat!(
        "\n| load | unit | ovsdb-server | paceline | ratio | aim ",
        "| CPU/op ovsdb-server | CPU/op paceline | CPU ratio |\n",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    ));
    for line in lines {
        markdown_line(&mut out, line);
    }
    out.push_str(concat!(
        "\nMedian of the rounds, with half the distance between the lowest and the highest; ",
        "a ratio above 1 means Paceline is better. Lines without an aim only inform.\n"
    ));
    for (load, why) in failed {
        let _ = writeln!(out, "\n{load} failed: {why}");
    }
    out
}

fn markdown_line(out: &mut String, line: &Line) {
    let (rival, ours) = (line.of(Side::OvsdbServer), line.of(Side::Paceline));
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        line.spec.name,
        line.spec.unit,
        with_spread(rival),
        with_spread(ours),
        or_dash(ratio(line), |r| format!("**{}**", figure(r))),
        or_dash(line.spec.aim, figure),
        or_dash(cpu_per_op(rival), cpu_text),
        or_dash(cpu_per_op(ours), cpu_text),
        or_dash(cpu_ratio(line), figure),
    );
}

/// The JSON text: facts, every reading in order, medians and ratios.
pub fn json(facts: &[Fact], lines: &[Line], failed: &[Failed]) -> String {
    let mut out = String::from("{\"machine\":{");
    list(&mut out, facts, |out, (name, value)| {
        let _ = write!(out, "{}:{}", quoted(name), quoted(value));
    });
    out.push_str("},\"lines\":[");
    list(&mut out, lines, json_line);
    out.push_str("],\"failed\":{");
    list(&mut out, failed, |out, (load, why)| {
        let _ = write!(out, "{}:{}", quoted(load), quoted(why));
    });
    out.push_str("}}\n");
    out
}

fn json_line(out: &mut String, line: &Line) {
    let spec = &line.spec;
    let _ = write!(out, "\n{{\"load\":{},\"unit\":{}", quoted(&spec.name), quoted(spec.unit));
    for (name, value) in [("ratio", ratio(line)), ("aim", spec.aim), ("cpu_ratio", cpu_ratio(line))]
    {
        if let Some(value) = value {
            let _ = write!(out, ",\"{name}\":{value}");
        }
    }
    for (side, readings) in &line.readings {
        let _ = write!(out, ",{}:{{\"rounds\":[", quoted(side.name()));
        list(out, readings, |out, reading| {
            let _ = write!(out, "{}", reading.value);
        });
        out.push(']');
        if let Some((median, _)) = summary(readings) {
            let _ = write!(out, ",\"median\":{median}");
        }
        if let Some(cpu) = cpu_per_op(readings) {
            let _ = write!(out, ",\"cpu_seconds_per_op\":{cpu}");
        }
        out.push('}');
    }
    out.push('}');
}

fn list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item);
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// The median, and half the range as a fraction of it.
fn summary(readings: &[Reading]) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = readings.iter().map(|reading| reading.value).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.first()?, values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    };
    let spread = if median == 0.0 { 0.0 } else { (high - low) / 2.0 / median };
    Some((median, spread))
}

fn with_spread(readings: &[Reading]) -> String {
    match summary(readings) {
        Some((median, _)) if readings.len() == 1 => figure(median),
        Some((median, spread)) => format!("{} ±{:.0}%", figure(median), spread * 100.0),
        None => "-".into(),
    }
}

/// How many times better Paceline is.
fn ratio(line: &Line) -> Option<f64> {
    let (rival, _) = summary(line.of(Side::OvsdbServer))?;
    let (ours, _) = summary(line.of(Side::Paceline))?;
    let ratio = match line.spec.better {
        Better::Higher => ours / rival,
        Better::Lower => rival / ours,
    };
    ratio.is_finite().then_some(ratio)
}

fn cpu_ratio(line: &Line) -> Option<f64> {
    let ratio = cpu_per_op(line.of(Side::OvsdbServer))? / cpu_per_op(line.of(Side::Paceline))?;
    ratio.is_finite().then_some(ratio)
}

/// Seconds of CPU for one operation over all rounds. They are added up first, because the kernel counts in ticks.
fn cpu_per_op(readings: &[Reading]) -> Option<f64> {
    let (mut seconds, mut ops) = (0.0, 0.0);
    for (cpu, count) in readings.iter().filter_map(|reading| reading.cpu) {
        seconds += cpu.as_secs_f64();
        ops += count;
    }
    (ops > 0.0).then(|| seconds / ops)
}

fn cpu_text(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{} µs", figure(s * 1e6)),
        s => format!("{} ms", figure(s * 1e3)),
    }
}

fn or_dash(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".into(), write)
}

/// Three significant digits, with a separator for thousands.
fn figure(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => {
            let digits = format!("{v:.0}");
            let mut out = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) {
                    out.push(',');
                }
                out.push(digit);
            }
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Spec;
    use std::time::Duration;

    fn line(spec: Spec, rival: &[f64], ours: &[f64]) -> Line {
        let cpu = Some((Duration::from_micros(20), 2.0));
        let readings =
            |values: &[f64]| values.iter().map(|&value| Reading { value, cpu }).collect();
        let readings = vec![(Side::OvsdbServer, readings(rival)), (Side::Paceline, readings(ours))];
        Line { spec, readings }
    }

    #[test]
    fn above_one_is_better_for_rates_and_for_times() {
        let rate = line(Spec::rate("r", "x/s", 3.0), &[90.0, 100.0, 120.0], &[400.0]);
        let time = line(Spec::cost("t", "ms", 3.0), &[100.0, 300.0], &[50.0]);
        assert_eq!((ratio(&rate), ratio(&time)), (Some(4.0), Some(4.0)));
        let table = markdown(&[], &[rate], &[]);
        let row = "| r | x/s | 100 ±15% | 400 | **4.00** | 3.00 | 10.0 µs | 10.0 µs | 1.00 |";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn a_missing_side_is_a_dash() {
        let alone = line(Spec::rate("r", "x/s", 3.0).extra(), &[12345.6], &[]);
        let table = markdown(&[], &[alone], &[("stall", "no answer".into())]);
        assert!(table.contains("| r | x/s | 12,346 | - | - | - | 10.0 µs | - | - |"), "{table}");
        assert!(table.contains("stall failed: no answer"), "{table}");
    }

    #[test]
    fn json_holds_every_round() {
        let one = line(Spec::rate("a \"b\"", "x/s", 3.0), &[1.0, 2.0], &[3.0]);
        let text = json(&[("kernel", "6\n".into())], &[one], &[]);
        assert!(text.starts_with(r#"{"machine":{"kernel":"6\u000a"},"lines":["#), "{text}");
        assert!(text.contains(r#""load":"a \"b\"","unit":"x/s","ratio":2,"aim":3"#), "{text}");
        assert!(text.contains(r#""ovsdb-server":{"rounds":[1,2],"median":1.5"#), "{text}");
    }
}
