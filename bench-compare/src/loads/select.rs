//! Selects from a table of 100,000 rows: by index column, by uuid, by full scan, and all of it.
//!
//! One client, one request at a time. Each request selects another row, so that nothing can be cached.

use crate::data::{self, Batch, LARGE_TABLE_ROWS, name};
use crate::failure::{Failure, Outcome};
use crate::file;
use crate::rounds::{Bench, Kind, Line, Reading, Servers, Spec, timed};
use crate::server::Server;

const UNIT: &str = "selects/s";

/// All four kinds in turn.
pub fn run(bench: &Bench) -> Outcome<Vec<Line>> {
    let servers = bench.servers_on(&bench.large_file(LARGE_TABLE_ROWS, 0)?)?;
    let mut lines = Vec::new();
    let spec = Spec::rate("select by index column, 100k rows", UNIT, 3.0);
    lines
        .extend(one_row(bench, &servers, spec, |row| format!(r#"["name","==","{}"]"#, name(row)))?);
    let spec = Spec::rate("select by `_uuid`, 100k rows", UNIT, 3.0).extra();
    lines.extend(one_row(bench, &servers, spec, |row| {
        format!(r#"["_uuid","==",["uuid","{}"]]"#, file::uuid(row))
    })?);
    let spec = Spec::rate("select by full scan, 1 of 100k rows", UNIT, 3.0);
    lines.extend(one_row(bench, &servers, spec, |row| format!(r#"["number","==",{row}]"#))?);
    lines.extend(all_rows(bench, &servers)?);
    servers.stop()?;
    Ok(lines)
}

fn one_row(
    bench: &Bench,
    servers: &Servers,
    spec: Spec,
    condition: impl Fn(usize) -> String,
) -> Outcome<Vec<Line>> {
    let mut next = 0;
    let mut round = |server: &Server, count: usize| {
        let mut batch = Batch::default();
        for _ in 0..count {
            // A stride without a common factor visits the table in no particular order.
            next = (next + 7919) % LARGE_TABLE_ROWS;
            batch.push(&data::select(&condition(next)));
        }
        select_each(server, &batch)
    };
    let count = bench.size_of_round(servers, &mut round)?;
    bench.rounds(Kind::Short, vec![spec], |side| Ok(vec![round(servers.of(side)?, count)?]))
}

fn select_each(server: &Server, batch: &Batch) -> Outcome<Reading> {
    let mut connection = server.connect()?;
    timed(server, batch.len(), || {
        for request in batch.iter() {
            let reply = connection.call(request)?;
            let rows = reply.iter().filter(|&&byte| byte == data::MARK).count();
            if rows != 1 {
                return Err(Failure::new(format!("a select found {rows} rows instead of 1")));
            }
        }
        Ok(())
    })
}

fn all_rows(bench: &Bench, servers: &Servers) -> Outcome<Vec<Line>> {
    let request = data::select("");
    let spec = Spec::cost("select all of 100k rows", "ms", 3.0).extra();
    bench.rounds(Kind::Short, vec![spec], |side| {
        let server = servers.of(side)?;
        let mut connection = server.connect()?;
        let reading = timed(server, 1, || {
            let len = connection.call_discarding(request.as_bytes())?;
            // A row is never shorter than this. A shorter reply did not contain all rows.
            if len < LARGE_TABLE_ROWS * 200 {
                return Err(Failure::new(format!("all rows came in {len} bytes")));
            }
            Ok(())
        })?;
        Ok(vec![Reading { value: 1000.0 / reading.value, ..reading }])
    })
}
