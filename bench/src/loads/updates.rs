//! Updates for monitors: one text for each group of clients with equal monitors.

use super::world::{World, execute, operations};
use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_tables::Changes;
use paceline_tables::json::{self, Json};
use paceline_tables::monitor::{Monitor, Requests, Version};
use paceline_tables::schema::Schema;
use std::sync::Arc;
use std::time::Duration;

const GROUPS: [usize; 3] = [1, 10, 50];
const ROWS: [usize; 3] = [1, 10, 1_000];

const FANOUT: Load = Load {
    name: "update per groups",
    operation: "a transaction that changed one row, encoded once for every group",
    of: "groups",
    unit: Unit::Nanoseconds,
};
const CHANGES: Load = Load {
    name: "update per rows",
    operation: "one changed row of a transaction, encoded for one group",
    of: "rows",
    unit: Unit::Nanoseconds,
};

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[FANOUT, CHANGES]) {
        return Ok(());
    }
    let mut world = World::new(1_000)?;
    let schema = world.database.schema().clone();
    let one = change(&mut world, 1)?;
    for groups in GROUPS {
        let monitors = (0..groups).map(|at| monitor(&schema, at)).collect::<Outcome<Vec<_>>>()?;
        bench.run(FANOUT, groups, || {
            Ok((encode(&monitors, &one, &schema, 5_000 / groups)?, 5_000 / groups))
        })?;
    }
    let monitors = [monitor(&schema, 0)?];
    for rows in ROWS {
        let changes = change(&mut world, rows)?;
        let times = 5_000 / rows;
        bench.run(CHANGES, rows, || {
            Ok((encode(&monitors, &changes, &schema, times)?, times * rows))
        })?;
    }
    Ok(())
}

/// The changes of a transaction that touched the first `rows` rows.
fn change(world: &mut World, rows: usize) -> Outcome<Arc<Changes>> {
    let operations = operations(&format!(
        r#"[{{"op": "mutate", "table": "Row", "where": [["number", "<", {rows}]],
            "mutations": [["tags", "insert", ["map", [["changed", "{rows}"]]]]]}}]"#
    ))?;
    let (_, changes) = execute(&mut world.database, &operations)?;
    let changes = changes.ok_or("nothing changed")?;
    world.database.undo(&changes);
    match changes.rows.len() == rows {
        true => Ok(changes),
        false => Err("another number of rows changed".into()),
    }
}

/// Monitors that differ by their condition; each of them shows the first row.
fn monitor(schema: &Schema, number: usize) -> Outcome<Monitor> {
    let text = format!(
        r#"{{"Row": [{{"columns": ["name", "number", "tags"],
            "where": [["number", "<", {}]]}}]}}"#,
        100_000 + number
    );
    let json: Json = json::parse(text.as_bytes(), 32)?;
    Ok(Requests::new(&json)?.parse(schema, Version::V2)?)
}

fn encode(
    monitors: &[Monitor],
    changes: &Changes,
    schema: &Schema,
    times: usize,
) -> Outcome<Duration> {
    let mut out = Vec::new();
    let (taken, all) = time(|| {
        (0..times).all(|_| {
            monitors.iter().all(|monitor| {
                out.clear();
                monitor.update(changes, schema, &mut out)
            })
        })
    });
    if all { Ok(taken) } else { Err("a monitor had nothing to tell".into()) }
}
