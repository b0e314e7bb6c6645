//! The configuration as one TOML text: applied in one transaction, or only compared, and exported.
//!
//! The text is parsed and checked as a whole. All errors are reported at once, each with its line and column, and then
//! nothing is changed.

use crate::identity::Identity;
use crate::objects::own_problem;
use crate::respond::{Answer, Problem, ok, shown};
use crate::turns::wait;
use crate::{Shared, body, large, query};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Uri};
use paceline_config::{
    Applied, Change, ChangeOp, ConfigError, Document, How, Others, Place, Warning,
};
use paceline_host::{Author, Hosted, own};
use paceline_tables::{Error, Snapshot, tag};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The media type of a configuration.
const TOML: HeaderValue = HeaderValue::from_static("application/toml");

/// How long an answer waits for the HTTP door to apply the text.
const DOOR_WAIT: Duration = Duration::from_secs(2);

/// The daemon's own database.
pub(crate) fn own_database(app: &Shared) -> Result<Arc<Hosted>, Problem> {
    app.host.database(own::DATABASE).ok_or_else(|| Problem::internal("there is no database"))
}

/// The file that owns the objects of a text if the query names none.
const FILE: &str = "api";

/// Longest name of a file.
const FILE_BYTES_MAX: usize = 255;

/// How many objects a text may delete by default.
const DELETIONS_MAX: u64 = 5;

/// The parameters of an apply.
struct Asked {
    dry_run: bool,
    strict: bool,
    how: How,
    /// The name of the file that the text belongs to.
    file: String,
    directory: Option<String>,
    deletions_max: usize,
}

impl Asked {
    fn read(uri: &Uri) -> Result<Self, Problem> {
        let (reset, take_over) = (query::flag(uri, "reset")?, query::flag(uri, "take_over")?);
        let most = query::number(uri, "deletions_max", DELETIONS_MAX, u64::MAX)?;
        Ok(Self {
            dry_run: query::flag(uri, "dry_run")?,
            strict: query::flag(uri, "strict")?,
            how: How { reset, take_over, ..How::default() },
            file: file(uri)?.unwrap_or_else(|| FILE.to_owned()),
            directory: directory(uri)?,
            deletions_max: usize::try_from(most).unwrap_or(usize::MAX),
        })
    }
}

/// `POST /v1/apply`
pub(crate) async fn apply(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let asked = Asked::read(&uri)?;
    // The place is taken last, so that a slow client does not block others. The text counts until it is
    // applied.
    let (text, _share) = body::toml(&app, &identity, &headers, body).await?;
    let _place = wait(&app.answers.working, &identity).await;
    let database = own_database(&app)?;
    // A long text takes a while, so it is applied where it does not delay other tasks.
    let told = tokio::task::block_in_place(|| {
        let (document, warnings) = read(&text, &asked, &database)?;
        let mut told = make(&database, &document, &identity, &asked)?;
        told.extend(warnings.iter().map(|warning| {
            let mut told = json!({ "op": "warning", "message": warning.to_string() });
            if let Some(Place { line, column }) = warning.place {
                (told["line"], told["column"]) = (line.into(), column.into());
            }
            told
        }));
        Ok::<_, Problem>(told)
    })?;
    if !asked.dry_run {
        // A client that asks for the status next learns whether frontends could be opened.
        let _ = tokio::time::timeout(DOOR_WAIT, app.host.control().until_http_done()).await;
    }
    ok(&Value::Array(told))
}

/// The name of the file, if the query gives one.
fn file(uri: &Uri) -> Result<Option<String>, Problem> {
    match query::text(uri, "file")? {
        Some(file) if file.is_empty() || file.len() > FILE_BYTES_MAX || file.contains('\0') => Err(
            Problem::bad_request(format!("file: expected a name of 1 to {FILE_BYTES_MAX} bytes")),
        ),
        file => Ok(file),
    }
}

/// The directory where the text was read, which relative file names in it refer to.
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

/// The text as a document, and its warnings.
fn read(
    text: &str,
    asked: &Asked,
    database: &Arc<Hosted>,
) -> Result<(Document, Vec<Warning>), Problem> {
    if text.trim().is_empty() {
        // It is what a program that failed writes, and would delete everything.
        let hint = "to delete everything that an earlier text made, leave only a comment in it";
        let (message, hint) = ("there is nothing in the text".into(), Some(hint.into()));
        return Err(wrong(&[ConfigError { file: 0, line: 1, column: 1, message, hint }]));
    }
    let rest = "the rest is checked when these errors are corrected";
    let document = paceline_config::parse(text).map_err(|errors| wrong(&errors).hint(rest))?;
    let document = match &asked.directory {
        Some(directory) => document.within(directory),
        None => document,
    };
    let document = document.named(&asked.file);
    let rows = database.written().map_err(|error| own_problem(&error))?;
    let others = Others::besides(&document, &rows);
    let warnings = document.check_beside(&others).map_err(|errors| wrong(&errors))?;
    // A warning about an object of another file is reported only if it is new.
    let known = database.warnings();
    let is_ours = |warning: &Warning| warning.file.is_some() || !known.contains(&warning.text);
    let warnings: Vec<Warning> = warnings.into_iter().filter(is_ours).collect();
    match asked.strict && !warnings.is_empty() {
        true => Err(doubtful(&warnings)),
        false => Ok((document, warnings)),
    }
}

/// Warnings that the client takes for errors.
fn doubtful(warnings: &[Warning]) -> Problem {
    let each = warnings.iter().map(|warning| {
        let Place { line, column } = warning.place.unwrap_or(Place::START);
        json!({ "line": line, "column": column, "message": warning.text })
    });
    Problem::configuration(each.collect()).hint("warnings are errors because of strict")
}

/// Makes the database match the file, or only checks whether that would work.
fn make(
    database: &Arc<Hosted>,
    document: &Document,
    identity: &Identity,
    asked: &Asked,
) -> Result<Vec<Value>, Problem> {
    let mut told = Ok(vec![]);
    let operations = |store: &paceline_tables::Store| {
        let applied = document.apply(store, asked.how);
        told = allowed(&applied, asked).map(|()| describe_all(&applied));
        if told.is_ok() { applied.operations } else { vec![] }
    };
    let title = identity.title();
    let author = Author { name: &title, role: identity.role };
    let done = match asked.dry_run {
        true => database.try_edit(author, operations),
        false => database.edit(author, operations),
    };
    done.map_err(|error| refused(document, &error))?;
    told
}

/// Checks that no object of another file is taken over, and that no more are deleted than allowed.
fn allowed(applied: &Applied, asked: &Asked) -> Result<(), Problem> {
    if !applied.conflicts.is_empty() {
        return Err(wrong(&applied.conflicts));
    }
    let (deletions, most) = (applied.deletions(), asked.deletions_max);
    if asked.dry_run || deletions <= most {
        return Ok(());
    }
    let message = format!("{} would delete {deletions} objects, more than {most}", asked.file);
    let hint = format!("see which with dry_run=true, then say deletions_max={deletions}");
    Err(Problem::conflict(message).with("deletions", deletions.into()).hint(hint))
}

fn describe_all(applied: &Applied) -> Vec<Value> {
    let changes = applied.told().map(describe);
    let drift = applied.drifted().map(|change| {
        let mut described = describe(change);
        described["op"] = "drift".into();
        if change.op == ChangeOp::Delete {
            described["deleted"] = true.into();
        }
        described
    });
    changes.chain(drift).collect()
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
    if let Some(name) = &change.renamed {
        described["renamed"] = name.as_str().into();
    }
    if change.is_taken_over() {
        described["taken_over"] = true.into();
    }
    described
}

/// The errors of a text.
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

/// The error for a file that is valid by itself but does not fit the rest of the database, with the place in
/// the file, if it is there.
fn refused(document: &Document, error: &Error) -> Problem {
    let problem = own_problem(error);
    let Some(violation) = error.violation.as_ref().filter(|_| error.tag != tag::PERMISSION) else {
        return problem;
    };
    let Some(row) = violation.row.as_deref() else { return problem };
    match document.place_of(&violation.table, row, violation.column.as_deref()) {
        Some((_, place)) => Problem::configuration(vec![json!({
            "line": place.line, "column": place.column, "message": error.details,
        })]),
        None => match document.next_about(&violation.table, row) {
            Some(next) => problem.hint(next),
            None => problem,
        },
    }
}

/// `GET /v1/config`
pub(crate) async fn export(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
) -> Answer {
    let file = file(&uri)?;
    let database = own_database(&app)?;
    let rows = async { database.written().map_err(|error| own_problem(&error)) };
    let write = |rows: Snapshot, text: &mut large::Text| {
        text.plain(&match &file {
            Some(file) => paceline_config::export_of(&rows, file),
            None => paceline_config::export(&rows),
        })
    };
    large::text_of_rows(&app, &identity, TOML, rows, write).await
}
