//! Reading a database from its journal.
//!
//! At start a database is what its journal says: the schema, then every record in order. Nothing else restores
//! state. One thread does it all: passing parsed rows to a second thread was tried, and cost more than it
//! saved, because one thread allocated memory that another freed.

use super::open::OpenDatabaseError;
use crate::clock::Clock;
use paceline_journal::disk::Disk;
use paceline_journal::{FileLog, Mode, OpenError, Position, Recovery};
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
    /// The damaged end that had to be cut off.
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

/// The readable part of a damaged file.
pub struct SoundPart {
    /// The content.
    pub database: Database,
    /// How many records it was read from.
    pub records: u64,
    /// Why reading ended before the end of the file; `None` if it did not.
    pub damage: Option<String>,
}

/// Reads the records of file `path` that precede the first damaged or invalid one. Changes nothing on disk.
///
/// # Errors
///
/// When not even the schema can be read.
pub fn load_sound_part(disk: Arc<dyn Disk>, path: &Path) -> Result<SoundPart, OpenDatabaseError> {
    let mut follow = FileLog::open_on(disk, path, Mode::ReadOnly)?;
    let (mut database, mut records) = (None, 0);
    let damage = loop {
        let (offset, applied) = match follow.next() {
            Ok(Some(record)) => (record.offset, apply(&mut database, record.body, Clock::new())),
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        if let Err(error) = applied {
            break Some(follow.reject(offset, error.to_string()));
        }
        records += 1;
    };
    let damage = match (database.is_some(), damage) {
        (true, Some(damage)) => Some(damage.to_string()),
        (false, Some(damage)) => return Err(damage.into()),
        (_, None) => match follow.finish() {
            Ok((_, recovery)) => recovery.torn.map(|torn| {
                let (path, offset) = (path.display(), torn.offset);
                format!("{path}: torn record at offset {offset}: {}", torn.reason)
            }),
            // Records are missing at the end, which is no damage of a record.
            Err(missing @ OpenError::Corrupt { .. }) => Some(missing.to_string()),
            Err(error) => return Err(error.into()),
        },
    };
    match database {
        Some(database) => Ok(SoundPart { database, records, damage }),
        None => Err(OpenDatabaseError::Schema(format!("{}: no record", path.display()))),
    }
}

/// Applies a record. The first record is the schema.
fn apply(database: &mut Option<Database>, record: &[u8], clock: Clock) -> Result<(), Error> {
    if let Some(database) = database {
        return database.apply_record(record).map(|_| ());
    }
    let json = json::parse(record, JSON_DEPTH_MAX_OVSDB)?;
    *database = Some(Database::new(Arc::new(Schema::parse(&json)?), clock.uuid_source()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_journal::disk::MemoryDisk;
    use paceline_journal::{Log as _, frame};

    const SCHEMA: &[u8] =
        br#"{"name":"Toys","tables":{"Toy":{"columns":{"n":{"type":"integer"}}}}}"#;

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frame(body, &mut out);
        out
    }

    /// J3: a compacted file that ends after its schema is damaged, and what is left of it can be saved.
    #[test]
    fn a_compacted_file_without_its_snapshot_can_be_repaired_j3() {
        let disk = MemoryDisk::new();
        let mut log = FileLog::create_on(Arc::new(disk.clone()), "db", SCHEMA).unwrap();
        let mut rewrite = log.rewrite().unwrap();
        let row = br#"{"Toy":{"2b66b2ea-2906-45ee-84d9-43220a14b54e":{"n":1}}}"#;
        rewrite.write(&[framed(SCHEMA), framed(row)].concat()).unwrap();
        log.install(rewrite, log.position()).unwrap();
        drop(log);
        let load = || load_sound_part(Arc::new(disk.clone()), Path::new("db"));
        let whole = load().unwrap();
        assert_eq!((whole.records, whole.damage), (2, None));

        let end = framed(SCHEMA).len();
        disk.damage("db", |bytes| bytes.truncate(end));
        let refused = load_file(Arc::new(disk.clone()), Path::new("db"), Mode::ReadOnly);
        assert!(refused.is_err());
        let sound = load().unwrap();
        assert_eq!(sound.records, 1);
        let damage = sound.damage.unwrap();
        assert!(
            damage.contains(&format!("offset {end}")) && damage.contains("compacted"),
            "{damage}"
        );
    }
}
