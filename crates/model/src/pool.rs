//! Rows of the table Pool.
//!
//! Columns that are not set have the values of a new pool: stopped, without a range and without a maximum of threads,
//! transient. The pool named `default` is the one that always exists.

use crate::error::ModelError;
use crate::reader::Reader;
use paceline_pools::{DEFAULT_NAME, PoolSpec, PoolState, QueueBounds, Range};
use paceline_types::{PoolId, Priority};

/// The pool that a row describes.
pub(crate) fn read(row: Reader<'_>, id: PoolId) -> Result<PoolSpec, ModelError> {
    let name = row.text("name");
    let is_default = name == DEFAULT_NAME;
    let plain = if is_default { PoolSpec::default_pool() } else { PoolSpec::new(id, name) };
    let state = match row.optional("state") {
        Some("started") => PoolState::Started,
        Some("draining") => PoolState::Draining,
        Some(_) => PoolState::Stopped,
        None => plain.state,
    };
    let queue = QueueBounds {
        len_max: row.number("queue_max_len")?.unwrap_or(plain.queue.len_max),
        delay_max: row.parsed("queue_max_delay")?,
    };
    Ok(PoolSpec {
        range: range(row)?,
        threads_min: row.number("threads_min")?.unwrap_or(plain.threads_min),
        threads_max: row.number("threads_max")?.or(plain.threads_max),
        queue,
        state,
        persistent: row.flag("persistent") || is_default,
        group: row.optional("group").map(Into::into),
        stack_bytes: row.number("stack_bytes")?,
        heap_bytes_max: row.number("heap_bytes_max")?,
        ..plain
    })
}

fn range(row: Reader<'_>) -> Result<Option<Range>, ModelError> {
    let priority = |column| match row.integer(column) {
        Some(number) => Priority::new(number)
            .map(Some)
            .ok_or_else(|| row.error(column, format!("{number} is not within -127 to 127"))),
        None => Ok(None),
    };
    match (priority("priority_min")?, priority("priority_max")?) {
        (None, None) => Ok(None),
        (Some(low), Some(high)) => Range::new(low, high).map(Some).ok_or_else(|| {
            row.error("priority_max", format!("{high} is less than priority_min, which is {low}"))
        }),
        (Some(_), None) => {
            Err(row.error("priority_max", "expected a number, because priority_min is set".into()))
        }
        (None, Some(_)) => {
            Err(row.error("priority_min", "expected a number, because priority_max is set".into()))
        }
    }
}
