//! What the engine returns to the host: answers for the caller, and effects for all other requests.

use paceline_routing::Site;
use paceline_types::{PoolId, Priority, Refusal, RequestId, ServerId, Time};
use std::sync::Arc;

/// What became of a request that was just submitted. Whatever happens to it later is an [`Effect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It runs: the caller holds a permit and must settle it.
    Started,
    /// It waits; `why` says for what.
    Waiting,
    /// It was turned away and holds nothing.
    Refused(Refusal),
}

/// How a request ended that its caller gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It ran, and gave everything back.
    Settled,
    /// It waited, and left having spent nothing.
    Left,
    /// There was no such request any more.
    Unknown,
}

/// Something that happened to another request than the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A waiter runs now.
    Start {
        /// The request.
        id: RequestId,
    },
    /// A waiter was turned away and holds nothing.
    Refuse {
        /// The request.
        id: RequestId,
        /// Why.
        refusal: Refusal,
    },
    /// A request ended because its session did.
    End {
        /// The request.
        id: RequestId,
        /// How.
        ended: Ended,
    },
    /// A rule that is set to log matched.
    Log {
        /// The request.
        id: RequestId,
        /// The rule's number.
        rule: u32,
    },
}

/// What a request that runs was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What the rules gave it.
    pub priority: Priority,
    /// The pool it runs in; a connection runs in none, and has the default pool here.
    pub pool: PoolId,
    /// The server it goes to, and where, if its frontend is configured. It is counted at that address, also if an
    /// edit moves the server to another one, so it may connect nowhere else.
    pub site: Option<Arc<Site>>,
    /// When it was submitted.
    pub arrival: Time,
    /// Since when it runs.
    pub since: Time,
}

impl Grant {
    /// The server it goes to, if its frontend is configured.
    #[must_use]
    pub fn server(&self) -> Option<ServerId> {
        self.site.as_ref().map(|site| site.server)
    }
}
