//! TOML files: checked by themselves, and applied to the daemon's database.
//!
//! Files that are given together are one configuration. Each has a name, which is its file name without
//! directories: objects belong to the file of that name, wherever it is.

use crate::cli::Serve;
use crate::screen::tell;
use paceline_api::Reload;
use paceline_config::{ConfigError, Document, FILE_BYTES_MAX, How, Others, Place, Warning};
use paceline_host::{Author, Host, own};
use paceline_tables::json::Json;
use paceline_tables::{Error, Snapshot};
use paceline_types::Role;
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file, and the name that its objects belong to.
struct Source {
    path: PathBuf,
    name: String,
}

/// Files that could be read, and their common content.
struct Files {
    sources: Vec<Source>,
    document: Document,
}

/// Checks files without a daemon, and prints what was found. Errors and warnings are `FILE:LINE:COLUMN: message`, or one
/// JSON document. Warnings are errors only if this is `strict`. Returns whether the files can be used.
pub fn check(
    paths: &[PathBuf],
    strict: bool,
    as_json: bool,
) -> Result<bool, crate::failure::Failure> {
    let (mut wrong, mut warnings, mut count) = (Wrong::default(), vec![], 0);
    match Files::read(paths) {
        Err(error) => wrong = error,
        Ok(files) => {
            count = files.document.objects().len();
            match files.document.check() {
                Ok(doubts) => {
                    warnings = doubts.iter().map(|one| files.found(one)).collect();
                    warnings.extend(files.unreadable());
                }
                Err(errors) => wrong.add(&files.sources, errors),
            }
            wrong.add(&files.sources, files.unfit());
        }
    }
    let is_refused = strict && !warnings.is_empty();
    let is_good = wrong.is_empty() && !is_refused;
    if as_json {
        let each = |found: &[Found]| found.iter().map(Found::json).collect::<Value>();
        let told = json!({
            "ok": is_good, "objects": count, "errors": each(&wrong.errors), "warnings": each(&warnings),
            "unchecked": wrong.unchecked,
        });
        crate::command::print(&format!("{told:#}\n"))?;
        return Ok(is_good);
    }
    warnings.iter().for_each(|found| tell(format_args!("{}", found.line("warning: "))));
    match (wrong.is_empty(), warnings.len()) {
        (false, _) => tell(format_args!("{wrong}")),
        (true, 1) if is_refused => tell(format_args!("1 warning, which --strict does not allow")),
        (true, count) if is_refused => {
            tell(format_args!("{count} warnings, which --strict does not allow"));
        }
        (true, _) => {
            let objects = if count == 1 { "object" } else { "objects" };
            crate::command::print(&format!("ok: {count} {objects}\n"))?;
        }
    }
    Ok(is_good)
}

/// An error or a warning, and where it is.
struct Found {
    path: String,
    place: Option<Place>,
    message: String,
    hint: Option<String>,
}

impl Found {
    fn json(&self) -> Value {
        let mut told = json!({ "file": self.path, "message": self.message });
        if let Some(Place { line, column }) = self.place {
            (told["line"], told["column"]) = (line.into(), column.into());
        }
        if let Some(hint) = &self.hint {
            told["hint"] = hint.as_str().into();
        }
        told
    }

    /// `FILE:LINE:COLUMN: message`, with a word before the message, and the hint below.
    fn line(&self, word: &str) -> String {
        let mut line = match (self.path.as_str(), self.place) {
            ("", _) => String::new(),
            (path, Some(Place { line, column })) => format!("{path}:{line}:{column}: "),
            (path, None) => format!("{path}: "),
        };
        line.push_str(&format!("{word}{}", self.message));
        if let Some(hint) = &self.hint {
            line.push_str(&format!("\n    {hint}"));
        }
        line
    }
}

/// What is wrong with files.
#[derive(Default)]
struct Wrong {
    errors: Vec<Found>,
    /// The files of which only a part was checked.
    unchecked: Vec<String>,
}

impl Wrong {
    fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    fn add(&mut self, sources: &[Source], errors: Vec<ConfigError>) {
        self.errors.extend(errors.into_iter().map(|error| {
            let path = sources.get(error.file).map(|source| source.path.display().to_string());
            let place = Some(Place { line: error.line, column: error.column });
            Found {
                path: path.unwrap_or_default(),
                place,
                message: error.message,
                hint: error.hint,
            }
        }));
    }

    /// An error without a place.
    fn of(path: &Path, message: String, hint: Option<String>) -> Found {
        Found { path: path.display().to_string(), place: None, message, hint }
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rest = "the rest is checked when these errors are corrected";
        let rest =
            (!self.unchecked.is_empty()).then(|| format!("{}: {rest}", self.unchecked.join(", ")));
        let lines: Vec<String> =
            self.errors.iter().map(|found| found.line("")).chain(rest).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl From<Wrong> for String {
    fn from(wrong: Wrong) -> Self {
        wrong.to_string()
    }
}

/// The files of `serve --config`, and how the daemon applies them: at its start, and again on SIGHUP.
pub struct Given {
    files: Vec<PathBuf>,
    how: How,
    reload: Arc<Reload>,
    is_applied: AtomicBool,
}

impl Given {
    pub fn new(options: &Serve) -> Self {
        let (reset, take_over) = (options.reset, options.take_over);
        Self {
            files: options.config.clone(),
            how: How { reset, take_over, starts: false, serves: true },
            reload: Arc::default(),
            is_applied: AtomicBool::new(false),
        }
    }

    /// Whether the daemon was given no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether the files were applied since the daemon started.
    pub fn is_applied(&self) -> bool {
        self.is_applied.load(Ordering::Acquire)
    }

    /// The result of the last reading of the files.
    pub fn reload(&self) -> &Arc<Reload> {
        &self.reload
    }

    /// Applies the files, and notes the result. Must not be called from a task of the runtime.
    ///
    /// # Errors
    ///
    /// Why nothing was changed.
    pub fn apply(&self, host: &Host) -> Result<(), String> {
        let starts = !self.is_applied();
        let applied = apply(host, &self.files, How { starts, ..self.how });
        self.is_applied.fetch_or(applied.is_ok(), Ordering::AcqRel);
        self.reload.note(applied.clone(), paceline_host::wall_ms());
        applied
    }

    /// Takes back the first application of files, after a start that fails because of them. Otherwise the next start
    /// would find them applied, and would serve without the part that failed. Must not be called from a task of
    /// the runtime.
    pub fn take_back(&self, host: &Host, (before, after): &(Snapshot, Snapshot)) {
        let Some(own) = host.database(own::DATABASE) else { return };
        let author = || Author { name: "config", role: Role::Admin };
        let mut operations = vec![];
        let all = own.edit(author(), |store| {
            operations = paceline_config::revert(before, after, store);
            operations.clone()
        });
        let Err(error) = all else {
            return tracing::info!("the configuration is as it was before the start");
        };
        tracing::error!("cannot take back all files of --config at once: {}", error.details);
        let edit = |some: &[Json]| own.edit(author(), |_| some.to_vec());
        let failed = paceline_config::revert_each(&operations, edit);
        for (operation, error) in failed {
            let operation = operation.to_text();
            tracing::error!(operation, "cannot take back one change: {}", error.details);
        }
    }

    /// Whether one of the files was applied before, so that the database has its content of that time.
    pub fn is_known(&self, host: &Host) -> bool {
        let Some(own) = host.database(own::DATABASE) else { return false };
        // A disk that is full from the start is no reason to stop serving its content.
        let Ok(rows) = own.written() else { return true };
        let before = paceline_config::files_applied(&rows);
        let has = |file: &PathBuf| name_of(file).is_ok_and(|name| before.contains_key(&name));
        let was_served = || before.values().any(|served| *served);
        let is_file =
            |path: &Path| path.is_file() || path.extension().is_some_and(|end| end == "toml");
        let is_known = |path: &PathBuf| match within(path) {
            _ if !path.is_dir() && is_file(path) => has(path),
            Ok(files) => files.iter().any(has),
            // It is unknown which files the directory had.
            Err(_) => was_served(),
        };
        self.files.iter().any(is_known)
    }
}

/// Makes the daemon's database match the files again.
fn apply(host: &Host, paths: &[PathBuf], how: How) -> Result<(), String> {
    let files = Files::read(paths)?;
    let own = host.database(own::DATABASE).ok_or("the daemon has no database of its own")?;
    let rows = own.written().map_err(|error| error.details)?;
    let others = Others::besides(&files.document, &rows);
    let warnings = files.document.check_beside(&others);
    for warning in warnings.map_err(|errors| lines(&files.sources, errors))? {
        // What rows alone show is logged by the daemon when it plans them.
        if warning.file.is_some() {
            tracing::warn!("{}", files.found(&warning).line("warning: "));
        }
    }
    let (mut changes, mut drift, mut conflicts) = (0, 0, vec![]);
    let names: Vec<String> =
        files.sources.iter().map(|source| source.path.display().to_string()).collect();
    let who = format!("config {}", names.join(" "));
    // The author of the configuration files is trusted.
    let author = Author { name: &who, role: Role::Admin };
    let applied = own.edit(author, |store| {
        let applied = files.document.apply(store, how);
        (changes, drift) = (applied.changes.len(), applied.drifted().count());
        conflicts = applied.conflicts;
        if conflicts.is_empty() { applied.operations } else { vec![] }
    });
    applied.map_err(|error| files.unfit_rest(&error))?;
    if !conflicts.is_empty() {
        return Err(lines(&files.sources, conflicts));
    }
    let files = names.join(" ");
    match drift {
        0 => tracing::info!(files, changes, "applied the configuration"),
        _ => tracing::info!(
            files,
            changes,
            drift,
            "applied the configuration; other edits stay (drift)"
        ),
    }
    Ok(())
}

/// The files that these paths name: for a directory all files `*.toml`, in name order.
fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, String> {
    let mut sources: Vec<Source> = vec![];
    for path in paths {
        let files = if path.is_dir() { within(path)? } else { vec![path.clone()] };
        for path in files {
            let name = name_of(&path)?;
            if let Some(other) = sources.iter().find(|other| other.name == name) {
                let (one, two) = (other.path.display(), path.display());
                return Err(format!(
                    "{one} and {two} are both called {name}; objects belong to files by name, so \
                     rename one of them"
                ));
            }
            sources.push(Source { path, name });
        }
    }
    Ok(sources)
}

/// The files that these paths name, each with the name that its objects belong to.
///
/// # Errors
///
/// When a directory cannot be read or has no such file, or when two files have one name.
pub fn named_files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, String)>, String> {
    Ok(sources(paths)?.into_iter().map(|source| (source.path, source.name)).collect())
}

/// The name that the objects of a file belong to.
fn name_of(path: &Path) -> Result<String, String> {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    name.map(str::to_owned).ok_or_else(|| format!("{} is not the name of a file", path.display()))
}

fn within(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut files = vec![];
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hidden =
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_none_or(|end| end != "toml") || is_hidden {
            continue;
        }
        // Without it, its objects would be deleted. It is missing by mistake, for example because of a dangling
        // link.
        let found = std::fs::metadata(&path);
        match found.map_err(|error| format!("{}: {error}", path.display()))?.is_file() {
            true => files.push(path),
            false => return Err(format!("{}: it is not a file", path.display())),
        }
    }
    files.sort();
    match files.is_empty() {
        // A directory that is not mounted looks like this, and would delete everything.
        true => Err(format!("{}: it contains no *.toml file", directory.display())),
        false => Ok(files),
    }
}

impl Files {
    fn read(paths: &[PathBuf]) -> Result<Self, Wrong> {
        let unread = |message| {
            let found = Found { path: String::new(), place: None, message, hint: None };
            Wrong { errors: vec![found], unchecked: vec![] }
        };
        let sources = sources(paths).map_err(unread)?;
        let (mut documents, mut wrong) = (vec![], Wrong::default());
        for (index, source) in sources.iter().enumerate() {
            let path = &source.path;
            let text = match text_of(path) {
                Ok(text) if text.trim().is_empty() => {
                    let hint = "to delete everything this file made, leave only a comment in it";
                    let message = "there is nothing in it".to_owned();
                    wrong.errors.push(Wrong::of(path, message, Some(hint.to_owned())));
                    continue;
                }
                Ok(text) => text,
                Err(error) => {
                    let name = format!("{}: ", path.display());
                    let message = error.strip_prefix(&name).unwrap_or(&error).to_owned();
                    wrong.errors.push(Wrong::of(path, message, None));
                    continue;
                }
            };
            match paceline_config::parse(&text) {
                Ok(document) => documents.push(beside(path, document).named(&source.name)),
                Err(mut errors) => {
                    errors.iter_mut().for_each(|error| error.file = index);
                    wrong.add(&sources, errors);
                    wrong.unchecked.push(path.display().to_string());
                }
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        match Document::join(documents) {
            Ok(document) => Ok(Self { sources, document }),
            Err(errors) => {
                wrong.add(&sources, errors);
                wrong.unchecked =
                    sources.iter().map(|one| one.path.display().to_string()).collect();
                Err(wrong)
            }
        }
    }

    /// A warning with its file.
    fn found(&self, warning: &Warning) -> Found {
        let source = warning.file.and_then(|file| self.sources.get(file));
        let source = source.or_else(|| self.sources.first().filter(|_| self.sources.len() == 1));
        let path = source.map(|source| source.path.display().to_string()).unwrap_or_default();
        Found { path, place: warning.place, message: warning.text.clone(), hint: None }
    }

    /// The files named in a document that cannot be opened here. The daemon may be another user, on whom it
    /// depends in the end.
    fn unreadable(&self) -> Vec<Found> {
        let told = |(file, place, name): (usize, Place, &str)| {
            let error = std::fs::File::open(name).err()?;
            let text = format!("{name}: {error}");
            Some(self.found(&Warning { file: Some(file), place: Some(place), text }))
        };
        self.document.files().into_iter().filter_map(told).collect()
    }

    /// The certificates that a frontend could not use, of those that can be opened here.
    fn unfit(&self) -> Vec<ConfigError> {
        let mut errors = vec![];
        for (file, place, certificate, key) in self.document.certificates() {
            let is_here = |name: &&str| std::fs::File::open(name).is_ok();
            if [certificate, key].iter().all(is_here)
                && let Err(message) = paceline_http::check_certificate(certificate, key)
            {
                let Place { line, column } = place;
                errors.push(ConfigError { file, line, column, message, hint: None });
            }
        }
        errors
    }

    /// The conflict between the files and the rest of the database, and what to do about it.
    fn unfit_rest(&self, error: &Error) -> String {
        let violation = error.violation.as_deref();
        let row = violation.and_then(|one| Some((&one.table, one.row.as_ref()?)));
        let place = row.and_then(|(table, row)| self.document.place_of(table, row, None));
        let file = place.map_or(0, |(file, _)| file);
        let path = self.sources.get(file).map(|source| source.path.display().to_string());
        let next = row.and_then(|(table, row)| self.document.next_about(table, row));
        let next = next.map(|next| format!("; {next}")).unwrap_or_default();
        format!("{}: {}{next}", path.unwrap_or_default(), error.details)
    }
}

/// The text of a file, up to the maximum length.
pub fn text_of(file: &Path) -> Result<String, String> {
    let name = file.display().to_string();
    let opened = std::fs::File::open(file).map_err(|error| format!("{name}: {error}"))?;
    bounded(opened, &name)
}

/// The text on standard input. It can be read only once, so this is not for files that are read again on
/// SIGHUP.
pub fn text_of_stdin() -> Result<String, String> {
    bounded(std::io::stdin().lock(), "standard input")
}

/// Everything from this source. A device or a pipe has no size beforehand, so the read is bounded by the
/// longest file.
fn bounded(source: impl std::io::Read, name: &str) -> Result<String, String> {
    let mut text = String::new();
    let read = source.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| format!("{name}: {error}"))?;
    match text.len() > FILE_BYTES_MAX {
        true => Err(format!("{name}: the file has more than {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// The directory of a file as an absolute path; `None` for standard input, or if it is not UTF-8.
pub fn directory_of(file: &Path) -> Option<String> {
    if file.as_os_str() == "-" {
        return None;
    }
    let file = std::path::absolute(file).ok()?;
    Some(file.parent()?.to_str()?.to_owned())
}

/// A document whose relative file names refer to the directory where it was read.
fn beside(file: &Path, document: Document) -> Document {
    match directory_of(file) {
        Some(directory) => document.within(&directory),
        None => document,
    }
}

fn lines(sources: &[Source], errors: Vec<ConfigError>) -> String {
    let mut wrong = Wrong::default();
    wrong.add(sources, errors);
    wrong.to_string()
}
