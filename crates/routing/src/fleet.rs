//! The state of all servers: which are up, which requests hold a place at which, and which is next.
//!
//! Promises that no server is given more requests than its maximum, and that each request is counted until it gives
//! its server back, whatever edits happen in between. It is counted even against a server that replaces its own at
//! the same address. A backend with a server that has a maximum is *gated*: each request passes a counter before it
//! gets a server, and [`Fleet::poll_limit`] returns the limit of that counter, so that a request that passes it finds
//! room.

use crate::backend::{Backend, Balance, Server};
use crate::ghosts::{Ghost, Ghosts};
use crate::lot::Lot;
use crate::pick::{Slot, Turn, pick};
use crate::site::{Site, SiteId};
use paceline_types::{BackendId, ServerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of all servers.
#[derive(Debug)]
pub struct Fleet {
    /// By id.
    groups: Vec<Group>,
    /// The backend of each server, and its index there.
    places: BTreeMap<ServerId, (BackendId, usize)>,
    /// Requests whose server was deleted or moved to another address.
    ghosts: Ghosts,
    /// The last id of a site.
    sites: u32,
    /// The last id of a gate.
    gates: u32,
    /// Gated backends whose limit may have changed.
    stale: Vec<BackendId>,
    lot: Lot,
}

/// The servers of one backend.
#[derive(Clone, Debug)]
struct Group {
    id: BackendId,
    balance: Balance,
    slots: Vec<Slot>,
    turn: Turn,
    /// The id of its gate; a backend that lost its gate and gets one again has a new one.
    gate: Option<u32>,
    /// How many requests that passed this gate have a server.
    counted: u32,
}

/// A request's place at a server; given back once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a place at a server that is not given back is held for ever"]
pub struct Seat {
    /// The server, at the address that it had when it was given.
    site: Arc<Site>,
    backend: BackendId,
    /// The gate that the request passed.
    gate: Option<u32>,
}

impl Seat {
    /// The server.
    #[must_use]
    pub fn server(&self) -> ServerId {
        self.site.server
    }

    /// The server and its address at that time.
    #[must_use]
    pub const fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// The backend that it was given for.
    #[must_use]
    pub const fn backend(&self) -> BackendId {
        self.backend
    }
}

/// The choice for one more request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This server.
    Server(ServerId),
    /// There are usable servers, but none has room.
    Full,
    /// No server that is up and has a weight.
    None,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFigures {
    /// Whether it is up.
    pub up: bool,
    /// How many requests it has.
    pub held: u32,
}

impl Fleet {
    /// No servers yet. `seed` is the seed for random choices.
    #[must_use]
    pub fn new(seed: u128) -> Self {
        Self {
            groups: vec![],
            places: BTreeMap::new(),
            ghosts: Ghosts::default(),
            sites: 0,
            gates: 0,
            stale: vec![],
            lot: Lot::new(seed),
        }
    }

    /// Applies new settings. Servers keep their requests and their state, by id, while their address stays the same.
    /// Servers that are new or moved are up, and count the requests that are still at their address. Backends that
    /// did not change are compared and left alone.
    pub fn configure(&mut self, backends: &[Backend]) {
        let mut slots = BTreeMap::new();
        let mut turns = BTreeMap::new();
        let settings: BTreeMap<BackendId, &Backend> =
            backends.iter().map(|backend| (backend.id, backend)).collect();
        let is_other = |group: &Group| settings.get(&group.id).is_none_or(|new| !group.is_as(new));
        let other: Vec<Group> = self.groups.extract_if(.., |group| is_other(group)).collect();
        let last_before = SiteId(self.sites);
        for group in other {
            turns.insert(group.id, (group.turn, group.gate, group.counted));
            for slot in &group.slots {
                self.places.remove(&slot.id);
            }
            slots.extend(group.slots.into_iter().map(|slot| (slot.id, (group.id, slot))));
        }
        let kept = self.groups.len();
        for (id, backend) in settings {
            let is_kept = self.groups.get(..kept).unwrap_or_default();
            if is_kept.binary_search_by_key(&id, |group| group.id).is_ok() {
                continue;
            }
            let (turn, gate, counted) = turns.remove(&backend.id).unwrap_or_default();
            let (gate, counted) = match gate {
                _ if !backend.is_gated() => (None, 0),
                Some(gate) => (Some(gate), counted),
                None => {
                    self.gates += 1;
                    (Some(self.gates), 0)
                }
            };
            let servers = backend.servers.iter();
            let slot =
                |server: &Server| self.slot_of(server, slots.remove(&server.id), last_before);
            let slots = servers.map(slot);
            let (balance, slots): (_, Vec<Slot>) = (backend.balance, slots.collect());
            self.places.extend(slots.iter().zip(0..).map(|(slot, place)| (slot.id, (id, place))));
            self.stale.extend(gate.map(|_| id));
            self.groups.push(Group { id, balance, slots, turn, gate, counted });
        }
        for (backend, slot) in slots.into_values() {
            self.leave_site(backend, &slot, last_before);
        }
        self.count_ghosts(kept);
        self.groups.sort_by_key(|group| group.id);
    }

    /// The slot of a server with its new settings. `old` is its previous slot and backend, if it existed.
    /// `last_before` is the last site before the edit.
    fn slot_of(
        &mut self,
        server: &Server,
        old: Option<(BackendId, Slot)>,
        last_before: SiteId,
    ) -> Slot {
        let (id, weight, max) = (server.id, server.weight, server.connections_max);
        let credit = old.as_ref().map_or(0, |(_, slot)| slot.credit);
        let (site, fresh, up) = match &old {
            Some((_, slot)) if slot.site.address == server.address => {
                (Arc::clone(&slot.site), slot.fresh, slot.up)
            }
            _ => {
                if let Some((backend, slot)) = &old {
                    self.leave_site(*backend, slot, last_before);
                }
                self.sites += 1;
                let site =
                    Site { id: SiteId(self.sites), server: id, address: server.address.clone() };
                // Its state at another address says nothing about this one.
                (Arc::new(site), 0, true)
            }
        };
        Slot { id, weight, max, up, site, fresh, held: fresh, credit }
    }

    /// A server is no longer at its address, but its requests are.
    fn leave_site(&mut self, backend: BackendId, slot: &Slot, last_before: SiteId) {
        if slot.fresh > 0 {
            let ghost = Ghost {
                held: slot.fresh,
                site: Arc::clone(&slot.site),
                backend,
                last_before,
                counted_by: vec![],
            };
            self.ghosts.add(ghost);
        }
    }

    /// Counts ghosts against the servers of the backends that an edit changed: all except the first `kept`. In the
    /// others nothing can have changed: no server was added there.
    fn count_ghosts(&mut self, kept: usize) {
        if self.ghosts.is_empty() {
            return;
        }
        let (same, changed) = self.groups.split_at_mut(kept);
        for ghost in self.ghosts.iter_mut() {
            let is_same = |server: &ServerId| {
                let mut slots = same.iter().flat_map(|group| &group.slots);
                slots.any(|slot| slot.id == *server)
            };
            let mut counted_by = std::mem::take(&mut ghost.counted_by);
            counted_by.retain(is_same);
            for group in changed.iter_mut() {
                for slot in &mut group.slots {
                    if ghost.is_counted_at(&slot.site, group.id) {
                        slot.held += ghost.held;
                        counted_by.push(slot.id);
                    }
                }
            }
            ghost.counted_by = counted_by;
        }
    }

    /// Sets whether a server is up. Returns whether that is a change.
    pub fn set_up(&mut self, id: ServerId, up: bool) -> bool {
        let Some((backend, place)) = self.places.get(&id).copied() else { return false };
        let Some(group) = group_mut(&mut self.groups, backend) else { return false };
        let Some(slot) = group.slots.get_mut(place) else { return false };
        if std::mem::replace(&mut slot.up, up) == up {
            return false;
        }
        self.stale.extend(group.gate.map(|_| group.id));
        true
    }

    /// Whether a server of this backend is up and has a weight.
    #[must_use]
    pub fn is_usable(&self, backend: BackendId) -> bool {
        self.group(backend).is_some_and(|group| group.slots.iter().any(Slot::is_usable))
    }

    /// The same, ignoring servers at the sites `except`, which are sorted by id.
    #[must_use]
    pub fn has_usable_but(&self, backend: BackendId, except: &[SiteId]) -> bool {
        let is_tried = |slot: &Slot| except.binary_search(&slot.site.id).is_ok();
        let is_other = |slot: &Slot| slot.is_usable() && !is_tried(slot);
        self.group(backend).is_some_and(|group| group.slots.iter().any(is_other))
    }

    /// Whether the server still exists at this address.
    #[must_use]
    pub fn has(&self, site: &Site) -> bool {
        self.slot_at(site).is_some()
    }

    /// Whether the server still exists at this address and is up.
    #[must_use]
    pub fn is_up(&self, site: &Site) -> bool {
        self.slot_at(site).is_some_and(|slot| slot.up)
    }

    /// The current site of a server.
    #[must_use]
    pub fn site(&self, server: ServerId) -> Option<&Arc<Site>> {
        self.slot(server).map(|slot| &slot.site)
    }

    /// The next server, ignoring those at the sites `except`, which are sorted by id.
    pub fn choose(&mut self, backend: BackendId, except: &[SiteId]) -> Choice {
        match group_mut(&mut self.groups, backend) {
            Some(group) => group.choose(except, &mut self.lot),
            None => Choice::None,
        }
    }

    /// The server that would be next.
    #[must_use]
    pub fn preview(&self, backend: BackendId) -> Choice {
        let group = self.group(backend).cloned();
        group.map_or(Choice::None, |mut group| group.choose(&[], &mut self.lot.clone()))
    }

    /// Gives a server to a request, if the server exists. `counted` says whether the request passed the gate and is
    /// counted there.
    pub fn take(&mut self, backend: BackendId, server: ServerId, counted: bool) -> Option<Seat> {
        let (of, place) = self.places.get(&server).copied()?;
        let group = group_mut(&mut self.groups, of)?;
        let slot = group.slots.get_mut(place)?;
        debug_assert!(slot.has_room(), "a server is chosen for its room");
        slot.held += 1;
        slot.fresh += 1;
        let mut seat = Seat { site: Arc::clone(&slot.site), backend, gate: None };
        if counted && group.id == backend {
            seat.gate = group.gate;
            group.counted += u32::from(group.gate.is_some());
        } else {
            self.stale.extend(group.gate.map(|_| group.id));
        }
        Some(seat)
    }

    /// Takes back the server of a request.
    pub fn give_back(&mut self, seat: Seat) {
        let Seat { site, backend, gate } = seat;
        let mut is_plain = false;
        if let Some((of, place)) = self.places.get(&site.server).copied()
            && let Some(group) = group_mut(&mut self.groups, of)
            && let Some(slot) = group.slots.get_mut(place).filter(|slot| slot.site.id == site.id)
        {
            debug_assert!(slot.fresh > 0, "a place at a server is given back once");
            let makes_room = slot.is_usable() && slot.max.is_none_or(|max| slot.held <= max);
            slot.held = slot.held.saturating_sub(1);
            slot.fresh = slot.fresh.saturating_sub(1);
            if group.id == backend && group.gate == gate && (makes_room || gate.is_none()) {
                group.counted -= u32::from(gate.is_some());
                is_plain = true;
            } else {
                self.stale.extend(group.gate.map(|_| group.id));
            }
        } else {
            self.leave_ghost(site.id);
        }
        if !is_plain && gate.is_some() {
            self.uncount(backend, gate);
        }
    }

    /// A request ends whose server is no longer at its address.
    fn leave_ghost(&mut self, site: SiteId) {
        for server in self.ghosts.leave(site) {
            if let Some((of, place)) = self.places.get(&server).copied()
                && let Some(group) = group_mut(&mut self.groups, of)
                && let Some(slot) = group.slots.get_mut(place)
            {
                slot.held = slot.held.saturating_sub(1);
                self.stale.extend(group.gate.map(|_| group.id));
            }
        }
    }

    /// One request fewer that passed this gate has a server.
    fn uncount(&mut self, backend: BackendId, gate: Option<u32>) {
        let group = group_mut(&mut self.groups, backend).filter(|group| group.gate == gate);
        if let Some(group) = group {
            group.counted = group.counted.saturating_sub(1);
            self.stale.push(backend);
        }
    }

    /// A gated backend whose limit may have changed, and the new limit: how many requests may have passed its gate.
    /// If no server is up, it is the largest number, so that no request waits in vain.
    pub fn poll_limit(&mut self) -> Option<(BackendId, u32)> {
        let backend = self.stale.pop()?;
        let limit = self.group(backend).map_or(u32::MAX, Group::limit);
        Some((backend, limit))
    }

    /// The state of the server with this id.
    #[must_use]
    pub fn server(&self, id: ServerId) -> Option<ServerFigures> {
        self.slot(id).map(|slot| ServerFigures { up: slot.up, held: slot.held })
    }

    /// All servers.
    pub fn servers(&self) -> impl Iterator<Item = (ServerId, ServerFigures)> {
        let slots = self.groups.iter().flat_map(|group| &group.slots);
        slots.map(|slot| (slot.id, ServerFigures { up: slot.up, held: slot.held }))
    }

    /// The server of a site, unless it is at another address now.
    fn slot_at(&self, site: &Site) -> Option<&Slot> {
        self.slot(site.server).filter(|slot| slot.site.id == site.id)
    }

    fn slot(&self, server: ServerId) -> Option<&Slot> {
        let (backend, place) = self.places.get(&server)?;
        self.group(*backend)?.slots.get(*place)
    }

    fn group(&self, backend: BackendId) -> Option<&Group> {
        let index = self.groups.binary_search_by_key(&backend, |group| group.id).ok()?;
        self.groups.get(index)
    }
}

fn group_mut(groups: &mut [Group], backend: BackendId) -> Option<&mut Group> {
    let index = groups.binary_search_by_key(&backend, |group| group.id).ok()?;
    groups.get_mut(index)
}

impl Group {
    /// Whether it has exactly these settings.
    fn is_as(&self, backend: &Backend) -> bool {
        let is_as = |(slot, server): (&Slot, &Server)| {
            (slot.id, slot.weight, slot.max) == (server.id, server.weight, server.connections_max)
                && slot.site.address == server.address
        };
        self.balance == backend.balance
            && self.slots.len() == backend.servers.len()
            && self.slots.iter().zip(&backend.servers).all(is_as)
    }

    fn choose(&mut self, except: &[SiteId], lot: &mut Lot) -> Choice {
        let picked = pick(self.balance, &mut self.slots, except, &mut self.turn, lot);
        match picked.and_then(|place| self.slots.get(place)) {
            Some(slot) => Choice::Server(slot.id),
            None if self.slots.iter().any(Slot::is_usable) => Choice::Full,
            None => Choice::None,
        }
    }

    /// How many requests may have passed the gate: those that have a server, and one for each free place.
    fn limit(&self) -> u32 {
        let mut usable = self.slots.iter().filter(|slot| slot.is_usable()).peekable();
        if usable.peek().is_none() {
            return u32::MAX;
        }
        usable.fold(self.counted, |sum, slot| sum.saturating_add(slot.room()))
    }
}

#[cfg(test)]
mod tests;
