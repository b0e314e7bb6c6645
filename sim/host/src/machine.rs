//! A simulated machine: a clock, a disk, processes, and one daemon after the other.
//!
//! Owns what outlives a daemon. A daemon is a real [`Host`] with a real [`Registry`], started as the binary
//! starts it, without doors.

use crate::disk::PausingDisk;
use crate::executor::Executor;
use paceline_host::registry::{HoldLimits, Registry};
use paceline_host::{
    Ended, Host, Hosted, MadeClock, Policy, Process, Processes, System, Tasks, own,
};
use paceline_journal::disk::{Death, Faults, FaultyDisk, MemoryDisk};
use paceline_sim::rng::Rng;
use paceline_types::Span;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The file of the daemon's database.
const FILE: &str = "paceline.db";

/// What outlives a daemon.
pub struct Machine {
    /// The clock.
    pub clock: &'static MadeClock,
    files: MemoryDisk,
    /// The processes of clients.
    pub processes: Arc<MadeProcesses>,
    boots: u64,
    rng: Rng,
    /// The percentage of locks before which a thread stops.
    stops: u64,
}

/// One run of the daemon.
pub struct Daemon {
    /// The host.
    pub host: Arc<Host>,
    /// What clients hold.
    pub registry: Arc<Registry>,
    /// The daemon's own database.
    pub own: Arc<Hosted>,
    /// The executor of its tasks and jobs.
    pub executor: Arc<Executor>,
    /// Its disk.
    pub disk: Arc<PausingDisk>,
    /// Where faults are injected.
    pub faults: Arc<FaultyDisk>,
}

impl Machine {
    /// A new machine, whose threads stop before `stops` percent of the locks.
    #[must_use]
    pub fn new(clock: &'static MadeClock, rng: Rng, stops: u64) -> Self {
        let (files, processes) = (MemoryDisk::new(), Arc::default());
        Self { clock, files, processes, boots: 1, rng, stops }
    }

    /// The percentage of locks before which a thread stops.
    #[must_use]
    pub const fn stops(&self) -> u64 {
        self.stops
    }

    /// Starts a daemon with a disk that has these faults.
    ///
    /// # Errors
    ///
    /// When it does not start; nothing has changed then.
    pub fn start(&mut self, faults: Faults) -> Result<Daemon, String> {
        let memory = Arc::new(self.files.clone());
        let faults = Arc::new(FaultyDisk::new(memory, faults, Death::Pretend));
        let disk = Arc::new(PausingDisk::new(Arc::clone(&faults)));
        let executor = Executor::new(self.rng.next(), self.stops);
        let started = self.open(&executor, &disk, faults);
        if started.is_err() || disk.is_dead() {
            disk.die();
            executor.end();
            self.files.kill();
            return Err(started.err().unwrap_or_else(|| "killed while it started".to_owned()));
        }
        started
    }

    fn open(
        &mut self,
        executor: &Arc<Executor>,
        disk: &Arc<PausingDisk>,
        faults: Arc<FaultyDisk>,
    ) -> Result<Daemon, String> {
        let boot = format!("boot {}", self.boots);
        let system = System {
            clock: self.clock.into(),
            disk: disk.clone(),
            tasks: Tasks::on(executor.clone()),
            processes: self.processes.clone(),
            machine: paceline_host::Machine::new("machine".to_owned(), boot, Duration::ZERO),
        };
        let host = Host::on(system, Policy::default()).map_err(|error| error.to_string())?;
        host.open_own(Path::new(FILE)).map_err(|error| error.to_string())?;
        let closed = host.keeper().map_or(Duration::ZERO, |keeper| keeper.closed_for());
        let closed = Span(u64::try_from(closed.as_nanos()).unwrap_or(u64::MAX));
        self.clock.advance_to(self.clock.now().plus(closed));
        let keys = Box::new(|salt: &str| format!("key {salt}"));
        let limits = HoldLimits { sessions_max: 1_000, expired_max: 1_000, ..Default::default() };
        let registry = Registry::new(Arc::clone(&host), keys, limits);
        registry.take_over()?;
        host.open_for_service();
        self.processes.serve(executor);
        registry.begin_service()?;
        executor.begin(Box::pin(Arc::clone(&registry).sweep()));
        let own = host.database(own::DATABASE).ok_or("no database")?;
        Ok(Daemon { host, registry, own, executor: executor.clone(), disk: disk.clone(), faults })
    }

    /// Kills the daemon.
    pub fn kill(&self, daemon: Daemon) {
        daemon.disk.die();
        self.processes.forget();
        daemon.executor.end();
        drop(daemon);
        self.files.kill();
    }

    /// Cuts the power of the machine, and boots it again.
    pub fn lose_power(&mut self, daemon: Daemon, seed: u64) {
        self.kill(daemon);
        self.files.lose_power(seed);
        self.processes.end_all();
        self.boots += 1;
    }

    /// Shuts the daemon down in order, after it was retired and its clients have left.
    pub fn stop(&self, daemon: Daemon) {
        let Daemon { host, registry, own, executor, disk, faults: _ } = daemon;
        executor.run_jobs();
        // The doors end first, and with them everything that clients hold through them.
        executor.drop_tasks();
        drop((registry, own));
        executor.run_jobs();
        host.shut_down();
        disk.die();
        self.processes.forget();
        executor.end();
        drop(host);
        self.files.kill();
    }
}

/// Processes that live until the simulator ends them.
#[derive(Default)]
pub struct MadeProcesses(Mutex<State>);

#[derive(Default)]
struct State {
    alive: BTreeSet<Process>,
    next: u64,
    watches: Vec<(Process, Vec<String>, Arc<Ended>)>,
    executor: Option<Arc<Executor>>,
}

impl MadeProcesses {
    /// A new process. Numbers are soon reused.
    pub fn begin(&self) -> Process {
        let mut state = self.state();
        state.next += 1;
        let pid = (1..100).find(|pid| !state.alive.iter().any(|other| other.pid == *pid));
        let process = Process::made(pid.unwrap_or(100), state.next);
        state.alive.insert(process);
        process
    }

    /// Ends a process; the daemon is notified after a while.
    pub fn end(&self, process: Process) {
        let mut state = self.state();
        state.alive.remove(&process);
        let (dead, left) = std::mem::take(&mut state.watches)
            .into_iter()
            .partition(|(watched, _, _): &(Process, _, _)| *watched == process);
        state.watches = left;
        let executor = state.executor.clone();
        drop(state);
        for (_, names, ended) in dead {
            if let Some(executor) = &executor {
                let job = move || ended(names);
                paceline_host::Executor::spawn_blocking(&**executor, Box::new(job));
            }
        }
    }

    /// All processes that are alive.
    #[must_use]
    pub fn alive(&self) -> Vec<Process> {
        self.state().alive.iter().copied().collect()
    }

    fn end_all(&self) {
        self.state().alive.clear();
    }

    fn serve(&self, executor: &Arc<Executor>) {
        self.state().executor = Some(Arc::clone(executor));
    }

    fn forget(&self) {
        let mut state = self.state();
        state.executor = None;
        let watches = std::mem::take(&mut state.watches);
        drop(state);
        drop(watches);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processes for MadeProcesses {
    fn is_dead(&self, process: &Process) -> bool {
        !self.state().alive.contains(process)
    }

    fn watch(&self, processes: Vec<(Process, Vec<String>)>, ended: Ended) -> io::Result<()> {
        let ended = Arc::new(ended);
        let mut dead = Vec::new();
        let mut state = self.state();
        for (process, names) in processes {
            match state.alive.contains(&process) {
                true => state.watches.push((process, names, Arc::clone(&ended))),
                false => dead.push(names),
            }
        }
        drop(state);
        dead.into_iter().for_each(|names| ended(names));
        Ok(())
    }
}
