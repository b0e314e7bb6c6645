//! The actions that clients begin.

use super::edit::token_hash;
use super::{Conn, Flight, USERS, What, World};
use crate::client::{self, Ask, Done};
use crate::model::{Graph, Hold};
use paceline_host::registry::{Asking, Beginning, Chosen, Terms};
use paceline_host::{Granted, LockOperation, Process};
use paceline_sim::rng::Rng;
use paceline_types::{Attributes, Claim, Mode, Request, Role, Span, Unknown};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

/// Names of resources.
pub(super) const RESOURCES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Names of locks.
pub(super) const LOCKS: [&str; 3] = ["k", "l", "m"];

/// Names of permits that clients choose.
const NAMES: [&str; 3] = ["x", "y", "z"];

/// The content of a client's request.
struct Body {
    user: String,
    claims: Vec<(String, Mode)>,
    lease: Span,
    unknown: Unknown,
}

/// The most actions under way at a time.
const FLIGHTS_MAX: usize = 8;

impl World {
    /// Begins an action that takes time.
    pub(super) fn fly(
        &mut self,
        what: What,
        work: impl Future<Output = Done> + Send + 'static,
    ) -> Result<(), String> {
        let (number, done) = (self.next, Arc::clone(&self.done));
        self.next += 1;
        let task = self.daemon()?.executor.begin(Box::pin(async move {
            let outcome = work.await;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, outcome));
        }));
        self.flights.insert(number, Flight { task, since: self.step, what });
        Ok(())
    }

    /// A client acts on sessions or permits.
    pub(super) fn do_something(&mut self) -> Result<(), String> {
        if self.flights.len() >= FLIGHTS_MAX {
            return Ok(());
        }
        let sessions = self.live_sessions();
        let permits = self.live_permits();
        match self.rng.below(20) {
            0..3 if sessions.len() < 2 * self.profile.names => self.begin_session(),
            0..11 => self.ask(&sessions),
            11..15 => {
                // Clients also release late, after the lease has expired.
                let known = self.model.permits.iter();
                let known = known.filter(|(_, permit)| permit.hold == Hold::Held);
                let known: Vec<String> = known.map(|(name, _)| name.clone()).collect();
                let among = if self.rng.chance(30) { &known } else { &permits };
                match self.rng.pick_any(among) {
                    Some(name) => self.settle(&name),
                    None => Ok(()),
                }
            }
            15 | 16 => match self.rng.pick_any(&permits) {
                Some(name) => self.renew_permit(&name),
                None => Ok(()),
            },
            17 => match self.rng.pick_any(&sessions) {
                Some(key) => self.give_up(&key),
                None => Ok(()),
            },
            18 => match self.rng.pick_any(&sessions) {
                Some(key) => self.renew_session(&key),
                None => Ok(()),
            },
            _ => {
                self.note(|_| "compacts".to_owned());
                self.daemon()?.own.compact();
                Ok(())
            }
        }
    }

    fn begin_session(&mut self) -> Result<(), String> {
        let user = self.rng.pick(&USERS).to_owned();
        let lease = self.rng.pick(&[
            None,
            Some(Span::from_secs(3)),
            Some(Span::from_secs(30)),
            Some(Span::from_secs(90)),
        ]);
        let process = lease.is_none().then(|| self.machine.processes.begin());
        let (name, is_owner) = (user.clone(), false);
        let beginning =
            Beginning { name, user: user.clone(), is_owner, lease: lease.map(Some), process };
        let registry = Arc::clone(&self.daemon()?.registry);
        self.note(|_| format!("{user} begins a session, lease {lease:?}, process {process:?}"));
        self.fly(What::Begin { user, lease, process }, async move {
            Done::Session(registry.begin_session(beginning).await)
        })
    }

    /// The grant of a user's role; `None` if it has none.
    fn granted(&mut self, user: &str) -> Result<Option<Arc<Granted>>, String> {
        let access = Arc::clone(self.daemon()?.host.access());
        let tokens: Vec<u64> = self.tokens.keys().copied().collect();
        if self.rng.chance(30)
            && let Some(token) = self.rng.pick_any(&tokens)
        {
            return Ok(access
                .of_token(&token_hash(token))
                .filter(|granted| granted.role() >= Role::Client));
        }
        let (role, granted) = access.of_user(u32::MAX, user);
        Ok(granted.filter(|_| role >= Some(Role::Client)))
    }

    /// The content of a request: determined by the name and the digest, if the client chose them.
    fn body(&mut self, named: Option<(&str, bool)>) -> Body {
        let seed = match named {
            Some((name, other)) => {
                u64::from(name.bytes().next().unwrap_or_default()) * 2 + u64::from(other)
            }
            None => self.rng.next(),
        };
        let mut rng = Rng::new(seed);
        let mut claims: Vec<(String, Mode)> = vec![];
        for _ in 0..rng.pick(&[0, 1, 1, 1, 2]) {
            let mode = if rng.chance(70) { Mode::Exclusive } else { Mode::Shared };
            let name = rng.pick(&RESOURCES).to_owned();
            if !claims.iter().any(|(other, _)| *other == name) {
                claims.push((name, mode));
            }
        }
        Body {
            user: rng.pick(&USERS).to_owned(),
            claims,
            lease: Span::from_secs(rng.pick(&[2, 20, 100])),
            unknown: if rng.chance(20) { Unknown::Wait } else { Unknown::Refuse },
        }
    }

    fn ask(&mut self, sessions: &[String]) -> Result<(), String> {
        let graphs: Vec<Graph> = self.model.graphs.since(self.step).cloned().collect();
        let names = &NAMES[..self.profile.names];
        let named = self.rng.chance(self.profile.named).then(|| self.rng.pick(names));
        let named = named.map(|name| (name, self.rng.below(4) == 0));
        let Body { user, claims, lease, unknown } = self.body(named);
        let session = match named {
            None if self.rng.chance(60) => self.rng.pick_any(sessions),
            _ => None,
        };
        let Some(granted) = self.granted(&user)? else { return Ok(()) };
        let daemon = self.daemon()?;
        let shared = match &session {
            None => None,
            Some(key) => Some(daemon.registry.session(key).map_err(|error| format!("{error:?}"))?),
        };
        let registry = Arc::clone(&daemon.registry);
        let wait = Span::from_ms(self.rng.pick(&[0, 500, 5_000, 20_000]));
        let claim =
            |(name, mode): &(String, Mode)| Claim { resource: name.as_str().into(), mode: *mode };
        let request = Request {
            claims: claims.iter().map(claim).collect(),
            unknown,
            wait_max: Some(wait),
            session: shared.as_ref().map(|shared| shared.session.id),
            ..Request::new(attributes(&user)?)
        };
        let once = named.is_none() && self.rng.chance(10);
        let lease = session.is_none().then_some(lease);
        let place = self.choose_place();
        let chosen = named
            .map(|(name, other)| Chosen { name: name.to_owned(), digest: [u8::from(other); 32] });
        let terms = Terms {
            session: shared,
            locks_of: None,
            lease,
            user: user.clone(),
            is_owner: false,
            place,
            asker: None,
        };
        let asked = Ask { request, terms, chosen, once, granted: Some(granted) };
        self.note(|world| {
            let number = world.next;
            format!(
                "#{number} {user} asks for {named:?} {claims:?} once {once} session {session:?} \
                 lease {lease:?} wait {wait:?}"
            )
        });
        let named = named.map(|(name, other)| (name.to_owned(), other));
        if let Some((name, _)) = &named {
            let pending = self.pending.entry(name.clone()).or_insert((self.step, vec![]));
            pending.1.extend(graphs.iter().cloned());
        }
        let what = What::Ask { claims, graphs, session, lease, user, named };
        self.fly(what, client::ask(registry, asked))
    }

    pub(super) fn settle(&mut self, name: &str) -> Result<(), String> {
        let Some(permit) = self.model.permits.get_mut(name) else { return Ok(()) };
        permit.hold = Hold::Unknown;
        let (request, name) = (permit.request, name.to_owned());
        let registry = Arc::clone(&self.daemon()?.registry);
        self.note(|_| format!("gives back {name} ({request})"));
        let what = What::Settle { name: name.clone(), request };
        self.fly(what, async move { Done::Released(registry.settle(&name).await) })
    }

    fn renew_permit(&mut self, name: &str) -> Result<(), String> {
        let ends = self.daemon()?.registry.renew_permit(name);
        let ends = ends.map_err(|error| format!("P3: {name} cannot be renewed: {error:?}"))?;
        if let Some(permit) = self.model.permits.get_mut(name) {
            match permit.session.clone() {
                None => permit.expires = ends,
                Some(key) => {
                    if let Some(session) = self.model.sessions.get_mut(&key) {
                        session.expires = ends;
                    }
                }
            }
        }
        Ok(())
    }

    fn renew_session(&mut self, key: &str) -> Result<(), String> {
        let ends = self.daemon()?.registry.renew_session(key);
        let ends = ends.map_err(|error| format!("P3: a session cannot be renewed: {error:?}"))?;
        if let Some(session) = self.model.sessions.get_mut(key) {
            session.expires = ends;
        }
        Ok(())
    }

    pub(super) fn give_up(&mut self, key: &str) -> Result<(), String> {
        self.model.doubt_session(key);
        let registry = Arc::clone(&self.daemon()?.registry);
        let key = key.to_owned();
        self.note(|world| {
            format!("gives up session {:?}", world.model.sessions.get(&key).map(|s| &s.name))
        });
        let what = What::GiveUp { key: key.clone() };
        self.fly(what, async move { Done::Released(registry.give_up_session(&key).await) })
    }

    /// A client acts on locks.
    pub(super) fn lock_something(&mut self) -> Result<(), String> {
        if self.flights.len() >= FLIGHTS_MAX {
            return Ok(());
        }
        let name = self.rng.pick(&LOCKS[..self.profile.names]);
        match self.rng.below(10) {
            0..5 => self.ask_lock(name),
            5..7 => self.unlock(name),
            _ => self.lock_by_connection(name),
        }
    }

    fn ask_lock(&mut self, name: &str) -> Result<(), String> {
        let sessions = self.live_sessions();
        let Some(key) = self.rng.pick_any(&sessions) else { return Ok(()) };
        if self.is_asking(name, &key)
            || self.model.locks.contains_key(&(name.to_owned(), key.clone()))
        {
            return Ok(());
        }
        let steals = self.rng.chance(15);
        let wait = Span::from_ms(self.rng.pick(&[0, 300, 5_000, 20_000]));
        let place = if steals { None } else { self.choose_place() };
        let asking = if steals { Asking::Steal } else { Asking::Wait(wait, place) };
        let user = self.model.sessions.get(&key).map(|session| session.user.clone());
        let granted = self.granted(&user.unwrap_or_default())?;
        if granted.is_none() {
            return Ok(());
        }
        let daemon = self.daemon()?;
        let session = daemon.registry.session(&key).map_err(|error| format!("{error:?}"))?;
        let registry = Arc::clone(&daemon.registry);
        if steals {
            self.model.doubt_lock(name);
            self.model.stolen.insert(name.to_owned(), self.step);
        }
        self.note(|world| {
            let number = world.next;
            format!("#{number} session {} asks for lock {name}, {asking:?}", session.name())
        });
        let what = What::Lock { name: name.to_owned(), session: key, steals };
        self.fly(what, client::lock(registry, session, name.to_owned(), asking, granted))
    }

    /// Whether a client is requesting this lock for a session, or releasing it.
    fn is_asking(&self, name: &str, key: &str) -> bool {
        self.flights.values().any(|flight| match &flight.what {
            What::Lock { name: lock, session, .. } | What::Unlock { name: lock, session } => {
                lock == name && session == key
            }
            _ => false,
        })
    }

    fn unlock(&mut self, name: &str) -> Result<(), String> {
        let now = self.now();
        let owned: Vec<String> = self
            .model
            .locks
            .iter()
            .filter(|((lock, _), item)| {
                lock == name && item.hold == Hold::Held && self.model.has_lock(item, now)
            })
            .map(|((_, key), _)| key.clone())
            .collect();
        // A client that left may not know whether its session owns the lock.
        let left = self.model.left.values().filter(|(lock, key)| {
            let session = self.model.sessions.get(key);
            let is_there = session.is_some_and(|session| session.hold == Hold::Held);
            let is_told = self.model.locks.contains_key(&(lock.clone(), key.clone()));
            lock == name && is_there && !is_told && !self.is_asking(name, key)
        });
        let left: Vec<String> = left.map(|(_, key)| key.clone()).collect();
        let Some(key) = self.rng.pick_any(&left).or_else(|| self.rng.pick_any(&owned)) else {
            return Ok(());
        };
        if let Some(item) = self.model.locks.get_mut(&(name.to_owned(), key.clone())) {
            item.hold = Hold::Unknown;
        }
        let daemon = self.daemon()?;
        // The session of a client that left may have ended since.
        let Ok(session) = daemon.registry.session(&key) else { return Ok(()) };
        let registry = Arc::clone(&daemon.registry);
        self.note(|_| format!("session {} gives back lock {name}", session.name()));
        let what = What::Unlock { name: name.to_owned(), session: key };
        let name = name.to_owned();
        self.fly(what, async move { Done::Unlocked(registry.unlock(&session, &name).await) })
    }

    /// A connection of the OVSDB door begins, locks, steals, unlocks, or ends.
    fn lock_by_connection(&mut self, name: &str) -> Result<(), String> {
        let conns: Vec<u64> = self.conns.keys().copied().collect();
        let Some(number) = self.rng.pick_any(&conns).filter(|_| self.rng.chance(80)) else {
            if conns.len() < 2 {
                let host = Arc::clone(&self.daemon()?.host);
                let session =
                    host.begin_session(Some(Role::Operator), |id| format!("conn#{}", id.0));
                let conn = Conn { session, asked: BTreeMap::new(), locks: BTreeSet::new() };
                self.conns.insert(self.next, conn);
                self.next += 1;
            }
            return Ok(());
        };
        if self.rng.chance(15) {
            return self.disconnect(number);
        }
        let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
        let operation = match conn.locks.contains(name) {
            true => LockOperation::Unlock,
            false if self.rng.chance(30) => LockOperation::Steal,
            false => LockOperation::Lock,
        };
        let ticket = self.next;
        self.next += 1;
        let session = Arc::clone(&conn.session);
        match operation {
            LockOperation::Unlock => {
                conn.locks.remove(name);
                conn.asked.retain(|_, (lock, _)| lock != name);
                if self.model.conn_locks.get(name).is_some_and(|(owner, _)| *owner == number) {
                    self.model.conn_locks.remove(name);
                }
            }
            _ => {
                conn.locks.insert(name.to_owned());
                conn.asked.insert(ticket, (name.to_owned(), operation == LockOperation::Steal));
            }
        }
        if operation == LockOperation::Steal {
            self.model.doubt_lock(name);
            self.model.stolen.insert(name.to_owned(), self.step);
        }
        self.note(|_| format!("connection {number}: {operation:?} {name}"));
        let locking = Arc::clone(self.daemon()?.host.locking());
        let ticket = ticket.to_be_bytes().into();
        let done = locking.operate_for_client(&session, ticket, operation, name);
        done.map_err(|error| format!("connection {number}: {operation:?} {name}: {error}"))
    }

    pub(super) fn disconnect(&mut self, number: u64) -> Result<(), String> {
        let Some(conn) = self.conns.remove(&number) else { return Ok(()) };
        self.note(|_| format!("connection {number} ends"));
        self.model.conn_locks.retain(|_, (owner, _)| *owner != number);
        self.daemon()?.host.end_session(&conn.session);
        Ok(())
    }

    /// A client that waits for something leaves.
    pub(super) fn leave(&mut self) -> Result<(), String> {
        // A client that leaves while it releases by name may release a later permit of that name.
        let stays =
            |what: &What| matches!(what, What::Edit(_) | What::Settle { .. } | What::Unlock { .. });
        let asks = self.flights.iter().filter(|(_, flight)| !stays(&flight.what));
        let asks: Vec<u64> = asks.map(|(number, _)| *number).collect();
        let Some(number) = self.rng.pick_any(&asks) else { return Ok(()) };
        let Some(flight) = self.flights.remove(&number) else { return Ok(()) };
        self.note(|_| format!("#{number} leaves"));
        self.daemon()?.executor.cancel(flight.task);
        if let What::Lock { name, session, steals } = flight.what {
            if steals {
                self.model.doubt_lock(&name);
                self.model.stolen.insert(name.clone(), self.step);
            }
            self.model.left.insert(number, (name, session));
        }
        Ok(())
    }

    /// A process ends, and its connections with it.
    pub(super) fn end_a_process(&mut self) -> Result<(), String> {
        let bound = self.model.sessions.iter().filter(|(_, session)| session.process.is_some());
        let bound: Vec<String> = bound.map(|(key, _)| key.clone()).collect();
        let Some(key) = self.rng.pick_any(&bound) else { return Ok(()) };
        let Some(process) = self.model.sessions.get(&key).and_then(|s| s.process) else {
            return Ok(());
        };
        self.end_process(&key, process)
    }

    /// A process ends, and with it its connection, if it has one to this daemon.
    pub(super) fn end_process(&mut self, key: &str, process: Process) -> Result<(), String> {
        self.note(|_| format!("process {process} ends"));
        self.model.doubt_session(key);
        self.machine.processes.end(process);
        self.daemon()?.registry.connection_ended(&[key.to_owned()]);
        Ok(())
    }
}

fn attributes(user: &str) -> Result<Attributes, String> {
    let mut attributes = Attributes::new();
    for (name, value) in [("kind", "permit"), ("frontend", "api"), ("user", user)] {
        attributes.set(name, value).map_err(|error| error.to_string())?;
    }
    Ok(attributes)
}
