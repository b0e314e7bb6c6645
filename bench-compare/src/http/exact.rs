//! Loads about exactness: rates, shares, concurrency, and clients that disconnect.
//!
//! They use the clients of `crowd`, so that every response is recorded with its time. A proxy that does not support
//! such a limit with a queue is skipped.

use std::time::{Duration, Instant};

use super::config::Limit;
use super::crowd::{Answer, Crowd, request};
use super::proxy::{Kind, Proxy};
use super::table::{Figure, Found};
use super::upstream::Upstream;
use super::{Bench, at_proxy};
use crate::failure::Outcome;

/// Responses before this are not counted.
const WARM_UP: Duration = Duration::from_secs(1);
const RATE: u32 = 500;
const RATE_SPAN: Duration = Duration::from_secs(10);
const CLIENTS: usize = 200;
/// The clients of the key that has few of them.
const FEW: usize = 20;
const PLACES: u32 = 10;
const PLACES_SPAN: Duration = Duration::from_secs(5);
const PLACES_CLIENTS: usize = 100;
const WORK: Duration = Duration::from_millis(20);

/// 200 connections against 500 requests a second.
pub fn rate(bench: &Bench) -> Outcome<Found> {
    let mut sides = Sides::default();
    bench.each(2, Duration::ZERO, Limit::Rate(RATE), |proxy, _| {
        let taken = take(proxy, CLIENTS, RATE_SPAN, |_| "one")?;
        sides.note(proxy.kind, [taken.rate(), taken.failed as f64]);
        Ok(())
    })?;
    let within: fn(f64) -> bool = |rate| (rate / f64::from(RATE) - 1.0).abs() <= 0.005;
    let [rates, failed] = sides.split();
    let figures = vec![
        figure("200 connections at 500/s: answers/s", "500 ±0.5 %", Some(within), 2, rates),
        figure("200 connections at 500/s: not 200", "0", Some(|count| count == 0.0), 0, failed),
    ];
    Ok(Found { speeds: vec![], figures })
}

/// The same with two keys, one with 180 connections and one with 20.
pub fn fair(bench: &Bench) -> Outcome<Found> {
    let mut sides = Sides::default();
    bench.each(2, Duration::ZERO, Limit::Fair(RATE), |proxy, _| {
        let key = |client| if client < FEW { "few" } else { "many" };
        let taken = take(proxy, CLIENTS, RATE_SPAN, key)?;
        let few = taken.good.iter().filter(|answer| answer.client < FEW).count() as f64;
        let many = taken.good.len() as f64 - few;
        let seconds = RATE_SPAN.as_secs_f64();
        sides.note(proxy.kind, [jain(few, many), few / seconds, many / seconds]);
        Ok(())
    })?;
    let [index, few, many] = sides.split();
    let holds: Option<fn(f64) -> bool> = Some(|index| index >= 0.98);
    let figures = vec![
        figure("two keys at 500/s: Jain index", "at least 0.98", holds, 3, index),
        figure("two keys at 500/s: answers/s, 20 connections", "-", None, 0, few),
        figure("two keys at 500/s: answers/s, 180 connections", "-", None, 0, many),
    ];
    Ok(Found { speeds: vec![], figures })
}

/// Ten at a time, each for 20 ms, requested by 100 connections.
pub fn concurrency(bench: &Bench) -> Outcome<Found> {
    let mut sides = Sides::default();
    bench.each(2, WORK, Limit::Concurrency(PLACES), |proxy, upstream| {
        upstream.reset()?;
        let start = Instant::now();
        let taken = take(proxy, PLACES_CLIENTS, PLACES_SPAN, |_| "one")?;
        let stats = upstream.stats()?;
        let most = stats.in_flight_max as f64;
        let mean = stats.stay.as_secs_f64() / start.elapsed().as_secs_f64();
        let used = taken.rate() * WORK.as_secs_f64() / f64::from(PLACES) * 100.0;
        sides.note(proxy.kind, [most, used, mean, taken.failed as f64]);
        Ok(())
    })?;
    let [most, used, mean, failed] = sides.split();
    let at_most: fn(f64) -> bool = |most| most <= f64::from(PLACES);
    let at_least: fn(f64) -> bool = |percent| percent >= 95.0;
    let figures = vec![
        figure("10 at a time: most at the upstream", "10", Some(at_most), 0, most),
        figure("10 at a time: places used, %", "at least 95", Some(at_least), 1, used),
        // An upstream that wakes late on a busy machine does not lower this mean.
        figure("10 at a time: mean at the upstream", "-", None, 2, mean),
        figure("10 at a time: not 200", "0", Some(|count| count == 0.0), 0, failed),
    ];
    Ok(Found { speeds: vec![], figures })
}

/// Responses in the measured time.
struct Taken {
    /// Still connected and waiting. If these clients disconnected, a proxy would rightly abandon its requests at the
    /// upstream and send the next ones. The upstream, which does not cancel, would then count more than were sent.
    _crowd: Crowd,
    good: Vec<Answer>,
    failed: usize,
}

impl Taken {
    /// Responses a second, from the first to the last.
    fn rate(&self) -> f64 {
        let (Some(first), Some(last)) = (self.good.first(), self.good.last()) else { return 0.0 };
        (self.good.len() - 1) as f64 / last.at.duration_since(first.at).as_secs_f64()
    }
}

/// Lets `clients` clients send requests continuously, each with its key.
fn take(
    proxy: &Proxy,
    clients: usize,
    span: Duration,
    key: impl Fn(usize) -> &'static str,
) -> Outcome<Taken> {
    let mut crowd = Crowd::connect(proxy.port, clients)?;
    for client in 0..clients {
        crowd.ask(client, &request("/", key(client)))?;
    }
    let start = Instant::now() + WARM_UP;
    let end = start + span;
    let (mut good, mut failed) = (Vec::new(), 0);
    let mut answers = Vec::new();
    while Instant::now() < end {
        crowd.answers(end, &mut answers)?;
        for answer in &answers {
            if answer.status != 200 {
                failed += 1;
            } else if answer.at >= start && answer.at < end {
                good.push(*answer);
            }
            crowd.ask(answer.client, &request("/", key(answer.client)))?;
        }
    }
    Ok(Taken { _crowd: crowd, good, failed })
}

/// 1 if both have the same, 0.5 if one has everything.
fn jain(one: f64, other: f64) -> f64 {
    (one + other).powi(2) / (2.0 * (one.powi(2) + other.powi(2)))
}

/// Readings by side, several figures for each round.
pub struct Sides<const N: usize>(Vec<(Kind, Vec<[f64; N]>)>);

impl<const N: usize> Default for Sides<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<const N: usize> Sides<N> {
    /// Adds the readings of one round.
    pub fn note(&mut self, kind: Kind, readings: [f64; N]) {
        match self.0.iter_mut().find(|(side, _)| *side == kind) {
            Some((_, all)) => all.push(readings),
            None => self.0.push((kind, vec![readings])),
        }
    }

    /// The sides of each figure.
    pub fn split(self) -> [Vec<(Kind, Vec<f64>)>; N] {
        std::array::from_fn(|at| {
            let one = |(kind, all): &(Kind, Vec<[f64; N]>)| {
                (*kind, all.iter().map(|readings| readings[at]).collect())
            };
            self.0.iter().map(one).collect()
        })
    }
}

/// A line of the table.
pub fn figure(
    name: &'static str,
    aim: &'static str,
    holds: Option<fn(f64) -> bool>,
    digits: usize,
    sides: Vec<(Kind, Vec<f64>)>,
) -> Figure {
    Figure { name, aim, holds, digits, sides }
}

impl Bench<'_> {
    /// Runs a function with every proxy that supports this limit, in turn, for each round.
    pub fn each(
        &self,
        threads: usize,
        delay: Duration,
        limit: Limit,
        mut run: impl FnMut(&Proxy, &Upstream) -> Outcome<()>,
    ) -> Outcome<()> {
        for _ in 0..self.options.long_rounds {
            for kind in self.kinds() {
                let upstream = Upstream::start(delay, self.others(threads))?;
                let Some(proxy) = self.proxy(kind, threads, &upstream, limit)? else { continue };
                at_proxy(&proxy, run(&proxy, &upstream))?;
                eprint!(".");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair() {
        assert_eq!(jain(250.0, 250.0), 1.0);
        assert_eq!(jain(500.0, 0.0), 0.5);
        assert!(jain(50.0, 450.0) < 0.62);
    }
}
