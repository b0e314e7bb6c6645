//! Mistakes in the description of a graph.

use super::{EDGES_MAX, RESOURCES_MAX, ResourceId};
use paceline_types::limits::NAME_BYTES_MAX;
use std::fmt;

/// Resources of a cycle that a message names before it only counts.
const CYCLE_SHOWN: usize = 32;

/// Bytes of an over-long name that a message shows.
const NAME_SHOWN: usize = 64;

/// Why resources are not a valid graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// There are more than [`RESOURCES_MAX`].
    TooManyResources(usize),
    /// There are more than [`EDGES_MAX`] edges.
    TooManyEdges(usize),
    /// A resource has no name.
    NameEmpty(ResourceId),
    /// A name is longer than [`NAME_BYTES_MAX`].
    NameTooLong(Box<str>),
    /// An id is higher than [`ResourceId::MAX`].
    IdTooHigh {
        /// The resource.
        resource: Box<str>,
        /// Its id.
        id: ResourceId,
    },
    /// Two resources have the same name.
    DuplicateName(Box<str>),
    /// Two resources have the same id.
    DuplicateId {
        /// The id.
        id: ResourceId,
        /// The names of the two.
        resources: [Box<str>; 2],
    },
    /// A resource has a parent that does not exist.
    UnknownParent {
        /// The resource.
        resource: Box<str>,
        /// The parent it names.
        parent: ResourceId,
    },
    /// A resource names a parent twice.
    ParentTwice {
        /// The resource.
        resource: Box<str>,
        /// The parent.
        parent: Box<str>,
    },
    /// Each of these resources is a parent of the next, and the last one of the first.
    Cycle(Vec<Box<str>>),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyResources(count) => {
                write!(f, "{count} resources are too many, there may be {RESOURCES_MAX}")
            }
            Self::TooManyEdges(count) => {
                write!(f, "{count} parents are too many, there may be {EDGES_MAX} in all")
            }
            Self::NameEmpty(id) => write!(f, "resource number {} has no name", id.0),
            Self::NameTooLong(name) => write!(
                f,
                "resource \"{}...\": the name has {} bytes, at most {NAME_BYTES_MAX} are allowed",
                shown(name),
                name.len()
            ),
            Self::IdTooHigh { resource, id } => write!(
                f,
                "resource \"{resource}\": number {} is too high, at most {} is allowed",
                id.0,
                ResourceId::MAX.0
            ),
            Self::DuplicateName(name) => write!(f, "two resources are named \"{name}\""),
            Self::DuplicateId { id, resources: [one, two] } => {
                write!(f, "resources \"{one}\" and \"{two}\" have the same number {}", id.0)
            }
            Self::UnknownParent { resource, parent } => {
                write!(f, "resource \"{resource}\": there is no parent number {}", parent.0)
            }
            Self::ParentTwice { resource, parent } => {
                write!(f, "resource \"{resource}\" names its parent \"{parent}\" twice")
            }
            Self::Cycle(names) => write_cycle(f, names),
        }
    }
}

impl std::error::Error for GraphError {}

fn write_cycle(f: &mut fmt::Formatter<'_>, names: &[Box<str>]) -> fmt::Result {
    f.write_str("resources form a cycle: ")?;
    for name in names.iter().take(CYCLE_SHOWN) {
        write!(f, "\"{name}\" -> ")?;
    }
    if names.len() > CYCLE_SHOWN {
        write!(f, "{} more -> ", names.len() - CYCLE_SHOWN)?;
    }
    write!(f, "\"{}\"", names.first().map_or("", |name| name))
}

/// The start of a name, cut between characters.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_SHOWN)]
}
