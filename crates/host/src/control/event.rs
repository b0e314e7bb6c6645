//! Events of requests and of the configuration, for clients that follow them.

use super::Configured;
use paceline_engine::{Effect, Ended, Outcome};
use paceline_types::{Refusal, RequestId};
use std::sync::Arc;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request started to run.
    Started {
        /// The request.
        id: RequestId,
    },
    /// A request arrived and waits.
    Waiting {
        /// The request.
        id: RequestId,
    },
    /// A request was refused.
    Refused {
        /// The request.
        id: RequestId,
        /// Why.
        refusal: Refusal,
    },
    /// A request that ran has ended.
    Settled {
        /// The request.
        id: RequestId,
    },
    /// A request that waited was withdrawn by its client.
    Left {
        /// The request.
        id: RequestId,
    },
    /// A rule that logs matched a request.
    Matched {
        /// The request.
        id: RequestId,
        /// The rule's number.
        rule: u32,
    },
    /// The configuration changed.
    Configured(Arc<Configured>),
}

impl Event {
    pub(super) fn of_outcome(id: RequestId, outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Started => Self::Started { id },
            Outcome::Waiting => Self::Waiting { id },
            Outcome::Refused(refusal) => Self::Refused { id, refusal: refusal.clone() },
        }
    }

    pub(super) fn of_effect(effect: &Effect) -> Option<Self> {
        Some(match effect {
            Effect::Start { id } => Self::Started { id: *id },
            Effect::Refuse { id, refusal } => Self::Refused { id: *id, refusal: refusal.clone() },
            Effect::End { id, ended } => return Self::of_end(*id, *ended),
            Effect::Log { id, rule } => Self::Matched { id: *id, rule: *rule },
        })
    }

    pub(super) const fn of_end(id: RequestId, ended: Ended) -> Option<Self> {
        match ended {
            Ended::Settled => Some(Self::Settled { id }),
            Ended::Left => Some(Self::Left { id }),
            Ended::Unknown => None,
        }
    }
}
