//! Clients that disconnect while they wait: their requests must not reach the upstream, nor delay the requests behind
//! them.
//!
//! 100 clients send one request each, a millisecond apart. One request passes every 20 ms, because of a rate or
//! because there is one slot and 20 ms of work. After 150 ms, 50 clients far back in the queue disconnect. Ideally
//! the 50 other clients are answered 20 ms apart, and no request of a disconnected client reaches the upstream.

use std::time::{Duration, Instant};

use super::Bench;
use super::config::Limit;
use super::crowd::{Answer, Crowd, request};
use super::exact::{Sides, figure};
use super::proxy::Proxy;
use super::table::Found;
use super::upstream::Upstream;
use crate::failure::{Failure, Outcome};

const CLIENTS: usize = 100;
/// The first clients are answered before any client disconnects.
const FIRST_TO_LEAVE: usize = 20;
const STEP: Duration = Duration::from_millis(20);
const LEAVE_AFTER: Duration = Duration::from_millis(150);
/// By now every client would have been answered, even the disconnected ones.
const OVER: Duration = Duration::from_millis(20 * CLIENTS as u64 + 1000);
/// A client that waits longer than this is considered unanswered.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Disconnects behind a rate, and behind a limit of concurrency.
pub fn leaving(bench: &Bench) -> Outcome<Found> {
    let (mut behind_rate, mut behind_places) = (Sides::default(), Sides::default());
    bench.each(1, Duration::ZERO, Limit::Rate(50), |proxy, upstream| {
        behind_rate.note(proxy.kind, leave(proxy, upstream)?);
        Ok(())
    })?;
    bench.each(1, STEP, Limit::Concurrency(1), |proxy, upstream| {
        behind_places.note(proxy.kind, leave(proxy, upstream)?);
        Ok(())
    })?;
    let none: fn(f64) -> bool = |count| count == 0.0;
    let soon: fn(f64) -> bool = |seconds| seconds.abs() <= 0.1;
    let [rate_absent, rate_late] = behind_rate.split();
    let [places_absent, places_late] = behind_places.split();
    let late = "within 0.1";
    let figures = vec![
        figure("50 of 100 leave, 50/s: reached the upstream", "0", Some(none), 0, rate_absent),
        figure("50 of 100 leave, 50/s: last after ideal, s", late, Some(soon), 3, rate_late),
        figure("50 of 100 leave, 1 place: reached the upstream", "0", Some(none), 0, places_absent),
        figure("50 of 100 leave, 1 place: last after ideal, s", late, Some(soon), 3, places_late),
    ];
    Ok(Found { speeds: vec![], figures })
}

/// How many requests of disconnected clients reached the upstream, and how late the last response was.
fn leave(proxy: &Proxy, upstream: &Upstream) -> Outcome<[f64; 2]> {
    let mut crowd = Crowd::connect(proxy.port, CLIENTS)?;
    let mut answers = Vec::new();
    let start = Instant::now();
    for client in 0..CLIENTS {
        crowd.ask(client, &request(&format!("/id/{client}"), "one"))?;
        collect(&mut crowd, start + Duration::from_millis(client as u64 + 1), &mut answers)?;
    }
    collect(&mut crowd, start + LEAVE_AFTER, &mut answers)?;
    (0..CLIENTS).filter(|&client| leaves(client)).for_each(|client| crowd.leave(client));
    collect(&mut crowd, start + OVER, &mut answers)?;
    while crowd.waiting() > 0 && start.elapsed() < ANSWER_MAX {
        collect(&mut crowd, Instant::now() + STEP, &mut answers)?;
    }
    let expected = (0..CLIENTS).filter(|&client| !leaves(client)).count();
    let good = answers.iter().filter(|answer| answer.status == 200).count();
    if good != expected || answers.len() != expected {
        let all = answers.len();
        return Err(Failure::new(format!(
            "{expected} clients stayed, {all} answers came, {good} of them good"
        )));
    }
    let absent = upstream.stats()?.ids.into_iter().filter(|&id| leaves(id)).count();
    Ok([absent as f64, lateness(&answers)])
}

fn leaves(client: usize) -> bool {
    client >= FIRST_TO_LEAVE && (client - FIRST_TO_LEAVE) % 8 < 5
}

/// Seconds between the last response and its ideal time, based on the first one.
fn lateness(answers: &[Answer]) -> f64 {
    let (Some(first), Some(last)) = (answers.first(), answers.last()) else { return f64::NAN };
    let ideal = STEP.as_secs_f64() * (answers.len() - 1) as f64;
    last.at.duration_since(first.at).as_secs_f64() - ideal
}

/// Collects responses until then.
fn collect(crowd: &mut Crowd, until: Instant, all: &mut Vec<Answer>) -> Outcome<()> {
    let mut answers = Vec::new();
    while Instant::now() < until {
        crowd.answers(until, &mut answers)?;
        all.extend_from_slice(&answers);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_them_leave() {
        assert_eq!((0..CLIENTS).filter(|&client| leaves(client)).count(), CLIENTS / 2);
    }
}
