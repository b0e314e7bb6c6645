//! Runs a statement on SQLite and sends its rows.
//!
//! Rows are encoded one by one and handed to the sink in pieces, so a result of any size takes the memory of one row
//! and one piece.

use super::copy::CopyOut;
use super::portal::{Kept, Portal, State};
use super::prepare::{Output, Plan, Query, Tag, format_at, write_columns};
use super::{OUT_BYTES, Session, Sink, Stop};
use crate::failure::Failure;
use crate::types::Type;
use crate::values;
use paceline_postgres::wire::backend::{self, DataRow};
use paceline_postgres::wire::{Format, SqlState};
use rusqlite::types::{Value, ValueRef};
use std::time::Instant;

impl Session {
    /// Runs a portal, or continues it. `rows_max` is 0 for all rows; `describes` is for a Query, whose columns
    /// were not described.
    pub(super) fn execute(
        &mut self,
        portal: &mut Portal,
        rows_max: usize,
        describes: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        let statement = std::sync::Arc::clone(&portal.statement);
        self.check_block(&statement)?;
        match (&statement.plan, &mut portal.state) {
            (Plan::Empty, _) => {
                backend::empty_query_response(&mut self.out);
                return Ok(());
            }
            (_, State::Rows(_)) => return self.go_on(portal, rows_max, sink),
            (Plan::Control, State::New) => {
                portal.state = State::Done;
                let formats = portal.formats.clone();
                return self.control(&statement.text, &formats, describes, sink);
            }
            (Plan::Explain(rewritten), State::New) => {
                portal.state = State::Done;
                return self.explain(rewritten, describes);
            }
            (Plan::Run(_), State::Done) => {
                let message = "the portal has been run to completion";
                return Err(Failure::new(SqlState::NOT_IN_PREREQUISITE_STATE, message).into());
            }
            (_, State::Done) => return Ok(()),
            (Plan::Run(_), State::New) => {}
        }
        let Plan::Run(query) = &statement.plan else { return Ok(()) };
        let mut kept = Kept::default();
        portal.state = State::Done;
        let form = Form::Rows { describes, rows_max };
        let count = self.run(query, portal, form, &mut kept, sink)?;
        if kept.is_empty() {
            self.complete(&query.tag, count);
        } else {
            portal.state = State::Rows(kept);
            backend::portal_suspended(&mut self.out);
        }
        Ok(())
    }

    /// Sends more of a portal that has run.
    fn go_on(
        &mut self,
        portal: &mut Portal,
        rows_max: usize,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        let State::Rows(kept) = &mut portal.state else { return Ok(()) };
        let mut count = 0;
        while rows_max == 0 || count < rows_max {
            let Some(row) = self.spill.take(kept)? else { break };
            self.out.extend_from_slice(&row);
            count += 1;
            if self.out.len() >= OUT_BYTES {
                sink.send(&self.out)?;
                self.out.clear();
            }
        }
        if !kept.is_empty() {
            backend::portal_suspended(&mut self.out);
            return Ok(());
        }
        self.spill.forget(portal);
        if let Plan::Run(query) = &portal.statement.plan {
            self.complete(&query.tag, count);
        }
        Ok(())
    }

    pub(super) fn complete(&mut self, tag: &Tag, count: usize) {
        let text = match tag {
            Tag::Words(words) => words.clone(),
            Tag::Counted(words) => format!("{words} {count}"),
        };
        backend::command_complete(&mut self.out, text.as_bytes());
    }

    /// Runs a statement to its end. Returns how many rows it sent, or changed if it returns none.
    pub(super) fn run(
        &mut self,
        query: &Query,
        portal: &mut Portal,
        form: Form<'_>,
        kept: &mut Kept,
        sink: &mut dyn Sink,
    ) -> Result<usize, Stop> {
        self.start_clock();
        self.begin_for(query.writes)?;
        let results = self.fill(&query.rewritten, &portal.values)?;
        let shared = std::sync::Arc::clone(&self.shared);
        let explain = |error: rusqlite::Error| shared.guard.explain(error.into());
        let mut statement =
            self.connection.prepare_cached(&query.rewritten.sql).map_err(explain)?;
        let expected = portal.columns().map(<[Output]>::len);
        if expected.is_some_and(|expected| expected != statement.column_count()) {
            let message = "cached plan must not change result type";
            return Err(Failure::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        bind(&mut statement, &portal.values, &results)
            .map_err(|failure| shared.guard.explain(failure))?;
        let before = self.connection.total_changes();
        let mut writer = Writer {
            out: &mut self.out,
            form,
            columns: portal.columns().map(<[Output]>::to_vec).unwrap_or_default(),
            formats: &portal.formats,
            row_max: self.options.row_bytes_max,
            scratch: vec![],
            start: 0,
            count: 0,
            is_described: false,
        };
        let has_columns = expected.is_some();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(explain)? {
            if !has_columns {
                continue;
            }
            if !writer.row(row)? {
                // Beyond the client's limit.
                self.spill.keep(kept, writer.out.get(writer.start..).unwrap_or_default())?;
                writer.out.truncate(writer.start);
            }
            if writer.out.len() >= OUT_BYTES {
                sink.send(writer.out)?;
                writer.out.clear();
            }
            if shared.guard.must_stop() {
                return Err(shared.guard.stop_failure().into());
            }
        }
        drop(rows);
        if has_columns {
            writer.describe(None)?;
        }
        let count = writer.count;
        portal.shown = has_columns.then_some(writer.columns);
        let changed = usize::try_from(self.connection.total_changes().saturating_sub(before));
        let is_write = matches!(query.tag, Tag::Counted(words) if words != "SELECT");
        drop(statement);
        Ok(match has_columns || !is_write {
            true => count,
            // Triggers and foreign keys change rows too; the statement's own count is what clients expect.
            false => {
                changed.unwrap_or(0).min(usize::try_from(self.connection.changes()).unwrap_or(0))
            }
        })
    }

    /// Begins a statement, whose time is bounded.
    fn start_clock(&self) {
        let time = self.settings().statement_time();
        self.shared.guard.start(time.and_then(|time| Instant::now().checked_add(time)));
    }

    /// Where the text leaves the type of a column open, the first row of a statement without effects shows it.
    pub(super) fn peek_types(&mut self, portal: &mut Portal) -> Result<(), Stop> {
        let statement = std::sync::Arc::clone(&portal.statement);
        let (Plan::Run(query), State::New) = (&statement.plan, &portal.state) else {
            return Ok(());
        };
        let has_guess = portal.columns().is_some_and(|columns| columns.iter().any(|c| c.is_guess));
        if !has_guess || query.writes || !query.rewritten.calls.is_empty() {
            return Ok(());
        }
        self.start_clock();
        self.fill(&query.rewritten, &portal.values)?;
        let explain = |error: rusqlite::Error| self.shared.guard.explain(error.into());
        let mut prepared = self.connection.prepare_cached(&query.rewritten.sql).map_err(explain)?;
        bind(&mut prepared, &portal.values, &[])?;
        let mut rows = prepared.raw_query();
        let mut columns = portal.columns().map(<[Output]>::to_vec).unwrap_or_default();
        if let Some(row) = rows.next().map_err(explain)? {
            refine(&mut columns, row);
        }
        columns.iter_mut().for_each(|column| column.is_guess = false);
        portal.shown = Some(columns);
        Ok(())
    }
}

/// Binds the client's parameters and those that calls made.
pub fn bind(
    statement: &mut rusqlite::Statement<'_>,
    values: &[Value],
    results: &[(usize, Value)],
) -> Result<(), Failure> {
    let count = statement.parameter_count();
    let client = values.iter().enumerate().map(|(at, value)| (at + 1, value));
    for (number, value) in client.chain(results.iter().map(|(number, value)| (*number, value))) {
        // A parameter that only an argument of a call uses is not in the statement.
        if number <= count {
            statement.raw_bind_parameter(number, value)?;
        }
    }
    Ok(())
}

/// What becomes of rows.
pub enum Form<'f> {
    /// DataRow messages, described before the first one if `describes`; those beyond `rows_max` are kept.
    Rows { describes: bool, rows_max: usize },
    /// DataRow messages that are all kept.
    Keep,
    /// CopyData messages.
    Copy(&'f CopyOut),
}

/// A sink for a run that sends nothing.
pub struct Discarded;

impl Sink for Discarded {
    fn send(&mut self, _: &[u8]) -> Result<(), super::Gone> {
        Ok(())
    }
}

struct Writer<'w> {
    out: &'w mut Vec<u8>,
    form: Form<'w>,
    columns: Vec<Output>,
    formats: &'w [Format],
    row_max: usize,
    /// One value.
    scratch: Vec<u8>,
    /// Where the last row begins.
    start: usize,
    count: usize,
    is_described: bool,
}

impl Writer<'_> {
    /// Writes a row. Returns false if it is beyond the client's limit: it is then the last of `out`, to be kept.
    fn row(&mut self, row: &rusqlite::Row<'_>) -> Result<bool, Stop> {
        self.describe(Some(row))?;
        let start = self.out.len();
        match &self.form {
            Form::Copy(copy) => {
                let columns = &self.columns;
                copy.write(self.out, columns, row)?;
            }
            Form::Rows { .. } | Form::Keep => {
                let mut message = DataRow::begin(self.out);
                for (at, column) in self.columns.iter().enumerate() {
                    match row.get_ref(at)? {
                        ValueRef::Null => message.value(None),
                        value => {
                            self.scratch.clear();
                            values::encode(
                                &mut self.scratch,
                                value,
                                column.declared,
                                format_at(self.formats, at),
                            )?;
                            message.value(Some(&self.scratch));
                        }
                    }
                }
                message.finish().map_err(|_| self.too_long())?;
            }
        }
        if self.out.len() - start > self.row_max {
            self.out.truncate(start);
            return Err(self.too_long().into());
        }
        self.start = start;
        let is_beyond = match self.form {
            Form::Rows { rows_max, .. } => rows_max > 0 && self.count >= rows_max,
            Form::Keep => true,
            Form::Copy(_) => false,
        };
        if is_beyond {
            return Ok(false);
        }
        self.count += 1;
        Ok(true)
    }

    fn describe(&mut self, row: Option<&rusqlite::Row<'_>>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_described, true) {
            return Ok(());
        }
        let describes = match self.form {
            Form::Rows { describes, .. } => describes,
            Form::Keep => true,
            Form::Copy(_) => false,
        };
        if let Some(row) = row.filter(|_| describes) {
            refine(&mut self.columns, row);
        }
        if !describes || matches!(self.form, Form::Keep) {
            return Ok(());
        }
        write_columns(self.out, Some(&self.columns), self.formats)
    }

    fn too_long(&self) -> Failure {
        let message = format!("a row is longer than {} bytes", self.row_max);
        Failure::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
    }
}

/// Gives guessed columns the type of the row's values.
fn refine(columns: &mut [Output], row: &rusqlite::Row<'_>) {
    for (at, column) in columns.iter_mut().enumerate().filter(|(_, column)| column.is_guess) {
        column.declared.kind = match row.get_ref(at) {
            Ok(ValueRef::Integer(_)) => Type::Int8,
            Ok(ValueRef::Real(_)) => Type::Float8,
            Ok(ValueRef::Blob(_)) => Type::Bytea,
            _ => Type::Text,
        };
    }
}
