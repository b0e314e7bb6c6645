//! Rows that the server itself maintains: the locks, the databases it serves, its own counters.

use super::kept::followed;
use super::queue::{Commit, Done, Entry, Step, Work};
use super::{Head, Hosted, LET_IN, aside};
use crate::audit::Audit;
use crate::control::{Control, Planner, check_growth, constraint};
use paceline_claims::{Graph, ResourceId};
use paceline_model::schema::RESOURCE;
use paceline_model::{Model, ModelError, Put};
use paceline_tables::monitor::merge;
use paceline_tables::schema::{Column, ColumnId, TableId, TableSchema};
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Changes, Error, Row, row_uuid, tag};
use paceline_types::Uuid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A row of the server's own: the value of its key column, and the values of its columns by name, or `None` to
/// delete the row. A column that is not named keeps its value.
pub(crate) struct OwnRow {
    pub(crate) key: Atom,
    pub(crate) values: Option<Vec<(&'static str, Datum)>>,
}

impl OwnRow {
    /// A row whose key is a text.
    pub(crate) fn of_text(key: &str, values: Option<Vec<(&'static str, Datum)>>) -> Self {
        Self { key: Atom::string(key), values }
    }
}

impl Hosted {
    /// Updates the table of locks, if this database has it, in pieces between which other threads may lock the
    /// head. Locks that had changed before the call are shown when this returns.
    pub(crate) fn show_locks(self: &Arc<Self>) {
        let Some(table) = self.lock_table else { return };
        let mut after = Arc::from("");
        while self.show_some_locks(table, &mut after) {
            aside(|| std::thread::sleep(LET_IN));
        }
    }

    /// Shows the next changed locks after `after`. Returns whether there may be more.
    fn show_some_locks(self: &Arc<Self>, table: TableId, after: &mut Arc<str>) -> bool {
        let mut head = self.head();
        let rows = self.locking.take_changed_rows(after);
        let is_more = !rows.is_empty();
        if is_more {
            self.put_own(&mut head, table, "name", rows, false, None);
        }
        is_more
    }

    /// Marks the rows of the table of locks that an undo changed, to be shown again.
    pub(super) fn locks_undone(&self, head: &Head, changes: &Changes) {
        let Some(table) = self.lock_table else { return };
        let Some(name) = head.database.schema().table(table).column_id("name") else { return };
        for change in changes.rows.iter().filter(|change| change.table == table) {
            let row = change.new.as_ref().or(change.old.as_ref());
            if let Some(name) = row.and_then(|row| row[name.index()].single()?.as_str()) {
                self.locking.show_again(name);
            }
        }
    }

    /// Changes rows of the server's own, found by their key column. `done` is called with the outcome.
    pub(crate) fn maintain(
        self: &Arc<Self>,
        table: &str,
        key: &'static str,
        rows: Vec<OwnRow>,
        durable: bool,
        done: Option<Done>,
    ) {
        let mut head = self.head();
        let Some(table) = head.database.schema().table_id(table) else { return };
        self.put_own(&mut head, table, key, rows, durable, done);
    }

    /// Replaces all rows of the table by these rows of the server's own. They are synced.
    pub(crate) fn replace_own(
        self: &Arc<Self>,
        table: &str,
        rows: Vec<Vec<(&'static str, Datum)>>,
        done: Option<Done>,
    ) {
        let mut head = self.head();
        let schema = head.database.schema().clone();
        let Some(table) = schema.table_id(table) else { return };
        let old = head.database.store().rows(table);
        let mut puts: Vec<Put> = old.map(|row| (table, row_uuid(row), None)).collect();
        for values in rows {
            let values = own_values(schema.table(table), None, values);
            puts.push((table, head.database.fresh_uuid(), Some(values)));
        }
        self.put_rows(&mut head, puts, true, done);
    }

    fn put_own(
        self: &Arc<Self>,
        head: &mut Head,
        table: TableId,
        key: &str,
        rows: Vec<OwnRow>,
        durable: bool,
        done: Option<Done>,
    ) {
        let puts = rows.into_iter().filter_map(|row| head.own_put(table, key, row)).collect();
        self.put_rows(head, puts, durable, done);
    }

    /// Writes rows as the server itself, without the checks for clients.
    pub(super) fn put_rows(
        self: &Arc<Self>,
        head: &mut Head,
        puts: Vec<Put>,
        durable: bool,
        done: Option<Done>,
    ) {
        let changes = head.database.maintain(puts);
        self.commit_own(head, changes, durable, done);
    }

    /// Queues changes of the server's own, which the head has already, to be written.
    fn commit_own(
        self: &Arc<Self>,
        head: &mut Head,
        changes: Result<Changes, Error>,
        durable: bool,
        done: Option<Done>,
    ) {
        let schema = head.database.schema().clone();
        match changes {
            Ok(changes) if changes.is_empty() => {
                let Some(done) = done else { return };
                if !self.is_journaled || (head.queue.is_empty() && !head.committing) {
                    return done(Ok(()));
                }
                // The present content may not be written yet, and writing may still fail.
                let work = move |log: Result<&mut dyn paceline_journal::Log, &Error>| {
                    done(log.map(drop).map_err(Clone::clone));
                };
                head.push(Entry::Step(Step { blocks: false, work: Box::new(work) }));
            }
            Ok(changes) if head.broken.is_some() && self.is_recorded(&changes) => {
                head.database.undo(&changes);
                let error = head.broken.clone();
                if let (Some(done), Some(error)) = (done, error) {
                    // Queued after what is ahead of it, and called without a lock of the head.
                    let work: Work = Box::new(move |_| done(Err(error)));
                    head.push(Entry::Step(Step { blocks: false, work }));
                }
                self.repair_later();
            }
            Ok(changes) => {
                let commit = Commit { durable, done, ..Commit::own(Arc::new(changes), schema) };
                let again = self.submit(head, commit);
                self.retry(head, again);
            }
            Err(error) => {
                tracing::error!(database = %self.name, %error, "cannot update the server's own rows");
                if let Some(done) = done {
                    done(Err(error));
                }
            }
        }
    }

    /// Whether changes are in tables that the journal keeps.
    fn is_recorded(&self, changes: &Changes) -> bool {
        changes.rows.iter().any(|change| !self.unjournaled.contains(&change.table))
    }

    /// Begins to configure the engine from this database: reduces its rows to those that survive a restart, and
    /// passes them to the engine.
    pub(crate) fn begin_control(
        self: &Arc<Self>,
        control: &Arc<Control>,
        audit: Arc<Audit>,
    ) -> Result<(), Error> {
        let wrong = |error: ModelError| constraint(error);
        let mut head = self.head();
        let mut model = Model::new(Arc::clone(head.database.schema())).map_err(wrong)?;
        // Claims are named by resources as they are now, before transient ones are deleted.
        let graph = |model: &mut Model, head: &Head| {
            Graph::build(None, model.resources(head.database.store())).map(Arc::new).ok()
        };
        let before = graph(&mut model, &head);
        let mut puts = model.restart(head.database.store(), &mut self.clock.uuid_source());
        spare_resources(&mut model, &head, before.as_ref(), &mut puts);
        if !puts.is_empty() && !self.policy.read_only {
            let changes = head.database.maintain(puts).and_then(|changes| {
                let graphs = before.zip(graph(&mut model, &head));
                let puts = graphs.map(|graphs| followed(&model, head.database.store(), &graphs));
                let claims = head.database.maintain(puts.unwrap_or_default())?;
                Ok(merge([&changes, &claims]))
            });
            self.commit_own(&mut head, changes, true, None);
        }
        self.access.begin(model.grants(head.database.store()).map_err(wrong)?);
        let parts = (Arc::clone(control), Arc::clone(&self.access), audit);
        let planner = Planner::begin(parts, model, head.database.store());
        let _ = self.planner.set(planner.map_err(wrong)?);
        Ok(())
    }

    /// The integer in `column` of the only row of `table`, if there is one.
    pub(crate) fn own_integer(&self, table: &str, column: &str) -> Result<Option<u64>, Error> {
        let head = self.head();
        let missing = || Error::new(tag::SYNTAX, format!("no column {column} in table {table}"));
        let schema = head.database.schema().clone();
        let table = schema.table_id(table).ok_or_else(missing)?;
        let column = schema.table(table).column_id(column).ok_or_else(missing)?;
        let row = head.database.store().rows(table).next();
        let value = row.and_then(|row| row[column.index()].single()).and_then(Atom::as_integer);
        Ok(value.and_then(|value| u64::try_from(value).ok()))
    }
}

/// Leaves transient resources to the next start if deleting them now would give the holders of permits more
/// claims than there is room for (D1). Unlike an edit, a start cannot be refused.
fn spare_resources(
    model: &mut Model,
    head: &Head,
    before: Option<&Arc<Graph>>,
    puts: &mut Vec<Put>,
) {
    let Some(resources) = model.schema().table_id(RESOURCE) else { return };
    let is_deleted = |put: &&Put| put.0 == resources && put.2.is_none();
    let deleted: BTreeSet<ResourceId> =
        puts.iter().filter(is_deleted).filter_map(|put| model.resource_of(put.1)).collect();
    let Some(before) = before.filter(|_| !deleted.is_empty()) else { return };
    let store = head.database.store();
    let mut left = model.resources(store);
    left.retain(|resource| !deleted.contains(&resource.id));
    for resource in &mut left {
        resource.parents.retain(|parent| !deleted.contains(parent));
    }
    let Ok(after) = Graph::build(None, left) else { return };
    if let Err(error) = check_growth(model, store, &(Arc::clone(before), Arc::new(after))) {
        let count = deleted.len();
        tracing::warn!(%error, count, "transient resources stay until the next start");
        puts.retain(|put| put.0 != resources);
    }
}

impl Hosted {
    /// The text in `column` of the only row of `table`, if there is one.
    pub(crate) fn own_text(&self, table: &str, column: &str) -> Option<String> {
        let texts = self.own_rows(table, |table, row| {
            row[table.column_id(column)?.index()].single()?.as_str().map(str::to_owned)
        });
        texts.into_iter().next()
    }

    /// What `read` makes of the rows of `table`.
    pub(crate) fn own_rows<T>(
        &self,
        table: &str,
        read: impl Fn(&TableSchema, &Row) -> Option<T>,
    ) -> Vec<T> {
        let head = self.head();
        let schema = head.database.schema();
        let Some(id) = schema.table_id(table) else { return Vec::new() };
        let rows = head.database.store().rows(id);
        rows.filter_map(|row| read(schema.table(id), row)).collect()
    }

    /// The same, but fails if a row is unreadable; the error names the first such row.
    pub(crate) fn all_own_rows<T>(
        &self,
        table: &str,
        read: impl Fn(&TableSchema, &Row) -> Option<T>,
    ) -> Result<Vec<T>, String> {
        let rows = self.own_rows(table, |schema, row| {
            Some(read(schema, row).ok_or_else(|| {
                let uuid = paceline_tables::row_uuid(row);
                format!("the row {uuid} of {table} cannot be read; see: paceline show-log")
            }))
        });
        rows.into_iter().collect()
    }
}

impl Head {
    /// The change that writes or deletes a row of the server's own; `None` if it is to be deleted and does not
    /// exist.
    pub(super) fn own_put(&mut self, table: TableId, key: &str, row: OwnRow) -> Option<Put> {
        let schema = self.database.schema().clone();
        let uuid = self.find_own(table, key, Datum::One(row.key));
        let old = uuid.and_then(|uuid| self.database.store().row(table, uuid));
        let values = row.values.map(|values| own_values(schema.table(table), old, values));
        if uuid.is_none() && values.is_none() {
            return None;
        }
        Some((table, uuid.unwrap_or_else(|| self.database.fresh_uuid()), values))
    }

    /// The row of the server's own whose key column has this value.
    fn find_own(&self, table: TableId, key: &str, wanted: Datum) -> Option<Uuid> {
        let schema = self.database.schema();
        let column = schema.table(table).column_id(key)?;
        let store = self.database.store();
        let indexed = schema.table(table).indexes.iter().position(|index| index == &[column]);
        let row = match indexed {
            Some(index) => store.indexed(table, index, &[&wanted]).next().cloned(),
            None => store.rows(table).find(|row| row[column.index()] == wanted).cloned(),
        };
        row.map(|row| paceline_tables::row_uuid(&row))
    }
}

/// All values of a row: the given ones, by column name, and the present ones for the other columns.
fn own_values(
    table: &TableSchema,
    old: Option<&Row>,
    mut values: Vec<(&'static str, Datum)>,
) -> Vec<Datum> {
    // The columns of a table are sorted by name.
    values.sort_unstable_by_key(|(name, _)| *name);
    let mut values = values.into_iter().peekable();
    let value = |(at, column): (usize, &Column)| {
        while values.next_if(|(name, _)| **name < *column.name).is_some() {}
        let kept = || old.map_or(&column.default, |old| &old[at]).clone();
        let named = values.next_if(|(name, _)| **name == *column.name);
        named.map_or_else(kept, |(_, value)| value)
    };
    table.columns.iter().enumerate().skip(ColumnId::FIRST).map(value).collect()
}
