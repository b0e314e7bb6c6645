//! The only error type of this tool: a sentence for the user.
//!
//! No caller distinguishes kinds of failures: a load that fails is reported and the next one runs, so a message is
//! sufficient.

use std::fmt;
use std::io;

/// Why a load, or the whole run, could not continue.
#[derive(Debug)]
pub struct Failure(String);

/// The result of every step of the tool.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A failure of the operating system while doing `what`.
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self(format!("{what}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Self(error.to_string())
    }
}
