//! What the engine returns to the host: answers for the caller, and effects for all other requests.

use paceline_routing::Site;
use paceline_types::{Known, PoolId, Priority, Refusal, Request, RequestId, ServerId, Span, Time};
use std::sync::Arc;

/// The first outcome of a request that was just submitted. Whatever happens to it later is an [`Effect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It runs: the caller holds a permit and must settle it.
    Started,
    /// It waits; `why` reports for what.
    Waiting,
    /// It was refused and holds nothing.
    Refused(Refusal),
}

/// How a request ended that its caller gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It ran, and released everything.
    Settled,
    /// It waited, and was removed without spending anything.
    Left,
    /// There was no such request any more.
    Unknown,
}

/// An event of a request other than the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A waiter runs now.
    Start {
        /// The request.
        id: RequestId,
    },
    /// A waiter was refused and holds nothing.
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
        /// Whose request it is, and what it says. A rejected request is gone when the effect is read.
        about: Arc<About>,
    },
}

/// The most bytes of a user or a text in events and in the log.
const ABOUT_BYTES_MAX: usize = 1 << 10;

/// Whose request it is, and what it says, as events and the log show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The user, cut if it is long.
    pub user: Box<str>,
    /// The text, cut if it is long.
    pub text: Box<str>,
    /// Whether it is a request of the HTTP door.
    pub is_http: bool,
}

impl About {
    /// What events show of this request.
    #[must_use]
    pub fn of(request: &Request) -> Arc<Self> {
        let known = |name| {
            let text = request.attributes.known(name);
            let end = text.floor_char_boundary(ABOUT_BYTES_MAX);
            text.get(..end).unwrap_or_default().into()
        };
        let is_http = request.attributes.known(Known::Kind) == "http";
        Arc::new(Self { user: known(Known::User), text: known(Known::Text), is_http })
    }
}

/// What was granted to a request that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The priority that the rules gave it.
    pub priority: Priority,
    /// The pool it runs in. A connection runs in no pool, and has the default pool here.
    pub pool: PoolId,
    /// The server it is sent to, and its address, if its frontend is configured. It is counted at that address,
    /// even if an edit moves the server to another one, so it may connect to no other address.
    pub site: Option<Arc<Site>>,
    /// When it was submitted.
    pub arrival: Time,
    /// How long it had waited before that.
    pub waited_before: Span,
    /// Since when it runs.
    pub since: Time,
}

impl Grant {
    /// How long it waited, also before it was submitted.
    #[must_use]
    pub fn waited(&self) -> Span {
        Span(self.since.since(self.arrival).0.saturating_add(self.waited_before.0))
    }

    /// The server it is sent to, if its frontend is configured.
    #[must_use]
    pub fn server(&self) -> Option<ServerId> {
        self.site.as_ref().map(|site| site.server)
    }
}
