//! No address has more requests than the server there may have (P1), whatever servers and backends were
//! deleted, added, moved and renamed in between: a request that starts at a server with a maximum finds fewer
//! than that at its address. Names do not matter.
//!
//! Keeps its own records: where each request was when it started. Only running requests are checked, so
//! requests on the way there or asleep at a server do not count.

use super::Invariant;
use crate::history::Step;
use crate::model::config::{Backend, Config};
use crate::seen::{Answer, Seen};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Where a request runs, as it was when it started.
struct Run {
    server: u32,
    backend: u32,
    address: u32,
    /// Since when the server no longer exists there.
    left: Option<u64>,
}

/// A server while it is at one address.
struct Stay {
    address: u32,
    since: u64,
    /// The highest maximum that it ever had there: a request that has the server already when that is lowered
    /// still starts.
    most: u64,
}

/// Remembers where each request runs.
#[derive(Default)]
pub struct Sites {
    running: BTreeMap<u64, Run>,
    stays: BTreeMap<u32, Stay>,
    steps: u64,
    config: Option<Rc<Config>>,
}

impl Invariant for Sites {
    fn name(&self) -> &'static str {
        "no address has too many"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        let before = self.config.replace(Rc::clone(&seen.config));
        self.steps += 1;
        self.follow(&seen.config);
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
            let now = find(&seen.config, server);
            let Some((backend, address)) = now.or_else(|| find(before.as_deref()?, server)) else {
                continue;
            };
            let left = now.is_none().then_some(self.steps);
            self.running.insert(*id, Run { server, backend: backend.id, address, left });
            // Requests that were due before an edit started before it.
            if !matches!(&*seen.step, Step::Configure(..)) {
                self.check(server, backend, address)?;
            }
        }
        Ok(())
    }
}

impl Sites {
    /// Follows servers that are added, deleted and moved.
    fn follow(&mut self, config: &Config) {
        let steps = self.steps;
        let servers = || config.backends.iter().flat_map(|backend| &backend.servers);
        self.stays.retain(|id, stay| {
            servers().any(|server| server.id == *id && server.address == stay.address)
        });
        for run in self.running.values_mut() {
            let stays = self.stays.get(&run.server).is_some_and(|stay| stay.address == run.address);
            run.left = run.left.or_else(|| (!stays).then_some(steps));
        }
        for server in servers() {
            let new = Stay { address: server.address, since: steps, most: 0 };
            let stay = self.stays.entry(server.id).or_insert(new);
            stay.most = stay.most.max(server.max.unwrap_or(u64::MAX));
        }
    }

    fn check(&self, server: u32, at: &Backend, address: u32) -> Result<(), String> {
        let Some(stay) = self.stays.get(&server) else { return Ok(()) };
        // A server that was added when another one left its address may be that one under another name.
        let counts = |run: &&Run| match run.left {
            None => run.server == server,
            Some(left) => run.backend == at.id || left <= stay.since,
        };
        // Two servers of a backend at one address have room for both their maxima.
        let twins = at.servers.iter().filter(|server| server.address == address).count();
        let all = self.running.values().filter(|run| run.address == address);
        let (there, max) = (all.filter(counts).count() as u64, stay.most);
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
