//! The configuration of a backend: servers that do the same work, and how one of them is chosen.

use crate::address::Address;
use crate::frontend::Certificate;
use paceline_types::{BackendId, ServerId, Span};
use std::fmt;
use std::str::FromStr;

/// Servers that do the same work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its id, which an edit keeps.
    pub id: BackendId,
    /// Its name, one word without a slash.
    pub name: Box<str>,
    /// How a server is chosen.
    pub balance: Balance,
    /// The servers, in the order of their ids.
    pub servers: Vec<Server>,
    /// How many requests may wait for servers with `connections_max`.
    pub queue_len_max: Option<u64>,
    /// How long a request may wait for them.
    pub queue_delay_max: Option<Span>,
    /// How often a request that can be repeated is sent to another server when a connection fails.
    pub retries: u32,
    /// The health checks; without them, servers are up until a connection fails.
    pub health: Option<Health>,
    /// The timeouts.
    pub timeouts: BackendTimeouts,
    /// TLS to servers; without it, connections are unencrypted.
    pub tls: Option<BackendTls>,
}

/// One server of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its id, which an edit keeps.
    pub id: ServerId,
    /// Its name within the backend, one word.
    pub name: Box<str>,
    /// Its address.
    pub address: Address,
    /// Its share; a server of weight 0 gets no new requests.
    pub weight: u32,
    /// The most requests it may have at one time.
    pub connections_max: Option<u32>,
}

/// How a server is chosen among the servers that are up and have room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight, as evenly distributed as possible.
    #[default]
    RoundRobin,
    /// The server with the fewest requests for its weight.
    LeastConnections,
    /// The better of two random servers.
    PowerOfTwo,
}

/// The text is not a balance method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseBalanceError;

impl fmt::Display for ParseBalanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected \"round-robin\", \"least-connections\" or \"power-of-two\"")
    }
}

impl std::error::Error for ParseBalanceError {}

impl FromStr for Balance {
    type Err = ParseBalanceError;

    fn from_str(text: &str) -> Result<Self, ParseBalanceError> {
        match text {
            "round-robin" => Ok(Self::RoundRobin),
            "least-connections" => Ok(Self::LeastConnections),
            "power-of-two" => Ok(Self::PowerOfTwo),
            _ => Err(ParseBalanceError),
        }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RoundRobin => "round-robin",
            Self::LeastConnections => "least-connections",
            Self::PowerOfTwo => "power-of-two",
        })
    }
}

/// The health checks of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The path that is requested with GET; without it, connecting is enough.
    pub path: Option<Box<str>>,
    /// The `Host` of the check; the server's address by default.
    pub host: Option<Box<str>>,
    /// The time from one check to the next.
    pub interval: Span,
    /// The timeout of a check.
    pub timeout: Span,
    /// How many successful checks in a row mark a server as up.
    pub rise: u32,
    /// How many failed checks in a row mark it as down.
    pub fall: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            path: None,
            host: None,
            interval: Span::from_secs(2),
            timeout: Span::from_secs(2),
            rise: 2,
            fall: 3,
        }
    }
}

/// The timeouts of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendTimeouts {
    /// For connecting.
    pub connect: Span,
    /// For the head of a response, after the request is sent.
    pub response: Span,
    /// How long an idle connection is kept.
    pub idle: Span,
}

impl Default for BackendTimeouts {
    fn default() -> Self {
        Self {
            connect: Span::from_secs(5),
            response: Span::from_secs(60),
            idle: Span::from_secs(30),
        }
    }
}

/// TLS to servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTls {
    /// A file of trusted certificates; those of the system by default.
    pub ca: Option<Box<str>>,
    /// The name that is sent and verified; the host of a server's address by default.
    pub name: Option<Box<str>>,
    /// Whether the certificate of a server is verified.
    pub verify: bool,
    /// The certificate that the daemon presents to servers.
    pub certificate: Option<Certificate>,
}

impl Default for BackendTls {
    fn default() -> Self {
        Self { ca: None, name: None, verify: true, certificate: None }
    }
}

impl BackendTls {
    /// The name sent to a server at this address, an IP address or the name of a host; `None` for a unix socket if no
    /// setting names it.
    #[must_use]
    pub fn name_of(&self, address: &Address) -> Option<Box<str>> {
        self.name.clone().or_else(|| address.host())
    }
}

impl Backend {
    /// A backend without servers and with every setting at its default.
    #[must_use]
    pub fn new(id: BackendId, name: &str) -> Self {
        Self {
            id,
            name: name.into(),
            balance: Balance::RoundRobin,
            servers: vec![],
            queue_len_max: None,
            queue_delay_max: None,
            retries: 2,
            health: None,
            timeouts: BackendTimeouts::default(),
            tls: None,
        }
    }

    /// Whether one of its servers has a maximum, so that requests may have to wait for one.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.servers.iter().any(|server| server.connections_max.is_some())
    }
}

impl Server {
    /// A server with every setting at its default.
    #[must_use]
    pub fn new(id: ServerId, name: &str, address: Address) -> Self {
        Self { id, name: name.into(), address, weight: 1, connections_max: None }
    }
}
