//! A database: where it is, and how a connection to it is opened, limited and guarded.

use crate::failure::Failure;
use crate::functions::{self, Shared};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, which is made if it is missing.
    File(PathBuf),
    /// In memory under this name: all sessions of the process that use the name share it while one is open.
    Memory(String),
}

/// The limits of a database's sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The longest text of a statement.
    pub statement_bytes_max: usize,
    /// The longest row, and the longest value in it.
    pub row_bytes_max: usize,
    /// How many statements a session may have prepared.
    pub statements_max: usize,
    /// How many portals and cursors a session may have open.
    pub portals_max: usize,
    /// How long a statement waits for another one that writes.
    pub lock_wait_max: Duration,
    /// How much of a suspended portal is kept in memory; the rest goes to a temporary file of SQLite's.
    pub portal_bytes_max: usize,
    /// The size of that temporary file, in pages of 4 KiB.
    pub spill_pages_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            statement_bytes_max: 1 << 20,
            row_bytes_max: 64 << 20,
            statements_max: 1000,
            portals_max: 100,
            lock_wait_max: Duration::from_secs(5),
            portal_bytes_max: 256 << 10,
            spill_pages_max: 1 << 18,
        }
    }
}

/// A database and the limits of its sessions.
#[derive(Debug)]
pub struct Database {
    place: Place,
    pub(crate) options: Options,
    /// Keeps a database in memory alive between sessions.
    _anchor: Option<std::sync::Mutex<Connection>>,
}

impl Database {
    /// Opens a database, and makes it if it is missing.
    pub fn open(place: Place, options: Options) -> Result<Self, Failure> {
        let connection = connect(&place)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        let anchor = matches!(place, Place::Memory(_)).then(|| std::sync::Mutex::new(connection));
        Ok(Self { place, options, _anchor: anchor })
    }

    /// A connection for one session.
    pub(crate) fn connect(&self, shared: &Arc<Shared>) -> Result<Connection, Failure> {
        let mut connection = connect(&self.place)?;
        // The session waits for writers itself, so that waiting can be cancelled.
        connection.busy_timeout(Duration::from_millis(20))?;
        for (pragma, value) in [
            ("foreign_keys", "on"),
            ("trusted_schema", "off"),
            ("synchronous", "normal"),
            ("cache_size", "-2048"),
            ("temp_store", "memory"),
        ] {
            connection.pragma_update(None, pragma, value)?;
        }
        connection.set_prepared_statement_cache_capacity(64);
        functions::define(&connection, shared)?;
        self.limit(&connection)?;
        let guard = Arc::clone(shared);
        connection.authorizer(Some(move |context: rusqlite::hooks::AuthContext<'_>| {
            guard.guard.authorize(&context)
        }))?;
        let guard = Arc::clone(shared);
        connection.progress_handler(1000, Some(move || guard.guard.must_stop()))?;
        Ok(connection)
    }

    fn limit(&self, connection: &Connection) -> Result<(), Failure> {
        let whole = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_LENGTH, whole(self.options.row_bytes_max)),
            // The rewriter makes a text longer.
            (
                Limit::SQLITE_LIMIT_SQL_LENGTH,
                whole(self.options.statement_bytes_max.saturating_mul(8)),
            ),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 500),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 500),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 50),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ] {
            connection.set_limit(limit, value)?;
        }
        Ok(())
    }
}

fn connect(place: &Place) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(match place {
        Place::File(path) => Connection::open_with_flags(path, flags)?,
        Place::Memory(name) => {
            let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            let uri = format!("file:/{name}?vfs=memdb");
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
        }
    })
}
