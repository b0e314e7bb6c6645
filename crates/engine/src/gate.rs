//! Gates: the counter that requests pass before they get a server that has a maximum.
//!
//! A gate is a hidden concurrency checkpoint at the end of its backend's list: it is in no configuration. Its number is
//! outside the range of other checkpoints, and its limit follows the servers.

use crate::engine::Engine;
use paceline_checkpoints::{At, Limit, QueueSpec, Spec, Stats};
use paceline_routing::Backend;
use paceline_types::{BackendId, CheckpointId};

/// Numbers with this bit belong to gates; no other checkpoint has such a number.
const GATES: u32 = 1 << 31;

/// The number of a backend's gate.
pub(crate) const fn id(backend: BackendId) -> CheckpointId {
    CheckpointId(GATES | backend.0)
}

/// Whether a checkpoint is a gate.
pub(crate) const fn is_gate(id: CheckpointId) -> bool {
    id.0 & GATES != 0
}

impl Engine {
    /// The statistics of the queue for a backend's servers; `None` if no request has to wait for them.
    #[must_use]
    pub fn servers_stats(&self, backend: BackendId) -> Option<Stats> {
        self.checkpoints.stats(id(backend))
    }
}

/// The gate of a backend, if a server of it has a maximum.
pub(crate) fn spec(backend: &Backend) -> Option<Spec> {
    if !backend.is_gated() {
        return None;
    }
    let name = format!("servers of {}", backend.name);
    let (at, limit) = (At::Backend(backend.name.clone()), Limit::Concurrency(u32::MAX));
    let mut spec = Spec { number: u32::MAX, ..Spec::new(id(backend.id), &name, at, limit) };
    let QueueSpec { len_max, total_max, delay_max } = spec.queue;
    let len_max = backend.queue_len_max.unwrap_or(len_max);
    let delay_max = backend.queue_delay_max.unwrap_or(delay_max);
    spec.queue = QueueSpec { len_max, total_max: total_max.max(len_max), delay_max };
    Some(spec)
}
