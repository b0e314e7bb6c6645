//! The sites of servers, and the requests that are still there.
//!
//! A site is a server while it is at one address. A request that was given a server is at the site of that
//! time, until it ends.

use super::{Model, Request};
use std::collections::BTreeMap;

/// A site: its number and its address.
pub type Site = (u32, u32);

/// All sites.
#[derive(Clone, Debug, Default)]
pub(super) struct Sites {
    /// The site of each server.
    now: BTreeMap<u32, Site>,
    last: u32,
    /// For each ended site, the last site before the edit that ended it.
    ended: BTreeMap<u32, u32>,
}

impl Model {
    /// Gives a new site to servers that are new or moved.
    pub(super) fn sites_changed(&mut self) {
        let sites = &mut self.sites;
        let (was, last) = (std::mem::take(&mut sites.now), sites.last);
        for server in self.config.backends.iter().flat_map(|backend| &backend.servers) {
            let same = was.get(&server.id).filter(|site| site.1 == server.address);
            let site = same.copied().unwrap_or_else(|| {
                sites.last += 1;
                self.shares.begin(server.id);
                (sites.last, server.address)
            });
            sites.now.insert(server.id, site);
        }
        let is_over = |server: &u32, site: &Site| sites.now.get(server) != Some(site);
        let over = was.iter().filter(|(server, site)| is_over(server, site));
        sites.ended.extend(over.map(|(_, site)| (site.0, last)));
    }

    /// The site of a server.
    pub(super) fn site(&self, server: u32) -> Site {
        self.sites.now.get(&server).copied().unwrap_or_default()
    }

    /// Whether the server that a request was given is still where it was.
    pub(super) fn has_site(&self, request: &Request) -> bool {
        request.seat.is_some_and(|seat| self.sites.now.get(&seat) == Some(&request.site))
    }

    /// How many requests count against a server: those that were given it at its present address, and those at
    /// its address that were given a server which is no longer there. Of the latter it counts all if it was
    /// added when that server was gone, otherwise those of its backend.
    #[must_use]
    pub fn held_at(&self, server: u32) -> u64 {
        self.requests.values().filter(|request| self.is_counted(request, server)).count() as u64
    }

    fn is_counted(&self, request: &Request, server: u32) -> bool {
        let Some(seat) = request.seat else { return false };
        if self.has_site(request) {
            return seat == server;
        }
        let has = |at: u32| self.config.backends.iter().find(move |backend| backend.has(at));
        let (Some(backend), Some(of)) = (has(server), request.backend) else { return false };
        let (number, address) = self.site(server);
        let came_later = self.sites.ended.get(&request.site.0).is_some_and(|last| number > *last);
        (came_later || backend.id == of) && address == request.site.1
    }
}
