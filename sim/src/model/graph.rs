//! The graph: which nodes are below a resource, and which claims conflict.
//!
//! A set of nodes is a number with one bit per node. Configured resources have numbers below 100; those that
//! requests create (`tmp0` and so on) have higher ones.

use super::{Claimed, Model};
use crate::words::MADE;
use paceline_types::Mode;

/// Resources that requests may create have numbers from here on.
const MADE_FROM: u32 = 100;

impl Model {
    /// The resource and everything below it, found by walking up from each node.
    pub(super) fn subtree(&self, root: u32) -> u128 {
        let mut found = 1u128 << root;
        loop {
            let before = found;
            for resource in &self.config.resources {
                if resource.parents.iter().any(|parent| found & (1 << parent) != 0) {
                    found |= 1 << resource.id;
                }
            }
            if found == before {
                return found;
            }
        }
    }

    /// The configured resource of this name.
    pub(super) fn find_resource(&self, name: &str) -> Option<u32> {
        let mut all = self.config.resources.iter();
        all.find(|resource| resource.name == name).map(|resource| resource.id)
    }

    /// Whether the configured resource still exists.
    pub(super) fn exists(&self, id: u32) -> bool {
        self.config.resources.iter().any(|resource| resource.id == id)
    }

    /// The number of a resource that requests create; every request that creates it gets the same.
    pub(super) fn made(name: &str) -> Option<u32> {
        MADE.iter().position(|made| *made == name).map(|at| MADE_FROM + at as u32)
    }

    /// Whether a resource is one that requests create.
    pub(super) const fn is_made(id: u32) -> bool {
        id >= MADE_FROM
    }

    /// What a claim covers: its present sub-tree and, for a holder, also what it was granted, with everything
    /// below that now.
    pub(super) fn covers(&self, claim: &Claimed) -> u128 {
        let nodes = if claim.granted == 0 { 0..0 } else { 0..MADE_FROM };
        let kept = nodes.filter(|node| claim.granted & (1 << node) != 0);
        let below = kept.fold(0, |all, node| all | self.subtree(node));
        claim.granted | below | claim.bound.map_or(0, |root| self.subtree(root))
    }

    /// Whether any claim of one meets any claim of the other, unless both are shared.
    pub(super) fn conflict(&self, one: u64, other: u64) -> bool {
        let (one, other) = (&self.requests[&one].claims, &self.requests[&other].claims);
        one.iter().any(|a| {
            other.iter().any(|b| {
                let both_shared = a.mode == Mode::Shared && b.mode == Mode::Shared;
                !both_shared && self.covers(a) & self.covers(b) != 0
            })
        })
    }
}
