//! Random schemas: every kind of column, constraint, reference and index.

use super::atoms::constrained;
use crate::model::schema::{Base, Column, Kind, Limit, Schema, Table};
use crate::random::Random;

const KINDS: [Kind; 5] = [Kind::Integer, Kind::Real, Kind::Boolean, Kind::String, Kind::Uuid];

/// A schema of one to four tables.
pub fn schema(random: &mut Random) -> Schema {
    let count = random.between(1, 4);
    Schema { tables: (0..count).map(|at| table(random, at, count)).collect() }
}

fn table(random: &mut Random, at: usize, tables: usize) -> Table {
    let mut columns = vec![Column::special("_uuid"), Column::special("_version")];
    let count = random.between(1, 5);
    columns.extend((0..count).map(|at| column(random, at, tables)));
    columns[2..].sort_by(|a, b| a.name.cmp(&b.name));
    // Only columns that the journal keeps can be indexed.
    let kept: Vec<usize> = (2..columns.len()).filter(|at| !columns[*at].ephemeral).collect();
    let mut indexes = Vec::new();
    while !kept.is_empty() && random.chance(35) {
        let mut index = vec![*random.pick(&kept)];
        let second = *random.pick(&kept);
        if second != index[0] && random.chance(50) {
            index.push(second);
        }
        indexes.push(index);
    }
    Table {
        name: format!("T{at}"),
        columns,
        max_rows: if random.chance(15) { random.between(1, 8) } else { usize::MAX },
        root: at == 0 || random.chance(50),
        indexes,
    }
}

/// A random column; its number makes its name.
pub fn column(random: &mut Random, at: usize, tables: usize) -> Column {
    let key = base(random, tables);
    let value = random.chance(22).then(|| base(random, tables));
    let is_reference = |base: &Base| matches!(base.limit, Limit::Reference { .. });
    let refers = is_reference(&key) || value.as_ref().is_some_and(is_reference);
    // A required reference makes inserts fail; keep some.
    let min = usize::from(!random.chance(if refers { 85 } else { 45 }));
    let max = match random.below(10) {
        0..=4 if value.is_none() => 1,
        5 | 6 => random.between(1, 3),
        _ => usize::MAX,
    };
    Column {
        name: format!("{}{at}", ["c", "d", "e"][at % 3]),
        key,
        value,
        min,
        max,
        mutable: !random.chance(12),
        ephemeral: random.chance(15),
    }
}

fn base(random: &mut Random, tables: usize) -> Base {
    if random.chance(35) {
        let limit = Limit::Reference { table: random.below(tables), strong: random.chance(50) };
        return Base { limit, ..Base::plain(Kind::Uuid) };
    }
    let kind = *random.pick(&KINDS);
    constrained(random, kind)
}
