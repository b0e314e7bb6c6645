//! Journal records, snapshots of the whole database, and conversion to another schema.

use crate::generate;
use crate::model::schema::Schema;
use crate::model::value::Value;
use crate::model::{Row, Tables, settle};
use crate::random::Random;
use crate::world::{DEPTH, World, contents, empty, id, parse_schema};
use paceline_tables::json::{self, Json};
use paceline_tables::{Changes, Database, convert};
use paceline_tables::{write_record, write_snapshot};
use paceline_types::UuidSource;
use std::collections::BTreeMap;
use std::rc::Rc;

/// `tables` as the journal keeps them: ephemeral columns have their defaults, and versions are not compared.
fn kept(schema: &Schema, tables: &Tables) -> Tables {
    let row = |at: usize, row: &Row| -> Row {
        let fields = row.iter().enumerate().map(|(column, value)| {
            let keep = column != 1 && schema.is_kept(at, column);
            if keep { value.clone() } else { Value::default_of(&schema.tables[at].columns[column]) }
        });
        Rc::new(fields.collect())
    };
    let table = |(at, rows): (usize, &BTreeMap<_, Row>)| {
        rows.iter().map(|(uuid, fields)| (*uuid, row(at, fields))).collect()
    };
    tables.iter().enumerate().map(table).collect()
}

/// The content of `database`, versions left out.
fn content(schema: &Schema, database: &Database) -> Tables {
    let mut tables = contents(schema, |table| database.store().rows(table));
    for row in tables.iter_mut().flat_map(|rows| rows.values_mut()) {
        Rc::make_mut(row)[1] = Value::default_of(&schema.tables[0].columns[1]);
    }
    tables
}

/// Appends the record of `changes`; checks its date and comment.
fn record(world: &World, changes: &Changes) -> Option<Vec<u8>> {
    let mut out = b"before".to_vec();
    let told = write_record(changes, world.real.schema(), &[], "because", 1_234, &mut out);
    assert_eq!(told, out.len() > 6);
    let record = out.split_off(6);
    told.then(|| {
        let json = json::parse(&record, DEPTH).unwrap();
        let object = json.as_object().unwrap();
        assert_eq!(object.get("_date"), Some(&Json::Integer(1_234)));
        assert_eq!(object.get("_comment").and_then(Json::as_str), Some("because"));
        for table in &world.model.schema.tables {
            let told = object.get(&table.name).and_then(Json::as_object);
            assert!(told.is_none_or(|rows| !rows.is_empty()), "a table without rows was written");
        }
        record
    })
}

/// Applies `record`.
fn apply(database: &mut Database, record: &[u8]) {
    database.apply_record(record).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn records_and_snapshots_bring_everything_kept_back() {
    for seed in 40_000..40_800 {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, &mut random);
        let schema = world.schema();
        let mut replica = empty(&schema, seed + 1);
        for _ in 0..20 {
            let before = kept(&schema, &world.model.tables);
            let Some(changes) = world.step(&mut random) else { continue };
            let after = kept(&schema, &world.model.tables);
            match record(&world, &changes) {
                Some(record) => {
                    let text = String::from_utf8_lossy(&record).into_owned();
                    world.note(format!("record {text}"));
                    apply(&mut replica, &record);
                }
                None => assert_eq!(before, after, "a change was not written"),
            }
            assert_eq!(content(&schema, &replica), after, "after the record");
        }
        let mut whole = Vec::new();
        write_snapshot(&world.real.snapshot(), &[], "", 1, &mut whole);
        let mut copy = empty(&schema, seed + 2);
        apply(&mut copy, &whole);
        assert_eq!(content(&schema, &copy), kept(&schema, &world.model.tables), "snapshot");
        let before = content(&schema, &copy);
        assert!(copy.apply_record(b"{\"Nope\":{},\"_date\":1}").is_err());
        assert_eq!(content(&schema, &copy), before, "a refused record changed something");
    }
}

/// Tables that are left out are neither in a record nor in a snapshot.
#[test]
fn skipped_tables_are_not_written() {
    let mut skipped = 0;
    for seed in 41_000..41_200 {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, &mut random);
        for _ in 0..10 {
            let Some(changes) = world.step(&mut random) else { continue };
            let skip = [id(random.below(world.model.tables.len()))];
            let name = &world.model.schema.tables[skip[0].index()].name;
            let mut texts = [Vec::new(), Vec::new()];
            write_record(&changes, world.real.schema(), &skip, "", 1, &mut texts[0]);
            write_snapshot(&world.real.snapshot(), &skip, "", 1, &mut texts[1]);
            for text in texts.iter().filter(|text| !text.is_empty()) {
                let json = json::parse(text, DEPTH).unwrap();
                assert!(json.as_object().unwrap().get(name).is_none());
                skipped += 1;
            }
        }
    }
    assert!(skipped > 500, "{skipped}");
}

/// `schema` with one change: a column removed, a column added, or a column of another type.
fn altered(random: &mut Random, schema: &Schema) -> Schema {
    let mut schema = schema.clone();
    let tables = schema.tables.len();
    let table = random.pick(&(0..tables).collect::<Vec<_>>()).to_owned();
    let table = &mut schema.tables[table];
    let at = random.between(2, table.columns.len() - 1);
    match random.below(3) {
        0 if table.columns.len() > 3 => {
            table.columns.remove(at);
            table.indexes.retain(|index| !index.contains(&at));
            let shift = |column: &mut usize| *column -= usize::from(*column > at);
            table.indexes.iter_mut().flatten().for_each(shift);
        }
        1 => {
            let mut column = generate::column(random, 0, tables);
            column.name = "z".to_owned();
            table.columns.push(column);
        }
        _ => {
            let column = &mut table.columns[at];
            let other = generate::constrained(random, column.key.kind);
            if table.columns[at].key.kind == other.kind {
                table.columns[at].key = other;
            }
            table.columns[at].min = random.below(2);
            table.columns[at].max = *random.pick(&[1, 2, usize::MAX]);
        }
    }
    schema
}

/// The expected result of conversion to `to`: columns of the same name are kept, others have their default, and
/// every value must fit.
fn converted(from: &Schema, tables: &Tables, to: &Schema) -> Option<Tables> {
    let mut new: Tables = to.tables.iter().map(|_| BTreeMap::new()).collect();
    for (at, rows) in tables.iter().enumerate() {
        for (uuid, row) in rows {
            let field = |column: &crate::model::schema::Column| {
                let Some(place) = from.tables[at].column(&column.name) else {
                    return Some(Value::default_of(column));
                };
                Some(row[place].clone()).filter(|value| value.fits(column))
            };
            let fields: Option<Vec<Value>> = to.tables[at].columns.iter().map(field).collect();
            new[at].insert(*uuid, Rc::new(fields?));
        }
    }
    let nothing = to.tables.iter().map(|_| BTreeMap::new()).collect();
    let mut tables = settle(to, new, &nothing).ok()?.tables;
    for row in tables.iter_mut().flat_map(|rows| rows.values_mut()) {
        Rc::make_mut(row)[1] = Value::default_of(&to.tables[0].columns[1]);
    }
    Some(tables)
}

#[test]
fn conversion_carries_over_what_fits() {
    let (mut fits, mut fails) = (0, 0);
    for seed in 42_000..42_500 {
        let mut random = Random::new(seed);
        let mut world = World::new(seed, &mut random);
        (0..12).for_each(|_| drop(world.step(&mut random)));
        let schema = world.schema();
        let snapshot = world.real.snapshot();
        let same = convert(&snapshot, parse_schema(&schema.to_json()), UuidSource::from_number(1));
        assert_eq!(content(&schema, &same.unwrap()), content(&schema, &world.real), "same schema");
        let to = altered(&mut random, &schema);
        world.note(format!("convert to {}", to.to_json().to_text()));
        let real = convert(&snapshot, parse_schema(&to.to_json()), UuidSource::from_number(1));
        match (real, converted(&schema, &world.model.tables, &to)) {
            (Ok(real), Some(expected)) => {
                assert_eq!(content(&to, &real), expected, "converted");
                fits += 1;
            }
            (Err(_), None) => fails += 1,
            (real, expected) => panic!("got {real:?}, expected {expected:?}"),
        }
    }
    assert!(fits > 100 && fails > 30, "{fits} {fails}");
}
