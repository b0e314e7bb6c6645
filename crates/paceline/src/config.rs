//! TOML files: checked by themselves, and applied to the daemon's database.

use paceline_config::{ConfigError, Document, FILE_BYTES_MAX};
use paceline_host::{Author, Host, own};
use paceline_tables::Error;
use paceline_types::Role;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Checks files without a daemon; what is wrong is told as `FILE:LINE:COLUMN: message`. A warning is wrong
/// only if this is `strict`.
pub fn check(files: &[PathBuf], strict: bool) -> Result<(), String> {
    let (mut wrong, mut doubts) = (String::new(), 0);
    for file in files {
        match checked(file) {
            Ok(warnings) => {
                doubts += warnings.len();
                warnings.iter().for_each(|warning| crate::screen::tell(format_args!("{warning}")))
            }
            Err(errors) => wrong.push_str(&errors),
        }
    }
    if strict && doubts > 0 {
        let _ = writeln!(
            wrong,
            "{doubts} {}, which --strict does not allow",
            if doubts == 1 { "warning" } else { "warnings" }
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.trim_end().to_owned()) }
}

/// What is doubtful about a file, or what is wrong with it.
fn checked(file: &Path) -> Result<Vec<String>, String> {
    let text = text_of(file).map_err(|error| format!("{error}\n"))?;
    match paceline_config::parse(&text) {
        Ok(document) => {
            let document = beside(file, document);
            let mut warnings = warnings_of(file, &document)?;
            warnings.extend(unreadable(file, &document));
            unfit(file, &document).map_or(Ok(warnings), Err)
        }
        Err(errors) => {
            let told = lines(file, &errors);
            Err(format!("{told}{}: other parts are checked when these are right\n", file.display()))
        }
    }
}

/// Makes the daemon's database say what a file says. Must not be called from a task of the runtime.
pub fn apply(host: &Host, file: &Path) -> Result<(), String> {
    let document = read(file)?;
    for warning in warnings_of(file, &document)? {
        tracing::warn!("{warning}");
    }
    let own = host.database(own::DATABASE).ok_or("the daemon has no database of its own")?;
    let mut changes = 0;
    let who = format!("config {}", file.display());
    // Whoever writes the configuration is trusted.
    let author = Author { name: &who, role: Role::Admin };
    let applied = own.edit(author, |store| {
        let applied = document.apply(store);
        changes = applied.changes.len();
        applied.operations
    });
    applied.map_err(|error| unfit_rest(file, &document, &error))?;
    tracing::info!(file = %file.display(), changes, "applied the configuration");
    Ok(())
}

/// What of the file does not fit what the database says otherwise, and what to do about it.
fn unfit_rest(file: &Path, document: &Document, error: &Error) -> String {
    let violation = error.violation.as_deref();
    let row = violation.and_then(|one| Some((&one.table, one.row.as_ref()?)));
    let next = row.and_then(|(table, row)| document.next_about(table, row));
    let next = next.map(|next| format!("; {next}")).unwrap_or_default();
    format!("{}: {}{next}", file.display(), error.details)
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
        true => Err(format!("{name}: it has more than {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// What is doubtful about a text, as far as it is right.
pub fn doubts(file: &Path, text: &str) -> Vec<String> {
    let document = paceline_config::parse(text).ok().map(|document| beside(file, document));
    document.and_then(|document| warnings_of(file, &document).ok()).unwrap_or_default()
}

fn read(file: &Path) -> Result<Document, String> {
    let document = paceline_config::parse(&text_of(file)?);
    document.map(|document| beside(file, document)).map_err(|errors| lines(file, &errors))
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

/// The files named in a document that cannot be opened here. The daemon may be another user, on whom it
/// depends in the end.
fn unreadable(file: &Path, document: &Document) -> Vec<String> {
    let told = |(place, name): (paceline_config::Place, &str)| {
        let error = std::fs::File::open(name).err()?;
        Some(format!("{}: warning: line {}: {name}: {error}", file.display(), place.line))
    };
    document.files().into_iter().filter_map(told).collect()
}

/// The certificates that a frontend could not use, of those that can be opened here.
fn unfit(file: &Path, document: &Document) -> Option<String> {
    let mut told = String::new();
    for (place, certificate, key) in document.certificates() {
        let is_here = |name: &&str| std::fs::File::open(name).is_ok();
        if [certificate, key].iter().all(is_here)
            && let Err(message) = paceline_http::check_certificate(certificate, key)
        {
            let (line, column) = (place.line, place.column);
            let _ = writeln!(told, "{}:{line}:{column}: {message}", file.display());
        }
    }
    (!told.is_empty()).then_some(told)
}

fn warnings_of(file: &Path, document: &Document) -> Result<Vec<String>, String> {
    let warnings = document.check().map_err(|errors| lines(file, &errors))?;
    Ok(warnings.iter().map(|warning| format!("{}: warning: {warning}", file.display())).collect())
}

fn lines(file: &Path, errors: &[ConfigError]) -> String {
    let mut lines = String::new();
    for error in errors {
        let _ = writeln!(lines, "{}:{error}", file.display());
        if let Some(hint) = &error.hint {
            let _ = writeln!(lines, "    {hint}");
        }
    }
    lines
}
