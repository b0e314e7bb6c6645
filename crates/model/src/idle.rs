//! Settings that are set but have no effect in this version, according to the catalogue.

use paceline_catalogue::{Default, KINDS, Kind, Setting};
use paceline_tables::schema::Schema;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Store};

/// The most that are reported.
const TOLD_MAX: usize = 100;

/// A sentence for each setting of each row without effect.
pub(crate) fn settings(schema: &Schema, store: &Store) -> Vec<String> {
    KINDS.into_iter().flat_map(|kind| of_kind(schema, store, kind)).take(TOLD_MAX).collect()
}

fn of_kind(schema: &Schema, store: &Store, kind: &Kind) -> Vec<String> {
    let Some(table) = schema.table_id(kind.table) else { return vec![] };
    let column = |name: &str| schema.table(table).column_id(name).map(|column| column.index());
    let idle = kind.settings.iter().flat_map(|outer| {
        let inner =
            outer.inner().iter().map(move |one| (format!("{}.{}", outer.name, one.name), one));
        inner.chain([(outer.name.to_owned(), outer)])
    });
    let idle: Vec<(String, &Setting, usize, &str)> =
        idle.filter_map(|(name, one)| Some((name, one, column(one.column)?, one.idle?))).collect();
    if idle.is_empty() {
        return vec![];
    }
    let name = column(kind.id);
    let told = |row: &Row| -> Vec<String> {
        let key =
            name.and_then(|name| row[name].single()).and_then(Atom::as_str).unwrap_or_default();
        let set = idle.iter().filter(|(_, setting, at, _)| is_set(setting, &row[*at]));
        set.map(|(name, _, _, why)| format!("{} \"{key}\": {name} does nothing: {why}", kind.word))
            .collect()
    };
    store.rows(table).flat_map(told).collect()
}

/// Whether the setting differs from its default.
fn is_set(setting: &Setting, value: &Datum) -> bool {
    match (value.single(), setting.default) {
        (Some(Atom::Integer(number)), Default::Value(default)) => number.to_string() != default,
        (value, _) => value.is_some(),
    }
}
