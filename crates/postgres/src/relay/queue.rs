//! The answers that a server owes, in order, and what is undone if it never gives them.

use super::parameters::Parameters;
use super::reading::Statement;
use super::upstream::{Forgotten, Prepared};
use crate::wire::report::Report;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The statements of a client by their names.
pub(super) type Names = BTreeMap<Box<[u8]>, Arc<Statement>>;

/// A portal of the client.
#[derive(Clone, Debug)]
pub(super) struct Portal {
    pub statement: Arc<Statement>,
    /// Whether the relay runs it, so that the server does not have it.
    pub is_own: bool,
    /// Whether the relay has run it.
    pub is_done: bool,
}

/// The portals of a client by their names.
pub(super) type Portals = BTreeMap<Box<[u8]>, Portal>;

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Parse,
    ParseUnnamed,
    Bind,
    DescribeStatement,
    DescribePortal,
    Execute,
    Close,
    Sync,
    Query,
    /// A Query of the relay's own, skipped up to its ReadyForQuery.
    Prelude,
}

impl Ask {
    /// Whether the answer can have rows.
    pub const fn has_rows(self) -> bool {
        matches!(self, Self::Execute | Self::Query)
    }
}

/// What happens to the answer.
#[derive(Debug)]
pub(super) enum Way {
    /// The client gets it.
    Forward,
    /// It is dropped, unless it is an error, which the client gets.
    Skip,
    /// It is an error, and the client gets this one instead.
    Swap(Report),
    /// Nothing was sent. The client gets these bytes when the entry is first.
    Fake(Cow<'static, [u8]>),
}

/// How to take back what was registered when a message was sent.
#[derive(Debug)]
pub(super) enum Undo {
    Name(Box<[u8]>, Option<Arc<Statement>>),
    Names(Names),
    Parameters(Parameters),
    Unnamed(Option<Arc<Statement>>),
    Portal(Box<[u8]>, Option<Portal>),
    ServerUnnamed(Option<Arc<Statement>>),
    ServerForgot(Forgotten),
    ServerAdded(Arc<Statement>),
    ServerRemoved(Arc<Statement>, Prepared),
}

/// An answer that is expected.
#[derive(Debug)]
pub(super) struct Entry {
    pub ask: Ask,
    pub way: Way,
    pub undo: Vec<Undo>,
    /// What a Bind or an Execute runs.
    pub statement: Option<Arc<Statement>>,
}

impl Entry {
    pub const fn new(ask: Ask, way: Way) -> Self {
        Self { ask, way, undo: vec![], statement: None }
    }

    pub fn with(mut self, undo: Vec<Undo>) -> Self {
        self.undo = undo;
        self
    }

    pub fn of(mut self, statement: Arc<Statement>) -> Self {
        self.statement = Some(statement);
        self
    }
}
