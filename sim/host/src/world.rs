//! One seed: a machine, its daemons, and clients that follow the seed.
//!
//! Owns the actions under way. Every step does one thing: a task or a job of the daemon continues, a client
//! begins an action or leaves, the clock moves, the disk fails or recovers, a process ends, the daemon or the
//! machine dies. Each answer to a client is passed to the [`Model`] at once, which knows whether it is allowed.

mod act;
mod checks;
mod edit;
mod land;
mod places;
mod restart;
mod rows;

use crate::client::Done;
use crate::executor::Choice;
use crate::machine::{Daemon, Machine};
use crate::model::{Graph, Hold, Model};
use paceline_host::{MadeClock, Process, Session};
use paceline_sim::rng::Rng;
use paceline_types::{Mode, Role, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Steps of a history, before everything is released.
const STEPS: u64 = 400;

/// The users of clients.
pub(crate) const USERS: [&str; 3] = ["ann", "bob", "cat"];

/// The initial limit of the checkpoint.
const LIMIT: u64 = 2;

/// An action of a client that is not complete.
struct Flight {
    /// Its task.
    task: u64,
    /// The step at which it began.
    since: u64,
    what: What,
}

/// An action of a client.
enum What {
    /// Begins a session.
    Begin { user: String, lease: Option<Span>, process: Option<Process> },
    /// Asks for a permit.
    Ask {
        claims: Vec<(String, Mode)>,
        /// The resources as they may have been when it asked.
        graphs: Vec<Graph>,
        session: Option<String>,
        lease: Option<Span>,
        user: String,
        /// The name that it chose, and which of the two bodies that clients send under it.
        named: Option<(String, bool)>,
    },
    /// Asks for a lock.
    Lock { name: String, session: String, steals: bool },
    /// Releases a permit.
    Settle { name: String, request: u64 },
    /// Releases a session.
    GiveUp { key: String },
    /// Releases a lock.
    Unlock { name: String, session: String },
    /// Edits the configuration.
    Edit(Edit),
}

/// What an edit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    Resources,
    Limit,
    Roles,
    Other,
}

/// A connection of the OVSDB door: a client that locks, and may steal.
struct Conn {
    session: Arc<Session>,
    /// Its requests, by ticket: lock, and whether it steals.
    asked: BTreeMap<u64, (String, bool)>,
    /// Locks that it requested and has not released.
    locks: BTreeSet<String>,
}

/// The preferences of a seed.
struct Profile {
    edits: u64,
    locks: u64,
    faults: u64,
    deaths: u64,
    leaves: u64,
    named: u64,
    /// In how many of a thousand cases a runnable task or thread is stopped for a while.
    slow: u64,
    waits: u64,
    /// How many names of permits and of locks there are. With one, everything happens to that one.
    names: usize,
}

impl Profile {
    fn any(rng: &mut Rng) -> Self {
        Self {
            edits: rng.pick(&[2, 6, 15, 50]),
            locks: rng.pick(&[3, 10, 30]),
            faults: rng.pick(&[0, 1, 4]),
            deaths: rng.pick(&[0, 1, 3]),
            leaves: rng.pick(&[1, 5, 15]),
            named: rng.pick(&[10, 50, 90]),
            slow: rng.pick(&[0, 10, 60, 150]),
            waits: 15,
            names: 3,
        }
    }

    /// Few objects, each of which is released and requested again while other actions are stopped half way.
    fn narrow(rng: &mut Rng) -> Self {
        Self {
            edits: 0,
            locks: rng.pick(&[10, 80]),
            faults: rng.pick(&[0, 1]),
            deaths: rng.pick(&[0, 1]),
            leaves: rng.pick(&[10, 40]),
            named: 95,
            slow: rng.pick(&[100, 300]),
            waits: rng.pick(&[15, 40]),
            names: 1,
        }
    }
}

/// One seed.
pub struct World {
    rng: Rng,
    step: u64,
    profile: Profile,
    machine: Machine,
    daemon: Option<Daemon>,
    model: Model,
    roles: crate::model::Versions<BTreeMap<String, String>>,
    flights: BTreeMap<u64, Flight>,
    done: Arc<Mutex<Vec<(u64, Done)>>>,
    next: u64,
    admin: Option<Arc<Session>>,
    conns: BTreeMap<u64, Conn>,
    /// Names that clients ask for together: since when, and the resources as they may have been.
    pending: BTreeMap<String, (u64, Vec<Graph>)>,
    /// The numbers of requests that clients received.
    requests: BTreeSet<u64>,
    /// Tokens by number, with their expiry times, if they have one.
    tokens: BTreeMap<u64, Option<Time>>,
    /// Whether the disk has a fault.
    is_faulty: bool,
    /// When everything is written again after the last fault.
    repaired: Time,
    /// Which client asked with which place.
    places: places::Places,
    /// A task or a thread that does not run before this step, so that much happens while it is stopped.
    slow: Option<(Choice, u64)>,
    trace: Vec<String>,
}

/// Totals of a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Permits that clients received.
    pub permits: usize,
    /// Steps.
    pub steps: u64,
}

/// Why a seed failed.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub text: String,
    /// The steps.
    pub trace: Vec<String>,
}

/// Runs a seed.
///
/// # Errors
///
/// When a promise is broken.
pub fn run(seed: u64) -> Result<Figures, Failure> {
    let mut world = World::new(seed);
    match world.play() {
        Ok(()) => Ok(Figures { permits: world.requests.len(), steps: world.step }),
        Err(text) => {
            let trace = std::mem::take(&mut world.trace);
            // The remains of the daemon end as if it was killed.
            world.daemon.take().into_iter().for_each(|daemon| world.machine.kill(daemon));
            Err(Failure { seed, text, trace })
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clock = MadeClock::begin(Time(1_000_000_000), rng.next());
        let is_narrow = seed % 4 == 3;
        let profile = if is_narrow { Profile::narrow(&mut rng) } else { Profile::any(&mut rng) };
        let stops: &[u64] = if is_narrow { &[20, 50] } else { &[0, 3, 20] };
        let stops = rng.pick(stops);
        Self {
            machine: Machine::new(clock, Rng::new(rng.next()), stops),
            rng,
            step: 0,
            profile,
            daemon: None,
            model: Model::new(LIMIT),
            roles: crate::model::Versions::new(BTreeMap::new()),
            flights: BTreeMap::new(),
            done: Arc::default(),
            next: 0,
            admin: None,
            conns: BTreeMap::new(),
            pending: BTreeMap::new(),
            requests: BTreeSet::new(),
            tokens: BTreeMap::new(),
            is_faulty: false,
            repaired: Time(0),
            places: places::Places::default(),
            slow: None,
            trace: Vec::new(),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        self.begin()?;
        // If threads stop at locks, more steps are needed for the same work.
        for _ in 0..STEPS + 20 * self.machine.stops() {
            self.step()?;
        }
        self.end()
    }

    fn now(&self) -> Time {
        self.machine.clock.now()
    }

    fn daemon(&self) -> Result<&Daemon, String> {
        self.daemon.as_ref().ok_or_else(|| "no daemon runs".to_owned())
    }

    fn note(&mut self, text: impl FnOnce(&Self) -> String) {
        let line = format!("{:5} {:9.3}s {}", self.step, self.now().0 as f64 / 1e9, text(self));
        self.trace.push(line);
    }

    /// Does one step.
    fn step(&mut self) -> Result<(), String> {
        self.step += 1;
        let choices = self.daemon()?.executor.choices();
        let profile = &self.profile;
        let weights = [
            if choices.is_empty() { 0 } else { 250 },
            60,
            profile.locks,
            profile.edits,
            profile.leaves,
            profile.waits,
            profile.faults,
            profile.deaths,
            3,
        ];
        match self.rng.weighted(&weights) {
            0 => self.go_on(&choices)?,
            1 => self.do_something()?,
            2 => self.lock_something()?,
            3 => self.edit_something()?,
            4 => self.leave()?,
            5 => self.wait_a_while(),
            6 => self.break_or_mend_the_disk()?,
            7 => self.restart()?,
            _ => self.end_a_process()?,
        }
        self.look()
    }

    /// Continues a task or a job.
    fn go_on(&mut self, choices: &[Choice]) -> Result<(), String> {
        if self.slow.is_some_and(|(_, until)| until <= self.step) {
            self.slow = None;
        }
        let slow = self.slow.map(|(choice, _)| choice);
        let fast = choices.iter().copied().filter(|choice| Some(*choice) != slow);
        let fast: Vec<Choice> = fast.collect();
        let Some(choice) = self.rng.pick_any(if fast.is_empty() { choices } else { &fast }) else {
            return Ok(());
        };
        if slow.is_none() && self.rng.below(1_000) < self.profile.slow {
            self.slow = Some((choice, self.step + self.rng.between(10, 200)));
            return Ok(());
        }
        self.daemon()?.executor.run(choice);
        Ok(())
    }

    /// Takes in the answers to clients, and checks that everything they hold exists.
    fn look(&mut self) -> Result<(), String> {
        if self.daemon()?.disk.is_dead() {
            // Answers of this step were not sent.
            self.note(|_| "died at a call of the disk".to_owned());
            return self.killed(false);
        }
        let done = std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner));
        // L4: the loser of a lock is notified before the thief.
        self.read_connections()?;
        for (number, done) in done {
            self.land(number, done)?;
        }
        self.check_held()?;
        match self.daemon()?.executor.choices().is_empty() {
            true => {
                self.forget_pending();
                self.check_unasked()
            }
            false => Ok(()),
        }
    }

    /// Forgets names that no client asks for any more. No task may be runnable.
    fn forget_pending(&mut self) {
        let asks = |name: &str| {
            self.flights.values().any(|flight| {
                matches!(&flight.what, What::Ask { named: Some((other, _)), .. } if other == name)
            })
        };
        self.pending.retain(|name, _| asks(name));
    }

    fn wait_a_while(&mut self) {
        let next = self.machine.clock.next_wake();
        let now = self.now();
        let until = match (self.rng.below(10), next) {
            (0..6, Some(next)) => next,
            (9, _) => now.plus(Span::from_secs(self.rng.below(40))),
            _ => now.plus(Span::from_ms(self.rng.below(1_500))),
        };
        self.machine.clock.advance_to(until);
        self.note(|_| "time passes".to_owned());
    }

    fn break_or_mend_the_disk(&mut self) -> Result<(), String> {
        let mut faults = paceline_journal::disk::Faults::default();
        if !self.is_faulty {
            let number = self.rng.between(1, 4);
            match self.rng.below(7) {
                0 => faults.full_after = Some(self.rng.below(2_000)),
                1 => faults.full_after = Some(0),
                2 => faults.sync_error = Some(number),
                3 => faults.write_error = Some(number),
                4 => faults.short_write = Some(number * 7),
                5 => faults.rename_error = Some(1),
                _ => (faults.full_after, faults.truncate_error) = (Some(300), Some(1)),
            }
        }
        self.is_faulty = !self.is_faulty;
        self.repaired = self.now().plus(Span::from_secs(5));
        self.note(|_| format!("disk: {faults:?}"));
        self.daemon()?.faults.set(faults);
        Ok(())
    }

    /// Ends everything, and checks that nothing is left.
    fn end(&mut self) -> Result<(), String> {
        self.note(|_| "the end: all is given back".to_owned());
        self.is_faulty = false;
        self.daemon()?.faults.set(paceline_journal::disk::Faults::default());
        self.settle_down(100)?;
        if let Some(flight) = self.flights.values().next() {
            return Err(format!("something begun at step {} hangs", flight.since));
        }
        self.give_everything_back()?;
        self.settle_down(200)?;
        self.check_empty("after everything was given back")?;
        self.stop()?;
        self.check_empty("after a restart")
    }

    /// Runs everything, for `seconds` seconds of the clock.
    fn settle_down(&mut self, seconds: u64) -> Result<(), String> {
        let until = self.now().plus(Span::from_secs(seconds));
        loop {
            self.step += 1;
            let choices = self.daemon()?.executor.choices();
            if choices.is_empty() {
                match self.machine.clock.next_wake().filter(|at| *at <= until) {
                    Some(at) => self.machine.clock.advance_to(at),
                    None => {
                        self.machine.clock.advance_to(until);
                        // An action may have completed while the last check waited for a lock.
                        return self.look();
                    }
                }
            }
            self.go_on(&choices)?;
            self.look()?;
        }
    }

    fn give_everything_back(&mut self) -> Result<(), String> {
        let conns: Vec<u64> = self.conns.keys().copied().collect();
        conns.into_iter().try_for_each(|conn| self.disconnect(conn))?;
        self.live_permits().into_iter().try_for_each(|name| self.settle(&name))?;
        self.live_sessions().into_iter().try_for_each(|key| self.give_up(&key))?;
        let bound = self.model.sessions.iter();
        let bound: Vec<(String, Process)> =
            bound.filter_map(|(key, session)| Some((key.clone(), session.process?))).collect();
        bound.into_iter().try_for_each(|(key, process)| self.end_process(&key, process))?;
        // Some sessions are unknown to all clients.
        let alive = self.machine.processes.alive();
        alive.into_iter().for_each(|process| self.machine.processes.end(process));
        Ok(())
    }

    fn check_empty(&self, when: &str) -> Result<(), String> {
        let daemon = self.daemon()?;
        let counts = daemon.registry.counts();
        let locks = daemon.host.locking().shown_from("", 10);
        let requests = daemon.host.control().list(paceline_types::RequestId(0), 10);
        let rows = self.held_rows()?;
        if counts != (0, 0) || !locks.is_empty() || !requests.is_empty() || !rows.is_empty() {
            return Err(format!(
                "{when} there are {counts:?} sessions and permits, locks {locks:?}, \
                 requests {requests:?}, rows {rows:?}"
            ));
        }
        Ok(())
    }

    /// A session of the daemon's, for edits.
    fn admin(&mut self) -> Result<Arc<Session>, String> {
        if self.admin.is_none() {
            let host = &self.daemon()?.host;
            self.admin = Some(host.begin_session(Some(Role::Admin), |_| "admin".to_owned()));
        }
        self.admin.clone().ok_or_else(|| "no admin".to_owned())
    }

    /// Sessions that certainly exist.
    fn live_sessions(&self) -> Vec<String> {
        let (now, sessions) = (self.now(), self.model.sessions.iter());
        let live = sessions.filter(|(key, session)| {
            session.hold == Hold::Held && self.model.has_session(key, now)
        });
        live.map(|(key, _)| key.clone()).collect()
    }

    /// Permits that certainly exist.
    fn live_permits(&self) -> Vec<String> {
        let (now, permits) = (self.now(), self.model.permits.iter());
        let live = permits.filter(|(_, permit)| {
            let session = permit.session.as_ref().and_then(|key| self.model.sessions.get(key));
            permit.hold == Hold::Held
                && session.is_none_or(|session| session.hold == Hold::Held)
                && self.model.has_permit(permit, now)
        });
        live.map(|(name, _)| name.clone()).collect()
    }
}
