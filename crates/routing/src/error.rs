//! Why frontends and backends are invalid: which object, which setting, and what is wrong with it.

use crate::routing::WEIGHT_MAX;
use paceline_expr::CompileError;
use paceline_types::limits;
use std::fmt;

/// The object of an invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// A frontend.
    Frontend(Box<str>),
    /// A backend.
    Backend(Box<str>),
    /// A server.
    Server {
        /// Its backend.
        backend: Box<str>,
        /// Its name there.
        name: Box<str>,
    },
    /// A target of the SQL door.
    SqlTarget(Box<str>),
}

/// Why a configuration of frontends and backends is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingError {
    /// The frontend, backend, server or target.
    pub of: Of,
    /// The setting, as in the configuration.
    pub field: &'static str,
    /// Its entry, if it has several: a number from 1, or a name.
    pub entry: Option<Box<str>>,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong with a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There are too many.
    TooMany {
        /// The most that are allowed.
        max: usize,
    },
    /// The name is empty or too long, or contains blanks, control characters or a slash.
    Name,
    /// The name is empty or too long, or contains blanks or control characters.
    Word,
    /// Another object has the same value.
    Duplicate,
    /// The name belongs to a door.
    Reserved,
    /// Another frontend listens on this address.
    Listens {
        /// The address.
        address: Box<str>,
        /// The two frontends; the same one if it has the address twice.
        frontends: Box<[Box<str>; 2]>,
    },
    /// It has no address.
    NoAddress,
    /// The backend does not exist.
    NoBackend {
        /// The name.
        backend: Box<str>,
        /// The most similar name that exists.
        near: Option<Box<str>>,
    },
    /// The expression does not compile.
    Expression(CompileError),
    /// It must be at least 1, or longer than zero.
    Zero,
    /// It is more than [`WEIGHT_MAX`].
    Weight(u32),
    /// No certificate can be for this name.
    NoTlsName(Box<str>),
    /// The certificate of this server cannot be verified, because there is no name for it.
    NothingToVerify {
        /// The server's name.
        server: Box<str>,
    },
    /// It is above the maximum.
    MoreThan {
        /// The maximum.
        max: u64,
    },
    /// The text is too long.
    MoreBytes {
        /// The most bytes.
        max: usize,
    },
    /// There is no name of a user.
    NoUser,
}

impl RoutingError {
    pub(crate) const fn new(of: Of, field: &'static str, problem: Problem) -> Self {
        Self { of, field, entry: None, problem }
    }
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frontend(name) => write!(f, "frontend \"{name}\""),
            Self::Backend(name) => write!(f, "backend \"{name}\""),
            Self::Server { backend, name } => write!(f, "server \"{backend}/{name}\""),
            Self::SqlTarget(name) => write!(f, "sql_target \"{name}\""),
        }
    }
}

impl fmt::Display for RoutingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.of, self.field)?;
        if let Some(entry) = &self.entry {
            write!(f, " {entry}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { max } => write!(f, "there may be at most {max}"),
            Self::Name => write!(
                f,
                "expected one word of 1 to {} bytes, without blanks and slashes",
                limits::NAME_BYTES_MAX
            ),
            Self::Word => {
                write!(
                    f,
                    "expected one word of 1 to {} bytes, without blanks",
                    limits::NAME_BYTES_MAX
                )
            }
            Self::Duplicate => f.write_str("another one has the same"),
            Self::Reserved => {
                f.write_str("\"api\", \"sql\" and \"ovsdb\" are doors of their own, choose another")
            }
            Self::Listens { address, frontends } => match &**frontends {
                [own, other] if own == other => write!(f, "{address} is given twice"),
                [own, other] => write!(
                    f,
                    "frontend \"{own}\" and frontend \"{other}\" cannot both listen at {address}"
                ),
            },
            Self::NoAddress => f.write_str("expected at least one address"),
            Self::NoBackend { backend, near: Some(near) } => {
                write!(f, "no backend \"{backend}\", did you mean \"{near}\"?")
            }
            Self::NoBackend { backend, near: None } => write!(f, "no backend \"{backend}\""),
            Self::Expression(error) => error.fmt(f),
            Self::Zero => f.write_str("expected more than zero"),
            Self::Weight(found) => write!(f, "expected 0 to {WEIGHT_MAX}, found {found}"),
            Self::NoTlsName(name) => {
                write!(f, "expected the name of a host or an IP address, found {name:?}")
            }
            Self::NothingToVerify { server } => write!(
                f,
                "expected the name that the certificate of server \"{server}\" is for, because its \
                 address has none"
            ),
            Self::MoreThan { max } => write!(f, "expected at most {max}"),
            Self::MoreBytes { max } => write!(f, "expected at most {max} bytes"),
            Self::NoUser => f.write_str("expected the name of a user"),
        }
    }
}

impl std::error::Error for RoutingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Expression(error) => Some(error),
            _ => None,
        }
    }
}
