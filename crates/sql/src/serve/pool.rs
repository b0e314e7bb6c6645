//! The connections to the servers of one target: those in use are counted, idle ones wait for the next transaction.
//!
//! Promises that no more than `connections.max` are open, that transactions wait for one first come, first served, and that
//! a connection serves only clients with the same user and the same untracked startup parameters (Q2). The connection that
//! was used last is used first, so that unneeded ones grow old and are closed. One task closes them, when the first is due.

use crate::respond;
use crate::serve::inbox::LongBytes;
use crate::serve::target::{Pair, PoolKey, Proof};
use crate::serve::upstream::{ConnectError, How, Upstream, Welcome};
use paceline_net::file;
use paceline_net::tls::{ClientTls, Roots};
use paceline_postgres::relay::{Parameters, Server};
use paceline_postgres::scram::Login;
use paceline_postgres::wire::SqlState;
use paceline_postgres::wire::report::Report;
use paceline_routing::{BackendTls, SqlLogin, SqlTarget, SqlTls, Upstream as Settings};
use paceline_types::Span;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

/// The longest file with a password.
const PASSWORD_FILE_BYTES_MAX: u64 = 4_096;

/// Kinds of clients whose parameters are remembered.
const WELCOMES_MAX: usize = 1_000;

/// The connections of a target.
#[derive(Debug)]
pub(crate) struct Pool {
    pub target: Arc<SqlTarget>,
    settings: Settings,
    /// None if connections are never encrypted.
    tls: Option<ClientTls>,
    /// Connections that are open or being opened.
    open: Cell<usize>,
    idle: RefCell<BTreeMap<PoolKey, Vec<IdleServer>>>,
    waiters: RefCell<VecDeque<Waiter>>,
    /// What a server said to a client of each kind.
    welcomes: RefCell<BTreeMap<PoolKey, Rc<Welcome>>>,
    /// What servers report for a value that a client asked for.
    canonical: RefCell<BTreeMap<Pair, Box<[u8]>>>,
    /// Where the server is that was connected to last.
    last_host: Cell<usize>,
    /// Raised when statements may have other results than before.
    epoch: Cell<u64>,
    /// Whether the configuration has replaced the target.
    is_retired: Cell<bool>,
    /// Notified when idle connections may have to be closed earlier than was known.
    earlier: Notify,
    long: LongBytes,
}

#[derive(Debug)]
struct IdleServer {
    since: Instant,
    linked: Linked,
}

#[derive(Debug)]
struct Waiter {
    key: PoolKey,
    given: oneshot::Sender<Given>,
}

/// What a waiter gets.
#[derive(Debug)]
enum Given {
    Connection(Box<Linked>),
    /// Room for a new one.
    Room(Room),
}

/// A connection in use, with what the relay knows of it.
#[derive(Debug)]
pub(crate) struct Linked {
    pub connection: Connection,
    pub server: Box<Server>,
}

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Connection {
    pub upstream: Upstream,
    _room: Room,
}

/// A place among the open connections; it is free again when this is dropped.
#[derive(Debug)]
struct Room(Rc<Pool>);

impl Room {
    fn new(pool: &Rc<Pool>) -> Option<Self> {
        let has_room = pool.open.get() < pool.settings.connections.max as usize;
        has_room.then(|| {
            pool.open.set(pool.open.get() + 1);
            Self(Rc::clone(pool))
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let pool = Rc::clone(&self.0);
        pool.open.set(pool.open.get() - 1);
        pool.give_room();
    }
}

impl Pool {
    /// The pool of an upstream target; none of an embedded one. Files of certificates that cannot be read are an error.
    pub fn new(target: Arc<SqlTarget>, long: LongBytes) -> Option<Result<Rc<Self>, String>> {
        let settings = target.upstream()?.clone();
        let tls = match settings.url.tls {
            SqlTls::Disable => None,
            mode => {
                let verify = mode == SqlTls::VerifyFull;
                let spec =
                    BackendTls { ca: settings.url.ca.clone(), verify, ..BackendTls::default() };
                match ClientTls::new(&spec, &mut Roots::default(), b"postgresql") {
                    Ok(tls) => Some(tls),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        Some(Ok(Rc::new(Self {
            target,
            settings,
            tls,
            open: Cell::new(0),
            idle: RefCell::default(),
            waiters: RefCell::default(),
            welcomes: RefCell::default(),
            canonical: RefCell::default(),
            last_host: Cell::new(0),
            epoch: Cell::new(0),
            is_retired: Cell::new(false),
            earlier: Notify::new(),
            long,
        })))
    }

    /// Whether the configuration has replaced it.
    pub const fn is_retired(&self) -> bool {
        self.is_retired.get()
    }

    /// Its settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The present epoch.
    pub const fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Statements may have other results from now on.
    pub fn reshape(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// The part of the pool that serves a client with these startup parameters.
    pub fn key(&self, client: &str, parameters: Vec<Pair>) -> PoolKey {
        let user = match &self.settings.login {
            SqlLogin::Client => client.into(),
            SqlLogin::User { user, .. } => user.clone(),
        };
        PoolKey { user, parameters: parameters.into() }
    }

    /// The tracked parameters of a client that asked for these values, as servers report them. A value that servers refuse is
    /// an error.
    pub async fn settle(
        self: &Rc<Self>,
        key: &PoolKey,
        proof: Option<&Proof>,
        welcome: &Welcome,
        asked: &[Pair],
    ) -> Result<Parameters, Report> {
        let mut parameters = welcome.tracked();
        let mut wanted = Parameters::new();
        let mut unknown: Vec<&Pair> = vec![];
        for one in asked {
            let (name, value) = one;
            let pair = (name.to_ascii_lowercase().into_boxed_slice(), value.clone());
            let is_plain = pair.0.as_ref() == b"application_name" && is_plain_name(value);
            match self.canonical.borrow().get(&pair) {
                Some(canonical) => parameters.set(name, canonical),
                None if is_plain => parameters.set(name, value),
                None => {
                    wanted.set(name, value);
                    unknown.push(one);
                }
            }
        }
        if unknown.is_empty() {
            return Ok(parameters);
        }
        let mut linked = self.take(key, proof).await?;
        let text = wanted.settings(linked.server.parameters());
        let reported = linked.connection.upstream.run(&text).await;
        let reported = reported.map_err(|error| self.failed(error))?;
        for (name, value) in &reported {
            linked.server.set_parameter(name, value);
        }
        let mut canonical = self.canonical.borrow_mut();
        if canonical.len() >= WELCOMES_MAX {
            canonical.clear();
        }
        for (name, value) in unknown {
            let Some(found) = std::str::from_utf8(name).ok() else { continue };
            let Some(found) = linked.server.parameters().value(found) else { continue };
            parameters.set(name, found);
            canonical.insert((name.to_ascii_lowercase().into(), value.clone()), found.into());
        }
        drop(canonical);
        self.put(key, linked);
        Ok(parameters)
    }

    fn failed(&self, error: ConnectError) -> Report {
        match error {
            ConnectError::Refused(report) => report,
            ConnectError::Broken(error) => {
                tracing::warn!(target = &*self.target.name, "{error}");
                respond::no_server(&self.target.name, "it closed the connection")
            }
        }
    }

    /// What a server tells a client of this kind at its login. Connects to a server if that is not known.
    pub async fn welcome(
        self: &Rc<Self>,
        key: &PoolKey,
        proof: Option<&Proof>,
    ) -> Result<Rc<Welcome>, Report> {
        let known = self.welcomes.borrow().get(key).cloned();
        if let Some(welcome) = known {
            return Ok(welcome);
        }
        let linked = self.take(key, proof).await?;
        self.put(key, linked);
        let known = self.welcomes.borrow().get(key).cloned();
        known.ok_or_else(|| respond::no_server(&self.target.name, "its parameters are not known"))
    }

    /// A connection for a transaction of this kind: an idle one, a new one, or the next one that becomes free.
    pub async fn take(
        self: &Rc<Self>,
        key: &PoolKey,
        proof: Option<&Proof>,
    ) -> Result<Linked, Report> {
        if let Some(linked) = self.take_idle(key) {
            return Ok(linked);
        }
        let given = match self.room() {
            Some(room) => Given::Room(room),
            None => {
                let (given, receiver) = oneshot::channel();
                self.waiters.borrow_mut().push_back(Waiter { key: key.clone(), given });
                let gone = |_| respond::no_server(&self.target.name, "the target was deleted");
                receiver.await.map_err(gone)?
            }
        };
        match given {
            Given::Connection(linked) => Ok(*linked),
            Given::Room(room) => self.connect(key, proof, room).await,
        }
    }

    /// Gives back a connection that another client may use.
    pub fn put(self: &Rc<Self>, key: &PoolKey, mut linked: Linked) {
        let is_old = linked.connection.upstream.opened.elapsed()
            >= duration(self.settings.connections.lifetime);
        let upstream = &linked.connection.upstream;
        // What was not written completely would be taken for the start of the next client's message.
        let is_clean =
            upstream.inbox.is_empty() && upstream.out.bytes.len() == upstream.out.written();
        if is_old || self.is_retired.get() || !is_clean {
            return;
        }
        linked.connection.upstream.inbox.pause();
        linked.connection.upstream.out.release();
        let mut linked = Box::new(linked);
        loop {
            // Out of the borrow, because a waiter may leave at this moment.
            let next = self.waiters.borrow_mut().pop_front();
            let Some(waiter) = next else { break };
            if waiter.given.is_closed() {
                continue;
            }
            if waiter.key != *key {
                self.waiters.borrow_mut().push_front(waiter);
                // Closing it makes room for a connection that the waiter can use.
                return;
            }
            match waiter.given.send(Given::Connection(linked)) {
                Ok(()) => return,
                Err(Given::Connection(back)) => linked = back,
                Err(Given::Room(_)) => return,
            }
        }
        let idle = IdleServer { since: Instant::now(), linked: *linked };
        self.idle.borrow_mut().entry(key.clone()).or_default().push(idle);
        self.earlier.notify_one();
    }

    /// The configuration has replaced the target: idle connections are closed, others when they become free.
    pub fn retire(&self) {
        self.is_retired.set(true);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        drop(idle);
        self.earlier.notify_one();
    }

    /// An idle connection, unless others wait for one.
    pub fn take_idle(&self, key: &PoolKey) -> Option<Linked> {
        if !self.waiters.borrow().is_empty() {
            return None;
        }
        loop {
            let found = self.idle.borrow_mut().get_mut(key)?.pop()?;
            let mut linked = found.linked;
            if linked.connection.upstream.is_quiet() {
                return Some(linked);
            }
        }
    }

    /// Room for a new connection. If all are open, an idle one of another kind is closed.
    fn room(self: &Rc<Self>) -> Option<Room> {
        if !self.waiters.borrow().is_empty() {
            return None;
        }
        if let Some(room) = Room::new(self) {
            return Some(room);
        }
        let oldest = {
            let mut idle = self.idle.borrow_mut();
            let oldest = idle.values_mut().filter(|one| !one.is_empty());
            let oldest = oldest.min_by_key(|one| one.first().map(|one| one.since));
            oldest.map(|one| one.remove(0))
        };
        // Dropped out of the borrow, because that gives its room back.
        drop(oldest?);
        Room::new(self)
    }

    /// Gives room to the first waiter.
    fn give_room(self: &Rc<Self>) {
        loop {
            let next = self.waiters.borrow_mut().pop_front();
            let Some(waiter) = next else { return };
            if waiter.given.is_closed() {
                continue;
            }
            let Some(room) = Room::new(self) else {
                self.waiters.borrow_mut().push_front(waiter);
                return;
            };
            // If it has just left, dropping the room gives it to the next one.
            let _ = waiter.given.send(Given::Room(room));
            return;
        }
    }

    async fn connect(
        self: &Rc<Self>,
        key: &PoolKey,
        proof: Option<&Proof>,
        room: Room,
    ) -> Result<Linked, Report> {
        let login = self.login(proof)?;
        let count = self.settings.url.hosts.len();
        let wait = duration(self.settings.url.connect_timeout);
        let mut failed = "it has no host".to_owned();
        for number in 0..count {
            let at = (self.last_host.get() + number) % count.max(1);
            let Some(address) = self.settings.url.hosts.get(at) else { continue };
            let by = Instant::now() + wait;
            let how = How { settings: &self.settings, tls: self.tls.as_ref(), address, until: by };
            let connected = Upstream::connect(how, (key, login.clone()), self.long.clone());
            match timeout_at(by, connected).await {
                Ok(Ok((upstream, server, welcome))) => {
                    self.last_host.set(at);
                    self.learn(key, welcome);
                    let connection = Connection { upstream, _room: room };
                    return Ok(Linked { connection, server });
                }
                // What a server says of the login counts, unless it is one that accepts no clients now.
                Ok(Err(ConnectError::Refused(report))) => {
                    if report.state() != SqlState::CANNOT_CONNECT_NOW {
                        return Err(report);
                    }
                    failed = report.message().to_owned();
                }
                Ok(Err(ConnectError::Broken(error))) => failed = format!("{address}: {error}"),
                Err(_) => failed = format!("{address}: it did not answer in time"),
            }
        }
        tracing::warn!(target = &*self.target.name, "no server can be connected to: {failed}");
        Err(respond::no_server(&self.target.name, "it cannot be connected to"))
    }

    fn learn(&self, key: &PoolKey, welcome: Welcome) {
        let mut welcomes = self.welcomes.borrow_mut();
        if welcomes.len() >= WELCOMES_MAX && !welcomes.contains_key(key) {
            welcomes.clear();
        }
        welcomes.insert(key.clone(), Rc::new(welcome));
    }

    fn login(&self, proof: Option<&Proof>) -> Result<Option<Login>, Report> {
        match &self.settings.login {
            SqlLogin::Client => Ok(proof.map(Proof::login)),
            SqlLogin::User { password_file: None, .. } => Ok(None),
            SqlLogin::User { password_file: Some(name), .. } => {
                let failed = |error| {
                    tracing::warn!(target = &*self.target.name, "{name}: {error}");
                    respond::no_server(&self.target.name, "its password file cannot be read")
                };
                let mut password = file::read(name, PASSWORD_FILE_BYTES_MAX).map_err(failed)?;
                while password.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                    password.pop();
                }
                Ok(Some(Login::Password(password)))
            }
        }
    }

    /// Closes connections that were idle for too long, until the target is retired.
    pub async fn close_idle(self: Rc<Self>) {
        while !self.is_retired.get() {
            let next = self.close_due(Instant::now());
            tokio::select! {
                () = async {
                    match next {
                        Some(next) => sleep_until(next).await,
                        None => std::future::pending().await,
                    }
                } => {}
                () = self.earlier.notified() => {}
            }
        }
    }

    /// Closes what is due, and returns when the next one is.
    fn close_due(&self, now: Instant) -> Option<Instant> {
        let mut idle = self.idle.borrow_mut();
        let (mut closed, mut next): (Vec<IdleServer>, Option<Instant>) = (vec![], None);
        let mut count: usize = idle.values().map(Vec::len).sum();
        for part in idle.values_mut() {
            while count > self.settings.connections.min as usize
                && let Some(first) = part.first()
            {
                let due = first.since + duration(self.settings.connections.idle);
                if due > now {
                    next = Some(next.map_or(due, |next| next.min(due)));
                    break;
                }
                closed.push(part.remove(0));
                count -= 1;
            }
        }
        idle.retain(|_, part| !part.is_empty());
        drop(idle);
        drop(closed);
        next
    }
}

/// Whether servers report this `application_name` as it is.
fn is_plain_name(name: &[u8]) -> bool {
    name.len() < 64 && name.iter().all(|byte| (b' '..=b'~').contains(byte))
}

const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}
