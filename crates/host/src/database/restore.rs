//! A copy of the daemon's own database put back in its place, while no daemon has it open.
//!
//! Promises that a copy that is damaged or of another schema changes nothing; that the file before is kept
//! aside; that the new one takes its place in one step, with a side file of its own, so that the next start does
//! not miss what the old one had; that nothing is held afterwards; and that fencing and request numbers are above
//! all given before (L2). If the file before belongs to the same daemon as the copy, numbers go on behind
//! it; if not, nobody knows which were given, and as many are skipped as in every copy.

use super::copy::{HELD, NUMBERS, NUMBERS_SKIPPED};
use super::load::{Loaded, load_file};
use super::open::{OpenDatabaseError, create_file};
use super::replace;
use crate::own;
use paceline_journal::disk::{Disk, RealDisk};
use paceline_journal::{Mode, OpenError};
use paceline_model::Put;
use paceline_tables::schema::ColumnId;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Database, Row, row_uuid};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is said in the record of a restored file.
const COMMENT: &str = "restored by paceline";

/// What was done.
#[derive(Debug)]
pub struct Restored {
    /// Where the file before is now, if there was one.
    pub kept: Option<PathBuf>,
    /// Whether numbers go on behind those of the file before.
    pub numbers_go_on: bool,
}

/// Puts the copy in file `copy` in the place of the database in file `path`; `mark` tells the file before
/// from others that are kept.
///
/// # Errors
///
/// Why nothing was changed.
pub fn restore(copy: &Path, path: &Path, mark: &str) -> Result<Restored, OpenDatabaseError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut found = read(&disk, copy)?;
    let before = match path.try_exists().map_err(|error| failed(path, &error))? {
        true => Some(before(&disk, path)?),
        false => None,
    };
    let old = before.as_ref().and_then(|before| before.loaded.as_ref());
    let numbers_go_on = number(&mut found.database, old.map(|old| &old.database))?;
    let rows = found.database.snapshot();
    let unfit = |error: &dyn std::fmt::Display| OpenDatabaseError::Schema(error.to_string());
    match before {
        None => {
            let mut log = create_file(disk, path, rows.schema())?;
            replace(&rows, &[], COMMENT, &mut log).map_err(|error| unfit(&error))?;
            Ok(Restored { kept: None, numbers_go_on })
        }
        Some(before) => {
            let kept = aside(path, mark);
            // A second name first, so that there is a file under the old one at every moment.
            std::fs::hard_link(path, &kept).map_err(|error| failed(&kept, &error))?;
            let done = match before.loaded {
                Some(mut old) => {
                    let done = replace(&rows, &[], COMMENT, &mut old.log);
                    done.map(drop).map_err(|error| unfit(&error))
                }
                None => in_place_of_damaged(&disk, path, &rows),
            };
            if let Err(error) = done {
                let _ = disk.remove(&kept);
                return Err(error);
            }
            Ok(Restored { kept: Some(kept), numbers_go_on })
        }
    }
}

/// The copy, whole and of a schema that this version can serve.
fn read(disk: &Arc<dyn Disk>, copy: &Path) -> Result<Loaded, OpenDatabaseError> {
    let found = load_file(Arc::clone(disk), copy, Mode::ReadOnly)?;
    let name = copy.display();
    if let Some(torn) = &found.recovery.torn {
        let reason = format!("{name}: damaged at byte {}: {}", torn.offset.0, torn.reason);
        return Err(OpenDatabaseError::Schema(reason));
    }
    let (schema, ours) =
        (found.database.schema(), own::schema().map_err(OpenDatabaseError::Schema)?);
    if *schema.name != *ours.name || crate::is_newer(&schema.version, &ours.version) {
        let reason = format!(
            "{name}: holds the database {} {}, but this version of paceline needs {} {}",
            schema.name, schema.version, ours.name, ours.version
        );
        return Err(OpenDatabaseError::Schema(reason));
    }
    Ok(found)
}

/// The file before; not loaded if it is damaged, which may be why a copy is put back.
struct Before {
    loaded: Option<Loaded>,
}

fn before(disk: &Arc<dyn Disk>, path: &Path) -> Result<Before, OpenDatabaseError> {
    match load_file(Arc::clone(disk), path, Mode::ReadWrite) {
        Ok(loaded) => Ok(Before { loaded: Some(loaded) }),
        Err(OpenDatabaseError::Journal(
            error @ (OpenError::Locked(_) | OpenError::Io(_) | OpenError::NotAFile(_)),
        )) => Err(error.into()),
        Err(_) => Ok(Before { loaded: None }),
    }
}

fn in_place_of_damaged(
    disk: &Arc<dyn Disk>,
    path: &Path,
    rows: &paceline_tables::Snapshot,
) -> Result<(), OpenDatabaseError> {
    let new = path.with_extension("restored");
    let moved = |error: std::io::Error| failed(path, &error);
    let mut log = create_file(Arc::clone(disk), &new, rows.schema())?;
    let written = replace(rows, &[], COMMENT, &mut log);
    written.map_err(|error| OpenDatabaseError::Schema(error.to_string()))?;
    drop(log);
    disk.rename(&new, path).map_err(moved)?;
    // The side file belongs to a file by its inode; one of the file before would not be believed.
    for name in [&new, path] {
        let mut side = std::ffi::OsString::from(".");
        side.push(name.file_name().unwrap_or_default());
        side.push(".synced");
        let _ = disk.remove(&name.with_file_name(side));
    }
    disk.sync_dir(path.parent().unwrap_or(Path::new("."))).map_err(moved)
}

fn aside(path: &Path, mark: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".before-restore-{mark}"));
    path.with_file_name(name)
}

fn failed(path: &Path, error: &std::io::Error) -> OpenDatabaseError {
    OpenDatabaseError::Schema(format!("{}: {error}", path.display()))
}

/// Lets go of all that is held, and sets the numbers; whether they go on behind those of the file before.
fn number(copy: &mut Database, old: Option<&Database>) -> Result<bool, OpenDatabaseError> {
    let wrong = |error: paceline_tables::Error| OpenDatabaseError::Schema(error.details);
    let mut puts: Vec<Put> = vec![];
    for table in HELD.into_iter().filter_map(|name| copy.schema().table_id(name)) {
        puts.extend(copy.store().rows(table).map(|row| (table, row_uuid(row), None)));
    }
    let daemon = Daemon::of(copy);
    // A daemon keeps the UUID of its row for life, and copies have it too.
    let old = old.and_then(Daemon::of);
    let is_same = |old: &Daemon<'_>| daemon.as_ref().is_some_and(|new| new.uuid() == old.uuid());
    let old = old.filter(is_same);
    let goes_on = old.is_some();
    if let Some(daemon) = daemon {
        let mut values = daemon.row.get(ColumnId::FIRST..).unwrap_or_default().to_vec();
        let mut set = |name: &str, value: Atom| {
            let at = daemon.column(name).and_then(|at| at.checked_sub(ColumnId::FIRST));
            if let Some(own) = at.and_then(|at| values.get_mut(at)) {
                *own = Datum::One(value);
            }
        };
        for name in NUMBERS {
            let given = daemon.given(name);
            let next = match &old {
                Some(old) => given.max(old.integer(name)),
                None => given.saturating_add(NUMBERS_SKIPPED),
            };
            set(name, Atom::Integer(next));
        }
        set("machine", Atom::string(""));
        puts.push((daemon.table, daemon.uuid(), Some(values)));
    }
    copy.maintain(puts).map_err(wrong)?;
    Ok(goes_on)
}

/// The row of the daemon in a database.
struct Daemon<'d> {
    database: &'d Database,
    table: paceline_tables::schema::TableId,
    row: Row,
}

impl<'d> Daemon<'d> {
    fn of(database: &'d Database) -> Option<Self> {
        let table = database.schema().table_id(own::DAEMON_TABLE)?;
        let row = database.store().rows(table).next()?.clone();
        Some(Self { database, table, row })
    }

    fn uuid(&self) -> paceline_types::Uuid {
        row_uuid(&self.row)
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.database.schema().table(self.table).column_id(name).map(ColumnId::index)
    }

    fn datum(&self, name: &str) -> Option<&Datum> {
        self.row.get(self.column(name)?)
    }

    fn integer(&self, name: &str) -> i64 {
        self.datum(name).and_then(Datum::single).and_then(Atom::as_integer).unwrap_or(0)
    }

    /// The numbers that were given when the copy was made: a copy names no machine, and its numbers are
    /// beyond those given.
    fn given(&self, name: &str) -> i64 {
        let machine = self.datum("machine").and_then(Datum::single).and_then(Atom::as_str);
        let is_copy = machine.unwrap_or_default().is_empty();
        let number = self.integer(name);
        if is_copy { number.saturating_sub(NUMBERS_SKIPPED).max(0) } else { number }
    }
}
