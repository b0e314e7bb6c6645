//! The audit log: who changed what, when, and from where (promise A1).
//!
//! Owns the file `audit.log` in the data directory, one JSON object a line, and the thread that writes
//! it. Records are handed over in the order things happened, and when the disk is slow, whoever makes
//! one waits. What the disk refuses is lost and told in the log. Only names of rows and columns are told, never values, so that no
//! secret gets here.

use crate::clock::{rfc3339, wall_ms};
use paceline_tables::json::write_string;
use paceline_tables::schema::{ColumnId, Schema};
use paceline_tables::value::Atom;
use paceline_tables::{Changes, RowChange};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Records that may wait to be written.
const WAITING_MAX: usize = 10_000;

/// Rows of one transaction that a record names; of more it tells the number.
const ROWS_MAX: usize = 100;

/// Where changes are recorded.
pub struct Audit {
    /// None when it is closed.
    sender: Mutex<Option<SyncSender<Vec<u8>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Appends to the file `path`, which only the daemon's user can read.
    ///
    /// # Errors
    ///
    /// When the file or the thread cannot be had.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("paceline-audit".into())
            .spawn(move || write_all(file, &receiver))?;
        Ok(Self { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// Records nothing.
    pub(crate) fn nowhere() -> Self {
        Self { sender: Mutex::default(), thread: Mutex::default() }
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
        let sender = self.sender.lock().unwrap_or_else(crate::broken).clone();
        if let Some(sender) = sender {
            // The thread ends only when all senders are gone.
            let _ = sender.send(line);
        }
    }

    /// Writes what is left and ends.
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

/// The operation that changes a row so.
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

fn write_all(mut file: File, receiver: &Receiver<Vec<u8>>) {
    while let Ok(mut lines) = receiver.recv() {
        lines.extend(receiver.try_iter().flatten());
        if let Err(error) = file.write_all(&lines) {
            tracing::error!(%error, "cannot write the audit log");
        }
    }
    if let Err(error) = file.sync_data() {
        tracing::error!(%error, "cannot sync the audit log");
    }
}

#[cfg(test)]
mod tests {
    use super::Audit;

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
