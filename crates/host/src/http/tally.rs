//! What the HTTP door counts for each frontend: plain atomics, so that counting takes no lock.
//!
//! A tally outlives edits of its frontend, and follows it when it is renamed. The tally of a deleted frontend is
//! dropped with the last connection that uses it.

use paceline_engine::Snapshot;
use paceline_model::FrontendFigures;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The counters of one frontend, shared by all workers.
#[derive(Debug, Default)]
pub struct Tally {
    /// Connections that are open.
    pub connections: AtomicUsize,
    /// Connections accepted so far.
    pub accepted: AtomicU64,
    /// Requests received.
    pub requests: AtomicU64,
    /// Responses by the first digit of their status, from 1 to 5.
    pub responses: [AtomicU64; 5],
    /// Requests that ended without a response, because the client had left.
    pub left: AtomicU64,
    /// Responses that were cut short.
    pub cut: AtomicU64,
}

impl Tally {
    /// Counts a response.
    pub fn respond(&self, status: u16) {
        if let Some(class) = self.responses.get(usize::from(status / 100).wrapping_sub(1)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a response that was cut short.
    pub fn cut(&self, status: u16) {
        self.respond(status);
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    fn figures(&self) -> FrontendFigures {
        FrontendFigures {
            connections: self.connections.load(Ordering::Relaxed) as u64,
            accepted: self.accepted.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            responses: self.responses.each_ref().map(|class| class.load(Ordering::Relaxed)),
            left: self.left.load(Ordering::Relaxed),
            cut: self.cut.load(Ordering::Relaxed),
            ..FrontendFigures::default()
        }
    }
}

/// The tallies of all frontends.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<BTreeMap<Box<str>, Arc<Tally>>>);

impl Tallies {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Arc<Tally>>> {
        self.0.lock().unwrap_or_else(crate::broken)
    }

    pub(super) fn tally(&self, frontend: &str) -> Arc<Tally> {
        Arc::clone(self.all().entry(frontend.into()).or_default())
    }

    pub(super) fn connections(&self) -> usize {
        self.all().values().map(|tally| tally.connections.load(Ordering::Relaxed)).sum()
    }

    /// Moves the tallies of frontends that an edit renamed to their new names, so that connections count at the
    /// frontend that accepted them. To be called for each edit, in order.
    pub(super) fn rename(&self, snapshot: &Snapshot) {
        let mut all = self.all();
        let renamed: Vec<(&str, Arc<Tally>)> = snapshot
            .renamed_frontends()
            .filter_map(|(old, new)| Some((new, all.remove(old)?)))
            .collect();
        all.extend(renamed.into_iter().map(|(new, tally)| (new.into(), tally)));
    }

    /// Drops the tallies of deleted frontends, except those that connections still use.
    pub(super) fn configure(&self, snapshot: &Snapshot) {
        let frontends = snapshot.routing().frontends();
        let is_there = |name: &str| frontends.iter().any(|frontend| *frontend.name == *name);
        self.all().retain(|name, tally| Arc::strong_count(tally) > 1 || is_there(name));
    }

    pub(super) fn figures(&self) -> BTreeMap<Box<str>, FrontendFigures> {
        self.all().iter().map(|(name, tally)| (name.clone(), tally.figures())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Tallies;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_tally_is_one_for_all_and_goes_with_its_frontend() {
        let tallies = Tallies::default();
        // No frontend is configured.
        let snapshot = paceline_engine::Engine::new(1).snapshot();
        let (web, again) = (tallies.tally("web"), tallies.tally("web"));
        web.requests.fetch_add(1, Ordering::Relaxed);
        for status in [0, 99, 100, 200, 299, 404, 503, 599, 600] {
            again.respond(status);
        }
        let figures = tallies.figures()["web"].clone();
        assert_eq!((figures.requests, figures.responses), (1, [1, 2, 0, 1, 2]));
        // A connection still uses this one.
        tallies.configure(&snapshot);
        assert_eq!(tallies.figures().len(), 1);
        drop((web, again));
        tallies.configure(&snapshot);
        assert_eq!(tallies.figures().len(), 0);
    }
}
