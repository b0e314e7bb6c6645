//! Runs rounds, and keeps their figures for the report.
//!
//! A load reports how often a round repeats its operation and how long that took. Preparing and cleaning up between
//! rounds is not timed. One round before the first is discarded.

use crate::Outcome;
use std::time::{Duration, Instant};

/// Rounds that count. With many short rounds, most of them escape other work of the machine.
pub const ROUNDS: usize = 15;

/// What is measured.
#[derive(Clone, Copy)]
pub struct Load {
    /// Its name.
    pub name: &'static str,
    /// What one operation is.
    pub operation: &'static str,
    /// What the sizes count.
    pub of: &'static str,
    /// The unit of the figure.
    pub unit: Unit,
}

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds for one operation.
    Nanoseconds,
    /// Megabytes a second; an operation is one byte.
    Megabytes,
    /// Bytes of memory for one of the items that the sizes count.
    Bytes,
}

/// One figure of the report.
pub struct Line {
    /// What was measured.
    pub load: Load,
    /// On how much data.
    pub size: usize,
    /// The figure of each round, in nanoseconds for one operation or in bytes, sorted.
    pub rounds: Vec<f64>,
}

impl Line {
    /// The figure of the middle round.
    pub fn median(&self) -> f64 {
        self.rounds.get(self.rounds.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Collects lines.
pub struct Bench {
    only: String,
    /// Whether to run loads that take minutes or gigabytes, too.
    pub big: bool,
    lines: Vec<Line>,
}

impl Bench {
    /// For loads whose name contains `only`.
    pub fn new(only: String, big: bool) -> Self {
        Self { only, big, lines: Vec::new() }
    }

    /// Whether any of these loads is selected, so that data is not prepared for nothing.
    pub fn wants(&self, loads: &[Load]) -> bool {
        loads.iter().any(|load| load.name.contains(&self.only))
    }

    /// Measures a load: each call of `round` returns a duration and the number of operations.
    pub fn run(
        &mut self,
        load: Load,
        size: usize,
        mut round: impl FnMut() -> Outcome<(Duration, usize)>,
    ) -> Outcome<()> {
        if !self.wants(&[load]) {
            return Ok(());
        }
        round()?;
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            rounds.push(each(round()?));
        }
        self.record(load, size, rounds);
        Ok(())
    }

    /// Adds figures that a load measured itself: one for each round, or a single one.
    pub fn record(&mut self, load: Load, size: usize, mut rounds: Vec<f64>) {
        if self.wants(&[load]) {
            rounds.sort_by(f64::total_cmp);
            self.lines.push(Line { load, size, rounds });
        }
    }

    /// The figures so far, grouped by load.
    pub fn lines(&mut self) -> &[Line] {
        let order: Vec<&str> = self.lines.iter().map(|line| line.load.name).collect();
        self.lines.sort_by_key(|line| order.iter().position(|name| *name == line.load.name));
        &self.lines
    }
}

/// Nanoseconds for one operation.
pub fn each((time, operations): (Duration, usize)) -> f64 {
    time.as_nanos() as f64 / operations as f64
}

/// How long `work` took.
pub fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begin = Instant::now();
    let answer = std::hint::black_box(work());
    (begin.elapsed(), answer)
}
