//! The owners of objects, and what each file said when it was last applied.
//!
//! The table File has a row for each file, with what it said of each object and the UUID of the object's row. So a
//! file that is applied again changes only what changed in it. What was changed otherwise in the meantime is drift,
//! and stays. A renamed row is drift too.

use super::{How, operation};
use crate::document::{Document, Object};
use paceline_model::schema::FILE;
use paceline_tables::json::{self, Json};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Snapshot, Store, row_uuid};
use paceline_types::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The deepest nesting of a column's value as JSON.
const DEPTH_MAX: usize = 16;

/// The files whose objects are compared, and what they said.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    pub how: How,
    files: BTreeSet<String>,
    said: BTreeMap<String, Json>,
    /// The row of each object when its file was last applied.
    rows: BTreeMap<String, Uuid>,
}

/// The row of an object when the transaction is done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kept {
    /// It exists.
    Row(Uuid),
    /// It is inserted under this name.
    New(String),
}

/// The rows of objects by file, then by table and name.
pub(crate) type KeptRows = BTreeMap<(usize, String), Kept>;

/// The file that a row belongs to.
pub(super) fn owner<'r>(
    columns: &paceline_tables::schema::TableSchema,
    row: &'r Row,
) -> Option<&'r str> {
    row.get(columns.column_id("file")?.index())?.single()?.as_str()
}

impl Ownership {
    pub fn new(document: &Document, store: &Store, how: How) -> Self {
        let mut own =
            Self { how, files: document.files.iter().cloned().collect(), ..Self::default() };
        let rows = FileRows::new(store);
        own.files.extend(rows.vanished(document, how).map(|(name, _)| name.to_owned()));
        for (name, row) in &rows.0 {
            if own.files.contains(*name) {
                own.rows.extend(row.rows.clone());
            }
            if own.files.contains(*name) && !how.reset {
                own.said.extend(row.said.iter().filter_map(|(key, text)| {
                    Some((key.clone(), json::parse(text.as_bytes(), DEPTH_MAX).ok()?))
                }));
            }
        }
        own
    }

    /// Whether a file is one of those that are applied, or one that is no longer given.
    pub fn has(&self, file: &str) -> bool {
        self.files.contains(file)
    }

    /// What the file said of an object when it was last applied.
    pub fn said(&self, object: &Object) -> Option<&json::Object> {
        self.said.get(&key_of(object.table, &object.key)).and_then(Json::as_object)
    }

    /// The row in `table` of the object named `key` in the file, when the file was last applied.
    pub fn row(&self, table: &str, key: &str) -> Option<Uuid> {
        self.rows.get(&key_of(table, key)).copied()
    }

    /// Whether its file said the same when it was last applied.
    pub fn is_repeated(&self, object: &Object) -> bool {
        self.said.get(&key_of(object.table, &object.key)).is_some_and(|said| *said == says(object))
    }

    /// The operations that record what the files say now.
    pub fn notes(&self, document: &Document, store: &Store, kept: &KeptRows) -> Vec<Json> {
        let rows = FileRows::new(store);
        let mut notes = vec![];
        for (index, name) in document.files.iter().enumerate() {
            let own = document.objects.iter().filter(|object| object.file == index);
            let said =
                own.map(|object| (key_of(object.table, &object.key), says(object).to_text()));
            let said: BTreeMap<String, String> = said.collect();
            let of_file = |((file, key), row): (&(usize, String), &Kept)| {
                (*file == index).then(|| (key.clone(), row.clone()))
            };
            let kept: BTreeMap<String, Kept> = kept.iter().filter_map(of_file).collect();
            let row = rows.0.get(name.as_str());
            let served = self.how.serves || row.is_some_and(|row| row.served);
            match row {
                Some(row) if row.said == said && row.has(&kept) && row.served == served => {}
                Some(row) if said.is_empty() => notes.extend(row.delete()),
                None if said.is_empty() => {}
                Some(row) => notes.extend([
                    operation::wait(FILE, row.row),
                    operation::update(FILE, row_uuid(row.row), columns(&said, &kept, served)),
                ]),
                None => {
                    let mut row = columns(&said, &kept, served);
                    row.push(("name", Json::string(name.as_str())));
                    notes.push(operation::insert(FILE, row, None));
                }
            }
        }
        notes.extend(rows.vanished(document, self.how).flat_map(|(_, row)| row.delete()));
        notes
    }
}

/// The files that were applied, each with whether the daemon was given it.
#[must_use]
pub fn files_applied(rows: &Snapshot) -> BTreeMap<String, bool> {
    let Some(table) = rows.schema().table_id(FILE) else { return BTreeMap::new() };
    let columns = rows.schema().table(table);
    let datum = |row: &Row, name: &str| Some(row.get(columns.column_id(name)?.index())?.clone());
    let read = |row: &Row| {
        let name = datum(row, "name")?.single()?.as_str()?.to_owned();
        Some((name, datum(row, "served") == Some(crate::document::flag(true))))
    };
    rows.rows(table).filter_map(read).collect()
}

fn columns(
    said: &BTreeMap<String, String>,
    kept: &BTreeMap<String, Kept>,
    served: bool,
) -> Vec<(&'static str, Json)> {
    let said = map(said.iter().map(|(key, text)| (&**key, Json::string(text.as_str()))));
    vec![("said", said), ("rows", rows_value(kept)), ("served", Json::Bool(served))]
}

/// The value of the column `rows`.
fn rows_value(kept: &BTreeMap<String, Kept>) -> Json {
    map(kept.iter().map(|(key, row)| match row {
        Kept::Row(uuid) => (&**key, operation::uuid(*uuid)),
        Kept::New(name) => (&**key, operation::named(name)),
    }))
}

fn map<'k>(pairs: impl Iterator<Item = (&'k str, Json)>) -> Json {
    let pairs = pairs.map(|(key, value)| Json::Array(vec![Json::string(key), value]));
    Json::Array(vec![Json::string("map"), Json::Array(pairs.collect())])
}

/// The key of an object among all, which the model uses too: a restart drops what was said of objects that do not
/// survive it.
pub(super) fn key_of(table: &str, key: &str) -> String {
    format!("{table} {key}")
}

/// What a file says of an object.
pub(super) fn says(object: &Object) -> Json {
    let columns = object.columns.iter().filter(|(column, _)| **column != "file");
    let mut members: Vec<(&str, Json)> = columns
        .map(|(column, value)| match value.pairs().is_empty() {
            true => (*column, operation::value(value)),
            false => (*column, operation::map(value)),
        })
        .collect();
    if !object.parents.is_empty() {
        let parents = object.parents.iter().map(|name| Json::string(name.as_str()));
        members.push(("parents", Json::Array(parents.collect())));
    }
    Json::object(members)
}

/// The rows of the table File by name.
pub(super) struct FileRows<'s>(BTreeMap<&'s str, FileRow<'s>>);

pub(super) struct FileRow<'s> {
    row: &'s Row,
    served: bool,
    said: BTreeMap<String, String>,
    rows: BTreeMap<String, Uuid>,
}

impl<'s> FileRows<'s> {
    pub(super) fn new(store: &'s Store) -> Self {
        let Some(table) = store.schema().table_id(FILE) else { return Self(BTreeMap::new()) };
        let columns = store.schema().table(table);
        let datum = |row: &'s Row, name: &str| row.get(columns.column_id(name)?.index());
        let text = |atom: &Atom| atom.as_str().unwrap_or_default().to_owned();
        let read = |row: &'s Row| {
            let pairs = datum(row, "said").map_or(&[][..], Datum::pairs);
            let said = pairs.iter().map(|(key, value)| (text(key), text(value))).collect();
            let pairs = datum(row, "rows").map_or(&[][..], Datum::pairs);
            let uuid = |(key, value): &(Atom, Atom)| Some((text(key), value.as_uuid()?));
            let rows = pairs.iter().filter_map(uuid).collect();
            let served = datum(row, "served") == Some(&crate::document::flag(true));
            Some((datum(row, "name")?.single()?.as_str()?, FileRow { row, served, said, rows }))
        };
        Self(store.rows(table).filter_map(read).collect())
    }

    /// The rows of the objects of each file.
    pub(super) fn rows(&self) -> impl Iterator<Item = &BTreeMap<String, Uuid>> {
        self.0.values().map(|row| &row.rows)
    }

    /// The operations that record, for each object that has one of `rows` in table `from`, its row in table `to`. Each
    /// of `rows` has the file that it belongs to, and the row in `to`.
    pub(super) fn record(
        &self,
        (from, to): (&str, &str),
        rows: &BTreeMap<Uuid, (&str, Kept)>,
    ) -> Vec<Json> {
        let mut operations = vec![];
        for (name, file) in &self.0 {
            let object = |(key, row): (&String, &Uuid)| {
                let object = key.strip_prefix(from)?.strip_prefix(' ')?;
                let (_, kept) = rows.get(row).filter(|(owner, _)| owner == name)?;
                Some((key_of(to, object), kept.clone()))
            };
            let is_new = |(key, row): &(String, Kept)| {
                file.rows.get(key).is_none_or(|old| *row != Kept::Row(*old))
            };
            let new: Vec<(String, Kept)> =
                file.rows.iter().filter_map(object).filter(is_new).collect();
            if !new.is_empty() {
                let old = file.rows.iter().map(|(key, row)| (key.clone(), Kept::Row(*row)));
                let all = old.chain(new).collect();
                let column = ("rows", rows_value(&all));
                operations.push(operation::update(FILE, row_uuid(file.row), vec![column]));
            }
        }
        operations
    }

    /// The files that the daemon was given before and is not given now.
    fn vanished(
        &self,
        document: &Document,
        how: How,
    ) -> impl Iterator<Item = (&'s str, &FileRow<'s>)> {
        let is_gone = move |(name, row): &(&&'s str, &FileRow<'s>)| {
            how.serves && row.served && !document.files.iter().any(|file| file == **name)
        };
        self.0.iter().filter(is_gone).map(|(name, row)| (*name, row))
    }
}

impl FileRow<'_> {
    /// Whether it has these rows, and no others.
    fn has(&self, kept: &BTreeMap<String, Kept>) -> bool {
        let is_same = |((key, row), (own, uuid)): ((&String, &Kept), (&String, &Uuid))| {
            key == own && *row == Kept::Row(*uuid)
        };
        self.rows.len() == kept.len() && kept.iter().zip(&self.rows).all(is_same)
    }

    fn delete(&self) -> [Json; 2] {
        [operation::wait(FILE, self.row), operation::delete(FILE, row_uuid(self.row))]
    }
}
