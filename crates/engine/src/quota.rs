//! What a door tells of a checkpoint's limit, and which connections it has to hand in.

use crate::snapshot::Snapshot;
use paceline_checkpoints::{At, Limit};
use paceline_types::{On, Span};

/// A limit, as clients are told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How many.
    pub count: u64,
    /// In how long, if it is a rate.
    pub window: Option<Span>,
}

impl Snapshot {
    /// The limit of the checkpoint of this name, if it has one.
    #[must_use]
    pub fn quota(&self, checkpoint: &str) -> Option<Quota> {
        let checked = self.checkpoints.iter().find(|checked| *checked.spec.name == *checkpoint)?;
        match checked.spec.limit {
            Limit::Rate { count, per, .. } => {
                Some(Quota { count: u64::from(count), window: Some(per) })
            }
            Limit::Concurrency(count) => Some(Quota { count: u64::from(count), window: None }),
            Limit::Count => None,
        }
    }

    /// Whether a checkpoint stands in the way of the connections of this frontend.
    #[must_use]
    pub fn shapes_connections(&self, frontend: &str) -> bool {
        self.checkpoints.iter().any(|checked| {
            let is_here = matches!(&checked.spec.at, At::Frontend(name) if **name == *frontend);
            is_here && checked.spec.on == On::Connection
        })
    }
}
