//! `bench-compare http`: compares the reverse proxy with HAProxy and nginx in one run.
//!
//! Owns the command line of this part, the list of loads and their environment. Loads about speed are in `speed`,
//! loads that must be exact in `exact` and `leaving`. The proxies are in `proxy`, their configurations in `config`,
//! the upstream in `origin`, the load generators in `wrk` and `crowd`.

mod config;
mod crowd;
mod exact;
mod leaving;
mod message;
pub mod origin;
mod pin;
mod poller;
mod proxy;
mod speed;
mod table;
mod upstream;
mod wrk;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::args::usual_paceline;
use crate::failure::{Failure, Outcome};
use crate::machine;
use crate::pattern::Pattern;
use config::Limit;
use pin::Pin;
use proxy::{Kind, Proxy, Setup};
use table::Found;
use upstream::Upstream;

/// What `bench-compare http --help` prints.
pub const HELP: &str = "\
bench-compare http: the reverse proxy beside HAProxy and nginx, in one run

usage: bench-compare http [options]

Starts Paceline, Debian's haproxy and nginx before the same upstream, puts the
same load on each in turn, round by round, and prints two Markdown tables:
requests a second and the proxy's own processor time for one request, with
ratios where above 1 means Paceline is better; and the figures that must hold.

loads:
  plain             small GET with 1 and 2 threads, 10 KB answers, 4 KB bodies
  keys              100,000 distinct keys tracked: processor time over plain
  memory            bytes a key, 100,000 keys (and 1,000,000 without --quick)
  rate              200 connections against 500/s with queueing
  fair              the same, two keys with 180 and 20 connections
  concurrency       10 at a time, an upstream that takes 20 ms, 2 threads
  leaving           half of 100 queued clients leave

options:
  --quick           shorter and fewer rounds
  --load PATTERN    only loads whose name matches; PATTERN knows . * ^ $ and |;
                    may be given several times
  --rounds N        measured rounds of plain and keys (default 5; 2 with --quick)
  --peers-only      leave Paceline out
  --unpinned        let the scheduler choose processors also with 1 thread
  --paceline PATH   the binary (default: beside this one, or target/release)
  --install         install haproxy, nginx-light and wrk by apt-get first
  --help            this text

examples:
  cargo build --release --workspace && cargo run --release -p paceline-bench-compare -- http
  bench-compare http --quick --load plain --load rate
  bench-compare http --install --peers-only --quick

With 1 thread the proxy has processor 0 for itself, and wrk and the upstream
share processor 1; with 2 threads nobody is pinned. The exit status is 0 when
every load ran, 1 when one failed, 2 for bad usage.
";

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    paceline: PathBuf,
    load: Vec<Pattern>,
    rounds: usize,
    long_rounds: usize,
    round: Duration,
    quick: bool,
    peers_only: bool,
    unpinned: bool,
    install: bool,
    help: bool,
}

impl Options {
    /// Parses the arguments after `http`.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut options = Self::usual();
        let mut rounds = None;
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().ok_or_else(|| Failure::new(format!("{arg} needs a value")));
            match arg.as_str() {
                "--quick" => options.quicken(),
                "--load" => options.load.push(Pattern::new(&value()?)),
                "--rounds" => rounds = Some(parse_rounds(&value()?)?),
                "--peers-only" => options.peers_only = true,
                "--unpinned" => options.unpinned = true,
                "--paceline" => options.paceline = value()?.into(),
                "--install" => options.install = true,
                "--help" | "-h" => options.help = true,
                _ => {
                    let see = "see bench-compare http --help";
                    return Err(Failure::new(format!("unknown option {arg}; {see}")));
                }
            }
        }
        options.rounds = rounds.unwrap_or(options.rounds);
        Ok(options)
    }

    fn usual() -> Self {
        Self {
            paceline: usual_paceline(),
            load: Vec::new(),
            rounds: 5,
            long_rounds: 3,
            round: Duration::from_secs(3),
            quick: false,
            peers_only: false,
            unpinned: false,
            install: false,
            help: false,
        }
    }

    fn quicken(&mut self) {
        (self.quick, self.rounds, self.long_rounds) = (true, 2, 1);
        self.round = Duration::from_secs(1);
    }
}

fn parse_rounds(text: &str) -> Outcome<usize> {
    match text.parse() {
        Ok(rounds @ 1..=100) => Ok(rounds),
        _ => Err(Failure::new(format!("--rounds takes 1 to 100, not {text:?}"))),
    }
}

/// A load: its name and what it does.
type Load = (&'static str, fn(&Bench) -> Outcome<Found>);

const LOADS: [Load; 7] = [
    ("plain", speed::plain),
    ("keys", speed::keys),
    ("memory", speed::memory),
    ("rate", exact::rate),
    ("fair", exact::fair),
    ("concurrency", exact::concurrency),
    ("leaving", leaving::leaving),
];

/// The environment of every load.
#[derive(Debug)]
pub struct Bench<'a> {
    options: &'a Options,
    dir: &'a Path,
}

impl Bench<'_> {
    /// The proxies to measure, Paceline first.
    fn kinds(&self) -> Vec<Kind> {
        let all = [Kind::Paceline, Kind::Haproxy, Kind::Nginx];
        all.into_iter().skip(usize::from(self.options.peers_only)).collect()
    }

    /// Starts one proxy; none if it does not support this limit.
    fn proxy(
        &self,
        kind: Kind,
        threads: usize,
        upstream: &Upstream,
        limit: Limit,
    ) -> Outcome<Option<Proxy>> {
        let pin = if self.is_pinned(threads) { Pin::Proxy } else { Pin::Free };
        let (paceline, dir) = (self.options.paceline.as_path(), self.dir);
        let upstream = upstream.port;
        Proxy::start(kind, &Setup { paceline, dir, threads, upstream, limit, pin })
    }

    /// Starts every proxy that supports this limit.
    fn proxies(&self, threads: usize, upstream: &Upstream, limit: Limit) -> Outcome<Vec<Proxy>> {
        let start = |kind| self.proxy(kind, threads, upstream, limit).transpose();
        self.kinds().into_iter().filter_map(start).collect()
    }

    /// Where the upstream and the load generator run.
    fn others(&self, threads: usize) -> Pin {
        if self.is_pinned(threads) { Pin::Others } else { Pin::Free }
    }

    fn is_pinned(&self, threads: usize) -> bool {
        threads == 1 && !self.options.unpinned
    }
}

/// Runs the loads.
pub fn run(options: &Options) -> Outcome<()> {
    if options.help {
        print!("{HELP}");
        return Ok(());
    }
    if options.install {
        proxy::install()?;
    }
    proxy::check()?;
    if !options.peers_only && !options.paceline.exists() {
        return Err(Failure::new(format!(
            "no paceline at {}: build it with cargo build --release, give --paceline PATH, \
             or measure --peers-only",
            options.paceline.display()
        )));
    }
    let scratch = Scratch::new()?;
    let bench = Bench { options, dir: &scratch.0 };
    let load_before = machine::load();
    let (found, failed) = run_loads(&bench)?;
    let mut facts = machine::machine();
    facts.extend(proxy::versions(&bench.kinds(), &options.paceline));
    facts.push(("load average before the run", load_before));
    let (rounds, round) = (options.rounds, options.round.as_secs());
    facts.push(("rounds", format!("{rounds} of {round} s each")));
    let pinned = if !options.unpinned && pin::is_possible() { "with 1 thread" } else { "never" };
    facts.push(("processor pinned", pinned.into()));
    print!("{}", table::markdown(&facts, &found, &failed));
    match failed.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!("{count} of the loads failed"))),
    }
}

fn run_loads(bench: &Bench) -> Outcome<(Found, Vec<(&'static str, String)>)> {
    let wanted = &bench.options.load;
    let is_wanted = |name| wanted.is_empty() || wanted.iter().any(|one| one.matches(name));
    let chosen: Vec<&Load> = LOADS.iter().filter(|(name, _)| is_wanted(name)).collect();
    if chosen.is_empty() {
        return Err(Failure::new("no load has such a name; see bench-compare http --help"));
    }
    let (mut all, mut failed) = (Found::default(), Vec::new());
    for (name, load) in chosen {
        let start = Instant::now();
        eprint!("{name:12} ");
        match load(bench) {
            Ok(found) => {
                eprintln!(" {:.1} s", start.elapsed().as_secs_f64());
                all.speeds.extend(found.speeds);
                all.figures.extend(found.figures);
            }
            Err(error) => {
                eprintln!(" failed: {error}");
                failed.push((*name, error.to_string()));
            }
        }
    }
    Ok((all, failed))
}

/// Adds the name of the proxy to an error.
fn at_proxy<T>(proxy: &Proxy, result: Outcome<T>) -> Outcome<T> {
    result.map_err(|error| Failure::new(format!("{}: {error}", proxy.kind.name())))
}

/// A directory that is removed at the end. nginx's worker processes must be able to enter it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Outcome<Self> {
        let dir = std::env::temp_dir().join(format!("bench-http-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(|error| Failure::io(dir.display(), &error))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(String::from)).map_err(|e| e.to_string())
    }

    #[test]
    fn options_are_read() {
        let options = check("--rounds 7 --quick --load plain --load rate --peers-only").unwrap();
        assert_eq!((options.rounds, options.long_rounds, options.load.len()), (7, 1, 2));
        let bench = Bench { options: &options, dir: Path::new("d") };
        assert_eq!(bench.kinds(), [Kind::Haproxy, Kind::Nginx]);
        assert_eq!(
            check("--fast").unwrap_err(),
            "unknown option --fast; see bench-compare http --help"
        );
        assert_eq!(check("--rounds 0").unwrap_err(), "--rounds takes 1 to 100, not \"0\"");
    }

    #[test]
    fn the_help_names_every_load() {
        for (name, _) in LOADS {
            assert!(HELP.contains(&format!("\n  {name} ")), "{name}");
        }
    }
}
