//! The state of servers: whether each is up, and its connection failures in a row.
//!
//! Owns one entry for each server at each address, which all workers share and which survives edits of the server's
//! other settings. A server has its entry as soon as a request can be assigned to it: the first worker that needs it
//! creates it. So failures count even before the door's table has the server.

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
    /// The vitals of a server at this address. A new server is up.
    pub fn of(&self, server: ServerId, address: &Address) -> Arc<Vitals> {
        Arc::clone(self.lock().entry((server, address.clone())).or_default())
    }

    /// Removes the servers that an edit deleted or moved.
    pub fn prune(&self, control: &Control) {
        let mut all = self.lock();
        // The snapshot is taken under the lock: a worker may have just added a server from a very recent edit.
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

/// The state of a server at one address. It survives edits of the server's other settings.
#[derive(Debug)]
pub(crate) struct Vitals {
    /// Connection failures in a row.
    failures: AtomicU32,
    /// Whether too many failures were reported, and the report was not handled yet.
    is_reported: AtomicBool,
    /// Whether the server is up, as last set in the engine.
    is_up: AtomicBool,
    /// Held while the engine is changed, so that both agree.
    telling: Mutex<()>,
    /// Held by the request that retries a unix socket whose backlog is full; the others wait in line.
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

    /// Counts a failure. Returns the failures in a row.
    pub fn fail(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether to report too many failures: once, until the count is reset.
    pub fn reports(&self) -> bool {
        !self.is_reported.swap(true, Ordering::Relaxed)
    }

    /// Resets the count of failures.
    pub fn forget_failures(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.is_reported.store(false, Ordering::Relaxed);
    }

    /// Connecting succeeded.
    pub fn succeed(&self) {
        // Every new connection calls this; most find nothing to change.
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.forget_failures();
        }
    }

    /// Sets whether the server is up, and calls `tell`, which changes the engine. If that returns false, the server
    /// has moved in the engine, and nothing changes. Returns the result of `tell`.
    pub fn set_up(&self, is_up: bool, tell: impl FnOnce(bool) -> bool) -> bool {
        let _telling = self.telling.lock().unwrap_or_else(paceline_host::broken);
        let before = self.is_up.swap(is_up, Ordering::Relaxed);
        let is_told = tell(is_up);
        if !is_told {
            self.is_up.store(before, Ordering::Relaxed);
        }
        is_told
    }

    /// Calls `tell` again, which sets in the engine whether the server is up. Returns whether it is up.
    pub fn repeat(&self, tell: impl FnOnce(bool)) -> bool {
        let _telling = self.telling.lock().unwrap_or_else(paceline_host::broken);
        tell(self.is_up());
        self.is_up()
    }
}
