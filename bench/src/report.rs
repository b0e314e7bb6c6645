//! The result: a Markdown table for people, JSON for programs.

use crate::measure::{Line, Unit};
use paceline_tables::json::Json;
use std::fmt::Write as _;

/// A table with one line for each load and size, preceded by a list that describes the operations.
pub fn table(lines: &[Line]) -> String {
    let mut out = String::new();
    let mut rows = vec![["load", "size", "one operation", "spread", "growth"].map(String::from)];
    for (line, first) in lines.iter().zip(firsts(lines)) {
        if std::ptr::eq(line, first) {
            let _ = writeln!(out, "- {}: {}", line.load.name, line.load.operation);
        }
        rows.push([
            line.load.name.to_owned(),
            counted(line.size, line.load.of),
            figure(line),
            spread(line),
            format!("{:.1}", line.median() / first.median()),
        ]);
    }
    out.push('\n');
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for (number, row) in rows.iter().enumerate() {
        let _ = write!(out, "| {:<1$} ", row[0], widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            let _ = write!(out, "| {cell:>width$} ");
        }
        out.push_str("|\n");
        if number == 0 {
            let _ = write!(out, "| {} ", "-".repeat(widths[0]));
            for width in &widths[1..] {
                let _ = write!(out, "| {}: ", "-".repeat(width - 1));
            }
            out.push_str("|\n");
        }
    }
    out
}

/// The same for programs.
pub fn json(lines: &[Line]) -> String {
    let one = |(line, first): (&Line, &Line)| {
        let round = |at: usize| Json::Real(line.rounds.get(at).copied().unwrap_or(0.0));
        let [median, least, most] = match line.load.unit {
            Unit::Bytes => ["bytes_median", "bytes_least", "bytes_most"],
            _ => ["ns_median", "ns_least", "ns_most"],
        };
        Json::object([
            ("load", Json::string(line.load.name)),
            ("operation", Json::string(line.load.operation)),
            ("size", Json::Integer(i64::try_from(line.size).unwrap_or(i64::MAX))),
            ("of", Json::string(line.load.of)),
            (median, Json::Real(line.median())),
            (least, round(0)),
            (most, round(line.rounds.len().saturating_sub(1))),
            ("growth", Json::Real(line.median() / first.median())),
        ])
    };
    let lines = lines.iter().zip(firsts(lines)).map(one).collect();
    let mut text = Json::object([("lines", Json::Array(lines))]).to_text();
    text.push('\n');
    text
}

/// For each line, the line of the same load at the first size.
fn firsts(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines
        .chunk_by(|a, b| a.load.name == b.load.name)
        .flat_map(|group| group.iter().map(|_| &group[0]))
}

/// Half of the range between the least and the greatest figure; a single figure has none.
fn spread(line: &Line) -> String {
    match line.rounds.as_slice() {
        [least, .., most] => format!("±{:.0} %", (most - least) / 2.0 / line.median() * 100.0),
        _ => String::new(),
    }
}

fn figure(line: &Line) -> String {
    let ns = line.median();
    match line.load.unit {
        Unit::Bytes => format!("{ns:.1} bytes"),
        Unit::Megabytes => format!("{:.0} MB/s", 1e3 / ns),
        Unit::Nanoseconds if ns < 10.0 => format!("{ns:.1} ns"),
        Unit::Nanoseconds if ns < 10_000.0 => format!("{ns:.0} ns"),
        Unit::Nanoseconds if ns < 10_000_000.0 => format!("{:.1} us", ns / 1e3),
        Unit::Nanoseconds => format!("{:.1} ms", ns / 1e6),
    }
}

/// `1 row`, `1,000 rows`.
fn counted(size: usize, of: &str) -> String {
    let of = if size == 1 { of.trim_end_matches('s') } else { of };
    format!("{} {of}", thousands(size))
}

/// `1,000` for 1000.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Load;

    fn line(name: &'static str, size: usize, ns: f64) -> Line {
        let load = Load { name, operation: "one step", of: "rows", unit: Unit::Nanoseconds };
        Line { load, size, rounds: vec![ns / 2.0, ns, ns * 2.0] }
    }

    #[test]
    fn growth_is_against_the_first_size_of_the_same_load() {
        let lines = [line("a", 1, 100.0), line("a", 1000, 250.0), line("b", 1, 20_000.0)];
        let text = table(&lines);
        let rows: Vec<&str> = text.lines().filter(|row| row.starts_with("| ")).collect();
        assert_eq!(rows[2], "| a    |      1 row |        100 ns |  ±75 % |    1.0 |");
        assert_eq!(rows[3], "| a    | 1,000 rows |        250 ns |  ±75 % |    2.5 |");
        assert_eq!(rows[4], "| b    |      1 row |       20.0 us |  ±75 % |    1.0 |");
        assert!(text.starts_with("- a: one step\n- b: one step\n\n"));
        assert!(json(&lines).contains("\"growth\":2.5,\"load\":\"a\",\"ns_least\":125"));
    }
}
