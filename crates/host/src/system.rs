//! The parts of the machine that the host uses.

use crate::clock::Clock;
use crate::kept::{Machine, Processes, RealProcesses};
use crate::tasks::Tasks;
use paceline_journal::disk::Disk;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The machine under a host: its clock, its disk, the executor of its tasks, its processes.
#[derive(Clone)]
pub struct System {
    /// The clock, with the random source.
    pub clock: Clock,
    /// Where journals are kept.
    pub disk: Arc<dyn Disk>,
    /// Where tasks and work that blocks are run.
    pub tasks: Tasks,
    /// The processes of clients.
    pub processes: Arc<dyn Processes>,
    /// The identity of the machine and its boot.
    pub machine: Machine,
}

impl System {
    /// The machine that this process runs on, with tasks on `runtime` and journals on `disk`.
    #[must_use]
    pub fn real(runtime: Handle, disk: Arc<dyn Disk>) -> Self {
        Self {
            clock: Clock::new(),
            disk,
            tasks: runtime.into(),
            processes: Arc::new(RealProcesses::default()),
            machine: Machine::this(),
        }
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("machine", &self.machine).finish_non_exhaustive()
    }
}
