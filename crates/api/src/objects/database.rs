//! Transactions on Paceline's own database, and the meaning of their errors for a client.

use super::values::Row;
use super::{Object, identity, tests_of};
use crate::App;
use crate::identity::Identity;
use crate::respond::{Problem, shown};
use paceline_catalogue::kind_of;
use paceline_host::{Author, Hosted, own};
use paceline_tables::{Error, OpResult, Transaction, Violation, tag};
use serde_json::json;
use std::sync::Arc;

/// The daemon's own database.
pub(super) fn own_database(app: &App) -> Result<Arc<Hosted>, Error> {
    let missing = || Error::new(tag::IO, "there is no database");
    app.host.database(own::DATABASE).ok_or_else(missing)
}

/// A transaction without operations.
pub(super) fn begin(app: &App) -> Result<Transaction, Problem> {
    let database = own_database(app).map_err(|error| own_problem(&error))?;
    Ok(Transaction::on(&database.schema()))
}

/// Runs a transaction as the caller, whose name monitors and the audit log show.
pub(crate) async fn transact(
    app: &App,
    caller: &Identity,
    transaction: Transaction,
) -> Result<Vec<OpResult>, Error> {
    // The number distinguishes the calls of one caller.
    let name = format!("{}#{}", caller.title(), app.host.number_call().0);
    let author = Author { name: &name, role: caller.role };
    own_database(app)?.transact_as(author, transaction).await
}

/// Runs an edit, which is answered when it is on disk.
pub(crate) async fn edit(
    app: &App,
    caller: &Identity,
    transaction: Transaction,
) -> Result<Vec<OpResult>, Error> {
    transact(app, caller, transaction.durable()).await
}

/// The rows of the first select in `results`.
pub(crate) fn rows(results: &[OpResult]) -> Vec<Row> {
    let selected = results.iter().find_map(|result| match result {
        OpResult::Rows(selected) => Some(selected),
        _ => None,
    });
    let Some(selected) = selected else { return Vec::new() };
    let row = |at: usize| {
        let columns = selected.columns(at);
        columns.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    };
    (0..selected.rows().len()).map(row).collect()
}

/// The first row of the last select in `results`.
pub(super) fn first_row(results: &[OpResult]) -> Option<Row> {
    let last = results.iter().rposition(|result| matches!(result, OpResult::Rows(_)))?;
    rows(results.get(last..)?).into_iter().next()
}

/// All rows of a table.
pub(crate) async fn select_all(
    app: &App,
    caller: &Identity,
    table: &str,
) -> Result<Vec<Row>, Problem> {
    let results = transact(app, caller, begin(app)?.select(table, [])).await;
    results.map(|results| rows(&results)).map_err(|error| own_problem(&error))
}

/// The row of this name or number.
pub(super) async fn select_one<O: Object>(
    app: &App,
    caller: &Identity,
    key: &str,
) -> Result<Option<Row>, Problem> {
    let found = identity::<O>(key)?;
    let select = begin(app)?.select(O::KIND.table, tests_of(&found));
    let results = transact(app, caller, select).await;
    // A name that no row can have is an error of the database, and the caller's mistake.
    results.map(|results| first_row(&results)).map_err(|error| problem::<O>(&error, key))
}

/// The answer to a client that creates an object that exists.
pub(super) fn exists<O: Object>() -> Problem {
    Problem::conflict(format!("a {} of this {} exists already", O::KIND.word, O::KIND.id))
}

/// The problem to report for an error of the database, to a client that edited the object `key`.
pub(super) fn problem<O: Object>(error: &Error, key: &str) -> Problem {
    match (error.tag, &error.violation) {
        (tag::CONSTRAINT, None) if error.details.contains("identical values") => exists::<O>(),
        (tag::CONSTRAINT | tag::REFERENCE, None) => Problem::constraint(
            error.details.clone(),
            json!({ "table": O::KIND.table, "row": key }),
        ),
        _ => own_problem(error),
    }
}

/// The problem to report for an error of the database, to a client that edited several objects.
pub(crate) fn own_problem(error: &Error) -> Problem {
    if error.tag == tag::PERMISSION {
        return refused(error);
    }
    if let Some(Violation { table, row, column, message }) = error.violation.as_deref() {
        let mut place = json!({ "table": table });
        for (name, value) in [("row", row), ("column", column)] {
            if let Some(value) = value {
                place[name] = value.as_str().into();
            }
        }
        return Problem::constraint(message.clone(), place);
    }
    match error.tag {
        tag::CONSTRAINT | tag::REFERENCE => Problem::constraint(error.details.clone(), json!({})),
        tag::TIMED_OUT => Problem::conflict("the object changed meanwhile")
            .hint("read it again and repeat the edit"),
        tag::RESOURCES | tag::IO => Problem::not_kept(error),
        // No other reason forbids changes of this database.
        tag::NOT_ALLOWED => Problem::read_only(),
        tag::SYNTAX => Problem::bad_request(error.details.clone()),
        _ => Problem::internal(&error.to_string()),
    }
}

/// The refusal because the caller's role is too low: which change needs which role.
fn refused(error: &Error) -> Problem {
    let hint = match error.violation.as_deref() {
        Some(Violation { table, row, column, message }) => {
            let row = row.as_deref().unwrap_or_default();
            let column =
                column.as_deref().map(|column| format!("`{column}`: ")).unwrap_or_default();
            format!("{} {row}: {column}{message}; GET /v1/whoami shows yours", word_of(table))
        }
        None => error.details.clone(),
    };
    Problem::permission().hint(hint)
}

/// The problem to report for an error of the database, to a client that deleted the object `key`. It names a
/// row that depends on the object.
pub(super) fn delete_problem<O: Object>(error: &Error, key: &str) -> Problem {
    let problem = problem::<O>(error, key);
    let Some(Violation { table, row: Some(row), column, .. }) = error.violation.as_deref() else {
        return problem;
    };
    let is_other = (table.as_str(), row.as_str()) != (O::KIND.table, key);
    if error.tag == tag::PERMISSION || !is_other {
        return problem;
    }
    let (own, user) = (O::KIND.word, word_of(table));
    let column = column.as_deref().map(|column| format!(" in `{column}`")).unwrap_or_default();
    let message = format!("{own} {:?} is used by {user} {row}{column}", shown(key));
    problem.message(message).hint(format!("change or delete {user} {row} first"))
}

/// The word for the rows of a table in messages.
fn word_of(table: &str) -> String {
    kind_of(table).map_or_else(|| table.to_lowercase(), |kind| kind.word.to_owned())
}
