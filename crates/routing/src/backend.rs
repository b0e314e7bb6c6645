//! A backend as configured: servers that do the same work, and how one of them is chosen.

use crate::address::Address;
use crate::frontend::Certificate;
use paceline_types::{BackendId, ServerId, Span};
use std::fmt;
use std::str::FromStr;

/// Servers that do the same work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its number, which an edit keeps.
    pub id: BackendId,
    /// Its name, one word without a slash.
    pub name: Box<str>,
    /// How a server is chosen.
    pub balance: Balance,
    /// The servers, in the order of their numbers.
    pub servers: Vec<Server>,
    /// How many may wait for a server that has `connections_max`.
    pub queue_len_max: Option<u64>,
    /// How long.
    pub queue_delay_max: Option<Span>,
    /// How often a request that can be repeated is sent to another server when one cannot be connected
    /// to.
    pub retries: u32,
    /// How servers are looked after; without it they count as up until they cannot be connected to.
    pub health: Option<Health>,
    /// What is waited for how long.
    pub timeouts: BackendTimeouts,
    /// How servers are spoken to over TLS; without it they are spoken to in the clear.
    pub tls: Option<BackendTls>,
}

/// One server of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its number, which an edit keeps.
    pub id: ServerId,
    /// Its name within the backend, one word.
    pub name: Box<str>,
    /// Where it listens.
    pub address: Address,
    /// Its share; a server of weight 0 gets nothing new.
    pub weight: u32,
    /// How many requests it may have at one time.
    pub connections_max: Option<u32>,
}

/// How a server is chosen among the servers that are up and have room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight, each as evenly spread as can be.
    #[default]
    RoundRobin,
    /// The one with the fewest requests for its weight.
    LeastConnections,
    /// The better of two drawn by lot.
    PowerOfTwo,
}

/// The way of choosing servers has no such word.
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

/// How a server is looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What is asked for with GET; without it, connecting is enough.
    pub path: Option<Box<str>>,
    /// The `Host` of the question; the server's address unless said.
    pub host: Option<Box<str>>,
    /// From one question to the next.
    pub interval: Span,
    /// For an answer.
    pub timeout: Span,
    /// So many good answers in a row bring a server up.
    pub rise: u32,
    /// So many bad ones take it down.
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

/// What a backend waits for, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendTimeouts {
    /// For a connection.
    pub connect: Span,
    /// For the head of a response, once the request is sent.
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

/// How servers are spoken to over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendTls {
    /// A file of certificates that are believed; those of the system unless said.
    pub ca: Option<Box<str>>,
    /// The name that is asked for and verified; the host of a server's address unless said.
    pub name: Option<Box<str>>,
    /// Whether a server has to prove that it is the one that is meant.
    pub verify: bool,
    /// The certificate that we show to servers.
    pub certificate: Option<Certificate>,
}

impl Default for BackendTls {
    fn default() -> Self {
        Self { ca: None, name: None, verify: true, certificate: None }
    }
}

impl BackendTls {
    /// The name that a server at this address is asked for, an IP address or the name of a host; none
    /// for a unix socket if no setting names it.
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
