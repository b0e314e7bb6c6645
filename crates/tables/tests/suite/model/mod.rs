//! The reference model: an OVSDB database that is slow and obviously correct.
//!
//! Rows are in maps, every search is a full scan, rollback keeps the previous copy, and references and uniqueness
//! are checked over the whole database after every transaction. Written from RFC 7047; shares nothing with the
//! crate under test but the JSON value and the UUID.

mod clause;
pub mod commit;
mod form;
mod mutation;
mod operations;
pub mod schema;
pub mod value;

pub use clause::Clause;
pub use commit::{Settled, settle};

use paceline_tables::json::Json;
use paceline_types::Uuid;
use schema::Schema;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use value::{Atom, Tags, Value};

/// The values of all columns, `_uuid` and `_version` first.
pub type Row = Rc<Vec<Value>>;

/// The rows of every table.
pub type Tables = Vec<BTreeMap<Uuid, Row>>;

/// The expected answer to an operation.
#[derive(Debug)]
pub enum Answer {
    Empty,
    Uuid(Uuid),
    Count(usize),
    /// The selected columns and the distinct rows, with all columns to sort by.
    Rows {
        table: usize,
        columns: Vec<usize>,
        rows: Vec<Vec<Value>>,
        sort: Vec<usize>,
    },
    Error(Tags),
    Null,
}

/// The expected outcome of a transaction.
#[derive(Debug)]
pub enum Reply {
    Done {
        answers: Vec<Answer>,
        /// The content afterwards, unless the transaction failed.
        settled: Option<Settled>,
    },
    Waiting,
}

/// The context of a transaction.
pub struct Setting<'a> {
    /// The UUID that the real database returned for each operation, if any.
    pub inserted: &'a [Option<Uuid>],
    /// Locks that the client owns.
    pub locks: &'a [&'a str],
    pub read_only: bool,
    /// A table that only the server changes.
    pub maintained: Option<usize>,
}

pub struct Model {
    pub schema: Rc<Schema>,
    pub tables: Tables,
}

/// The first byte of UUIDs that the model made up because the real ones cannot be known.
pub const MADE_UP: u8 = 0xee;

/// A transaction in progress.
pub(crate) struct Run<'a> {
    schema: &'a Schema,
    tables: Tables,
    before: &'a Tables,
    setting: &'a Setting<'a>,
    names: BTreeMap<String, Uuid>,
    created: BTreeSet<String>,
    made_up: u64,
    at: usize,
}

/// Why a transaction stops.
pub(crate) enum Stop {
    Error(Tags),
    Waiting,
}

impl From<Tags> for Stop {
    fn from(tags: Tags) -> Self {
        Self::Error(tags)
    }
}

impl Model {
    pub fn new(schema: Rc<Schema>) -> Self {
        let tables = schema.tables.iter().map(|_| BTreeMap::new()).collect();
        Self { schema, tables }
    }

    /// The expected outcome of `operations`; changes nothing.
    pub fn execute(&self, operations: &[Json], setting: &Setting<'_>) -> Reply {
        let mut run = Run {
            schema: &self.schema,
            tables: self.tables.clone(),
            before: &self.tables,
            setting,
            names: BTreeMap::new(),
            created: BTreeSet::new(),
            made_up: 0,
            at: 0,
        };
        run.name_inserts(operations);
        let mut answers = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            run.at = at;
            match run.operation(operation) {
                Ok(answer) => answers.push(answer),
                Err(Stop::Waiting) => return Reply::Waiting,
                Err(Stop::Error(tags)) => {
                    answers.push(Answer::Error(tags));
                    answers.resize_with(operations.len(), || Answer::Null);
                    return Reply::Done { answers, settled: None };
                }
            }
        }
        let settled = match settle(&self.schema, run.tables, &self.tables) {
            Ok(settled) => Some(settled),
            Err(tags) => {
                answers.push(Answer::Error(tags));
                None
            }
        };
        Reply::Done { answers, settled }
    }
}

impl Run<'_> {
    /// A name stands for one UUID throughout the transaction: that of the insert that carries it.
    fn name_inserts(&mut self, operations: &[Json]) {
        let member = |op: &Json, name| op.as_object()?.get(name)?.as_str().map(str::to_owned);
        let chosen = operations.iter().map(|op| member(op, "uuid")?.parse().ok());
        let told = self.setting.inserted.iter().copied();
        for uuids in [chosen.collect::<Vec<Option<Uuid>>>(), told.collect()] {
            for (operation, uuid) in operations.iter().zip(uuids) {
                if let (Some(name), Some(uuid)) = (member(operation, "uuid-name"), uuid) {
                    self.names.entry(name).or_insert(uuid);
                }
            }
        }
    }

    fn make_up(&mut self) -> Uuid {
        self.made_up += 1;
        Uuid::from_halves(u64::from(MADE_UP) << 56, self.made_up)
    }

    fn resolve(&mut self, name: &str) -> Uuid {
        if let Some(uuid) = self.names.get(name) {
            return *uuid;
        }
        let uuid = self.make_up();
        self.names.insert(name.to_owned(), uuid);
        uuid
    }

    fn fresh_version(&mut self) -> Value {
        Value::one(Atom::Uuid(self.make_up()))
    }
}
