//! TOML files: checked by themselves, and applied to the daemon's database.
//!
//! Files that are given together are one configuration. Each has a name, which is its own without
//! directories: objects belong to the file of that name, wherever it lies.

use crate::cli::Serve;
use paceline_api::Reload;
use paceline_config::{ConfigError, Document, FILE_BYTES_MAX, How, Others, Place, Warning};
use paceline_host::{Author, Host, own};
use paceline_tables::Error;
use paceline_types::Role;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file, and the name by which objects belong to it.
struct Source {
    path: PathBuf,
    name: String,
}

/// Files that could be read, and what they say together.
struct Files {
    sources: Vec<Source>,
    document: Document,
}

/// Checks files without a daemon. Errors are `FILE:LINE:COLUMN: message`. Warnings are errors only if this is
/// `strict`.
pub fn check(paths: &[PathBuf], strict: bool) -> Result<(), String> {
    let files = Files::read(paths)?;
    let warnings = files.document.check().map_err(|errors| lines(&files.sources, &errors))?;
    let mut warnings: Vec<String> = warnings.iter().map(|one| files.told(one)).collect();
    warnings.extend(files.unreadable());
    warnings.iter().for_each(|warning| crate::screen::tell(format_args!("{warning}")));
    files.unfit().map_or(Ok(()), Err)?;
    match warnings.len() {
        0 => Ok(()),
        _ if !strict => Ok(()),
        1 => Err("1 warning, which --strict does not allow".to_owned()),
        count => Err(format!("{count} warnings, which --strict does not allow")),
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

    /// How the files were last read.
    pub fn reload(&self) -> &Arc<Reload> {
        &self.reload
    }

    /// Applies the files, and notes how that went. Must not be called from a task of the runtime.
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

    /// Whether one of the files was applied before, so that the database says what it said then.
    pub fn is_known(&self, host: &Host) -> bool {
        let Some(own) = host.database(own::DATABASE) else { return false };
        // A disk that is full from the start on is no reason to end what was served on it.
        let Ok(rows) = own.written() else { return true };
        let before = paceline_config::files_applied(&rows);
        let has = |file: &PathBuf| name_of(file).is_ok_and(|name| before.contains_key(&name));
        let was_served = || before.values().any(|served| *served);
        let is_file =
            |path: &Path| path.is_file() || path.extension().is_some_and(|end| end == "toml");
        let is_known = |path: &PathBuf| match within(path) {
            _ if !path.is_dir() && is_file(path) => has(path),
            Ok(files) => files.iter().any(has),
            // Nobody knows which files the directory had.
            Err(_) => was_served(),
        };
        self.files.iter().any(is_known)
    }
}

/// Makes the daemon's database say what files say anew.
fn apply(host: &Host, paths: &[PathBuf], how: How) -> Result<(), String> {
    let files = Files::read(paths)?;
    let own = host.database(own::DATABASE).ok_or("the daemon has no database of its own")?;
    let rows = own.written().map_err(|error| error.details)?;
    let others = Others::besides(&files.document, &rows);
    let warnings = files.document.check_beside(&others);
    for warning in warnings.map_err(|errors| lines(&files.sources, &errors))? {
        // What rows alone show is logged by the daemon when it plans them.
        if warning.file.is_some() {
            tracing::warn!("{}", files.told(&warning));
        }
    }
    let (mut changes, mut drift, mut conflicts) = (0, 0, vec![]);
    let names: Vec<String> =
        files.sources.iter().map(|source| source.path.display().to_string()).collect();
    let who = format!("config {}", names.join(" "));
    // Whoever writes the configuration is trusted.
    let author = Author { name: &who, role: Role::Admin };
    let applied = own.edit(author, |store| {
        let applied = files.document.apply(store, how);
        (changes, drift) = (applied.changes.len(), applied.drifted().count());
        conflicts = applied.conflicts;
        if conflicts.is_empty() { applied.operations } else { vec![] }
    });
    applied.map_err(|error| files.unfit_rest(&error))?;
    if !conflicts.is_empty() {
        return Err(lines(&files.sources, &conflicts));
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

/// The files that these paths mean: of a directory all that are called `*.toml`, in the order of their names.
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

/// The name by which objects belong to a file.
pub fn name_of(path: &Path) -> Result<String, String> {
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
        // Without it, what it made would be deleted. It is missing by mistake, as when a link leads nowhere.
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
    fn read(paths: &[PathBuf]) -> Result<Self, String> {
        let sources = sources(paths)?;
        let (mut documents, mut wrong) = (vec![], String::new());
        for (index, source) in sources.iter().enumerate() {
            let path = &source.path;
            let text = match text_of(path) {
                Ok(text) if text.trim().is_empty() => {
                    let name = path.display();
                    let _ = writeln!(
                        wrong,
                        "{name}: there is nothing in it\n    if it shall delete what it made, put a comment in it"
                    );
                    continue;
                }
                Ok(text) => text,
                Err(error) => {
                    let _ = writeln!(wrong, "{error}");
                    continue;
                }
            };
            match paceline_config::parse(&text) {
                Ok(document) => documents.push(beside(path, document).named(&source.name)),
                Err(mut errors) => {
                    errors.iter_mut().for_each(|error| error.file = index);
                    let told = lines(&sources, &errors);
                    let name = path.display();
                    let _ = writeln!(
                        wrong,
                        "{told}{name}: the rest is checked when these errors are corrected"
                    );
                }
            }
        }
        if !wrong.is_empty() {
            return Err(wrong.trim_end().to_owned());
        }
        match Document::join(documents) {
            Ok(document) => Ok(Self { sources, document }),
            Err(errors) => Err(lines(&sources, &errors)),
        }
    }

    fn told(&self, warning: &Warning) -> String {
        let source = warning.file.and_then(|file| self.sources.get(file));
        let source = source.or_else(|| self.sources.first().filter(|_| self.sources.len() == 1));
        let path = source.map(|source| format!("{}: ", source.path.display())).unwrap_or_default();
        format!("{path}warning: {warning}")
    }

    /// The files named in a document that cannot be opened here. The daemon may be another user, on whom it
    /// depends in the end.
    fn unreadable(&self) -> Vec<String> {
        let told = |(file, place, name): (usize, Place, &str)| {
            let error = std::fs::File::open(name).err()?;
            let text = format!("line {}: {name}: {error}", place.line);
            Some(self.told(&Warning { file: Some(file), text }))
        };
        self.document.files().into_iter().filter_map(told).collect()
    }

    /// The certificates that a frontend could not use, of those that can be opened here.
    fn unfit(&self) -> Option<String> {
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
        (!errors.is_empty()).then(|| lines(&self.sources, &errors))
    }

    /// What of the files does not fit what the database says otherwise, and what to do about it.
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

/// The text of a file, no longer than it may be.
pub fn text_of(file: &Path) -> Result<String, String> {
    let name = file.display().to_string();
    let opened = std::fs::File::open(file).map_err(|error| format!("{name}: {error}"))?;
    bounded(opened, &name)
}

/// The text on standard input. It can be read once, so this is not for what is read again on SIGHUP.
pub fn text_of_stdin() -> Result<String, String> {
    bounded(std::io::stdin().lock(), "standard input")
}

/// All that comes from there. A device or a pipe tells no size beforehand, so no more than a file may
/// have is read.
fn bounded(source: impl std::io::Read, name: &str) -> Result<String, String> {
    let mut text = String::new();
    let read = source.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| format!("{name}: {error}"))?;
    match text.len() > FILE_BYTES_MAX {
        true => Err(format!("{name}: the file has more than {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// The directory of a file as an absolute path; none for standard input, or if it is no text.
pub fn directory_of(file: &Path) -> Option<String> {
    if file.as_os_str() == "-" {
        return None;
    }
    let file = std::path::absolute(file).ok()?;
    Some(file.parent()?.to_str()?.to_owned())
}

/// A document whose relative names of files are looked for where it was read.
fn beside(file: &Path, document: Document) -> Document {
    match directory_of(file) {
        Some(directory) => document.within(&directory),
        None => document,
    }
}

fn lines(sources: &[Source], errors: &[ConfigError]) -> String {
    let mut lines = String::new();
    for error in errors {
        let path = sources.get(error.file).map(|source| source.path.display().to_string());
        let _ = writeln!(lines, "{}:{error}", path.unwrap_or_default());
        if let Some(hint) = &error.hint {
            let _ = writeln!(lines, "    {hint}");
        }
    }
    lines
}
