//! A real database and the model side by side: every transaction runs on both, and everything visible is compared.

use crate::generate;
use crate::model::schema::Schema;
use crate::model::value::Value;
use crate::model::{Answer, MADE_UP, Model, Reply, Row, Setting, Settled, Tables, commit};
use crate::random::Random;
use paceline_tables::json::{self, Json};
use paceline_tables::schema::TableId;
use paceline_tables::value::Datum;
use paceline_tables::{
    Changes, Context, Database, Done, OpResult, Outcome, Store, row_uuid, schema,
};
use paceline_types::{Uuid, UuidSource};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

pub const DEPTH: usize = 1_000;

pub struct World {
    pub real: Database,
    pub model: Model,
    /// The transactions so far, for the message of a failure.
    log: Vec<String>,
    seed: u64,
    /// Every UUID that can be known from outside.
    known: BTreeSet<Uuid>,
    versions: BTreeSet<Value>,
    /// Rows that existed earlier, to look up in the indexes.
    past: Vec<(usize, paceline_tables::Row)>,
    /// How often each kind of event happened, to check that the generator reaches it.
    pub tally: BTreeMap<&'static str, usize>,
}

/// The tables of one side of the comparison: all rows, with the columns of the schema.
pub fn contents<'a, R: Iterator<Item = &'a paceline_tables::Row>>(
    schema: &Schema,
    rows: impl Fn(TableId) -> R,
) -> Tables {
    let table = |at: usize| {
        let columns = &schema.tables[at].columns;
        let convert = |row: &[Datum]| -> Row {
            assert_eq!(row.len(), columns.len());
            Rc::new(
                row.iter().zip(columns).map(|(datum, column)| Value::of(datum, column)).collect(),
            )
        };
        rows(id(at)).map(|row| (row_uuid(row), convert(row))).collect()
    };
    (0..schema.tables.len()).map(table).collect()
}

pub fn id(table: usize) -> TableId {
    TableId(table as u16)
}

pub fn parse_schema(json: &Json) -> Arc<schema::Schema> {
    Arc::new(schema::Schema::parse(json).unwrap_or_else(|e| panic!("{e}: {}", json.to_text())))
}

/// A database of `schema` without rows.
pub fn empty(schema: &Schema, seed: u64) -> Database {
    Database::new(parse_schema(&schema.to_json()), UuidSource::from_number(seed))
}

impl World {
    /// An empty database of a random schema.
    pub fn new(seed: u64, random: &mut Random) -> Self {
        Self::of(generate::schema(random), seed)
    }

    pub fn of(schema: Schema, seed: u64) -> Self {
        let known = (0..100).map(generate::pool_uuid).chain([Uuid::ZERO]).collect();
        Self {
            real: empty(&schema, seed),
            log: vec![schema.to_json().to_text()],
            model: Model::new(Rc::new(schema)),
            seed,
            known,
            versions: BTreeSet::new(),
            past: Vec::new(),
            tally: BTreeMap::new(),
        }
    }

    pub fn note(&mut self, what: String) {
        self.log.push(what);
    }

    pub fn schema(&self) -> Rc<Schema> {
        self.model.schema.clone()
    }

    /// Runs a random transaction.
    pub fn step(&mut self, random: &mut Random) -> Option<Arc<Changes>> {
        random.calm = random.chance(60);
        let operations = generate::transaction(random, &self.model);
        let read_only = random.rare(40);
        let maintained = random.rare(40).then(|| random.below(self.model.tables.len()));
        self.run(&operations, read_only, maintained)
    }

    /// Runs `operations` on both sides and compares all their effects.
    pub fn run(
        &mut self,
        operations: &[Json],
        read_only: bool,
        maintained: Option<usize>,
    ) -> Option<Arc<Changes>> {
        let text = Json::Array(operations.to_vec()).to_text();
        self.log.push(format!("{text} read_only={read_only} maintained={maintained:?}"));
        let locks = ["mine"];
        let table_ids: Vec<TableId> = maintained.into_iter().map(id).collect();
        let owns_lock = |name: &str| locks.contains(&name);
        let context =
            Context { elapsed_ms: 0, owns_lock: &owns_lock, read_only, maintained: &table_ids };
        self.remember_rows();
        let outcome = self.real.execute(operations, &context);
        let inserted = inserted(&outcome);
        self.known.extend(inserted.iter().flatten());
        let setting = Setting { inserted: &inserted, locks: &locks, read_only, maintained };
        let reply = self.model.execute(operations, &setting);
        let (done, answers, settled) = match (outcome, reply) {
            (Outcome::Done(done), Reply::Done { answers, settled }) => (done, answers, settled),
            (Outcome::Waiting { .. }, Reply::Waiting) => {
                self.check_state();
                return None;
            }
            (outcome, reply) => panic!("got {outcome:?}, expected {reply:?}"),
        };
        self.compare_results(&done, &answers);
        self.count(&done, settled.as_ref());
        match settled {
            Some(settled) => {
                compare_annotations(&done, operations);
                self.take_over(settled, done.changes.as_deref());
            }
            None => assert!(done.changes.is_none(), "a failed transaction changed something"),
        }
        self.check_state();
        done.changes
    }

    fn count(&mut self, done: &Done, settled: Option<&Settled>) {
        let mut add = |what, n| *self.tally.entry(what).or_insert(0) += n;
        for result in &done.results {
            match result {
                OpResult::Error(error) => add(error.tag, 1),
                OpResult::Rows(selected) => add("selected", selected.rows().len()),
                OpResult::Count(count) => add("counted", *count),
                _ => {}
            }
        }
        if let Some(settled) = settled {
            add("done", 1);
            add("collected", settled.collected);
            add("dangling", settled.dangling);
            add("open", settled.open.len());
            add("rows", settled.tables.iter().map(BTreeMap::len).sum());
            add("touched", done.changes.as_ref().map_or(0, |changes| changes.rows.len()));
            let many = done.changes.as_ref().is_some_and(|changes| changes.rows.len() > 8);
            add("many", usize::from(many));
        }
        add("all", 1);
    }

    fn remember_rows(&mut self) {
        let last = self.real.schema().tables.len();
        let rows =
            (0..last).flat_map(|at| self.real.store().rows(id(at)).map(move |r| (at, r.clone())));
        self.past.splice(..self.past.len().saturating_sub(10), []);
        self.past.extend(rows.take(20));
    }

    fn compare_results(&self, done: &Done, answers: &[Answer]) {
        let each = |result| std::iter::repeat_n(result, OpResult::operations(result));
        let results: Vec<&OpResult> = done.results.iter().flat_map(each).collect();
        assert_eq!(results.len(), answers.len(), "{:?} {answers:?}", done.results);
        for (result, answer) in results.into_iter().zip(answers) {
            match (result, answer) {
                (OpResult::Empty, Answer::Empty) | (OpResult::Nulls(_), Answer::Null) => {}
                (OpResult::Uuid(a), Answer::Uuid(b)) => assert_eq!(a, b),
                (OpResult::Count(a), Answer::Count(b)) => assert_eq!(a, b),
                (OpResult::Error(error), Answer::Error(tags)) => {
                    assert!(tags.contains(&error.tag), "got {error}, expected {tags:?}");
                }
                (OpResult::Rows(selected), Answer::Rows { table, columns, rows, sort }) => {
                    self.compare_rows(result, *table, columns, rows);
                    self.check_sorted(selected.rows(), *table, sort);
                }
                (result, answer) => panic!("got {result:?}, expected {answer:?}"),
            }
        }
    }

    /// Compares the output of a `select`, apart from versions and UUIDs that cannot be known.
    fn compare_rows(&self, real: &OpResult, table: usize, columns: &[usize], rows: &[Vec<Value>]) {
        let schema = &self.model.schema.tables[table];
        let rename = |uuid: Uuid| {
            let known = uuid.0[0] != MADE_UP && self.known.contains(&uuid);
            if known { uuid } else { Uuid([MADE_UP; 16]) }
        };
        let mut out = Vec::new();
        real.write(&mut out);
        let written = json::parse(&out, DEPTH).unwrap();
        let written = written.as_object().unwrap().get("rows").unwrap().as_array().unwrap();
        let told: Vec<usize> = columns.iter().copied().filter(|column| *column != 1).collect();
        let mut got: Vec<Vec<Value>> = Vec::new();
        for row in written {
            let row = row.as_object().unwrap();
            assert_eq!(row.len(), columns.len());
            let value = |at: &usize| {
                let column = &schema.columns[*at];
                Value::read_any(row.get(&column.name).unwrap(), column).renamed(&rename)
            };
            got.push(told.iter().map(value).collect());
        }
        let keep = |row: &Vec<Value>| -> Vec<Value> {
            let told = columns.iter().zip(row).filter(|(column, _)| **column != 1);
            told.map(|(_, value)| value.renamed(&rename)).collect()
        };
        let mut expected: Vec<Vec<Value>> = rows.iter().map(keep).collect();
        got.sort();
        expected.sort();
        assert_eq!(got, expected, "selected rows");
    }

    /// Only scalars have an order that the protocol defines.
    fn check_sorted(&self, rows: &[paceline_tables::Row], table: usize, sort: &[usize]) {
        let columns = &self.model.schema.tables[table].columns;
        let by: Vec<usize> =
            sort.iter().copied().take_while(|at| columns[*at].is_scalar()).collect();
        let key = |row: &paceline_tables::Row| -> Vec<Value> {
            by.iter().map(|at| Value::of(&row[*at], &columns[*at])).collect()
        };
        assert!(rows.is_sorted_by_key(key), "rows are not sorted by {sort:?}");
    }

    /// Takes over the model's content with the real versions. First checks that exactly the changed rows have new
    /// versions, and that the changes agree.
    fn take_over(&mut self, settled: Settled, changes: Option<&Changes>) {
        let Settled { mut tables, open, .. } = settled;
        let after = contents(&self.model.schema, |table| self.real.store().rows(table));
        let mut changed = BTreeSet::new();
        for (at, rows) in tables.iter_mut().enumerate() {
            for uuid in self.model.tables[at].keys().filter(|uuid| !rows.contains_key(*uuid)) {
                changed.insert((at, *uuid));
            }
            for (uuid, row) in rows.iter_mut() {
                let Some(real) = after[at].get(uuid) else { continue };
                let old = self.model.tables[at].get(uuid);
                let version = &real[1];
                if old.is_some_and(|old| old[2..] == row[2..]) {
                    let same = old.is_some_and(|old| old[1] == *version);
                    assert!(same || open.contains(&(at, *uuid)), "new version of unchanged {uuid}");
                    if !same {
                        changed.insert((at, *uuid));
                    }
                } else {
                    assert!(self.versions.insert(version.clone()), "old version of changed {uuid}");
                    changed.insert((at, *uuid));
                }
                Rc::make_mut(row)[1] = version.clone();
            }
        }
        let before = std::mem::replace(&mut self.model.tables, tables);
        self.compare_changes(changes, &changed, &before);
    }

    fn compare_changes(
        &self,
        changes: Option<&Changes>,
        changed: &BTreeSet<(usize, Uuid)>,
        before: &Tables,
    ) {
        let Some(changes) = changes else {
            assert!(changed.is_empty(), "changes are missing: {changed:?}");
            return;
        };
        assert!(!changes.is_empty());
        assert!(changes.rows.is_sorted_by_key(|change| change.table));
        let mut told = BTreeSet::new();
        for change in &changes.rows {
            let (at, uuid) = (change.table.index(), change.uuid);
            assert!(told.insert((at, uuid)), "{uuid} changed twice");
            let columns = &self.model.schema.tables[at].columns;
            let values = |row: &Option<paceline_tables::Row>| -> Option<Vec<Value>> {
                let row = row.as_ref()?;
                Some(row.iter().zip(columns).map(|(v, column)| Value::of(v, column)).collect())
            };
            assert_eq!(values(&change.old).as_ref(), before[at].get(&uuid).map(|row| &**row));
            let after = self.model.tables[at].get(&uuid).map(|row| &**row);
            assert_eq!(values(&change.new).as_ref(), after);
        }
        assert_eq!(&told, changed);
    }

    /// Compares the whole content, and everything that the store derives from it.
    pub fn check_state(&self) {
        let store = self.real.store();
        let schema = &self.model.schema;
        assert_eq!(contents(schema, |table| store.rows(table)), self.model.tables, "content");
        let strong = commit::strong_counts(schema, &self.model.tables);
        let weak = commit::weak_referrers(schema, &self.model.tables);
        for (at, rows) in self.model.tables.iter().enumerate() {
            assert_eq!(store.row_count(id(at)), rows.len());
            for uuid in rows.keys().chain(self.known.iter().take(30)) {
                let place = (at, *uuid);
                assert_eq!(store.row(id(at), *uuid).is_some(), rows.contains_key(uuid));
                let count = strong.get(&place).copied().unwrap_or(0);
                assert_eq!(store.strong_count(id(at), *uuid), count, "references to {uuid}");
                let referrers = store.weak_referrers(id(at), *uuid);
                let referrers: BTreeSet<_> =
                    referrers.into_iter().map(|(table, from)| (table.index(), from)).collect();
                assert_eq!(referrers, weak.get(&place).cloned().unwrap_or_default());
            }
        }
        self.check_indexes(store);
    }

    /// Looks up every row, and rows that existed earlier, in every index.
    fn check_indexes(&self, store: &Store) {
        for (at, table) in self.model.schema.tables.iter().enumerate() {
            for (index, columns) in table.indexes.iter().enumerate() {
                let key = |row: &[Value]| -> Vec<Value> {
                    columns.iter().map(|column| row[*column].clone()).collect()
                };
                let expected: BTreeMap<Vec<Value>, Uuid> =
                    self.model.tables[at].iter().map(|(uuid, row)| (key(row), *uuid)).collect();
                let now = store.rows(id(at)).collect::<Vec<_>>();
                let past = self.past.iter().filter(|(of, _)| *of == at).map(|(_, row)| row);
                for row in now.into_iter().chain(past) {
                    let values: Vec<&Datum> = columns.iter().map(|column| &row[*column]).collect();
                    let found: Vec<Uuid> =
                        store.indexed(id(at), index, &values).map(|row| row_uuid(row)).collect();
                    let wanted = columns.iter().map(|c| Value::of(&row[*c], &table.columns[*c]));
                    let wanted: Vec<Value> = wanted.collect();
                    let expected: Vec<Uuid> = expected.get(&wanted).copied().into_iter().collect();
                    assert_eq!(found, expected, "index {columns:?} of {}", table.name);
                }
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}\n{}", self.seed, self.log.join("\n"));
        }
    }
}

fn inserted(outcome: &Outcome) -> Vec<Option<Uuid>> {
    let Outcome::Done(done) = outcome else { return Vec::new() };
    let uuid = |result: &OpResult| match result {
        OpResult::Uuid(uuid) => Some(*uuid),
        _ => None,
    };
    done.results.iter().map(uuid).collect()
}

fn compare_annotations(done: &Done, operations: &[Json]) {
    let member = |op: &Json, word: &str, name: &str| {
        let op = op.as_object()?;
        (op.get("op")?.as_str()? == word).then(|| op.get(name).cloned())?
    };
    let comments: Vec<Json> =
        operations.iter().filter_map(|op| member(op, "comment", "comment")).collect();
    let comments: Vec<&str> = comments.iter().filter_map(Json::as_str).collect();
    assert_eq!(done.comment, comments.join("\n"));
    let durable = |op| member(op, "commit", "durable") == Some(Json::Bool(true));
    assert_eq!(done.durable, operations.iter().any(durable));
}
