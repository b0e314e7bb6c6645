//! The configuration as one TOML text, or as several files: applied in one transaction, or only compared, and exported.
//!
//! The texts are parsed and checked as a whole. All errors are reported at once, each with its line and column, and then
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

/// How long an answer waits for the HTTP door to apply a configuration.
pub(crate) const DOOR_WAIT: Duration = Duration::from_secs(2);

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
    deletions_max: usize,
}

/// A text to apply.
struct Text {
    /// The name of the file that it belongs to.
    file: String,
    directory: Option<String>,
    text: String,
}

/// The texts of one call, and whether they are named in its answer.
struct Texts {
    all: Vec<Text>,
    are_named: bool,
}

impl Asked {
    fn read(uri: &Uri) -> Result<Self, Problem> {
        let (reset, take_over) = (query::flag(uri, "reset")?, query::flag(uri, "take_over")?);
        let most = query::number(uri, "deletions_max", DELETIONS_MAX, u64::MAX)?;
        Ok(Self {
            dry_run: query::flag(uri, "dry_run")?,
            strict: query::flag(uri, "strict")?,
            how: How { reset, take_over, ..How::default() },
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
    let (file, directory) = (file_of(&uri)?.unwrap_or_else(|| FILE.to_owned()), directory(&uri)?);
    // The place is taken last, so that a slow client does not block others. The text counts until it is
    // applied.
    let (text, _share) = body::toml(&app, &identity, &headers, body).await?;
    let all = vec![Text { file, directory, text }];
    apply_all(&app, &identity, &asked, &Texts { all, are_named: false }).await
}

/// `POST /v1/apply-files`
pub(crate) async fn apply_files(
    State(app): State<Shared>,
    Extension(identity): Extension<Identity>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let asked = Asked::read(&uri)?;
    let (mut members, _share) = body::long_members(&app, &identity, &headers, body).await?;
    let mut all: Vec<Text> = vec![];
    for mut one in members.objects("files")? {
        let (file, text) = (one.required_text("file")?, one.required_text("text")?);
        let directory = one.text("directory")?;
        one.finish()?;
        let text = Text { file: named(file)?, directory: absolute(directory)?, text };
        if all.iter().any(|other| other.file == text.file) {
            let message = format!("files: two are called {:?}", shown(&text.file));
            return Err(Problem::bad_request(message));
        }
        all.push(text);
    }
    members.finish()?;
    if all.is_empty() {
        return Err(Problem::bad_request("files: expected at least one file"));
    }
    apply_all(&app, &identity, &asked, &Texts { all, are_named: true }).await
}

async fn apply_all(app: &Shared, identity: &Identity, asked: &Asked, texts: &Texts) -> Answer {
    let _place = wait(&app.answers.working, identity).await;
    let database = own_database(app)?;
    // A long text takes a while, so it is applied where it does not delay other tasks.
    let told = tokio::task::block_in_place(|| {
        let (document, warnings) = read(texts, asked, &database)?;
        let mut told = make(&database, &document, (identity, asked), texts)?;
        told.extend(warnings.iter().map(|warning| {
            let mut told = json!({ "op": "warning", "message": warning.to_string() });
            if let Some(Place { line, column }) = warning.place {
                (told["line"], told["column"]) = (line.into(), column.into());
            }
            texts.name(warning.file, &mut told);
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

impl Texts {
    /// Adds the name of the file of this index.
    fn name(&self, file: Option<usize>, told: &mut Value) {
        if let Some(text) = file.filter(|_| self.are_named).and_then(|file| self.all.get(file)) {
            told["file"] = text.file.as_str().into();
        }
    }

    /// The errors of texts.
    fn wrong(&self, errors: &[ConfigError]) -> Problem {
        let each = errors.iter().map(|error| {
            let mut told = json!({
                "line": error.line, "column": error.column, "message": error.message,
            });
            if let Some(hint) = &error.hint {
                told["hint"] = hint.as_str().into();
            }
            self.name(Some(error.file), &mut told);
            told
        });
        Problem::configuration(each.collect())
    }
}

/// The name of the file, if the query gives one.
fn file_of(uri: &Uri) -> Result<Option<String>, Problem> {
    query::text(uri, "file")?.map(named).transpose()
}

fn named(file: String) -> Result<String, Problem> {
    match file.is_empty() || file.len() > FILE_BYTES_MAX || file.contains('\0') {
        true => Err(Problem::bad_request(format!(
            "file: expected a name of 1 to {FILE_BYTES_MAX} bytes"
        ))),
        false => Ok(file),
    }
}

/// The directory where the text was read, which relative file names in it refer to.
fn directory(uri: &Uri) -> Result<Option<String>, Problem> {
    absolute(query::text(uri, "directory")?)
}

fn absolute(directory: Option<String>) -> Result<Option<String>, Problem> {
    match directory {
        Some(directory) if !directory.starts_with('/') || directory.contains('\0') => {
            let found = shown(&directory);
            Err(Problem::bad_request(format!(
                "directory: expected an absolute path, found {found:?}"
            )))
        }
        directory => Ok(directory),
    }
}

/// The texts as one document, and its warnings.
fn read(
    texts: &Texts,
    asked: &Asked,
    database: &Arc<Hosted>,
) -> Result<(Document, Vec<Warning>), Problem> {
    let (mut documents, mut errors) = (vec![], vec![]);
    for (file, text) in texts.all.iter().enumerate() {
        match parse(text) {
            Ok(document) => documents.push(document),
            Err(wrong) => errors.extend(wrong.into_iter().map(|one| ConfigError { file, ..one })),
        }
    }
    if !errors.is_empty() {
        let is_empty = texts.all.iter().all(|text| text.text.trim().is_empty());
        let rest = "the rest is checked when these errors are corrected";
        let problem = texts.wrong(&errors);
        return Err(if is_empty { problem } else { problem.hint(rest) });
    }
    let document = Document::join(documents).map_err(|errors| texts.wrong(&errors))?;
    let rows = database.written().map_err(|error| own_problem(&error))?;
    let others = Others::besides(&document, &rows);
    let warnings = document.check_beside(&others).map_err(|errors| texts.wrong(&errors))?;
    // A warning about an object of another file is reported only if it is new.
    let known = database.warnings();
    let is_ours = |warning: &Warning| warning.file.is_some() || !known.contains(&warning.text);
    let warnings: Vec<Warning> = warnings.into_iter().filter(is_ours).collect();
    match asked.strict && !warnings.is_empty() {
        true => Err(doubtful(&warnings, texts)),
        false => Ok((document, warnings)),
    }
}

fn parse(text: &Text) -> Result<Document, Vec<ConfigError>> {
    if text.text.trim().is_empty() {
        // It is what a program that failed writes, and would delete everything.
        let hint = "to delete everything that an earlier text made, leave only a comment in it";
        let (message, hint) = ("there is nothing in the text".into(), Some(hint.into()));
        return Err(vec![ConfigError { file: 0, line: 1, column: 1, message, hint }]);
    }
    let document = paceline_config::parse(&text.text)?;
    let document = match &text.directory {
        Some(directory) => document.within(directory),
        None => document,
    };
    Ok(document.named(&text.file))
}

/// Warnings that the client takes for errors.
fn doubtful(warnings: &[Warning], texts: &Texts) -> Problem {
    let each = warnings.iter().map(|warning| {
        let Place { line, column } = warning.place.unwrap_or(Place::START);
        let mut told = json!({ "line": line, "column": column, "message": warning.text });
        texts.name(warning.file, &mut told);
        told
    });
    Problem::configuration(each.collect()).hint("warnings are errors because of strict")
}

/// Makes the database match the files, or only checks whether that would work.
fn make(
    database: &Arc<Hosted>,
    document: &Document,
    (identity, asked): (&Identity, &Asked),
    texts: &Texts,
) -> Result<Vec<Value>, Problem> {
    let mut told = Ok(vec![]);
    let operations = |store: &paceline_tables::Store| {
        let applied = document.apply(store, asked.how);
        told = allowed(&applied, asked, texts).map(|()| describe_all(&applied));
        if told.is_ok() { applied.operations } else { vec![] }
    };
    let title = identity.title();
    let author = Author { name: &title, role: identity.role };
    let done = match asked.dry_run {
        true => database.try_edit(author, operations),
        false => database.edit(author, operations),
    };
    done.map_err(|error| refused(document, &error, texts))?;
    told
}

/// Checks that no object of another file is taken over, and that no more are deleted than allowed.
fn allowed(applied: &Applied, asked: &Asked, texts: &Texts) -> Result<(), Problem> {
    if !applied.conflicts.is_empty() {
        return Err(texts.wrong(&applied.conflicts));
    }
    let (deletions, most) = (applied.deletions(), asked.deletions_max);
    if asked.dry_run || deletions <= most {
        return Ok(());
    }
    let files: Vec<&str> = texts.all.iter().map(|text| text.file.as_str()).collect();
    let files = shown(&files.join(", "));
    let message = format!("{files} would delete {deletions} objects, more than {most}");
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

/// The error for a file that is valid by itself but does not fit the rest of the database, with the place in
/// the file, if it is there.
fn refused(document: &Document, error: &Error, texts: &Texts) -> Problem {
    let problem = own_problem(error);
    let Some(violation) = error.violation.as_ref().filter(|_| error.tag != tag::PERMISSION) else {
        return problem;
    };
    let Some(row) = violation.row.as_deref() else { return problem };
    match document.place_of(&violation.table, row, violation.column.as_deref()) {
        Some((file, place)) => {
            let mut told = json!({
                "line": place.line, "column": place.column, "message": error.details,
            });
            texts.name(Some(file), &mut told);
            Problem::configuration(vec![told])
        }
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
    let file = file_of(&uri)?;
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
