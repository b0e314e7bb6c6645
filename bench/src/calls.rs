//! Times single calls, so that the slowest one is known.
//!
//! If the machine does other work in the middle of a call, the call looks slow. So each call is timed by two clocks:
//! wall time and the CPU time of the thread. Reading the latter is a system call, whose own cost is measured first
//! and subtracted.

use crate::histogram::Histogram;
use crate::measure::{Bench, Load};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The times of many calls.
pub struct Calls {
    /// Wall time.
    pub wall: Histogram,
    /// CPU time of the thread.
    pub cpu: Histogram,
    /// CPU time of all calls.
    taken: Duration,
    /// The CPU time that reading the clocks adds to a call.
    reading: Duration,
}

impl Calls {
    /// No calls yet.
    pub fn new() -> Self {
        let (wall, cpu) = (Histogram::new(), Histogram::new());
        let mut calls = Self { wall, cpu, taken: Duration::ZERO, reading: Duration::ZERO };
        for _ in 0..10_000 {
            calls.call(|| ());
        }
        let reading = Duration::from_nanos(calls.cpu.quantile(0.5) as u64);
        Self { wall: Histogram::new(), cpu: Histogram::new(), taken: Duration::ZERO, reading }
    }

    /// Makes and times a call.
    pub fn call<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let cpu = cpu_time();
        let begin = Instant::now();
        let answer = std::hint::black_box(work());
        let wall = begin.elapsed();
        let cpu = (cpu_time() - cpu).saturating_sub(self.reading);
        self.taken += cpu;
        self.wall.record(nanoseconds(wall));
        self.cpu.record(nanoseconds(cpu));
        answer
    }

    /// The CPU time of all calls since the last call of this function.
    pub fn take_taken(&mut self) -> Duration {
        std::mem::take(&mut self.taken)
    }

    /// Adds the slowest call to the report, by both clocks.
    pub fn record(&self, bench: &mut Bench, size: usize, [wall, cpu]: [Load; 2]) {
        bench.record(wall, size, vec![self.wall.most()]);
        bench.record(cpu, size, vec![self.cpu.most()]);
    }
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or(0))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
