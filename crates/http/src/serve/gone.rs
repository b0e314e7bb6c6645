//! How an exchange ended without a whole response, in either protocol.

use crate::respond::Reply;
use crate::serve::exchange::Failure;
use crate::serve::upstream::Upstream;

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

impl Gone {
    /// What a failure comes to. What it says of the server goes to the log.
    pub fn of(failure: Failure, is_answered: bool, upstream: &Upstream) -> Self {
        let server = &upstream.target.name;
        tracing::debug!(%server, %failure, "an exchange failed");
        match Reply::failed(&failure) {
            None => Self::Left,
            Some(reply) if is_answered => Self::Cut(reply.word),
            Some(reply) => Self::Reply(reply),
        }
    }
}
