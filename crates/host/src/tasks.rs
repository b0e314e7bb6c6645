//! Where the host's tasks and its blocking work run.
//!
//! The daemon runs tasks on tokio, and blocking work on threads of its own ([`crate::jobs`]). A simulator
//! passes an [`Executor`] of its own, which decides what runs next.

use crate::brief::{Brief, Briefs};
use crate::jobs::Jobs;
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;

/// A task.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that may wait for the disk.
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs tasks and jobs instead of tokio.
pub trait Executor: Send + Sync {
    /// Runs a task to its end.
    fn spawn(&self, task: Task);

    /// Runs a job where it keeps no task waiting.
    fn spawn_blocking(&self, job: Job);
}

/// Where tasks and jobs are run.
#[derive(Clone)]
pub struct Tasks {
    place: Place,
    briefs: Arc<Briefs>,
}

#[derive(Clone)]
enum Place {
    Tokio(Handle, Arc<Jobs>),
    Other(Arc<dyn Executor>),
}

impl Tasks {
    /// Runs them on an executor that the caller provides.
    #[must_use]
    pub fn on(executor: Arc<dyn Executor>) -> Self {
        Self { place: Place::Other(executor), briefs: Arc::new(Briefs::unbounded()) }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.place {
            Place::Tokio(runtime, _) => drop(runtime.spawn(task)),
            Place::Other(executor) => executor.spawn(Box::pin(task)),
        }
    }

    pub(crate) fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static) {
        match &self.place {
            Place::Tokio(_, jobs) => jobs.spawn(Box::new(job)),
            Place::Other(executor) => executor.spawn_blocking(Box::new(job)),
        }
    }

    /// Leave to do work on this thread that may wait for the disk and rarely does. `None` if it must be done by
    /// [`Tasks::spawn_blocking`].
    pub(crate) fn brief(&self) -> Option<Brief<'_>> {
        self.briefs.begin()
    }
}

impl From<Handle> for Tasks {
    fn from(runtime: Handle) -> Self {
        let jobs = Arc::new(Jobs::new(runtime.clone()));
        let briefs = Arc::new(Briefs::new(&runtime));
        Self { place: Place::Tokio(runtime, jobs), briefs }
    }
}
