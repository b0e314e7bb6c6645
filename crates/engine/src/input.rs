//! What expressions read: the request's attributes, its priority, and the counters.

use crate::Engine;
use paceline_checkpoints::KeyHash;
use paceline_expr::{Counter, Input};
use paceline_types::{Attributes, CheckpointId, Known, Name, Priority};

/// The request alone, for expressions that are evaluated outside the lock and read no counter.
pub(crate) struct Still<'a> {
    pub attributes: &'a Attributes,
    pub priority: Priority,
}

impl Input for Still<'_> {
    fn attribute(&self, name: &Name) -> &str {
        self.attributes.value(name)
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn counter(&self, _: Counter, _: Option<&str>) -> f64 {
        debug_assert!(false, "an expression that reads counters is evaluated under the lock");
        0.0
    }
}

/// The same for checkpoints before the choice of a server: a request that has a server now had none there.
pub(crate) struct Unserved<'a, I>(pub &'a I);

impl<I: Input> Input for Unserved<'_, I> {
    fn attribute(&self, name: &Name) -> &str {
        match name {
            Name::Known(Known::Server) => "",
            _ => self.0.attribute(name),
        }
    }

    fn priority(&self) -> Priority {
        self.0.priority()
    }

    fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        self.0.counter(counter, key)
    }
}

/// The request and the counters as they are now.
pub(crate) struct Live<'a> {
    pub attributes: &'a Attributes,
    pub priority: Priority,
    pub engine: &'a Engine,
    /// Counters that would have counted a request that is only explained.
    pub counted: &'a [(CheckpointId, KeyHash)],
}

impl Input for Live<'_> {
    fn attribute(&self, name: &Name) -> &str {
        self.attributes.value(name)
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        let value = self.engine.counter(counter, key);
        let (Counter::Rate(id) | Counter::Inflight(id)) = counter else { return value };
        let key = key.map(|key| self.engine.snapshot.hasher.hash(key.as_bytes()));
        let is_counted = |(other, own): &&(CheckpointId, KeyHash)| {
            *other == id && key.is_none_or(|key| key == *own)
        };
        if self.counted.iter().find(is_counted).is_none() {
            return value;
        }
        match (counter, self.engine.snapshot.checkpoints.checkpoint(id)) {
            (Counter::Rate(_), Some(checked)) => {
                value + 1.0 / checked.spec.meter_period().as_secs()
            }
            _ => value + 1.0,
        }
    }
}
