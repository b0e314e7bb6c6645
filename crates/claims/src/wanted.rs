//! What one request claims, resolved against a graph outside the engine's lock.
//!
//! Owns the roots and marks of the request and the names that the graph does not know; and [`Resting`], the
//! little that is kept of it while the request sleeps elsewhere. Promises that both can be resolved again when
//! the graph changed in between, and that finding the marks takes a bounded amount of work. Never looks at
//! which request holds what.

use crate::claims::walk_cost;
use crate::graph::{EDGES_WALKED_MAX, Graph, ResourceId};
use crate::mark::{Mark, NodeKey, Root, add_root};
use paceline_types::limits::{CLAIMS_MAX, NAME_BYTES_MAX};
use paceline_types::{Claim, Mode};
use std::fmt;
use std::sync::Arc;

/// What a request claims.
#[derive(Clone, Debug)]
pub struct WantedClaims {
    pub(crate) graph: Arc<Graph>,
    /// In the order of their keys.
    pub(crate) roots: Vec<Root>,
    pub(crate) marks: Box<[Mark]>,
    /// Each with its number, in that order.
    pub(crate) unknown: Vec<(u16, Claim)>,
    /// Edges that were walked to find the marks.
    walked: usize,
    /// A root that has too many marks; then `marks` is empty.
    pub(crate) too_wide: Option<NodeKey>,
}

/// Why claims cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// There are more than [`CLAIMS_MAX`].
    TooMany(usize),
    /// A claim has an empty name.
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
    /// What a request with these claims wants. A resource that is claimed twice counts once, in the stronger
    /// mode.
    ///
    /// # Errors
    ///
    /// When there are too many claims, or one has an invalid name. An unknown name is no error: see
    /// [`WantedClaims::unknown`].
    pub fn resolve(self: &Arc<Self>, claims: &[Claim]) -> Result<WantedClaims, ResolveError> {
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
        Ok(self.resolve_held(claims))
    }

    /// The same for claims of a request that was granted: edits may have given it more than a request may ask
    /// for.
    #[must_use]
    pub fn resolve_held(self: &Arc<Self>, claims: &[Claim]) -> WantedClaims {
        WantedClaims::new(self, claims.iter().map(|claim| (&*claim.resource, claim.mode)))
    }
}

impl WantedClaims {
    /// The claims on resources that do not exist, in the order of the request's claims.
    pub fn unknown(&self) -> impl ExactSizeIterator<Item = &Claim> {
        self.unknown.iter().map(|(_, claim)| claim)
    }

    /// A claimed resource, if a claim on it has more than [`MARKS_MAX`](crate::MARKS_MAX) marks: such
    /// a request must be refused.
    #[must_use]
    pub fn too_wide(&self) -> Option<&str> {
        self.too_wide.map(|key| self.name(key))
    }

    /// The work of resolving it, in requests with few marks.
    #[must_use]
    pub fn cost(&self) -> usize {
        walk_cost(self.walked)
    }

    /// What is kept of it while the request sleeps: neither marks nor the graph.
    #[must_use]
    pub fn rest(self) -> Resting {
        let known = self.roots.iter().map(Rested::of);
        let unknown = self.unknown.iter();
        let unknown =
            unknown.map(|(number, claim)| Rested { id: None, mode: claim.mode, claim: *number });
        let mut all: Vec<_> = known.chain(unknown).collect();
        all.sort_unstable_by_key(|rested| rested.claim);
        Resting(all.into_boxed_slice())
    }

    pub(crate) fn new<'a>(
        graph: &Arc<Graph>,
        claims: impl Iterator<Item = (&'a str, Mode)>,
    ) -> Self {
        let listed = |((name, mode), claim)| Listed { id: None, name, mode, claim };
        Self::from_list(graph, claims.zip(numbers()).map(listed))
    }

    /// The claims of a request that slept, in the present graph.
    pub(crate) fn awake(graph: &Arc<Graph>, resting: &Resting, claims: &[Claim]) -> Self {
        let name =
            |number: u16| claims.get(usize::from(number)).map_or("", |claim| &claim.resource);
        let listed = |rested: &Rested| Listed {
            id: rested.id,
            name: name(rested.claim),
            mode: rested.mode,
            claim: rested.claim,
        };
        Self::from_list(graph, resting.0.iter().map(listed))
    }

    /// The same claims in another graph.
    pub(crate) fn resolved_in(&self, graph: &Arc<Graph>) -> Self {
        Self::from_list(graph, self.list().into_iter())
    }

    /// All claims by name, in their order.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let claim = |listed: Listed<'_>| Claim { resource: listed.name.into(), mode: listed.mode };
        self.list().into_iter().map(claim).collect()
    }

    /// A renamed resource is still the one that was claimed, and its old name is not. A deleted resource is
    /// searched by its name. The list is in the order of the claims.
    fn from_list<'a>(graph: &Arc<Graph>, list: impl Iterator<Item = Listed<'a>>) -> Self {
        let (mut roots, mut unknown) = (vec![], Vec::<(u16, Claim)>::new());
        for Listed { id, name, mode, claim } in list {
            let known = id.filter(|id| graph.name(*id).is_some());
            match known.or_else(|| graph.find(name)) {
                Some(id) => add_root(&mut roots, Root { key: NodeKey(id.0), mode, claim }),
                None => unknown.push((claim, Claim { resource: name.into(), mode })),
            }
        }
        let unknown = once_each(unknown);
        let (marks, walked, too_wide) = match graph.marks_within(&roots) {
            Ok((marks, walked)) => (marks, walked, None),
            Err(key) => (Box::default(), EDGES_WALKED_MAX, Some(key)),
        };
        Self { graph: Arc::clone(graph), roots, marks, unknown, walked, too_wide }
    }

    fn list(&self) -> Vec<Listed<'_>> {
        let known = self.roots.iter().map(|root| Listed {
            id: Some(ResourceId(root.key.0)),
            name: self.name(root.key),
            mode: root.mode,
            claim: root.claim,
        });
        let unknown = self.unknown.iter().map(|(number, claim)| Listed {
            id: None,
            name: &claim.resource,
            mode: claim.mode,
            claim: *number,
        });
        let mut all: Vec<_> = known.chain(unknown).collect();
        all.sort_unstable_by_key(|listed| listed.claim);
        all
    }

    pub(crate) fn name(&self, key: NodeKey) -> &str {
        self.graph.name(ResourceId(key.0)).unwrap_or_default()
    }
}

/// What a request claims, while it sleeps: a resource that is renamed meanwhile is still the one that was
/// claimed.
#[derive(Clone, Debug)]
pub struct Resting(Box<[Rested]>);

impl Resting {
    /// What is kept of these. A root that was made for a request is found again by its name.
    pub(crate) fn of(roots: &[Root]) -> Self {
        let mut all: Vec<_> = roots.iter().map(Rested::of).collect();
        all.sort_unstable_by_key(|rested| rested.claim);
        Self(all.into_boxed_slice())
    }
}

/// One claim of a request that sleeps.
#[derive(Clone, Copy, Debug)]
struct Rested {
    id: Option<ResourceId>,
    mode: Mode,
    /// The number of the claim.
    claim: u16,
}

impl Rested {
    const fn of(root: &Root) -> Self {
        Self { id: Some(ResourceId(root.key.0)), mode: root.mode, claim: root.claim }
    }
}

/// One claim, while it is moved from one graph to another.
struct Listed<'a> {
    id: Option<ResourceId>,
    name: &'a str,
    mode: Mode,
    claim: u16,
}

/// Numbers of claims. Only a holder of more than it could ask for has claims that share the last number.
pub(crate) fn numbers() -> impl Iterator<Item = u16> {
    (0..u16::MAX).chain(std::iter::repeat(u16::MAX))
}

/// Each name once, with the first of its numbers and the stronger of its modes, in the order of the numbers.
fn once_each(mut unknown: Vec<(u16, Claim)>) -> Vec<(u16, Claim)> {
    if unknown.len() > 1 {
        unknown.sort_by(|(_, one), (_, other)| one.resource.cmp(&other.resource));
        unknown.dedup_by(|(_, later), (_, first)| {
            let is_same = later.resource == first.resource;
            if is_same && later.mode == Mode::Exclusive {
                first.mode = Mode::Exclusive;
            }
            is_same
        });
        unknown.sort_by_key(|(number, _)| *number);
    }
    unknown
}
