//! Events of requests and of the configuration, for clients that follow them.

use super::Configured;
use paceline_engine::{About, Effect, Ended, Engine, Outcome};
use paceline_types::{Refusal, RequestId};
use std::sync::Arc;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request started to run.
    Started {
        /// The request.
        id: RequestId,
        /// Whose it is.
        about: Option<Arc<About>>,
    },
    /// A request arrived and waits.
    Waiting {
        /// The request.
        id: RequestId,
        /// Whose it is.
        about: Option<Arc<About>>,
    },
    /// A request was refused.
    Refused {
        /// The request.
        id: RequestId,
        /// Why.
        refusal: Refusal,
        /// Whose it is; none if it had waited, when [`Event::Waiting`] said so.
        about: Option<Arc<About>>,
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
        /// Whose it is.
        about: Arc<About>,
    },
    /// The configuration changed.
    Configured(Arc<Configured>),
}

impl Event {
    pub(super) fn of_outcome(id: RequestId, outcome: &Outcome, about: Option<Arc<About>>) -> Self {
        match outcome {
            Outcome::Started => Self::Started { id, about },
            Outcome::Waiting => Self::Waiting { id, about },
            Outcome::Refused(refusal) => Self::Refused { id, refusal: refusal.clone(), about },
        }
    }

    pub(super) fn of_effect(effect: &Effect, engine: &Engine) -> Option<Self> {
        Some(match effect {
            Effect::Start { id } => {
                Self::Started { id: *id, about: engine.request(*id).map(About::of) }
            }
            Effect::Refuse { id, refusal } => {
                Self::Refused { id: *id, refusal: refusal.clone(), about: None }
            }
            Effect::End { id, ended } => return Self::of_end(*id, *ended),
            Effect::Log { id, rule, about } => {
                Self::Matched { id: *id, rule: *rule, about: Arc::clone(about) }
            }
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
