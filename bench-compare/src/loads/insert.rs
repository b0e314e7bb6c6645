//! Insert transactions: one at a time, pipelined, by eight clients, and durable.
//!
//! Each transaction inserts one row. The table is emptied between rounds, which is not timed.

use crate::data::{self, Batch, Commit};
use crate::failure::Outcome;
use crate::pipeline::{self, Writer};
use crate::rounds::{Bench, Kind, Line, Reading, Spec, empty, timed};
use crate::server::Server;

const UNIT: &str = "txn/s";

/// One client that waits for each reply.
pub fn single(bench: &Bench) -> Outcome<Vec<Line>> {
    let spec = Spec::rate("insert, 1 client, one at a time", UNIT, 3.0);
    measure(bench, spec, |server, count| {
        let batch = data::inserts(0..count, Commit::Ordinary);
        let mut connection = server.connect()?;
        timed(server, count, || {
            for request in batch.iter() {
                connection.call(request)?;
            }
            Ok(())
        })
    })
}

/// One client with many outstanding transactions.
pub fn pipelined(bench: &Bench) -> Outcome<Vec<Line>> {
    let spec = Spec::rate("insert, 1 client, 64 outstanding", UNIT, 5.0).extra();
    measure(bench, spec, |server, count| many(server, count, 1, 64, Commit::Ordinary))
}

/// Eight clients with many outstanding transactions.
pub fn eight_clients(bench: &Bench) -> Outcome<Vec<Line>> {
    let spec = Spec::rate("insert, 8 clients, 128 outstanding each", UNIT, 5.0);
    measure(bench, spec, |server, count| many(server, count, 8, 128, Commit::Ordinary))
}

/// Eight clients whose commits are on disk before the reply.
pub fn durable(bench: &Bench) -> Outcome<Vec<Line>> {
    let spec = Spec::rate("durable insert, 8 clients, 128 outstanding each", UNIT, 5.0).extra();
    measure(bench, spec, |server, count| many(server, count, 8, 128, Commit::Durable))
}

fn many(
    server: &Server,
    count: usize,
    clients: usize,
    window: usize,
    commit: Commit,
) -> Outcome<Reading> {
    let bounds: Vec<usize> = (0..=clients).map(|client| count * client / clients).collect();
    let batches: Vec<Batch> =
        bounds.windows(2).map(|w| data::inserts(w[0]..w[1], commit)).collect();
    let mut writers = batches
        .iter()
        .map(|batch| Writer::new(server.connect()?, batch, window))
        .collect::<Outcome<Vec<_>>>()?;
    timed(server, count, || pipeline::run(&mut writers, &mut []))
}

fn measure(
    bench: &Bench,
    spec: Spec,
    insert: impl Fn(&Server, usize) -> Outcome<Reading>,
) -> Outcome<Vec<Line>> {
    let servers = bench.empty_servers()?;
    let round = |server: &Server, count: usize| {
        let reading = insert(server, count)?;
        empty(server)?;
        Ok(reading)
    };
    let count = bench.size_of_round(&servers, round)?;
    let lines =
        bench.rounds(Kind::Short, vec![spec], |side| Ok(vec![round(servers.of(side)?, count)?]))?;
    servers.stop()?;
    Ok(lines)
}
