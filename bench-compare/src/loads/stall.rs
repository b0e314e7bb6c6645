//! How long other clients wait: the slowest echo of an idle client while the server does something large.
//!
//! A prober sends an echo every millisecond. When one response takes long, the echoes that would have been sent
//! meanwhile would have waited too, so they are added with their share of the wait. Otherwise a stall of a second
//! would be one slow sample among many.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::data::{self, LARGE_TABLE_ROWS};
use crate::failure::{Failure, Outcome};
use crate::file;
use crate::pipeline;
use crate::rounds::{Bench, Kind, Line, Reading, Spec};
use crate::server::Server;
use crate::wire::Connection;

const PACE: Duration = Duration::from_millis(1);
/// Time before and after the watched work, in case it begins early or ends late.
const MARGIN: Duration = Duration::from_millis(50);
/// Rows that are changed before each compaction, so that there is something to compact.
const CHANGED_ROWS: usize = 1000;
const MONITOR: &[u8] = br#"{"id":1,"method":"monitor","params":["Bench","m",{"Item":{}}]}"#;
const ECHO: &[u8] = br#"{"id":"e","method":"echo","params":["x"]}"#;

/// Nothing, compaction, then an initial monitor.
pub fn run(bench: &Bench) -> Outcome<Vec<Line>> {
    let servers = bench.servers_on(&bench.large_file(LARGE_TABLE_ROWS, 0)?)?;
    let mut lines = bench.rounds(Kind::Short, idle_specs(), |side| {
        let probed = probe(servers.of(side)?, |_| {
            sleep(Duration::from_millis(300));
            Ok(())
        })?;
        Ok(probed.readings().into_iter().take(1).collect())
    })?;
    let changed: Vec<String> = (0..CHANGED_ROWS).map(file::uuid).collect();
    let mut turn = 0;
    lines.extend(bench.rounds(Kind::Long, specs("compaction"), |side| {
        turn += 1;
        let server = servers.of(side)?;
        pipeline::send(server.connect()?, &data::updates(&changed, turn), 16)?;
        Ok(probe(server, Server::compact)?.readings())
    })?);
    lines.extend(bench.rounds(Kind::Long, specs("initial monitor"), |side| {
        Ok(probe(servers.of(side)?, initial_monitor)?.readings())
    })?);
    servers.stop()?;
    Ok(lines)
}

fn idle_specs() -> Vec<Spec> {
    vec![Spec::cost("worst echo with nothing else going on", "ms", 1.0).extra()]
}

fn specs(what: &str) -> Vec<Spec> {
    vec![
        Spec::cost(format!("worst echo during {what}, 100k rows"), "ms", 3.0),
        Spec::cost(format!("99th percentile of echo during {what}"), "ms", 3.0).extra(),
        Spec::cost(format!("time of {what}, 100k rows"), "ms", 3.0).extra(),
    ]
}

fn initial_monitor(server: &Server) -> Outcome<()> {
    let len = server.connect()?.call_discarding(MONITOR)?;
    if len < LARGE_TABLE_ROWS * 200 {
        return Err(Failure::new(format!("the initial rows came in {len} bytes")));
    }
    Ok(())
}

/// What a prober measured during some work.
#[derive(Debug)]
struct Probed {
    /// The time of every echo, including those that would have waited behind a slow one; sorted.
    echoes: Vec<Duration>,
    took: Duration,
}

impl Probed {
    /// The maximum, the 99th percentile, and the duration of the watched work.
    fn readings(&self) -> Vec<Reading> {
        let worst = self.echoes.last().copied().unwrap_or_default();
        let at = (self.echoes.len() * 99 / 100).min(self.echoes.len().saturating_sub(1));
        let p99 = self.echoes.get(at).copied().unwrap_or_default();
        [worst, p99, self.took].map(|time| Reading::plain(time.as_secs_f64() * 1000.0)).into()
    }
}

fn probe(server: &Server, work: impl FnOnce(&Server) -> Outcome<()>) -> Outcome<Probed> {
    let stop = Arc::new(AtomicBool::new(false));
    let prober = start_prober(&server.socket(), Arc::clone(&stop))?;
    sleep(MARGIN);
    let from = Instant::now();
    let worked = work(server);
    let took = from.elapsed();
    sleep(MARGIN);
    stop.store(true, Ordering::Relaxed);
    let samples = prober.join().map_err(|_| Failure::new("the prober panicked"))??;
    worked?;
    // An echo that was in flight when the work began counts; one that ended before does not.
    let during = samples.into_iter().filter(|(sent, time)| *sent + *time >= from);
    Ok(Probed { echoes: with_missed(during.map(|(_, time)| time)), took })
}

type Samples = Vec<(Instant, Duration)>;

fn start_prober(socket: &Path, stop: Arc<AtomicBool>) -> Outcome<JoinHandle<Outcome<Samples>>> {
    let mut connection = Connection::open(socket)?;
    Ok(thread::spawn(move || {
        let mut samples = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let sent = Instant::now();
            connection.call(ECHO)?;
            samples.push((sent, sent.elapsed()));
            sleep(PACE);
        }
        Ok(samples)
    }))
}

/// Adds the echoes that a steady client would have sent behind each slow one; sorted.
fn with_missed(times: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut all = Vec::new();
    for time in times {
        let mut left = time;
        all.push(left);
        while left > PACE {
            left -= PACE;
            all.push(left);
        }
    }
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_for_all_it_would_have_held_up() {
        let ms = Duration::from_millis;
        let times = [ms(1), ms(3)];
        assert_eq!(with_missed(times.into_iter()), [ms(1), ms(1), ms(2), ms(3)]);
    }

    #[test]
    fn readings_are_worst_then_percentile_then_time() {
        let echoes = (1..=200).map(Duration::from_millis).collect();
        let probed = Probed { echoes, took: Duration::from_millis(700) };
        let values: Vec<f64> = probed.readings().iter().map(|r| r.value).collect();
        assert_eq!(values, [200.0, 199.0, 700.0]);
    }
}
