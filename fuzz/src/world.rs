//! The database for fuzzed transactions and records: a schema with one column of every kind, a few rows, and
//! functions to compare contents.

use paceline_tables::json;
use paceline_tables::schema::{Schema, TableId};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Database, Row, Store, row_uuid, write_snapshot};
use paceline_types::{Uuid, UuidSource};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

const SCHEMA: &str = include_str!("../world.ovsschema");
const ROWS: &str = include_str!("../world.json");
const DEPTH_MAX: usize = 64;

/// The rows that exist from the start, and one that never exists.
pub const UUIDS: [&str; 8] = [
    "00000000-0000-4000-8000-000000000001",
    "00000000-0000-4000-8000-000000000002",
    "00000000-0000-4000-8000-000000000003",
    "00000000-0000-4000-8000-000000000004",
    "00000000-0000-4000-8000-000000000005",
    "00000000-0000-4000-8000-000000000006",
    "00000000-0000-4000-8000-000000000007",
    "00000000-0000-0000-0000-000000000000",
];

static PARSED: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let json = json::parse(SCHEMA.as_bytes(), DEPTH_MAX).expect("our own JSON");
    Arc::new(Schema::parse(&json).expect("our own schema"))
});

/// The database with its first rows. Its UUIDs come from `seed`.
#[must_use]
pub fn database(seed: u64) -> Database {
    let mut database = Database::new(PARSED.clone(), UuidSource::from_number(seed));
    database.apply_record(ROWS.as_bytes()).expect("our own rows");
    check_derived(database.store());
    database
}

/// Every row with all its columns, including ephemeral ones and the version.
pub type Contents = BTreeMap<(TableId, Uuid), Row>;

/// All rows, for comparison with the same database at another time.
#[must_use]
pub fn contents(store: &Store) -> Contents {
    let schema = store.schema();
    let rows = schema.table_ids().flat_map(|table| store.rows(table).map(move |row| (table, row)));
    rows.map(|(table, row)| ((table, row_uuid(row)), row.clone())).collect()
}

/// The text that is stored on disk, in a fixed order, for comparison with other databases.
#[must_use]
pub fn kept(database: &Database) -> String {
    let mut text = Vec::new();
    write_snapshot(&database.snapshot(), &[], "", 0, &mut text);
    json::parse(&text, DEPTH_MAX).expect("a snapshot is JSON").to_text()
}

/// Everything that the store derives from its rows matches the rows.
pub fn check_derived(store: &Store) {
    let schema = store.schema();
    let (mut strong, mut weak) = (BTreeMap::new(), BTreeMap::new());
    for ((table, uuid), row) in &contents(store) {
        assert!(Arc::ptr_eq(row, store.row(*table, *uuid).expect("a row is found by its UUID")));
        assert_eq!(row.len(), schema.table(*table).columns.len());
        for (value, column) in row.iter().zip(&schema.table(*table).columns) {
            // A record may omit a column whose default violates its constraints, as in `ovsdb-server`; an insert may
            // not.
            let fits = *value == column.default || value.check(&column.ty).is_ok();
            assert!(fits, "{} = {value:?}", column.name);
            assert!(value.check_count(&column.ty).is_ok(), "{} = {value:?}", column.name);
            check_form(value, column.ty.value.is_some());
            for (base, to) in references(value, &column.ty) {
                assert!(store.row(base.table, to).is_some(), "a reference has its row");
                if !base.strong {
                    weak.entry((base.table, to))
                        .or_insert_with(BTreeSet::new)
                        .insert((*table, *uuid));
                } else if to != *uuid {
                    *strong.entry((base.table, to)).or_insert(0u32) += 1;
                }
            }
        }
    }
    for table in schema.table_ids() {
        let rows = store.row_count(table);
        assert_eq!(rows, store.rows(table).count());
        assert!(rows <= schema.table(table).max_rows as usize, "the row limit holds");
        for row in store.rows(table) {
            let uuid = row_uuid(row);
            let counted = strong.get(&(table, uuid)).copied().unwrap_or(0);
            assert_eq!(store.strong_count(table, uuid), counted);
            assert!(schema.table(table).is_root || counted > 0, "garbage is collected");
            let referrers: BTreeSet<_> = store.weak_referrers(table, uuid).into_iter().collect();
            assert_eq!(referrers, weak.get(&(table, uuid)).cloned().unwrap_or_default());
            for (number, columns) in schema.table(table).indexes.iter().enumerate() {
                let values: Vec<&Datum> = columns.iter().map(|id| &row[id.index()]).collect();
                let found: Vec<Uuid> =
                    store.indexed(table, number, &values).map(|row| row_uuid(row)).collect();
                assert_eq!(found, [uuid], "an index finds the row and no other");
            }
        }
    }
}

/// The form of a value depends only on its content.
fn check_form(value: &Datum, is_map: bool) {
    match value {
        Datum::Empty => {}
        Datum::One(_) => assert!(!is_map),
        Datum::Set(atoms) => {
            assert!(!is_map && atoms.len() > 1 && atoms.is_sorted_by(|a, b| a < b), "{value:?}");
        }
        Datum::Map(pairs) => {
            assert!(is_map && !pairs.is_empty() && pairs.is_sorted_by(|a, b| a.0 < b.0));
        }
    }
    let finite = |atom: &Atom| !matches!(atom, Atom::Real(real) if !real.is_finite());
    assert!(value.keys().all(finite) && value.pairs().iter().all(|(_, value)| finite(value)));
}

/// The rows a value refers to, each with the reference its column declares.
fn references<'a>(
    value: &'a Datum,
    ty: &'a paceline_tables::schema::Type,
) -> Vec<(&'a paceline_tables::schema::Reference, Uuid)> {
    let mut found = Vec::new();
    if let Some(reference) = ty.key.reference() {
        found.extend(value.keys().filter_map(Atom::as_uuid).map(|to| (reference, to)));
    }
    if let Some(reference) = ty.value.as_ref().and_then(|base| base.reference()) {
        let to = value.pairs().iter().filter_map(|(_, value)| value.as_uuid());
        found.extend(to.map(|to| (reference, to)));
    }
    found
}
