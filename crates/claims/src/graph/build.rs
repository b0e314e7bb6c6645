//! Building a graph from a list of resources, with everything checked.
//!
//! Promises one clear error for the first mistake, and work that grows with the number of resources and edges
//! (times its logarithm, for sorting), whatever their shape.

use super::list::{Bits, Lists};
use super::{Changes, EDGES_MAX, Graph, GraphError, Names, RESOURCES_MAX, Resource, ResourceId};
use paceline_types::limits::NAME_BYTES_MAX;
use std::sync::Arc;

impl Graph {
    /// The graph of these resources. `previous` is the graph that it will replace: the differences are found
    /// here, so that the swap is quick.
    ///
    /// # Errors
    ///
    /// When the resources are not a valid graph: see [`GraphError`].
    pub fn build(
        previous: Option<&Arc<Self>>,
        mut resources: Vec<Resource>,
    ) -> Result<Self, GraphError> {
        let edges = resources.iter().map(|resource| resource.parents.len()).sum();
        check_numbers(resources.len(), edges)?;
        resources.sort_by_key(|resource| resource.id);
        check_each(&resources)?;
        let ids: Vec<_> = resources.iter().map(|resource| resource.id).collect();
        let by_name = sort_names(&resources)?;
        let parents = link(&resources, &ids)?;
        let children = parents.reversed();
        let order = sort_edges(&parents, &children).map_err(|cycle| {
            let name = |node: u32| resources[node as usize].name.clone();
            GraphError::Cycle(cycle.into_iter().map(name).collect())
        })?;
        let meets = find_meets(&parents);
        let doors = find_doors(&children, &meets, &order);
        let mut names = Names::default();
        resources.iter().for_each(|resource| names.push(&resource.name));
        let changes = Changes::default();
        let mut graph = Self { ids, names, by_name, parents, children, meets, doors, changes };
        if let Some(previous) = previous {
            graph.changes = Changes::between(previous, &graph);
        }
        Ok(graph)
    }
}

const fn check_numbers(resources: usize, edges: usize) -> Result<(), GraphError> {
    if resources > RESOURCES_MAX {
        return Err(GraphError::TooManyResources(resources));
    }
    if edges > EDGES_MAX {
        return Err(GraphError::TooManyEdges(edges));
    }
    Ok(())
}

/// Checks each name and id separately; `resources` are in the order of their ids.
fn check_each(resources: &[Resource]) -> Result<(), GraphError> {
    for resource in resources {
        if resource.name.is_empty() {
            return Err(GraphError::NameEmpty(resource.id));
        }
        if resource.name.len() > NAME_BYTES_MAX {
            return Err(GraphError::NameTooLong(resource.name.clone()));
        }
        if resource.id > ResourceId::MAX {
            return Err(GraphError::IdTooHigh { resource: resource.name.clone(), id: resource.id });
        }
    }
    match resources.windows(2).find(|pair| pair[0].id == pair[1].id) {
        Some([one, two]) => Err(GraphError::DuplicateId {
            id: one.id,
            resources: [one.name.clone(), two.name.clone()],
        }),
        _ => Ok(()),
    }
}

fn sort_names(resources: &[Resource]) -> Result<Vec<u32>, GraphError> {
    let name = |node: u32| &resources[node as usize].name;
    let mut by_name: Vec<u32> = (0..resources.len() as u32).collect();
    by_name.sort_by(|one, two| name(*one).cmp(name(*two)));
    match by_name.windows(2).find(|pair| name(pair[0]) == name(pair[1])) {
        Some(pair) => Err(GraphError::DuplicateName(name(pair[0]).clone())),
        None => Ok(by_name),
    }
}

fn link(resources: &[Resource], ids: &[ResourceId]) -> Result<Lists, GraphError> {
    let mut parents = Lists::default();
    let mut list = vec![];
    for resource in resources {
        list.clear();
        for parent in &resource.parents {
            match ids.binary_search(parent) {
                Ok(node) => list.push(node as u32),
                Err(_) => {
                    let resource = resource.name.clone();
                    return Err(GraphError::UnknownParent { resource, parent: *parent });
                }
            }
        }
        list.sort_unstable();
        if let Some(pair) = list.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(GraphError::ParentTwice {
                resource: resource.name.clone(),
                parent: resources[pair[0] as usize].name.clone(),
            });
        }
        parents.push(list.iter().copied());
    }
    Ok(parents)
}

/// All nodes, parents before children; or the nodes of a cycle, each a parent of the next.
fn sort_edges(parents: &Lists, children: &Lists) -> Result<Vec<u32>, Vec<u32>> {
    let nodes = parents.len() as u32;
    let mut missing: Vec<u32> = (0..nodes).map(|node| parents.of(node).len() as u32).collect();
    let mut order: Vec<u32> = (0..nodes).filter(|node| missing[*node as usize] == 0).collect();
    let mut next = 0;
    while let Some(node) = order.get(next).copied() {
        next += 1;
        for child in children.of(node) {
            let missing = &mut missing[*child as usize];
            *missing -= 1;
            if *missing == 0 {
                order.push(*child);
            }
        }
    }
    match (0..nodes).find(|node| missing[*node as usize] > 0) {
        None => Ok(order),
        Some(start) => Err(find_cycle(parents, &missing, start)),
    }
}

/// Walks up from `start`, which is in a cycle or below one, until a node repeats. Every node that still misses
/// a parent has a parent that misses one too.
fn find_cycle(parents: &Lists, missing: &[u32], start: u32) -> Vec<u32> {
    let mut seen = Bits::new(missing.len());
    let mut path = vec![];
    let mut node = start;
    while seen.add(node) {
        path.push(node);
        let up = parents.of(node).iter().find(|parent| missing[**parent as usize] > 0);
        node = *up.unwrap_or(&node);
    }
    let first = path.iter().position(|other| *other == node).unwrap_or(0);
    path.drain(..first);
    path.reverse();
    path
}

/// The nodes with several parents; of those with the same parents only the lowest.
fn find_meets(parents: &Lists) -> Bits {
    let mut nodes: Vec<u32> =
        (0..parents.len() as u32).filter(|node| parents.of(*node).len() > 1).collect();
    nodes.sort_unstable_by_key(|node| (parents.of(*node), *node));
    nodes.dedup_by_key(|node| parents.of(*node));
    let mut meets = Bits::new(parents.len());
    nodes.into_iter().for_each(|node| {
        meets.add(node);
    });
    meets
}

/// The children of each node where sub-trees meet, or below which they do.
fn find_doors(children: &Lists, meets: &Bits, order: &[u32]) -> Lists {
    let mut leads = Bits::new(children.len());
    for node in order.iter().rev() {
        let below = || children.of(*node).iter().any(|child| leads.has(*child));
        if meets.has(*node) || below() {
            leads.add(*node);
        }
    }
    children.filtered(&leads)
}

#[cfg(test)]
mod tests {
    use super::{EDGES_MAX, GraphError, RESOURCES_MAX, check_numbers};

    #[test]
    fn numbers_have_limits() {
        assert_eq!(check_numbers(RESOURCES_MAX, EDGES_MAX), Ok(()));
        let many = RESOURCES_MAX + 1;
        assert_eq!(check_numbers(many, 0), Err(GraphError::TooManyResources(many)));
        let many = EDGES_MAX + 1;
        assert_eq!(check_numbers(1, many), Err(GraphError::TooManyEdges(many)));
    }
}
