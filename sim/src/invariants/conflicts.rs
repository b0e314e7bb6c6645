//! No conflicting claims are granted (C1): when a request starts, no sub-tree of its claims meets
//! what another running request was granted or holds through the graph as it is now, unless both
//! claims are shared.
//!
//! Keeps its own records: sets of nodes as they were when each request started.

use super::Invariant;
use crate::history::Step;
use crate::model::config::{Arrival, Config};
use crate::model::{Effect, Outcome, Spot};
use crate::seen::{Answer, Seen};
use paceline_types::Mode;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A node: a configured resource by its number, or one made by requests by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Configured(u32),
    Made(&'static str),
}

#[derive(Clone, Debug)]
struct Claim {
    name: &'static str,
    mode: Mode,
    root: Option<Node>,
    granted: BTreeSet<Node>,
}

/// Remembers the claims of all requests that are alive.
#[derive(Default)]
pub struct Conflicts {
    claims: BTreeMap<u64, Vec<Claim>>,
    running: BTreeSet<u64>,
    before: Option<Rc<Config>>,
}

impl Invariant for Conflicts {
    fn name(&self) -> &'static str {
        "no conflicting claims are granted"
    }

    fn look(&mut self, seen: &Seen) -> Result<(), String> {
        if let (Step::Submit(arrival), Answer::Submitted(id, outcome)) = (&*seen.step, &seen.answer)
        {
            self.claims.insert(*id, claims(arrival, &seen.config));
            if matches!(outcome, Outcome::Refused(_)) {
                self.claims.remove(id);
            }
        }
        if let (Step::Reroute(id), Answer::Back) = (&*seen.step, &seen.answer) {
            self.running.remove(id);
        }
        // A request that ended in this step released what it held before another was granted it.
        self.running.retain(|id| seen.alive.contains_key(id));
        self.claims.retain(|id, _| {
            seen.alive.contains_key(id)
                || seen.effects.iter().any(|effect| matches!(effect, Effect::Start(s) if s == id))
        });
        // A request that starts in the step in which its session ends is settled in the same step.
        let ended = matches!(&*seen.step, Step::EndSession(_));
        // Requests that were due before an edit started under the previous configuration.
        let before = self.before.replace(Rc::clone(&seen.config));
        for effect in &seen.effects {
            if let Effect::Start(id) = effect
                && (!ended || seen.alive.contains_key(id))
                && let Err(conflict) = self.start(*id, &seen.config)
            {
                let before = before.as_ref().ok_or_else(|| conflict.clone())?;
                self.start(*id, before).map_err(|_| conflict)?;
            }
        }
        if let Answer::Submitted(id, Outcome::Started) = seen.answer {
            self.start(id, &seen.config)?;
        }
        let runs = |id: &u64| seen.alive.get(id).is_some_and(|sight| sight.spot == Spot::Running);
        self.running.retain(runs);
        self.name_aside(seen);
        Ok(())
    }
}

impl Conflicts {
    /// While a request is aside its claims are names, whatever resources have these names by then.
    fn name_aside(&mut self, seen: &Seen) {
        for (id, claims) in &mut self.claims {
            if seen.alive.get(id).is_none_or(|sight| sight.spot != Spot::Unknown) {
                continue;
            }
            for claim in claims {
                if let Some(Node::Configured(root)) = claim.root.take() {
                    let found = seen.config.resources.iter().find(|r| r.id == root);
                    claim.name = found.map_or(claim.name, |resource| resource.name);
                }
            }
        }
    }

    fn start(&mut self, id: u64, config: &Config) -> Result<(), String> {
        let mut mine = self.claims.get(&id).cloned().unwrap_or_default();
        for claim in &mut mine {
            let there = |node: &Node| match node {
                Node::Configured(id) => config.resources.iter().any(|r| r.id == *id),
                Node::Made(_) => false,
            };
            let found = || find(claim.name, config).unwrap_or(Node::Made(claim.name));
            let root = claim.root.filter(there).unwrap_or_else(found);
            claim.root = Some(root);
            claim.granted = below(root, config);
        }
        for other in &self.running {
            for theirs in self.claims.get(other).into_iter().flatten() {
                let mut held = theirs.granted.clone();
                held.extend(theirs.root.iter().flat_map(|root| below(*root, config)));
                let meets = |claim: &&Claim| {
                    let shared = claim.mode == Mode::Shared && theirs.mode == Mode::Shared;
                    !shared && !claim.granted.is_disjoint(&held)
                };
                if let Some(claim) = mine.iter().find(meets) {
                    return Err(format!(
                        "request {id} is granted {} while {other} holds {}",
                        claim.name, theirs.name
                    ));
                }
            }
        }
        self.claims.insert(id, mine);
        self.running.insert(id);
        Ok(())
    }
}

fn claims(arrival: &Arrival, config: &Config) -> Vec<Claim> {
    let claim = |(name, mode): &(&'static str, Mode)| Claim {
        name,
        mode: *mode,
        root: find(name, config),
        granted: BTreeSet::new(),
    };
    arrival.claims.iter().map(claim).collect()
}

fn find(name: &str, config: &Config) -> Option<Node> {
    config.resources.iter().find(|r| r.name == name).map(|r| Node::Configured(r.id))
}

/// The nodes below a root, by walking down from it.
fn below(root: Node, config: &Config) -> BTreeSet<Node> {
    let (mut found, mut next) = (BTreeSet::from([root]), vec![root]);
    while let Some(Node::Configured(parent)) = next.pop() {
        for child in config.resources.iter().filter(|r| r.parents.contains(&parent)) {
            let child = Node::Configured(child.id);
            if found.insert(child) {
                next.push(child);
            }
        }
    }
    found
}
