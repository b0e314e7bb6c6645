//! An update that is made in pieces, because many changed rows are tested on long conditions.

use super::Monitor;
use super::update::{Frame, Place, Writer};
use crate::changes::Changes;
use crate::schema::{Schema, TableId};
use std::sync::Arc;

/// Bytes of changed values that are read or written in one step.
const STEP_BYTES: usize = 16;

/// A `<table-updates>` object that is being made.
#[derive(Debug)]
pub struct Telling {
    monitor: Arc<Monitor>,
    schema: Arc<Schema>,
    changes: Arc<Changes>,
    text: Vec<u8>,
    place: Place,
    frame: Option<Frame>,
    any: bool,
}

impl Telling {
    /// The update of `monitor` for `changes`, not begun yet.
    #[must_use]
    pub fn new(monitor: Arc<Monitor>, schema: Arc<Schema>, changes: Arc<Changes>) -> Self {
        let (text, place) = (Vec::new(), Place::default());
        Self { monitor, schema, changes, text, place, frame: None, any: false }
    }

    /// Continues for about `steps` steps. Returns whether there is more to do.
    pub fn go_on(&mut self, steps: usize) -> bool {
        let mut writer = match self.frame {
            Some(frame) => Writer::resumed(&mut self.text, frame),
            None => Writer::new(&mut self.text),
        };
        let Self { monitor, changes, schema, place, .. } = self;
        if monitor.write_changes(changes, schema, steps, place, &mut writer) {
            self.frame = Some(writer.pause());
            return true;
        }
        self.any = writer.finish();
        false
    }

    /// Whether the next change takes more than `steps` steps, because its row has very large values. The caller
    /// then continues where no other work waits for it.
    #[must_use]
    pub fn is_long(&self, steps: usize) -> bool {
        let next = self.place.next(&self.monitor, &self.changes);
        next.is_some_and(|(_, change, monitored)| {
            monitored.change_steps(self.monitor.version, change) > steps
        })
    }

    /// The finished object; `None` if the client receives no update.
    #[must_use]
    pub fn into_text(self) -> Option<Vec<u8>> {
        self.any.then_some(self.text)
    }
}

impl Monitor {
    /// The steps of reporting one changed row, for each table that it watches, without what depends on the size of
    /// the row's values.
    pub fn row_steps(&self) -> impl Iterator<Item = (TableId, usize)> {
        self.tables.iter().map(|monitored| (monitored.table, monitored.row_steps(self.version)))
    }
}

/// The steps of `rows` rows that take `row_steps` each and have `bytes` bytes together.
#[must_use]
pub const fn steps_of(rows: usize, row_steps: usize, bytes: usize) -> usize {
    rows.saturating_mul(row_steps).saturating_add(bytes / STEP_BYTES)
}

/// The bytes of changed rows that are reported in `steps` steps.
#[must_use]
pub const fn steps_bytes(steps: usize) -> usize {
    steps.saturating_mul(STEP_BYTES)
}

#[cfg(test)]
mod tests {
    use super::super::{Requests, Version};
    use super::*;
    use crate::changes::RowChange;
    use crate::json;
    use crate::value::{Atom, Datum};
    use paceline_types::Uuid;

    const SCHEMA: &[u8] = br#"{"name": "D", "tables": {
        "A": {"columns": {"s": {"type": "string"}}}, "B": {"columns": {"s": {"type": "string"}}},
        "C": {"columns": {"s": {"type": "string"}}}}}"#;

    /// Rows of a table that is not watched are passed over as a whole, so the next change is the next one that the
    /// client may receive.
    #[test]
    fn tables_that_are_not_watched_are_passed_over() {
        let schema = Arc::new(Schema::parse(&json::parse(SCHEMA, 16).unwrap()).unwrap());
        let requests = json::parse(br#"{"B": {}}"#, 16).unwrap();
        let monitor = Requests::new(&requests).unwrap().parse(&schema, Version::V2).unwrap();
        let change = |table: &str, number: u64, name: &str| {
            let uuid = Uuid::from_halves(1, number);
            let id = || Datum::One(Atom::Uuid(uuid));
            let new = [id(), id(), Datum::One(Atom::string(name))].into_iter().collect();
            RowChange { table: schema.table_id(table).unwrap(), uuid, old: None, new: Some(new) }
        };
        let long = "x".repeat(100_000);
        let mut rows: Vec<RowChange> = (0..1000).map(|at| change("A", at, &long)).collect();
        rows.extend([change("B", 1, "short"), change("B", 2, &long)]);
        rows.extend((0..1000).map(|at| change("C", at, &long)));
        let mut telling =
            Telling::new(Arc::new(monitor), schema.clone(), Arc::new(Changes { rows }));
        assert!(!telling.is_long(100), "the next change that is sent is short");
        assert!(telling.go_on(100), "the long row is a piece of its own");
        assert!(telling.is_long(100));
        assert!(!telling.go_on(100), "no more rows of its table follow");
        let text = String::from_utf8(telling.into_text().unwrap()).unwrap();
        assert!(text.starts_with(r#"{"B":{""#) && text.ends_with("}}}}"), "{}", text.len());
        assert_eq!(text.matches("insert").count(), 2);

        let rows = vec![change("A", 1, "a"), change("B", 2, &long)];
        let monitor = Requests::new(&requests).unwrap().parse(&schema, Version::V2).unwrap();
        let telling = Telling::new(Arc::new(monitor), schema.clone(), Arc::new(Changes { rows }));
        assert!(telling.is_long(100), "the change before it is not sent");
    }
}
