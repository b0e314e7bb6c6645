//! How an exchange ended without a whole response, in either protocol.

use crate::respond::Reply;
use crate::serve::exchange::Failure;
use crate::serve::orphan::{Orphan, Unfinished};
use crate::serve::upstream::Upstream;

/// How an exchange ended without a whole response.
#[derive(Debug)]
pub(crate) enum Gone {
    /// The client left.
    Left,
    /// The response was cut short: its status, and in one word why.
    Cut(u16, &'static str),
    /// Before the response began: this is answered instead.
    Reply(Reply),
}

/// The same with what is left behind.
#[derive(Debug)]
pub(crate) struct Lost {
    pub gone: Gone,
    /// The status of the response that had begun, if any.
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
        let unfinished = unfinished.filter(|_| failure.leaves_work());
        let gone = Gone::of(failure, status, &upstream);
        let orphan = unfinished.map(|unfinished| Orphan::new(upstream, unfinished));
        Self { gone, status, orphan }
    }
}

impl From<Gone> for Lost {
    /// Before a server was sent anything.
    fn from(gone: Gone) -> Self {
        Self { gone, status: None, orphan: None }
    }
}

impl Gone {
    /// What a failure comes to. What it says of the server goes to the log.
    fn of(failure: Failure, status: Option<u16>, upstream: &Upstream) -> Self {
        let server = &upstream.target.name;
        tracing::debug!(%server, %failure, "an exchange failed");
        match (Reply::failed(&failure), status) {
            (None, _) => Self::Left,
            (Some(reply), Some(status)) => Self::Cut(status, reply.word),
            (Some(reply), None) => Self::Reply(reply),
        }
    }
}
