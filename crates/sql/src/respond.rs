//! The one place where refusals and failures become errors and notices of PostgreSQL.
//!
//! No other module of this crate chooses a SQLSTATE, except for the relay's own errors. Every error says what happened and
//! where; the detail names the rule, the checkpoint or the pool, and the hint says what the client can do.

use paceline_host::{Full, Why};
use paceline_postgres::wire::SqlState;
use paceline_postgres::wire::report::Report;
use paceline_types::{Reason, Refusal, RequestId, Time};

/// The error for a transaction that was refused at `now`.
pub(crate) fn refused(id: RequestId, refusal: &Refusal, now: Time) -> Report {
    let report = Report::error(state(&refusal.reason), message(&refusal.reason));
    let report = report.detail(format!("{}; why id {id}", refusal.reason));
    match (refusal.retry_at, &refusal.reason) {
        (Some(at), _) => {
            let wait = at.since(now).rounded();
            report.hint(format!("Try again in {wait}."))
        }
        (None, Reason::Rejected { rule }) => {
            report.hint(format!("Rule {rule} rejects such statements; an operator can change it."))
        }
        (None, _) => report,
    }
}

/// The error for a statement that a rule rejects, without having been submitted.
pub(crate) fn rejected(refusal: &Refusal, now: Time) -> Report {
    let report = Report::error(state(&refusal.reason), message(&refusal.reason));
    let report = report.detail(refusal.reason.to_string());
    match refusal.retry_at {
        Some(at) => report.hint(format!("Try again in {}.", at.since(now).rounded())),
        None => report,
    }
}

/// The error for a statement that cannot be a request.
pub(crate) fn invalid(error: &dyn std::error::Error) -> Report {
    Report::error(SqlState::PROGRAM_LIMIT_EXCEEDED, error.to_string())
}

fn message(reason: &Reason) -> &'static str {
    match reason {
        Reason::Rejected { .. } => "the statement was rejected by a rule",
        Reason::QueueFull { .. } => "the statement was refused: the queue is full",
        Reason::TooLong { .. } => "the statement was refused: the wait would be too long",
        Reason::Expired { .. } => "the statement waited too long",
        Reason::CostTooHigh { .. } => "the statement costs more than its limit allows",
        Reason::Draining { .. } => "the pool accepts no new statements",
        Reason::Ending => "the server is shutting down",
        Reason::Cancelled { .. } => "canceling statement due to an operator's request",
        Reason::Deadlock { .. } => "deadlock detected",
        Reason::Exhausted { .. } => "resources exhausted",
        Reason::NoBackend { .. }
        | Reason::NoServer { .. }
        | Reason::BackendDeleted { .. }
        | Reason::UnknownResource { .. }
        | Reason::TooWide { .. }
        | Reason::BlocksItself { .. }
        | Reason::NotOwner { .. } => "the statement was refused",
    }
}

const fn state(reason: &Reason) -> SqlState {
    match reason {
        // The statement is well-formed and will be refused again: only another rule changes that.
        Reason::Rejected { .. } => SqlState::INSUFFICIENT_PRIVILEGE,
        Reason::Cancelled { .. } => SqlState::QUERY_CANCELED,
        Reason::Ending => SqlState::CANNOT_CONNECT_NOW,
        Reason::Deadlock { .. } => SqlState::DEADLOCK_DETECTED,
        Reason::Exhausted { .. } => SqlState::INSUFFICIENT_RESOURCES,
        Reason::NotOwner { .. } | Reason::BlocksItself { .. } => SqlState::LOCK_NOT_AVAILABLE,
        Reason::UnknownResource { .. } | Reason::TooWide { .. } => SqlState::UNDEFINED_OBJECT,
        Reason::QueueFull { .. }
        | Reason::TooLong { .. }
        | Reason::Expired { .. }
        | Reason::CostTooHigh { .. }
        | Reason::Draining { .. }
        | Reason::NoBackend { .. }
        | Reason::NoServer { .. }
        | Reason::BackendDeleted { .. } => SqlState::TOO_MANY_CONNECTIONS,
    }
}

/// The notice for a statement that waits.
pub(crate) fn waits(why: &Why, now: Time) -> Report {
    let behind = match why.in_line() {
        0 => "it is the next one".to_owned(),
        1 => "1 request is ahead".to_owned(),
        count => format!("{count} requests are ahead"),
    };
    let waited = now.since(why.since).rounded();
    let report = Report::notice(format!("the statement {}: {behind}", why.waits_for));
    report.detail(format!("it has waited {waited}; why id {}", why.id))
}

/// The error when no connection to a server of the target can be had.
pub(crate) fn no_server(target: &str, why: &str) -> Report {
    Report::error(SqlState::CANNOT_CONNECT, format!("no server of \"{target}\": {why}"))
}

/// The error for a client that names a database which is not a target.
pub(crate) fn unknown_database(name: &str) -> Report {
    Report::fatal(SqlState::INVALID_DATABASE_NAME, format!("database \"{name}\" does not exist"))
}

/// The error for a login that failed: the same for an unknown user and for a wrong password.
pub(crate) fn wrong_password(user: &str) -> Report {
    let message = format!("password authentication failed for user \"{user}\"");
    Report::fatal(SqlState::INVALID_PASSWORD, message)
}

/// The error for a client whose user or SQL password was deleted since its login.
pub(crate) fn no_password(user: &str) -> Report {
    let message = format!("user \"{user}\" may not log in any more");
    Report::error(SqlState::INVALID_AUTHORIZATION, message)
}

/// The error for a local user who names another one.
pub(crate) fn another_user(user: &str, own: &str) -> Report {
    let message = format!("peer authentication failed for user \"{user}\"");
    Report::fatal(SqlState::INVALID_AUTHORIZATION, message)
        .hint(format!("On the unix socket you are \"{own}\"."))
}

/// The error for a client that has too many connections.
pub(crate) fn too_many(full: Full) -> Report {
    Report::fatal(SqlState::TOO_MANY_CONNECTIONS, full.to_string())
}

/// The error when a login takes too long.
pub(crate) fn slow_login() -> Report {
    Report::fatal(SqlState::PROTOCOL_VIOLATION, "the login was not completed in time")
}

/// The error for a client whose messages would need more memory than is left.
pub(crate) fn no_memory() -> Report {
    Report::fatal(SqlState::OUT_OF_MEMORY, "there is no memory left for long messages")
}

/// The end of a connection that is idle when the daemon ends.
pub(crate) fn ending() -> Report {
    Report::fatal(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}
