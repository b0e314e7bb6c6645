//! The configuration of a target of the SQL door: the database behind a name that SQL clients connect to.

use crate::upstream::UpstreamUrl;
use paceline_types::{Span, Uuid};
use std::fmt;
use std::str::FromStr;

/// The most targets in one configuration.
pub const SQL_TARGETS_MAX: usize = 1_000;

/// The longest name of a database or a user.
pub const SQL_NAME_BYTES_MAX: usize = 255;

/// The longest name of a file of an embedded database.
pub const SQLITE_FILE_BYTES_MAX: usize = 200;

/// A database that SQL clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlTarget {
    /// The UUID of its row, which an edit keeps.
    pub id: Uuid,
    /// The database name that clients connect to.
    pub name: Box<str>,
    /// Where its statements run.
    pub engine: SqlEngine,
    /// Whether a statement that waits longer than a second sends a NOTICE.
    pub notice: bool,
}

/// Where the statements of a target run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlEngine {
    /// On PostgreSQL servers, to which statements are relayed.
    Upstream(Box<Upstream>),
    /// In the daemon, on an embedded SQLite database.
    Sqlite {
        /// The name of its file in the data directory.
        file: SqliteFile,
    },
}

/// PostgreSQL servers, and how their connections are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The servers and the database.
    pub url: UpstreamUrl,
    /// How long a client keeps a server connection.
    pub pooling: Pooling,
    /// How many server connections there are, and how long they live.
    pub connections: SqlConnections,
    /// The user that server connections log in as.
    pub login: SqlLogin,
}

/// How long a client keeps a server connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// For one transaction.
    #[default]
    Transaction,
    /// Until the client disconnects.
    Session,
}

/// The server connections of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqlConnections {
    /// The most that are open at one time.
    pub max: u32,
    /// How many are kept open when there is nothing to do.
    pub min: u32,
    /// How long an unused connection is kept open.
    pub idle: Span,
    /// The age at which a connection is closed, once it is unused.
    pub lifetime: Span,
}

impl Default for SqlConnections {
    fn default() -> Self {
        Self { max: 20, min: 0, idle: Span::from_secs(600), lifetime: Span::from_secs(3_600) }
    }
}

/// The user that server connections log in as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SqlLogin {
    /// The client's own user, with the client's own proof of its password.
    #[default]
    Client,
    /// One user for all clients.
    User {
        /// Its name.
        user: Box<str>,
        /// The file of its password, an absolute path; without it, the server must ask for no password.
        password_file: Option<Box<str>>,
    },
}

/// The name of a file in the data directory. It never leads out of that directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteFile(Box<str>);

/// The text is not the name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseSqliteFileError;

impl SqlTarget {
    /// A target with every setting but the engine at its default.
    #[must_use]
    pub fn new(id: Uuid, name: &str, engine: SqlEngine) -> Self {
        Self { id, name: name.into(), engine, notice: true }
    }

    /// Its PostgreSQL servers; `None` if it is embedded.
    #[must_use]
    pub const fn upstream(&self) -> Option<&Upstream> {
        match &self.engine {
            SqlEngine::Upstream(upstream) => Some(upstream),
            SqlEngine::Sqlite { .. } => None,
        }
    }
}

impl Upstream {
    /// These servers with every other setting at its default.
    #[must_use]
    pub fn new(url: UpstreamUrl) -> Self {
        Self {
            url,
            pooling: Pooling::default(),
            connections: SqlConnections::default(),
            login: SqlLogin::default(),
        }
    }
}

impl SqliteFile {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SqliteFile {
    type Err = ParseSqliteFileError;

    /// One name of letters, digits and `_ - .`. It must not begin with a dot, because those files are hidden, nor end
    /// like the files that SQLite keeps beside a database, and it must not be a file of the daemon.
    fn from_str(text: &str) -> Result<Self, ParseSqliteFileError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let is_kept_by_sqlite = ["-wal", "-shm", "-journal"].iter().any(|end| text.ends_with(end));
        let is_own = OWN_FILES.iter().any(|own| text.starts_with(own));
        let is_right = (1..=SQLITE_FILE_BYTES_MAX).contains(&text.len())
            && text.bytes().all(fits)
            && !text.starts_with(['.', '-'])
            && !is_kept_by_sqlite
            && !is_own;
        is_right.then(|| Self(text.into())).ok_or(ParseSqliteFileError)
    }
}

/// How the names of the daemon's own files in the data directory begin.
const OWN_FILES: [&str; 6] =
    ["token", "secret", "audit.log", "api.sock", "ovsdb.sock", "paceline.db"];

impl fmt::Display for ParseSqliteFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected the name of a file in the data directory such as \"notes.db\": 1 to \
             {SQLITE_FILE_BYTES_MAX} of the characters A-Z a-z 0-9 . _ -, without a path, and not a file of the \
             daemon"
        )
    }
}

impl std::error::Error for ParseSqliteFileError {}

impl fmt::Display for SqliteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{SQLITE_FILE_BYTES_MAX, SqliteFile};

    #[test]
    fn a_file_is_a_name_in_the_data_directory() {
        let longest = "a".repeat(SQLITE_FILE_BYTES_MAX);
        for name in ["notes.db", "a", "a..b", "x-1_y.sqlite3", "paceline", &longest] {
            assert_eq!(name.parse::<SqliteFile>().unwrap().as_str(), name);
        }
        let too_long = "a".repeat(SQLITE_FILE_BYTES_MAX + 1);
        for name in [
            "",
            ".",
            "..",
            "../a",
            "a/b",
            "/a",
            ".hidden",
            "-a",
            "a b",
            "a\0",
            "a\\b",
            "ä.db",
            "a.db-wal",
            "a.db-shm",
            "a.db-journal",
            "paceline.db",
            "paceline.db.bak",
            "token",
            "audit.log.1",
            &too_long,
        ] {
            assert!(name.parse::<SqliteFile>().is_err(), "{name}");
        }
    }
}
