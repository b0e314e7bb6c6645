//! The configuration as one TOML text: applied in one transaction, or only compared, and exported.
//!
//! The text is read and checked as a whole; whatever is wrong with it is told with its line and
//! column, everything at once, and changes nothing.

use crate::identity::Identity;
use crate::objects::own_problem;
use crate::respond::{Answer, Problem, ok, shown};
use crate::{Shared, body, query};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Uri};
use axum::response::IntoResponse as _;
use paceline_config::{Change, ChangeOp, ConfigError, Document};
use paceline_host::{Author, Hosted, own};
use paceline_tables::{Error, tag};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// What takes much memory or time, such as reading a long text or copying a database, is done so often
/// at a time; others wait for their turn.
static PLACES: Semaphore = Semaphore::const_new(2);

/// How long an answer waits for the HTTP door to open what the text says.
const DOOR_WAIT: Duration = Duration::from_secs(2);

/// Waits for a place among those who do something large.
pub(crate) async fn place() -> Result<SemaphorePermit<'static>, Problem> {
    PLACES.acquire().await.map_err(|_| Problem::internal("no places for large work"))
}

/// The daemon's own database.
pub(crate) fn own_database(app: &Shared) -> Result<Arc<Hosted>, Problem> {
    app.host.database(own::DATABASE).ok_or_else(|| Problem::internal("there is no database"))
}

/// `POST /v1/apply`
pub(crate) async fn apply(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let (dry_run, directory) = (query::flag(&uri, "dry_run")?, directory(&uri)?);
    // The place is taken last, so that a slow client keeps no other one from it. The text counts until it is applied.
    let (text, _share) = body::toml(&app, &identity, &headers, body).await?;
    let _place = place().await?;
    let database = own_database(&app)?;
    // A long text takes a while, which others must not feel.
    let changes = tokio::task::block_in_place(|| {
        let document = read(&text, directory.as_deref())?;
        make(&database, &document, &identity, dry_run)
    })?;
    if !dry_run {
        // Whoever asks for the status next learns whether frontends could be opened.
        let _ = tokio::time::timeout(DOOR_WAIT, app.host.control().door_follows()).await;
    }
    ok(&Value::Array(changes))
}

/// Where the text was read, so that relative names of files in it mean something.
fn directory(uri: &Uri) -> Result<Option<String>, Problem> {
    match query::text(uri, "directory")? {
        Some(directory) if !directory.starts_with('/') || directory.contains('\0') => {
            let found = shown(&directory);
            Err(Problem::bad_request(format!(
                "directory: expected an absolute path, found {found:?}"
            )))
        }
        directory => Ok(directory),
    }
}

fn read(text: &str, directory: Option<&str>) -> Result<Document, Problem> {
    if text.trim().is_empty() {
        // It is what a program that failed writes, and would delete everything.
        let hint = "if it shall delete what an earlier text made, put a comment in it";
        let (message, hint) = ("there is nothing in the text".into(), Some(hint.into()));
        return Err(wrong(&[ConfigError { line: 1, column: 1, message, hint }]));
    }
    let document = paceline_config::parse(text).map_err(|errors| wrong(&errors))?;
    let document = match directory {
        Some(directory) => document.within(directory),
        None => document,
    };
    document.check().map_err(|errors| wrong(&errors))?;
    Ok(document)
}

/// Makes the database say what the file says, or only finds out whether that would work.
fn make(
    database: &Arc<Hosted>,
    document: &Document,
    identity: &Identity,
    dry_run: bool,
) -> Result<Vec<Value>, Problem> {
    let mut changes = vec![];
    let operations = |store: &paceline_tables::Store| {
        let applied = document.apply(store);
        changes = applied.told().map(describe).collect();
        applied.operations
    };
    let title = identity.title();
    let author = Author { name: &title, role: identity.role };
    let done = match dry_run {
        true => database.try_edit(author, operations),
        false => database.edit(author, operations),
    };
    done.map_err(|error| refused(document, &error))?;
    Ok(changes)
}

fn describe(change: &Change) -> Value {
    let op = match change.op {
        ChangeOp::Insert => "create",
        ChangeOp::Update => "change",
        ChangeOp::Delete => "delete",
    };
    let mut described = json!({ "op": op, "kind": change.kind(), "name": change.row });
    if change.op == ChangeOp::Update {
        described["members"] = change.members().into();
    }
    if change.is_taken_over() {
        described["taken_over"] = true.into();
    }
    described
}

/// What is wrong with a text.
fn wrong(errors: &[ConfigError]) -> Problem {
    let each = errors.iter().map(|error| {
        let mut told = json!({
            "line": error.line, "column": error.column, "message": error.message,
        });
        if let Some(hint) = &error.hint {
            told["hint"] = hint.as_str().into();
        }
        told
    });
    Problem::configuration(each.collect())
}

/// A file that is right by itself does not fit the rest of the database: where it says what does not
/// fit, if that is in the file.
fn refused(document: &Document, error: &Error) -> Problem {
    let problem = own_problem(error);
    let Some(violation) = error.violation.as_ref().filter(|_| error.tag != tag::PERMISSION) else {
        return problem;
    };
    let Some(row) = violation.row.as_deref() else { return problem };
    match document.place_of(&violation.table, row, violation.column.as_deref()) {
        Some(place) => Problem::configuration(vec![json!({
            "line": place.line, "column": place.column, "message": error.details,
        })]),
        None => match document.next_about(&violation.table, row) {
            Some(next) => problem.hint(next),
            None => problem,
        },
    }
}

/// `GET /v1/config`
pub(crate) async fn export(State(app): State<Shared>) -> Answer {
    let _place = place().await?;
    let database = own_database(&app)?;
    let text = tokio::task::block_in_place(|| {
        database.written().map(|rows| paceline_config::export(&rows))
    });
    let text = text.map_err(|error| own_problem(&error))?;
    Ok(([(CONTENT_TYPE, "application/toml")], text).into_response())
}
