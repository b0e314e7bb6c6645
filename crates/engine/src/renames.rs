//! Frontends that an edit renamed.
//!
//! A frontend has no number that outlives its name: it is identified by the address where it listens. Requests
//! carry its name, and the checkpoints of their way are found by it. Promises that every request, whether
//! waiting, running or not yet submitted, has the name of the frontend that now listens where its own did, so
//! that it passes that frontend's checkpoints (P1, S1).

use crate::engine::Engine;
use paceline_routing::{Frontend, Routing};
use paceline_types::Known;
use std::collections::BTreeMap;

/// Edits that are remembered for requests that were prepared and are not submitted yet.
const EDITS_MAX: usize = 16;

/// The renames of one edit.
#[derive(Clone, Debug)]
pub(crate) struct Renames {
    /// The generation of the configuration that it made.
    generation: u64,
    to: BTreeMap<Box<str>, Box<str>>,
}

impl Renames {
    /// The frontends of one configuration that have other names in the next.
    fn new(generation: u64, old: &Routing, new: &Routing) -> Self {
        let listening = new.frontends().iter();
        let listening = listening.flat_map(|one| one.listen.iter().map(|at| (at, &*one.name)));
        let at: BTreeMap<_, &str> = listening.filter(|(at, _)| !at.is_any_port()).collect();
        let renamed = |old: &Frontend| {
            let mut names = old.listen.iter().filter_map(|address| at.get(address));
            let first = names.clone().next()?;
            // A frontend that still has an address of its own is not renamed.
            let is_itself = names.any(|name| **name == *old.name);
            (!is_itself).then(|| (old.name.clone(), (*first).into()))
        };
        Self { generation, to: old.frontends().iter().filter_map(renamed).collect() }
    }
}

impl Renames {
    /// Whether the edit made the configuration of this generation.
    pub(crate) const fn is_of(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// Old names and new ones.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.to.iter().map(|(old, new)| (&**old, &**new))
    }
}

/// The present name of a frontend that had `name` in the configuration `since`, if it has another.
pub(crate) fn name_now<'a>(edits: &'a [Renames], since: u64, name: &str) -> Option<&'a str> {
    let later = edits.iter().filter(|edit| edit.generation > since);
    later.fold(None, |now: Option<&str>, edit| match edit.to.get(now.unwrap_or(name)) {
        Some(to) => Some(to),
        None => now,
    })
}

impl Engine {
    /// Gives all requests the names that their frontends have from this generation on. Returns the renames of
    /// this edit and of those before it that are remembered. It visits every request, but only if a frontend
    /// was renamed.
    pub(crate) fn rename_frontends(
        &mut self,
        generation: u64,
        old: &Routing,
        new: &Routing,
    ) -> Vec<Renames> {
        let mut edits = self.snapshot.renames.to_vec();
        let edit = Renames::new(generation, old, new);
        if edit.to.is_empty() {
            return edits;
        }
        self.requests.edit_all(|draft| {
            let attributes = &mut draft.request.attributes;
            if let Some(name) = edit.to.get(attributes.known(Known::Frontend)) {
                attributes.put(Known::Frontend, name);
            }
            draft.named_at = generation;
        });
        if edits.len() == EDITS_MAX {
            edits.remove(0);
        }
        edits.push(edit);
        edits
    }
}
