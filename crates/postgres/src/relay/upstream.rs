//! What the relay knows of a server connection. It travels with the connection from client to client.
//!
//! Owns which prepared statements the server has and under which names, what its unnamed statement is, and the values
//! of its tracked parameters. Promises that a name is never used twice on a connection. What was sent but not yet
//! answered is registered at once; the relay undoes it if the server skips it.

use super::TEXTS_BYTES_MAX;
use super::parameters::Parameters;
use super::reading::{NAME_PREFIX, Statement};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of prepared statements on a server, unless it is given another one. A batch that uses more has
/// them for its length.
pub const SERVER_STATEMENTS_MAX: usize = 256;

/// What is known of a server connection.
#[derive(Debug)]
pub struct Server {
    statements: BTreeMap<Arc<Statement>, Prepared>,
    statements_max: usize,
    /// The number of the last name that was made.
    last: u64,
    /// The number of uses so far, which orders statements by their last use.
    uses: u64,
    /// Where `uses` was when the batch began: what was used since then is not evicted.
    batch: u64,
    /// Statements that the server has and nobody must use; they are closed with the next batch.
    pub(super) stale: Vec<u64>,
    pub(super) unnamed: Option<Arc<Statement>>,
    pub(super) parameters: Parameters,
}

/// A statement on a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub number: u64,
    epoch: u64,
    used: u64,
}

/// The statements that a server had.
#[derive(Debug)]
pub(super) struct Forgotten(BTreeMap<Arc<Statement>, Prepared>, Vec<u64>);

impl Server {
    /// A new connection that reported these parameters.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        Self {
            statements: BTreeMap::new(),
            statements_max: SERVER_STATEMENTS_MAX,
            last: 0,
            uses: 0,
            batch: 0,
            stale: vec![],
            unnamed: None,
            parameters,
        }
    }

    /// The parameters of its session, as far as they are tracked.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The server has reported a parameter outside a batch of the relay.
    pub fn set_parameter(&mut self, name: &[u8], value: &[u8]) {
        self.parameters.set(name, value);
    }

    /// The same with another maximum of prepared statements.
    #[must_use]
    pub const fn with_statements_max(mut self, max: usize) -> Self {
        self.statements_max = max;
        self
    }

    /// The number of prepared statements that are known to be on the server.
    #[must_use]
    pub fn statements_len(&self) -> usize {
        self.statements.len() + self.stale.len()
    }

    pub(super) fn begin_batch(&mut self) {
        self.batch = self.uses;
    }

    /// The number of a statement, if the server has it and parsed it in this epoch.
    pub(super) fn find(&mut self, statement: &Arc<Statement>, epoch: u64) -> Option<u64> {
        let prepared = self.statements.get_mut(statement).filter(|own| own.epoch >= epoch)?;
        self.uses += 1;
        prepared.used = self.uses;
        Some(prepared.number)
    }

    /// Registers a statement under a new number.
    pub(super) fn add(&mut self, statement: Arc<Statement>, epoch: u64) -> u64 {
        self.last += 1;
        self.uses += 1;
        let prepared = Prepared { number: self.last, epoch, used: self.uses };
        self.statements.insert(statement, prepared);
        self.last
    }

    pub(super) fn remove(&mut self, statement: &Arc<Statement>) -> Option<Prepared> {
        self.statements.remove(statement)
    }

    pub(super) fn put_back(&mut self, statement: Arc<Statement>, prepared: Prepared) {
        self.statements.insert(statement, prepared);
    }

    /// A statement that must leave before `added` is: an old one of the same key, or if there is no room the one that
    /// was used least recently.
    pub(super) fn victim(&self, added: &Arc<Statement>) -> Option<Arc<Statement>> {
        if self.statements.contains_key(added) {
            return Some(added.clone());
        }
        let lengths = self.statements.keys().map(|statement| statement.text.len());
        let has_room = self.statements.len() < self.statements_max
            && lengths.sum::<usize>() + added.text.len() <= TEXTS_BYTES_MAX;
        if has_room {
            return None;
        }
        let unused = self.statements.iter().filter(|(_, own)| own.used <= self.batch);
        unused.min_by_key(|(_, own)| own.used).map(|(statement, _)| statement.clone())
    }

    /// No longer uses a statement that the server cannot run any more.
    pub(super) fn spoil(&mut self, statement: &Arc<Statement>) {
        if let Some(prepared) = self.statements.remove(statement) {
            self.stale.push(prepared.number);
        }
        if self.unnamed.as_ref() == Some(statement) {
            self.unnamed = None;
        }
    }

    /// The server drops all named statements. Returns what it had.
    pub(super) fn forget_all(&mut self) -> Forgotten {
        Forgotten(std::mem::take(&mut self.statements), std::mem::take(&mut self.stale))
    }

    /// The server did not drop them after all.
    pub(super) fn remember(&mut self, mut forgotten: Forgotten) {
        self.statements.append(&mut forgotten.0);
        self.stale.append(&mut forgotten.1);
    }
}

/// The name of statement `number` on a server.
pub(super) fn name(number: u64) -> String {
    format!("{NAME_PREFIX}{number}")
}
