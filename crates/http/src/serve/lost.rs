//! How a request ends without a whole response, in either protocol.

use crate::respond::Reply;
use crate::serve::orphan::{Orphan, Unfinished};
use crate::serve::upstream::Upstream;
use std::fmt;
use std::io;

/// Why a request does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Its client has left: nothing is sent.
    Left,
    /// This is its answer.
    Reply(Reply),
}

/// How an exchange went wrong.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client left, or the connection to it broke.
    ClientLeft,
    /// The client sent no more of its body in time.
    ClientSlow,
    /// The client's body is wrong.
    Body(&'static str),
    /// The client's body is too long.
    BodyTooLong,
    /// There is no room for what the client has sent of its body.
    NoRoom(&'static str),
    /// The connection to the server broke before anything of its response came.
    Broken(io::Error),
    /// The same after something came: part of a head, or an answer before the last one.
    BrokenOff(io::Error),
    /// The response is wrong.
    Response(&'static str),
    /// The server sent nothing more in time.
    ServerSlow,
}

impl Failure {
    /// Whether the server may still be at work: it has neither closed its connection nor timed out.
    pub const fn leaves_work(&self) -> bool {
        match self {
            Self::ClientLeft | Self::ClientSlow => true,
            Self::Body(_) | Self::BodyTooLong | Self::NoRoom(_) => true,
            // A server that sent something wrong goes on, for all that is known.
            Self::Response(_) => true,
            Self::Broken(_) | Self::BrokenOff(_) | Self::ServerSlow => false,
        }
    }

    /// Whether the request is sent again over a new connection: a server may close an idle connection just when it is
    /// used again.
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

/// What is left behind by a request that has no whole response.
#[derive(Debug)]
pub(crate) struct Lost {
    pub stop: Stop,
    /// The status of the response that had begun, if any. It is cut short; a reply is only for the log then.
    pub status: Option<u16>,
    /// The server, if it is still at work.
    pub orphan: Option<Orphan>,
}

impl Lost {
    /// What a failure leaves behind. `unfinished` is what the server has still to send.
    pub fn new(
        failure: Failure,
        status: Option<u16>,
        upstream: Upstream,
        unfinished: Option<Unfinished>,
    ) -> Self {
        // What it says of the server is for the log alone.
        let server = &upstream.server.name;
        tracing::debug!(%server, %failure, "an exchange failed");
        let unfinished = unfinished.filter(|_| failure.leaves_work());
        let stop = Reply::failed(&failure).map_or(Stop::Left, Stop::Reply);
        let orphan = unfinished.map(|unfinished| Orphan::new(upstream, unfinished));
        Self { stop, status, orphan }
    }
}

impl From<Stop> for Lost {
    /// Before a server was sent anything.
    fn from(stop: Stop) -> Self {
        Self { stop, status: None, orphan: None }
    }
}
