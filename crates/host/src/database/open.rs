//! Opening and creating databases.
//!
//! At start a database is what its journal says: the schema, then every record in order. Nothing
//! else restores state.

use super::watchers::Watchers;
use super::{Head, Hosted};
use crate::clock::{Clock, uuid_source};
use crate::locking::Locking;
use paceline_journal::disk::Disk;
use paceline_journal::{FileLog, Log, Mode, OpenError, Position, Recovery};
use paceline_tables::json;
use paceline_tables::schema::Schema;
use paceline_tables::{Database, Error};
use paceline_types::limits::JSON_DEPTH_MAX_OVSDB;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Why a database file cannot be served.
#[derive(Debug)]
pub enum OpenDatabaseError {
    /// The journal says so.
    Journal(OpenError),
    /// The file is not JSON, or its schema is not one.
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

/// A database read from its file, with the journal ready for more.
pub struct Loaded {
    /// The content.
    pub database: Database,
    /// The journal.
    pub log: FileLog,
    /// What had to be cut off.
    pub recovery: Recovery,
}

/// Reads the database in file `path`.
pub fn load_file(
    disk: Arc<dyn Disk>,
    path: &Path,
    mode: Mode,
) -> Result<Loaded, OpenDatabaseError> {
    let mut follow = FileLog::open_on(disk, path, mode)?;
    let mut database: Option<Database> = None;
    loop {
        let Some(record) = follow.next()? else { break };
        let offset = record.offset;
        if let Err(error) = apply(&mut database, record.body) {
            return Err(follow.reject(offset, error.to_string()).into());
        }
    }
    let Some(database) = database else {
        let at = Position(0);
        return Err(follow.reject(at, "there is no schema in it").into());
    };
    let (log, recovery) = follow.finish()?;
    Ok(Loaded { database, log, recovery })
}

fn apply(database: &mut Option<Database>, record: &[u8]) -> Result<(), Error> {
    match database {
        Some(database) => database.apply_record(record).map(|_| ()),
        None => {
            let json = json::parse(record, JSON_DEPTH_MAX_OVSDB)?;
            let schema = Arc::new(Schema::parse(&json)?);
            *database = Some(Database::new(schema, uuid_source()));
            Ok(())
        }
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
        locking: Arc<Locking>,
        clock: Clock,
        runtime: Handle,
        read_only: bool,
    ) -> Self {
        let schema = database.schema().clone();
        let own = |name: &str| {
            (*schema.name == *crate::own::DATABASE).then(|| schema.table_id(name)).flatten()
        };
        let lock_table = own(crate::own::LOCK_TABLE);
        let maintained = [lock_table, own(crate::own::DAEMON_TABLE)].into_iter().flatten().collect();
        let log = match storage {
            Storage::Log(log) => Some(log),
            Storage::Memory => None,
        };
        Self {
            name: schema.name.to_string(),
            is_journaled: log.is_some(),
            writer: Mutex::new(log),
            head: Mutex::new(Head {
                database,
                queue: VecDeque::new(),
                committing: false,
                waits: super::Waits::default(),
                broken: None,
                converting: None,
            }),
            watchers: Mutex::new(Watchers::new(uuid_source().next_u64())),
            locking,
            clock,
            runtime,
            rearm: Notify::new(),
            compacting: super::Compacting::new(false),
            read_only,
            maintained,
            unjournaled: lock_table.into_iter().collect(),
            lock_table,
        }
    }
}
