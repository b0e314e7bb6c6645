//! Where the daemon is, and the credentials to use.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A unix socket; the kernel identifies the client.
    Unix(PathBuf),
    /// A TCP address such as `127.0.0.1:7070`; the token identifies the client.
    Tcp {
        /// Host and port.
        address: String,
        /// The token.
        token: Token,
    },
}

impl Target {
    /// The socket of the daemon with this data directory.
    #[must_use]
    pub fn in_data_directory(data: &Path) -> Self {
        Self::Unix(data.join("api.sock"))
    }

    /// Whether a session can be bound to a connection.
    #[must_use]
    pub const fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp { address, .. } => f.write_str(address),
        }
    }
}

/// A secret that is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The token in this text, without surrounding blanks and line ends. `None` if it is empty or contains characters
    /// that cannot be sent.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }

    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::{Target, Token};

    #[test]
    fn a_token_is_not_shown() {
        let token = Token::new(" abc123\n").unwrap();
        let target = Target::Tcp { address: "127.0.0.1:7070".into(), token };
        assert_eq!(target.to_string(), "127.0.0.1:7070");
        assert!(!format!("{target:?}").contains("abc123"));
    }

    #[test]
    fn a_token_cannot_smuggle_a_header() {
        assert_eq!(Token::new("a\r\nX-Other: b"), None);
        assert_eq!(Token::new("\n"), None);
    }
}
