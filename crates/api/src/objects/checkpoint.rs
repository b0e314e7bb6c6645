//! Checkpoints.

use super::Object;
use super::fields::{Field, Kind};

/// The table Checkpoint.
pub(super) struct Checkpoint;

const U32_MAX: i64 = u32::MAX as i64;

impl Object for Checkpoint {
    const WORD: &'static str = "checkpoint";
    const TABLE: &'static str = "Checkpoint";
    const KEY: &'static str = "name";
    const FIELDS: &'static [Field] = &[
        Field { member: "at", column: "at", kind: Kind::RequiredText },
        Field { member: "on", column: "on", kind: Kind::Word(&["request", "connection"]) },
        Field { member: "number", column: "number", kind: Kind::Number(0, U32_MAX) },
        Field { member: "when", column: "when", kind: Kind::Text },
        Field { member: "key", column: "key", kind: Kind::Text },
        Field { member: "fair", column: "fair", kind: Kind::Text },
        Field { member: "weight", column: "weight", kind: Kind::Text },
        Field { member: "rate", column: "rate", kind: Kind::Text },
        Field { member: "burst", column: "burst", kind: Kind::Number(1, U32_MAX) },
        Field { member: "concurrency", column: "concurrency", kind: Kind::Number(0, U32_MAX) },
        Field { member: "period", column: "period", kind: Kind::Text },
        Field { member: "queue.max_len", column: "queue_max_len", kind: Kind::Number(0, i64::MAX) },
        Field {
            member: "queue.max_total",
            column: "queue_max_total",
            kind: Kind::Number(0, i64::MAX),
        },
        Field { member: "queue.max_delay", column: "queue_max_delay", kind: Kind::Text },
        Field { member: "keys_max", column: "keys_max", kind: Kind::Number(1, i64::MAX) },
        Field { member: "status", column: "status", kind: Kind::Number(400, 599) },
        Field { member: "mode", column: "mode", kind: Kind::Word(&["enforce", "watch"]) },
        Field { member: "persistent", column: "persistent", kind: Kind::Flag },
    ];
    const FIGURES: &'static [&'static str] =
        &["arrived", "passed", "refused", "queued", "inflight", "keys"];
}
