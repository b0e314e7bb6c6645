//! Facts about the machine that produced the figures: processors, kernel, memory, versions.
//!
//! Reads what the kernel and the binaries report about themselves. A fact that cannot be determined is "unknown",
//! never a reason to fail.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::floor;
use crate::rounds::Bench;

/// A named fact.
pub type Fact = (&'static str, String);

/// The facts above the table.
pub fn facts(bench: &Bench) -> Vec<Fact> {
    let mut facts = machine();
    for &side in &bench.options.sides {
        let version = version(bench.binaries.of(side)).unwrap_or_else(unknown);
        facts.push((side.name(), version));
    }
    let floor = floor::round_trips_per_second();
    let floor = floor.map_or_else(|_| unknown(), |rate| format!("{rate:.0} round trips/s"));
    facts.push(("bare unix socket, one at a time", floor));
    facts.push(("load average before the run", bench.load_before.clone()));
    let (rounds, round) = (bench.options.rounds, bench.options.round.as_millis());
    let kind = if bench.options.quick { ", quick" } else { "" };
    facts.push(("rounds", format!("{rounds} of about {round} ms each{kind}")));
    facts
}

/// The facts about the machine itself.
pub fn machine() -> Vec<Fact> {
    vec![
        ("processors", processors()),
        ("memory", memory().unwrap_or_else(unknown)),
        ("kernel", first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown)),
        ("system", system().unwrap_or_else(unknown)),
    ]
}

/// The load average of the last minute, which should be near 0 for reliable figures.
pub fn load() -> String {
    let line = first_line("/proc/loadavg");
    let first = line.as_deref().and_then(|line| line.split_whitespace().next());
    first.map_or_else(unknown, String::from)
}

fn processors() -> String {
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|rest| rest.split_once(':')).map_or("unknown", |(_, m)| m.trim());
    format!("{count} ({model})")
}

fn memory() -> Option<String> {
    let kib: u64 = first_line("/proc/meminfo")?.split_whitespace().nth(1)?.parse().ok()?;
    Some(format!("{} GB", kib * 1024 / 1_000_000_000))
}

fn system() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_string())
}

/// The first line of a program's version output.
pub fn version(binary: &Path) -> Option<String> {
    let output = Command::new(binary).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(String::from)
}

fn first_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().next().map(String::from)
}

/// The value of a fact that cannot be determined.
pub fn unknown() -> String {
    "unknown".into()
}
