//! The cost of answers: the memory that they keep, and the bytes to send.
//!
//! Owns nothing, and never reads many rows in full: it weighs the first ones.

use crate::database::SELECTED_ROWS_MIN;
use paceline_tables::{Error, OpResult};
use paceline_types::limits::REPLY_BYTES_MAX;

/// The memory that only this result keeps. Rows are weighed with their snapshot, if that is kept; if not, they
/// are few and small, and each counts.
pub(super) fn result_own(result: &OpResult) -> usize {
    match result {
        OpResult::Rows(selected) => match selected.beside_pinned() {
            Some(beside) => 64 + size_of_val(selected.rows()) + beside,
            None => result_cost(result),
        },
        OpResult::Nulls(_) => 64,
        other => result_cost(other),
    }
}

/// The approximate number of bytes to send for a result.
pub(super) fn result_cost(result: &OpResult) -> usize {
    match result {
        OpResult::Rows(selected) => {
            // If there are more rows than this, they are pinned, so an estimate is enough.
            let (rows, weighed) = (selected.rows().len(), SELECTED_ROWS_MIN);
            let memory = selected.memory(weighed, REPLY_BYTES_MAX);
            32 + memory.saturating_mul(rows) / rows.clamp(1, weighed)
        }
        OpResult::Error(error) => error_cost(error),
        OpResult::Nulls(count) => 64 + count * b"null,".len(),
        _ => 64,
    }
}

/// The same for an error.
pub(super) fn error_cost(error: &Error) -> usize {
    64 + error.details.len() + error.syntax.as_ref().map_or(0, String::len)
}
