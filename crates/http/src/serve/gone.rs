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
    /// What a failure leaves behind. `rest` is what a server that has not answered may still take.
    pub fn new(
        failure: Failure,
        status: Option<u16>,
        upstream: Upstream,
        rest: Option<Duration>,
    ) -> Self {
        let rest = rest.filter(|_| failure.is_of_client());
        let gone = Gone::of(failure, status, &upstream);
        let orphan = rest.map(|rest| Orphan::new(upstream, rest));
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
