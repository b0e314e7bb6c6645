//! Portals, and the rows of a portal that its client has not asked for yet.
//!
//! A statement runs to its end when its portal is first executed. Rows beyond the client's limit are kept as messages:
//! a few in memory, the rest in a database without a name, which SQLite keeps in a temporary file that it removes.

use super::prepare::{Output, Prepared};
use crate::database::Options;
use crate::failure::Failure;
use paceline_postgres::wire::Format;
use rusqlite::Connection;
use rusqlite::types::Value;
use std::collections::VecDeque;
use std::sync::Arc;

/// A statement with its parameters, and how far it has been sent.
#[derive(Debug)]
pub struct Portal {
    pub statement: Arc<Prepared>,
    pub values: Vec<Value>,
    pub formats: Vec<Format>,
    /// The columns, where the first row said more than the text.
    pub shown: Option<Vec<Output>>,
    pub state: State,
    /// Whether it outlives the transaction (`WITH HOLD`).
    pub is_held: bool,
}

/// How far a portal is.
#[derive(Debug)]
pub enum State {
    /// It has not run.
    New,
    /// It has run; these rows are left.
    Rows(Kept),
    /// All of it has been sent.
    Done,
}

/// Rows that are kept, as messages.
#[derive(Debug, Default)]
pub struct Kept {
    near: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The number under which more rows are in the file, the first row there, and one after the last.
    far: Option<(i64, i64, i64)>,
}

impl Portal {
    pub fn new(statement: Arc<Prepared>, values: Vec<Value>, formats: Vec<Format>) -> Self {
        Self { statement, values, formats, shown: None, state: State::New, is_held: false }
    }

    pub fn columns(&self) -> Option<&[Output]> {
        self.shown.as_deref().or(self.statement.columns.as_deref())
    }

    pub const fn is_open(&self) -> bool {
        !matches!(self.state, State::Done)
    }
}

impl Kept {
    pub fn is_empty(&self) -> bool {
        self.near.is_empty() && self.far.is_none_or(|(_, from, to)| from == to)
    }
}

/// The file for what does not fit into memory, opened when it is first needed.
#[derive(Debug)]
pub struct Spill {
    connection: Option<Connection>,
    next: i64,
    near_max: usize,
    pages_max: u32,
}

impl Spill {
    pub const fn new(options: &Options) -> Self {
        Self {
            connection: None,
            next: 0,
            near_max: options.portal_bytes_max,
            pages_max: options.spill_pages_max,
        }
    }

    /// Keeps one more row.
    pub fn keep(&mut self, kept: &mut Kept, row: &[u8]) -> Result<(), Failure> {
        if kept.far.is_none() && kept.bytes + row.len() <= self.near_max {
            kept.bytes += row.len();
            kept.near.push_back(row.to_vec());
            return Ok(());
        }
        if kept.far.is_none() {
            self.next += 1;
            kept.far = Some((self.next, 0, 0));
        }
        let Some((number, _, to)) = &mut kept.far else { return Ok(()) };
        let (number, place) = (*number, *to);
        *to += 1;
        let connection = self.open()?;
        connection
            .prepare_cached("INSERT INTO kept VALUES (?1, ?2, ?3)")?
            .execute((number, place, row))?;
        Ok(())
    }

    /// Takes the next row.
    pub fn take(&mut self, kept: &mut Kept) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(row) = kept.near.pop_front() {
            return Ok(Some(row));
        }
        let Some((number, from, to)) = &mut kept.far else { return Ok(None) };
        if from == to {
            return Ok(None);
        }
        let (number, place) = (*number, *from);
        *from += 1;
        let connection = self.open()?;
        let row = connection
            .prepare_cached("SELECT row FROM kept WHERE portal = ?1 AND place = ?2")?
            .query_one((number, place), |row| row.get(0))?;
        Ok(Some(row))
    }

    /// Drops what a portal kept.
    pub fn forget(&mut self, portal: &mut Portal) {
        if let State::Rows(Kept { far: Some((number, ..)), .. }) = &portal.state
            && let Some(connection) = &self.connection
        {
            // A row that stays costs room until the session ends, no more.
            let _ = connection.execute("DELETE FROM kept WHERE portal = ?1", [number]);
        }
        portal.state = State::Done;
    }

    fn open(&mut self) -> Result<&Connection, Failure> {
        if self.connection.is_none() {
            let connection = Connection::open("")?;
            connection.pragma_update(None, "journal_mode", "off")?;
            connection.pragma_update(None, "synchronous", "off")?;
            connection.pragma_update(None, "max_page_count", self.pages_max)?;
            connection.execute_batch(
                "CREATE TABLE kept (portal INTEGER, place INTEGER, row BLOB, PRIMARY KEY (portal, place)) WITHOUT ROWID",
            )?;
            self.connection = Some(connection);
        }
        self.connection.as_ref().ok_or_else(|| Failure::syntax("no temporary file"))
    }
}
