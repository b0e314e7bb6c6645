//! What runs next: tasks and jobs of the host and of its clients, one at a time, as the seed says.
//!
//! Owns all tasks, and the threads of jobs. A task runs from one `await` to the next. A job, which may wait
//! for the disk, has a thread of its own, but runs only while the simulator waits for it: it stops at every
//! call of the disk ([`pause`]) and goes on when it is chosen again. So whatever the daemon does between two
//! calls of the disk can be interleaved with everything else, and the same seed gives the same order.

use paceline_host::{Job, Task};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};

thread_local! {
    /// How the thread of a job reports to the simulator, and hears that it may go on.
    static JOB: RefCell<Option<(Sender<Report>, Receiver<Order>)>> = const { RefCell::new(None) };
}

/// What the thread of a job says.
enum Report {
    /// It is about to call the disk.
    Paused,
    /// It is done.
    Done,
}

/// What the thread of a job is told.
enum Order {
    Run(Job),
    GoOn,
}

/// A thread for jobs.
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
#[derive(Default)]
struct State {
    next: u64,
    tasks: BTreeMap<u64, Option<Task>>,
    ready: BTreeSet<u64>,
    jobs: BTreeMap<u64, JobState>,
    idle: Vec<Thread>,
    /// Whether nothing new is taken, because the daemon is dead.
    is_dead: bool,
}

/// Runs what it is told to.
#[derive(Default)]
pub struct Executor {
    state: Mutex<State>,
    /// Itself, for the wakers of tasks.
    this: Mutex<Weak<Executor>>,
}

/// Something that could run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The task of this number.
    Task(u64),
    /// The job of this number.
    Job(u64),
}

impl Executor {
    /// One with nothing to run.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let executor = Arc::new(Self::default());
        *hold(&executor.this) = Arc::downgrade(&executor);
        executor
    }

    /// Takes a task in; its number.
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

    /// Drops a task, wherever it is.
    pub fn cancel(&self, number: u64) {
        let task = {
            let mut state = self.state();
            state.ready.remove(&number);
            state.tasks.remove(&number)
        };
        drop(task);
    }

    /// Everything that could run now.
    pub fn choices(&self) -> Vec<Choice> {
        let state = self.state();
        let tasks = state.ready.iter().map(|number| Choice::Task(*number));
        tasks.chain(state.jobs.keys().map(|number| Choice::Job(*number))).collect()
    }

    /// Runs a task up to its next `await`, or a job up to its next call of the disk.
    pub fn run(&self, choice: Choice) {
        match choice {
            Choice::Task(number) => self.poll(number),
            Choice::Job(number) => self.go_on(number),
        }
    }

    fn poll(&self, number: u64) {
        let task = {
            let mut state = self.state();
            state.ready.remove(&number);
            state.tasks.get_mut(&number).and_then(Option::take)
        };
        let Some(mut task) = task else { return };
        let executor = hold(&self.this).clone();
        let waker = Waker::from(Arc::new(TaskWaker { executor, number }));
        let is_done = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.state();
        let gone = match state.tasks.get_mut(&number) {
            Some(place) if !is_done => {
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
                (idle.unwrap_or_else(Thread::start), Order::Run(job))
            }
        };
        let _ = thread.orders.send(order);
        match thread.reports.recv() {
            Ok(Report::Paused) => {
                self.state().jobs.insert(number, JobState::Paused(thread));
            }
            Ok(Report::Done) => self.state().idle.push(thread),
            // It panicked, and has said so.
            Err(_) => std::process::abort(),
        }
    }

    /// Runs jobs until there is none.
    pub fn run_jobs(&self) {
        loop {
            let jobs: Vec<u64> = self.state().jobs.keys().copied().collect();
            if jobs.is_empty() {
                return;
            }
            jobs.into_iter().for_each(|number| self.go_on(number));
        }
    }

    /// The daemon is dead: nothing is taken any more. Jobs run to their ends, for which the disk must be
    /// dead as well; tasks are dropped.
    pub fn end(&self) {
        self.state().is_dead = true;
        self.run_jobs();
        loop {
            let task = self.state().tasks.pop_first();
            let Some((_, task)) = task else { break };
            drop(task);
        }
        let idle = {
            let mut state = self.state();
            state.ready.clear();
            std::mem::take(&mut state.idle)
        };
        drop(idle);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        hold(&self.state)
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
            while let Ok(Order::Run(job)) = their_orders.recv() {
                JOB.set(Some((their_reports, their_orders)));
                job();
                let Some((back, orders)) = JOB.take() else { return };
                let _ = back.send(Report::Done);
                (their_reports, their_orders) = (back, orders);
            }
        });
        Self { orders, reports }
    }
}

/// Lets everything else run before this job goes on. Does nothing in a task.
pub fn pause() {
    JOB.with_borrow(|job| {
        if let Some((reports, orders)) = job
            && reports.send(Report::Paused).is_ok()
        {
            let _ = orders.recv();
        }
    });
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

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
