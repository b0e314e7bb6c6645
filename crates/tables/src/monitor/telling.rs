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
        let Some(change) = self.place.next(&self.changes) else { return false };
        let monitored = self.monitor.table(change.table);
        monitored
            .is_some_and(|monitored| monitored.change_steps(self.monitor.version, change) > steps)
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
