//! What happens to requests, for those who watch.

use paceline_engine::{Effect, Outcome};
use paceline_types::{Refusal, RequestId};

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It runs.
    Started {
        /// The request.
        id: RequestId,
    },
    /// It came and waits.
    Waiting {
        /// The request.
        id: RequestId,
    },
    /// It was turned away.
    Refused {
        /// The request.
        id: RequestId,
        /// Why.
        refusal: Refusal,
    },
    /// It ran and is done.
    Settled {
        /// The request.
        id: RequestId,
    },
    /// It waited and left by itself.
    Left {
        /// The request.
        id: RequestId,
    },
    /// A rule that logs matched it.
    Matched {
        /// The request.
        id: RequestId,
        /// The rule's number.
        rule: u32,
    },
}

impl Event {
    pub(super) fn of_outcome(id: RequestId, outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Started => Self::Started { id },
            Outcome::Waiting => Self::Waiting { id },
            Outcome::Refused(refusal) => Self::Refused { id, refusal: refusal.clone() },
        }
    }

    pub(super) fn of_effect(effect: &Effect) -> Self {
        match effect {
            Effect::Start { id } => Self::Started { id: *id },
            Effect::Refuse { id, refusal } => Self::Refused { id: *id, refusal: refusal.clone() },
            Effect::Log { id, rule } => Self::Matched { id: *id, rule: *rule },
        }
    }
}
