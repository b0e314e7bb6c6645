//! From the text of a statement to what can be run and described. Nothing is run here, and no management function is
//! called: a Describe has no effects.

use super::{Session, Stop};
use crate::catalog;
use crate::failure::Failure;
use crate::infer::{self, Item, Scope, Tables};
use crate::management::{Function, Management, Returns};
use crate::rewrite::{Names, Rewritten, rewrite_tokens};
use crate::schema::Schema;
use crate::token::{Tok, solids};
use crate::types::{Declared, Type};
use paceline_postgres::text::{Action, Command, Dialect, Kind, classify};
use paceline_postgres::wire::backend::{Column, RowDescription};
use paceline_postgres::wire::{Format, SqlState, backend};

/// A statement that can be run.
#[derive(Debug)]
pub struct Prepared {
    pub text: String,
    pub plan: Plan,
    /// The types of its parameters.
    pub types: Vec<Type>,
    /// Its columns; none if it returns no rows.
    pub columns: Option<Vec<Output>>,
}

/// How a statement is run.
#[derive(Debug)]
pub enum Plan {
    /// Nothing to run.
    Empty,
    /// By the session itself.
    Control,
    /// `EXPLAIN` of this statement.
    Explain(Rewritten),
    /// By SQLite.
    Run(Query),
}

/// A statement of SQLite.
#[derive(Debug)]
pub struct Query {
    pub rewritten: Rewritten,
    pub tag: Tag,
    pub writes: bool,
}

/// What CommandComplete says.
#[derive(Debug, PartialEq, Eq)]
pub enum Tag {
    /// These words.
    Words(String),
    /// These words and the number of rows.
    Counted(&'static str),
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    pub declared: Declared,
    /// Whether the type is a guess: the first row may say more.
    pub is_guess: bool,
    pub table: u32,
    pub number: i16,
}

impl Output {
    pub fn of(name: impl Into<String>, kind: Type) -> Self {
        let (name, declared) = (name.into(), Declared::of(kind));
        Self { name, declared, is_guess: false, table: 0, number: 0 }
    }
}

impl Prepared {
    /// Whether it may run in a failed block.
    pub fn ends_block(&self) -> bool {
        ends_block(&classify(&self.text, Dialect::Postgres).action)
    }
}

const fn ends_block(action: &Action<'_>) -> bool {
    matches!(action, Action::Commit { .. } | Action::Rollback { .. } | Action::RollbackTo(_))
}

/// Adds a RowDescription, or NoData.
pub fn write_columns(
    out: &mut Vec<u8>,
    columns: Option<&[Output]>,
    formats: &[Format],
) -> Result<(), Failure> {
    let Some(columns) = columns else {
        backend::no_data(out);
        return Ok(());
    };
    let mut description = RowDescription::begin(out);
    for (at, column) in columns.iter().enumerate() {
        description.column(Column {
            name: column.name.as_bytes(),
            table: column.table,
            number: column.number,
            type_oid: column.declared.kind.oid(),
            type_size: column.declared.kind.size(),
            type_modifier: column.declared.modifier,
            format: format_at(formats, at),
        });
    }
    let too_many = |_| Failure::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too many columns");
    description.finish().map_err(too_many)
}

/// The format of a column: none means text, one means that one for all.
pub fn format_at(formats: &[Format], at: usize) -> Format {
    match formats {
        [one] => *one,
        list => list.get(at).copied().unwrap_or_default(),
    }
}

/// Tables by name: the client's, the catalogues, and those of management.
pub struct Known<'s> {
    pub schema: &'s Schema,
    pub management: &'s dyn Management,
}

impl Tables for Known<'_> {
    fn columns(&self, name: &str) -> Option<Vec<(String, Declared)>> {
        if let Some(table) = self.schema.table(name) {
            let columns = table.columns.iter();
            return Some(
                columns.map(|column| (column.name.to_ascii_lowercase(), column.declared)).collect(),
            );
        }
        if let Some(catalog) = catalog::find(name) {
            return Some(
                catalog
                    .columns()
                    .map(|(name, kind)| (name.to_owned(), Declared::of(kind)))
                    .collect(),
            );
        }
        if let Some(Function { returns: Returns::Value(kind), name, .. }) = Function::find(name) {
            return Some(vec![((*name).to_owned(), Declared::of(*kind))]);
        }
        let own = name.starts_with("comdb2_") || name.starts_with("paceline.");
        let columns = own.then(|| self.management.columns(name)).flatten()?;
        Some(
            columns
                .into_iter()
                .map(|c| (c.name.to_ascii_lowercase(), Declared::of(c.kind)))
                .collect(),
        )
    }
}

impl Names for Known<'_> {
    fn has_table(&self, name: &str) -> bool {
        let own = name.starts_with("comdb2_") || name.starts_with("paceline.");
        own && Function::find(name).is_none() && self.management.columns(name).is_some()
    }
}

impl Session {
    /// Prepares a statement. `types` are the types of parameters that the client gave.
    pub(super) fn prepare(&mut self, text: &str, types: &[u32]) -> Result<Prepared, Stop> {
        if text.len() > self.options.statement_bytes_max {
            let message =
                format!("a statement is longer than {} bytes", self.options.statement_bytes_max);
            return Err(Failure::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).into());
        }
        let class = classify(text, Dialect::Postgres);
        if class.is_broken {
            return Err(Failure::syntax("unterminated string, name or comment").into());
        }
        if self.transaction.is_failed() && !ends_block(&class.action) {
            let message =
                "current transaction is aborted, commands ignored until end of transaction block";
            return Err(Failure::new(SqlState::FAILED_TRANSACTION, message).into());
        }
        let prepared =
            |plan, columns| Ok(Prepared { text: text.to_owned(), plan, types: vec![], columns });
        self.shared.guard.start(None);
        match (class.command, &class.action) {
            (Command::Empty, _) => prepared(Plan::Empty, None),
            (Command::Explain, _) => self.prepare_explain(text, types),
            (Command::Copy | Command::Vacuum | Command::Fetch | Command::Move, _) => {
                let columns = self.control_columns(text, &class);
                prepared(Plan::Control, columns)
            }
            (
                Command::Alter
                | Command::Analyze
                | Command::Create
                | Command::Delete
                | Command::Drop
                | Command::Insert
                | Command::Pragma
                | Command::Reindex
                | Command::Replace
                | Command::Select
                | Command::Truncate
                | Command::Update
                | Command::Attach
                | Command::Detach,
                _,
            ) => self.prepare_query(text, types, class.command),
            (Command::Lock | Command::Grant | Command::Revoke | Command::Comment, _)
            | (
                Command::Do | Command::Call | Command::Listen | Command::Notify | Command::Merge,
                _,
            ) => Err(Failure::unsupported(class.command.name()).into()),
            (_, Action::None) => {
                let word = text.split_whitespace().next().unwrap_or_default();
                Err(Failure::syntax(format!("syntax error at or near \"{word}\"")).into())
            }
            _ => {
                let columns = self.control_columns(text, &class);
                prepared(Plan::Control, columns)
            }
        }
    }

    fn prepare_query(
        &mut self,
        text: &str,
        types: &[u32],
        command: Command,
    ) -> Result<Prepared, Stop> {
        let toks = solids(text);
        let schema = self.schema()?;
        let management = std::sync::Arc::clone(&self.management);
        let known = Known { schema: &schema, management: &*management };
        let rewritten = rewrite_tokens(&toks, &known)?;
        self.make_tables(&rewritten)?;
        let kinds = infer::parameters(&toks, &known, types, rewritten.parameters.max(types.len()));
        let scope = Scope::new(&toks, &known, kinds.iter().copied().map(Some).collect());
        let items = infer::outputs(&toks, &scope);
        let explain = |error: rusqlite::Error| self.shared.guard.explain(error.into());
        let statement = self.connection.prepare_cached(&rewritten.sql).map_err(explain)?;
        let writes = !statement.readonly();
        let columns = outputs(&statement, items.as_deref(), &schema);
        drop(statement);
        let tag = tag(command, &toks);
        let columns =
            columns.filter(|_| !matches!(tag, Tag::Words(_)) || command == Command::Pragma);
        Ok(Prepared {
            text: text.to_owned(),
            plan: Plan::Run(Query { rewritten, tag, writes }),
            types: kinds,
            columns,
        })
    }
}

/// The columns of a statement: SQLite knows declared types, the text names and types of expressions.
fn outputs(
    statement: &rusqlite::Statement<'_>,
    items: Option<&[Item]>,
    schema: &Schema,
) -> Option<Vec<Output>> {
    let count = statement.column_count();
    if count == 0 {
        return None;
    }
    let columns = statement.columns_with_metadata();
    let declared: Vec<Option<Declared>> =
        statement.columns().map(|column| column.decl_type().and_then(Declared::read)).collect();
    let merged = columns.into_iter().enumerate().map(|(at, column)| {
        let item = items.and_then(|items| item_at(items, at, count));
        let table = column.table_name().filter(|_| column.database_name() == Some("main"));
        let table = table.and_then(|table| schema.table(table));
        let origin = table.zip(column.origin_name()).and_then(|(table, name)| table.column(name));
        let known =
            origin.map(|column| column.declared).or_else(|| declared.get(at).copied().flatten());
        let known = known.or_else(|| item.and_then(|item| item.declared));
        let number = table.zip(origin).and_then(|(table, origin)| {
            let place = table.columns.iter().position(|column| column.name == origin.name)?;
            i16::try_from(place + 1).ok()
        });
        Output {
            name: item
                .and_then(|item| item.name.clone())
                .unwrap_or_else(|| column.name().to_owned()),
            declared: known.unwrap_or(Declared::of(Type::Text)),
            is_guess: known.is_none(),
            table: table.and_then(|table| u32::try_from(table.oid).ok()).unwrap_or(0),
            number: number.unwrap_or(0),
        }
    });
    Some(merged.collect())
}

/// The item of the text that is column `at`: counted from the front before a `*`, from the end after one.
fn item_at(items: &[Item], at: usize, count: usize) -> Option<&Item> {
    let is_star = |item: &Item| item.name.is_none();
    let Some(first) = items.iter().position(is_star) else {
        return items.get(at).filter(|_| items.len() == count);
    };
    let last = items.iter().rposition(is_star)?;
    let after = items.len() - 1 - last;
    if at < first {
        items.get(at)
    } else if at + after >= count {
        items.get((at + items.len()).checked_sub(count)?)
    } else {
        None
    }
}

fn tag(command: Command, toks: &[Tok<'_>]) -> Tag {
    match command {
        Command::Select => Tag::Counted("SELECT"),
        Command::Insert | Command::Replace => Tag::Counted("INSERT 0"),
        Command::Update => Tag::Counted("UPDATE"),
        Command::Delete => Tag::Counted("DELETE"),
        Command::Truncate => Tag::Words("TRUNCATE TABLE".into()),
        Command::Analyze | Command::Reindex | Command::Pragma => Tag::Words(command.name().into()),
        command => {
            let skipped = ["temp", "temporary", "unique", "unlogged", "global", "local"];
            let second =
                toks.iter().skip(1).find(|tok| tok.kind == Kind::Word && !tok.is_any(&skipped));
            let second = second.map_or("", |tok| tok.text).to_ascii_uppercase();
            Tag::Words(format!("{} {second}", command.name()))
        }
    }
}
