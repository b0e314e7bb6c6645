//! The descriptors that the door may have: so many for clients, and as many for servers.
//!
//! Anybody may be a client of a frontend, and over HTTP/2 one connection of a client can need a hundred to servers.
//! Promises that the door leaves the rest of the process's descriptors to the other doors and to files, whatever its
//! clients do (D1).

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is left of them. Copies share it.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors {
    clients: Arc<Semaphore>,
    servers: Arc<Semaphore>,
}

/// One that is in use. It is given back when this is dropped.
pub(crate) type Descriptor = OwnedSemaphorePermit;

impl Descriptors {
    /// So many for each side.
    pub fn new(each: usize) -> Self {
        let some = || Arc::new(Semaphore::new(each.clamp(1, Semaphore::MAX_PERMITS)));
        Self { clients: some(), servers: some() }
    }

    /// One for a client that has connected, as soon as there is one.
    pub async fn of_client(&self) -> Option<Descriptor> {
        Arc::clone(&self.clients).acquire_owned().await.ok()
    }

    /// One for a client that must not wait, even if there is none.
    pub fn of_client_now(&self) -> Option<Descriptor> {
        Arc::clone(&self.clients).try_acquire_owned().ok()
    }

    /// One for a connection to a server, if there is one.
    pub fn of_server_now(&self) -> Option<Descriptor> {
        Arc::clone(&self.servers).try_acquire_owned().ok()
    }

    /// The same, as soon as there is one.
    pub async fn of_server(&self) -> Option<Descriptor> {
        Arc::clone(&self.servers).acquire_owned().await.ok()
    }

    /// Whether connections to servers may be kept for later: not if others wait for their descriptors.
    pub fn has_spare(&self) -> bool {
        self.servers.available_permits() > 0
    }
}
