//! How a request ends without a complete response, in either protocol.

use crate::respond::Reply;
use crate::serve::orphan::{Orphan, Unfinished};
use crate::serve::upstream::Upstream;
use std::fmt;
use std::io;

/// Why a request stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Its client has disconnected: nothing is sent.
    Left,
    /// This is its answer.
    Reply(Reply),
}

/// How an exchange failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client disconnected, or its connection broke.
    ClientLeft,
    /// The client did not send more of its body in time.
    ClientSlow,
    /// The client's body is malformed.
    Body(&'static str),
    /// The client's body is too long.
    BodyTooLong,
    /// There is no room for the part of the body that the client has sent.
    NoRoom(&'static str),
    /// The connection to the server broke before any part of the response arrived.
    Broken(io::Error),
    /// The connection to the server broke after part of a head or an interim response arrived.
    BrokenOff(io::Error),
    /// The response is malformed.
    Response(&'static str),
    /// The server did not send more in time.
    ServerSlow,
}

impl Failure {
    /// Whether the server may still be working: it has neither closed its connection nor timed out.
    pub const fn leaves_work(&self) -> bool {
        match self {
            Self::ClientLeft | Self::ClientSlow => true,
            Self::Body(_) | Self::BodyTooLong | Self::NoRoom(_) => true,
            // As far as is known, a server that sent a malformed response continues to work.
            Self::Response(_) => true,
            Self::Broken(_) | Self::BrokenOff(_) | Self::ServerSlow => false,
        }
    }

    /// Whether the request is sent again over a new connection. A server may close an idle connection at the moment
    /// it is reused.
    pub const fn is_of_idle(&self, upstream: &Upstream) -> bool {
        matches!(self, Self::Broken(_)) && upstream.is_reused
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientLeft => f.write_str("the client left"),
            Self::ClientSlow => f.write_str("the client sent no more in time"),
            Self::Body(text) | Self::Response(text) | Self::NoRoom(text) => f.write_str(text),
            Self::BodyTooLong => f.write_str("the body is too long"),
            Self::Broken(error) | Self::BrokenOff(error) => error.fmt(f),
            Self::ServerSlow => f.write_str("the server sent nothing more in time"),
        }
    }
}

/// What remains of a request that got no complete response.
#[derive(Debug)]
pub(crate) struct Lost {
    pub stop: Stop,
    /// The status of the response that had begun, if any. That response is cut short; a reply is then only for the
    /// log.
    pub status: Option<u16>,
    /// The server, if it is still working.
    pub orphan: Option<Orphan>,
}

impl Lost {
    /// The remains after a failure. `unfinished` is what the server still has to send.
    pub fn new(
        failure: Failure,
        status: Option<u16>,
        upstream: Upstream,
        unfinished: Option<Unfinished>,
    ) -> Self {
        // Details about the server are for the log only.
        let server = &upstream.server.name;
        tracing::debug!(%server, %failure, "an exchange failed");
        let unfinished = unfinished.filter(|_| failure.leaves_work());
        let stop = Reply::failed(&failure).map_or(Stop::Left, Stop::Reply);
        let orphan = unfinished.map(|unfinished| Orphan::new(upstream, unfinished));
        Self { stop, status, orphan }
    }
}

impl From<Stop> for Lost {
    /// The remains before anything was sent to a server.
    fn from(stop: Stop) -> Self {
        Self { stop, status: None, orphan: None }
    }
}
