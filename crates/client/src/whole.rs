//! The configuration as one text, copies of databases, and the daemon about itself.

use crate::client::{Client, Patience, read_answer};
use crate::connection::Lost;
use crate::error::Error;
use crate::request::Method;
use crate::wire::{Message, segment};
use serde_json::Value;
use std::io::{self, Write};
use std::time::Duration;

/// A text of the configuration may take a while to be read and written.
const APPLY_MAX: Duration = Duration::from_secs(300);

/// Why a copy could not be made.
#[derive(Debug)]
pub enum CopyError {
    /// The daemon did not give it.
    Asked(Error),
    /// It could not be written.
    Written(io::Error),
}

impl Client {
    /// Makes the configuration what a TOML text says, or only compares: what changed, or would.
    ///
    /// # Errors
    /// [`Error::Failed`] whose answer has `errors`, each with line and column, if the text is wrong.
    pub fn apply(&self, text: &str, dry_run: bool) -> Result<Vec<Value>, Error> {
        self.apply_within(text, None, dry_run)
    }

    /// The same with a text from a file in this directory, an absolute path: relative names of files in
    /// the text are looked for there, by the daemon.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_within(
        &self,
        text: &str,
        directory: Option<&str>,
        dry_run: bool,
    ) -> Result<Vec<Value>, Error> {
        let dry_run = dry_run.then(|| "dry_run=true".to_owned());
        let directory = directory.map(|path| format!("directory={}", segment(path)));
        let query: Vec<String> = dry_run.into_iter().chain(directory).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let path = format!("/v1/apply{mark}{}", query.join("&"));
        let message = Message::new(Method::Post, &path, text.as_bytes());
        let message = Message { media: "application/toml", ..message };
        let (status, body) = self.send(&message, Patience::After(APPLY_MAX))?;
        match read_answer(status, &body)? {
            Value::Array(changes) => Ok(changes),
            _ => Err(Error::Protocol("changes are not a list".into())),
        }
    }

    /// The configuration as a TOML text.
    ///
    /// # Errors
    /// As [`Error`] tells apart.
    pub fn config(&self) -> Result<String, Error> {
        let message = Message::new(Method::Get, "/v1/config", b"");
        let (status, body) = self.send(&message, Patience::After(APPLY_MAX))?;
        if status != 200 {
            read_answer(status, &body)?;
        }
        String::from_utf8(body).map_err(|_| Error::Protocol("a text that is not UTF-8".into()))
    }

    /// The daemon about itself: version, what it serves, how it writes.
    ///
    /// # Errors
    /// As [`Error`] tells apart.
    pub fn status(&self) -> Result<Value, Error> {
        self.call(Method::Get, "/v1/status", None)
    }

    /// Writes a copy of a database to `out` as it comes; how many bytes it has. It is no copy before
    /// this returned without an error.
    ///
    /// # Errors
    /// If the daemon does not give it all, or it cannot be written.
    pub fn copy(&self, database: &str, out: &mut dyn Write) -> Result<u64, CopyError> {
        let asked = |lost: Lost| CopyError::Asked(self.lost(lost));
        let path = format!("/v1/backup?database={}", segment(database));
        let mut connection = self.open().map_err(CopyError::Asked)?;
        // Each part has to come in time, however many there are.
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
