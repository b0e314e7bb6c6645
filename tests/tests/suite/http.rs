//! The HTTP door from outside: real clients before the built daemon, a server behind it that records every byte, and
//! limits measured at that server, where they count.

mod admitted;
mod attributes;
mod bodies;
mod cancelled;
mod chain;
mod curl;
mod drain;
mod leaving;
mod load;
mod log;
mod moved;
mod orphans;
mod refusals;
mod reload;
mod routing;
mod servers;
mod tls;
mod tls_servers;
mod tls_trust;
mod websocket;

/// Runs curl with these arguments and returns its output.
#[track_caller]
fn curl(words: &[&str]) -> String {
    let mut all = vec!["--silent", "--show-error", "--max-time", "60"];
    all.extend(words);
    paceline_tests::tool::run("curl", &all).unwrap()
}
