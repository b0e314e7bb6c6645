//! Restores a copy of the daemon's own database to its place, while no daemon has it open.
//!
//! Promises that a copy that is damaged or of another schema changes nothing; that the file before is kept
//! aside, beside the file that a symbolic link leads to; that the new one takes its place in one step, with a side file of its own, so that the next start does
//! not miss what the old one had; that the daemon's user can open it; that nothing is held afterwards; and that
//! fencing and request numbers are above all given before (L2). If the file before belongs to the same daemon as the
//! copy, numbers go on behind it. If not, it is unknown which numbers were given. Then they go on at the microseconds since 1970:
//! a daemon gives fewer than one number a microsecond, so all that it gave before are below that, whichever copies were put
//! back before and in whichever order. This rests on a clock that was not set back. If the copy has a higher number than
//! the clock allows, the restore skips as many as for every copy. A restore that failed or was killed does not keep the
//! next one from its work.

mod owner;

use super::copy::{HELD, NUMBERS, NUMBERS_SKIPPED};
use super::load::{Loaded, load_file, load_sound_part};
use super::open::{OpenDatabaseError, create_file};
use super::replace;
use crate::clock::wall_us;
use crate::own;
use owner::Owner;
use paceline_journal::disk::{Disk, RealDisk};
use paceline_journal::{FileLog, Mode, OpenError};
use paceline_model::Put;
use paceline_tables::schema::ColumnId;
use paceline_tables::value::{Atom, Datum};
use paceline_tables::{Database, Row, row_uuid};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The comment in the record of a restored file.
const COMMENT: &str = "restored by paceline";

/// What was done.
#[derive(Debug)]
pub struct Restored {
    /// Where the previous file is now, if there was one.
    pub kept: Option<PathBuf>,
    /// Whether numbers continue after those of the previous file.
    pub numbers_go_on: bool,
    /// What failed after the new file was in its place: it may not be synced, or may have another owner.
    pub trouble: Option<String>,
}

/// Replaces the database in file `path` by the copy in file `copy`. `mark` distinguishes the name of the
/// previous file from other kept files.
///
/// # Errors
///
/// Why nothing was changed. An error after the change is in [`Restored::trouble`].
pub fn restore(copy: &Path, path: &Path, mark: &str) -> Result<Restored, OpenDatabaseError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut found = read(&disk, copy)?;
    // The path may be a symbolic link. All files are beside its target, where the daemon has them too.
    let path = &*disk.resolve(path).map_err(|error| failed(path, &error))?;
    let owner = Owner::of(path).map_err(|error| failed(path, &error))?;
    let before = match path.try_exists().map_err(|error| failed(path, &error))? {
        true => Some(before(&disk, path)?),
        false => None,
    };
    let known = match &before {
        Some(Before::Sound(old)) => Given::All(&old.database),
        Some(Before::Damaged(Some(old))) => Given::Some(old),
        Some(Before::Damaged(None)) | None => Given::Unknown,
    };
    let numbers_go_on = number(&mut found.database, known, wall_us())?;
    let rows = found.database.snapshot();
    let mut kept = None;
    if before.is_some() {
        let aside = aside(path, mark);
        // The second name is created first, so that a file has the old name at every moment.
        std::fs::hard_link(path, &aside).map_err(|error| failed(&aside, &error))?;
        kept = Some(aside);
    }
    let done = match before {
        Some(Before::Sound(mut old)) => write(&rows, &mut old.log),
        Some(Before::Damaged(_)) | None => {
            let new = path.with_extension("restored");
            let done = make(&disk, (&new, path), &rows, owner);
            // Remains of a failed restore, and files that the new file had beside it under its first name.
            for left in [new.clone(), beside(&new, "synced"), beside(&new, "~lock~")] {
                let _ = disk.remove(&left);
            }
            done
        }
    };
    let mut trouble = None;
    if let Err(error) = done {
        if !is_replaced(path, kept.as_deref()) {
            kept.map(|kept| disk.remove(&kept));
            return Err(error);
        }
        trouble = Some(error.to_string());
    }
    for file in [path.to_path_buf(), beside(path, "synced"), beside(path, "~lock~")] {
        if let Err(error) = owner.own(&file) {
            trouble.get_or_insert(failed(&file, &error).to_string());
        }
    }
    Ok(Restored { kept, numbers_go_on, trouble })
}

/// Whether there is a new file at `path`, and not the one that has the second name `kept`.
fn is_replaced(path: &Path, kept: Option<&Path>) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let file = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    match kept {
        // If the kept file cannot be seen, it is left alone.
        Some(kept) => file(kept).is_none_or(|kept| file(path) != Some(kept)),
        None => file(path).is_some(),
    }
}

/// The copy, checked to be complete and of a schema that this version can serve.
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

/// The previous file.
enum Before {
    Sound(Box<Loaded>),
    /// It is damaged, which may be the reason for the restore; with the content before the damage.
    Damaged(Option<Box<Database>>),
}

fn before(disk: &Arc<dyn Disk>, path: &Path) -> Result<Before, OpenDatabaseError> {
    match load_file(Arc::clone(disk), path, Mode::ReadWrite) {
        Ok(loaded) => Ok(Before::Sound(Box::new(loaded))),
        Err(OpenDatabaseError::Journal(
            error @ (OpenError::Locked(_) | OpenError::Io(_) | OpenError::NotAFile(_)),
        )) => Err(error.into()),
        Err(_) => {
            let sound = load_sound_part(Arc::clone(disk), path).ok();
            Ok(Before::Damaged(sound.map(|sound| Box::new(sound.database))))
        }
    }
}

fn write(rows: &paceline_tables::Snapshot, log: &mut FileLog) -> Result<(), OpenDatabaseError> {
    let written = replace(rows, &[], COMMENT, log);
    written.map(drop).map_err(|error| OpenDatabaseError::Schema(error.to_string()))
}

/// Writes a new file, which replaces the old one when it is complete.
fn make(
    disk: &Arc<dyn Disk>,
    (new, path): (&Path, &Path),
    rows: &paceline_tables::Snapshot,
    owner: Owner,
) -> Result<(), OpenDatabaseError> {
    let moved = |error: std::io::Error| failed(path, &error);
    // No daemon may open or create the file meanwhile.
    let _lock = disk.lock(&beside(path, "~lock~")).map_err(OpenError::Locked)?;
    // A restore that was killed may have left a part of it.
    match disk.remove(new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed(new, &error));
        }
        _ => {}
    }
    let mut log = create_file(Arc::clone(disk), new, rows.schema())?;
    write(rows, &mut log)?;
    drop(log);
    owner.own(new).map_err(moved)?;
    disk.rename(new, path).map_err(moved)?;
    // The side file names its file by inode; that of the previous file would not be trusted.
    let _ = disk.remove(&beside(path, "synced"));
    disk.sync_dir(path.parent().unwrap_or(Path::new("."))).map_err(moved)
}

/// A file that the journal keeps beside the one of a database.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{end}"));
    path.with_file_name(name)
}

fn aside(path: &Path, mark: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".before-restore-{mark}"));
    path.with_file_name(name)
}

fn failed(path: &Path, error: &std::io::Error) -> OpenDatabaseError {
    OpenDatabaseError::Schema(format!("{}: {error}", path.display()))
}

/// What is known of the numbers that were given out.
#[derive(Clone, Copy)]
enum Given<'d> {
    /// This database has all of them, if it is of the same daemon.
    All(&'d Database),
    /// This database has some of them.
    Some(&'d Database),
    Unknown,
}

/// Lets go of all that is held, and sets the numbers of a copy that is restored at `wall_us`, in microseconds since 1970;
/// whether they go on behind those of the file before.
fn number(copy: &mut Database, known: Given<'_>, wall_us: u64) -> Result<bool, OpenDatabaseError> {
    let wrong = |error: paceline_tables::Error| OpenDatabaseError::Schema(error.details);
    let mut puts: Vec<Put> = vec![];
    for table in HELD.into_iter().filter_map(|name| copy.schema().table_id(name)) {
        puts.extend(copy.store().rows(table).map(|row| (table, row_uuid(row), None)));
    }
    let daemon = Daemon::of(copy);
    let old = match known {
        Given::All(database) | Given::Some(database) => Daemon::of(database),
        Given::Unknown => None,
    };
    // A daemon keeps the UUID of its row for life, and its copies have the same.
    let is_same = |old: &Daemon<'_>| daemon.as_ref().is_some_and(|new| new.uuid() == old.uuid());
    let old = old.filter(is_same);
    let goes_on = old.is_some() && matches!(known, Given::All(_));
    let by_clock = i64::try_from(wall_us).unwrap_or(i64::MAX);
    let next = |given: i64| match goes_on {
        true => given,
        // Not the higher of the two: numbers ahead of the clock would be above those of the next restore.
        false if given < by_clock => by_clock,
        false => given.saturating_add(NUMBERS_SKIPPED),
    };
    if let Some(daemon) = daemon {
        let mut values = daemon.row.get(ColumnId::FIRST..).unwrap_or_default().to_vec();
        let mut set = |name: &str, value: Atom| {
            let at = daemon.column(name).and_then(|at| at.checked_sub(ColumnId::FIRST));
            if let Some(own) = at.and_then(|at| values.get_mut(at)) {
                *own = Datum::One(value);
            }
        };
        for name in NUMBERS {
            let given = daemon.given(name).max(old.as_ref().map_or(0, |old| old.integer(name)));
            set(name, Atom::Integer(next(given)));
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

    /// The numbers that were given out when the copy was made. A copy names no machine, and its numbers are
    /// above those given out.
    fn given(&self, name: &str) -> i64 {
        let machine = self.datum("machine").and_then(Datum::single).and_then(Atom::as_str);
        let is_copy = machine.unwrap_or_default().is_empty();
        let number = self.integer(name);
        if is_copy { number.saturating_sub(NUMBERS_SKIPPED).max(0) } else { number }
    }
}

#[cfg(test)]
mod tests;
