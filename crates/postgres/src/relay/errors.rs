//! The relay's own errors, in the words of PostgreSQL where it has the same one.

use crate::wire::SqlState;
use crate::wire::report::Report;

/// The error of a statement in a failed transaction.
pub(super) fn failed_transaction() -> Report {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Report::error(SqlState::FAILED_TRANSACTION, message)
}

/// The error of a statement name that the client does not have.
pub(super) fn unknown_name(name: &[u8]) -> Report {
    let message = match name {
        b"" => "unnamed prepared statement does not exist".to_owned(),
        _ => format!("prepared statement \"{}\" does not exist", String::from_utf8_lossy(name)),
    };
    Report::error(SqlState::INVALID_STATEMENT_NAME, message)
}

/// The error of a Parse with a name that is in use.
pub(super) fn used_name(name: &[u8]) -> Report {
    let name = String::from_utf8_lossy(name);
    let message = format!("prepared statement \"{name}\" already exists");
    Report::error(SqlState::DUPLICATE_STATEMENT, message)
}

/// The error of a Bind with a portal name that is in use.
pub(super) fn used_portal(name: &[u8]) -> Report {
    let message = format!("cursor \"{}\" already exists", String::from_utf8_lossy(name));
    Report::error(SqlState::DUPLICATE_CURSOR, message)
}

/// The error of a second Execute of a statement without rows.
pub(super) fn finished_portal(name: &[u8]) -> Report {
    let message = format!("portal \"{}\" cannot be run", String::from_utf8_lossy(name));
    Report::error(SqlState::NOT_IN_PREREQUISITE_STATE, message)
}

/// The error of a client that reaches a limit.
pub(super) fn too_many(what: &str, max: usize) -> Report {
    let message = format!("too many {what}: at most {max} are allowed");
    Report::error(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
}
