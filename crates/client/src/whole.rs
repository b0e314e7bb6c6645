//! The configuration as one text, copies of databases, and the daemon's status.

use crate::client::{Client, Patience, read_answer};
use crate::connection::Lost;
use crate::error::Error;
use crate::request::Method;
use crate::wire::{Message, segment};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;

/// Reading and applying a configuration text may take a while.
const APPLY_MAX: Duration = Duration::from_secs(300);

/// Why a copy failed.
#[derive(Debug)]
pub enum CopyError {
    /// The daemon did not return it.
    Asked(Error),
    /// It could not be written.
    Written(io::Error),
}

/// How to apply a configuration text.
#[derive(Clone, Debug, Default)]
pub struct ApplyOptions {
    /// Only compare.
    pub dry_run: bool,
    /// The file that the text belongs to; `api` if not set.
    pub file: Option<String>,
    /// The absolute path of its directory. The daemon resolves relative file names in the text there.
    pub directory: Option<String>,
    /// Set everything to what the text says, including what was changed otherwise since it was last applied.
    pub reset: bool,
    /// Take over objects that belong to other files.
    pub take_over: bool,
    /// Refuse a text that causes warnings.
    pub strict: bool,
    /// How many objects may be deleted; if not set, the daemon's default.
    pub deletions_max: Option<u64>,
}

/// A file of a configuration.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Its name, which owns the objects that it creates.
    pub name: String,
    /// The absolute path of its directory. The daemon resolves relative file names in the text there.
    pub directory: Option<String>,
    /// Its content, in TOML.
    pub text: String,
}

impl ApplyOptions {
    fn query(&self) -> String {
        let flags = [
            ("dry_run", self.dry_run),
            ("reset", self.reset),
            ("take_over", self.take_over),
            ("strict", self.strict),
        ];
        let flags = flags.iter().filter(|(_, is_set)| *is_set);
        let mut query: Vec<String> = flags.map(|(name, _)| format!("{name}=true")).collect();
        for (name, text) in [("file", &self.file), ("directory", &self.directory)] {
            query.extend(text.as_ref().map(|text| format!("{name}={}", segment(text))));
        }
        query.extend(self.deletions_max.map(|most| format!("deletions_max={most}")));
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{mark}{}", query.join("&"))
    }
}

impl Client {
    /// Makes the configuration what a TOML text says, or only compares. Returns what changed or would change, what
    /// was changed otherwise, and warnings.
    ///
    /// # Errors
    /// [`Error::Failed`] whose answer has `errors`, each with line and column, if the text is invalid.
    pub fn apply(&self, text: &str, options: &ApplyOptions) -> Result<Vec<Value>, Error> {
        let path = format!("/v1/apply{}", options.query());
        let message = Message::new(Method::Post, &path, text.as_bytes());
        self.send_changes(&Message { media: "application/toml", ..message })
    }

    /// The same with several files, in one transaction. Errors and warnings name the file as `file`. The options
    /// `file` and `directory` must not be set.
    ///
    /// # Errors
    /// As [`Client::apply`].
    pub fn apply_files(
        &self,
        files: &[ConfigFile],
        options: &ApplyOptions,
    ) -> Result<Vec<Value>, Error> {
        let path = format!("/v1/apply-files{}", options.query());
        let file = |one: &ConfigFile| json!({ "file": one.name, "directory": one.directory, "text": one.text });
        let files: Vec<Value> = files.iter().map(file).collect();
        let body = json!({ "files": files }).to_string();
        self.send_changes(&Message::new(Method::Post, &path, body.as_bytes()))
    }

    fn send_changes(&self, message: &Message<'_>) -> Result<Vec<Value>, Error> {
        let (status, body) = self.send(message, Patience::After(APPLY_MAX))?;
        match read_answer(status, &body)? {
            Value::Array(changes) => Ok(changes),
            _ => Err(Error::Protocol("changes are not a list".into())),
        }
    }

    /// The configuration as a TOML text, or the part of it that belongs to a file.
    ///
    /// # Errors
    /// See the variants of [`Error`].
    pub fn config(&self, file: Option<&str>) -> Result<String, Error> {
        let query = file.map(|file| format!("?file={}", segment(file))).unwrap_or_default();
        self.text(&format!("/v1/config{query}"))
    }

    /// Imports a Comdb2 ruleset into the running list of rules, or only reports what would be imported. Returns the
    /// objects that are created or changed. Pools that it creates exist after a restart if `persistent`.
    ///
    /// # Errors
    /// [`Error::Failed`] whose answer has `errors`, each with line and column, if the text is invalid.
    pub fn import_rules(
        &self,
        text: &str,
        dry_run: bool,
        persistent: bool,
    ) -> Result<Vec<Value>, Error> {
        let path = format!("/v1/rules/import?dry_run={dry_run}&persistent={persistent}");
        let message = Message::new(Method::Post, &path, text.as_bytes());
        let message = Message { media: "text/plain", ..message };
        let (status, body) = self.send(&message, Patience::After(APPLY_MAX))?;
        match read_answer(status, &body)? {
            Value::Array(changes) => Ok(changes),
            _ => Err(Error::Protocol("changes are not a list".into())),
        }
    }

    /// The running list of rules as a Comdb2 ruleset.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a rule cannot be expressed in such a file.
    pub fn export_rules(&self) -> Result<String, Error> {
        self.text("/v1/rules/export")
    }

    /// The text at this path.
    fn text(&self, path: &str) -> Result<String, Error> {
        let message = Message::new(Method::Get, path, b"");
        let (status, body) = self.send(&message, Patience::After(APPLY_MAX))?;
        if status != 200 {
            read_answer(status, &body)?;
        }
        String::from_utf8(body).map_err(|_| Error::Protocol("a text that is not UTF-8".into()))
    }

    /// The status of the daemon: its version, what it serves, how it writes.
    ///
    /// # Errors
    /// See the variants of [`Error`].
    pub fn status(&self) -> Result<Value, Error> {
        self.call(Method::Get, "/v1/status", None)
    }

    /// Writes a copy of a database to `out` as it arrives; returns the number of bytes. The copy is complete only if
    /// this returns without an error.
    ///
    /// # Errors
    /// If the daemon does not send all of it, or it cannot be written.
    pub fn copy(&self, database: &str, out: &mut dyn Write) -> Result<u64, CopyError> {
        let asked = |lost: Lost| CopyError::Asked(self.lost(lost));
        let path = format!("/v1/backup?database={}", segment(database));
        let mut connection = self.open().map_err(CopyError::Asked)?;
        // Each part must arrive in time, however many there are.
        let deadline = || self.deadline(Patience::After(APPLY_MAX));
        connection.send(&Message::new(Method::Get, &path, b""), deadline()).map_err(asked)?;
        let mut head = connection.head(deadline()).map_err(asked)?;
        let (mut part, mut count) = (Vec::new(), 0);
        while connection.part(&mut head.body, &mut part, deadline()).map_err(asked)? {
            if head.status == 200 {
                out.write_all(&part).map_err(CopyError::Written)?;
                count += part.len() as u64;
                part.clear();
            } else if part.len() > crate::ANSWER_BYTES_MAX {
                break;
            }
        }
        if head.status != 200 {
            read_answer(head.status, &part).map_err(CopyError::Asked)?;
            return Err(CopyError::Asked(Error::Protocol(format!("status {}", head.status))));
        }
        Ok(count)
    }
}
