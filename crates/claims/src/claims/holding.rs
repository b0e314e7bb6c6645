//! What a request holds, independently of the graph: resources by their ids, and names that no resource has.
//!
//! Promises that a holding that is kept elsewhere and updated by [`follow`] at every edit equals what the
//! request holds here.

use super::edit::kept_in;
use super::made::Made;
use super::{Claims, Stage};
use crate::graph::{Graph, ResourceId};
use crate::mark::{NodeKey, Root, sort_roots};
use paceline_types::{Mode, RequestId};
use std::sync::Arc;

/// The top of a sub-tree that is claimed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claimed {
    /// A resource of the graph.
    Resource(ResourceId),
    /// A name that no resource has: made by a request, or left by a deleted resource that is held.
    Name(Box<str>),
}

/// All that one request holds, each sub-tree once, in order.
pub type Holding = Vec<(Claimed, Mode)>;

impl Claims {
    /// What a request holds in the graph in use; `None` if it holds nothing.
    #[must_use]
    pub fn holding(&self, id: RequestId) -> Option<Holding> {
        let request = self.requests.get(&id).filter(|one| matches!(one.stage, Stage::Held))?;
        let mut holding = read(&request.roots, &self.made);
        for edit in self.edits.iter().filter(|edit| edit.sequence > request.sequence) {
            holding = follow((&edit.old, &edit.new), &holding);
        }
        Some(holding)
    }
}

/// What a holder of `holding` in the old graph holds in the new one: all that it held, and what its sub-trees
/// gained.
#[must_use]
pub fn follow((old, new): (&Arc<Graph>, &Arc<Graph>), holding: &[(Claimed, Mode)]) -> Holding {
    let mut made = Made::default();
    let root = |(claimed, mode): &(Claimed, Mode)| {
        let key = match claimed {
            Claimed::Resource(id) => NodeKey(id.0),
            Claimed::Name(name) => made.make(name),
        };
        Root { key, mode: *mode, claim: 0 }
    };
    let mut roots: Vec<Root> = holding.iter().map(root).collect();
    sort_roots(&mut roots);
    let changes = new.changes().is_from(old).then(|| new.changes());
    let (roots, _) = kept_in((old, new), changes, &roots, &mut made);
    read(&roots, &made)
}

fn read(roots: &[Root], made: &Made) -> Holding {
    let claimed = |root: &Root| match made.name(root.key) {
        Some(name) => Claimed::Name(name.into()),
        None => Claimed::Resource(ResourceId(root.key.0)),
    };
    let mut holding: Holding = roots.iter().map(|root| (claimed(root), root.mode)).collect();
    holding.sort_unstable();
    holding
}
