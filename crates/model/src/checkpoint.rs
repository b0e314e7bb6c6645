//! Rows of the table Checkpoint.
//!
//! A row with `rate` limits the rate, a row with `concurrency` limits the concurrency, a row with neither only
//! counts.

use crate::error::ModelError;
use crate::reader::Reader;
use paceline_checkpoints::{Limit, Mode, QueueSpec, Rate, Spec};
use paceline_types::{CheckpointId, On};

/// The checkpoint that a row describes.
pub(crate) fn read(row: Reader<'_>, id: CheckpointId) -> Result<Spec, ModelError> {
    let at = row.text("at").parse();
    let at = at.map_err(|error| row.error("at", format!("{error}")))?;
    let plain = Spec::new(id, row.text("name"), at, limit(row)?);
    let queue = QueueSpec {
        len_max: row.number("queue_max_len")?.unwrap_or(plain.queue.len_max),
        total_max: row.number("queue_max_total")?.unwrap_or(plain.queue.total_max),
        delay_max: row.parsed("queue_max_delay")?.unwrap_or(plain.queue.delay_max),
    };
    let on = if row.optional("on") == Some("connection") { On::Connection } else { On::Request };
    Ok(Spec {
        on,
        number: row.number("number")?.unwrap_or(plain.number),
        when: row.owned("when"),
        key: row.owned("key"),
        fair: row.owned("fair"),
        weight: row.owned("weight"),
        period: row.parsed("period")?.unwrap_or(plain.period),
        queue,
        keys_max: row.number("keys_max")?.unwrap_or(plain.keys_max),
        status: row.number("status")?.unwrap_or(plain.status),
        mode: if row.optional("mode") == Some("watch") { Mode::Watch } else { Mode::Enforce },
        ..plain
    })
}

fn limit(row: Reader<'_>) -> Result<Limit, ModelError> {
    let rate: Option<Rate> = row.parsed("rate")?;
    let (burst, concurrency) = (row.number("burst")?, row.number("concurrency")?);
    match (rate, concurrency) {
        (Some(_), Some(_)) => {
            let message = "a checkpoint has rate or concurrency, not both; make a second one";
            Err(row.error("concurrency", message.into()))
        }
        (Some(rate), None) => Ok(rate.limit(burst.unwrap_or(1))),
        (None, _) if burst.is_some() => {
            Err(row.error("burst", "expected none, because rate is not set".into()))
        }
        (None, Some(concurrency)) => Ok(Limit::Concurrency(concurrency)),
        (None, None) => Ok(Limit::Count),
    }
}
