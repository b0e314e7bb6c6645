//! Opening and creating databases.
//!
//! Owns the steps of putting a database in service; reading its journal is in `load.rs`.

use super::gate::Gate;
use super::shares::Shares;
use super::watch::{CONDITION_STEPS, MONITORS};
use super::watchers::Watchers;
use super::{Head, Hosted};
use crate::Policy;
use crate::access::Access;
use crate::locking::Locking;
use crate::own;
use crate::system::System;
use paceline_journal::disk::Disk;
use paceline_journal::{FileLog, Log, OpenError};
use paceline_tables::Database;
use paceline_tables::schema::Schema;
use paceline_types::Role;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::Notify;

/// Why a database file cannot be served.
#[derive(Debug)]
pub enum OpenDatabaseError {
    /// The journal cannot be opened.
    Journal(OpenError),
    /// The file is not JSON, or its schema is invalid.
    Schema(String),
    /// Another database of that name is served already.
    Duplicate(String),
}

impl fmt::Display for OpenDatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) => error.fmt(f),
            Self::Schema(reason) => f.write_str(reason),
            Self::Duplicate(name) => write!(f, "a database named {name} is served already"),
        }
    }
}

impl std::error::Error for OpenDatabaseError {}

impl From<OpenError> for OpenDatabaseError {
    fn from(error: OpenError) -> Self {
        Self::Journal(error)
    }
}

/// Creates a database file with this schema and nothing else in it.
pub fn create_file(
    disk: Arc<dyn Disk>,
    path: &Path,
    schema: &Schema,
) -> Result<FileLog, OpenError> {
    FileLog::create_on(disk, path, schema.to_json().to_text().as_bytes())
}

/// Tables of the daemon's own database that not every viewer may read. What clients hold is for operators: the
/// name of a permit is a secret of its user, because a client with the same user and that name may release it,
/// and a row does not depend on its reader. The API shows viewers the same permits without their names.
const HIDDEN: [(&str, Role); 6] = [
    (own::TOKEN_TABLE, Role::Admin),
    (own::SQL_PASSWORD_TABLE, Role::Admin),
    (own::PERMIT_TABLE, Role::Operator),
    (own::SESSION_TABLE, Role::Operator),
    (own::LEASED_LOCK_TABLE, Role::Operator),
    (own::WAITER_TABLE, Role::Operator),
];

/// Tables of the daemon's own database that no client writes.
const MAINTAINED: [&str; 7] = [
    own::DAEMON_TABLE,
    own::LOCK_TABLE,
    own::SESSION_TABLE,
    own::LEASED_LOCK_TABLE,
    own::PERMIT_TABLE,
    own::WAITER_TABLE,
    own::FILE_TABLE,
];

/// How a database is kept.
pub(crate) enum Storage {
    /// In a journal.
    Log(Box<dyn Log>),
    /// In memory only.
    Memory,
}

impl Hosted {
    pub(crate) fn new(
        database: Database,
        storage: Storage,
        (locking, access): (Arc<Locking>, Arc<Access>),
        system: &System,
        policy: Policy,
    ) -> Self {
        let schema = database.schema().clone();
        let is_own = *schema.name == *own::DATABASE;
        let own_table = |name: &str| is_own.then(|| schema.table_id(name)).flatten();
        let lock_table = own_table(own::LOCK_TABLE);
        let maintained = MAINTAINED.into_iter().filter_map(own_table).collect();
        let hidden = if is_own { HIDDEN.to_vec() } else { Vec::new() };
        let log = match storage {
            Storage::Log(log) => Some(log),
            Storage::Memory => None,
        };
        Self {
            name: schema.name.to_string(),
            schema: Mutex::new(schema.clone()),
            schema_text: Mutex::default(),
            is_journaled: log.is_some(),
            writer: Mutex::new(log),
            gate: Gate::default(),
            head: Mutex::new(Head {
                database,
                steps: 0,
                queue: VecDeque::new(),
                committing: false,
                waits: super::Waits::default(),
                pins: super::pins::Pins::default(),
                broken: None,
                converting: None,
                next_conversion: None,
            }),
            watchers: Mutex::new(Watchers::new(system.clock.uuid_source().next_u64())),
            departed: Mutex::default(),
            monitors: Mutex::new(Shares::new(MONITORS)),
            condition_steps: Mutex::new(Shares::new(CONDITION_STEPS)),
            locking,
            access,
            clock: system.clock,
            tasks: system.tasks.clone(),
            rearm: Notify::new(),
            compacting: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            troubles: super::troubles::Troubles::default(),
            repairing: AtomicBool::new(false),
            retry_at: AtomicU64::new(0),
            slow_until: AtomicU64::new(0),
            policy,
            maintained,
            unjournaled: lock_table.into_iter().collect(),
            lock_table,
            hidden,
            planner: OnceLock::new(),
            keeper: OnceLock::new(),
            readers: super::lane::Lane::default(),
            tellers: super::tellers::Tellers::default(),
            figures_shown: AtomicU64::new(0),
            figures_followed: AtomicBool::new(false),
        }
    }
}
