//! Pairs of lock and unlock by a client without contention.

use crate::data::Batch;
use crate::failure::Outcome;
use crate::pipeline;
use crate::rounds::{Bench, Kind, Line, Reading, Spec, timed};
use crate::server::Server;

const UNIT: &str = "pairs/s";

/// One call at a time.
pub fn single(bench: &Bench) -> Outcome<Vec<Line>> {
    let spec = Spec::rate("lock + unlock, 1 client, one at a time", UNIT, 3.0);
    measure(bench, spec, |server, count| {
        let calls = pairs(count);
        let mut connection = server.connect()?;
        timed(server, count, || {
            for call in calls.iter() {
                connection.call(call)?;
            }
            Ok(())
        })
    })
}

/// Many calls outstanding.
pub fn pipelined(bench: &Bench) -> Outcome<Vec<Line>> {
    let spec = Spec::rate("lock + unlock, 1 client, 64 outstanding", UNIT, 5.0).extra();
    measure(bench, spec, |server, count| {
        let calls = pairs(count);
        let connection = server.connect()?;
        timed(server, count, || pipeline::send(connection, &calls, 64))
    })
}

fn pairs(count: usize) -> Batch {
    let mut batch = Batch::default();
    for id in 0..count {
        batch.push(&format!(r#"{{"id":{id},"method":"lock","params":["bench_lock"]}}"#));
        batch.push(&format!(r#"{{"id":{id},"method":"unlock","params":["bench_lock"]}}"#));
    }
    batch
}

fn measure(
    bench: &Bench,
    spec: Spec,
    run: impl Fn(&Server, usize) -> Outcome<Reading>,
) -> Outcome<Vec<Line>> {
    let servers = bench.empty_servers()?;
    let count = bench.size_of_round(&servers, &run)?;
    let lines =
        bench.rounds(Kind::Short, vec![spec], |side| Ok(vec![run(servers.of(side)?, count)?]))?;
    servers.stop()?;
    Ok(lines)
}
