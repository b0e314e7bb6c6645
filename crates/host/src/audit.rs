//! The audit log: who changed what, when, and from where (promise A1).
//!
//! Owns the file `audit.log` in the data directory, one JSON object a line, and the thread that writes it. Records are
//! passed to that thread in the order of events. When the disk is slow, the caller that makes a record waits. Records
//! that cannot be written are kept ([`KEPT_BYTES_MAX`]) and written again with the next record and every second. Beyond
//! that bound they are only counted. A record has names of rows and columns, never values, so that no secret gets into
//! the log.

use crate::clock::{rfc3339, wall_ms};
use paceline_tables::json::write_string;
use paceline_tables::schema::{ColumnId, Schema};
use paceline_tables::value::Atom;
use paceline_tables::{Changes, RowChange};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Records that may wait to be written.
const WAITING_MAX: usize = 10_000;

/// Bytes of records that are kept while the disk refuses them.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// How long to wait before trying the disk again, if no record arrives.
const RETRY: Duration = Duration::from_secs(1);

/// Rows of one transaction that a record names; further rows are only counted.
const ROWS_MAX: usize = 100;

/// Where changes are recorded.
pub struct Audit {
    /// `None` when it is closed.
    sender: Mutex<Option<SyncSender<Vec<u8>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Appends to the file `path`, which only the daemon's user can read.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened or the thread cannot be started.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut writer = Writer::new(open(path)?);
        if is_torn(&writer.file)? {
            writer.lines.push(b'\n');
        }
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("paceline-audit".into()).spawn({
            let path = path.to_owned();
            move || write_all(writer, &path, &receiver)
        })?;
        Ok(Self { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// An audit log that records nothing.
    pub(crate) fn nowhere() -> Self {
        Self { sender: Mutex::default(), thread: Mutex::default() }
    }

    /// Reopens the file, which may have been moved away.
    pub(crate) fn reopen(&self) {
        self.pass(REOPEN);
    }

    /// Records what a transaction changed in the configuration.
    pub(crate) fn edit(&self, who: &str, schema: &Schema, changes: &Changes) {
        let mut line = begin(who, "edit");
        line.extend_from_slice(b",\"changes\":[");
        for (index, change) in changes.rows.iter().take(ROWS_MAX).enumerate() {
            if index > 0 {
                line.push(b',');
            }
            write_change(schema, change, &mut line);
        }
        line.push(b']');
        let more = changes.rows.len().saturating_sub(ROWS_MAX);
        if more > 0 {
            line.extend_from_slice(format!(",\"more\":{more}").as_bytes());
        }
        self.send(line);
    }

    /// Records something else that happened to `object`: a steal, an abort, a token replaced.
    pub fn record(&self, who: &str, what: &str, object: &str) {
        let mut line = begin(who, what);
        member("object", object, &mut line);
        self.send(line);
    }

    /// Records that `who` was refused `what`, and how many such records were left out before it.
    pub(crate) fn refused(&self, who: &str, what: &str, left_out: u64) {
        let mut line = begin(who, "refused permission");
        member("object", what, &mut line);
        if left_out > 0 {
            line.extend_from_slice(format!(",\"left_out\":{left_out}").as_bytes());
        }
        self.send(line);
    }

    fn send(&self, mut line: Vec<u8>) {
        line.extend_from_slice(b"}\n");
        self.pass(line);
    }

    fn pass(&self, line: Vec<u8>) {
        let sender = self.sender.lock().unwrap_or_else(crate::broken).clone();
        if let Some(sender) = sender {
            // The thread ends only when all senders are dropped.
            let _ = sender.send(line);
        }
    }

    /// Writes the remaining records and ends the thread.
    pub(crate) fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(crate::broken).take());
        let thread = self.thread.lock().unwrap_or_else(crate::broken).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

fn begin(who: &str, what: &str) -> Vec<u8> {
    let mut line = b"{\"at\":".to_vec();
    write_string(rfc3339(wall_ms()).as_bytes(), &mut line);
    member("who", who, &mut line);
    member("what", what, &mut line);
    line
}

fn member(name: &str, value: &str, line: &mut Vec<u8>) {
    line.push(b',');
    write_string(name.as_bytes(), line);
    line.push(b':');
    write_string(value.as_bytes(), line);
}

fn write_change(schema: &Schema, change: &RowChange, line: &mut Vec<u8>) {
    let table = schema.table(change.table);
    let op = op_of(change);
    line.extend_from_slice(b"{\"op\":");
    write_string(op.as_bytes(), line);
    member("table", &table.name, line);
    member("row", &row_title(schema, change), line);
    if op == "update" {
        let changed = table.column_ids().skip(ColumnId::FIRST).filter(|id| change.changed(*id));
        let names: Vec<&str> = changed.map(|id| &*table.column(id).name).collect();
        member("columns", &names.join(" "), line);
    }
    line.push(b'}');
}

/// The operation that makes this change.
pub(crate) fn op_of(change: &RowChange) -> &'static str {
    match (&change.old, &change.new) {
        (None, _) => "insert",
        (_, None) => "delete",
        _ => "update",
    }
}

/// The name or number of a row, or else its UUID.
pub(crate) fn row_title(schema: &Schema, change: &RowChange) -> String {
    let table = schema.table(change.table);
    let row = change.new.as_ref().or(change.old.as_ref());
    let atom = |column: &str| row?.get(table.column_id(column)?.index())?.single();
    match (atom("name").and_then(Atom::as_str), atom("number").and_then(Atom::as_integer)) {
        (Some(name), _) => name.to_owned(),
        (None, Some(number)) => number.to_string(),
        (None, None) => change.uuid.to_string(),
    }
}

/// Whether the last line is incomplete, because an earlier run was killed while the disk was full.
fn is_torn(file: &File) -> io::Result<bool> {
    let mut last = [0];
    match file.metadata()?.len().checked_sub(1) {
        Some(at) => file.read_exact_at(&mut last, at).map(|()| last != *b"\n"),
        None => Ok(false),
    }
}

/// Sent instead of a line, asks the thread to reopen the file.
const REOPEN: Vec<u8> = Vec::new();

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

fn reopen(writer: &mut Writer<File>, path: &Path) {
    // Records from before the reopening belong to the old file.
    writer.write();
    match open(path) {
        Ok(file) => writer.file = file,
        Err(error) => {
            tracing::error!(%error, "cannot reopen the audit log; writing to the old file")
        }
    }
}

fn write_all(mut writer: Writer<File>, path: &Path, receiver: &Receiver<Vec<u8>>) {
    loop {
        let first = match writer.is_failing {
            true => receiver.recv_timeout(RETRY),
            false => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if first == Err(RecvTimeoutError::Disconnected) {
            break;
        }
        for line in first.into_iter().chain(receiver.try_iter()) {
            match line == REOPEN {
                true => reopen(&mut writer, path),
                false => writer.add(&line),
            }
        }
        writer.write();
    }
    writer.write();
    let lost = writer.count();
    if lost > 0 {
        tracing::error!(lost, "cannot write the last records of the audit log");
    }
    if let Err(error) = writer.file.sync_data() {
        tracing::error!(%error, "cannot sync the audit log");
    }
}

/// Writes lines, and keeps those that the disk refuses.
struct Writer<F> {
    file: F,
    /// Lines that are not written. The first may be the rest of a line whose beginning is in the file.
    lines: Vec<u8>,
    /// Records that arrived when no more could be kept.
    left_out: u64,
    /// Whether the last try failed.
    is_failing: bool,
}

impl<F: Write> Writer<F> {
    const fn new(file: F) -> Self {
        Self { file, lines: vec![], left_out: 0, is_failing: false }
    }

    /// Adds a record, to be written next.
    fn add(&mut self, line: &[u8]) {
        let fits = self.left_out == 0 && self.lines.len() + line.len() <= KEPT_BYTES_MAX;
        match fits || !self.is_failing {
            true => self.lines.extend_from_slice(line),
            false => self.left_out += 1,
        }
    }

    /// Tries to write everything. The first failure in a row is logged, and the first success after it.
    fn write(&mut self) {
        let mut tried = self.try_write();
        let left_out = self.left_out;
        if tried.is_ok() && left_out > 0 {
            self.left_out = 0;
            self.lines = begin("paceline", "records left out");
            self.lines.extend_from_slice(format!(",\"left_out\":{left_out}}}\n").as_bytes());
            tried = self.try_write();
        }
        match tried {
            Err(error) if !self.is_failing => {
                tracing::error!(%error, "cannot write the audit log; keeping its records in memory");
                self.is_failing = true;
            }
            Ok(()) if self.is_failing => {
                tracing::info!(left_out, "the audit log can be written again");
                self.is_failing = false;
            }
            Ok(()) | Err(_) => {}
        }
    }

    fn try_write(&mut self) -> io::Result<()> {
        while !self.lines.is_empty() {
            match self.file.write(&self.lines) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.lines.drain(..count.min(self.lines.len()))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The number of records that are not written.
    fn count(&self) -> u64 {
        let kept = self.lines.iter().filter(|byte| **byte == b'\n').count();
        self.left_out.saturating_add(kept as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Audit, KEPT_BYTES_MAX, Writer};
    use std::io;

    /// A disk with room for `room` bytes.
    struct Disk {
        written: Vec<u8>,
        room: usize,
    }

    impl io::Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.extend_from_slice(&bytes[..count]);
            self.room -= count;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A1: records that a full disk refuses are written when there is room, whole and in order. Records beyond
    /// the bound are counted.
    #[test]
    fn records_that_a_full_disk_refuses_are_kept_a1() {
        const LINE: &[u8] = b"{\"what\":\"steal\"}\n";
        let lines = |text: &[u8]| text.split_inclusive(|byte| *byte == b'\n').count();
        let mut writer = Writer::new(Disk { written: vec![], room: 3 * LINE.len() + 5 });
        for _ in 0..10 {
            writer.add(LINE);
            writer.write();
        }
        assert!(writer.is_failing);
        writer.file.room = usize::MAX;
        writer.write();
        assert!(!writer.is_failing);
        assert_eq!(writer.file.written, LINE.repeat(10));

        writer.file.room = 0;
        let count = KEPT_BYTES_MAX / LINE.len();
        for _ in 0..count + 7 {
            writer.add(LINE);
            if !writer.is_failing {
                writer.write();
            }
        }
        assert!(writer.lines.len() <= KEPT_BYTES_MAX);
        assert_eq!(writer.count(), count as u64 + 7);
        writer.file.room = usize::MAX;
        writer.write();
        let written = &writer.file.written;
        assert_eq!(lines(written), 10 + count + 1);
        assert!(written.ends_with(b"\"what\":\"records left out\",\"left_out\":7}\n"));
        assert_eq!((writer.count(), writer.lines.len()), (0, 0));
    }

    /// A1: a daemon that was killed while the disk was full leaves half a record, and the next run does not add to it.
    #[test]
    fn a_half_record_of_an_earlier_run_spoils_no_other_a1() {
        let path = std::env::temp_dir().join(format!("paceline-torn-{}", std::process::id()));
        for (before, after) in [("", ""), ("{}\n", "{}\n"), ("{}\n{\"at\":", "{}\n{\"at\":\n")] {
            std::fs::write(&path, before).unwrap();
            let audit = Audit::open(&path).unwrap();
            audit.record("eva", "steal", "lock");
            audit.close();
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            let added = text.strip_prefix(after).unwrap_or_else(|| panic!("{text}"));
            assert!(added.starts_with("{\"at\"") && added.lines().count() == 1, "{text}");
        }
    }

    #[test]
    fn records_are_lines_in_order_and_all_there_at_the_end_a1() {
        let path = std::env::temp_dir().join(format!("paceline-audit-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let audit = Audit::open(&path).unwrap();
        for number in 0..1_000 {
            audit.record("eva \"x\"", "steal", &format!("lock {number}"));
        }
        audit.close();
        audit.record("eva", "steal", "too late");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1_000);
        assert!(lines[0].starts_with("{\"at\":\"2"), "{}", lines[0]);
        let end = "\"who\":\"eva \\\"x\\\"\",\"what\":\"steal\",\"object\":\"lock 999\"}";
        assert!(lines[999].ends_with(end), "{}", lines[999]);
    }
}
