//! A session: one client of the PostgreSQL protocol on one SQLite connection.
//!
//! Takes the client's messages one by one and writes the server's into a [`Sink`]. The rules of the protocol:
//!
//! - A Query is answered to its end, with ReadyForQuery. Its statements are one transaction unless they say otherwise.
//! - In the extended protocol an error makes the session skip everything up to Sync. What was executed since the last
//!   Sync is one transaction.
//! - After an error in a transaction block every statement fails with 25P02 until the block ends.
//! - A statement runs to its end in one call: rows beyond the limit of an Execute are kept for the next one, so no
//!   SQLite statement is open between two messages, and a session may move from thread to thread.

mod control;
mod copy;
mod explain;
mod fill;
mod portal;
mod prepare;
mod run;
mod settings;
mod transaction;

pub use settings::Settings;

use crate::database::{Database, Options};
use crate::failure::Failure;
use crate::functions::Shared;
use crate::management::Management;
use crate::schema::Schema;
use paceline_postgres::text::{Dialect, split};
use paceline_postgres::wire::backend::{self, Status};
use paceline_postgres::wire::frontend::{Bind, Message, Object, Parse, Target};
use paceline_postgres::wire::report::{Report, Severity};
use paceline_postgres::wire::{Format, SqlState};
use portal::{Portal, Spill};
use prepare::Prepared;
use rusqlite::{Connection, InterruptHandle};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use transaction::Transaction;

/// The client is gone: nothing more can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Where a session sends its messages. It may block; whole messages are handed over in pieces of about 32 KiB.
pub trait Sink {
    /// Sends bytes to the client.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Gone>;
}

impl Sink for Vec<u8> {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Who the client is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionInfo {
    /// The user's name.
    pub user: String,
    /// The name of the database.
    pub database: String,
    /// What the client calls itself.
    pub application_name: String,
    /// The number in BackendKeyData.
    pub process: u32,
    /// Other parameters of the startup packet; those that cannot be set are ignored.
    pub parameters: Vec<(String, String)>,
}

/// Cancels what a session runs, from any thread.
#[derive(Clone)]
pub struct Canceller {
    shared: Arc<Shared>,
    handle: Arc<InterruptHandle>,
}

impl Canceller {
    /// Stops the running statement, which fails with 57014. A session that runs nothing ignores it.
    pub fn cancel(&self) {
        self.shared.guard.cancel();
        self.handle.interrupt();
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Canceller")
    }
}

/// Why a call ended early.
#[derive(Debug)]
enum Stop {
    Failed(Failure),
    Gone,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// One client's session.
pub struct Session {
    connection: Connection,
    shared: Arc<Shared>,
    management: Arc<dyn Management>,
    options: Options,
    statements: BTreeMap<Vec<u8>, Arc<Prepared>>,
    portals: BTreeMap<Vec<u8>, Portal>,
    spill: Spill,
    transaction: Transaction,
    /// The version of the schema in `shared`.
    schema_version: Option<i64>,
    /// The engine's tables that hold what the schema of this version says.
    filled: BTreeMap<String, i64>,
    copying: Option<copy::CopyIn>,
    /// Whether messages are skipped up to the next Sync.
    is_skipping: bool,
    out: Vec<u8>,
}

/// When this much is written, it is sent.
const OUT_BYTES: usize = 32 << 10;

impl Session {
    /// Opens a connection for a client that has logged in.
    pub fn new(
        database: &Database,
        info: SessionInfo,
        management: Arc<dyn Management>,
    ) -> Result<Self, Failure> {
        let mut settings = Settings::new(&info);
        for (name, value) in &info.parameters {
            // PostgreSQL would refuse the connection; drivers send settings that do not exist here.
            let _ = settings.set(name, value);
        }
        settings.make_default();
        let shared = Arc::new(Shared {
            user: info.user,
            database: info.database,
            process: info.process,
            settings: settings.into(),
            ..Shared::default()
        });
        Ok(Self {
            connection: database.connect(&shared)?,
            shared,
            management,
            options: database.options.clone(),
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            spill: Spill::new(&database.options),
            transaction: Transaction::default(),
            schema_version: None,
            filled: BTreeMap::new(),
            copying: None,
            is_skipping: false,
            out: vec![],
        })
    }

    /// Adds the ParameterStatus messages of a login.
    pub fn write_parameters(&self, out: &mut Vec<u8>) {
        let settings = self.settings();
        for (name, value) in settings.reported() {
            backend::parameter_status(out, name.as_bytes(), value.as_bytes());
        }
    }

    /// Answers one message. Terminate does nothing: the door drops the session.
    pub fn handle(&mut self, message: Message<'_>, sink: &mut dyn Sink) -> Result<(), Gone> {
        self.shared.guard.forget_cancel();
        if self.copying.is_some() {
            return self.handle_copy(message, sink);
        }
        match message {
            Message::Query(text) => self.query(text, sink),
            Message::Sync => self.sync(sink),
            Message::Terminate => Ok(()),
            // Data after a COPY that failed is dropped, as PostgreSQL does.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            _ if self.is_skipping => Ok(()),
            message => match self.extended(message, sink) {
                Ok(()) => Ok(()),
                Err(Stop::Gone) => Err(Gone),
                Err(Stop::Failed(failure)) => {
                    self.is_skipping = true;
                    self.failed(&failure);
                    self.flush(sink)
                }
            },
        }
    }

    /// Refuses the current batch for a reason of the door's, as if its first statement had failed. For a Query call
    /// it in place of `handle`; in the extended protocol in place of `handle` of the first refused message.
    pub fn refuse(
        &mut self,
        report: &Report,
        is_query: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), Gone> {
        report.write(&mut self.out);
        self.fail_transaction();
        match is_query {
            true => self.ready(sink),
            false => {
                self.is_skipping = true;
                self.flush(sink)
            }
        }
    }

    /// The status of the transaction, as ReadyForQuery shows it.
    #[must_use]
    pub fn status(&self) -> Status {
        self.transaction.status()
    }

    /// Whether the client is sending data of COPY.
    #[must_use]
    pub fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// The text of a prepared statement or portal.
    #[must_use]
    pub fn text(&self, target: Target<'_>) -> Option<&str> {
        match target.object {
            Object::Statement => self.statements.get(target.name).map(|found| found.text.as_str()),
            Object::Portal => {
                self.portals.get(target.name).map(|found| found.statement.text.as_str())
            }
        }
    }

    /// What cancels this session's statements.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        let handle = Arc::new(self.connection.get_interrupt_handle());
        Canceller { shared: Arc::clone(&self.shared), handle }
    }

    /// Bounds the time of each statement; none for no bound. A client's own `statement_timeout` is kept if it is
    /// shorter.
    pub fn set_statement_time_max(&mut self, max: Option<std::time::Duration>) {
        self.settings_mut().set_time_max(max);
    }

    fn query(&mut self, text: &[u8], sink: &mut dyn Sink) -> Result<(), Gone> {
        self.is_skipping = false;
        // A simple query destroys the unnamed statement and portal.
        self.statements.remove(&b""[..]);
        self.close_portal(b"");
        let done = match std::str::from_utf8(text) {
            Ok(text) => {
                let texts: Vec<String> = split(text, Dialect::Postgres)
                    .filter_map(|range| text.get(range).map(str::to_owned))
                    .collect();
                self.statements_of_query(texts, sink)
            }
            Err(_) => Err(not_utf8().into()),
        };
        self.end_query(done, sink)
    }

    /// Runs the statements of a Query, up to a COPY that waits for data.
    fn statements_of_query(&mut self, texts: Vec<String>, sink: &mut dyn Sink) -> Result<(), Stop> {
        if texts.is_empty() {
            backend::empty_query_response(&mut self.out);
            return Ok(());
        }
        self.transaction.enter(texts.len() == 1);
        let mut texts = texts.into_iter();
        while let Some(text) = texts.next() {
            let prepared = self.prepare(&text, &[])?;
            let mut portal = Portal::new(Arc::new(prepared), vec![], vec![]);
            self.execute(&mut portal, 0, true, sink)?;
            if self.copying.is_some() {
                self.copy_of_query(texts.collect());
                return Ok(());
            }
        }
        Ok(())
    }

    /// Ends a Query: commits or rolls back, and says that the session is ready.
    fn end_query(&mut self, done: Result<(), Stop>, sink: &mut dyn Sink) -> Result<(), Gone> {
        let done = match done {
            Ok(()) if self.copying.is_some() => return self.flush(sink),
            Ok(()) => self.leave_implicit(),
            Err(stop) => Err(stop),
        };
        match done {
            Ok(()) => {}
            Err(Stop::Gone) => return Err(Gone),
            Err(Stop::Failed(failure)) => self.failed(&failure),
        }
        self.ready(sink)
    }

    fn sync(&mut self, sink: &mut dyn Sink) -> Result<(), Gone> {
        self.is_skipping = false;
        match self.leave_implicit() {
            Ok(()) => {}
            Err(Stop::Gone) => return Err(Gone),
            Err(Stop::Failed(failure)) => self.failed(&failure),
        }
        self.ready(sink)
    }

    fn extended(&mut self, message: Message<'_>, sink: &mut dyn Sink) -> Result<(), Stop> {
        match message {
            Message::Parse(parse) => self.parse(parse),
            Message::Bind(bind) => self.bind(bind),
            Message::Describe(target) => self.describe(target),
            Message::Execute(execute) => {
                let Some(mut portal) = self.portals.remove(execute.portal) else {
                    return Err(no_portal(execute.portal).into());
                };
                self.transaction.enter(false);
                let rows_max = usize::try_from(execute.rows).unwrap_or(0);
                let done = self.execute(&mut portal, rows_max, false, sink);
                // The statement may have ended the transaction, and the portal with it.
                if portal.is_open() && self.transaction.status() != Status::Idle {
                    self.portals.insert(execute.portal.to_vec(), portal);
                } else {
                    self.spill.forget(&mut portal);
                }
                if self.copying.is_some() {
                    self.flush(sink)?;
                }
                done
            }
            Message::Close(target) => {
                match target.object {
                    Object::Statement => drop(self.statements.remove(target.name)),
                    Object::Portal => self.close_portal(target.name),
                }
                backend::close_complete(&mut self.out);
                Ok(())
            }
            Message::Flush => Ok(self.flush(sink)?),
            Message::FunctionCall(_) => {
                Err(Failure::unsupported("the FunctionCall message").into())
            }
            _ => Ok(()),
        }
    }

    fn parse(&mut self, parse: Parse<'_>) -> Result<(), Stop> {
        let text = std::str::from_utf8(parse.query).map_err(|_| not_utf8())?;
        let mut pieces = split(text, Dialect::Postgres);
        let first = pieces.next().and_then(|range| text.get(range)).unwrap_or_default();
        if pieces.next().is_some() {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Failure::syntax(message).into());
        }
        if parse.name.is_empty() {
            self.statements.remove(parse.name);
        }
        self.check_statement_name(parse.name)?;
        let types: Vec<u32> = parse.types.iter().collect();
        let prepared = self.prepare(first, &types)?;
        self.statements.insert(parse.name.to_vec(), Arc::new(prepared));
        backend::parse_complete(&mut self.out);
        Ok(())
    }

    fn check_statement_name(&self, name: &[u8]) -> Result<(), Failure> {
        if self.statements.contains_key(name) {
            let name = String::from_utf8_lossy(name);
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Failure::new(SqlState::DUPLICATE_STATEMENT, message));
        }
        if self.statements.len() >= self.options.statements_max {
            let message = format!("more than {} prepared statements", self.options.statements_max);
            return Err(Failure::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message));
        }
        Ok(())
    }

    fn bind(&mut self, bind: Bind<'_>) -> Result<(), Stop> {
        let Some(statement) = self.statements.get(bind.statement).cloned() else {
            return Err(no_statement(bind.statement).into());
        };
        self.check_block(&statement)?;
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            let name = String::from_utf8_lossy(bind.portal);
            let message = format!("cursor \"{name}\" already exists");
            return Err(Failure::new(SqlState::DUPLICATE_CURSOR, message).into());
        }
        if bind.values.len() != statement.types.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement requires {}",
                bind.values.len(),
                statement.types.len()
            );
            return Err(Failure::new(SqlState::PROTOCOL_VIOLATION, message).into());
        }
        let mut values = Vec::with_capacity(bind.values.len());
        for (at, (value, kind)) in bind.values.iter().zip(&statement.types).enumerate() {
            values.push(match value {
                None => rusqlite::types::Value::Null,
                Some(bytes) => crate::values::decode(bytes, *kind, bind.formats.format(at))?,
            });
        }
        let formats: Vec<Format> = bind.result_formats.iter().collect();
        let columns = statement.columns.as_ref().map_or(0, Vec::len);
        if formats.len() > 1 && formats.len() != columns {
            let message = format!(
                "bind message has {} result formats but query has {columns} columns",
                formats.len()
            );
            return Err(Failure::new(SqlState::PROTOCOL_VIOLATION, message).into());
        }
        self.close_portal(bind.portal);
        self.check_portals()?;
        self.portals.insert(bind.portal.to_vec(), Portal::new(statement, values, formats));
        backend::bind_complete(&mut self.out);
        Ok(())
    }

    fn check_portals(&self) -> Result<(), Failure> {
        if self.portals.len() >= self.options.portals_max {
            let message = format!("more than {} portals are open", self.options.portals_max);
            return Err(Failure::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message));
        }
        Ok(())
    }

    fn describe(&mut self, target: Target<'_>) -> Result<(), Stop> {
        match target.object {
            Object::Statement => {
                let Some(statement) = self.statements.get(target.name).cloned() else {
                    return Err(no_statement(target.name).into());
                };
                self.check_block(&statement)?;
                let types = statement.types.iter().map(|kind| kind.oid());
                backend::parameter_description(&mut self.out, types);
                prepare::write_columns(&mut self.out, statement.columns.as_deref(), &[])?;
            }
            Object::Portal => {
                let Some(mut portal) = self.portals.remove(target.name) else {
                    return Err(no_portal(target.name).into());
                };
                let peeked = self.peek_types(&mut portal);
                prepare::write_columns(&mut self.out, portal.columns(), &portal.formats)?;
                self.portals.insert(target.name.to_vec(), portal);
                peeked?;
            }
        }
        Ok(())
    }

    fn close_portal(&mut self, name: &[u8]) {
        if let Some(mut portal) = self.portals.remove(name) {
            self.spill.forget(&mut portal);
        }
    }

    /// Reports a failure, which fails the transaction too.
    fn failed(&mut self, failure: &Failure) {
        failure.report().write(&mut self.out);
        self.fail_transaction();
    }

    fn warn(&mut self, state: SqlState, message: &str) {
        Report::new(Severity::Warning, state, message).write(&mut self.out);
    }

    fn ready(&mut self, sink: &mut dyn Sink) -> Result<(), Gone> {
        let status = self.status();
        backend::ready_for_query(&mut self.out, status);
        self.flush(sink)
    }

    fn flush(&mut self, sink: &mut dyn Sink) -> Result<(), Gone> {
        if self.out.is_empty() {
            return Ok(());
        }
        let sent = sink.send(&self.out);
        self.out.clear();
        self.out.shrink_to(2 * OUT_BYTES);
        sent
    }

    fn settings(&self) -> std::sync::MutexGuard<'_, Settings> {
        self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settings_mut(&mut self) -> std::sync::MutexGuard<'_, Settings> {
        self.settings()
    }

    /// The schema as it is now.
    fn schema(&mut self) -> Result<Arc<Schema>, Failure> {
        let guard = &self.shared.guard;
        let version = guard.internally(|| Schema::version(&self.connection))?;
        let mut kept = self.shared.schema.lock().unwrap_or_else(PoisonError::into_inner);
        if self.schema_version != Some(version) {
            *kept = Arc::new(guard.internally(|| Schema::read(&self.connection))?);
            self.schema_version = Some(version);
        }
        Ok(Arc::clone(&kept))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Session").field("status", &self.status()).finish_non_exhaustive()
    }
}

fn not_utf8() -> Failure {
    let message = "invalid byte sequence for encoding \"UTF8\"";
    Failure::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
}

fn no_statement(name: &[u8]) -> Failure {
    let message = match name {
        b"" => "unnamed prepared statement does not exist".to_owned(),
        name => format!("prepared statement \"{}\" does not exist", String::from_utf8_lossy(name)),
    };
    Failure::new(SqlState::INVALID_STATEMENT_NAME, message)
}

fn no_portal(name: &[u8]) -> Failure {
    let message = format!("portal \"{}\" does not exist", String::from_utf8_lossy(name));
    Failure::new(SqlState::INVALID_CURSOR_NAME, message)
}
