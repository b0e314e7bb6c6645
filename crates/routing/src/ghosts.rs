//! Requests at an address where the server that they were given is no more.
//!
//! A request that runs at a server goes on to use its address when an edit deletes the server or moves it to another
//! address. So it counts there until it ends: against every server that has the same address in the same backend,
//! whatever the server's number. A backend that was deleted is the same as one that has its name.

use crate::address::Address;
use crate::site::{Site, SiteId};
use paceline_types::{BackendId, ServerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests of one site: a server while it is at one address.
#[derive(Debug)]
pub(crate) struct Ghost {
    /// How many requests there are.
    pub held: u32,
    pub site: Arc<Site>,
    pub backend: BackendId,
    /// The name that the backend had last, once it is deleted.
    pub last_name: Option<Box<str>>,
    /// The servers that count them.
    pub counted_by: Vec<ServerId>,
}

impl Ghost {
    /// Whether a server at this address counts these requests.
    pub fn counts(&self, address: &Address, backend: (BackendId, &str)) -> bool {
        let is_same = backend.0 == self.backend || self.last_name.as_deref() == Some(backend.1);
        is_same && *address == self.site.address
    }
}

/// All of them, by the number of their site.
#[derive(Debug, Default)]
pub(crate) struct Ghosts(BTreeMap<SiteId, Ghost>);

impl Ghosts {
    pub fn add(&mut self, ghost: Ghost) {
        self.0.insert(ghost.site.id, ghost);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Ghost> {
        self.0.values_mut()
    }

    /// A backend was deleted that had this name.
    pub fn bury(&mut self, backend: BackendId, name: &str) {
        for ghost in self.0.values_mut().filter(|ghost| ghost.backend == backend) {
            ghost.last_name.get_or_insert_with(|| name.into());
        }
    }

    /// A request of this site ends; the servers that counted it.
    pub fn leave(&mut self, site: SiteId) -> Vec<ServerId> {
        let Some(ghost) = self.0.get_mut(&site) else { return vec![] };
        ghost.held = ghost.held.saturating_sub(1);
        let counted_by = ghost.counted_by.clone();
        if ghost.held == 0 {
            self.0.remove(&site);
        }
        counted_by
    }
}
