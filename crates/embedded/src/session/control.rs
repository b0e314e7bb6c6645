//! Statements that the session runs itself: transactions, parameters, prepared statements and cursors.

use super::portal::Portal;
use super::prepare::{Output, Plan, Prepared, Tag, write_columns};
use super::{Session, Sink, Stop};
use crate::failure::Failure;
use crate::token::{closing, items, solids, string_value};
use crate::types::{Declared, Type};
use paceline_postgres::text::{
    Action, Class, Command, Dialect, Discard, Kind, Scope, Setting, Value as Given, classify,
};
use paceline_postgres::wire::backend::{self, DataRow};
use paceline_postgres::wire::{Format, SqlState};
use rusqlite::limits::Limit;
use std::sync::Arc;

impl Session {
    /// The columns that such a statement returns.
    pub(super) fn control_columns(&self, text: &str, class: &Class<'_>) -> Option<Vec<Output>> {
        match &class.action {
            Action::Show(name) if &**name == "all" => Some(
                ["name", "setting", "description"].map(|name| Output::of(name, Type::Text)).into(),
            ),
            Action::Show(name) => Some(vec![Output::of(name.to_ascii_lowercase(), Type::Text)]),
            Action::Execute(name) => {
                self.statements.get(name.as_bytes()).and_then(|found| found.columns.clone())
            }
            _ if class.command == Command::Fetch => {
                let (name, _) = fetch(text);
                let portal = self.portals.get(name.as_bytes())?;
                portal.columns().map(<[Output]>::to_vec)
            }
            _ => None,
        }
    }

    pub(super) fn control(
        &mut self,
        text: &str,
        formats: &[Format],
        describes: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        let class = classify(text, Dialect::Postgres);
        let tag = match &class.action {
            Action::Begin(begin) => {
                self.begin_block(begin.is_read_only);
                if text.trim_start().get(..5).is_some_and(|word| word.eq_ignore_ascii_case("start"))
                {
                    "START TRANSACTION"
                } else {
                    "BEGIN"
                }
            }
            Action::Commit { chains } => self.commit_block(*chains)?,
            Action::Rollback { chains } => {
                self.rollback_block(*chains);
                "ROLLBACK"
            }
            Action::Savepoint(name) => self.savepoint("SAVEPOINT", name).map(|()| "SAVEPOINT")?,
            Action::Release(name) => self.savepoint("RELEASE", name).map(|()| "RELEASE")?,
            Action::RollbackTo(name) => self.savepoint("ROLLBACK TO", name).map(|()| "ROLLBACK")?,
            Action::Set(setting) => self.set(setting)?,
            Action::Reset(_) | Action::ResetAll => self.reset(&class.action)?,
            Action::SetTransaction | Action::SetCharacteristics => self.set_transaction(text),
            Action::SetConstraints => "SET CONSTRAINTS",
            Action::Show(name) => return self.show(name, describes),
            Action::Unlisten(_) => "UNLISTEN",
            Action::Prepare(name) => self.prepare_named(text, name)?,
            Action::Execute(name) => {
                return self.execute_named(text, name, formats, describes, sink);
            }
            Action::Deallocate(None) => {
                self.statements.clear();
                "DEALLOCATE ALL"
            }
            Action::Deallocate(Some(name)) => {
                let found = self.statements.remove(name.as_bytes());
                found.ok_or_else(|| super::no_statement(name.as_bytes()))?;
                "DEALLOCATE"
            }
            Action::Discard(discard) => self.discard(*discard)?,
            Action::Declare { name, is_held } => self.declare(text, name, *is_held)?,
            Action::Close(name) => self.close_cursor(name.as_deref())?,
            Action::Copy(_) => return self.copy(text, sink),
            _ => match class.command {
                Command::Fetch | Command::Move => {
                    return self.fetch(text, class.command, formats, describes, sink);
                }
                Command::Vacuum => self.vacuum(text)?,
                command => return Err(Failure::unsupported(command.name()).into()),
            },
        };
        backend::command_complete(&mut self.out, tag.as_bytes());
        Ok(())
    }

    fn set(&mut self, setting: &Setting<'_>) -> Result<&'static str, Stop> {
        let text = match &setting.value {
            Some(Given::Text(text)) => Some(text.to_string()),
            Some(Given::Default) => None,
            None => Some(setting.text.trim_end_matches(';').replace('\'', "")),
        };
        let mut settings = self.settings();
        match (text, setting.scope) {
            (None, _) => settings.reset(&setting.name)?,
            (Some(text), Scope::Local) => settings.set_local(&setting.name, &text)?,
            (Some(text), Scope::Session) => settings.set(&setting.name, &text)?,
        }
        drop(settings);
        self.report_settings();
        Ok("SET")
    }

    fn reset(&mut self, action: &Action<'_>) -> Result<&'static str, Stop> {
        match action {
            Action::Reset(name) => self.settings().reset(name)?,
            _ => self.settings().reset_all(),
        }
        self.report_settings();
        Ok("RESET")
    }

    /// Isolation levels change nothing: every transaction is serializable.
    fn set_transaction(&mut self, text: &str) -> &'static str {
        let toks = solids(text);
        let access =
            toks.windows(2).find(|pair| pair[0].is("read") && pair[1].is_any(&["only", "write"]));
        if let Some(pair) = access {
            self.set_read_only(pair[1].is("only"));
        }
        "SET"
    }

    /// Tells the client the parameters that drivers follow.
    fn report_settings(&mut self) {
        let reported = self.settings().reported();
        for (name, value) in reported {
            if ["application_name", "client_encoding", "DateStyle", "TimeZone", "IntervalStyle"]
                .contains(&name)
            {
                backend::parameter_status(&mut self.out, name.as_bytes(), value.as_bytes());
            }
        }
    }

    fn show(&mut self, name: &str, describes: bool) -> Result<(), Stop> {
        let rows: Vec<Vec<String>> = match name {
            "all" => {
                let settings = self.settings();
                let row =
                    |(name, value): (&str, &str)| vec![name.into(), value.into(), String::new()];
                settings.all().map(row).collect()
            }
            name => vec![vec![self.settings().show(name)?]],
        };
        if describes {
            let columns = match name {
                "all" => {
                    ["name", "setting", "description"].map(|n| Output::of(n, Type::Text)).to_vec()
                }
                name => vec![Output::of(name.to_ascii_lowercase(), Type::Text)],
            };
            write_columns(&mut self.out, Some(&columns), &[])?;
        }
        for row in rows {
            let mut message = DataRow::begin(&mut self.out);
            row.iter().for_each(|value| message.value(Some(value.as_bytes())));
            message.finish().map_err(|_| Failure::syntax("a parameter is too long"))?;
        }
        backend::command_complete(&mut self.out, b"SHOW");
        Ok(())
    }

    fn discard(&mut self, what: Discard) -> Result<&'static str, Stop> {
        match what {
            Discard::All => {
                self.check_no_block("DISCARD ALL")?;
                self.statements.clear();
                let names: Vec<Vec<u8>> = self.portals.keys().cloned().collect();
                names.iter().for_each(|name| self.close_portal(name));
                self.settings().reset_all();
                self.drop_temporary()?;
                self.report_settings();
                Ok("DISCARD ALL")
            }
            Discard::Temporary => {
                self.drop_temporary()?;
                Ok("DISCARD TEMP")
            }
            Discard::Plans => {
                self.connection.flush_prepared_statement_cache();
                Ok("DISCARD PLANS")
            }
            Discard::Sequences => Ok("DISCARD SEQUENCES"),
        }
    }

    /// Drops the tables that live as long as the session.
    fn drop_temporary(&mut self) -> Result<(), Failure> {
        self.connection.flush_prepared_statement_cache();
        self.filled.clear();
        let drop_all = || -> rusqlite::Result<()> {
            let mut names = self.connection.prepare(
                "SELECT type, name FROM temp.sqlite_schema WHERE type IN ('table', 'view')",
            )?;
            let names: Vec<(String, String)> = names
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            for (kind, name) in names.iter().filter(|(_, name)| !name.starts_with("sqlite_")) {
                let name = crate::token::quote_name(name);
                self.connection.execute_batch(&format!("DROP {kind} IF EXISTS temp.{name}"))?;
            }
            Ok(())
        };
        Ok(self.shared.guard.internally(drop_all)?)
    }

    /// `PREPARE name (types) AS statement`.
    fn prepare_named(&mut self, text: &str, name: &str) -> Result<&'static str, Stop> {
        let toks = solids(text);
        let mut types = vec![];
        if toks.get(2).is_some_and(|tok| tok.kind == Kind::Open) {
            let end = closing(&toks, 2).min(toks.len());
            for item in items(toks.get(3..end).unwrap_or_default()) {
                let name: Vec<&str> = item.iter().map(|tok| tok.text).collect();
                types.push(
                    Declared::read(&name.join(" ")).map_or(0, |declared| declared.kind.oid()),
                );
            }
        }
        let body = toks.iter().find(|tok| tok.is("as")).and_then(|tok| after(text, tok.text));
        let Some(body) = body else { return Err(Failure::syntax("AS is expected").into()) };
        self.check_statement_name(name.as_bytes())?;
        let prepared = self.prepare(body.trim(), &types)?;
        self.statements.insert(name.as_bytes().to_vec(), Arc::new(prepared));
        Ok("PREPARE")
    }

    /// `EXECUTE name (values)`.
    fn execute_named(
        &mut self,
        text: &str,
        name: &str,
        formats: &[Format],
        describes: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        let Some(statement) = self.statements.get(name.as_bytes()).cloned() else {
            return Err(super::no_statement(name.as_bytes()).into());
        };
        let toks = solids(text);
        let mut values = vec![];
        if toks.get(2).is_some_and(|tok| tok.kind == Kind::Open) {
            let end = closing(&toks, 2).min(toks.len());
            let inside = after(text, toks[2].text)
                .and_then(|rest| rest.rfind(')').and_then(|at| rest.get(..at)));
            if end > 3 {
                values = self.evaluate(inside.unwrap_or_default(), &statement)?;
            }
        }
        if values.len() != statement.types.len() {
            let message = format!(
                "wrong number of parameters for prepared statement \"{name}\": expected {}, got {}",
                statement.types.len(),
                values.len()
            );
            return Err(Failure::syntax(message).into());
        }
        let mut portal = Portal::new(statement, values, formats.to_vec());
        self.execute(&mut portal, 0, describes, sink)
    }

    /// The values of a list of expressions, in the types of the statement's parameters.
    fn evaluate(
        &mut self,
        list: &str,
        statement: &Prepared,
    ) -> Result<Vec<rusqlite::types::Value>, Stop> {
        let Plan::Run(query) = self.prepare(&format!("SELECT {list}"), &[])?.plan else {
            return Ok(vec![]);
        };
        let mut prepared = self.connection.prepare(&query.rewritten.sql)?;
        let mut rows = prepared.raw_query();
        let Some(row) = rows.next()? else { return Ok(vec![]) };
        let mut values = vec![];
        for at in 0..row.as_ref().column_count() {
            let value: rusqlite::types::Value = row.get(at)?;
            values.push(match (value, statement.types.get(at)) {
                (rusqlite::types::Value::Text(text), Some(kind)) => {
                    crate::values::from_text(&text, *kind)?
                }
                (value, _) => value,
            });
        }
        Ok(values)
    }

    /// `DECLARE name CURSOR FOR query`.
    fn declare(&mut self, text: &str, name: &str, is_held: bool) -> Result<&'static str, Stop> {
        if !is_held && !self.transaction.is_block() {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(Failure::new(SqlState::NO_ACTIVE_TRANSACTION, message).into());
        }
        if self.portals.contains_key(name.as_bytes()) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(Failure::new(SqlState::DUPLICATE_CURSOR, message).into());
        }
        self.check_portals()?;
        let toks = solids(text);
        let body = toks.iter().find(|tok| tok.is("for")).and_then(|tok| after(text, tok.text));
        let Some(body) = body else { return Err(Failure::syntax("FOR is expected").into()) };
        let prepared = self.prepare(body.trim(), &[])?;
        let mut portal = Portal::new(Arc::new(prepared), vec![], vec![]);
        portal.is_held = is_held;
        self.portals.insert(name.as_bytes().to_vec(), portal);
        Ok("DECLARE CURSOR")
    }

    fn close_cursor(&mut self, name: Option<&str>) -> Result<&'static str, Stop> {
        let Some(name) = name else {
            let names: Vec<Vec<u8>> = self.portals.keys().cloned().collect();
            names.iter().for_each(|name| self.close_portal(name));
            return Ok("CLOSE CURSOR ALL");
        };
        if !self.portals.contains_key(name.as_bytes()) {
            return Err(no_cursor(name).into());
        }
        self.close_portal(name.as_bytes());
        Ok("CLOSE CURSOR")
    }

    /// `FETCH` and `MOVE`, forward only.
    fn fetch(
        &mut self,
        text: &str,
        command: Command,
        formats: &[Format],
        describes: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        let (name, count) = fetch(text);
        let Some(count) = count else {
            return Err(Failure::unsupported("FETCH other than forward").into());
        };
        let Some(mut portal) = self.portals.remove(name.as_bytes()) else {
            return Err(no_cursor(&name).into());
        };
        portal.formats = formats.to_vec();
        let done = self.fetch_from(&mut portal, command, count, describes, sink);
        if !self.portals.contains_key(name.as_bytes()) {
            self.portals.insert(name.into_bytes(), portal);
        }
        done
    }

    fn fetch_from(
        &mut self,
        portal: &mut Portal,
        command: Command,
        count: usize,
        describes: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        let statement = Arc::clone(&portal.statement);
        let Plan::Run(query) = &statement.plan else {
            return Err(Failure::unsupported("a cursor for this statement").into());
        };
        let mut kept = super::portal::Kept::default();
        let mut state = std::mem::replace(&mut portal.state, super::portal::State::Done);
        if matches!(state, super::portal::State::New) {
            // Every row is kept: the first FETCH runs the query, each sends its part.
            let mut nothing = super::run::Discarded;
            let form = super::run::Form::Keep;
            self.run(query, portal, form, &mut kept, &mut nothing)?;
            state = super::portal::State::Rows(kept);
        }
        portal.state = state;
        if describes && command == Command::Fetch {
            write_columns(&mut self.out, portal.columns(), &portal.formats)?;
        }
        let mut sent = 0;
        if let super::portal::State::Rows(kept) = &mut portal.state {
            while sent < count {
                let Some(row) = self.spill.take(kept)? else { break };
                if command == Command::Fetch {
                    self.out.extend_from_slice(&row);
                }
                sent += 1;
                if self.out.len() >= super::OUT_BYTES {
                    sink.send(&self.out)?;
                    self.out.clear();
                }
            }
        }
        let word = if command == Command::Fetch { "FETCH" } else { "MOVE" };
        self.complete(&Tag::Counted(word), sent);
        Ok(())
    }

    fn vacuum(&mut self, text: &str) -> Result<&'static str, Stop> {
        self.check_no_block("VACUUM")?;
        if solids(text).iter().any(|tok| tok.is("into")) {
            return Err(Failure::unsupported("VACUUM INTO").into());
        }
        let guard = &self.shared.guard;
        self.connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 1)?;
        let done = guard.vacuuming(|| self.connection.execute_batch("VACUUM"));
        self.connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        done.map_err(|error| guard.explain(error.into()))?;
        Ok("VACUUM")
    }
}

/// The text after a token, which is a slice of it.
fn after<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    let at = token.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    text.get(at + token.len()..)
}

/// The cursor and the number of rows of `FETCH [FORWARD] [count | ALL | NEXT] [FROM | IN] name`.
fn fetch(text: &str) -> (String, Option<usize>) {
    let toks = solids(text);
    let name = toks.last().and_then(|tok| tok.name()).unwrap_or_default();
    let mut count = Some(1);
    for tok in toks.iter().skip(1).take(toks.len().saturating_sub(2)) {
        if tok.is("all") {
            count = Some(usize::MAX);
        } else if tok.kind == Kind::Number {
            count = tok.text.parse().ok();
        } else if !tok.is_any(&["forward", "next", "from", "in"]) {
            count = None;
        }
    }
    (name, count)
}

fn no_cursor(name: &str) -> Failure {
    let message = format!("cursor \"{name}\" does not exist");
    Failure::new(SqlState::INVALID_CURSOR_NAME, message)
}

/// The value of an option that is a string or a word.
pub(super) fn option_value(tok: &crate::token::Tok<'_>) -> Option<String> {
    match tok.kind {
        Kind::String => string_value(tok.text),
        _ => tok.name(),
    }
}
