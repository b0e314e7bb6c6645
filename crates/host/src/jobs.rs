//! Threads for work that may wait for the disk.
//!
//! A job runs on an idle thread, or else on a new one. The first thread exists from start to end: if the system
//! refuses further threads, jobs wait for it and none is lost (D4). So no job may wait for another one. The
//! other threads end after [`IDLE_MAX`] without a job.

use crate::tasks::Job;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::runtime::Handle;

/// How long a thread waits for its next job.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The most threads at a time.
const THREADS_MAX: usize = 512;

/// Starts a thread that runs this.
type Start = fn(Box<dyn FnOnce() + Send>) -> io::Result<()>;

/// Runs jobs. Dropping it ends the threads once no job is left.
pub(crate) struct Jobs {
    shared: Arc<Shared>,
    start: Start,
}

struct Shared {
    state: Mutex<JobQueue>,
    changed: Condvar,
    /// Jobs run in the context of this runtime.
    runtime: Handle,
}

#[derive(Default)]
struct JobQueue {
    queue: VecDeque<Job>,
    threads: usize,
    /// How many threads wait for a job, including those that are woken for one.
    idle: usize,
    /// Whether the system refused the last thread that was requested.
    is_short: bool,
    is_closed: bool,
}

fn start(work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    std::thread::Builder::new().name("paceline-jobs".into()).spawn(work).map(drop)
}

impl Jobs {
    /// Starts with one thread.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self::starting(runtime, start)
    }

    fn starting(runtime: Handle, start: Start) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let jobs = Self { shared: Arc::new(Shared { state, changed, runtime }), start };
        jobs.add_thread(&mut jobs.shared.state());
        jobs
    }

    /// Runs a job where it keeps no task waiting.
    pub(crate) fn spawn(&self, job: Job) {
        let mut state = self.shared.state();
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            drop(state);
            self.shared.changed.notify_one();
        } else if state.threads < THREADS_MAX {
            self.add_thread(&mut state);
        }
    }

    fn add_thread(&self, state: &mut JobQueue) {
        let (shared, stays) = (Arc::clone(&self.shared), state.threads == 0);
        match (self.start)(Box::new(move || shared.run(stays))) {
            Ok(()) => {
                state.threads += 1;
                state.is_short = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut state.is_short, true) {
                    tracing::error!(%error, "cannot start a thread; work waits for the existing threads");
                }
            }
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, JobQueue> {
        crate::sync::lock(&self.state)
    }

    fn run(&self, stays: bool) {
        let _inside = self.runtime.enter();
        let mut state = self.state();
        loop {
            while let Some(job) = state.queue.pop_front() {
                drop(state);
                job();
                state = self.state();
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let is_over;
            (state, is_over) = match stays {
                true => (self.changed.wait(state).unwrap_or_else(crate::broken), false),
                false => {
                    let waited = self.changed.wait_timeout(state, IDLE_MAX);
                    let (state, waited) = waited.unwrap_or_else(crate::broken);
                    (state, waited.timed_out())
                }
            };
            state.idle -= 1;
            if is_over && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Jobs, start};
    use std::cell::Cell;
    use std::io;
    use std::sync::mpsc::channel;

    thread_local! {
        static STARTED: Cell<usize> = const { Cell::new(0) };
    }

    /// D4: jobs for which no thread can be started wait for an existing one; none is lost, and nothing panics.
    #[test]
    fn jobs_wait_when_no_thread_can_be_started_d4() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let jobs = Jobs::starting(runtime.handle().clone(), |work| {
            let started = STARTED.replace(STARTED.get() + 1);
            if started == 0 { start(work) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        let (sender, receiver) = channel();
        let mut gates = Vec::new();
        for number in 0..10 {
            let (gate, closed) = channel::<()>();
            let sender = sender.clone();
            jobs.spawn(Box::new(move || {
                let _ = closed.recv();
                sender.send(number).unwrap();
            }));
            gates.push(gate);
        }
        assert!(STARTED.get() > 1, "others were wanted");
        drop(gates);
        let mut done: Vec<i32> = receiver.iter().take(10).collect();
        done.sort_unstable();
        assert_eq!(done, (0..10).collect::<Vec<i32>>());
    }
}
