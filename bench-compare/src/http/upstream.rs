//! The upstream as the run sees it: starts it as a separate process, and queries its counts.
//!
//! It is killed on drop. If the run itself was killed, the upstream exits when its standard input ends.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use super::message::Head;
use super::pin::Pin;
use crate::failure::{Failure, Outcome};

/// How long it may take to report its counts.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A running upstream.
#[derive(Debug)]
pub struct Upstream {
    child: Child,
    /// Where it listens on loopback.
    pub port: u16,
}

/// The counts since the last reset.
#[derive(Debug, PartialEq, Eq)]
pub struct Stats {
    /// Requests answered.
    pub served: u64,
    /// Maximum concurrent requests.
    pub in_flight_max: u64,
    /// The total time of all delayed requests.
    pub stay: Duration,
    /// The ids that were received.
    pub ids: BTreeSet<usize>,
}

impl Upstream {
    /// Starts an upstream that answers after `delay`.
    pub fn start(delay: Duration, pin: Pin) -> Outcome<Self> {
        let this = std::env::current_exe()?;
        let mut command = pin.command(&this);
        command.args(["origin", "--delay-ms", &delay.as_millis().to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::io("upstream", &error))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        match line.trim().parse() {
            Ok(port) => Ok(Self { child, port }),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(Failure::new("the upstream did not say where it listens"))
            }
        }
    }

    /// Clears the counts.
    pub fn reset(&self) -> Outcome<()> {
        self.ask("/-/reset").map(drop)
    }

    /// Returns the counts.
    pub fn stats(&self) -> Outcome<Stats> {
        let text = self.ask("/-/stats")?;
        Stats::read(&text).ok_or_else(|| Failure::new(format!("stats not understood: {text:?}")))
    }

    fn ask(&self, path: &str) -> Outcome<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: upstream\r\n\r\n").as_bytes())?;
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut piece)?;
            bytes.extend_from_slice(&piece[..count]);
            if let Some(head) = Head::read(&bytes)?
                && head.len <= bytes.len()
            {
                return Ok(String::from_utf8_lossy(&bytes[head.body_at..]).into_owned());
            }
            if count == 0 {
                return Err(Failure::new("the upstream hung up"));
            }
        }
    }
}

impl Stats {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let served = lines.next()?.parse().ok()?;
        let in_flight_max = lines.next()?.parse().ok()?;
        let stay = Duration::from_micros(lines.next()?.parse().ok()?);
        let ids =
            lines.next()?.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { served, in_flight_max, stay, ids })
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let stay = Duration::from_millis(5);
        let stats = Stats { served: 9, in_flight_max: 2, stay, ids: [3, 7].into() };
        assert_eq!(Stats::read("9\n2\n5000\n3 7 \n"), Some(stats));
        assert_eq!(Stats::read("9\n2\n5000\n"), None);
    }
}
