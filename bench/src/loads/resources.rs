//! Disks, the zpools on them, and the datasets in those: as a tree, or as the graph that they really are.

use super::engine::Chance;
use paceline_claims::{Resource, ResourceId};
use paceline_types::{Attributes, Claim, Mode, Request};

/// How resources are connected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Every resource has one parent at most.
    Tree,
    /// A zpool lies on two to four disks; one dataset of ten belongs to two zpools.
    Graph,
}

/// Resources and the names of each kind.
pub struct Resources {
    /// All of them.
    pub all: Vec<Resource>,
    disks: usize,
    zpools: usize,
}

impl Resources {
    /// `count` resources: of a hundred, one is a disk, five are zpools, and the others are datasets.
    pub fn new(count: usize, shape: Shape, chance: &mut Chance) -> Self {
        let (disks, zpools) = ((count / 100).max(1), (count / 20).max(2));
        let mut resources = Self { all: vec![], disks, zpools };
        for at in 0..count {
            let (name, parents) = resources.next(at, shape, chance);
            let (id, name) = (ResourceId(at as u64), name.into());
            resources.all.push(Resource { id, name, parents });
        }
        resources
    }

    fn next(&self, at: usize, shape: Shape, chance: &mut Chance) -> (String, Vec<ResourceId>) {
        let mut some = |count: usize, from: usize, of: usize| {
            let mut ids: Vec<_> =
                (0..count).map(|_| ResourceId((from + chance.below(of)) as u64)).collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let is_graph = shape == Shape::Graph;
        if at < self.disks {
            return (format!("disk:/dev/da{at}"), vec![]);
        }
        if at < self.disks + self.zpools {
            let parents = if is_graph { 2 + at % 3 } else { 1 };
            return (format!("zpool:tank{at}"), some(parents, 0, self.disks));
        }
        // Every third dataset is below another dataset.
        let first = self.disks + self.zpools;
        if at.is_multiple_of(3) && at > first {
            return (format!("dataset:{at}"), some(1, first, at - first));
        }
        let parents = if is_graph && at % 10 == 1 { 2 } else { 1 };
        (format!("dataset:{at}"), some(parents, self.disks, self.zpools))
    }

    /// A request with random claims: nearly always datasets, else a zpool, rarely a disk. One claim of five is
    /// shared, and one request of ten has two claims.
    pub fn request(&self, chance: &mut Chance) -> Request {
        let mut request = Request::new(Attributes::new());
        for _ in 0..if chance.percent(10) { 2 } else { 1 } {
            let first = self.disks + self.zpools;
            let at = match chance.below(100) {
                0 => chance.below(self.disks),
                1..=5 => self.disks + chance.below(self.zpools),
                _ => first + chance.below(self.all.len() - first),
            };
            let mode = if chance.percent(20) { Mode::Shared } else { Mode::Exclusive };
            let resource = self.all[at].name.clone();
            if request.claims.iter().all(|claim: &Claim| claim.resource != resource) {
                request.claims.push(Claim { resource, mode });
            }
        }
        request
    }
}

/// One resource with all others directly below it.
pub fn star(count: usize) -> Vec<Resource> {
    let one = |at: usize| {
        let parents = if at == 0 { vec![] } else { vec![ResourceId(0)] };
        Resource { id: ResourceId(at as u64), name: leaf(at).into(), parents }
    };
    (0..=count).map(one).collect()
}

/// The name of a resource of a star; 0 is the centre.
pub fn leaf(at: usize) -> String {
    format!("dataset:{at}")
}
