//! Fan-out: one writer, fifty monitors, timed until the last monitor has the last row.
//!
//! A server may put several transactions into one update. Rows are counted, not messages, so this is neither a
//! disadvantage nor a way to skip a row. Each row is changed once in a round, so that merging cannot combine two
//! changes into one.

use crate::data::{self, Batch, Commit};
use crate::failure::{Failure, Outcome};
use crate::pipeline::{self, Watcher, Writer};
use crate::rounds::{Bench, Kind, Line, Reading, Spec, empty, timed};
use crate::server::Server;
use crate::wire::{Connection, find};

const MONITORS: usize = 50;
const WINDOW: usize = 64;
/// The transaction id of a client that has seen nothing.
const NEVER: &str = "00000000-0000-0000-0000-000000000000";
const UNIT: &str = "txn/s to all";
/// What each client monitors, without the initial rows, which another load measures.
const WATCHED: &str = r#"{"Item":[{"columns":["name","number","enabled","tags","options","description"],"select":{"initial":false}}]}"#;

/// The method that the fifty clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Monitor,
    Since,
}

/// Inserts seen by `monitor`.
pub fn monitor(bench: &Bench) -> Outcome<Vec<Line>> {
    inserts(bench, Method::Monitor, "50 monitors (`monitor`), inserts")
}

/// Inserts seen by `monitor_cond_since`.
pub fn since(bench: &Bench) -> Outcome<Vec<Line>> {
    inserts(bench, Method::Since, "50 monitors (`monitor_cond_since`), inserts")
}

/// Updates seen by `monitor_cond_since`. Rows are selected by uuid, so that finding them is not measured.
pub fn update(bench: &Bench) -> Outcome<Vec<Line>> {
    let servers = bench.empty_servers()?;
    let mut turn = 0;
    let mut round = |server: &Server, count: usize| {
        turn += 1;
        let uuids = insert_rows(server, count)?;
        let batch = data::updates(&uuids, turn);
        let reading = deliver(server, &batch, Method::Since)?;
        empty(server)?;
        Ok(reading)
    };
    let count = bench.size_of_round(&servers, &mut round)?;
    let name = "50 monitors (`monitor_cond_since`), updates by uuid";
    let spec = Spec::rate(name, UNIT, 5.0).extra();
    let lines =
        bench.rounds(Kind::Short, vec![spec], |side| Ok(vec![round(servers.of(side)?, count)?]))?;
    servers.stop()?;
    Ok(lines)
}

fn inserts(bench: &Bench, method: Method, name: &str) -> Outcome<Vec<Line>> {
    let servers = bench.empty_servers()?;
    let round = |server: &Server, count: usize| {
        let reading = deliver(server, &data::inserts(0..count, Commit::Ordinary), method)?;
        empty(server)?;
        Ok(reading)
    };
    let count = bench.size_of_round(&servers, round)?;
    let spec = Spec::rate(name, UNIT, 5.0);
    let lines =
        bench.rounds(Kind::Short, vec![spec], |side| Ok(vec![round(servers.of(side)?, count)?]))?;
    servers.stop()?;
    Ok(lines)
}

fn deliver(server: &Server, batch: &Batch, method: Method) -> Outcome<Reading> {
    let mut watchers = (0..MONITORS)
        .map(|_| watch(server.connect()?, method, batch.len()))
        .collect::<Outcome<Vec<_>>>()?;
    let mut writers = [Writer::new(server.connect()?, batch, WINDOW)?];
    timed(server, batch.len(), || pipeline::run(&mut writers, &mut watchers))
}

fn watch(mut connection: Connection, method: Method, rows: usize) -> Outcome<Watcher> {
    let request = match method {
        Method::Monitor => {
            format!(r#"{{"id":1,"method":"monitor","params":["Bench","m",{WATCHED}]}}"#)
        }
        Method::Since => format!(
            r#"{{"id":1,"method":"monitor_cond_since","params":["Bench","m",{WATCHED},"{NEVER}"]}}"#
        ),
    };
    connection.call(request.as_bytes())?;
    Watcher::new(connection, rows)
}

/// Inserts rows one by one and returns the uuids that the server assigned.
fn insert_rows(server: &Server, count: usize) -> Outcome<Vec<String>> {
    const BEFORE: &[u8] = br#"["uuid",""#;
    const UUID_LEN: usize = 36;
    let mut connection = server.connect()?;
    let mut uuids = Vec::with_capacity(count);
    for request in data::bulk_inserts(0..count, 100).iter() {
        let mut rest = connection.call(request)?;
        while let Some(at) = find(rest, BEFORE) {
            rest = &rest[at + BEFORE.len()..];
            let uuid = rest.get(..UUID_LEN).unwrap_or_default();
            uuids.push(String::from_utf8_lossy(uuid).into_owned());
        }
    }
    if uuids.len() == count {
        return Ok(uuids);
    }
    Err(Failure::new(format!("{} uuids for {count} inserts", uuids.len())))
}
