//! Many clients at one rate: together they get exactly the rate (promise S1).

use paceline_tests::api::micros;
use paceline_tests::{Daemon, Launch, Scratch};
use serde_json::json;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

const CLIENTS: usize = 200;
const RATE: f64 = 500.0;
const BURST: usize = 50;
const WINDOW_US: i64 = 10_000_000;

/// How long the rate may continue after a late wake (S1).
const SLIP_US: i64 = 5_000;

/// The times at which the clients got permits, in order, until one is granted a window and a second after the first.
fn granted(daemon: &Daemon) -> Vec<i64> {
    let first = AtomicI64::new(i64::MAX);
    let client = || {
        let mut api = daemon.api();
        let mut times = Vec::new();
        loop {
            let permit = api.call("POST", "/v1/permits", &json!({})).expect(201);
            let at = micros(&permit["granted_at"]);
            times.push(at);
            let path = format!("/v1/permits/{}", permit["permit"].as_str().unwrap());
            let _ = api.delete(&path).expect(204);
            if at - first.fetch_min(at, Ordering::Relaxed).min(at) > WINDOW_US + 1_000_000 {
                return times;
            }
        }
    };
    let mut times: Vec<i64> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    times.sort_unstable();
    times
}

#[test]
fn two_hundred_clients_get_the_rate_within_half_a_percent_s1() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let pace = json!({"at": "frontend api", "rate": "500/s", "burst": BURST,
        "queue": {"max_len": 1000, "max_delay": "5s"}});
    let _ = daemon.api().call("PUT", "/v1/checkpoints/pace", &pace).expect(201);
    let times = granted(&daemon);

    // The burst is used up at once; half a second later nothing is left of it.
    let begin = times[0] + 500_000;
    let window: Vec<i64> =
        times.iter().copied().filter(|at| (begin..=begin + WINDOW_US).contains(at)).collect();
    let span = (window[window.len() - 1] - window[0]) as f64 / 1e6;
    let rate = (window.len() - 1) as f64 / span;
    assert!(span > 9.9, "the grants stop after {span} s");
    assert!((rate / RATE - 1.0).abs() < 0.005, "{rate} a second over {span} s");

    // Wherever the window begins, no more requests pass than S1 allows.
    for (at, time) in times.iter().enumerate() {
        for width in [1, BURST, 500, 2_500] {
            let Some(last) = times.get(at + width) else { break };
            let allowed = RATE * (last - time + SLIP_US) as f64 / 1e6 + BURST as f64;
            // Times are given in whole microseconds.
            assert!(width as f64 + 1.0 <= allowed + 1.001, "{width} within {} us", last - time);
        }
    }
}
