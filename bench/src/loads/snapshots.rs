//! Snapshots, and the writes right after one, which copy what the snapshot shares.

use super::world::World;
use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use std::time::Duration;

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

/// Writes that are timed after a snapshot; each is the first one in its place.
const WRITES: usize = 200;

const TAKE: Load =
    Load { name: "snapshot", operation: "a snapshot taken", of: "rows", unit: Unit::Nanoseconds };
const DROP: Load = Load {
    name: "snapshot drop",
    operation: "a snapshot dropped that still shares everything",
    of: "rows",
    unit: Unit::Nanoseconds,
};
const WRITE: Load = Load {
    name: "write, no snapshot",
    operation: "a transaction of one update by uuid, as the next line without a snapshot",
    of: "rows",
    unit: Unit::Nanoseconds,
};
const FIRST: Load = Load {
    name: "write after snapshot",
    operation: "a transaction of one update by uuid, one of the first 200 after a snapshot",
    of: "rows",
    unit: Unit::Nanoseconds,
};

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[TAKE, DROP, WRITE, FIRST]) {
        return Ok(());
    }
    for size in SIZES {
        let mut world = World::new(size)?;
        let times = (1_000_000 / size).clamp(3, 100);
        bench.run(TAKE, size, || {
            let (taken, snapshots) =
                time(|| (0..times).map(|_| world.database.snapshot()).collect::<Vec<_>>());
            drop(snapshots);
            Ok((taken, times))
        })?;
        bench.run(DROP, size, || {
            let snapshots: Vec<_> = (0..times).map(|_| world.database.snapshot()).collect();
            let (taken, ()) = time(|| drop(snapshots));
            Ok((taken, times))
        })?;
        let mut round = 0;
        bench.run(WRITE, size, || write(&mut world, &mut round, false))?;
        bench.run(FIRST, size, || write(&mut world, &mut round, true))?;
    }
    Ok(())
}

fn write(world: &mut World, round: &mut usize, shared: bool) -> Outcome<(Duration, usize)> {
    *round += 1;
    let transactions = world.updates(WRITES, *round)?;
    let snapshot = shared.then(|| world.database.snapshot());
    let (taken, done) = time(|| -> Outcome<()> {
        transactions.iter().try_for_each(|operations| world.execute(operations).map(drop))
    });
    drop(snapshot);
    done?;
    Ok((taken, WRITES))
}
