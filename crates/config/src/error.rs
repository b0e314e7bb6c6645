//! Errors in a file, with their places.

use crate::ERRORS_MAX;
use crate::place::Place;
use std::fmt;

/// One error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The index of its file, from 0.
    pub file: usize,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What is wrong there.
    pub message: String,
    /// What to try next.
    pub hint: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Self {
        let Place { line, column } = place;
        Self { file: 0, line, column, message: one_line(message.into()), hint: None }
    }

    /// The same in another file.
    pub(crate) fn of(mut self, file: usize) -> Self {
        self.file = file;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(one_line(hint.into()));
        self
    }
}

/// A message without line breaks and other control characters that names may contain.
fn one_line(message: String) -> String {
    if !message.contains(char::is_control) {
        return message;
    }
    let shown = |c: char| match c {
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    message.chars().map(shown).collect()
}

/// The errors of one file, up to the number that is reported.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<ConfigError>);

impl Errors {
    /// Adds an error, if there are not too many yet.
    pub fn push(&mut self, error: ConfigError) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(error);
        }
    }

    /// Whether no more errors are added.
    pub fn is_full(&self) -> bool {
        self.0.len() >= ERRORS_MAX
    }

    /// `value` if there is no error, otherwise all errors in the order of the file.
    pub fn or<T>(mut self, value: T) -> Result<T, Vec<ConfigError>> {
        if self.0.is_empty() {
            return Ok(value);
        }
        self.0.sort_by_key(|error| (error.file, error.line, error.column));
        Err(self.0)
    }
}
