//! The engine in service: one mutex around it, the clock read under it, wakes outside it.
//!
//! Requests are prepared against the shared snapshot without the lock. The effects of a call are taken out under the
//! lock and delivered after it; events go to a channel under the lock, which keeps their order. There is no polling: a
//! thread sleeps until the engine asks to be called. The lock of the named locks may be taken inside the engine's lock,
//! never the other way round.

mod configured;
mod event;
mod figures;
mod kept;
mod listed;
mod numbers;
mod permit;
mod planner;
mod servers;
mod timer;

pub use configured::{Configured, Edited};
pub use event::Event;
pub(crate) use kept::HeldPermit;
pub use kept::Terms;
pub use listed::{Hop, Listed};
pub use permit::{Admission, Permit, Reroute, Waiting};
pub(crate) use planner::{
    Consequence, Graphs, Planned, Planner, Renamed, check_growth, constraint,
};

use crate::clock::Clock;
use crate::http::HttpPart;
use crate::kept::{Cause, Ledger, LeftWaiter, PlaceHash};
use crate::locking::Locking;
use kept::KeptRequest;
use numbers::Numbers;
use paceline_engine::{
    About, Effect, Engine, Explanation, Grant, Outcome, Plan, Prepared, RequestError, Snapshot,
    Why, prepare,
};
use paceline_types::{Known, Priority, Reason, Refusal, Request, RequestId, SessionId, Unknown};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use timer::Timer;
use tokio::sync::{Notify, broadcast, oneshot, watch};

/// How often a request is prepared again because the configuration changed in between, before it is prepared
/// under the engine's lock.
const RENEWALS_MAX: u32 = 3;

/// How often a busy lock is tried before the thread sleeps; the pause doubles each time.
const SPINS_MAX: u32 = 7;

/// How many events a listener may lag behind before it misses some.
const EVENTS_MAX: usize = 4_096;

/// The engine, shared by all doors.
pub struct Control {
    state: Mutex<EngineState>,
    /// The configuration in use.
    snapshot: RwLock<Arc<Snapshot>>,
    /// Its generation, for callers that only check whether it has changed.
    generation: AtomicU64,
    /// The configuration in use, for tasks that follow it.
    followed: watch::Sender<Arc<Snapshot>>,
    clock: Clock,
    locking: Arc<Locking>,
    /// Where changes of what clients hold are noted.
    ledger: Arc<Ledger>,
    timer: Arc<Timer>,
    /// Where events of requests are sent, if there is a listener.
    events: broadcast::Sender<Event>,
    numbers: Numbers,
    /// What the HTTP door reports, which follows the configuration.
    http: HttpPart,
    /// Whether the daemon is about to shut down, and doors finish the work they have.
    ending: AtomicBool,
    /// Whether the daemon shuts down, and doors accept nothing new.
    draining: AtomicBool,
    /// Notified when no request waits any more.
    drained: Notify,
}

struct EngineState {
    engine: Engine,
    /// The callers of waiting requests.
    waiters: BTreeMap<RequestId, Caller>,
    /// Requests with places that waited when the daemon ended.
    left: Vec<LeftWaiter>,
    /// Requests that outlive the daemon once they run.
    kept: BTreeMap<RequestId, KeptRequest>,
}

/// The caller of a request that waits.
struct Caller {
    decided: oneshot::Sender<Decided>,
    /// Identifies the request if its client asks again after an orderly shutdown of the daemon.
    place: Option<PlaceHash>,
}

/// Why a request cannot be taken out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWaiting {
    /// There is no such request.
    Unknown,
    /// It runs.
    Runs,
}

/// How a request is admitted.
enum Way {
    /// It is settled when its permit is dropped.
    UntilDropped,
    /// It ends as soon as it may run; with its place in line, if it has one.
    Once(Option<PlaceHash>),
    /// It is held, and outlives the daemon.
    Kept(Terms),
}

impl Way {
    const fn place(&self) -> Option<PlaceHash> {
        match self {
            Self::UntilDropped => None,
            Self::Once(place) => *place,
            Self::Kept(terms) => terms.place,
        }
    }
}

/// What a call of the engine leads to, delivered after the lock is released.
#[derive(Default)]
struct Effects {
    told: Told,
    /// Requests, and the rules that matched them and log.
    matches: Vec<(RequestId, u32, Arc<About>)>,
    /// Whether a request ended that has a row.
    is_noted: bool,
}

/// The decision about a request that waited.
type Decided = Result<Grant, Refusal>;

/// Decisions to send once the lock is released; `None` for a caller whose session ended.
type Told = Vec<(oneshot::Sender<Decided>, Option<Decided>)>;

impl Control {
    /// An engine that lets everything pass; [`Control::run_timer`] wakes it.
    pub(crate) fn new(
        clock: Clock,
        locking: Arc<Locking>,
        ledger: Arc<Ledger>,
        seed: u128,
    ) -> Arc<Self> {
        let engine = Engine::new(seed);
        Arc::new(Self {
            snapshot: RwLock::new(engine.snapshot()),
            generation: AtomicU64::new(engine.snapshot().generation()),
            followed: watch::channel(engine.snapshot()).0,
            state: Mutex::new(EngineState {
                engine,
                waiters: BTreeMap::new(),
                left: vec![],
                kept: BTreeMap::new(),
            }),
            clock,
            locking,
            ledger,
            timer: Arc::default(),
            events: broadcast::channel(EVENTS_MAX).0,
            numbers: Numbers::default(),
            http: HttpPart::new(),
            ending: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            drained: Notify::new(),
        })
    }

    /// An engine without a database, with a fixed seed.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Arc<Self> {
        let ledger = Arc::new(Ledger::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tasks = runtime.handle().clone().into();
        let locking = Arc::new(Locking::new(Arc::clone(&ledger), Clock::new(), tasks));
        let control = Self::new(Clock::new(), locking, ledger, 1);
        timer::spawn(&control);
        control
    }

    /// The configuration in use.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(crate::broken))
    }

    /// The generation of the configuration in use. Takes no lock, so it can be read for each request.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Admits a request.
    ///
    /// # Errors
    ///
    /// When the request is invalid: a number or a name is out of bounds.
    pub fn admit(self: &Arc<Self>, request: Request) -> Result<Admission, RequestError> {
        self.admit_as(request, Way::UntilDropped)
    }

    /// The same for a request that ends as soon as it may run, for callers that only wait to be let through.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn admit_once(
        self: &Arc<Self>,
        request: Request,
        place: Option<PlaceHash>,
    ) -> Result<Admission, RequestError> {
        self.admit_as(request, Way::Once(place))
    }

    fn admit_as(self: &Arc<Self>, request: Request, way: Way) -> Result<Admission, RequestError> {
        let snapshot = self.snapshot();
        let logs = snapshot.logs_values(request.attributes.known(Known::Frontend));
        let mut prepared = prepare(&snapshot, request)?;
        for _ in 0..RENEWALS_MAX {
            let state = self.state();
            if state.engine.is_current(&prepared) {
                return Ok(self.submit(state, prepared, way, logs));
            }
            drop(state);
            prepared.renew(&self.snapshot());
        }
        Ok(self.submit(self.state(), prepared, way, logs))
    }

    fn submit(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, EngineState>,
        mut prepared: Prepared,
        way: Way,
        logs: bool,
    ) -> Admission {
        if self.is_draining() {
            let id = state.engine.next_number();
            return Admission::Refused(id, Refusal::lasting(Reason::Ending));
        }
        let now = self.clock.now();
        let place = way.place();
        let returned = place.and_then(|place| Some((place, self.ledger.returned(now, place)?)));
        if let Some((_, returned)) = &returned {
            prepared.set_returned(returned.waited(now), returned.beside.clone());
        }
        let about = self.is_followed().then(|| About::of(prepared.request()));
        let (id, outcome) =
            state.engine.submit(now, prepared, &|session, lock| self.locking.owns(session, lock));
        if let (Outcome::Refused(_), Some((place, returned))) = (&outcome, returned) {
            // Under the engine's lock, so that no other request can have asked for the place meanwhile.
            self.ledger.not_returned(place, returned);
        }
        self.tell(|| Event::of_outcome(id, &outcome, about));
        let once = matches!(way, Way::Once(_));
        if let Way::Kept(terms) = way
            && matches!(outcome, Outcome::Started | Outcome::Waiting)
        {
            let unknown = state.engine.request(id).map_or(Unknown::Refuse, |one| one.unknown);
            state.kept.insert(id, KeptRequest::new(terms, unknown));
            self.note_granted(&mut state, id);
        }
        let waiting = (outcome == Outcome::Waiting).then(|| {
            let (decided, receiver) = oneshot::channel();
            state.waiters.insert(id, Caller { decided, place });
            receiver
        });
        let grant = state.engine.grant(id);
        // A waiter that was granted in this call is told so, and ends with its permit.
        if once && waiting.is_none() && grant.is_some() {
            let ended = state.engine.end(now, id);
            if let Some(event) = Event::of_end(id, ended) {
                self.tell(|| event);
            }
        }
        self.finish(state);
        match (outcome, waiting, grant) {
            (Outcome::Refused(refusal), _, _) => Admission::Refused(id, refusal),
            (_, Some(receiver), _) => Admission::Waiting(Waiting::new(self, id, logs, receiver)),
            (_, None, Some(grant)) if once => Admission::Started(Permit::over(id, grant)),
            (_, None, Some(grant)) => Admission::Started(Permit::new(self, id, logs, grant)),
            (_, None, None) => {
                debug_assert!(false, "what was started runs");
                Admission::Refused(id, Refusal::lasting(Reason::Ending))
            }
        }
    }

    /// The verdict of the rules about a request that is not admitted: it neither waits nor holds anything.
    ///
    /// # Errors
    ///
    /// When the request is invalid.
    pub fn judge(&self, request: Request) -> Result<Result<Priority, Refusal>, RequestError> {
        let prepared = prepare(&self.snapshot(), request)?;
        let owns = |session: SessionId, lock: &str| self.locking.owns(session, lock);
        Ok(self.call(|engine, now| engine.judge(now, prepared, &owns)))
    }

    /// Why a request waits, or since when it runs.
    #[must_use]
    pub fn why(&self, id: RequestId) -> Option<Why> {
        self.state().engine.why(id)
    }

    /// What would happen to a request that was submitted now.
    ///
    /// # Errors
    ///
    /// When the request is invalid.
    pub fn explain(&self, request: Request) -> Result<Explanation, RequestError> {
        let mut prepared = prepare(&self.snapshot(), request)?;
        let owns = |session: SessionId, lock: &str| self.locking.owns(session, lock);
        for _ in 0..RENEWALS_MAX {
            // Matching may take long, so it is done without the lock.
            let explained = self.call(|engine, now| {
                engine.is_current(&prepared).then(|| engine.explain(now, &prepared, &owns))
            });
            if let Some(explanation) = explained {
                return Ok(explanation.complete());
            }
            prepared.renew(&self.snapshot());
        }
        Ok(self.call(|engine, now| engine.explain(now, &prepared, &owns)).complete())
    }

    /// What the HTTP door reports.
    #[must_use]
    pub const fn http(&self) -> &HttpPart {
        &self.http
    }

    /// Waits until the HTTP door has applied the configuration in use, so that [`HttpPart::state`] shows it.
    /// Returns at once if no door is open; the caller bounds the wait.
    pub async fn until_http_done(&self) {
        let generation = self.snapshot().generation();
        if self.followed.receiver_count() > 0 {
            self.http.until_done(generation).await;
        }
    }

    /// Announces the shutdown of the daemon: doors finish what they have first.
    pub fn begin_ending(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Whether a shutdown was announced.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Whether the daemon shuts down, and doors must accept nothing new.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Begins the shutdown: doors accept nothing new. Returns when no request waits any more.
    pub async fn drain(&self) {
        // Under the lock, so that every request admitted before is seen to wait or to run.
        let state = self.state();
        self.draining.store(true, Ordering::Relaxed);
        drop(state);
        while !self.state().waiters.is_empty() {
            self.drained.notified().await;
        }
    }

    /// Shuts down at once: refuses every new request, and all waiters.
    pub fn stop(&self) {
        let mut state = self.state();
        self.draining.store(true, Ordering::Relaxed);
        let now = self.clock.now();
        for (id, Caller { decided, place }) in std::mem::take(&mut state.waiters) {
            let refusal = Refusal::lasting(Reason::Ending);
            if let Some((place, waited)) = place.zip(state.engine.age(now, id)) {
                let beside = state.engine.beside(id);
                state.left.push(LeftWaiter { place, waited, beside });
            }
            state.engine.end(now, id);
            self.note_ended(&mut state, id, Cause::Ended);
            // A caller that dropped its receiver has withdrawn its request itself.
            let _ = decided.send(Err(refusal));
        }
        self.finish(state);
    }

    /// The requests with places that [`Control::stop`] refused.
    pub(crate) fn take_left(&self) -> Vec<LeftWaiter> {
        std::mem::take(&mut self.state().left)
    }

    /// Cancels a waiting request: its client is refused for this reason.
    ///
    /// # Errors
    ///
    /// When it does not wait.
    pub fn cancel(&self, id: RequestId, reason: Reason) -> Result<(), NotWaiting> {
        let mut state = self.state();
        if state.engine.request(id).is_none() {
            return Err(NotWaiting::Unknown);
        }
        let about = state.engine.request(id).map(About::of);
        if !state.engine.cancel(self.clock.now(), id) {
            return Err(NotWaiting::Runs);
        }
        let refusal = Refusal::lasting(reason);
        let waiter = state.waiters.remove(&id);
        let is_noted = self.note_ended(&mut state, id, Cause::Ended);
        self.tell(|| Event::Refused { id, refusal: refusal.clone(), about });
        self.finish(state);
        if is_noted {
            self.ledger.write();
        }
        // A caller that has just left does not need the refusal.
        let _ = waiter.map(|waiter| waiter.decided.send(Err(refusal)));
        Ok(())
    }

    /// Ends a session: its waiters are removed, and its permits are settled.
    pub(crate) fn end_session(&self, session: SessionId) {
        self.call(|engine, now| engine.end_session(now, session));
    }

    /// Refuses the waiters of a session that require a lock which the session lost.
    pub(crate) fn lock_lost(&self, session: SessionId, lock: &str) {
        self.call(|engine, now| engine.lock_lost(now, session, lock));
    }

    /// Swaps in a new configuration.
    pub(crate) fn configure(&self, plan: &Plan) {
        let mut state = self.state();
        let old = state.engine.configure(self.clock.now(), plan);
        let new = state.engine.snapshot();
        let generation = new.generation();
        // Under the engine's lock, because edits must be followed in order.
        self.http.rename(&new);
        self.note_renamed(&state, &old, &new);
        *self.snapshot.write().unwrap_or_else(crate::broken) = new;
        // Stored last, so that a reader of the generation finds its configuration.
        self.generation.store(generation, Ordering::Release);
        self.finish(state);
        // Two edits may reach this line in either order, so the configuration in use is read again, under the
        // channel's lock.
        self.followed.send_modify(|followed| *followed = self.snapshot());
        self.http.configure(&self.snapshot());
        // It may be large, so it is dropped after the lock is released.
        drop(old);
    }

    /// Ends a request, whether it waited or ran.
    fn end(&self, id: RequestId, cause: Cause) {
        let mut state = self.state();
        let ended = state.engine.end(self.clock.now(), id);
        let is_noted = self.note_ended(&mut state, id, cause);
        drop(state.waiters.remove(&id));
        if let Some(event) = Event::of_end(id, ended) {
            self.tell(|| event);
        }
        self.finish(state);
        if is_noted {
            self.ledger.write();
        }
    }

    /// Subscribes to the events of all requests from now on.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    fn is_followed(&self) -> bool {
        self.events.receiver_count() > 0
    }

    fn tell_of(&self, effect: &Effect, engine: &Engine) {
        if self.is_followed()
            && let Some(event) = Event::of_effect(effect, engine)
        {
            self.tell(|| event);
        }
    }

    fn tell(&self, event: impl FnOnce() -> Event) {
        if self.is_followed() {
            // The last listener may have left just now.
            let _ = self.events.send(event());
        }
    }

    /// Handles what is due.
    pub(crate) fn wake(&self) {
        self.call(Engine::handle_timeout);
    }

    fn call<T>(&self, work: impl FnOnce(&mut Engine, paceline_types::Time) -> T) -> T {
        let mut state = self.state();
        let now = self.clock.now();
        let value = work(&mut state.engine, now);
        self.finish(state);
        value
    }

    /// Releases the lock, then sends the decisions and arms the timer.
    fn finish(&self, mut state: MutexGuard<'_, EngineState>) {
        let Effects { told, matches, is_noted } = self.take_effects(&mut state);
        let next = state.engine.poll_timeout();
        let number = state.engine.next_number();
        let drained = self.is_draining() && state.waiters.is_empty();
        drop(state);
        if drained {
            self.drained.notify_one();
        }
        for (sender, decided) in told {
            // A caller that dropped its receiver has withdrawn its request, or is about to.
            let _ = decided.map(|decided| sender.send(decided));
        }
        for (id, rule, about) in matches {
            let About { user, text, .. } = &*about;
            tracing::info!(request = id.0, rule, user, text, "a rule that logs matched");
        }
        if is_noted {
            self.ledger.write();
        }
        self.numbers.reserve_before(number, self.clock);
        if let Some(next) = next {
            self.timer.arm(next);
        }
    }

    /// Takes the effects of the last call: decisions for waiters, and matches of rules that log.
    fn take_effects(&self, state: &mut EngineState) -> Effects {
        let mut effects = Effects::default();
        while let Some(effect) = state.engine.poll_effect() {
            self.tell_of(&effect, &state.engine);
            let (id, decided) = match effect {
                Effect::Start { id } => {
                    self.note_granted(state, id);
                    (id, state.engine.grant(id).map(Ok))
                }
                Effect::Refuse { id, refusal } => {
                    effects.is_noted |= self.note_ended(state, id, Cause::Ended);
                    (id, Some(Err(refusal)))
                }
                Effect::End { id, .. } => {
                    effects.is_noted |= self.note_ended(state, id, Cause::Ended);
                    (id, None)
                }
                Effect::Log { id, rule, about } => {
                    effects.matches.push((id, rule, about));
                    continue;
                }
            };
            effects.told.extend(state.waiters.remove(&id).map(|waiter| (waiter.decided, decided)));
        }
        effects
    }

    /// Locks the engine. The lock is held for a fraction of a microsecond, far less than it takes to put a
    /// thread to sleep and wake it, so the thread spins briefly first.
    fn state(&self) -> MutexGuard<'_, EngineState> {
        let spins = if cfg!(feature = "simulated") { 0 } else { SPINS_MAX };
        for round in 0..spins {
            if let Ok(state) = self.state.try_lock() {
                return state;
            }
            (0..1 << round).for_each(|_| std::hint::spin_loop());
        }
        crate::sync::lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
