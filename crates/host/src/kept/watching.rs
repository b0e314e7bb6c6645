//! Waits for the death of processes. One thread watches all of them.
//!
//! Each process has one descriptor, however much depends on it, and the system reports its death there. If the
//! system grants no descriptor, the thread checks the process every second instead. The thread starts with the
//! first process and lasts until [`Watching`] is dropped. So a limit on threads or descriptors that is reached
//! later leaves no process unwatched (C4).

use super::process::{Ended, Process, RealProcesses};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often processes without a descriptor are checked.
const LOOK: Duration = Duration::from_secs(1);

/// The most deaths that are reported at a time.
const EVENTS_MAX: usize = 256;

/// The number of the descriptor that wakes the thread; the numbers of processes begin at 1.
const WAKE: u64 = 0;

/// Opens a descriptor of a process.
type Open = fn(Pid) -> Result<OwnedFd, Errno>;

/// Watches processes.
pub(super) struct Watching {
    open: Open,
    /// What the thread uses; none before the first process.
    shared: Mutex<Option<Arc<Shared>>>,
}

struct Shared {
    deaths: OwnedFd,
    wake: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    numbers: BTreeMap<Process, u64>,
    watched: BTreeMap<u64, Watched>,
    /// The processes without a descriptor.
    looked_at: BTreeSet<u64>,
    is_closed: bool,
}

struct Watched {
    process: Process,
    /// Open while the process is watched.
    _file: Option<OwnedFd>,
    of: Vec<(Vec<String>, Arc<Ended>)>,
}

impl Default for Watching {
    fn default() -> Self {
        Self::by(|pid| pidfd_open(pid, PidfdFlags::empty()))
    }
}

impl Watching {
    pub(super) fn by(open: Open) -> Self {
        Self { open, shared: Mutex::default() }
    }

    /// Calls `ended` for each of these processes when it is dead, with the names that belong to it.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started; then nothing is watched. Only the first call starts it.
    pub(super) fn watch(
        &self,
        processes: Vec<(Process, Vec<String>)>,
        ended: Ended,
    ) -> io::Result<()> {
        if processes.is_empty() {
            return Ok(());
        }
        let shared = self.shared()?;
        let ended = Arc::new(ended);
        let looked_at = shared.state().looked_at.len();
        for (process, names) in processes {
            if let Some(names) = shared.add(process, names, &ended, self.open) {
                ended(names);
            }
        }
        let more = shared.state().looked_at.len().saturating_sub(looked_at);
        if more > 0 {
            tracing::warn!(count = more, "cannot watch processes; checking them every second");
            shared.wake();
        }
        Ok(())
    }

    fn shared(&self) -> io::Result<Arc<Shared>> {
        let mut shared = crate::sync::lock(&self.shared);
        if let Some(shared) = &*shared {
            return Ok(Arc::clone(shared));
        }
        let deaths = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&deaths, &wake, epoll::EventData::new_u64(WAKE), flags)?;
        let begun = Arc::new(Shared { deaths, wake, state: Mutex::default() });
        let own = Arc::clone(&begun);
        let thread = std::thread::Builder::new().name("paceline-watch".into());
        thread.spawn(move || own.run())?;
        *shared = Some(Arc::clone(&begun));
        Ok(begun)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(shared) = crate::sync::lock(&self.shared).take() {
            shared.state().is_closed = true;
            shared.wake();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        crate::sync::lock(&self.state)
    }

    /// Begins to watch a process. If it is dead, returns the names that belong to it.
    fn add(
        &self,
        process: Process,
        names: Vec<String>,
        ended: &Arc<Ended>,
        open: Open,
    ) -> Option<Vec<String>> {
        let belongs = (names, Arc::clone(ended));
        let belongs = self.state().join(process, belongs)?;
        let number = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        // Opened before the check: if the process is alive then, the descriptor is of this process.
        let file = number.and_then(|number| open(number).ok());
        if RealProcesses::is_known_dead(&process) {
            return Some(belongs.0);
        }
        let mut state = self.state();
        let belongs = state.join(process, belongs)?;
        state.last += 1;
        let number = state.last;
        let data = epoll::EventData::new_u64(number);
        let file =
            file.filter(|file| epoll::add(&self.deaths, file, data, epoll::EventFlags::IN).is_ok());
        if file.is_none() {
            state.looked_at.insert(number);
        }
        state.numbers.insert(process, number);
        state.watched.insert(number, Watched { process, _file: file, of: vec![belongs] });
        None
    }

    /// Wakes the thread, so that it sees what changed.
    fn wake(&self) {
        // This fails only after 2^64 wakes that the thread did not read.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut looked = Instant::now();
        loop {
            let state = self.state();
            if state.is_closed {
                return;
            }
            let pause =
                (!state.looked_at.is_empty()).then(|| LOOK.saturating_sub(looked.elapsed()));
            drop(state);
            let pause = pause.and_then(|pause| pause.try_into().ok());
            events.clear();
            match epoll::wait(&self.deaths, spare_capacity(&mut events), pause.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot watch processes; checking them every second");
                    let mut state = self.state();
                    state.looked_at = state.watched.keys().copied().collect();
                    drop(state);
                    std::thread::sleep(LOOK);
                }
            }
            events.iter().for_each(|event| self.end(event.data.u64()));
            if looked.elapsed() >= LOOK {
                self.look();
                looked = Instant::now();
            }
        }
    }

    /// Checks the processes without a descriptor and reports those that are dead.
    fn look(&self) {
        let state = self.state();
        let process = |number: &u64| Some((*number, state.watched.get(number)?.process));
        let looked_at: Vec<(u64, Process)> = state.looked_at.iter().filter_map(process).collect();
        drop(state);
        for (number, process) in looked_at {
            if RealProcesses::is_known_dead(&process) {
                self.end(number);
            }
        }
    }

    /// Reports that the process of this number is dead.
    fn end(&self, number: u64) {
        let dead = self.state().take(number);
        for (names, ended) in dead.into_iter().flat_map(|dead| dead.of) {
            ended(names);
        }
    }
}

impl State {
    /// Adds names to a process that is watched. Returns them if it is not watched.
    fn join(
        &mut self,
        process: Process,
        belongs: (Vec<String>, Arc<Ended>),
    ) -> Option<(Vec<String>, Arc<Ended>)> {
        let number = self.numbers.get(&process);
        match number.and_then(|number| self.watched.get_mut(number)) {
            Some(watched) => {
                watched.of.push(belongs);
                None
            }
            None => Some(belongs),
        }
    }

    fn take(&mut self, number: u64) -> Option<Watched> {
        let watched = self.watched.remove(&number)?;
        self.numbers.remove(&watched.process);
        self.looked_at.remove(&number);
        Some(watched)
    }
}
