//! `bench-compare permits`: compares permits and locks with Redis and etcd in one run.
//!
//! Owns the command line of this part, the list of loads and the order of measuring: a warm-up, then rounds in which
//! every side has its turn. The requests of clients are in `talk`, concurrent clients in `swarm`, the servers in
//! `rivals`, the result in `table`.

mod grpc;
mod rivals;
mod swarm;
mod table;
mod talk;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::args::usual_paceline;
use crate::failure::{Failure, Outcome};
use crate::machine;
use crate::pattern::Pattern;
use crate::process;
use crate::turn::Turn;
use rivals::{Rival, Running};
use swarm::Swarm;
use table::Line;
use talk::Talk;

/// What `bench-compare permits --help` prints.
pub const HELP: &str = "\
bench-compare permits: permits and locks beside Redis and etcd, in one run

usage: bench-compare permits [options]

Starts Paceline, Debian's redis-server and etcd, gives each the same number of
clients on connections that stay open, in turn, and prints a Markdown table:
the median rate, the server's own processor time for one operation, and the
ratios, where above 1 means Paceline is better. One process with one thread
plays all clients; its processor time is not counted.

options:
  --quick           shorter and fewer rounds
  --load PATTERN    only loads whose name matches; PATTERN knows . * ^ $ and |
  --clients N       clients at a time (default 32)
  --rounds N        measured rounds (default 5; 2 with --quick)
  --once            ask Paceline for permits that are settled as they are given
  --paceline PATH   the binary (default: beside this one, or target/release)
  --install         install redis-server and etcd-server by apt-get first
  --help            this text

example:
  cargo build --release --workspace && cargo run --release -p paceline-bench-compare -- permits

Paceline and Redis listen on unix sockets, etcd on loopback TCP with gRPC. Redis
keeps nothing on disk; etcd syncs every lock to disk, which is what it is for.
";

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    paceline: PathBuf,
    load: Option<Pattern>,
    clients: usize,
    rounds: usize,
    round: Duration,
    once: bool,
    install: bool,
    help: bool,
}

impl Options {
    /// Parses the arguments after `permits`.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut options = Self {
            paceline: usual_paceline(),
            load: None,
            clients: 32,
            rounds: 5,
            round: Duration::from_secs(2),
            once: false,
            install: false,
            help: false,
        };
        while let Some(arg) = args.next() {
            let mut value =
                || args.next().ok_or_else(|| Failure::new(format!("{arg} needs a value")));
            match arg.as_str() {
                "--quick" => (options.rounds, options.round) = (2, Duration::from_millis(500)),
                "--load" => options.load = Some(Pattern::new(&value()?)),
                "--clients" => options.clients = count(&arg, &value()?)?,
                "--rounds" => options.rounds = count(&arg, &value()?)?,
                "--once" => options.once = true,
                "--paceline" => options.paceline = value()?.into(),
                "--install" => options.install = true,
                "--help" | "-h" => options.help = true,
                _ => {
                    let see = "see bench-compare permits --help";
                    return Err(Failure::new(format!("unknown option {arg}; {see}")));
                }
            }
        }
        Ok(options)
    }
}

fn count(arg: &str, text: &str) -> Outcome<usize> {
    match text.parse() {
        Ok(count @ 1..=1000) => Ok(count),
        _ => Err(Failure::new(format!("{arg} takes 1 to 1000, not {text:?}"))),
    }
}

/// One load: its name, its unit, its target, and the requests of each side's clients.
struct Load {
    name: &'static str,
    unit: &'static str,
    aim: &'static str,
    sides: Vec<Side>,
}

/// The requests of one side's clients, by the number of the client.
struct Side {
    rival: Rival,
    talk: Box<Talker>,
}

/// Builds the requests of the client with this number.
type Talker = dyn Fn(&Running, usize) -> Outcome<Talk>;

fn side(rival: Rival, talk: impl Fn(&Running, usize) -> Outcome<Talk> + 'static) -> Side {
    Side { rival, talk: Box::new(talk) }
}

fn loads(once: bool) -> Vec<Load> {
    let permit = move |running: &Running, _| {
        if once { talk::permit_once(running) } else { talk::permit(running) }
    };
    vec![
        Load {
            name: if once { "rate: permit at once" } else { "rate: permit + give back" },
            unit: "permits/s",
            aim: "CPU 1.0",
            sides: vec![side(Rival::Paceline, permit), side(Rival::Redis, talk::bucket)],
        },
        Load {
            name: "at most so many: permit + give back",
            unit: "permits/s",
            aim: "-",
            sides: vec![
                side(Rival::Paceline, |running, _| talk::permit(running)),
                side(Rival::Redis, talk::semaphore),
            ],
        },
        Load {
            name: "lock + unlock",
            unit: "pairs/s",
            aim: "10 (etcd)",
            sides: vec![
                side(Rival::Paceline, |running, number| talk::lock(running, number, "60s")),
                side(Rival::Redis, talk::redis_lock),
                side(Rival::Etcd, talk::etcd_lock),
            ],
        },
        Load {
            name: "lock + unlock, synced",
            unit: "pairs/s",
            aim: "-",
            sides: vec![
                side(Rival::Paceline, |running, number| talk::lock(running, number, "1h")),
                side(Rival::Etcd, talk::etcd_lock),
            ],
        },
    ]
}

/// Runs the loads.
pub fn run(options: &Options) -> Outcome<()> {
    if options.help {
        print!("{HELP}");
        return Ok(());
    }
    if options.install {
        rivals::install()?;
    }
    let scratch = Scratch::new()?;
    let load_before = machine::load();
    let wanted = |name| options.load.as_ref().is_none_or(|pattern| pattern.matches(name));
    let mut lines = Vec::new();
    for load in loads(options.once).iter().filter(|load| wanted(load.name)) {
        eprint!("{:36} ", load.name);
        lines.push(measure(options, &scratch, load)?);
        eprintln!();
    }
    let mut facts = machine::machine();
    facts.extend(rivals::versions(&options.paceline));
    facts.push(("load average before the run", load_before));
    facts.push(("clients", options.clients.to_string()));
    let (rounds, round) = (options.rounds, options.round.as_millis());
    facts.push(("rounds", format!("{rounds} of {round} ms each")));
    print!("{}", table::markdown(&facts, &lines));
    Ok(())
}

fn measure(options: &Options, scratch: &Scratch, load: &Load) -> Outcome<Line> {
    let (mut servers, mut swarms) = (Vec::new(), Vec::new());
    for side in &load.sides {
        let dir = scratch.0.join(side.rival.name());
        let server = Running::start(side.rival, &options.paceline, &dir)?;
        let talks = (0..options.clients).map(|number| (side.talk)(&server, number));
        swarms.push(Swarm::connect(&server, talks.collect::<Outcome<Vec<Talk>>>()?)?);
        servers.push(server);
    }
    let mut readings = vec![Vec::new(); servers.len()];
    for round in 0..=options.rounds {
        for turn in 0..servers.len() {
            // The server that is first in one round is last in the next.
            let at = if round % 2 == 0 { turn } else { servers.len() - 1 - turn };
            let before = process::cpu(servers[at].pid())?;
            let start = Instant::now();
            let count = swarms[at]
                .run(options.round)
                .map_err(|error| Failure::new(format!("{}: {error}", servers[at].rival.name())))?;
            let elapsed = start.elapsed();
            let cpu = process::cpu(servers[at].pid())?.saturating_sub(before);
            // The first round is a warm-up.
            if round > 0 {
                readings[at].push(Turn { count, elapsed, cpu });
            }
        }
        eprint!(".");
    }
    let sides = servers.iter().map(|server| server.rival).zip(readings).collect();
    Ok(Line { name: load.name, unit: load.unit, aim: load.aim, sides })
}

/// A directory that is removed at the end. Its path is short, as unix sockets require.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Outcome<Self> {
        let dir = std::env::temp_dir().join(format!("bench-permits-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(|error| Failure::io(dir.display(), &error))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
