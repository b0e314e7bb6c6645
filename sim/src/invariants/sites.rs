//! No address has more requests than the server there may have (P1), whatever servers were deleted, added,
//! moved and renamed in between: whoever starts at a server with a maximum finds fewer than that at its
//! address.
//!
//! Keeps its own books: where each request was when it started. Only who runs is looked at, so who is on
//! the way there and who sleeps at a server does not count.

use super::Invariant;
use crate::history::Step;
use crate::model::config::{Backend, Config};
use crate::seen::{Answer, Seen};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Remembers where everybody runs: the server, the backend and the address of then.
#[derive(Default)]
pub struct Sites {
    running: BTreeMap<u64, (u32, u32, u32)>,
    /// The last name of each backend.
    names: BTreeMap<u32, &'static str>,
    /// The highest maximum that there ever was at an address of a backend of this name: whoever has a
    /// server already when that is lowered still starts there.
    most: BTreeMap<(&'static str, u32), u64>,
    config: Option<Rc<Config>>,
}

impl Invariant for Sites {
    fn name(&self) -> &'static str {
        "no address has too many"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        let before = self.config.replace(Rc::clone(&seen.config));
        self.names.extend(seen.config.backends.iter().map(|backend| (backend.id, backend.name)));
        for backend in &seen.config.backends {
            for server in &backend.servers {
                let most = self.most.entry((backend.name, server.address)).or_default();
                *most = (*most).max(server.max.unwrap_or(u64::MAX));
            }
        }
        let runs = |id: &u64| seen.alive.get(id).and_then(|sight| sight.grant?.server);
        let went = |id: &u64| match (&*seen.step, &seen.answer) {
            (Step::Reroute(other), Answer::Server(Some(_)) | Answer::Back) => other == id,
            _ => false,
        };
        self.running.retain(|id, _| runs(id).is_some() && !went(id));
        for id in seen.alive.keys() {
            let Some(server) = runs(id).filter(|_| !self.running.contains_key(id)) else {
                continue;
            };
            let found = find(&seen.config, server);
            let found = found.or_else(|| find(before.as_deref()?, server));
            let Some((backend, address)) = found else { continue };
            self.running.insert(*id, (server, backend.id, address));
            // What was due before an edit started before it.
            if !matches!(&*seen.step, Step::Configure(..)) {
                self.check(&seen.config, backend, address)?;
            }
        }
        Ok(())
    }
}

impl Sites {
    fn check(&self, config: &Config, at: &Backend, address: u32) -> Result<(), String> {
        let max = self.most.get(&(at.name, address)).copied().unwrap_or(u64::MAX);
        let is_dead = |id: u32| config.backends.iter().all(|backend| backend.id != id);
        let is_same = |id: u32| id == at.id || (is_dead(id) && self.names[&id] == at.name);
        // Two servers of a backend at one address have room for both their maxima.
        let twins = at.servers.iter().filter(|server| server.address == address).count();
        let all = self.running.values();
        let there = all.filter(|(_, of, where_)| is_same(*of) && *where_ == address).count() as u64;
        if twins == 1 && there > max {
            return Err(format!("{there} run at {address} of {}, at most {max} may", at.name));
        }
        Ok(())
    }
}

/// A server's backend and its address.
fn find(config: &Config, server: u32) -> Option<(&Backend, u32)> {
    let backend = config.backends.iter().find(|backend| backend.has(server))?;
    let own = backend.servers.iter().find(|own| own.id == server)?;
    Some((backend, own.address))
}
