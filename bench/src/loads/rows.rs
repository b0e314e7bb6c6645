//! Single transactions on a table of more and more rows.

use super::world::{World, operations, row_name, spread};
use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_tables::json::Json;
use std::time::Duration;

const SIZES: [usize; 3] = [100, 1_000, 100_000];

/// Operations in one round, if the table's size does not limit it.
const STEPS: usize = 2_000;

const INSERT: Load = Load {
    name: "insert",
    operation: "a transaction of one insert into a table with a unique index, parsed already",
    of: "rows",
    unit: Unit::Nanoseconds,
};
const UPDATE: Load = Load {
    name: "update by uuid",
    operation: "a transaction of one update of one column where _uuid is given, parsed already",
    of: "rows",
    unit: Unit::Nanoseconds,
};
const SELECT: Load = Load {
    name: "select by index",
    operation: "a transaction of one select by an indexed column, with its result written",
    of: "rows",
    unit: Unit::Nanoseconds,
};
const SCAN: Load = Load {
    name: "scan",
    operation: "one row of a select by a column without index that finds nothing",
    of: "rows",
    unit: Unit::Nanoseconds,
};

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[INSERT, UPDATE, SELECT, SCAN]) {
        return Ok(());
    }
    for size in SIZES {
        let mut world = World::new(size)?;
        bench.run(INSERT, size, || insert(&mut world))?;
        let mut round = 0;
        bench.run(UPDATE, size, || update(&mut world, &mut round))?;
        bench.run(SELECT, size, || select(&mut world))?;
        bench.run(SCAN, size, || scan(&mut world))?;
    }
    Ok(())
}

/// Inserts a tenth of the table at a time and deletes it again, so that the size stays.
fn insert(world: &mut World) -> Outcome<(Duration, usize)> {
    let piece = (world.rows.len() / 10).clamp(1, STEPS);
    let transactions: Vec<Vec<Json>> = (0..piece)
        .map(|at| {
            operations(&format!(
                r#"[{{"op": "insert", "table": "Row", "row": {{"name": "new-{at}",
                    "note": "a note of ordinary length about the row", "number": {at},
                    "tags": ["map", [["kind", "new"]]]}}}}]"#
            ))
        })
        .collect::<Outcome<_>>()?;
    let (mut total, mut count) = (Duration::ZERO, 0);
    while count < STEPS {
        let (taken, changes) = time(|| -> Outcome<Vec<_>> {
            transactions.iter().map(|operations| Ok(world.execute(operations)?.1)).collect()
        });
        for changes in changes?.iter().rev().flatten() {
            world.database.undo(changes);
        }
        total += taken;
        count += piece;
    }
    Ok((total, count))
}

fn update(world: &mut World, round: &mut usize) -> Outcome<(Duration, usize)> {
    *round += 1;
    let transactions = world.updates(STEPS, *round)?;
    let (taken, done) = time(|| -> Outcome<()> {
        transactions.iter().try_for_each(|operations| world.execute(operations).map(drop))
    });
    done?;
    Ok((taken, STEPS))
}

fn select(world: &mut World) -> Outcome<(Duration, usize)> {
    let transactions: Vec<Vec<Json>> = (0..STEPS)
        .map(|at| {
            let name = row_name(spread(world.rows.len(), at));
            operations(&format!(
                r#"[{{"op": "select", "table": "Row", "where": [["name", "==", "{name}"]]}}]"#
            ))
        })
        .collect::<Outcome<_>>()?;
    let mut out = Vec::new();
    let (taken, done) = time(|| -> Outcome<()> {
        transactions.iter().try_for_each(|operations| {
            out.clear();
            let (results, _) = world.execute(operations)?;
            results.iter().for_each(|result| result.write(&mut out));
            Ok(())
        })
    });
    done?;
    if !out.starts_with(b"{\"rows\":[{") {
        return Err("the index found no row".into());
    }
    Ok((taken, STEPS))
}

fn scan(world: &mut World) -> Outcome<(Duration, usize)> {
    let times = (200_000 / world.rows.len()).clamp(1, 500);
    let operations =
        operations(r#"[{"op": "select", "table": "Row", "where": [["number", "==", -1]]}]"#)?;
    let (taken, done) = time(|| -> Outcome<()> {
        (0..times).try_for_each(|_| world.execute(&operations).map(drop))
    });
    done?;
    Ok((taken, times * world.rows.len()))
}
