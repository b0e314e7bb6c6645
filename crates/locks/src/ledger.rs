//! The locks that each session has requested and not yet unlocked.
//!
//! Owns one entry per session and name, and the budget of each session: the number of locks has no
//! other limit. An entry exists exactly between a lock and the next unlock, so lock and unlock
//! alternate. It never orders waiters or grants anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::SessionId;
use crate::line::Place;

/// What an entry costs of the session's budget beside the bytes of its name: the entry, the lock
/// it may create, and their share of map nodes and of the name's shared allocation.
pub const ENTRY_BYTES: usize = 256;

/// How a session stands to a name that it locked or stole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The session owns the lock.
    Owner,
    /// The session waits, for the first time or after the lock was stolen from it.
    Waiting,
    /// The session stole the lock and lost it to a later steal. It gets nothing more until it
    /// unlocks.
    Robbed,
}

/// The entry behind a [`Standing`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Owner,
    Waiting(Place),
    Robbed,
}

#[derive(Debug, Default)]
struct Account {
    bytes: usize,
    entries: BTreeMap<Arc<str>, Entry>,
}

/// All entries of all sessions. A session without entries is not kept.
#[derive(Debug)]
pub(crate) struct Ledger {
    session_bytes_max: usize,
    accounts: BTreeMap<SessionId, Account>,
}

impl Ledger {
    pub(crate) fn new(session_bytes_max: usize) -> Ledger {
        Ledger { session_bytes_max, accounts: BTreeMap::new() }
    }

    /// Whether one more entry for `name` is within the session's budget.
    pub(crate) fn fits(&self, session: SessionId, name: &str) -> bool {
        self.bytes(session).saturating_add(cost(name)) <= self.session_bytes_max
    }

    /// The names a session has entries for, in order.
    pub(crate) fn names(&self, session: SessionId) -> impl Iterator<Item = &Arc<str>> {
        self.accounts.get(&session).into_iter().flat_map(|account| account.entries.keys())
    }

    /// Adds an entry that does not exist yet.
    pub(crate) fn enter(&mut self, session: SessionId, name: Arc<str>, entry: Entry) {
        let account = self.accounts.entry(session).or_default();
        account.bytes += cost(&name);
        let old = account.entries.insert(name, entry);
        debug_assert!(old.is_none(), "a session enters a name once");
    }

    /// Changes an entry that exists.
    pub(crate) fn change(&mut self, session: SessionId, name: &str, entry: Entry) {
        let old = self.accounts.get_mut(&session).and_then(|a| a.entries.get_mut(name));
        debug_assert!(old.is_some(), "owner and waiters of a lock have entries");
        if let Some(old) = old {
            *old = entry;
        }
    }

    /// Removes an entry and returns it.
    pub(crate) fn leave(&mut self, session: SessionId, name: &str) -> Option<Entry> {
        let account = self.accounts.get_mut(&session)?;
        let entry = account.entries.remove(name)?;
        account.bytes -= cost(name);
        if account.entries.is_empty() {
            self.accounts.remove(&session);
        }
        Some(entry)
    }

    /// Removes the first entry of a session in name order.
    pub(crate) fn leave_first(&mut self, session: SessionId) -> Option<(Arc<str>, Entry)> {
        let account = self.accounts.get_mut(&session)?;
        let (name, entry) = account.entries.pop_first()?;
        account.bytes -= cost(&name);
        if account.entries.is_empty() {
            self.accounts.remove(&session);
        }
        Some((name, entry))
    }

    pub(crate) fn entry(&self, session: SessionId, name: &str) -> Option<Entry> {
        self.accounts.get(&session)?.entries.get(name).copied()
    }

    pub(crate) fn bytes(&self, session: SessionId) -> usize {
        self.accounts.get(&session).map_or(0, |account| account.bytes)
    }
}

/// What an entry for `name` costs of a budget.
pub fn cost(name: &str) -> usize {
    name.len() + ENTRY_BYTES
}
