//! Imports Comdb2's `.ruleset` file into the running list of rules, and exports the list as such a file.
//!
//! Owns the transaction of an import. A rule of the file replaces the running rule of the same number; other rules stay.
//! Pools that the file names and that cannot run anything yet are created, or given a range, and started in the same
//! transaction. Promises that a file is imported completely or not at all.

use super::ChangeOp;
use super::operation::{insert, set, update};
use paceline_engine::Snapshot;
use paceline_model::schema::{POOL, RULE};
use paceline_rules::{
    Action, ExportError, ImportError, Imported, KnownPool, ProposedPool, Rule, Then,
    export_ruleset, import_ruleset, show_criteria,
};
use paceline_tables::json::Json;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Row, Store, row_uuid};
use paceline_types::{Priority, Uuid};
use std::collections::BTreeMap;

/// The transaction that imports a file.
#[derive(Debug)]
pub struct RulesetImport {
    /// The operations.
    pub operations: Vec<Json>,
    /// What they do: pools first, then rules in the order of their numbers.
    pub edits: Vec<RulesetEdit>,
}

/// One object that an import creates or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesetEdit {
    /// Whether it is new.
    pub op: ChangeOp,
    /// `pool` or `rule`.
    pub kind: &'static str,
    /// Its name or number.
    pub name: String,
    /// The priorities that a pool gets, both ends included.
    pub priority: Option<(i8, i8)>,
}

/// The transaction that imports `text` into the rows of `store`. Pools that it creates exist after a restart if
/// `persistent`.
///
/// # Errors
///
/// When the file cannot be imported: the first reason, with line and column.
pub fn import_rules(
    store: &Store,
    text: &str,
    persistent: bool,
) -> Result<RulesetImport, ImportError> {
    let pools = rows(store, POOL);
    let known: Vec<KnownPool> = pools.iter().filter_map(Source::pool).collect();
    let Imported { rules, pools: proposed, .. } = import_ruleset(text, &known)?;
    let mut import = RulesetImport { operations: vec![], edits: vec![] };
    for pool in &proposed {
        let row = pools.iter().find(|row| row.text("name") == Some(&pool.name));
        import.pool(pool, row.map(Source::uuid), persistent);
    }
    let numbers: BTreeMap<Option<i64>, Uuid> =
        rows(store, RULE).iter().map(|row| (row.integer("number"), row.uuid())).collect();
    for rule in &rules {
        import.rule(rule, numbers.get(&Some(i64::from(rule.number))).copied());
    }
    Ok(import)
}

/// The running list of rules of this configuration as the text of a file.
///
/// # Errors
///
/// When a rule cannot be expressed in such a file.
pub fn export_rules(config: &Snapshot) -> Result<String, ExportError> {
    let pools = config.pools().list().iter().map(|pool| KnownPool {
        name: pool.name.to_string(),
        range: pool.range.map(|range| (range.low(), range.high())),
        threads: pool.threads_max,
    });
    export_ruleset(config.rules().rules(), &pools.collect::<Vec<_>>())
}

impl RulesetImport {
    fn pool(&mut self, pool: &ProposedPool, row: Option<Uuid>, persistent: bool) {
        let (low, high) = pool.range;
        let mut columns = vec![
            ("priority_min", Json::Integer(low.number().into())),
            ("priority_max", Json::Integer(high.number().into())),
            ("state", Json::string("started")),
        ];
        columns.extend(pool.threads.map(|most| ("threads_max", Json::Integer(most.into()))));
        let (op, operation) = match row {
            Some(row) => (ChangeOp::Update, update(POOL, row, columns)),
            None => {
                columns.push(("name", Json::string(pool.name.clone())));
                columns.push(("persistent", Json::Bool(persistent)));
                (ChangeOp::Insert, insert(POOL, columns, None))
            }
        };
        let priority = Some((low.number(), high.number()));
        self.edits.push(RulesetEdit { op, kind: "pool", name: pool.name.clone(), priority });
        self.operations.push(operation);
    }

    fn rule(&mut self, rule: &Rule, row: Option<Uuid>) {
        let optional = |text: Option<String>| text.map_or_else(|| set(vec![]), Json::string);
        let action = match rule.action {
            Action::Nothing => None,
            action => Some(action.to_string()),
        };
        let then = if rule.then == Then::Stop { "stop" } else { "continue" };
        let mut columns = vec![
            ("criteria", Json::string(show_criteria(&rule.criteria))),
            ("when", optional(rule.when.clone())),
            ("action", optional(action)),
            ("then", Json::string(then)),
            ("disabled", Json::Bool(rule.disabled)),
            ("log", Json::Bool(rule.log)),
        ];
        let (op, operation) = match row {
            Some(row) => (ChangeOp::Update, update(RULE, row, columns)),
            None => {
                columns.push(("number", Json::Integer(rule.number.into())));
                (ChangeOp::Insert, insert(RULE, columns, None))
            }
        };
        let name = rule.number.to_string();
        self.edits.push(RulesetEdit { op, kind: "rule", name, priority: None });
        self.operations.push(operation);
    }
}

/// One row, with the names of its columns.
struct Source<'s> {
    store: &'s Store,
    table: &'static str,
    row: &'s Row,
}

fn rows<'s>(store: &'s Store, table: &'static str) -> Vec<Source<'s>> {
    let id = store.schema().table_id(table);
    let rows = id.into_iter().flat_map(|id| store.rows(id));
    rows.map(|row| Source { store, table, row }).collect()
}

impl Source<'_> {
    fn uuid(&self) -> Uuid {
        row_uuid(self.row)
    }

    fn text(&self, column: &str) -> Option<&str> {
        self.atom(column)?.as_str()
    }

    fn integer(&self, column: &str) -> Option<i64> {
        self.atom(column)?.as_integer()
    }

    fn atom(&self, column: &str) -> Option<&Atom> {
        let schema = self.store.schema();
        let column = schema.table(schema.table_id(self.table)?).column_id(column)?;
        self.row.get(column.index()).and_then(Datum::single)
    }

    fn pool(&self) -> Option<KnownPool> {
        let priority = |column| self.integer(column).and_then(Priority::new);
        let threads = self.integer("threads_max").and_then(|most| u32::try_from(most).ok());
        let name = self.text("name")?.to_owned();
        let range = priority("priority_min").zip(priority("priority_max"));
        Some(KnownPool { name, range, threads })
    }
}
