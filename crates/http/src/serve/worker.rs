//! A worker: one thread, one runtime, its own connections from accept to close.
//!
//! Nothing of a connection is shared between workers but the settings, which never change in place, and
//! the engine, which is one account for all of them.

use crate::respond::Reply;
use crate::serve::admit::{Stop, refused};
use crate::serve::descriptors::{Descriptor, Descriptors, ServerDescriptor};
use crate::serve::gone::Gone;
use crate::serve::health::{FAILURES_MAX, Failed, Watchers};
use crate::serve::listen::Place;
use crate::serve::log::Log;
use crate::serve::orphans::Orphans;
use crate::serve::table::{Gate, Table, Target, duration};
use crate::serve::upstream::{ConnectError, Idle, Upstream, connect};
use crate::serve::waiters::Waiters;
use paceline_host::{Control, Permit, Reroute};
use paceline_routing::{Server, Site};
use paceline_types::{BackendId, ServerId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a connection that nobody uses stays when the daemon ends: a request may be on its way.
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// How long idle connections of all workers have to make room for a request before an orphan does.
const GIVING: Duration = Duration::from_millis(50);

/// One worker's state.
pub(crate) struct Worker {
    pub control: Arc<Control>,
    pub idle: Rc<Idle>,
    pub log: Log,
    pub watchers: Watchers,
    pub orphans: Arc<Orphans>,
    pub descriptors: Descriptors,
    pub waiters: Arc<Waiters>,
    table: RefCell<Arc<Table>>,
    is_draining: Cell<bool>,
    connections: RefCell<BTreeMap<u64, Rc<Presence>>>,
    numbers: Cell<u64>,
    /// Told when a connection has ended, or a listener.
    ended: Notify,
    /// Told when there are other settings, and when the daemon ends.
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

/// A connection as the worker sees it: how to wake it.
#[derive(Debug, Default)]
pub(crate) struct Presence(RefCell<Option<Waker>>);

impl Presence {
    /// The connection's task waits, and wants to hear when the daemon ends.
    pub fn wait(&self, cx: &Context<'_>) {
        let mut waker = self.0.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Has the connection's task look again.
    pub fn wake(&self) {
        if let Some(waker) = self.0.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// That a connection is there; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct Present {
    worker: Rc<Worker>,
    number: u64,
    pub presence: Rc<Presence>,
    gate: Arc<Gate>,
    _descriptor: Option<Descriptor>,
}

impl Drop for Present {
    fn drop(&mut self) {
        self.worker.connections.borrow_mut().remove(&self.number);
        self.worker.ended.notify_one();
        let tally = &self.gate.tally;
        tally.connections.fetch_sub(1, Ordering::Relaxed);
        tally.room.notify_one();
    }
}

impl Worker {
    pub fn new(
        control: Arc<Control>,
        log: Log,
        watchers: Watchers,
        orphans: Arc<Orphans>,
        descriptors: Descriptors,
        waiters: Arc<Waiters>,
    ) -> Rc<Self> {
        Rc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            ended: Notify::new(),
            reconfigured: Notify::new(),
            listeners: Cell::new(0),
            control,
            idle: Rc::default(),
            log,
            watchers,
            orphans,
            descriptors,
            waiters,
            table: RefCell::default(),
            is_draining: Cell::new(false),
            connections: RefCell::default(),
            numbers: Cell::new(0),
        })
    }

    /// A connection has come.
    pub fn enter(self: &Rc<Self>, gate: Arc<Gate>, descriptor: Option<Descriptor>) -> Present {
        let number = self.numbers.replace(self.numbers.get() + 1);
        let presence = Rc::<Presence>::default();
        self.connections.borrow_mut().insert(number, Rc::clone(&presence));
        Present { worker: Rc::clone(self), number, presence, gate, _descriptor: descriptor }
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

    /// The frontend that listens at this place now, whatever it is called; none if no one does any more.
    pub fn gate(&self, place: &Place) -> Option<Arc<Gate>> {
        self.table.borrow().places.get(&place.number).cloned()
    }

    /// The daemon ends: connections end as soon as they have nothing to do. Returns when all have.
    pub async fn drain(&self) {
        self.is_draining.set(true);
        self.reconfigured.notify_waiters();
        for presence in self.connections.borrow().values() {
            presence.wake();
        }
        while self.listeners.get() > 0 || !self.connections.borrow().is_empty() {
            self.ended.notified().await;
        }
    }

    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// The same, for those who look at it later.
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
        known.map(|target| target.name.clone()).or_else(|| {
            let snapshot = self.control.snapshot();
            snapshot.routing().server_name(id).map(Into::into)
        })
    }

    /// What a request connects to that was given this site: never another address, where it is not counted.
    ///
    /// The engine uses an edit before the door's table does, and a request may have been given its server before
    /// the edit. So where the table has the server at another address or not at all, the configuration in use is
    /// asked for the rest of the settings. A grant is never newer than that. None if an edit deleted the server.
    fn target(&self, site: &Site) -> Option<Arc<Target>> {
        let table = self.table.borrow();
        let of = |known: &BTreeMap<ServerId, Arc<Target>>| {
            let known = known.get(&site.server).filter(|target| target.address == site.address);
            known.cloned()
        };
        of(&table.servers).or_else(|| of(&table.former)).or_else(|| {
            let snapshot = self.control.snapshot();
            let (backend, server) = snapshot.routing().server(site.server)?;
            let vitals = self.watchers.vitals().of(site.server, &site.address);
            let server = Server { address: site.address.clone(), ..server.clone() };
            Some(Arc::new(table.target(backend, &server, vitals)))
        })
    }

    /// Waits until the door's table has a server, for as long as connecting to it may take.
    async fn learn(&self, target: &Target) {
        let is_known = || self.table.borrow().servers.contains_key(&target.id);
        let known = async {
            while !is_known() {
                self.configured().await;
            }
        };
        // Whoever asked sees what is there by then.
        let _ = tokio::time::timeout(duration(target.timeouts.connect), known).await;
    }

    /// Reports a server that cannot be connected to. Whether more requests may be sent there.
    fn tell_failed(&self, target: &Arc<Target>, error: &ConnectError) -> bool {
        let failed = match error.is_of_server() {
            true => self.watchers.failed(&self.control, target),
            false => Failed { in_a_row: 0, is_used: true },
        };
        let is_first = failed.in_a_row == 1;
        // Nothing else may ever tell what is wrong with a certificate.
        if is_first && error.is_of_tls() {
            tracing::warn!(server = %target.name, %error, "a server cannot be connected to");
        } else {
            tracing::debug!(server = %target.name, %error, "a server cannot be connected to");
        }
        failed.is_used
    }

    /// Has a request whose server cannot be used go to another one. It waits where none has room; its
    /// answer if it may not, and nothing if there is no other.
    async fn reroute(&self, permit: &mut Permit) -> Result<bool, Gone> {
        let waiting = match permit.reroute() {
            Reroute::Server => return Ok(true),
            Reroute::Nowhere => return Ok(false),
            Reroute::Waiting(waiting) => waiting,
        };
        match waiting.await {
            Some(Ok(granted)) => {
                *permit = granted;
                Ok(true)
            }
            Some(Err(refusal)) => match refused(self, &refusal) {
                Stop::Left => Err(Gone::Left),
                Stop::Reply(reply) => Err(Gone::Reply(reply)),
            },
            None => Err(Gone::Left),
        }
    }

    /// Keeps a connection to a server for the next request, unless others wait for its descriptor.
    pub fn keep(&self, upstream: Upstream) {
        if self.descriptors.keeps(upstream.target.backend) {
            self.idle.put(upstream);
        }
    }

    /// A descriptor for a connection to a server of this backend. If it may have none, idle connections make room, then
    /// the oldest orphans, one after the other; else those that others have are waited for.
    async fn descriptor(&self, backend: BackendId) -> Option<ServerDescriptor> {
        let mut waiting = match self.descriptors.of_server(backend) {
            Ok(descriptor) => return Some(descriptor),
            Err(waiting) => waiting,
        };
        self.close_idle();
        loop {
            tokio::select! {
                biased;
                granted = &mut waiting => return granted,
                () = tokio::time::sleep(GIVING) => {}
            }
            self.orphans.displace(|of| self.descriptors.gives(of));
        }
    }

    /// Closes idle connections as long as somebody waits for whom that makes room.
    fn close_idle(&self) {
        while self.idle.close_one(|backend| self.descriptors.gives(backend)) {}
    }

    /// Makes room for those who wait on other workers. It never ends.
    pub async fn make_room(&self) {
        loop {
            // It listens before it looks, so that nobody comes in between unheard.
            let mut wanted = pin!(self.descriptors.wanted());
            wanted.as_mut().enable();
            self.close_idle();
            wanted.await;
        }
    }

    /// A connection to the server that the request was given, or to another if it cannot be connected
    /// to. Without `is_fresh` one that was used before will do.
    pub async fn connect(&self, permit: &mut Permit, is_fresh: bool) -> Result<Upstream, Gone> {
        let (mut tries, mut has_waited) = (0, false);
        loop {
            let target = permit.site().and_then(|site| self.target(site));
            let Some(target) = target else {
                // An edit took its server away.
                if self.reroute(permit).await? {
                    continue;
                }
                return Err(Gone::Reply(Reply::no_server()));
            };
            // What its TLS needs may be about to be read.
            if target.is_unready() && !std::mem::replace(&mut has_waited, true) {
                self.learn(&target).await;
                continue;
            }
            if !is_fresh && let Some(upstream) = self.idle.take(&target) {
                return Ok(upstream);
            }
            let error = match connect(&target, self.descriptor(target.backend)).await {
                Ok(upstream) => {
                    target.vitals.succeed();
                    return Ok(upstream);
                }
                Err(error) => error,
            };
            if matches!(error, ConnectError::NoDescriptor) {
                let is_share_used = self.descriptors.is_share_used();
                return Err(Gone::Reply(Reply::no_descriptor(is_share_used)));
            }
            // A server that is dead is down after a few failures; until then a request may come to it again. Once it
            // is down, or an edit has moved it, what failed there is explained, and a request that waited for its
            // turn again begins anew.
            tries = if self.tell_failed(&target, &error) { tries + 1 } else { 0 };
            let is_tried_again = target.retries > 0 && tries <= target.retries + FAILURES_MAX;
            if is_tried_again && self.reroute(permit).await? {
                continue;
            }
            return Err(Gone::Reply(Reply::unreachable(error.for_clients())));
        }
    }
}
