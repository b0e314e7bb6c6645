//! An update that is made in pieces: many changed rows are tested on long conditions.

use super::Monitor;
use super::update::{Frame, Place, Writer};
use crate::changes::Changes;
use crate::schema::{Schema, TableId};
use std::sync::Arc;

/// Bytes of changed values that are looked at or written in one step.
const STEP_BYTES: usize = 16;

/// A `<table-updates>` object in the course of being made.
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
    /// What `monitor` tells of `changes`, of which nothing is made yet.
    #[must_use]
    pub fn new(monitor: Arc<Monitor>, schema: Arc<Schema>, changes: Arc<Changes>) -> Self {
        let (text, place) = (Vec::new(), Place::default());
        Self { monitor, schema, changes, text, place, frame: None, any: false }
    }

    /// Goes on for about so many steps. Answers whether there is more to do.
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

    /// Whether the next change takes more than so many steps, because its row has very large values. The caller then goes on
    /// where it keeps nobody waiting.
    #[must_use]
    pub fn is_long(&self, steps: usize) -> bool {
        let Some(change) = self.place.next(&self.changes) else { return false };
        let monitored = self.monitor.table(change.table);
        monitored
            .is_some_and(|monitored| monitored.change_steps(self.monitor.version, change) > steps)
    }

    /// The object, when all is done; none if the client is to hear nothing.
    #[must_use]
    pub fn into_text(self) -> Option<Vec<u8>> {
        self.any.then_some(self.text)
    }
}

impl Monitor {
    /// The steps that it takes to tell of one changed row of each table that it watches, apart from what depends on the
    /// size of its values.
    pub fn row_steps(&self) -> impl Iterator<Item = (TableId, usize)> {
        self.tables.iter().map(|monitored| (monitored.table, monitored.row_steps(self.version)))
    }
}

/// The steps that so many rows take which take so many each, and are of so many bytes together.
#[must_use]
pub const fn steps_of(rows: usize, row_steps: usize, bytes: usize) -> usize {
    rows.saturating_mul(row_steps).saturating_add(bytes / STEP_BYTES)
}

/// The bytes of changed rows that are told in so many steps.
#[must_use]
pub const fn steps_bytes(steps: usize) -> usize {
    steps.saturating_mul(STEP_BYTES)
}
