//! The place of a list of checkpoints on a request's path.
//!
//! Owns the text form: `frontend NAME`, `backend NAME`, `server BACKEND/NAME`, `pool NAME`. Names are one
//! word. The name of a backend contains no slash, so that the text has one meaning.

use paceline_types::limits::NAME_BYTES_MAX;
use std::fmt;
use std::str::FromStr;

/// A place that has a list of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// A frontend, where requests arrive.
    Frontend(Box<str>),
    /// A backend, where requests are sent.
    Backend(Box<str>),
    /// One server of a backend.
    Server {
        /// The backend.
        backend: Box<str>,
        /// The server's name within it.
        name: Box<str>,
    },
    /// The pool that runs the requests.
    Pool(Box<str>),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frontend(name) => write!(f, "frontend {name}"),
            Self::Backend(name) => write!(f, "backend {name}"),
            Self::Server { backend, name } => write!(f, "server {backend}/{name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
        }
    }
}

/// Why a text does not name the place of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseAtError {
    /// It does not begin with `frontend`, `backend`, `server` or `pool`.
    Kind,
    /// The name is missing or is more than one word.
    Name,
    /// A server is not written as `BACKEND/NAME`.
    Server,
    /// The name is longer than [`NAME_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for ParseAtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind => f.write_str(
                "expected \"frontend NAME\", \"backend NAME\", \"server BACKEND/NAME\" or \
                 \"pool NAME\"",
            ),
            Self::Name => f.write_str("expected one name, without blanks"),
            Self::Server => f.write_str("expected a server as BACKEND/NAME"),
            Self::TooLong => write!(f, "a name may have at most {NAME_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for ParseAtError {}

impl FromStr for At {
    type Err = ParseAtError;

    fn from_str(text: &str) -> Result<Self, ParseAtError> {
        let (kind, name) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        if !["frontend", "backend", "server", "pool"].contains(&kind) {
            return Err(ParseAtError::Kind);
        }
        let name = name.trim_start();
        let is_word = |name: &str| !name.is_empty() && !name.contains(is_blank);
        if !is_word(name) {
            return Err(ParseAtError::Name);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(ParseAtError::TooLong);
        }
        Ok(match kind {
            "frontend" => Self::Frontend(name.into()),
            "backend" => Self::Backend(name.into()),
            "pool" => Self::Pool(name.into()),
            _ => {
                let (backend, name) = name
                    .split_once('/')
                    .filter(|(backend, name)| is_word(backend) && is_word(name))
                    .ok_or(ParseAtError::Server)?;
                Self::Server { backend: backend.into(), name: name.into() }
            }
        })
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

#[cfg(test)]
mod tests {
    use super::{At, NAME_BYTES_MAX, ParseAtError};

    #[test]
    fn text_and_back() {
        for (text, at) in [
            ("frontend api", At::Frontend("api".into())),
            ("backend db", At::Backend("db".into())),
            ("server db/one", At::Server { backend: "db".into(), name: "one".into() }),
            ("server db/a/b", At::Server { backend: "db".into(), name: "a/b".into() }),
            ("pool batch", At::Pool("batch".into())),
        ] {
            assert_eq!(text.parse(), Ok(at.clone()), "{text}");
            assert_eq!(at.to_string(), text);
        }
        assert_eq!("  pool   batch ".parse(), Ok(At::Pool("batch".into())));
    }

    #[test]
    fn wrong_texts_say_what_was_expected() {
        let long = format!("pool {}", "x".repeat(NAME_BYTES_MAX + 1));
        for (text, error) in [
            ("", ParseAtError::Kind),
            ("door api", ParseAtError::Kind),
            ("frontendapi", ParseAtError::Kind),
            ("frontend", ParseAtError::Name),
            ("frontend a b", ParseAtError::Name),
            ("pool a\u{7}", ParseAtError::Name),
            ("server db", ParseAtError::Server),
            ("server /one", ParseAtError::Server),
            ("server db/", ParseAtError::Server),
            (&long, ParseAtError::TooLong),
        ] {
            assert_eq!(text.parse::<At>(), Err(error), "{text}");
        }
    }
}
