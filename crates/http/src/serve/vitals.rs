//! How servers are: whether each is up, and how often in a row it could not be connected to.
//!
//! Owns one account for each server at each address, which all workers share, whatever edits make of the server's
//! other settings. A server has its account as soon as a request can be given to it: the worker that asks first makes
//! it, so failures count also while the door's table does not have the server yet.

use paceline_host::Control;
use paceline_routing::Address;
use paceline_types::ServerId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The vitals of all servers.
#[derive(Debug, Default)]
pub(crate) struct VitalsOfAll(Mutex<Accounts>);

type Accounts = BTreeMap<(ServerId, Address), Arc<Vitals>>;

impl VitalsOfAll {
    /// The vitals of a server at this address; of a new one, that it is up.
    pub fn of(&self, server: ServerId, address: &Address) -> Arc<Vitals> {
        Arc::clone(self.lock().entry((server, address.clone())).or_default())
    }

    /// Forgets the servers that an edit deleted or moved.
    pub fn prune(&self, control: &Control) {
        let mut all = self.lock();
        // It is read only now: a worker may have just asked for a server of an edit that is a moment old.
        let snapshot = control.snapshot();
        all.retain(|(id, address), _| {
            let server = snapshot.routing().server(*id);
            server.is_some_and(|(_, server)| server.address == *address)
        });
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(paceline_host::broken)
    }
}

/// How a server is at one address, whatever edits make of its other settings.
#[derive(Debug)]
pub(crate) struct Vitals {
    /// How often in a row it could not be connected to.
    failures: AtomicU32,
    /// Whether that was too often and was reported, and the report was not handled yet.
    is_reported: AtomicBool,
    /// Whether it is up, as it was last set in the engine.
    is_up: AtomicBool,
    /// Held while the engine is changed, so that the engine and this agree.
    telling: Mutex<()>,
    /// Held by the request that tries to connect again to a unix socket whose backlog is full; the others wait in line.
    pub backlog: tokio::sync::Mutex<()>,
}

impl Default for Vitals {
    fn default() -> Self {
        Self {
            failures: AtomicU32::new(0),
            is_reported: AtomicBool::new(false),
            is_up: AtomicBool::new(true),
            telling: Mutex::default(),
            backlog: tokio::sync::Mutex::default(),
        }
    }
}

impl Vitals {
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// It could not be connected to; how often in a row.
    pub fn fail(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether a report is due that it failed too often: once, until it counts anew.
    pub fn reports(&self) -> bool {
        !self.is_reported.swap(true, Ordering::Relaxed)
    }

    /// Failures count anew.
    pub fn forget_failures(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.is_reported.store(false, Ordering::Relaxed);
    }

    /// It could be connected to.
    pub fn succeed(&self) {
        // Every connection comes by here; most find nothing to change.
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.forget_failures();
        }
    }

    /// Keeps whether it is up from now on, and calls `tell`, which changes the engine. Nothing changes if that returns
    /// false: then the engine's server is elsewhere by now. Returns the same.
    pub fn set_up(&self, is_up: bool, tell: impl FnOnce(bool) -> bool) -> bool {
        let _telling = self.telling.lock().unwrap_or_else(paceline_host::broken);
        let before = self.is_up.swap(is_up, Ordering::Relaxed);
        let is_told = tell(is_up);
        if !is_told {
            self.is_up.store(before, Ordering::Relaxed);
        }
        is_told
    }

    /// Calls `tell` again, which sets in the engine whether it is up, and returns that.
    pub fn repeat(&self, tell: impl FnOnce(bool)) -> bool {
        let _telling = self.telling.lock().unwrap_or_else(paceline_host::broken);
        tell(self.is_up());
        self.is_up()
    }
}
