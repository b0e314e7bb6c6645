//! What expressions read: the request's attributes, its priority, and the counters.

use crate::Engine;
use paceline_expr::{Counter, Input};
use paceline_types::{Attributes, Name, Priority};

/// The request alone, for what is evaluated outside the lock and reads no counter.
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

/// The request and the counters as they are now.
pub(crate) struct Live<'a> {
    pub attributes: &'a Attributes,
    pub priority: Priority,
    pub engine: &'a Engine,
}

impl Input for Live<'_> {
    fn attribute(&self, name: &Name) -> &str {
        self.attributes.value(name)
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        self.engine.counter(counter, key)
    }
}
