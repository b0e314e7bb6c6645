//! How an exchange ended without a whole response, in either protocol.

use crate::respond::Reply;
use crate::serve::exchange::Failure;
use crate::serve::orphan::Orphan;
use crate::serve::upstream::Upstream;
use std::time::Duration;

/// How an exchange ended without a whole response.
#[derive(Debug)]
pub(crate) enum Gone {
    /// The client left.
    Left,
    /// The response was cut short, in one word why.
    Cut(&'static str),
    /// Before the response began: this is answered instead.
    Reply(Reply),
}

/// The same with what is left behind.
#[derive(Debug)]
pub(crate) struct Lost {
    pub gone: Gone,
    /// The status that the client was sent, if any.
    pub status: u16,
    /// The server, if it is still at work.
    pub orphan: Option<Orphan>,
}

impl Lost {
    /// What a failure leaves behind. `rest` is what a server that has not answered may still take.
    pub fn new(
        failure: Failure,
        status: Option<u16>,
        upstream: Upstream,
        rest: Option<Duration>,
    ) -> Self {
        let rest = rest.filter(|_| failure.is_of_client());
        let gone = Gone::of(failure, status.is_some(), &upstream);
        let orphan = rest.map(|rest| Orphan::new(upstream, rest));
        Self { gone, status: status.unwrap_or(0), orphan }
    }
}

impl From<Gone> for Lost {
    /// Before a server was sent anything.
    fn from(gone: Gone) -> Self {
        Self { gone, status: 0, orphan: None }
    }
}

impl Gone {
    /// What a failure comes to. What it says of the server goes to the log.
    fn of(failure: Failure, is_answered: bool, upstream: &Upstream) -> Self {
        let server = &upstream.target.name;
        tracing::debug!(%server, %failure, "an exchange failed");
        match Reply::failed(&failure) {
            None => Self::Left,
            Some(reply) if is_answered => Self::Cut(reply.word),
            Some(reply) => Self::Reply(reply),
        }
    }
}
