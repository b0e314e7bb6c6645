//! A worker: one thread, one runtime, its own connections from accept to close.
//!
//! Workers share only the settings, which never change in place, and the engine, which counts for all of them.

use crate::respond::Reply;
use crate::serve::admit::refused;
use crate::serve::clients::{Client, Clients, WaitCount};
use crate::serve::connections::{Connections, CountedConnection, Full};
use crate::serve::descriptors::{Descriptors, ServerDescriptor};
use crate::serve::health::{FAILURES_MAX, Failed, Watchers};
use crate::serve::log::Log;
use crate::serve::lost::Stop;
use crate::serve::orphans::Orphans;
use crate::serve::presence::Presence;
use crate::serve::table::{LiveFrontend, LiveServer, Table, duration};
use crate::serve::upstream::{ConnectError, Idle, Upstream, connect};
use paceline_host::{Control, Permit, Reroute};
use paceline_net::listen::ListenPoint;
use paceline_routing::{Server, Site};
use paceline_types::ServerId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum dead servers of one backend that a request tries.
const SERVERS_TRIED_MAX: usize = 16;

/// How long an idle connection stays open when the daemon ends: a request may be on its way.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// How long the idle connections of all workers have to make room for a request before an orphan must.
const GIVING: Duration = Duration::from_millis(50);

/// What all workers share.
#[derive(Clone, Debug)]
pub(crate) struct Means {
    pub watchers: Watchers,
    pub orphans: Arc<Orphans>,
    pub descriptors: Descriptors,
    pub connections: Arc<Connections>,
    pub clients: Arc<Clients>,
}

/// One worker's state.
pub(crate) struct Worker {
    pub control: Arc<Control>,
    pub idle: Rc<Idle>,
    pub log: Log,
    pub means: Means,
    table: RefCell<Arc<Table>>,
    is_draining: Cell<bool>,
    /// Connections of clients, by their numbers.
    present: RefCell<BTreeMap<u64, Arc<Presence>>>,
    numbers: Cell<u64>,
    /// Notified when a connection has ended, or a listener.
    ended: Notify,
    /// Notified when the settings change, and when the daemon ends.
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

/// That a connection is there; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct Present {
    worker: Rc<Worker>,
    number: u64,
    frontend: Arc<LiveFrontend>,
    counted: CountedConnection,
}

impl Present {
    pub const fn presence(&self) -> &Arc<Presence> {
        self.counted.presence()
    }

    /// Assigns the connection to the client that a PROXY header names. Returns whether that client may have it.
    pub async fn is_of(&mut self, client: Client) -> bool {
        let means = &self.worker.means;
        let (account, at) = (means.clients.account(client), self.frontend.at());
        // Its own place stays taken, so only the share of that client counts.
        let share =
            || self.counted.share_of(at, &account).map_or(Ok(()), |of| Err(Full::Share(of)));
        if means.connections.room_for(at, &account, share).await.is_none() {
            return false;
        }
        self.counted.move_to(account);
        true
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.worker.present.borrow_mut().remove(&self.number);
        self.worker.ended.notify_one();
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
        })
    }

    /// Registers an accepted connection.
    pub fn enter(
        self: &Rc<Self>,
        frontend: Arc<LiveFrontend>,
        counted: CountedConnection,
    ) -> Present {
        let number = self.numbers.replace(self.numbers.get() + 1);
        self.present.borrow_mut().insert(number, Arc::clone(counted.presence()));
        Present { worker: Rc::clone(self), number, frontend, counted }
    }

    /// What a connection does before its first request, unless the daemon ends and it has not done it soon, or it has to
    /// end for another. It is idle meanwhile.
    pub async fn before_request<T>(
        &self,
        presence: &Arc<Presence>,
        done: impl Future<Output = T>,
    ) -> Option<T> {
        let ending = poll_fn(|cx| {
            presence.wait(cx);
            presence.set_idle();
            match self.is_draining() || presence.is_displaced() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        let ended = async {
            ending.await;
            if !presence.is_displaced() {
                tokio::time::sleep(DRAIN_GRACE).await;
            }
        };
        let done = tokio::select! {
            biased;
            done = done => Some(done),
            () = ended => None,
        };
        // Both may have happened since it was looked at last.
        let begins = presence.begin();
        done.filter(|_| begins)
    }

    /// Applies other settings.
    pub fn configure(&self, table: Arc<Table>) {
        self.idle.retain(|server| table.servers.contains_key(&server));
        *self.table.borrow_mut() = table;
        self.reconfigured.notify_waiters();
    }

    /// Waits for other settings, or for the daemon to end.
    pub async fn configured(&self) {
        self.reconfigured.notified().await;
    }

    /// Counts a listener that begins to accept.
    pub fn begin_listener(&self) {
        self.listeners.set(self.listeners.get() + 1);
    }

    /// A listener has accepted its last connection.
    pub fn end_listener(&self) {
        self.listeners.set(self.listeners.get() - 1);
        self.ended.notify_one();
    }

    /// The frontend that listens at this place now, whatever its name; none if there is none any more.
    pub fn frontend(&self, place: &ListenPoint) -> Option<Arc<LiveFrontend>> {
        self.table.borrow().places.get(&place.number).cloned()
    }

    /// The daemon ends: connections end as soon as they are idle. Returns when all have ended.
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

    /// Whether the worker drains, to be read later.
    pub const fn draining(&self) -> &Cell<bool> {
        &self.is_draining
    }

    /// How long an idle connection stays open when the daemon ends.
    pub const fn drain_grace(&self) -> Duration {
        DRAIN_GRACE
    }

    /// A reference to the worker itself, for tasks that outlive a call.
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

    /// The server for a request that was assigned to this site. It never has another address, where the request is
    /// not counted.
    ///
    /// The engine applies an edit before the door's table does, and a request may have been assigned its server
    /// before the edit. So if the table lacks the server, or has it at another address, the remaining settings come
    /// from the configuration in use. A grant is never newer than that. None if an edit deleted the server.
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

    /// Waits until the door's table has a server, at most for the timeout of connecting to it.
    async fn learn(&self, server: &LiveServer) {
        let is_known = || self.table.borrow().servers.contains_key(&server.id);
        let known = async {
            while !is_known() {
                self.configured().await;
            }
        };
        // The caller checks the table again in either case.
        let _ = tokio::time::timeout(duration(server.timeouts.connect), known).await;
    }

    /// Reports a server that cannot be connected to. Returns whether more requests may be sent there.
    fn tell_failed(&self, server: &Arc<LiveServer>, error: &ConnectError) -> bool {
        let failed = match error.is_of_server() {
            true => self.means.watchers.failed(&self.control, server),
            false => Failed { in_a_row: 0, is_used: true },
        };
        let is_first = failed.in_a_row == 1;
        // A faulty certificate may be reported nowhere else.
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

    /// Assigns a request whose server cannot be used to another one. It waits if none has room. Returns false if
    /// there is no other server; the error is its response if it may not wait.
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

    /// An admitted request that waits counts for its client like any other waiting request.
    fn wait(&self, waits: &mut WaitCount) -> Result<(), Box<Stop>> {
        waits.wait(&self.means.clients).map_err(|full| Box::new(refused(self, &full)))
    }

    /// Keeps a connection to a server for the next request, unless others wait for its descriptor.
    pub fn keep(&self, upstream: Upstream) {
        if self.means.descriptors.keeps(upstream.server.backend) {
            self.idle.put(upstream);
        }
    }

    /// A descriptor for a connection to this server. If its backend may have none, the request waits for room
    /// (`make_room`), at most for the timeout of connecting.
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

    /// Makes room for requests that wait for a descriptor, on any worker: closes idle connections at once, and ends
    /// the oldest orphans if that was not enough. It acts only when something has changed, and never returns.
    pub async fn make_room(&self) {
        let mut displaces_at = None;
        loop {
            // Registering before the check ensures that no change is missed in between.
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
                    self.means.orphans.displace(|of| self.means.descriptors.wanted_of(of));
                    wanted.await;
                }
                () = &mut wanted => {}
            }
        }
    }

    /// Connects to the server that the request was assigned, or to another one if that fails. Unless `is_fresh` is
    /// set, an idle connection may be reused.
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
                // An edit removed its server.
                if self.reroute(permit, waits).await? {
                    continue;
                }
                return Err(Stop::Reply(Reply::no_server()));
            };
            // The TLS files of the server may be about to be read.
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
            // A dead server is down after a few failures; until then a request may be sent to it again. The count of
            // tries restarts when the server is down or an edit has moved it, because its failures are then
            // explained. It also restarts after every edit, because servers that were down may be up again.
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
