//! A statement's text and what the relay must know of it, read once.
//!
//! Owns the key of prepared statements (text and parameter types, compared in full, never by a hash), and the decision
//! which statements the relay answers itself, which pin the client to its server, and which are banned. Never says
//! whether a text may run: the rules do.

use super::errors::unknown_name;
use crate::text::{Action, Begin, Class, Command, Dialect, Discard, Scope, classify, split};
use crate::wire::SqlState;
use crate::wire::report::Report;
use std::cmp::Ordering;

/// The maximum length of a statement's text. Rules see all of it: a text that is cut would be a way around them.
pub const STATEMENT_BYTES_MAX: usize = 1 << 20;

/// The start of the names that statements have on servers.
pub(super) const NAME_PREFIX: &str = "pl_";

/// Why a client keeps its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// The target pools sessions, not transactions.
    Session,
    /// `LISTEN`.
    Listen,
    /// A setting that is not tracked.
    Setting,
    /// `PREPARE`.
    Prepare,
    /// A cursor `WITH HOLD`.
    Cursor,
    /// A temporary object.
    Temporary,
    /// An advisory lock of the session.
    Lock,
}

/// A statement that the relay can answer itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Own {
    None,
    Begin { is_plain: bool },
    Commit,
    Rollback,
    Deallocate(Box<str>),
    DeallocateAll,
    DiscardAll,
}

/// A text with the types of its parameters.
#[derive(Debug)]
pub(super) struct Statement {
    pub text: Box<str>,
    pub types: Box<[u32]>,
    pub own: Own,
    /// Whether a failed transaction accepts it.
    pub exits: bool,
    pub pins: Option<Pin>,
    /// Whether it sets `search_path`, which pins if the server does not report it.
    pub sets_search_path: bool,
    pub reshapes: bool,
}

impl Statement {
    /// Reads a text. `Err` is the answer to a text that must not reach a server.
    pub fn read(
        text: &[u8],
        types: impl IntoIterator<Item = u32>,
        dialect: Dialect,
    ) -> Result<Self, Report> {
        if text.len() > STATEMENT_BYTES_MAX {
            let message = format!("the statement has more than {STATEMENT_BYTES_MAX} bytes");
            return Err(Report::error(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let Ok(text) = std::str::from_utf8(text) else {
            let state = SqlState::CHARACTER_NOT_IN_REPERTOIRE;
            return Err(Report::error(state, "the statement is not valid UTF-8"));
        };
        let mut statement = Self {
            text: text.into(),
            types: types.into_iter().collect(),
            own: Own::None,
            exits: true,
            pins: None,
            sets_search_path: false,
            reshapes: false,
        };
        let (mut count, mut deallocates) = (0, false);
        for place in split(text, dialect) {
            count += 1;
            let class = classify(text.get(place).unwrap_or_default(), dialect);
            check_name(&class.action)?;
            statement.exits &= exits(&class.action);
            statement.reshapes |= class.reshapes;
            statement.pins = statement.pins.or_else(|| pins(&class));
            statement.sets_search_path |= sets_search_path(&class.action);
            deallocates |= matches!(class.action, Action::Deallocate(_));
            statement.own = own(&class);
        }
        if count > 1 {
            if deallocates {
                let message = "DEALLOCATE must be the only statement of its query";
                return Err(Report::error(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            statement.own = Own::None;
        }
        Ok(statement)
    }

    fn key(&self) -> (&str, &[u32]) {
        (&self.text, &self.types)
    }
}

impl PartialEq for Statement {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Statement {}

impl PartialOrd for Statement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Statement {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Refuses names that belong to the relay: behind them are the statements of other clients.
fn check_name(action: &Action<'_>) -> Result<(), Report> {
    match action {
        Action::Prepare(name) | Action::Execute(name) | Action::Deallocate(Some(name))
            if name.starts_with(NAME_PREFIX) =>
        {
            Err(unknown_name(name.as_bytes()))
        }
        _ => Ok(()),
    }
}

const fn exits(action: &Action<'_>) -> bool {
    matches!(
        action,
        Action::Commit { .. }
            | Action::Rollback { .. }
            | Action::RollbackTo(_)
            | Action::PrepareTransaction
    )
}

fn own(class: &Class<'_>) -> Own {
    match &class.action {
        _ if !class.is_complete || class.is_broken => Own::None,
        Action::Begin(begin) => Own::Begin { is_plain: *begin == Begin::default() },
        Action::Commit { chains: false } => Own::Commit,
        Action::Rollback { chains: false } => Own::Rollback,
        Action::Deallocate(Some(name)) => Own::Deallocate(name.as_ref().into()),
        Action::Deallocate(None) => Own::DeallocateAll,
        Action::Discard(Discard::All) => Own::DiscardAll,
        _ => Own::None,
    }
}

fn pins(class: &Class<'_>) -> Option<Pin> {
    let by_action = match &class.action {
        Action::Listen(_) => Some(Pin::Listen),
        Action::Prepare(_) => Some(Pin::Prepare),
        Action::Declare { is_held: true, .. } => Some(Pin::Cursor),
        Action::SetCharacteristics => Some(Pin::Setting),
        Action::Set(setting) if setting.scope == Scope::Session => {
            let name = setting.name.as_ref();
            let is_path = name.eq_ignore_ascii_case("search_path");
            (!is_path && super::parameters::index(name.as_bytes()).is_none())
                .then_some(Pin::Setting)
        }
        _ => None,
    };
    by_action.or(match class {
        _ if class.is_temporary => Some(Pin::Temporary),
        _ if class.locks_session => Some(Pin::Lock),
        _ if class.sets_session || class.command == Command::Load => Some(Pin::Setting),
        _ => None,
    })
}

fn sets_search_path(action: &Action<'_>) -> bool {
    matches!(action, Action::Set(setting)
        if setting.scope == Scope::Session && setting.name.eq_ignore_ascii_case("search_path"))
}
