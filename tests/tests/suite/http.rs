//! The HTTP door from outside: real clients in front of the built daemon, a server behind it that records
//! every byte, and limits measured where they count, at that server.

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

/// Runs curl with these words and gives what it wrote.
#[track_caller]
fn curl(words: &[&str]) -> String {
    let mut all = vec!["--silent", "--show-error", "--max-time", "60"];
    all.extend(words);
    paceline_tests::tool::run("curl", &all).unwrap()
}
