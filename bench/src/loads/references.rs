//! A set of strong references that grows by one.

use super::world::{World, operations, table};
use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_tables::value::{Atom, Datum};
use paceline_types::Uuid;
use std::time::Duration;

const SIZES: [usize; 3] = [10, 1_000, 10_000];

/// Maximum transactions before the set is made short again.
const STEPS_MAX: usize = 50;

const GROW: Load = Load {
    name: "strong reference",
    operation: "a transaction that inserts a row and a reference to it into a set of references",
    of: "elements",
    unit: Unit::Nanoseconds,
};

/// Runs the load.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    if !bench.wants(&[GROW]) {
        return Ok(());
    }
    for size in SIZES {
        let mut world = World::new(0)?;
        fill(&mut world, size)?;
        bench.run(GROW, size, || grow(&mut world, (size / 10).clamp(1, STEPS_MAX)))?;
    }
    Ok(())
}

fn fill(world: &mut World, size: usize) -> Outcome<()> {
    let (sets, parts) = (table(&world.database, "Set")?, table(&world.database, "Part")?);
    let mut uuids: Vec<Uuid> = (0..size).map(|_| world.database.fresh_uuid()).collect();
    uuids.sort_unstable();
    let set = Datum::from_sorted(uuids.iter().map(|uuid| Atom::Uuid(*uuid)).collect());
    let owner = world.database.fresh_uuid();
    // Parts exist only while they are referred to, so they and the set must be created in one transaction.
    let label = |uuid: &Uuid| format!(r#""{uuid}":{{"label":"part"}}"#);
    let labels: Vec<String> = uuids.iter().map(label).collect();
    let mut text = Vec::new();
    set.write(&world.database.schema().table(sets).columns[2].ty, &mut text);
    let text = String::from_utf8(text)?;
    let record =
        format!(r#"{{"Part":{{{}}},"Set":{{"{owner}":{{"parts":{text}}}}}}}"#, labels.join(","));
    world.database.apply_record(record.as_bytes())?;
    match world.database.store().row_count(parts) == size {
        true => Ok(()),
        false => Err("the parts are not all there".into()),
    }
}

fn grow(world: &mut World, steps: usize) -> Outcome<(Duration, usize)> {
    let operations = operations(
        r#"[{"op": "insert", "table": "Part", "row": {"label": "new"}, "uuid-name": "new"},
            {"op": "mutate", "table": "Set", "where": [],
             "mutations": [["parts", "insert", ["named-uuid", "new"]]]}]"#,
    )?;
    let (mut total, mut count) = (Duration::ZERO, 0);
    // Enough for a steady figure if one takes a microsecond, and not too many if it takes 100.
    while count < 1_000 && total < Duration::from_millis(60) {
        let (taken, changes) = time(|| -> Outcome<Vec<_>> {
            (0..steps).map(|_| Ok(world.execute(&operations)?.1)).collect()
        });
        for changes in changes?.iter().rev().flatten() {
            world.database.undo(changes);
        }
        total += taken;
        count += steps;
    }
    Ok((total, count))
}
