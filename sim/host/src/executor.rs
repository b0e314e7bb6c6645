//! What runs next: tasks and jobs of the host and of its clients, one at a time, in the order of the seed.
//!
//! Owns all tasks, and the threads they run on. A task is polled, and a job is run, on a thread that runs only
//! while the simulator waits for it. It stops at every call of the disk ([`pause`]), sometimes before it takes
//! a lock of shared state, and always while another thread holds that lock. It continues when it is chosen
//! again. So whatever the daemon does between two locks, or two calls of the disk, can be interleaved with
//! everything else, and the same seed gives the same order.

use paceline_host::{Job, Task};
use paceline_sim::rng::Rng;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};

thread_local! {
    /// How a thread reports to the simulator, and receives the order to continue.
    static LINE: RefCell<Option<Line>> = const { RefCell::new(None) };
    /// On the thread of the simulator itself: what it runs while it waits for a lock.
    static OWN: RefCell<Weak<Executor>> = const { RefCell::new(Weak::new()) };
}

/// The channel between a thread and the simulator.
struct Line {
    reports: Sender<Report>,
    orders: Receiver<Order>,
    executor: Weak<Executor>,
}

/// A report of a thread.
enum Report {
    /// It stops here for a while.
    Paused,
    /// It is done.
    Done,
}

/// An order to a thread.
enum Order {
    Run(Weak<Executor>, Job),
    GoOn,
}

/// A thread.
struct Thread {
    orders: Sender<Order>,
    reports: Receiver<Report>,
}

/// A job that is not done.
enum JobState {
    New(Job),
    Paused(Thread),
}

/// Tasks and jobs by number.
struct State {
    next: u64,
    /// `None` while they are polled.
    tasks: BTreeMap<u64, Option<Task>>,
    ready: BTreeSet<u64>,
    /// Tasks that are dropped as soon as they are polled.
    cancelled: BTreeSet<u64>,
    jobs: BTreeMap<u64, JobState>,
    idle: Vec<Thread>,
    /// Whether new tasks and jobs are rejected, because the daemon is dead.
    is_dead: bool,
    rng: Rng,
    /// The percentage of locks before which a thread stops.
    stops: u64,
}

/// Runs tasks and jobs on demand.
pub struct Executor {
    state: Mutex<State>,
    /// Itself, for wakers and threads.
    this: Weak<Executor>,
}

/// A task or job that could run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The task of this number.
    Task(u64),
    /// The job of this number.
    Job(u64),
}

impl Executor {
    /// An executor with nothing to run, whose threads stop before `stops` percent of the locks.
    #[must_use]
    pub fn new(seed: u64, stops: u64) -> Arc<Self> {
        let executor = Arc::new_cyclic(|this| Self {
            state: Mutex::new(State {
                next: 0,
                tasks: BTreeMap::new(),
                ready: BTreeSet::new(),
                cancelled: BTreeSet::new(),
                jobs: BTreeMap::new(),
                idle: Vec::new(),
                is_dead: false,
                rng: Rng::new(seed),
                stops,
            }),
            this: this.clone(),
        });
        OWN.set(Arc::downgrade(&executor));
        paceline_host::yield_at_locks(Some(run_others));
        executor
    }

    /// Adds a task. Returns its number.
    pub fn begin(&self, task: Task) -> u64 {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        if state.is_dead {
            drop(state);
            drop(task);
            return number;
        }
        state.tasks.insert(number, Some(task));
        state.ready.insert(number);
        number
    }

    /// Drops a task: at its last `await`, or at its next one if it runs.
    pub fn cancel(&self, number: u64) {
        let task = {
            let mut state = self.state();
            state.ready.remove(&number);
            match state.tasks.get_mut(&number) {
                Some(None) => {
                    state.cancelled.insert(number);
                    None
                }
                _ => state.tasks.remove(&number),
            }
        };
        drop(task);
    }

    /// Everything that could run now.
    pub fn choices(&self) -> Vec<Choice> {
        let state = self.state();
        let waits = |number: &&u64| matches!(state.tasks.get(*number), Some(Some(_)));
        let tasks = state.ready.iter().filter(waits).map(|number| Choice::Task(*number));
        tasks.chain(state.jobs.keys().map(|number| Choice::Job(*number))).collect()
    }

    /// Lets a task or a job run until it stops.
    pub fn run(&self, choice: Choice) {
        match choice {
            Choice::Task(number) => self.poll(number),
            Choice::Job(number) => self.go_on(number),
        }
    }

    /// Polls a task, on a separate thread.
    fn poll(&self, number: u64) {
        let mut state = self.state();
        state.ready.remove(&number);
        let Some(task) = state.tasks.get_mut(&number).and_then(Option::take) else { return };
        let this = self.this.clone();
        let job: Job = Box::new(move || {
            if let Some(executor) = this.upgrade() {
                executor.poll_here(number, task);
            }
        });
        let poll = state.next;
        state.next += 1;
        state.jobs.insert(poll, JobState::New(job));
        drop(state);
        self.go_on(poll);
    }

    fn poll_here(&self, number: u64, mut task: Task) {
        let waker = Waker::from(Arc::new(TaskWaker { executor: self.this.clone(), number }));
        let is_done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.state();
        let goes = is_done || state.cancelled.remove(&number);
        let gone = match state.tasks.get_mut(&number) {
            Some(place) if !goes => {
                *place = Some(task);
                None
            }
            _ => {
                state.tasks.remove(&number);
                state.ready.remove(&number);
                Some(task)
            }
        };
        drop(state);
        drop(gone);
    }

    fn go_on(&self, number: u64) {
        let Some(job) = self.state().jobs.remove(&number) else { return };
        let (thread, order) = match job {
            JobState::Paused(thread) => (thread, Order::GoOn),
            JobState::New(job) => {
                let idle = self.state().idle.pop();
                (idle.unwrap_or_else(Thread::start), Order::Run(self.this.clone(), job))
            }
        };
        let _ = thread.orders.send(order);
        match thread.reports.recv() {
            Ok(Report::Paused) => {
                self.state().jobs.insert(number, JobState::Paused(thread));
            }
            Ok(Report::Done) => self.state().idle.push(thread),
            // It panicked, and has reported that.
            Err(_) => std::process::abort(),
        }
    }

    /// Runs jobs, and polls that are under way, until there is none.
    pub fn run_jobs(&self) {
        loop {
            let jobs: Vec<u64> = self.state().jobs.keys().copied().collect();
            if jobs.is_empty() {
                return;
            }
            jobs.into_iter().for_each(|number| self.go_on(number));
        }
    }

    /// Drops all tasks. None of them may be in a poll.
    pub fn drop_tasks(&self) {
        loop {
            let task = self.state().tasks.pop_first();
            let Some((_, task)) = task else { return };
            drop(task);
        }
    }

    /// Ends the executor of a dead daemon: nothing new is accepted. Jobs run to their ends, for which the disk
    /// must be dead as well; tasks are dropped.
    pub fn end(&self) {
        self.state().is_dead = true;
        self.run_jobs();
        self.drop_tasks();
        let idle = {
            let mut state = self.state();
            state.ready.clear();
            std::mem::take(&mut state.idle)
        };
        drop(idle);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl paceline_host::Executor for Executor {
    fn spawn(&self, task: Task) {
        self.begin(task);
    }

    fn spawn_blocking(&self, job: Job) {
        let mut state = self.state();
        if state.is_dead {
            drop(state);
            drop(job);
            return;
        }
        let number = state.next;
        state.next += 1;
        state.jobs.insert(number, JobState::New(job));
    }
}

impl Thread {
    fn start() -> Self {
        let (orders, mut their_orders) = channel();
        let (mut their_reports, reports) = channel();
        std::thread::spawn(move || {
            paceline_host::yield_at_locks(Some(run_others));
            while let Ok(Order::Run(executor, job)) = their_orders.recv() {
                LINE.set(Some(Line { reports: their_reports, orders: their_orders, executor }));
                job();
                let Some(line) = LINE.take() else { return };
                let _ = line.reports.send(Report::Done);
                (their_reports, their_orders) = (line.reports, line.orders);
            }
        });
        Self { orders, reports }
    }
}

/// Lets everything else run before this thread continues. Does nothing on the simulator's own thread.
pub fn pause() {
    LINE.with_borrow(|line| {
        if let Some(line) = line
            && line.reports.send(Report::Paused).is_ok()
        {
            let _ = line.orders.recv();
        }
    });
}

/// Lets other threads run before a lock is taken. The simulator's own thread does so only if one of them holds
/// the lock.
fn run_others(must: bool) {
    let line = LINE.with_borrow(|line| line.as_ref().map(|line| line.executor.upgrade()));
    match line {
        Some(executor) => {
            let stops = executor.is_some_and(|executor| {
                let mut state = executor.state();
                let percent = if state.is_dead { 0 } else { state.stops };
                state.rng.chance(percent)
            });
            if must || stops {
                pause();
            }
        }
        None if must => {
            if let Some(executor) = OWN.with_borrow(Weak::upgrade) {
                let jobs: Vec<u64> = executor.state().jobs.keys().copied().collect();
                debug_assert!(!jobs.is_empty(), "somebody holds the lock");
                jobs.into_iter().for_each(|number| executor.go_on(number));
            }
        }
        None => {}
    }
}

struct TaskWaker {
    executor: Weak<Executor>,
    number: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if let Some(executor) = self.executor.upgrade() {
            let mut state = executor.state();
            if state.tasks.contains_key(&self.number) {
                state.ready.insert(self.number);
            }
        }
    }
}
