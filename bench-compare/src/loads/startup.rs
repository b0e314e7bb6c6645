//! Start-up with a 100 MB file: from the start of the process until one row has been selected.
//!
//! The file holds 100,000 rows, each inserted by its own transaction, and updates of them, like the file of a server
//! that has not compacted for a while. It is in the page cache for both sides.

use std::fs;

use crate::data::{self, LARGE_TABLE_ROWS};
use crate::failure::{Failure, Outcome};
use crate::file;
use crate::process;
use crate::rounds::{Bench, Kind, Line, Reading, Spec};
use crate::server::{Server, Side};
use crate::wire::find;

const FILE_BYTES: u64 = 100_000_000;

/// Starts each side on its copy of the file.
pub fn run(bench: &Bench) -> Outcome<Vec<Line>> {
    let original = bench.large_file(LARGE_TABLE_ROWS, FILE_BYTES)?;
    let specs = vec![
        Spec::cost("start-up with a 100 MB file", "ms", 3.0),
        Spec::cost("memory after that start-up, RSS", "MB", 3.0).extra(),
    ];
    bench.rounds(Kind::Long, specs, |side| {
        let dir = bench.side_dir(side)?;
        let database = dir.join("db");
        fs::copy(&original, &database)?;
        // Synced before the clock starts, so that the disk is idle while it runs.
        fs::File::open(&database)?.sync_all()?;
        measure(bench, side, &dir, &database)
    })
}

fn measure(
    bench: &Bench,
    side: Side,
    dir: &std::path::Path,
    database: &std::path::Path,
) -> Outcome<Vec<Reading>> {
    let mut server = Server::spawn(&bench.binaries, side, dir, database)?;
    let mut connection = server.first_answer()?;
    let row = LARGE_TABLE_ROWS - 1;
    // Selected by uuid, which both sides find without a scan.
    let request = data::select(&format!(r#"["_uuid","==",["uuid","{}"]]"#, file::uuid(row)));
    let reply = connection.call(request.as_bytes())?;
    let took = server.started().elapsed();
    if find(reply, data::name(row).as_bytes()).is_none() {
        return Err(Failure::new("the last row is not there after the start"));
    }
    let cpu = process::cpu(server.pid())?;
    let memory = process::memory(server.pid())?;
    server.stop()?;
    Ok(vec![
        Reading { value: took.as_secs_f64() * 1000.0, cpu: Some((cpu, 1.0)) },
        Reading::plain(memory.resident as f64 / 1e6),
    ])
}
