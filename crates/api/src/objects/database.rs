//! Transactions on Paceline's own database, and what their errors mean to a client.

use super::Object;
use super::is_row;
use crate::App;
use crate::identity::Identity;
use crate::respond::{Problem, shown};
use paceline_catalogue::kind_of;
use paceline_host::{Host, Interest, Outgoing, Reply, Session, Ticket, own};
use paceline_tables::{Error, OpResult, Violation, json as tables_json, tag};
use serde_json::{Map, Value, json};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// Columns of a row, as the database writes them.
pub(crate) type Row = Map<String, Value>;

/// Deepest nesting of what is sent to the database.
const DEPTH_MAX: usize = 128;

/// A session for one transaction, ended when this is dropped.
struct OneUse {
    host: Arc<Host>,
    session: Arc<Session>,
}

impl Drop for OneUse {
    fn drop(&mut self) {
        self.host.end_session(&self.session);
    }
}

/// Runs operations as one transaction. The session has the caller's name, so that whoever watches or
/// audits the database sees who it was.
pub(crate) async fn transact(
    app: &App,
    identity: &Identity,
    operations: Vec<Value>,
) -> Result<Vec<OpResult>, Error> {
    let gone = |what: &str| Error::new(tag::IO, what.to_owned());
    let database = app.host.database(own::DATABASE).ok_or_else(|| gone("there is no database"))?;
    let text = Value::Array(operations).to_string();
    let parsed = tables_json::parse(text.as_bytes(), DEPTH_MAX)?;
    let operations = parsed.as_array().unwrap_or_default().to_vec();
    let title = identity.title();
    let session = app.host.begin_session(Some(identity.role), |id| format!("{title}#{}", id.0));
    let one_use = OneUse { host: Arc::clone(&app.host), session: Arc::clone(&session) };
    // Planning an edit of many rules takes a while, which others must not feel.
    tokio::task::block_in_place(|| {
        let ticket: Ticket = Arc::from(&b"0"[..]);
        database.transact(&session, [(ticket, operations)]);
        database.flush();
    });
    let reply = reply(&session).await;
    drop(one_use);
    match reply {
        Some(Reply::Results(results)) => {
            let failed = results.iter().find_map(|result| match result {
                OpResult::Error(error) => Some(error.clone()),
                _ => None,
            });
            failed.map_or(Ok(results), Err)
        }
        Some(Reply::Failed(error)) => Err(error),
        _ => Err(gone("the transaction was not answered")),
    }
}

async fn reply(session: &Session) -> Option<Reply> {
    poll_fn(|cx| {
        loop {
            match session.outbox.take() {
                Some(Outgoing::Reply(_, reply)) => return Poll::Ready(Some(reply)),
                Some(_) => continue,
                None if session.outbox.closed().is_some() => return Poll::Ready(None),
                None if session.outbox.register(cx.waker(), Interest::Items) => continue,
                None => return Poll::Pending,
            }
        }
    })
    .await
}

/// Runs an edit, which is answered when it is on disk.
pub(crate) async fn edit(
    app: &App,
    identity: &Identity,
    mut operations: Vec<Value>,
) -> Result<Vec<OpResult>, Error> {
    operations.push(json!({ "op": "commit", "durable": true }));
    transact(app, identity, operations).await
}

/// The operation that selects rows.
pub(super) fn select(table: &str, found: Value) -> Value {
    json!({ "op": "select", "table": table, "where": found })
}

/// The rows of the first select in `results`.
pub(crate) fn rows(results: &[OpResult]) -> Vec<Row> {
    let selected = results.iter().find_map(|result| match result {
        OpResult::Rows(selected) => Some(selected),
        _ => None,
    });
    let Some(selected) = selected else { return Vec::new() };
    let row = |at: usize| {
        let mut text = Vec::new();
        selected.write_row(at, &mut text);
        serde_json::from_slice(&text).unwrap_or_default()
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
    identity: &Identity,
    table: &str,
) -> Result<Vec<Row>, Problem> {
    let results = transact(app, identity, vec![select(table, json!([]))]).await;
    results.map(|results| rows(&results)).map_err(|error| own_problem(&error))
}

/// The row of this name or number.
pub(super) async fn select_one<O: Object>(
    app: &App,
    identity: &Identity,
    key: &str,
) -> Result<Option<Row>, Problem> {
    let found = is_row::<O>(key)?;
    let results = transact(app, identity, vec![select(O::KIND.table, found)]).await;
    // A name that no row can have is an error of the database's, and the caller's.
    results.map(|results| first_row(&results)).map_err(|error| problem::<O>(&error, key))
}

/// The answer to whoever makes what is there.
pub(super) fn exists<O: Object>() -> Problem {
    Problem::conflict(format!("a {} of this {} exists already", O::KIND.word, O::KIND.id))
}

/// What an error of the database means to whoever edited the object `key`.
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

/// What an error of the database means to whoever edited several objects.
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
        "timed out" => Problem::conflict("what the edit is based on changed meanwhile")
            .hint("look again and send the edit once more"),
        tag::RESOURCES | tag::IO => Problem::not_kept(error),
        tag::NOT_ALLOWED => Problem::permission().hint(error.details.clone()),
        tag::SYNTAX => Problem::bad_request(error.details.clone()),
        _ => Problem::internal(&error.to_string()),
    }
}

/// That the role of the caller is too low, for which change, and which role would do.
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

/// What an error of the database means to a client that deleted the object `key`: a row that cannot be without it is
/// named.
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

/// What people call the rows of a table.
fn word_of(table: &str) -> String {
    kind_of(table).map_or_else(|| table.to_lowercase(), |kind| kind.word.to_owned())
}
