//! What the kernel reports about a server process: CPU time and memory, from /proc.
//!
//! Only reads. CPU time includes threads that have ended. It is counted in clock ticks (10 ms), so callers add up
//! rounds before they divide.

use std::fs;
use std::time::Duration;

use crate::failure::{Failure, Outcome};

/// The user and system time `pid` has used so far.
pub fn cpu(pid: u32) -> Outcome<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(|e| Failure::io(&path, &e))?;
    cpu_ticks(&text)
        .map(|ticks| {
            Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        })
        .ok_or_else(|| Failure::new(format!("{path}: not understood")))
}

/// `pid` and all its descendants.
pub fn tree(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|child| Some((child, parent(child)?)))
        .collect();
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(&one) = all.get(at) {
        all.extend(parents.iter().filter(|(_, parent)| *parent == one).map(|(child, _)| child));
        at += 1;
    }
    all
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// Whether `pid` is still running. A process that has ended and was not waited for yet is not.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, fields)| fields.trim_start());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// The name of the program is in parentheses and may contain anything, so fields are counted from the last
/// parenthesis: utime and stime are the 12th and 13th after it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Everything mapped and present.
    pub resident: u64,
    /// The same, with shared pages divided among the processes that share them.
    pub proportional: u64,
}

/// The memory `pid` uses now.
pub fn memory(pid: u32) -> Outcome<Memory> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).map_err(|e| Failure::io(&path, &e))?;
    parse_memory(&text).ok_or_else(|| Failure::new(format!("{path}: not understood")))
}

fn parse_memory(text: &str) -> Option<Memory> {
    let kib = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some(Memory { resident: kib("Rss:")? * 1024, proportional: kib("Pss:")? * 1024 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 70 30 0 0 20 0";
        assert_eq!(cpu_ticks(stat), Some(100));
        assert_eq!(cpu_ticks("12 (a) S 1"), None);
    }

    #[test]
    fn a_child_is_in_the_tree_of_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = tree(std::process::id());
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(tree.first(), Some(&std::process::id()));
        assert!(tree.contains(&child.id()), "{tree:?}");
    }

    #[test]
    fn the_rollup_is_read_in_kib() {
        let text = "00-ff ---p 0 0 [rollup]\nRss:    20 kB\nPss:   15 kB\nPss_Dirty: 3 kB\n";
        assert_eq!(parse_memory(text), Some(Memory { resident: 20480, proportional: 15360 }));
        assert_eq!(parse_memory("Rss: 20 kB\n"), None);
    }
}
