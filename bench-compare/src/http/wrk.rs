//! `wrk`, the load generator of all loads about speed.
//!
//! A script makes it print its counts on a line of its own, so that nothing depends on its output for people. The
//! keys come from the same script, which creates them before the load begins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::pin::Pin;
use crate::failure::{Failure, Outcome};

/// The end of every script.
const DONE: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("counts %d %d %d %d\n", summary.requests, summary.duration,
    e.status, e.connect + e.read + e.write + e.timeout))
end
"#;

/// Cycles through all keys, in steps that have no divisor in common with their number.
const KEYS: &str = r#"
local all, at, count = {}, 0, KEYS_COUNT
init = function(args)
  at = tonumber(args[1]) or 0
  for i = 0, count - 1 do
    all[i] = string.format("GET / HTTP/1.1\r\nHost: bench\r\nx-key: k%07d\r\n\r\n", i)
  end
end
request = function()
  at = (at + 61803) % count
  return all[at]
end
"#;

/// What is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// A small response.
    Get,
    /// A response of 10 KB.
    Large,
    /// The same with a body of 4 KB.
    Post,
    /// A small response, with one of so many keys.
    Keys(usize),
}

/// The counts of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Requests answered.
    pub requests: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Answers with a status of 400 or above.
    pub refused: u64,
    /// Connections that failed, and responses that timed out.
    pub errors: u64,
}

/// The settings of `wrk`.
#[derive(Debug)]
pub struct Wrk {
    /// Where scripts are written to.
    pub dir: PathBuf,
    /// Its own threads.
    pub threads: usize,
    /// Connections that stay open.
    pub connections: usize,
    /// Which processor it runs on.
    pub pin: Pin,
}

impl Wrk {
    /// Generates load on a port of loopback for `span`; `turn` is the number of the round.
    pub fn run(&self, port: u16, ask: Ask, span: Duration, turn: usize) -> Outcome<Counts> {
        let script = self.dir.join("load.lua");
        fs::write(&script, text(ask)).map_err(|error| Failure::io(script.display(), &error))?;
        let path = if ask == Ask::Large { "/10k" } else { "/" };
        let output = self
            .pin
            .command(Path::new("wrk"))
            .args(["-t", &self.threads.to_string(), "-c", &self.connections.to_string()])
            .args(["-d", &format!("{}s", span.as_secs().max(1)), "-s"])
            .arg(&script)
            .arg(format!("http://127.0.0.1:{port}{path}"))
            .args(["--", &(turn * 7919).to_string()])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Failure::io("wrk", &error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Counts::read(&text).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            Failure::new(format!("wrk {}: {} {}", output.status, text.trim(), errors.trim()))
        })
    }
}

impl Counts {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.lines().find_map(|line| line.strip_prefix("counts "))?.split(' ');
        let mut next = || words.next()?.parse().ok();
        Some(Self {
            requests: next()?,
            elapsed: Duration::from_micros(next()?),
            refused: next()?,
            errors: next()?,
        })
    }

    /// Returns an error unless all responses are good: a rate of refusals is meaningless.
    pub fn all_good(self) -> Outcome<Self> {
        if self.refused == 0 && self.errors == 0 && self.requests > 0 {
            return Ok(self);
        }
        let Self { requests, refused, errors, .. } = self;
        let found = format!("{requests} answers, {refused} of them refusals, {errors} errors");
        Err(Failure::new(format!("expected good answers alone, found {found}")))
    }
}

fn text(ask: Ask) -> String {
    let before = match ask {
        Ask::Get | Ask::Large => String::new(),
        Ask::Post => "wrk.method = \"POST\"\nwrk.body = string.rep(\"x\", 4096)\n".into(),
        Ask::Keys(count) => KEYS.replace("KEYS_COUNT", &count.to_string()),
    };
    before + DONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_counts_is_found_among_others() {
        let text = "Running 1s test\n  2 threads\ncounts 10 1000000 0 1\nRequests/sec: 10\n";
        let counts = Counts::read(text).unwrap();
        let elapsed = Duration::from_secs(1);
        assert_eq!(counts, Counts { requests: 10, elapsed, refused: 0, errors: 1 });
        let error = counts.all_good().unwrap_err().to_string();
        assert!(error.ends_with("10 answers, 0 of them refusals, 1 errors"), "{error}");
        assert_eq!(Counts::read("unable to connect"), None);
    }
}
