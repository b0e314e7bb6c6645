//! The engine's own tables: made when a statement names them, filled when it runs.
//!
//! They are TEMP tables of the session's connection, so SQLite plans and joins them like any other. A rollback takes
//! them away; they are made again.

use super::{Session, Stop};
use crate::catalog;
use crate::failure::Failure;
use crate::management::{Column, Function, Output, Returns, Rows, Value};
use crate::rewrite::{Call, Rewritten, Target};
use crate::token::quote_name;
use crate::types::Type;
use paceline_postgres::wire::SqlState;
use rusqlite::types::Value as Stored;

impl Session {
    /// Makes the tables that a statement reads.
    pub(super) fn make_tables(&mut self, rewritten: &Rewritten) -> Result<(), Failure> {
        for name in &rewritten.relations {
            let columns = match catalog::find(name) {
                Some(catalog) => {
                    catalog.columns().map(|(name, kind)| Column::new(name, kind)).collect()
                }
                None => self.management.columns(name).unwrap_or_default(),
            };
            self.make_table(name, &columns)?;
        }
        for call in &rewritten.calls {
            if let Target::Table(name) = &call.target {
                let columns = self.call_columns(call.function);
                self.make_table(name, &columns)?;
            }
        }
        Ok(())
    }

    fn call_columns(&self, function: &Function) -> Vec<Column> {
        match function.returns {
            Returns::Value(kind) => vec![Column::new(function.name, kind)],
            Returns::Rows => self.management.columns(function.name).unwrap_or_default(),
        }
    }

    fn make_table(&self, name: &str, columns: &[Column]) -> Result<(), Failure> {
        if columns.is_empty() {
            let message = format!("relation \"{name}\" does not exist");
            return Err(Failure::new(SqlState::UNDEFINED_TABLE, message));
        }
        let columns: Vec<String> = columns
            .iter()
            .map(|column| {
                let kind = column.kind.declared().unwrap_or_else(|| column.kind.sql_name());
                format!("{} {kind}", quote_name(&column.name))
            })
            .collect();
        let text = format!(
            "CREATE TEMP TABLE IF NOT EXISTS {} ({})",
            quote_name(name),
            columns.join(", ")
        );
        self.shared.guard.internally(|| self.connection.execute_batch(&text))?;
        Ok(())
    }

    /// Fills the tables that a statement reads, and calls its functions. Returns the values of the calls that are
    /// parameters, by number.
    pub(super) fn fill(
        &mut self,
        rewritten: &Rewritten,
        values: &[Stored],
    ) -> Result<Vec<(usize, Stored)>, Stop> {
        self.make_tables(rewritten)?;
        for name in &rewritten.relations {
            self.fill_relation(name)?;
        }
        let mut results: Vec<(usize, Stored)> = vec![];
        for call in &rewritten.calls {
            let args = self.arguments(call, values, &results)?;
            let args: Vec<(Option<&str>, Value)> = call
                .args
                .iter()
                .zip(args)
                .map(|((name, text), value)| (name.as_deref(), typed(text, value)))
                .collect();
            let output = self.management.call(call.function.name, &args)?;
            match &call.target {
                Target::Parameter(number) => {
                    results.push((*number, single(call.function, output)?))
                }
                Target::Table(name) => {
                    let rows = match output {
                        Output::Rows(rows) => rows,
                        Output::Value(value) => one_row(value),
                        Output::Void => one_row(Value::Null),
                    };
                    self.fill_table(name, stored(rows))?;
                }
            }
        }
        Ok(results)
    }

    fn fill_relation(&mut self, name: &str) -> Result<(), Stop> {
        let Some(catalog) = catalog::find(name) else {
            let rows = self.management.table(name)?;
            return self.fill_table(name, stored(rows));
        };
        let schema = self.schema()?;
        let version = self.schema_version.unwrap_or(-1);
        if self.filled.get(name) == Some(&version) && name != "pg_settings" {
            return Ok(());
        }
        self.fill_table(name, catalog.rows(&schema, &self.shared))?;
        self.filled.insert(name.to_owned(), version);
        Ok(())
    }

    fn fill_table(&self, name: &str, rows: Vec<Vec<Stored>>) -> Result<(), Stop> {
        let table = quote_name(name);
        let fill = || -> rusqlite::Result<()> {
            self.connection.execute_batch("SAVEPOINT pl_fill")?;
            self.connection.execute(&format!("DELETE FROM temp.{table}"), [])?;
            if let Some(first) = rows.first() {
                let marks = vec!["?"; first.len()].join(", ");
                let text = format!("INSERT INTO temp.{table} VALUES ({marks})");
                let mut insert = self.connection.prepare(&text)?;
                for row in &rows {
                    insert.execute(rusqlite::params_from_iter(row))?;
                }
            }
            self.connection.execute_batch("RELEASE pl_fill")
        };
        self.shared.guard.internally(fill).map_err(|error| {
            let undo = "ROLLBACK TO pl_fill; RELEASE pl_fill";
            let _ = self.shared.guard.internally(|| self.connection.execute_batch(undo));
            self.shared.guard.explain(error.into()).into()
        })
    }

    /// Computes the arguments of a call, which may use parameters and earlier calls but no column.
    fn arguments(
        &self,
        call: &Call,
        values: &[Stored],
        results: &[(usize, Stored)],
    ) -> Result<Vec<Stored>, Failure> {
        if call.args.is_empty() {
            return Ok(vec![]);
        }
        let list: Vec<&str> = call.args.iter().map(|(_, text)| text.as_str()).collect();
        let no_column = |error: rusqlite::Error| {
            let failure = self.shared.guard.explain(error.into());
            match failure.state == SqlState::UNDEFINED_COLUMN {
                true => {
                    Failure::unsupported(format!("a column as argument of {}", call.function.name))
                }
                false => failure,
            }
        };
        let mut statement =
            self.connection.prepare(&format!("SELECT {}", list.join(" , "))).map_err(no_column)?;
        super::run::bind(&mut statement, values, results)?;
        let mut rows = statement.raw_query();
        let Some(row) = rows.next()? else { return Ok(vec![]) };
        (0..call.args.len()).map(|at| Ok(row.get(at)?)).collect()
    }
}

/// A value of SQLite as management sees it; the words true and false are truth values.
fn typed(text: &str, value: Stored) -> Value {
    match value {
        Stored::Null => Value::Null,
        Stored::Integer(number) if ["true", "false"].contains(&text) => Value::Bool(number != 0),
        Stored::Integer(number) => Value::Int(number),
        Stored::Real(number) => Value::Float(number),
        Stored::Text(text) => Value::Text(text),
        Stored::Blob(bytes) => Value::Bytes(bytes),
    }
}

fn of_value(value: Value) -> Stored {
    match value {
        Value::Null => Stored::Null,
        Value::Bool(truth) => Stored::Integer(truth.into()),
        Value::Int(number) => Stored::Integer(number),
        Value::Float(number) => Stored::Real(number),
        Value::Text(text) => Stored::Text(text),
        Value::Bytes(bytes) => Stored::Blob(bytes),
    }
}

fn single(function: &Function, output: Output) -> Result<Stored, Failure> {
    match output {
        // The text form of void is empty, and not NULL.
        Output::Void => Ok(Stored::Text(String::new())),
        Output::Value(value) if function.returns == Returns::Value(Type::Void) => {
            drop(value);
            Ok(Stored::Text(String::new()))
        }
        Output::Value(value) => Ok(of_value(value)),
        Output::Rows(_) => Err(Failure::unsupported(format!("{} outside of FROM", function.name))),
    }
}

fn one_row(value: Value) -> Rows {
    Rows { columns: vec![], rows: vec![vec![value]] }
}

fn stored(rows: Rows) -> Vec<Vec<Stored>> {
    rows.rows.into_iter().map(|row| row.into_iter().map(of_value).collect()).collect()
}
