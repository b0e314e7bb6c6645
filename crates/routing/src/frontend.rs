//! A frontend as configured: where requests come in, and what is believed of them.

use crate::address::{Address, Network};
use paceline_types::Span;

/// Where requests come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// Its name, one word.
    pub name: Box<str>,
    /// Where it listens.
    pub listen: Vec<Address>,
    /// The backend of requests that no line of `use_backend` takes; without one they are refused.
    pub backend: Option<Box<str>>,
    /// Conditions in order, the first that holds names the backend.
    pub use_backend: Vec<UseBackend>,
    /// Certificates by the names in them; the first is for clients that name none of these. None at
    /// all: no TLS.
    pub certificates: Vec<Certificate>,
    /// Whether HTTP/2 is spoken: chosen in the handshake of TLS, by its first bytes without TLS.
    pub http2: bool,
    /// Whether each connection begins with a header of the PROXY protocol (version 1 or 2). Only
    /// trusted peers may connect then.
    pub proxy_protocol: bool,
    /// Peers whose PROXY header and `X-Forwarded-For` are believed.
    pub trusted: Vec<Network>,
    /// Where the attribute `user` comes from.
    pub user_from: Option<UserFrom>,
    /// Protocols that an `Upgrade` may ask for, lower case.
    pub upgrades: Vec<Box<str>>,
    /// The longest body of a request.
    pub body_bytes_max: Option<u64>,
    /// How many connections it has at one time.
    pub connections_max: u32,
    /// What is waited for how long.
    pub timeouts: FrontendTimeouts,
    /// Bodies in place of the usual ones, by status.
    pub errors: Vec<ErrorBody>,
    /// How requests are logged, if they are.
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

/// Where the attribute `user` is read from. Neither proves the identity; that is up to what stands before the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFrom {
    /// The name in `Authorization: Basic`.
    Basic,
    /// The subject (`sub`) of the token in `Authorization: Bearer`.
    Bearer,
}

/// A body for answers with this status that the daemon makes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody {
    /// The status.
    pub status: u16,
    /// The name of a file.
    pub file: Box<str>,
}

/// How requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// The common log format, with what Paceline adds behind it.
    Common,
}

/// What a frontend waits for, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontendTimeouts {
    /// For the whole head of a request, from its first byte (D2).
    pub header: Span,
    /// For the next piece of a body, either way (D2).
    pub body: Span,
    /// For the next request of a connection.
    pub idle: Span,
    /// In all queues together, for one request.
    pub queue: Option<Span>,
    /// For the next byte, either way, once a connection was upgraded.
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
