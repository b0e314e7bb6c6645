//! Why work is turned away, and when it may come back.
//!
//! A refusal is an ordinary answer, not an error. It names what refused and, where that can be
//! known, the time at which another try has a chance. Doors translate it; nobody else writes texts
//! for it.

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

/// What turned the request away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A rule rejected it.
    Rejected {
        /// The rule's number.
        rule: u32,
    },
    /// The queue has as many waiters as it may have.
    QueueFull {
        /// The queue.
        place: Place,
        /// How many may wait there.
        max: u64,
    },
    /// It would have to wait longer than the queue or the request allows.
    TooLong {
        /// The queue.
        place: Place,
        /// How long it would wait.
        wait: Span,
        /// How long it may wait.
        max: Span,
    },
    /// It waited as long as the queue or the request allows.
    Expired {
        /// The queue.
        place: Place,
        /// How long it waited there.
        waited: Span,
        /// The resource that it could not have, if it waited for one.
        resource: Option<Box<str>>,
    },
    /// It costs more than the counter ever has at once.
    CostTooHigh {
        /// The counter.
        place: Place,
        /// What the request costs.
        cost: u32,
        /// The most that can be spent at once.
        burst: u64,
    },
    /// The pool takes no new work.
    Draining {
        /// The pool.
        pool: Box<str>,
    },
    /// The daemon is about to end.
    Ending,
    /// No line of its frontend takes it, and the frontend has no backend for all others.
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
        /// The nearest name there is.
        near: Option<Box<str>>,
    },
    /// A claim on a resource hangs together with too much else to be granted in one step.
    TooWide {
        /// The resource.
        resource: Box<str>,
        /// How many shared resources a request may meet.
        max: usize,
    },
    /// The request would wait for what its own session holds.
    BlocksItself {
        /// The resource it asks for.
        resource: Box<str>,
        /// The request of the same session that is in its way.
        holder: RequestId,
    },
    /// The session does not own a lock that the request requires.
    NotOwner {
        /// The lock.
        lock: Box<str>,
    },
    /// An operator took it out of its queue.
    Cancelled {
        /// The operator.
        by: Box<str>,
        /// Why, in the operator's words; empty if nothing was said.
        why: Box<str>,
    },
    /// As many requests wait and run as there may be, whatever they are for.
    Exhausted {
        /// What there is no more of: requests, or bytes of their attributes.
        of: &'static str,
        /// How many there may be.
        max: u64,
    },
}

/// An answer that turns a request away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What turned it away.
    pub reason: Reason,
    /// When another try has a chance, where that is known.
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

/// A text from a client within a line for people: no character of it ends the line or turns its direction.
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
    /// The queue where it was, if it was at one.
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
