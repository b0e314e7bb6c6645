//! From a document to the one transaction that makes a database agree with it.
//!
//! Owns the comparison and the operations. Promises:
//!
//! - rows are inserted and updated only where the file differs from when it was last applied;
//! - rows are deleted only if they belong to the file, or to a backend that does;
//! - a row of the same name that was created by hand is taken over, and one of another file only if that is
//!   requested;
//! - a row of the file that was renamed stays the same object, under its new name, until `reset`;
//! - every changed row is guarded by its version, so that of two concurrent edits one fails as a whole.
//!
//! Rules are written to the running and to the saved list, so that they are kept across restarts.

mod change;
mod operation;
mod owner;
mod revert;
mod ruleset;
mod save;
mod tracked;

pub use change::{Applied, Change, ChangeOp};
pub(crate) use owner::Ownership;
pub use owner::files_applied;
pub use revert::{revert, revert_each};
pub use ruleset::{RulesetEdit, RulesetImport, export_rules, import_rules};
pub use save::save_rules;

use crate::ERRORS_MAX;
use crate::document::{Document, NUMBER_RULES, Object, flag, text};
use crate::error::ConfigError;
use crate::keys::kind_of;
use crate::read::shown;
use owner::{Kept, KeptRows, key_of};
use paceline_model::schema::{
    API, BACKEND, CHECKPOINT, FRONTEND, HTTP, POOL, RESOURCE, RULE, SAVED_RULE, SERVER, SQL_TARGET,
    USER,
};
use paceline_pools::DEFAULT_NAME;
use paceline_rules::{parse_criteria, show_criteria};
use paceline_tables::json::Json;
use paceline_tables::schema::{Column, ColumnId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Store, row_uuid};
use paceline_types::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use tracked::Tracked;

/// The tables that a file describes, each with the columns that identify its rows and the table whose objects its
/// rows are.
const TABLES: [(&str, &[&str], &str); 12] = [
    (API, &[], API),
    (HTTP, &[], HTTP),
    (FRONTEND, &["name"], FRONTEND),
    (BACKEND, &["name"], BACKEND),
    (SERVER, &["backend", "name"], SERVER),
    (SQL_TARGET, &["name"], SQL_TARGET),
    (POOL, &["name"], POOL),
    (RULE, &["number"], RULE),
    (SAVED_RULE, &["number"], RULE),
    (CHECKPOINT, &["name"], CHECKPOINT),
    (RESOURCE, &["name"], RESOURCE),
    (USER, &["name"], USER),
];

/// How a file is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Set everything to what the file says, including what was changed otherwise since it was last applied.
    pub reset: bool,
    /// Objects of other files that are named here belong to this file from now on.
    pub take_over: bool,
    /// The daemon has started since the files were last applied, which starts pools: pools that the file stops are
    /// stopped again.
    pub starts: bool,
    /// These are all files that the daemon was given: objects of a file that it was given before and is not given now
    /// are deleted.
    pub serves: bool,
}

impl Document {
    /// The transaction that makes the database in `store` agree with what is new in this file, and its changes. There
    /// are no operations if nothing differs.
    #[must_use]
    pub fn apply(&self, store: &Store, how: How) -> Applied {
        let own = Ownership::new(self, store, how);
        let plan = plan(&self.objects, store, &own);
        let notes = own.notes(self, store, &plan.kept);
        let mut applied = plan.applied();
        applied.operations.extend(notes);
        applied
    }
}

/// The same for some objects, without recording what the files say.
pub(crate) fn operations(objects: &[Object], store: &Store, own: &Ownership) -> Applied {
    plan(objects, store, own).applied()
}

fn plan(objects: &[Object], store: &Store, own: &Ownership) -> Plan {
    let mut plan = Plan::default();
    let tracked = Tracked::new(objects, store, own);
    let resources = Resources::new(objects, store, &tracked);
    let known = Known { own, tracked: &tracked, resources: &resources };
    for (table, ids, of) in TABLES {
        let Some(table) = Table::new(store, table, ids) else { continue };
        let objects = objects.iter().enumerate().filter(|(_, object)| object.table == of);
        table.compare(objects, known, &mut plan);
    }
    plan
}

/// The state of all objects and rows.
#[derive(Clone, Copy)]
struct Known<'k> {
    own: &'k Ownership,
    tracked: &'k Tracked<'k>,
    resources: &'k Resources<'k>,
}

/// The operations by kind, so that a transaction checks all rows before it changes any.
#[derive(Default)]
struct Plan {
    waits: Vec<Json>,
    deletes: Vec<(Json, Change)>,
    updates: Vec<(Json, Change)>,
    inserts: Vec<(Json, Change)>,
    drift: Vec<Change>,
    conflicts: Vec<ConfigError>,
    kept: KeptRows,
}

impl Plan {
    /// Records the row of an object.
    fn keep(&mut self, table: &str, object: &Object, row: Kept) {
        self.kept.insert((object.file, key_of(table, &object.key)), row);
    }

    /// Records a conflict; for a rule, which is in two tables, only once.
    fn refuse(&mut self, conflict: Option<ConfigError>) {
        let is_new = |conflict: &ConfigError| !self.conflicts.contains(conflict);
        let has_room = self.conflicts.len() < ERRORS_MAX;
        if let Some(conflict) = conflict.filter(|one| has_room && is_new(one)) {
            self.conflicts.push(conflict);
        }
    }

    fn applied(self) -> Applied {
        let Self { waits: mut operations, deletes, updates, inserts, drift, conflicts, kept: _ } =
            self;
        let mut changes = vec![];
        for (operation, change) in deletes.into_iter().chain(updates).chain(inserts) {
            operations.push(operation);
            changes.push(change);
        }
        Applied { operations, changes, drift, conflicts }
    }
}

/// One table of the database, with its rows by name or number.
struct Table<'s> {
    name: &'static str,
    columns: &'s TableSchema,
    ids: Vec<ColumnId>,
    rows: BTreeMap<String, &'s Row>,
}

/// The name of a row by these columns.
fn key(table: &str, ids: &[ColumnId], row: &Row) -> Option<String> {
    let part = |id: &ColumnId| row.get(id.index()).map(change::text);
    let parts = ids.iter().map(part).collect::<Option<Vec<String>>>()?;
    // An object that exists only once has the name of its kind.
    let only = || kind_of(table).map(|kind| kind.word.to_owned());
    Some(if parts.is_empty() { only()? } else { parts.join("/") })
}

impl<'s> Table<'s> {
    fn new(store: &'s Store, name: &'static str, ids: &[&str]) -> Option<Self> {
        let table = store.schema().table_id(name)?;
        let columns = store.schema().table(table);
        let ids = ids.iter().map(|id| columns.column_id(id)).collect::<Option<Vec<_>>>()?;
        let table =
            store.rows(table).filter_map(|row| Some((key(name, &ids, row)?, row))).collect();
        Some(Self { name, columns, ids, rows: table })
    }

    fn compare<'o>(
        &self,
        objects: impl Iterator<Item = (usize, &'o Object)>,
        known: Known<'_>,
        plan: &mut Plan,
    ) {
        let mut kept = BTreeSet::new();
        for (index, object) in objects {
            let row = match self.row_of(object, known) {
                Ok(row) => row,
                Err(conflict) => {
                    plan.refuse(Some(conflict));
                    continue;
                }
            };
            let other = row.and_then(|row| self.other_owner(row, known.own));
            if let Some(row) = row {
                kept.insert(row_uuid(row));
                plan.keep(self.name, object, Kept::Row(row_uuid(row)));
            }
            match row {
                Some(_) if other.is_some() && !known.own.how.take_over => {
                    plan.refuse(other.map(|other| belongs(object, other)));
                }
                Some(row) => self.update(row, object, known, plan),
                None if known.own.is_repeated(object) || self.is_displaced(object, known) => {
                    // It is not written anew that the row is gone.
                    if let Some(gone) = known.own.row(self.name, &object.key) {
                        plan.keep(self.name, object, Kept::Row(gone));
                    }
                    plan.drift.push(self.change(ChangeOp::Delete, &object.key, vec![]));
                }
                None => self.insert(index, object, known, plan),
            }
        }
        for (key, row) in &self.rows {
            let is_own = owner::owner(self.columns, row).is_some_and(|file| known.own.has(file));
            let goes = is_own || self.goes_with_backend(key, plan);
            if goes && !kept.contains(&row_uuid(row)) {
                self.delete(key, row, known.resources, plan);
            }
        }
    }

    /// The row of an object: the one that its file created, otherwise the one with its name.
    ///
    /// # Errors
    ///
    /// When a row was renamed so that two objects cannot both have the names that the file gives them.
    fn row_of(&self, object: &Object, known: Known<'s>) -> Result<Option<&'s Row>, ConfigError> {
        let (own, tracked) = (known.own, known.tracked);
        let called = tracked.called(object);
        let named = self.rows.get(&called).copied();
        if let Some(row) = tracked.row(self.name, object) {
            let is_reset = own.said(object).is_none();
            let stays = |other: &&Row| {
                let is_own = owner::owner(self.columns, other).is_some_and(|file| own.has(file));
                row_uuid(other) != row_uuid(row) && !is_own
            };
            return match named.filter(stays).filter(|_| is_reset) {
                Some(_) => Err(taken(object, &self.key(row))),
                None => Ok(Some(row)),
            };
        }
        let Some(other) = named.and_then(|row| tracked.key(row_uuid(row))) else {
            return Ok(named.filter(|row| !self.is_gone(object, row, own)));
        };
        match own.how.reset || own.is_repeated(object) || self.is_displaced(object, known) {
            true => Ok(None),
            false => Err(renamed(object, other)),
        }
    }

    /// Whether the row of an object was deleted since its file was applied, and an object of another file has its name
    /// now. That is drift as long as the file says the same, also if the other file is not applied with it.
    fn is_gone(&self, object: &Object, named: &'s Row, own: &Ownership) -> bool {
        let is_other = !own.how.take_over && self.other_owner(named, own).is_some();
        let old = own.row(self.name, &object.key).filter(|_| is_other && own.is_repeated(object));
        old.is_some_and(|old| self.rows.values().all(|row| row_uuid(row) != old))
    }

    /// Whether an object went with the restart, and cannot be made again because another object of the files was renamed
    /// to its name meanwhile. That was no error before the restart, and is none now.
    fn is_displaced(&self, object: &Object, known: Known<'_>) -> bool {
        let (own, tracked) = (known.own, known.tracked);
        let is_transient = object.columns.get("persistent") == Some(&flag(false));
        let named = self.rows.get(&tracked.called(object));
        own.how.starts
            && is_transient
            && own.said(object).is_none()
            && tracked.row(self.name, object).is_none()
            && named.is_some_and(|row| tracked.key(row_uuid(row)).is_some())
    }

    /// What a row is called.
    fn key(&self, row: &Row) -> String {
        key(self.name, &self.ids, row).unwrap_or_default()
    }

    /// The other file that a row belongs to.
    fn other_owner(&self, row: &'s Row, own: &Ownership) -> Option<&'s str> {
        owner::owner(self.columns, row).filter(|file| !own.has(file))
    }

    fn insert(&self, index: usize, object: &Object, known: Known<'_>, plan: &mut Plan) {
        let mut row = vec![];
        let mut columns = vec![];
        for (_, column) in self.settable() {
            let value = Wanted::new(object, column, known.tracked);
            if value.is_default(column) {
                continue;
            }
            row.push((&*column.name, value.json(column, known.resources)));
            columns.push((column.name.to_string(), String::new(), value.text()));
        }
        let name = operation::new_name(self.name, index);
        let change = self.change(ChangeOp::Insert, &object.key, columns);
        plan.inserts.push((operation::insert(self.name, row, Some(&name)), change));
        plan.keep(self.name, object, Kept::New(name));
    }

    fn update(&self, row: &'s Row, object: &Object, known: Known<'_>, plan: &mut Plan) {
        let Known { own, tracked, resources } = known;
        let said = own.said(object).filter(|_| self.other_owner(row, own).is_none());
        let says = owner::says(object);
        let is_stopped = object.columns.get("state") == Some(&text("stopped"));
        let repeats = |column: &str| {
            let is_lost = own.how.starts && self.name == POOL && column == "state" && is_stopped;
            let is_kept = column != "file" && !is_lost;
            is_kept
                && said.is_some_and(|said| {
                    says.as_object().and_then(|new| new.get(column)) == said.get(column)
                })
        };
        let (mut changed, mut columns, mut drift) = (vec![], vec![], vec![]);
        for (id, column) in self.settable() {
            let Some(old) = row.get(id.index()) else { continue };
            let value = Wanted::new(object, column, tracked);
            if value.is_in(old, column, resources) || self.is_meant(old, column, object) {
                continue;
            }
            let differs = (column.name.to_string(), resources.text(column, old), value.text());
            if repeats(&column.name) {
                drift.push(differs);
                continue;
            }
            changed.push((&*column.name, value.json(column, resources)));
            columns.push(differs);
        }
        let renamed = Some(self.key(row)).filter(|key| *key != tracked.called(object));
        let change = |columns| {
            let change = self.change(ChangeOp::Update, &object.key, columns);
            Change { renamed: renamed.clone(), ..change }
        };
        if !drift.is_empty() {
            plan.drift.push(change(drift));
        }
        if changed.is_empty() {
            return;
        }
        self.add_pair(object, known, &mut changed);
        plan.waits.push(operation::wait(self.name, row));
        let change = change(columns);
        plan.updates.push((operation::update(self.name, row_uuid(row), changed), change));
    }

    /// If one of two paired columns is written, adds the other.
    fn add_pair(&self, object: &Object, known: Known<'_>, changed: &mut Vec<(&str, Json)>) {
        let has =
            |changed: &[(&str, Json)], name: &str| changed.iter().any(|(own, _)| *own == name);
        if !PAIRED.iter().any(|name| has(changed, name)) {
            return;
        }
        for name in PAIRED {
            let column = self.settable().find(|(_, column)| &*column.name == name);
            if let Some((_, column)) = column.filter(|_| !has(changed, name)) {
                let value = Wanted::new(object, column, known.tracked);
                changed.push((name, value.json(column, known.resources)));
            }
        }
    }

    /// Whether an unset column of a pool already means what the file says. Without a state, a pool is stopped, except
    /// for the default pool, which is always started and always persistent.
    fn is_meant(&self, old: &Datum, column: &Column, object: &Object) -> bool {
        let is_default = object.key == DEFAULT_NAME;
        let wanted = object.columns.get(&*column.name).and_then(Datum::single);
        let meant = match &*column.name {
            _ if self.name != POOL || *old != column.default => return false,
            "state" if is_default => Atom::string("started"),
            "state" => Atom::string("stopped"),
            "persistent" if is_default => Atom::Boolean(true),
            _ => return false,
        };
        wanted == Some(&meant)
    }

    fn delete(&self, key: &str, row: &Row, resources: &Resources<'_>, plan: &mut Plan) {
        let mut columns = vec![];
        for (id, column) in self.settable() {
            let Some(old) = row.get(id.index()).filter(|old| **old != column.default) else {
                continue;
            };
            columns.push((column.name.to_string(), resources.text(column, old), String::new()));
        }
        plan.waits.push(operation::wait(self.name, row));
        let change = self.change(ChangeOp::Delete, key, columns);
        plan.deletes.push((operation::delete(self.name, row_uuid(row)), change));
    }

    fn change(&self, op: ChangeOp, row: &str, columns: Vec<(String, String, String)>) -> Change {
        Change { op, table: self.name, row: row.to_owned(), renamed: None, columns }
    }

    /// The columns that can be set: all except figures.
    fn settable(&self) -> impl Iterator<Item = (ColumnId, &Column)> {
        let ids = self.columns.column_ids().skip(ColumnId::FIRST);
        ids.map(|id| (id, self.columns.column(id))).filter(|(_, column)| column.persistent)
    }

    /// Whether a row is a server of a deleted backend. A server cannot exist without its backend, whichever file
    /// created it.
    fn goes_with_backend(&self, key: &str, plan: &Plan) -> bool {
        let Some((backend, _)) = key.split_once('/').filter(|_| self.name == SERVER) else {
            return false;
        };
        let is_it = |change: &Change| change.table == BACKEND && change.row == backend;
        plan.deletes.iter().any(|(_, change)| is_it(change))
    }
}

/// The error for an object that belongs to another file.
fn belongs(object: &Object, other: &str) -> ConfigError {
    let word = kind_of(object.table).map_or(object.table, |kind| kind.word);
    let message = format!("{word} `{}` belongs to the file {}", shown(&object.key), shown(other));
    let hint = match object.table {
        RULE => NUMBER_RULES,
        _ => "name it in one file only, or take it over with --take-over (take_over=true)",
    };
    ConfigError::new(object.place, message).hint(hint).of(object.file)
}

/// The error for an object that was renamed and whose name another object has now.
fn taken(object: &Object, now: &str) -> ConfigError {
    let word = kind_of(object.table).map_or(object.table, |kind| kind.word);
    let (name, now) = (shown(&object.key), shown(now));
    let message = format!(
        "{word} `{name}` was renamed to `{now}`, and another {word} is called `{name}` now"
    );
    ConfigError::new(object.place, message)
        .hint("rename or delete one of the two, then apply the file again")
        .of(object.file)
}

/// The error for an object whose name in the file is now that of another object of the file.
fn renamed(object: &Object, other: &str) -> ConfigError {
    let word = kind_of(object.table).map_or(object.table, |kind| kind.word);
    let (name, other) = (shown(&object.key), shown(other));
    let message =
        format!("{word} `{other}` was renamed to `{name}`, which this {word} is called too");
    ConfigError::new(object.place, message)
        .hint("--reset (reset=true) gives objects back the names that the file gives them")
        .of(object.file)
}

/// Columns that are maps from numbers where only the order of the numbers matters.
const ORDERED: [&str; 3] = ["use_backend", "tls_certificate", "tls_key"];

/// Columns whose numbers must agree, so that neither is written without the other.
const PAIRED: [&str; 2] = ["tls_certificate", "tls_key"];

/// The value that a column should have.
enum Wanted<'o> {
    Value(Datum),
    Parents(&'o [String]),
}

impl<'o> Wanted<'o> {
    fn new(object: &'o Object, column: &Column, tracked: &Tracked<'_>) -> Self {
        if &*column.name == "parents" {
            return Self::Parents(&object.parents);
        }
        let value = object.columns.get(&*column.name).unwrap_or(&column.default);
        // The servers of a renamed backend stay with it.
        let backend = value.single().and_then(Atom::as_str);
        let backend = backend.filter(|_| object.table == SERVER && &*column.name == "backend");
        Self::Value(match backend {
            Some(backend) => text(tracked.backend(backend)),
            None => value.clone(),
        })
    }

    fn is_default(&self, column: &Column) -> bool {
        match self {
            Self::Value(value) => *value == column.default,
            Self::Parents(names) => names.is_empty(),
        }
    }

    /// Whether a row already has this value.
    fn is_in(&self, old: &Datum, column: &Column, resources: &Resources<'_>) -> bool {
        match self {
            Self::Value(value) if &*column.name == "criteria" => {
                value == old || same_criteria(value, old)
            }
            Self::Value(value) if ORDERED.contains(&&*column.name) && is_map(column) => {
                value.pairs().iter().map(|(_, v)| v).eq(old.pairs().iter().map(|(_, v)| v))
            }
            Self::Value(value) => value == old,
            Self::Parents(names) => {
                let wanted = names.iter().map(|name| resources.row(name));
                let old = old.atoms().iter().filter_map(Atom::as_uuid).collect::<BTreeSet<_>>();
                wanted.collect::<Option<BTreeSet<Uuid>>>() == Some(old)
            }
        }
    }

    fn json(&self, column: &Column, resources: &Resources<'_>) -> Json {
        match self {
            Self::Value(value) if is_map(column) => operation::map(value),
            Self::Value(value) => operation::value(value),
            Self::Parents(names) => {
                let each = names.iter().filter_map(|name| resources.reference(name));
                operation::set(each.collect())
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Value(value) => change::text(value),
            Self::Parents(names) => change::list(names.iter().map(String::as_str)),
        }
    }
}

fn is_map(column: &Column) -> bool {
    column.ty.value.is_some()
}

/// Whether two texts are the same criteria; blanks and quotes may differ.
fn same_criteria(new: &Datum, old: &Datum) -> bool {
    let normal = |value: &Datum| {
        let criteria = parse_criteria(value.single()?.as_str()?).ok()?;
        Some(show_criteria(&criteria))
    };
    normal(new).is_some_and(|new| Some(new) == normal(old))
}

/// Resources by name and by row, of the file and of the database.
struct Resources<'a> {
    /// Where each name will be: an existing row, or the object that becomes one.
    places: BTreeMap<&'a str, Result<Uuid, usize>>,
    names: BTreeMap<Uuid, &'a str>,
}

impl<'a> Resources<'a> {
    fn new(objects: &'a [Object], store: &'a Store, tracked: &'a Tracked<'a>) -> Self {
        let mut names = BTreeMap::new();
        if let Some(table) = store.schema().table_id(RESOURCE)
            && let Some(id) = store.schema().table(table).column_id("name")
        {
            let named = |row: &'a Row| {
                Some((row_uuid(row), row.get(id.index())?.single().and_then(Atom::as_str)?))
            };
            names = store.rows(table).filter_map(named).collect();
        }
        let objects = objects.iter().enumerate().filter(|(_, object)| object.table == RESOURCE);
        let mut places: BTreeMap<&str, Result<Uuid, usize>> =
            objects.map(|(index, object)| (object.key.as_str(), Err(index))).collect();
        // A name in the file means the file's own object, even if that was renamed and another object has the name
        // now.
        let (own, others): (Vec<_>, Vec<_>) =
            names.iter().partition(|(uuid, _)| tracked.key(**uuid).is_some());
        places.extend(others.into_iter().map(|(uuid, name)| (*name, Ok(*uuid))));
        let own = own.into_iter().filter_map(|(uuid, _)| Some((tracked.key(*uuid)?, Ok(*uuid))));
        places.extend(own);
        Self { places, names }
    }

    /// The row of a resource, if it exists.
    fn row(&self, name: &str) -> Option<Uuid> {
        self.places.get(name).and_then(|place| place.ok())
    }

    /// How operations refer to a resource.
    fn reference(&self, name: &str) -> Option<Json> {
        self.places.get(name).map(|place| match place {
            Ok(uuid) => operation::uuid(*uuid),
            Err(index) => operation::named(&operation::new_name(RESOURCE, *index)),
        })
    }

    /// The names of the rows that a value refers to.
    fn names<'d>(&'d self, value: &'d Datum) -> impl Iterator<Item = &'d str> {
        let uuids = value.atoms().iter().filter_map(Atom::as_uuid);
        uuids.filter_map(|uuid| self.names.get(&uuid).copied())
    }

    fn text(&self, column: &Column, value: &Datum) -> String {
        match &*column.name {
            "parents" => change::list(self.names(value)),
            _ => change::text(value),
        }
    }
}
