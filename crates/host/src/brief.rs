//! Work on a worker of the runtime that usually ends at once, and sometimes waits for the disk.
//!
//! A worker that waits runs no task. If it was the worker that polls the sockets, no other worker polls them until one
//! is woken, and the whole daemon stops. So a thread watches for such work that takes longer than [`LONG`] and wakes
//! another worker. At most all workers but one do such work at a time, and none begins while another takes long. Work
//! that is refused here is done on a thread that may wait. While there is such work, the thread wakes once per
//! [`LONG`], however much there is.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Work that takes longer than this is assumed to wait for the disk.
pub(crate) const LONG: Duration = Duration::from_millis(10);

/// Gives leave to do brief work. Dropping it ends the watching thread.
pub(crate) struct Briefs {
    shared: Arc<Shared>,
    /// The most pieces of brief work at a time.
    most: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<BriefState>,
    changed: Condvar,
}

#[derive(Default)]
struct BriefState {
    next: u64,
    under_way: Vec<Work>,
    /// Whether the thread is awake.
    is_awake: bool,
    is_closed: bool,
}

struct Work {
    number: u64,
    since: Instant,
    is_long: bool,
}

/// Leave to do brief work, until it is dropped.
pub(crate) struct Brief<'a> {
    /// Its number, if it is watched.
    counted: Option<(&'a Shared, u64)>,
}

impl Briefs {
    /// Leaves at least one worker of this runtime free.
    pub(crate) fn new(runtime: &Handle) -> Self {
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            // There is no other worker.
            return Self::unbounded();
        }
        let shared = Arc::new(Shared::default());
        let (own, handle) = (Arc::clone(&shared), runtime.clone());
        let thread = std::thread::Builder::new().name("paceline-brief".into());
        let most = match thread.spawn(move || own.run(&handle)) {
            Ok(_) => runtime.metrics().num_workers() - 1,
            Err(error) => {
                tracing::error!(%error, "cannot start a thread; all writes are left to threads that may block");
                0
            }
        };
        Self { shared, most }
    }

    /// Lets every worker do such work, without watching it.
    pub(crate) fn unbounded() -> Self {
        Self { shared: Arc::default(), most: usize::MAX }
    }

    /// Begins brief work; `None` if it must be done elsewhere.
    pub(crate) fn begin(&self) -> Option<Brief<'_>> {
        if self.most == usize::MAX {
            return Some(Brief { counted: None });
        }
        let mut state = self.shared.state();
        if state.under_way.len() >= self.most || state.under_way.iter().any(|work| work.is_long) {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.under_way.push(Work { number, since: Instant::now(), is_long: false });
        let wakes = !std::mem::replace(&mut state.is_awake, true);
        drop(state);
        if wakes {
            self.shared.changed.notify_one();
        }
        Some(Brief { counted: Some((&*self.shared, number)) })
    }
}

impl Drop for Briefs {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for Brief<'_> {
    fn drop(&mut self) {
        if let Some((shared, number)) = self.counted {
            shared.state().under_way.retain(|work| work.number != number);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, BriefState> {
        crate::sync::lock(&self.state)
    }

    fn run(&self, runtime: &Handle) {
        let mut state = self.state();
        while !state.is_closed {
            if !state.is_awake {
                state = self.changed.wait(state).unwrap_or_else(crate::broken);
                continue;
            }
            state = self.changed.wait_timeout(state, LONG).unwrap_or_else(crate::broken).0;
            state.is_awake = !state.under_way.is_empty();
            let quick = state.under_way.iter_mut().filter(|work| !work.is_long);
            let mut waits = quick.filter(|work| work.since.elapsed() >= LONG).peekable();
            if waits.peek().is_some() {
                waits.for_each(|work| work.is_long = true);
                // A worker that is woken for a task polls the sockets when the task is done.
                drop(runtime.spawn(async {}));
            }
        }
    }
}
