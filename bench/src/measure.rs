//! Rounds, medians and the lines they end in.
//!
//! A load says how often a round repeats its operation and how long that took; preparing and
//! tidying up between rounds is not timed. One round before the first is thrown away.

use crate::Outcome;
use std::time::{Duration, Instant};

/// Rounds that count. Many short ones: most of them then escape whatever else the machine does.
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
    /// How the figure is told.
    pub unit: Unit,
}

/// How a figure is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds for one operation.
    Nanoseconds,
    /// Megabytes a second; an operation is one byte.
    Megabytes,
    /// Bytes of memory for one of what the sizes count.
    Bytes,
}

/// One figure of the report.
pub struct Line {
    /// What was measured.
    pub load: Load,
    /// On how much data.
    pub size: usize,
    /// The figure of each round in nanoseconds for one operation, or in bytes; sorted.
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
    /// Whether to run what takes minutes or gigabytes, too.
    pub big: bool,
    lines: Vec<Line>,
}

impl Bench {
    /// For loads whose name contains `only`.
    pub fn new(only: String, big: bool) -> Self {
        Self { only, big, lines: Vec::new() }
    }

    /// Whether any of these loads was asked for, so that its data need not be made for nothing.
    pub fn wants(&self, loads: &[Load]) -> bool {
        loads.iter().any(|load| load.name.contains(&self.only))
    }

    /// Measures: each call of `round` answers how long how many operations took.
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

    /// Takes figures that a load measured by itself: one for each round, or a single one.
    pub fn record(&mut self, load: Load, size: usize, mut rounds: Vec<f64>) {
        if self.wants(&[load]) {
            rounds.sort_by(f64::total_cmp);
            self.lines.push(Line { load, size, rounds });
        }
    }

    /// The figures so far, those of one load together.
    pub fn lines(&mut self) -> &[Line] {
        let order: Vec<&str> = self.lines.iter().map(|line| line.load.name).collect();
        self.lines.sort_by_key(|line| order.iter().position(|name| *name == line.load.name));
        &self.lines
    }
}

/// Nanoseconds for one of so many operations.
pub fn each((time, operations): (Duration, usize)) -> f64 {
    time.as_nanos() as f64 / operations as f64
}

/// How long `work` took.
pub fn time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begin = Instant::now();
    let answer = std::hint::black_box(work());
    (begin.elapsed(), answer)
}
