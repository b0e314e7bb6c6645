//! Checks after a step: what clients hold exists, and no other client can get it.

use super::{Edit, What, World};
use crate::model::{Hold, Node, SessionItem};
use paceline_host::Admission;
use paceline_types::{Attributes, Claim, Mode, Request, Span};
use std::collections::BTreeSet;

impl World {
    /// Checks that everything that clients hold exists.
    pub(super) fn check_held(&self) -> Result<(), String> {
        let (daemon, now) = (self.daemon()?, self.now());
        for key in &self.live_sessions() {
            if let Err(error) = daemon.registry.session(key) {
                let name = self.model.sessions.get(key).map(|session| &session.name);
                return Err(format!("session {name:?} is lost: {error:?}"));
            }
        }
        for name in &self.live_permits() {
            let Some(permit) = self.model.permits.get(name) else { continue };
            match daemon.registry.permit(name) {
                Ok(view) if view.request.0 == permit.request => {}
                other => {
                    let found = other.map(|view| view.request);
                    return Err(format!("permit {name} ({}) is lost: {found:?}", permit.request));
                }
            }
        }
        for ((name, key), lock) in &self.model.locks {
            if !self.model.has_lock(lock, now) || lock.hold != Hold::Held {
                continue;
            }
            let session = daemon.registry.session(key).map_err(|error| format!("{error:?}"))?;
            let fencing = daemon.host.locking().fencing(session.session.id, name);
            if fencing != Some(lock.fencing) {
                return Err(format!("lock {name} ({}) is lost: {fencing:?}", lock.fencing));
            }
        }
        Ok(())
    }

    /// Checks that no other client can get what clients hold: every resource that a permit certainly holds is
    /// asked for.
    pub(super) fn check_claims(&self) -> Result<(), String> {
        let is_editing =
            self.flights.values().any(|flight| matches!(flight.what, What::Edit(Edit::Resources)));
        if is_editing {
            return Ok(());
        }
        let (daemon, graph) = (self.daemon()?, self.model.graphs.told());
        for name in &self.live_permits() {
            let kept = self.model.permits.get(name).map(|permit| permit.kept.as_slice());
            let nodes: BTreeSet<&String> =
                kept.unwrap_or_default().iter().flat_map(|(nodes, ..)| nodes).collect();
            for (resource, _) in nodes.into_iter().filter_map(|node| graph.0.get(node)) {
                let admitted = daemon.host.control().admit(exclusive(resource, Span::ZERO));
                if let Ok(Admission::Started(_)) = admitted {
                    return Err(format!("C1: {resource}, which {name} holds, can be had"));
                }
            }
        }
        Ok(())
    }

    /// What a permit holds as other clients see it: every resource without children that a request would wait
    /// for behind the permit. This is certain even if an edit was under way when the permit was granted.
    pub(super) fn blocked_by(&self, request: u64, asked: u64) -> Result<BTreeSet<Node>, String> {
        let control = self.daemon()?.host.control();
        let mut nodes = BTreeSet::new();
        let is_leaf = |node: &Node| {
            self.model.graphs.since(asked).all(|graph| graph.below(node).iter().all(|n| *n == node))
        };
        for (node, (resource, _)) in &self.model.graphs.told().0 {
            if !is_leaf(node) {
                continue;
            }
            let admitted = control.admit(exclusive(resource, Span::from_secs(1)));
            if let Ok(Admission::Waiting(waiting)) = admitted
                && let Some(why) = control.why(waiting.id())
                && why.ahead.iter().any(|ahead| ahead.0 == request)
            {
                nodes.insert(node.clone());
            }
        }
        Ok(nodes)
    }

    /// Checks that a session owns a lock only if its client received it or waits for it. No task may be
    /// runnable.
    pub(super) fn check_unasked(&mut self) -> Result<(), String> {
        if !self.is_faulty && self.now() >= self.repaired {
            self.model.left.clear();
        }
        for lock in self.daemon()?.host.locking().shown_from("", 1_000) {
            let Some((_, owner, fencing)) = &lock.owner else { continue };
            let is_owner = |(_, session): &(&String, &SessionItem)| {
                session.hold == Hold::Held && session.name == *owner
            };
            let Some((key, _)) = self.model.sessions.iter().find(is_owner) else { continue };
            let pair = (lock.name.to_string(), key.clone());
            let asks = |what: &What| match what {
                What::Lock { name, session, .. } | What::Unlock { name, session } => {
                    (name, session) == (&pair.0, &pair.1)
                }
                _ => false,
            };
            let is_asked = self.model.locks.contains_key(&pair)
                || self.model.untold.contains(&pair)
                || self.flights.values().any(|flight| asks(&flight.what));
            if !is_asked {
                return Err(format!("L5: {owner} owns lock {} ({fencing}) unasked", lock.name));
            }
        }
        Ok(())
    }
}

/// A request for a resource, exclusively.
fn exclusive(resource: &str, wait: Span) -> Request {
    let claim = Claim { resource: resource.into(), mode: Mode::Exclusive };
    Request { claims: vec![claim], wait_max: Some(wait), ..Request::new(Attributes::new()) }
}
