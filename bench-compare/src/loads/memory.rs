//! Memory of 100,000 rows: how much the process grows when they are loaded by transactions, and how much more than an
//! empty one it uses after a restart on the compacted file.

use crate::data::LARGE_TABLE_ROWS;
use crate::failure::Outcome;
use crate::file;
use crate::process::{self, Memory};
use crate::rounds::{Bench, Kind, Line, Reading, Spec, fill};
use crate::server::{Server, Side};

/// Loads, compacts and restarts each side.
pub fn run(bench: &Bench) -> Outcome<Vec<Line>> {
    let specs = vec![
        spec("memory of 100k rows loaded by transactions, RSS"),
        spec("memory of 100k rows loaded by transactions, PSS").extra(),
        spec("memory of 100k rows after a restart, RSS"),
        spec("memory of 100k rows after a restart, PSS").extra(),
        spec("memory of the empty server, RSS").extra(),
    ];
    bench.rounds(Kind::Long, specs, |side| measure(bench, side))
}

fn spec(name: &str) -> Spec {
    Spec::cost(name, "MB", 3.0)
}

fn measure(bench: &Bench, side: Side) -> Outcome<Vec<Reading>> {
    let dir = bench.side_dir(side)?;
    let database = dir.join("db");
    file::create(&database)?;
    let server = Server::start(&bench.binaries, side, &dir, &database)?;
    let empty = process::memory(server.pid())?;
    fill(&server, LARGE_TABLE_ROWS)?;
    let loaded = process::memory(server.pid())?;
    server.compact()?;
    server.stop()?;
    let server = Server::start(&bench.binaries, side, &dir, &database)?;
    let restarted = process::memory(server.pid())?;
    server.stop()?;
    let mut readings = Vec::new();
    for now in [loaded, restarted] {
        readings.extend(growth(empty, now));
    }
    readings.push(megabytes(empty.resident));
    Ok(readings)
}

fn growth(empty: Memory, now: Memory) -> [Reading; 2] {
    [
        megabytes(now.resident.saturating_sub(empty.resident)),
        megabytes(now.proportional.saturating_sub(empty.proportional)),
    ]
}

fn megabytes(bytes: u64) -> Reading {
    Reading::plain(bytes as f64 / 1e6)
}
