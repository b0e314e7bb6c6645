//! The configuration of a frontend: where requests arrive, and what is trusted.

use crate::address::{Address, Network};
use paceline_types::Span;

/// An entry for requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// Its name, one word.
    pub name: Box<str>,
    /// The addresses where it listens.
    pub listen: Vec<Address>,
    /// The backend for requests that match no line of `use_backend`; without one they are refused.
    pub backend: Option<Box<str>>,
    /// Conditions in order; the first that holds selects the backend.
    pub use_backend: Vec<UseBackend>,
    /// Certificates by the names in them; the first is for clients that request none of these. Without any, there is
    /// no TLS.
    pub certificates: Vec<Certificate>,
    /// Whether HTTP/2 is supported: selected in the TLS handshake, or by its first bytes without TLS.
    pub http2: bool,
    /// Whether each connection begins with a header of the PROXY protocol (version 1 or 2). Then only trusted peers
    /// may connect.
    pub proxy_protocol: bool,
    /// Peers whose PROXY header and `X-Forwarded-For` are trusted.
    pub trusted: Vec<Network>,
    /// The source of the attribute `user`.
    pub user_from: Option<UserFrom>,
    /// Protocols that an `Upgrade` may ask for, lower case.
    pub upgrades: Vec<Box<str>>,
    /// The longest body of a request.
    pub body_bytes_max: Option<u64>,
    /// The most connections at one time.
    pub connections_max: u32,
    /// The timeouts.
    pub timeouts: FrontendTimeouts,
    /// Bodies that replace the default ones, by status.
    pub errors: Vec<ErrorBody>,
    /// The format of the access log, if there is one.
    pub access_log: Option<LogFormat>,
    /// Expressions whose values are logged with each request, by name.
    pub log_values: Vec<(Box<str>, String)>,
}

/// A condition, and the backend of the requests for which it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseBackend {
    /// An expression; it may read counters.
    pub when: String,
    /// The backend's name.
    pub backend: Box<str>,
}

/// A certificate with its key, as names of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The chain, the server's own first, as PEM.
    pub certificate: Box<str>,
    /// The private key, as PEM.
    pub key: Box<str>,
}

/// The source of the attribute `user`. Neither proves the identity; a component in front of the proxy must do that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFrom {
    /// The name in `Authorization: Basic`.
    Basic,
    /// The subject (`sub`) of the token in `Authorization: Bearer`.
    Bearer,
}

/// A body for responses with this status that the daemon itself generates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody {
    /// The status.
    pub status: u16,
    /// The name of a file.
    pub file: Box<str>,
}

/// The format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// The common log format, followed by Paceline's additions.
    Common,
}

/// The timeouts of a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontendTimeouts {
    /// For the complete head of a request, from its first byte (D2).
    pub header: Span,
    /// For the next piece of a body, in either direction (D2).
    pub body: Span,
    /// For the next request on a connection.
    pub idle: Span,
    /// For one request in all queues together.
    pub queue: Option<Span>,
    /// For the next byte, in either direction, after a connection was upgraded.
    pub tunnel: Span,
}

impl Default for FrontendTimeouts {
    fn default() -> Self {
        Self {
            header: Span::from_secs(10),
            body: Span::from_secs(30),
            idle: Span::from_secs(60),
            queue: None,
            tunnel: Span::from_secs(3_600),
        }
    }
}

impl Frontend {
    /// A frontend with every setting at its default.
    #[must_use]
    pub fn new(name: &str, listen: Vec<Address>) -> Self {
        Self {
            name: name.into(),
            listen,
            backend: None,
            use_backend: vec![],
            certificates: vec![],
            http2: true,
            proxy_protocol: false,
            trusted: vec![],
            user_from: None,
            upgrades: vec!["websocket".into()],
            body_bytes_max: None,
            connections_max: 10_000,
            timeouts: FrontendTimeouts::default(),
            errors: vec![],
            access_log: None,
            log_values: vec![],
        }
    }
}
