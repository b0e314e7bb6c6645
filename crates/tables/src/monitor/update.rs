//! Updates: the changes of a transaction as one client sees them.

use super::{Monitor, MonitoredTable, Select, Version};
use crate::changes::{Changes, RowChange};
use crate::json::write_string;
use crate::schema::{ColumnId, Schema, TableId, TableSchema};
use crate::store::Row;
use crate::value::{Datum, diff};
use paceline_types::Uuid;

impl Monitor {
    /// Appends the `<table-updates>` object for `changes`. Returns false, and appends nothing, if the client
    /// receives no update.
    pub fn update(&self, changes: &Changes, schema: &Schema, out: &mut Vec<u8>) -> bool {
        let mut writer = Writer::new(out);
        let mut place = Place::default();
        while self.write_changes(changes, schema, usize::MAX, &mut place, &mut writer) {}
        writer.finish()
    }

    /// Continues with the changes from `place` on, for about this many steps. Returns whether there is more.
    pub(super) fn write_changes(
        &self,
        changes: &Changes,
        schema: &Schema,
        mut steps: usize,
        place: &mut Place,
        writer: &mut Writer<'_>,
    ) -> bool {
        let enough = writer.out.len().saturating_add(PIECE_BYTES_MAX);
        let most = steps;
        while let Some((at, change, monitored)) = place.next(self, changes) {
            let taken = match most {
                usize::MAX => 0,
                _ => monitored.change_steps(self.version, change),
            };
            // A change that takes more steps than a piece allows is a piece of its own.
            if (steps < taken && steps < most) || writer.out.len() > enough {
                return true;
            }
            if place.table != Some(change.table) {
                place.end_table(writer);
                place.table = Some(change.table);
                writer.begin_table(&schema.table(change.table).name);
            }
            monitored.write_change(self.version, change, schema.table(change.table), writer);
            steps = steps.saturating_sub(taken);
            place.next = at + 1;
        }
        place.end_table(writer);
        false
    }
}

/// The most bytes of an update that are written before the caller regains control.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// The next change in an update that is written in pieces.
#[derive(Debug, Default)]
pub(super) struct Place {
    next: usize,
    /// The table of the previous change that was written.
    table: Option<TableId>,
}

impl Place {
    /// The next change of a table that `monitor` watches, with its number and what is watched there. Tables that
    /// are not watched are passed over as a whole, however many rows changed in them.
    pub(super) fn next<'a, 'b>(
        &self,
        monitor: &'b Monitor,
        changes: &'a Changes,
    ) -> Option<(usize, &'a RowChange, &'b MonitoredTable)> {
        let mut at = self.next;
        loop {
            let rest = changes.rows.get(at..)?;
            let change = rest.first()?;
            if let Some(monitored) = monitor.table(change.table) {
                return Some((at, change, monitored));
            }
            at += rest.partition_point(|other| other.table == change.table);
        }
    }

    fn end_table(&mut self, writer: &mut Writer<'_>) {
        if self.table.take().is_some() {
            writer.end_table();
        }
    }
}

impl MonitoredTable {
    /// The steps of reporting one changed row, without what depends on the size of its values.
    pub(super) fn row_steps(&self, version: Version) -> usize {
        // The row is tested before and after the change.
        let tests = if version == Version::V1 { 0 } else { 2 * self.condition.weight() };
        1 + tests + self.columns.len()
    }

    /// The most steps of reporting this change.
    pub(super) fn change_steps(&self, version: Version, change: &RowChange) -> usize {
        let rows = || change.old.iter().chain(&change.new);
        let tests =
            |row: &Row| if version == Version::V1 { 0 } else { self.condition.steps_on(row) };
        let tests = rows().map(tests).fold(1 + self.columns.len(), usize::saturating_add);
        let written = self.columns.iter().map(|(column, _)| {
            let values = rows().map(|row| &row[column.index()]);
            match (&change.old, &change.new) {
                // The first format reports all columns of a changed row.
                (Some(old), Some(new)) if version != Version::V1 => {
                    let (old, new) = (&old[column.index()], &new[column.index()]);
                    if old.shares_memory_with(new) { 0 } else { old.steps() + new.steps() }
                }
                _ => values.map(Datum::steps).sum(),
            }
        });
        written.fold(tests, usize::saturating_add)
    }

    fn write_change(
        &self,
        version: Version,
        change: &RowChange,
        schema: &TableSchema,
        writer: &mut Writer<'_>,
    ) {
        let seen = |row: &Option<Row>| {
            row.as_ref().filter(|row| version == Version::V1 || self.condition.any(row)).cloned()
        };
        // A condition can make a change look like an insertion or a deletion to this client.
        match (seen(&change.old), seen(&change.new)) {
            (None, Some(new)) if self.select.has(Select::INSERT) => {
                writer.begin_row(change.uuid);
                self.write_row(version, Select::INSERT, &new, schema, writer);
            }
            (Some(old), None) if self.select.has(Select::DELETE) => {
                writer.begin_row(change.uuid);
                if version == Version::V1 {
                    writer.out.extend_from_slice(b"{\"old\":");
                    self.write_columns(&old, schema, Select::DELETE, |_| true, writer);
                    writer.out.push(b'}');
                } else {
                    writer.out.extend_from_slice(b"{\"delete\":null}");
                }
            }
            (Some(_), Some(_)) if self.select.has(Select::MODIFY) => {
                self.write_modify(version, change, schema, writer);
            }
            _ => {}
        }
    }

    fn write_modify(
        &self,
        version: Version,
        change: &RowChange,
        schema: &TableSchema,
        writer: &mut Writer<'_>,
    ) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return };
        let told = |(column, select): &(ColumnId, Select)| {
            select.has(Select::MODIFY) && change.changed(*column)
        };
        if !self.columns.iter().any(told) {
            return;
        }
        writer.begin_row(change.uuid);
        if version == Version::V1 {
            let changed = |column: ColumnId| change.changed(column);
            writer.out.extend_from_slice(b"{\"old\":");
            self.write_columns(old, schema, Select::MODIFY, changed, writer);
            writer.out.extend_from_slice(b",\"new\":");
            self.write_columns(new, schema, Select::MODIFY, |_| true, writer);
            writer.out.push(b'}');
            return;
        }
        writer.out.extend_from_slice(b"{\"modify\":{");
        for (column, select) in &self.columns {
            let (old, new) = (&old[column.index()], &new[column.index()]);
            if select.has(Select::MODIFY) && old != new {
                let column = schema.column(*column);
                writer.column(&column.name);
                diff(old, new, &column.ty).write(&column.ty, writer.out);
            }
        }
        writer.out.extend_from_slice(b"}}");
    }

    /// Writes a row that becomes visible.
    pub(super) fn write_row(
        &self,
        version: Version,
        kind: Select,
        row: &Row,
        schema: &TableSchema,
        writer: &mut Writer<'_>,
    ) {
        if version == Version::V1 {
            writer.out.extend_from_slice(b"{\"new\":");
            self.write_columns(row, schema, kind, |_| true, writer);
            writer.out.push(b'}');
        } else {
            let word = if kind == Select::INITIAL { "initial" } else { "insert" };
            self.write_whole_row(word, row, schema, kind, writer);
        }
    }

    /// `{word: {columns that differ from their default}}`.
    pub(super) fn write_whole_row(
        &self,
        word: &str,
        row: &[Datum],
        schema: &TableSchema,
        kind: Select,
        writer: &mut Writer<'_>,
    ) {
        writer.out.extend_from_slice(b"{");
        write_string(word.as_bytes(), writer.out);
        writer.out.push(b':');
        let told = |column: ColumnId| row[column.index()] != schema.column(column).default;
        self.write_columns(row, schema, kind, told, writer);
        writer.out.push(b'}');
    }

    fn write_columns(
        &self,
        row: &[Datum],
        schema: &TableSchema,
        kind: Select,
        told: impl Fn(ColumnId) -> bool,
        writer: &mut Writer<'_>,
    ) {
        writer.out.push(b'{');
        for (id, select) in &self.columns {
            if select.has(kind) && told(*id) {
                let column = schema.column(*id);
                writer.column(&column.name);
                row[id.index()].write(&column.ty, writer.out);
            }
        }
        writer.out.push(b'}');
    }
}

/// Writes `{table: {uuid: ..., ...}, ...}`, leaving out tables without rows.
pub(super) struct Writer<'a> {
    pub(super) out: &'a mut Vec<u8>,
    frame: Frame,
}

/// Where the parts of an unfinished text begin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    start: usize,
    table_start: usize,
    rows_start: usize,
    any: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        let frame = Frame { start: out.len(), ..Frame::default() };
        out.push(b'{');
        Self { out, frame }
    }

    /// A writer for one row in the middle of a text that the caller frames.
    pub(super) fn continuing(out: &'a mut Vec<u8>) -> Self {
        let frame = Frame { start: out.len(), ..Frame::default() };
        Self { out, frame }
    }

    /// A writer that continues a text where [`Writer::pause`] left it.
    pub(super) fn resumed(out: &'a mut Vec<u8>, frame: Frame) -> Self {
        Self { out, frame }
    }

    pub(super) fn pause(self) -> Frame {
        self.frame
    }

    fn begin_table(&mut self, name: &str) {
        self.frame.table_start = self.out.len();
        if self.frame.any {
            self.out.push(b',');
        }
        write_string(name.as_bytes(), self.out);
        self.out.extend_from_slice(b":{");
        self.frame.rows_start = self.out.len();
    }

    fn end_table(&mut self) {
        if self.out.len() == self.frame.rows_start {
            self.out.truncate(self.frame.table_start);
        } else {
            self.out.push(b'}');
            self.frame.any = true;
        }
    }

    pub(super) fn begin_row(&mut self, uuid: Uuid) {
        if self.out.last() == Some(&b'}') {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(&uuid.text());
        self.out.extend_from_slice(b"\":");
    }

    fn column(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        write_string(name.as_bytes(), self.out);
        self.out.push(b':');
    }

    pub(super) fn finish(self) -> bool {
        if self.frame.any {
            self.out.push(b'}');
        } else {
            self.out.truncate(self.frame.start);
        }
        self.frame.any
    }
}
