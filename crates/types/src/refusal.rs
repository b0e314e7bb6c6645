//! Why work is refused, and when it can be retried.
//!
//! A refusal is an ordinary answer, not an error. It names what refused the request and, if that is known, the time
//! at which a retry has a chance. Doors translate it; no other part writes texts for it.

use crate::{RequestId, Span, Time};
use std::fmt;

/// Where a queue is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// At the checkpoint of this name, in the counter of this key if it has keys.
    Checkpoint {
        /// The checkpoint.
        name: Box<str>,
        /// The key, if the checkpoint has keys.
        key: Option<Box<str>>,
    },
    /// In the pool of this name.
    Pool(Box<str>),
}

/// What refused the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A rule rejected it.
    Rejected {
        /// The rule's number.
        rule: u32,
    },
    /// The queue is full.
    QueueFull {
        /// The queue.
        place: Place,
        /// The most that may wait there.
        max: u64,
    },
    /// The wait would be longer than the queue or the request allows.
    TooLong {
        /// The queue.
        place: Place,
        /// How long it would wait.
        wait: Span,
        /// How long it may wait.
        max: Span,
    },
    /// The request waited as long as the queue or the request allows.
    Expired {
        /// The queue.
        place: Place,
        /// How long it waited there.
        waited: Span,
        /// The resource that it waited for, if it waited for one.
        resource: Option<Box<str>>,
        /// Whether its pool is stopped, so that nothing in it runs.
        stopped: bool,
    },
    /// Its cost is more than the counter ever allows at once.
    CostTooHigh {
        /// The counter.
        place: Place,
        /// The cost of the request.
        cost: u32,
        /// The most that can be spent at once.
        burst: u64,
    },
    /// The pool accepts no new work.
    Draining {
        /// The pool.
        pool: Box<str>,
    },
    /// The daemon is about to exit.
    Ending,
    /// No line of its frontend matches, and the frontend has no default backend.
    NoBackend {
        /// The frontend.
        frontend: Box<str>,
    },
    /// No server of its backend is up.
    NoServer {
        /// The backend.
        backend: Box<str>,
    },
    /// An edit deleted its backend while it waited there.
    BackendDeleted {
        /// The backend.
        backend: Box<str>,
    },
    /// A claim names a resource that does not exist.
    UnknownResource {
        /// The name.
        resource: Box<str>,
        /// The most similar name that exists.
        near: Option<Box<str>>,
    },
    /// A claim on a resource affects too many others to be granted in one step.
    TooWide {
        /// The resource.
        resource: Box<str>,
        /// The most shared resources that a request may affect.
        max: usize,
    },
    /// The request would wait for what its own session holds.
    BlocksItself {
        /// The resource it asks for.
        resource: Box<str>,
        /// The request of the same session that blocks it.
        holder: RequestId,
    },
    /// The request would wait, through other sessions, for what its own session holds, and they for what it asks for.
    Deadlock {
        /// The resource it asks for.
        resource: Box<str>,
        /// The request in its way: it holds the resource, or claims it first.
        holder: RequestId,
    },
    /// The session does not own a lock that the request requires.
    NotOwner {
        /// The lock.
        lock: Box<str>,
    },
    /// An operator removed it from its queue.
    Cancelled {
        /// The operator.
        by: Box<str>,
        /// Why, in the operator's words; empty if no reason was given.
        why: Box<str>,
    },
    /// The number of requests that wait and run has reached its maximum, whatever they are for.
    Exhausted {
        /// What is exhausted: requests, or bytes of their attributes.
        of: &'static str,
        /// The maximum.
        max: u64,
    },
}

/// An answer that refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What refused it.
    pub reason: Reason,
    /// When a retry has a chance, if that is known.
    pub retry_at: Option<Time>,
    /// The HTTP status that the checkpoint asks for.
    pub status: Option<u16>,
}

impl Refusal {
    /// A refusal that no waiting will change.
    #[must_use]
    pub const fn lasting(reason: Reason) -> Self {
        Self { reason, retry_at: None, status: None }
    }
}

/// A text from a client within a displayed line: no character of it ends the line or changes its direction.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            let turns = matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            match c.is_control() || turns {
                true => write!(f, "{}", c.escape_debug())?,
                false => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint { name, key: Some(key) } => {
                write!(f, "checkpoint \"{name}\" (key \"{}\")", OneLine(key))
            }
            Self::Checkpoint { name, key: None } => write!(f, "checkpoint \"{name}\""),
            Self::Pool(name) => write!(f, "pool \"{name}\""),
        }
    }
}

impl Reason {
    /// The queue of the request, if it was at one.
    #[must_use]
    pub const fn place(&self) -> Option<&Place> {
        match self {
            Self::QueueFull { place, .. }
            | Self::TooLong { place, .. }
            | Self::Expired { place, .. }
            | Self::CostTooHigh { place, .. } => Some(place),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { rule } => write!(f, "rejected by rule {rule}"),
            Self::QueueFull { place, max } => {
                write!(f, "{place}: the queue is full, {max} may wait")
            }
            Self::TooLong { place, wait, max } => {
                write!(f, "{place}: the wait would be {}, longer than {max}", wait.rounded())
            }
            Self::Expired { waited, resource: Some(resource), .. } => {
                write!(f, "resource \"{resource}\": waited {}", waited.rounded())
            }
            Self::Expired { place, waited, stopped: true, .. } => {
                write!(f, "{place} is stopped: waited {}", waited.rounded())
            }
            Self::Expired { place, waited, .. } => {
                write!(f, "{place}: waited {}", waited.rounded())
            }
            Self::CostTooHigh { place, cost, burst } => {
                write!(f, "{place}: a cost of {cost} is more than the burst of {burst}")
            }
            Self::Draining { pool } => write!(f, "pool \"{pool}\" is draining"),
            Self::Ending => f.write_str("the daemon is ending"),
            Self::NoBackend { frontend } => {
                write!(f, "no backend of frontend \"{frontend}\" takes it")
            }
            Self::NoServer { backend } => {
                write!(f, "no server of backend \"{backend}\" is up or has a weight")
            }
            Self::BackendDeleted { backend } => {
                write!(f, "backend \"{backend}\" was deleted while the request waited for it")
            }
            Self::UnknownResource { resource, near: Some(near) } => {
                write!(f, "no resource \"{resource}\", did you mean \"{near}\"?")
            }
            Self::UnknownResource { resource, near: None } => {
                write!(f, "no resource \"{resource}\"")
            }
            Self::TooWide { resource, max } => write!(
                f,
                "a claim on \"{resource}\" meets more than {max} shared resources, claim smaller parts of it"
            ),
            Self::BlocksItself { resource, holder } => {
                write!(f, "resource \"{resource}\" is held by request {holder} of the same session")
            }
            Self::Deadlock { resource, holder } => write!(
                f,
                "deadlock: it would wait for \"{resource}\" behind request {holder}, which cannot finish until \
                 this session releases what it holds"
            ),
            Self::NotOwner { lock } => {
                write!(f, "not owner: the session does not own lock \"{lock}\"")
            }
            Self::Cancelled { by, why } if why.is_empty() => {
                write!(f, "cancelled by {}", OneLine(by))
            }
            Self::Cancelled { by, why } => {
                write!(f, "cancelled by {}: {}", OneLine(by), OneLine(why))
            }
            Self::Exhausted { of, max } => {
                write!(f, "resources exhausted: no more than {max} {of} at a time")
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}
