//! Rounds: measures both sides in turn, and collects readings into the lines of the table.
//!
//! Owns the order of measuring (a warm-up, then rounds in alternating order, so that drift of the machine affects
//! both sides alike), the amount of work in a round, and the content of a line of the result. Both sides always do
//! the same work. It never prints the result.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::args::Options;
use crate::data;
use crate::failure::{Failure, Outcome};
use crate::file;
use crate::machine;
use crate::pipeline;
use crate::process;
use crate::server::{Binaries, Server, Side};

/// Whether a higher or a lower figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// A rate.
    Higher,
    /// A time or a size.
    Lower,
}

/// The description of a line of the table, before it is measured.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What was done.
    pub name: String,
    /// The unit of its readings.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// The target ratio; none for lines that are only informative.
    pub aim: Option<f64>,
}

impl Spec {
    /// A rate with a target.
    pub fn rate(name: impl Into<String>, unit: &'static str, aim: f64) -> Self {
        Self { name: name.into(), unit, better: Better::Higher, aim: Some(aim) }
    }

    /// A time or size with a target.
    pub fn cost(name: impl Into<String>, unit: &'static str, aim: f64) -> Self {
        Self { name: name.into(), unit, better: Better::Lower, aim: Some(aim) }
    }

    /// The same without a target.
    pub fn extra(self) -> Self {
        Self { aim: None, ..self }
    }
}

/// One figure of one round.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// In the line's unit.
    pub value: f64,
    /// The server's CPU time in the round, and its number of operations.
    pub cpu: Option<(Duration, f64)>,
}

impl Reading {
    /// A figure without CPU time.
    pub fn plain(value: f64) -> Self {
        Self { value, cpu: None }
    }
}

/// One measured line.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its description.
    pub spec: Spec,
    /// Each side's readings, in the order of rounds.
    pub readings: Vec<(Side, Vec<Reading>)>,
}

impl Line {
    /// The readings of `side`, empty if it was not measured.
    pub fn of(&self, side: Side) -> &[Reading] {
        self.readings.iter().find(|(s, _)| *s == side).map_or(&[], |(_, readings)| readings)
    }
}

/// How many rounds count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Rounds of about a second: a warm-up, then several.
    Short,
    /// Rounds of several seconds, for which a warm-up would change nothing: few, all count.
    Long,
}

/// The environment of every load: the options, the binaries and a directory.
#[derive(Debug)]
pub struct Bench {
    /// The options of the run.
    pub options: Options,
    /// The binaries that are measured.
    pub binaries: Binaries,
    /// How busy the machine was before the first load.
    pub load_before: String,
    dir: PathBuf,
}

impl Bench {
    /// A bench with its scratch directory, which is removed when the bench is dropped.
    pub fn new(options: Options, binaries: Binaries) -> Outcome<Self> {
        // The path is short, because the path of a unix socket has a small maximum.
        let dir = options.dir.join(format!("bench-compare-{}", std::process::id()));
        fs::create_dir_all(&dir).map_err(|e| Failure::io(dir.display(), &e))?;
        Ok(Self { options, binaries, load_before: machine::load(), dir })
    }

    /// An empty directory for a server of `side`.
    pub fn side_dir(&self, side: Side) -> Outcome<PathBuf> {
        let dir = self.dir.join(side.name());
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|e| Failure::io(dir.display(), &e))?;
        Ok(dir)
    }

    /// A file with this many rows and at least this many bytes, created once in a run.
    pub fn large_file(&self, rows: usize, bytes_min: u64) -> Outcome<PathBuf> {
        let path = self.dir.join(format!("large-{rows}-{bytes_min}.db"));
        if !path.exists() {
            file::create_large(&path, rows, bytes_min)?;
        }
        Ok(path)
    }

    /// One running server for each side, on a new empty database.
    pub fn empty_servers(&self) -> Outcome<Servers> {
        self.servers(file::create)
    }

    /// One running server for each side, each on its copy of `file`.
    pub fn servers_on(&self, file: &Path) -> Outcome<Servers> {
        self.servers(|path| Ok(fs::copy(file, path).map(drop)?))
    }

    fn servers(&self, make: impl Fn(&Path) -> Outcome<()>) -> Outcome<Servers> {
        let mut servers = Vec::new();
        for &side in &self.options.sides {
            let dir = self.side_dir(side)?;
            let database = dir.join("db");
            make(&database)?;
            servers.push(Server::start(&self.binaries, side, &dir, &database)?);
        }
        Ok(Servers(servers))
    }

    /// Measures all sides in turn and collects what `measure` returns, one reading for each spec.
    pub fn rounds(
        &self,
        kind: Kind,
        specs: Vec<Spec>,
        mut measure: impl FnMut(Side) -> Outcome<Vec<Reading>>,
    ) -> Outcome<Vec<Line>> {
        let sides = &self.options.sides;
        let readings = sides.iter().map(|&side| (side, Vec::new())).collect::<Vec<_>>();
        let mut lines: Vec<Line> =
            specs.into_iter().map(|spec| Line { spec, readings: readings.clone() }).collect();
        let (warm_up, rounds) = match kind {
            Kind::Short => (1, self.options.rounds),
            Kind::Long => (0, self.options.long_rounds),
        };
        for round in 0..warm_up + rounds {
            for turn in 0..sides.len() {
                let at = if round % 2 == 0 { turn } else { sides.len() - 1 - turn };
                let found = measure(sides[at])
                    .map_err(|e| Failure::new(format!("{}: {e}", sides[at].name())))?;
                if round >= warm_up {
                    for (line, reading) in lines.iter_mut().zip(found) {
                        line.readings[at].1.push(reading);
                    }
                }
            }
            eprint!(".");
        }
        Ok(lines)
    }

    /// How many operations make a round of the requested duration on the first side. `work` does that many and leaves
    /// the server unchanged.
    pub fn size_of_round(
        &self,
        servers: &Servers,
        mut work: impl FnMut(&Server, usize) -> Outcome<Reading>,
    ) -> Outcome<usize> {
        const TRIAL: Duration = Duration::from_millis(60);
        let server = servers.first()?;
        let mut count = 8;
        loop {
            let rate = work(server, count)?.value;
            if count as f64 / rate >= TRIAL.as_secs_f64() || count >= ROUND_OPS_MAX {
                let size = (rate * self.options.round.as_secs_f64()) as usize;
                return Ok(size.clamp(8, ROUND_OPS_MAX));
            }
            count *= 4;
        }
    }
}

/// Maximum operations in a round, whatever the rate.
const ROUND_OPS_MAX: usize = 500_000;

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The running servers of a load, one for each side.
#[derive(Debug)]
pub struct Servers(Vec<Server>);

impl Servers {
    /// The server of `side`.
    pub fn of(&self, side: Side) -> Outcome<&Server> {
        self.0
            .iter()
            .find(|server| server.side() == side)
            .ok_or_else(|| Failure::new(format!("{} is not running", side.name())))
    }

    /// The first side's server, which determines the size of rounds.
    pub fn first(&self) -> Outcome<&Server> {
        self.0.first().ok_or_else(|| Failure::new("no server is running"))
    }

    /// Stops all of them in an orderly way.
    pub fn stop(self) -> Outcome<()> {
        self.0.into_iter().try_for_each(Server::stop)
    }
}

/// Does `work`, which is `ops` operations, and returns its rate and CPU time.
pub fn timed(server: &Server, ops: usize, work: impl FnOnce() -> Outcome<()>) -> Outcome<Reading> {
    let cpu_before = process::cpu(server.pid())?;
    let start = Instant::now();
    work()?;
    let elapsed = start.elapsed();
    let cpu = process::cpu(server.pid())?.saturating_sub(cpu_before);
    let ops = ops as f64;
    Ok(Reading { value: ops / elapsed.as_secs_f64(), cpu: Some((cpu, ops)) })
}

/// Fills an empty table with `rows` rows, many in each transaction.
pub fn fill(server: &Server, rows: usize) -> Outcome<()> {
    pipeline::send(server.connect()?, &data::bulk_inserts(0..rows, 100), 8)
}

/// Deletes all rows, so that every round starts from the same table.
pub fn empty(server: &Server) -> Outcome<()> {
    server.connect()?.call(data::delete_all().as_bytes()).map(drop)
}
