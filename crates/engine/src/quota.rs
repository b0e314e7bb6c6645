//! What a door shows of a checkpoint's limit, and which connections it must submit.

use crate::gate::is_gate;
use crate::snapshot::Snapshot;
use paceline_checkpoints::Limit;
use paceline_expr::Scope;
use paceline_types::{On, Span};

/// A limit, as it is shown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The number of requests.
    pub count: u64,
    /// The period, if it is a rate.
    pub window: Option<Span>,
}

impl Snapshot {
    /// The limit of the checkpoint with this name, if it is configured. A gate has none, because its limit
    /// follows the servers.
    #[must_use]
    pub fn quota(&self, checkpoint: &str) -> Option<Quota> {
        let id = self.names.checkpoint(checkpoint).filter(|id| !is_gate(*id))?;
        match self.checkpoints.checkpoint(id)?.spec.limit {
            Limit::Rate { count, per, .. } => {
                Some(Quota { count: u64::from(count), window: Some(per) })
            }
            Limit::Concurrency(count) => Some(Quota { count: u64::from(count), window: None }),
            Limit::Count => None,
        }
    }

    /// Whether this frontend logs values with each request.
    #[must_use]
    pub fn logs_values(&self, frontend: &str) -> bool {
        self.switch.has_values(frontend)
    }

    /// Whether a checkpoint applies to the connections of this frontend.
    #[must_use]
    pub fn shapes_connections(&self, frontend: &str) -> bool {
        let list = self.lists.frontends.list(frontend);
        list.iter().any(|checked| checked.spec.on == On::Connection)
    }
}
