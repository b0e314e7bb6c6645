//! Tests of the whole crate: the meaning of expressions, the places of errors, and the bounds.

mod bounds;
mod manual;
mod meaning;
mod places;
mod random;

use crate::{Counter, Expr, Input, Kind, Scope, compile};
use paceline_types::{Attributes, CheckpointId, Name, PoolId, Priority};

pub const PER_USER: CheckpointId = CheckpointId(3);
pub const TOTAL: CheckpointId = CheckpointId(4);
pub const BATCH: PoolId = PoolId(7);

/// Two checkpoints and two pools.
pub struct Names;

impl Scope for Names {
    fn checkpoint(&self, name: &str) -> Option<CheckpointId> {
        [("per-user", PER_USER), ("total", TOTAL)].into_iter().find(|n| n.0 == name).map(|n| n.1)
    }

    fn pool(&self, name: &str) -> Option<PoolId> {
        let pools = [("default", PoolId::DEFAULT), ("batch", BATCH)];
        pools.into_iter().find(|n| n.0 == name).map(|n| n.1)
    }

    fn names(&self) -> Vec<&str> {
        vec!["per-user", "total", "default", "batch"]
    }
}

/// One request, and counters with a few values.
pub struct Request {
    pub attributes: Attributes,
    pub priority: i64,
}

impl Input for Request {
    fn attribute(&self, name: &Name) -> &str {
        assert_ne!(name, &Name::Priority, "the priority is asked for by itself");
        self.attributes.value(name)
    }

    fn priority(&self) -> Priority {
        Priority::new(self.priority).unwrap()
    }

    fn counter(&self, counter: Counter, key: Option<&str>) -> f64 {
        match (counter, key) {
            (Counter::Rate(PER_USER), Some("etl")) => 120.5,
            (Counter::Rate(PER_USER), None) => 1_000.0,
            (Counter::Inflight(TOTAL), None) => 12.0,
            (Counter::Queued(PER_USER), Some("etl")) => 3.0,
            (Counter::Running(BATCH), None) => 4.0,
            (Counter::Waiting(BATCH), None) => 51.0,
            _ => 0.0,
        }
    }
}

/// A request of the user `etl` at the HTTP door.
pub fn request() -> Request {
    let mut attributes = Attributes::new();
    for (name, value) in [
        ("kind", "http"),
        ("user", "etl"),
        ("host", "10.0.0.9"),
        ("path", "/api/Übersicht"),
        ("method", "GET"),
        ("text", "https://example.org/api?n=7"),
        ("header.x-user", "Eva"),
        ("header.n", "42"),
        ("header.d", "2.5"),
        ("cookie.Id", "c1"),
        ("tag.job", "nightly"),
        ("shift", "late"),
        ("shift-plan", "weekly"),
        ("server.room", "b7"),
    ] {
        attributes.set(name, value).unwrap();
    }
    Request { attributes, priority: -5 }
}

/// Compiles a valid text.
pub fn good(text: &str, kind: Kind) -> Expr {
    compile(text, kind, &Names).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A small generator of numbers, the same on every run for the same seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}
