//! A worker: one thread, one runtime, its own connections from accept to close.
//!
//! Nothing of a connection is shared between workers but the settings, which never change in place, and
//! the engine, which is one account for all of them.

use crate::respond::Reply;
use crate::serve::admit::refused;
use crate::serve::clients::{Client, Clients, WaitCount};
use crate::serve::connections::{Connections, CountedConnection, FrontendNumber, Scope};
use crate::serve::descriptors::{Descriptors, ServerDescriptor};
use crate::serve::health::{FAILURES_MAX, Failed, Watchers};
use crate::serve::listen::ListenPoint;
use crate::serve::log::Log;
use crate::serve::lost::Stop;
use crate::serve::orphans::Orphans;
use crate::serve::table::{LiveFrontend, LiveServer, Table, duration};
use crate::serve::upstream::{ConnectError, Idle, Upstream, connect};
use paceline_host::{Control, Permit, Reroute};
use paceline_routing::{Server, Site};
use paceline_types::ServerId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Dead servers of one backend that a request tries at most, however many there are.
const SERVERS_TRIED_MAX: usize = 16;

/// How long an idle connection stays open when the daemon ends: a request may be on its way.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// How long idle connections of all workers have to make room for a request before an orphan does.
const GIVING: Duration = Duration::from_millis(50);

/// So many connections of one client are looked at for one that is idle.
const LOOKED_AT: usize = 64;

/// What all workers share.
#[derive(Clone, Debug)]
pub(crate) struct Means {
    pub watchers: Watchers,
    pub orphans: Arc<Orphans>,
    pub descriptors: Descriptors,
    pub connections: Arc<Connections>,
    pub clients: Arc<Clients>,
}

/// A connection of a client: the number of the client's account, the frontend, and its own number.
type PresentKey = (u64, FrontendNumber, u64);

/// One worker's state.
pub(crate) struct Worker {
    pub control: Arc<Control>,
    pub idle: Rc<Idle>,
    pub log: Log,
    pub means: Means,
    table: RefCell<Arc<Table>>,
    is_draining: Cell<bool>,
    /// Connections of clients, by the number of the client's account, that of their frontend, and their own.
    present: RefCell<BTreeMap<PresentKey, Rc<Presence>>>,
    numbers: Cell<u64>,
    /// The frontend and the number of the connection at which the next search for an idle one begins.
    hand: Cell<(FrontendNumber, u64)>,
    seekers: Rc<Seekers>,
    /// Notified when a connection has ended, or a listener.
    ended: Notify,
    /// Notified when there are other settings, and when the daemon ends.
    reconfigured: Notify,
    /// Listeners that still accept.
    listeners: Cell<usize>,
    own: Weak<Self>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// A connection as the worker sees it: how to wake it, and whether it may end for another.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    waker: RefCell<Option<Waker>>,
    is_idle: Cell<bool>,
    is_displaced: Cell<bool>,
    has_ended: Cell<bool>,
    /// Those of the same worker that wait for an idle one.
    seekers: Rc<Seekers>,
}

/// Listeners that wait for a connection that may end for another.
#[derive(Debug, Default)]
struct Seekers {
    count: Cell<usize>,
    /// Notified when a connection has become idle.
    found: Notify,
}

impl Presence {
    /// The connection's task waits, and wants to be woken when the daemon ends.
    pub fn wait(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Has the connection's task look again.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The connection has no request, or has one again.
    pub fn set_idle(&self, is_idle: bool) {
        let was_idle = self.is_idle.replace(is_idle);
        if is_idle && !was_idle && self.seekers.count.get() > 0 {
            self.seekers.found.notify_waiters();
        }
    }

    /// Whether it has to end for another connection: it has no request, and begins none.
    pub const fn is_displaced(&self) -> bool {
        self.is_displaced.get()
    }

    /// Whether it has ended. Then its place is given back.
    pub const fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Has it end for another connection if it is idle. Returns whether it does.
    fn displace(&self) -> bool {
        let is_displaced = self.is_idle.get() && !self.is_displaced.replace(self.is_idle.get());
        if is_displaced {
            self.wake();
        }
        is_displaced
    }
}

/// That a connection is there; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct Present {
    worker: Rc<Worker>,
    number: u64,
    pub presence: Rc<Presence>,
    frontend: Arc<LiveFrontend>,
    counted: CountedConnection,
}

impl Present {
    fn key(&self) -> PresentKey {
        (self.counted.account().number, self.counted.frontend(), self.number)
    }

    /// The connection belongs to the client that a PROXY header names. Returns whether that client may have it.
    pub fn is_of(&mut self, client: Client) -> bool {
        let worker = &self.worker;
        let account = worker.means.clients.account(client);
        // Its own place stays taken, so only the share of that client counts.
        let share = self.counted.share_of(self.frontend.at(), &account);
        if share.is_some_and(|scope| worker.displace(account.number, scope).is_none()) {
            return false;
        }
        let mut present = worker.present.borrow_mut();
        present.remove(&self.key());
        self.counted.move_to(account);
        present.insert(self.key(), Rc::clone(&self.presence));
        true
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.worker.present.borrow_mut().remove(&self.key());
        self.presence.has_ended.set(true);
        self.worker.ended.notify_one();
    }
}

/// That a listener waits for an idle connection.
struct Seeks<'a>(&'a Seekers);

impl Drop for Seeks<'_> {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
    }
}

impl Worker {
    pub fn new(control: Arc<Control>, log: Log, means: Means) -> Rc<Self> {
        Rc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            ended: Notify::new(),
            reconfigured: Notify::new(),
            listeners: Cell::new(0),
            control,
            idle: Rc::default(),
            log,
            means,
            table: RefCell::default(),
            is_draining: Cell::new(false),
            present: RefCell::default(),
            numbers: Cell::new(0),
            hand: Cell::default(),
            seekers: Rc::default(),
        })
    }

    /// A connection was accepted.
    pub fn enter(
        self: &Rc<Self>,
        frontend: Arc<LiveFrontend>,
        counted: CountedConnection,
    ) -> Present {
        let number = self.numbers.replace(self.numbers.get() + 1);
        let seekers = Rc::clone(&self.seekers);
        let presence = Rc::new(Presence { seekers, ..Presence::default() });
        let present = Present { worker: Rc::clone(self), number, presence, frontend, counted };
        self.present.borrow_mut().insert(present.key(), Rc::clone(&present.presence));
        present
    }

    /// Ends an idle connection of this account, one of the oldest of these that this worker has. Returns it, if there
    /// was any.
    pub fn displace(&self, account: u64, scope: Scope) -> Option<Rc<Presence>> {
        let present = self.present.borrow();
        let (first, last) = scope.map_or((0, FrontendNumber::MAX), |frontend| (frontend, frontend));
        let (first, last) = ((account, first, 0), (account, last, u64::MAX));
        let (frontend, number) = self.hand.get();
        let hand = (account, frontend, number).clamp(first, last);
        let (newer, older) = (present.range(hand..=last), present.range(first..hand));
        // Connections may be many, and all busy: the next call begins where this one ended.
        newer.chain(older).take(LOOKED_AT).find_map(|((_, frontend, number), presence)| {
            self.hand.set((*frontend, *number));
            presence.displace().then(|| Rc::clone(presence))
        })
    }

    /// Returns when a connection of this worker has become idle since this was first polled.
    pub async fn one_is_idle(&self) {
        let seekers = &self.seekers;
        seekers.count.set(seekers.count.get() + 1);
        let _seeks = Seeks(seekers);
        seekers.found.notified().await;
    }

    /// Uses other settings from now on.
    pub fn configure(&self, table: Arc<Table>) {
        self.idle.retain(|server| table.servers.contains_key(&server));
        *self.table.borrow_mut() = table;
        self.reconfigured.notify_waiters();
    }

    /// Waits for other settings, or the daemon's end.
    pub async fn configured(&self) {
        self.reconfigured.notified().await;
    }

    /// A listener begins to accept.
    pub fn begin_listener(&self) {
        self.listeners.set(self.listeners.get() + 1);
    }

    /// A listener has accepted all that it will.
    pub fn end_listener(&self) {
        self.listeners.set(self.listeners.get() - 1);
        self.ended.notify_one();
    }

    /// The frontend that listens at this place now, whatever its name; none if no frontend does any more.
    pub fn frontend(&self, place: &ListenPoint) -> Option<Arc<LiveFrontend>> {
        self.table.borrow().places.get(&place.number).cloned()
    }

    /// The daemon ends: connections end as soon as they have nothing to do. Returns when all have.
    pub async fn drain(&self) {
        self.is_draining.set(true);
        self.reconfigured.notify_waiters();
        for presence in self.present.borrow().values() {
            presence.wake();
        }
        while self.listeners.get() > 0 || !self.present.borrow().is_empty() {
            self.ended.notified().await;
        }
    }

    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// The same, to be read later.
    pub const fn draining(&self) -> &Cell<bool> {
        &self.is_draining
    }

    /// How long an idle connection stays when the daemon ends.
    pub const fn drain_grace(&self) -> Duration {
        DRAIN_GRACE
    }

    /// Itself, for tasks that outlive a call.
    pub fn own(&self) -> Option<Rc<Self>> {
        self.own.upgrade()
    }

    /// A server's `BACKEND/NAME`.
    pub fn server_name(&self, id: ServerId) -> Option<Box<str>> {
        let table = self.table.borrow();
        let known = table.servers.get(&id).or_else(|| table.former.get(&id));
        known.map(|server| server.name.clone()).or_else(|| {
            let snapshot = self.control.snapshot();
            snapshot.routing().server_name(id).map(Into::into)
        })
    }

    /// What a request connects to that was given this site: never another address, where it is not counted.
    ///
    /// The engine uses an edit before the door's table does, and a request may have been given its server before
    /// the edit. So where the table has the server at another address or not at all, the configuration in use is
    /// asked for the rest of the settings. A grant is never newer than that. None if an edit deleted the server.
    fn server(&self, site: &Site) -> Option<Arc<LiveServer>> {
        let table = self.table.borrow();
        let of = |known: &BTreeMap<ServerId, Arc<LiveServer>>| {
            let known = known.get(&site.server).filter(|server| server.address == site.address);
            known.cloned()
        };
        of(&table.servers).or_else(|| of(&table.former)).or_else(|| {
            let snapshot = self.control.snapshot();
            let (backend, server) = snapshot.routing().server(site.server)?;
            let vitals = self.means.watchers.vitals().of(site.server, &site.address);
            let server = Server { address: site.address.clone(), ..server.clone() };
            Some(Arc::new(table.server(backend, &server, vitals)))
        })
    }

    /// Waits until the door's table has a server, for as long as connecting to it may take.
    async fn learn(&self, server: &LiveServer) {
        let is_known = || self.table.borrow().servers.contains_key(&server.id);
        let known = async {
            while !is_known() {
                self.configured().await;
            }
        };
        // The caller looks at what is there by then.
        let _ = tokio::time::timeout(duration(server.timeouts.connect), known).await;
    }

    /// Reports a server that cannot be connected to. Whether more requests may be sent there.
    fn tell_failed(&self, server: &Arc<LiveServer>, error: &ConnectError) -> bool {
        let failed = match error.is_of_server() {
            true => self.means.watchers.failed(&self.control, server),
            false => Failed { in_a_row: 0, is_used: true },
        };
        let is_first = failed.in_a_row == 1;
        // Nothing else may ever report what is wrong with a certificate.
        if is_first && error.is_of_tls() {
            tracing::warn!(server = %server.name, %error, "a server cannot be connected to");
        } else {
            tracing::debug!(server = %server.name, %error, "a server cannot be connected to");
        }
        failed.is_used
    }

    /// How often a request may fail to connect before one of its backend's servers is down, if all of them are dead.
    fn failures_max(&self, permit: &Permit) -> u32 {
        let snapshot = self.control.snapshot();
        let server = permit.site().and_then(|site| snapshot.routing().server(site.server));
        let servers = server.map_or(1, |(backend, _)| backend.servers.len()).min(SERVERS_TRIED_MAX);
        let servers = u32::try_from(servers).unwrap_or(1);
        (FAILURES_MAX - 1) * servers + 1
    }

    /// Has a request whose server cannot be used go to another one. It waits where none has room; its
    /// answer if it may not, and nothing if there is no other.
    async fn reroute(&self, permit: &mut Permit, waits: &mut WaitCount) -> Result<bool, Stop> {
        let waiting = match permit.reroute() {
            Reroute::Server => return Ok(true),
            Reroute::Nowhere => return Ok(false),
            Reroute::Waiting(waiting) => waiting,
        };
        self.wait(waits).map_err(|stop| *stop)?;
        match waiting.await {
            Some(Ok(granted)) => {
                *permit = granted;
                Ok(true)
            }
            Some(Err(refusal)) => Err(refused(self, &refusal)),
            None => Err(Stop::Left),
        }
    }

    /// A request that was admitted waits all the same, and counts for its client as others do that wait.
    fn wait(&self, waits: &mut WaitCount) -> Result<(), Box<Stop>> {
        waits.wait(&self.means.clients).map_err(|full| Box::new(refused(self, &full)))
    }

    /// Keeps a connection to a server for the next request, unless others wait for its descriptor.
    pub fn keep(&self, upstream: Upstream) {
        if self.means.descriptors.keeps(upstream.server.backend) {
            self.idle.put(upstream);
        }
    }

    /// A descriptor for a connection to this server. If its backend may have none, the request waits until others make
    /// room (`make_room`), for as long as connecting may take.
    async fn descriptor(
        &self,
        server: &LiveServer,
        waits: &mut WaitCount,
    ) -> Result<ServerDescriptor, Stop> {
        let waiting = match self.means.descriptors.of_server(server.backend) {
            Ok(descriptor) => return Ok(descriptor),
            Err(waiting) => waiting,
        };
        self.wait(waits).map_err(|stop| *stop)?;
        let granted = tokio::time::timeout(duration(server.timeouts.connect), waiting).await;
        granted.ok().flatten().ok_or_else(|| {
            Stop::Reply(Reply::no_descriptor(self.means.descriptors.is_share_used()))
        })
    }

    /// Makes room for requests that wait for a descriptor, on any worker: idle connections are closed at once, and the
    /// oldest orphans end when that was not enough. Nothing is done unless something has changed. It never ends.
    pub async fn make_room(&self) {
        let mut displaces_at = None;
        loop {
            // It listens before it looks, so that no change is missed in between.
            let mut wanted = pin!(self.means.descriptors.wanted());
            wanted.as_mut().enable();
            while self.idle.close_one(|backend| self.means.descriptors.gives(backend)) {}
            if displaces_at.is_none() && !self.means.orphans.is_empty() {
                displaces_at = Some(Instant::now() + GIVING);
            }
            let Some(at) = displaces_at else {
                wanted.await;
                continue;
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(at) => {
                    displaces_at = None;
                    let waiting = self.means.descriptors.waiting();
                    self.means.orphans.displace(waiting, |of| self.means.descriptors.gives(of));
                    wanted.await;
                }
                () = &mut wanted => {}
            }
        }
    }

    /// A connection to the server that the request was given, or to another if it cannot be connected
    /// to. Without `is_fresh` one that was used before will do.
    pub async fn connect(
        &self,
        permit: &mut Permit,
        waits: &mut WaitCount,
        is_fresh: bool,
    ) -> Result<Upstream, Stop> {
        let upstream = self.connected(permit, waits, is_fresh).await?;
        waits.arrive();
        Ok(upstream)
    }

    async fn connected(
        &self,
        permit: &mut Permit,
        waits: &mut WaitCount,
        is_fresh: bool,
    ) -> Result<Upstream, Stop> {
        let (mut tries, mut has_waited) = (0, false);
        let mut generation = self.control.generation();
        loop {
            let server = permit.site().and_then(|site| self.server(site));
            let Some(server) = server else {
                // An edit took its server away.
                if self.reroute(permit, waits).await? {
                    continue;
                }
                return Err(Stop::Reply(Reply::no_server()));
            };
            // What its TLS needs may be about to be read.
            if server.is_unready() && !std::mem::replace(&mut has_waited, true) {
                self.wait(waits).map_err(|stop| *stop)?;
                self.learn(&server).await;
                continue;
            }
            if !is_fresh && let Some(upstream) = self.idle.take(&server) {
                return Ok(upstream);
            }
            let descriptor = self.descriptor(&server, waits).await?;
            let error = match connect(&server, descriptor).await {
                Ok(upstream) => {
                    server.vitals.succeed();
                    return Ok(upstream);
                }
                Err(error) => error,
            };
            // A server that is dead is down after a few failures; until then a request may come to it again. Once it
            // is down, or an edit has moved it, what failed there is explained, and a request that waited for its
            // turn again begins anew. It begins anew after every edit as well: servers that were down may be up again.
            let before = std::mem::replace(&mut generation, self.control.generation());
            tries = if before == generation { tries } else { 0 };
            tries = if self.tell_failed(&server, &error) { tries + 1 } else { 0 };
            let is_tried_again =
                server.retries > 0 && tries <= server.retries + self.failures_max(permit);
            if is_tried_again && self.reroute(permit, waits).await? {
                continue;
            }
            return Err(Stop::Reply(Reply::unreachable(error.for_clients())));
        }
    }
}
