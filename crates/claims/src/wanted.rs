//! What one request claims, resolved against a graph outside the engine's lock.
//!
//! Owns the roots and marks of the request and the names that the graph does not know. Promises that
//! it can be resolved again from itself, by the names that were claimed, when the graph changed in
//! between. Never looks at who holds what.

use crate::graph::Graph;
use crate::mark::{Mark, NodeKey, Root, add_root};
use paceline_types::limits::{CLAIMS_MAX, NAME_BYTES_MAX};
use paceline_types::{Claim, Mode};
use std::fmt;
use std::sync::Arc;

/// What a request claims.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub(crate) graph: Arc<Graph>,
    /// In the order of their keys.
    pub(crate) roots: Vec<Root>,
    pub(crate) marks: Box<[Mark]>,
    pub(crate) unknown: Vec<Claim>,
}

/// Why claims cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// There are more than [`CLAIMS_MAX`].
    TooMany(usize),
    /// A claim names nothing.
    NameEmpty,
    /// A name is longer than [`NAME_BYTES_MAX`]; this is its length.
    NameTooLong(usize),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(count) => {
                write!(f, "{count} claims are too many, a request may have {CLAIMS_MAX}")
            }
            Self::NameEmpty => f.write_str("a claim must name a resource"),
            Self::NameTooLong(len) => write!(
                f,
                "a claim names a resource with {len} bytes, at most {NAME_BYTES_MAX} are allowed"
            ),
        }
    }
}

impl std::error::Error for ResolveError {}

impl Graph {
    /// What a request with these claims wants. The same resource twice counts once, in the stronger
    /// mode.
    ///
    /// # Errors
    ///
    /// When there are too many claims, or one cannot be a name. An unknown name is no error: see
    /// [`Wanted::unknown`].
    pub fn resolve(self: &Arc<Self>, claims: &[Claim]) -> Result<Wanted, ResolveError> {
        if claims.len() > CLAIMS_MAX {
            return Err(ResolveError::TooMany(claims.len()));
        }
        for claim in claims {
            match claim.resource.len() {
                0 => return Err(ResolveError::NameEmpty),
                len if len > NAME_BYTES_MAX => return Err(ResolveError::NameTooLong(len)),
                _ => {}
            }
        }
        Ok(Wanted::new(self, claims.iter().map(|claim| (&*claim.resource, claim.mode))))
    }
}

impl Wanted {
    /// The claims on resources that do not exist.
    #[must_use]
    pub fn unknown(&self) -> &[Claim] {
        &self.unknown
    }

    pub(crate) fn new<'a>(
        graph: &Arc<Graph>,
        claims: impl Iterator<Item = (&'a str, Mode)>,
    ) -> Self {
        Self::with_roots(graph, vec![], claims)
    }

    fn with_roots<'a>(
        graph: &Arc<Graph>,
        mut roots: Vec<Root>,
        claims: impl Iterator<Item = (&'a str, Mode)>,
    ) -> Self {
        let mut unknown = vec![];
        for (name, mode) in claims {
            match graph.find(name) {
                Some(id) => add_root(&mut roots, Root { key: NodeKey(id.0), mode }),
                None => add_unknown(&mut unknown, name, mode),
            }
        }
        let marks = graph.marks(&roots);
        Self { graph: Arc::clone(graph), roots, marks, unknown }
    }

    /// The same claims, resolved against another graph: a resource that was renamed in between is
    /// still the one that was claimed, and a name that it left behind is not.
    pub(crate) fn resolved_in(&self, graph: &Arc<Graph>) -> Self {
        let (mut roots, mut gone) = (vec![], vec![]);
        for root in &self.roots {
            match graph.name(crate::ResourceId(root.key.0)) {
                Some(_) => add_root(&mut roots, *root),
                None => gone.push(*root),
            }
        }
        let name = |root: &Root| self.graph.name(crate::ResourceId(root.key.0)).unwrap_or_default();
        let gone = gone.iter().map(|root| (name(root), root.mode));
        let unknown = self.unknown.iter().map(|claim| (&*claim.resource, claim.mode));
        Self::with_roots(graph, roots, gone.chain(unknown))
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = (&str, Mode)> {
        let name = |root: &Root| self.graph.name(crate::ResourceId(root.key.0)).unwrap_or_default();
        let known = self.roots.iter().map(move |root| (name(root), root.mode));
        known.chain(self.unknown.iter().map(|claim| (&*claim.resource, claim.mode)))
    }
}

fn add_unknown(unknown: &mut Vec<Claim>, name: &str, mode: Mode) {
    match unknown.iter_mut().find(|claim| *claim.resource == *name) {
        Some(claim) if mode == Mode::Exclusive => claim.mode = mode,
        Some(_) => {}
        None => unknown.push(Claim { resource: name.into(), mode }),
    }
}
