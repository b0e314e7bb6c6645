//! The worker: one thread, one runtime, all connections of the door from accept to close.

use crate::serve::cancel::Sessions;
use crate::serve::inbox::LongBytes;
use crate::serve::pool::Pool;
use paceline_host::{Control, Host, Snapshot};
use paceline_net::task;
use paceline_postgres::scram::Verifier;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// The worker's state.
pub(crate) struct Worker {
    pub host: Arc<Host>,
    pub control: Arc<Control>,
    pub sessions: Rc<Sessions>,
    pub long: LongBytes,
    /// The pools of upstream targets, by the names of the targets.
    pools: RefCell<BTreeMap<Box<str>, Rc<Pool>>>,
    /// Makes the exchange with unknown users look like that with known ones.
    secret: [u8; 32],
    is_draining: Cell<bool>,
    connections: Cell<usize>,
    /// Notified when a connection has ended.
    pub ended: Notify,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").finish_non_exhaustive()
    }
}

/// That a connection is there; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct Present(Rc<Worker>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
        self.0.ended.notify_one();
    }
}

impl Worker {
    pub fn new(host: Arc<Host>, secret: [u8; 32]) -> Rc<Self> {
        Rc::new(Self {
            control: Arc::clone(host.control()),
            host,
            sessions: Rc::default(),
            long: LongBytes::default(),
            pools: RefCell::default(),
            secret,
            is_draining: Cell::new(false),
            connections: Cell::new(0),
            ended: Notify::new(),
        })
    }

    /// Registers an accepted connection.
    pub fn enter(self: &Rc<Self>) -> Present {
        self.connections.set(self.connections.get() + 1);
        Present(Rc::clone(self))
    }

    /// How many connections there are.
    pub const fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Uses the targets of this configuration. A pool whose target did not change stays as it is.
    pub fn configure(&self, snapshot: &Snapshot) {
        let mut pools = self.pools.borrow_mut();
        let mut old = std::mem::take(&mut *pools);
        for target in snapshot.sql_targets().iter() {
            if let Some(pool) = old.get(&target.name).filter(|pool| pool.target == *target) {
                pools.insert(target.name.clone(), Rc::clone(pool));
                old.remove(&target.name);
                continue;
            }
            match Pool::new(Arc::clone(target), self.long.clone()) {
                Some(Ok(pool)) => {
                    task::spawn(Rc::clone(&pool).close_idle());
                    pools.insert(target.name.clone(), pool);
                }
                Some(Err(error)) => tracing::error!("sql_target \"{}\": {error}", target.name),
                None => {}
            }
        }
        drop(pools);
        old.values().for_each(|pool| pool.retire());
    }

    /// The pool of a target.
    pub fn pool(&self, name: &str) -> Option<Rc<Pool>> {
        self.pools.borrow().get(name).cloned()
    }

    /// What the password of a SQL user is verified with.
    pub fn verifier(&self, user: &str) -> Option<Verifier> {
        self.host.access().sql_user(user)?.verifier.map(|verifier| verifier.verifier().clone())
    }

    pub const fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// The daemon ends: sessions end as soon as they are idle.
    pub fn drain(&self) {
        self.is_draining.set(true);
        self.sessions.wake_all();
    }

    pub const fn is_draining(&self) -> bool {
        self.is_draining.get()
    }
}
