//! Reading a database from its journal.
//!
//! At start a database is what its journal says: the schema, then every record in order. Nothing
//! else restores state. One thread reads, checks and parses records while another applies them; what
//! is between them is bounded.

use super::open::OpenDatabaseError;
use crate::clock::uuid_source;
use paceline_journal::disk::Disk;
use paceline_journal::{FileLog, Follow, Mode, OpenError, Position, Recovery};
use paceline_tables::schema::Schema;
use paceline_tables::{Database, Error, RecordRow, json, read_record, tells_differences};
use paceline_types::limits::JSON_DEPTH_MAX_OVSDB;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Rows that go from one thread to the other at a time.
const BATCH_ROWS: usize = 512;

/// Batches that may wait between the threads.
const BATCHES_MAX: usize = 8;

/// A database read from its file, with the journal ready for more.
pub struct Loaded {
    /// The content.
    pub database: Database,
    /// The journal.
    pub log: FileLog,
    /// What had to be cut off.
    pub recovery: Recovery,
}

/// Rows of one record, or some of them.
struct Piece {
    offset: Position,
    differences: bool,
    rows: Vec<RecordRow>,
    /// Whether the record ends here.
    last: bool,
}

/// Why reading stopped early.
enum Stop {
    /// The journal is damaged, or cannot be read.
    Journal(OpenError),
    /// The record at this offset is not one of this database.
    Record(Position, Error),
    /// The other thread has stopped.
    Hangup,
}

/// Reads the database in file `path`.
pub fn load_file(
    disk: Arc<dyn Disk>,
    path: &Path,
    mode: Mode,
) -> Result<Loaded, OpenDatabaseError> {
    let mut follow = FileLog::open_on(disk, path, mode)?;
    let mut database = match read_schema(&mut follow)? {
        Some(schema) => Database::new(Arc::new(schema), uuid_source()),
        None => return Err(follow.reject(Position(0), "there is no schema in it").into()),
    };
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let schema = database.schema().clone();
    let (read, applied) = std::thread::scope(|scope| {
        let follow = &mut follow;
        let reader = scope.spawn(move || read_records(follow, &schema, sender));
        let applied = apply_records(&mut database, receiver);
        (reader.join(), applied)
    });
    // What was applied comes before what was only read.
    match (applied, read) {
        (Err((offset, error)), _) | (Ok(()), Ok(Err(Stop::Record(offset, error)))) => {
            return Err(follow.reject(offset, error.to_string()).into());
        }
        (Ok(()), Ok(Err(Stop::Journal(error)))) => return Err(error.into()),
        (Ok(()), Err(_)) => {
            return Err(follow.reject(Position(0), "the thread that reads it failed").into());
        }
        (Ok(()), Ok(Ok(()) | Err(Stop::Hangup))) => {}
    }
    let (log, recovery) = follow.finish()?;
    Ok(Loaded { database, log, recovery })
}

fn read_schema(follow: &mut Follow) -> Result<Option<Schema>, OpenDatabaseError> {
    let Some(record) = follow.next()? else { return Ok(None) };
    let offset = record.offset;
    let parsed = json::parse(record.body, JSON_DEPTH_MAX_OVSDB)
        .map_err(Error::from)
        .and_then(|json| Schema::parse(&json));
    parsed.map(Some).map_err(|error| follow.reject(offset, error.to_string()).into())
}

/// Reads records to the end of the journal and sends their rows.
fn read_records(
    follow: &mut Follow,
    schema: &Schema,
    sender: SyncSender<Vec<Piece>>,
) -> Result<(), Stop> {
    let mut batch: Vec<Piece> = Vec::new();
    let mut batched = 0;
    while let Some(record) = follow.next().map_err(Stop::Journal)? {
        let offset = record.offset;
        let fail = |error| Stop::Record(offset, error);
        let differences = tells_differences(record.body).map_err(fail)?;
        let mut rows = Vec::new();
        let mut hung_up = false;
        let read = read_record(record.body, schema, |row| {
            rows.push(row);
            batched += 1;
            if batched >= BATCH_ROWS {
                let rows = std::mem::take(&mut rows);
                batch.push(Piece { offset, differences, rows, last: false });
                batched = 0;
                hung_up = sender.send(std::mem::take(&mut batch)).is_err();
                if hung_up {
                    return Err(Error::new("canceled", "nobody reads on"));
                }
            }
            Ok(())
        });
        if hung_up {
            return Err(Stop::Hangup);
        }
        read.map_err(fail)?;
        batch.push(Piece { offset, differences, rows, last: true });
    }
    sender.send(batch).map_err(|_| Stop::Hangup)
}

/// Applies what comes until there is no more.
fn apply_records(
    database: &mut Database,
    receiver: Receiver<Vec<Piece>>,
) -> Result<(), (Position, Error)> {
    let mut pieces = Pieces { receiver, waiting: VecDeque::new() };
    while let Some(first) = pieces.next() {
        let (offset, differences) = (first.offset, first.differences);
        let mut rows = Rows { pieces: &mut pieces, present: Vec::new().into_iter(), last: false };
        rows.begin(first);
        database.apply_rows(differences, &mut rows).map_err(|error| (offset, error))?;
    }
    Ok(())
}

/// The pieces as they come.
struct Pieces {
    receiver: Receiver<Vec<Piece>>,
    waiting: VecDeque<Piece>,
}

impl Pieces {
    fn next(&mut self) -> Option<Piece> {
        while self.waiting.is_empty() {
            self.waiting = self.receiver.recv().ok()?.into();
        }
        self.waiting.pop_front()
    }
}

/// The rows of one record, whose pieces may be still to come.
struct Rows<'a> {
    pieces: &'a mut Pieces,
    present: std::vec::IntoIter<RecordRow>,
    last: bool,
}

impl Rows<'_> {
    fn begin(&mut self, piece: Piece) {
        (self.present, self.last) = (piece.rows.into_iter(), piece.last);
    }
}

impl Iterator for Rows<'_> {
    type Item = RecordRow;

    fn next(&mut self) -> Option<RecordRow> {
        loop {
            if let Some(row) = self.present.next() {
                return Some(row);
            }
            if self.last {
                return None;
            }
            let piece = self.pieces.next()?;
            self.begin(piece);
        }
    }
}
