//! Loads about speed: plain requests, and requests counted by key.
//!
//! `wrk` generates the load, for every proxy in turn, round by round; the first round is a warm-up.

use std::time::{Duration, Instant};

use super::config::Limit;
use super::crowd::{Crowd, request};
use super::proxy::{Kind, Proxy};
use super::table::{Figure, Found, Speed};
use super::upstream::Upstream;
use super::wrk::{Ask, Wrk};
use super::{Bench, at_proxy};
use crate::failure::{Failure, Outcome};
use crate::turn::{Turn, cpu_ratio};

/// Connections of every load here.
const CONNECTIONS: usize = 50;
/// Keys that are tracked.
const KEYS: usize = 100_000;
const KEYS_MANY: usize = 1_000_000;
/// How long sending each key once may take.
const DRIVE_MAX: Duration = Duration::from_secs(600);

/// Plain requests, with one thread and with two.
pub fn plain(bench: &Bench) -> Outcome<Found> {
    let mut found = Found::default();
    for threads in [1, 2] {
        let upstream = Upstream::start(Duration::ZERO, bench.others(threads))?;
        let proxies = bench.proxies(threads, &upstream, Limit::None)?;
        let wanted: &[(&str, &'static str, Ask)] = match threads {
            1 => &[
                ("small GET, 1 thread", "1.0", Ask::Get),
                ("GET of 10 KB, 1 thread", "-", Ask::Large),
                ("POST of 4 KB, 1 thread", "-", Ask::Post),
            ],
            _ => &[("small GET, 2 threads", "1.0", Ask::Get)],
        };
        for &(name, aim, ask) in wanted {
            let turns = rounds(bench, threads, &proxies, ask)?;
            found.speeds.push(Speed { name: name.into(), aim, sides: named(&proxies, turns) });
        }
    }
    Ok(found)
}

/// The cost of counting by key, compared with the same requests not counted.
pub fn keys(bench: &Bench) -> Outcome<Found> {
    let upstream = Upstream::start(Duration::ZERO, bench.others(1))?;
    let plain = bench.proxies(1, &upstream, Limit::None)?;
    let counting = bench.proxies(1, &upstream, Limit::Keys)?;
    for proxy in &counting {
        at_proxy(proxy, drive(proxy, "k", KEYS))?;
    }
    // Both variants run next to each other, so that both see the machine in the same state.
    let proxies: Vec<Proxy> =
        plain.into_iter().zip(counting).flat_map(|(one, other)| [one, other]).collect();
    let mut turns = rounds(bench, 1, &proxies, Ask::Keys(KEYS))?.into_iter();
    let (mut plain, mut counted, mut over) = (Vec::new(), Vec::new(), Vec::new());
    for proxy in proxies.iter().step_by(2) {
        let (Some(without), Some(with)) = (turns.next(), turns.next()) else { break };
        over.push((proxy.kind, vec![(cpu_ratio(&with, &without) - 1.0) * 100.0]));
        plain.push((proxy.kind, without));
        counted.push((proxy.kind, with));
    }
    let figures = vec![Figure {
        name: "100,000 keys tracked: CPU over the same requests not tracked, %",
        aim: "at most 15",
        holds: Some(|percent| percent <= 15.0),
        digits: 1,
        sides: over,
    }];
    let speeds = [("100,000 keys, not tracked", plain), ("100,000 keys tracked", counted)]
        .map(|(name, sides)| Speed { name: format!("{name}, 1 thread"), aim: "-", sides });
    Ok(Found { speeds: speeds.into(), figures })
}

/// The memory that a key takes.
pub fn memory(bench: &Bench) -> Outcome<Found> {
    let mut figures = vec![Figure {
        name: "memory of a key, 100,000 keys, bytes",
        aim: "at most 64",
        holds: Some(|bytes| bytes <= 64.0),
        digits: 0,
        sides: memory_of(bench, KEYS)?,
    }];
    if !bench.options.quick {
        figures.push(Figure {
            name: "memory of a key, 1,000,000 keys, bytes",
            aim: "-",
            holds: None,
            digits: 0,
            sides: memory_of(bench, KEYS_MANY)?,
        });
    }
    Ok(Found { speeds: vec![], figures })
}

fn memory_of(bench: &Bench, keys: usize) -> Outcome<Vec<(Kind, Vec<f64>)>> {
    let upstream = Upstream::start(Duration::ZERO, bench.others(1))?;
    let mut sides = Vec::new();
    for kind in bench.kinds() {
        let Some(proxy) = bench.proxy(kind, 1, &upstream, Limit::Keys)? else { continue };
        // Buffers, connections and the first keys are allocated first, so that afterwards only keys are added.
        let warm = bench.wrk(1).run(proxy.port, Ask::Keys(1000), bench.options.round, 0)?;
        at_proxy(&proxy, warm.all_good())?;
        at_proxy(&proxy, drive(&proxy, "w", 1000))?;
        let before = proxy.memory()?;
        at_proxy(&proxy, drive(&proxy, "m", keys))?;
        let grown = proxy.memory()?.saturating_sub(before);
        sides.push((kind, vec![grown as f64 / keys as f64]));
        eprint!(".");
    }
    Ok(sides)
}

/// Sends each of `keys` keys once.
fn drive(proxy: &Proxy, prefix: &str, keys: usize) -> Outcome<()> {
    let mut crowd = Crowd::connect(proxy.port, CONNECTIONS)?;
    let deadline = Instant::now() + DRIVE_MAX;
    let mut sent = 0;
    let mut next = || {
        let key = format!("{prefix}{sent:07}");
        sent += 1;
        (sent <= keys).then(|| request("/", &key))
    };
    for client in 0..CONNECTIONS {
        if let Some(request) = next() {
            crowd.ask(client, &request)?;
        }
    }
    let mut answers = Vec::new();
    while crowd.waiting() > 0 {
        crowd.answers(deadline, &mut answers)?;
        if answers.is_empty() && Instant::now() > deadline {
            return Err(Failure::new("no answer came in time"));
        }
        for answer in &answers {
            if answer.status != 200 {
                return Err(Failure::new(format!("a key was answered with {}", answer.status)));
            }
            if let Some(request) = next() {
                crowd.ask(answer.client, &request)?;
            }
        }
    }
    Ok(())
}

/// The turns of each proxy, in the order of the proxies.
fn rounds(bench: &Bench, threads: usize, proxies: &[Proxy], ask: Ask) -> Outcome<Vec<Vec<Turn>>> {
    let wrk = bench.wrk(threads);
    let mut turns = vec![Vec::new(); proxies.len()];
    for round in 0..=bench.options.rounds {
        for turn in 0..proxies.len() {
            // The proxy that is first in one round is last in the next.
            let at = if round % 2 == 0 { turn } else { proxies.len() - 1 - turn };
            let one = at_proxy(&proxies[at], turn_of(bench, &wrk, &proxies[at], ask, round))?;
            if round > 0 {
                turns[at].push(one);
            }
        }
        eprint!(".");
    }
    Ok(turns)
}

fn turn_of(bench: &Bench, wrk: &Wrk, proxy: &Proxy, ask: Ask, round: usize) -> Outcome<Turn> {
    let before = proxy.cpu()?;
    let counts = wrk.run(proxy.port, ask, bench.options.round, round)?.all_good()?;
    let cpu = proxy.cpu()?.saturating_sub(before);
    Ok(Turn { count: counts.requests, elapsed: counts.elapsed, cpu })
}

fn named(proxies: &[Proxy], turns: Vec<Vec<Turn>>) -> Vec<(Kind, Vec<Turn>)> {
    proxies.iter().map(|proxy| proxy.kind).zip(turns).collect()
}

impl Bench<'_> {
    fn wrk(&self, threads: usize) -> Wrk {
        let (dir, pin) = (self.dir.into(), self.others(threads));
        Wrk { dir, threads, connections: CONNECTIONS, pin }
    }
}
