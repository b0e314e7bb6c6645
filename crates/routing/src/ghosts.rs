//! Requests at an address where their server is no longer.
//!
//! A request that runs at a server continues to use its address when an edit deletes the server or moves it to
//! another address. So it counts there until it ends: against every server that is added at this address by that edit
//! or later, in any backend, and against the servers that its own backend has there. Names do not matter: an added
//! server may be the deleted one under another name. A server of another backend that was there already counts only
//! its own requests, as before.

use crate::site::{Site, SiteId};
use paceline_types::{BackendId, ServerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests of one site: a server while it is at one address.
#[derive(Debug)]
pub(crate) struct Ghost {
    /// The number of requests.
    pub held: u32,
    pub site: Arc<Site>,
    pub backend: BackendId,
    /// The last site before the edit that made it a ghost.
    pub last_before: SiteId,
    /// The servers that count them.
    pub counted_by: Vec<ServerId>,
}

impl Ghost {
    /// Whether the server at this site of this backend counts these requests.
    pub fn is_counted_at(&self, site: &Site, backend: BackendId) -> bool {
        let is_meant = site.id > self.last_before || backend == self.backend;
        is_meant && site.address == self.site.address
    }
}

/// All ghosts, by the id of their site.
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

    /// A request of this site ends; returns the servers that counted it.
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
