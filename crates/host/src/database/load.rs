//! Reading a database from its journal.
//!
//! At start a database is what its journal says: the schema, then every record in order. Nothing
//! else restores state. One thread does it all: handing parsed rows to a second one was tried, and
//! cost more in memory that one thread allocates and another frees than it won.

use super::open::OpenDatabaseError;
use crate::clock::Clock;
use paceline_journal::disk::Disk;
use paceline_journal::{FileLog, Mode, Position, Recovery};
use paceline_tables::schema::Schema;
use paceline_tables::{Database, Error, json};
use paceline_types::limits::JSON_DEPTH_MAX_OVSDB;
use std::path::Path;
use std::sync::Arc;

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
    load_with(disk, path, mode, Clock::new())
}

/// The same with the random source of `clock`.
pub(crate) fn load_with(
    disk: Arc<dyn Disk>,
    path: &Path,
    mode: Mode,
    clock: Clock,
) -> Result<Loaded, OpenDatabaseError> {
    let mut follow = FileLog::open_on(disk, path, mode)?;
    let mut database: Option<Database> = None;
    while let Some(record) = follow.next()? {
        let offset = record.offset;
        if let Err(error) = apply(&mut database, record.body, clock) {
            return Err(follow.reject(offset, error.to_string()).into());
        }
    }
    let Some(database) = database else {
        return Err(follow.reject(Position(0), "there is no schema in it").into());
    };
    let (log, recovery) = follow.finish()?;
    Ok(Loaded { database, log, recovery })
}

/// Applies a record, of which the first is the schema.
pub(super) fn apply(
    database: &mut Option<Database>,
    record: &[u8],
    clock: Clock,
) -> Result<(), Error> {
    if let Some(database) = database {
        return database.apply_record(record).map(|_| ());
    }
    let json = json::parse(record, JSON_DEPTH_MAX_OVSDB)?;
    *database = Some(Database::new(Arc::new(Schema::parse(&json)?), clock.uuid_source()));
    Ok(())
}
