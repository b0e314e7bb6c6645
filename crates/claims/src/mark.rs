//! Marks: what a request leaves at the nodes of the graph, so that two requests whose sub-trees meet find each
//! other without walking either sub-tree.
//!
//! A claim on R leaves an intention at every ancestor of R, a full mark at R, and a full mark at each
//! side door: a node inside the sub-tree that also has a parent outside it. Two requests conflict
//! exactly when they have clashing marks at one node:
//!
//! - A full mark lies inside the sub-tree, and every mark lies at or above a node of the sub-tree. So
//!   a full mark of one and any mark of the other at the same node have a node in common below them.
//! - If the sub-trees meet, either one root lies in the other's sub-tree, and then the intention of the
//!   inner stands at the root of the outer. Or take a common node with no common node above it: it has
//!   a parent in each sub-tree that is not in the other, so it is a side door of both.
//!
//! Nodes that have the same parents, and are not roots, are in a sub-tree together or not at all: as side doors
//! only the lowest of them is marked.
//!
//! The same holds for the union of several sub-trees, so a request with many roots needs side doors
//! only where its union has them. The modes are those of hierarchical locking; a request that has both
//! a shared mark and an exclusive intention at a node (elsewhere called SIX) keeps them as two marks.

use paceline_types::Mode;

/// Identifies a node for as long as it is referred to: a resource of the graph, or a name without a resource
/// that is claimed all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey(pub(crate) u64);

impl NodeKey {
    /// Keys from here on belong to nodes that are in no graph.
    pub(crate) const MADE: u64 = 1 << 63;

    pub(crate) const fn is_made(self) -> bool {
        self.0 >= Self::MADE
    }
}

/// The meaning of a mark at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum MarkMode {
    /// A shared claim is below.
    SharedBelow,
    /// An exclusive claim is below.
    ExclusiveBelow,
    /// The node and all below it are claimed shared.
    Shared,
    /// The node and all below it are claimed exclusively.
    Exclusive,
}

impl MarkMode {
    pub const ALL: [Self; 4] =
        [Self::SharedBelow, Self::ExclusiveBelow, Self::Shared, Self::Exclusive];

    pub const fn full(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self::Exclusive,
            Mode::Shared => Self::Shared,
        }
    }

    pub const fn below(mode: Mode) -> Self {
        match mode {
            Mode::Exclusive => Self::ExclusiveBelow,
            Mode::Shared => Self::SharedBelow,
        }
    }

    /// The modes that another request may not have at the same node.
    pub const fn clashing(self) -> &'static [Self] {
        match self {
            Self::SharedBelow => &[Self::Exclusive],
            Self::ExclusiveBelow => &[Self::Shared, Self::Exclusive],
            Self::Shared => &[Self::ExclusiveBelow, Self::Exclusive],
            Self::Exclusive => &Self::ALL,
        }
    }

    /// Whether a mark of this mode clashes with all that `other` clashes with.
    const fn covers(self, other: Self) -> bool {
        match self {
            Self::Exclusive => true,
            Self::SharedBelow => matches!(other, Self::SharedBelow),
            _ => matches!(other, Self::SharedBelow) || self as u8 == other as u8,
        }
    }
}

/// One mark of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub key: NodeKey,
    pub mode: MarkMode,
    /// The number of the request's root that it belongs to; the last number is shared by all further roots.
    pub root: u16,
}

/// A node whose whole sub-tree a request claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub key: NodeKey,
    pub mode: Mode,
    /// The number of the claim that it belongs to, the first if there are several.
    pub claim: u16,
}

impl Root {
    /// Merges another root at the same node.
    fn join(&mut self, other: Self) {
        // Exclusive is the lesser of the two.
        self.mode = self.mode.min(other.mode);
        self.claim = self.claim.min(other.claim);
    }
}

/// Adds a root, or strengthens the existing one. `roots` stays in the order of the keys.
pub(crate) fn add_root(roots: &mut Vec<Root>, root: Root) {
    match roots.binary_search_by_key(&root.key, |other| other.key) {
        Ok(index) => roots[index].join(root),
        Err(index) => roots.insert(index, root),
    }
}

/// Sorts roots by key, and keeps the strongest of each.
pub(crate) fn sort_roots(roots: &mut Vec<Root>) {
    roots.sort_unstable_by_key(|root| (root.key, root.mode));
    roots.dedup_by(|next, kept| {
        let is_same = next.key == kept.key;
        if is_same {
            kept.join(*next);
        }
        is_same
    });
}

/// Sorts marks by node and mode, and drops marks that a stronger one at the same node covers.
pub(crate) fn combine(marks: &mut Vec<Mark>) {
    marks.sort_unstable_by_key(|mark| (mark.key, std::cmp::Reverse(mark.mode), mark.root));
    let mut kept = 0;
    let mut first = 0;
    for index in 0..marks.len() {
        let mark = marks[index];
        if kept == first || marks[first].key != mark.key {
            first = kept;
        }
        if marks[first..kept].iter().all(|stronger| !stronger.mode.covers(mark.mode)) {
            marks[kept] = mark;
            kept += 1;
        }
    }
    marks.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::{Mark, MarkMode, NodeKey, combine};

    #[test]
    fn clashing_is_mutual() {
        for a in MarkMode::ALL {
            for b in MarkMode::ALL {
                assert_eq!(a.clashing().contains(&b), b.clashing().contains(&a), "{a:?} {b:?}");
            }
        }
    }

    /// Dropping a covered mark loses no clash.
    #[test]
    fn combined_marks_clash_with_the_same() {
        for bits in 0..1u8 << 4 {
            let some: Vec<_> =
                MarkMode::ALL.into_iter().filter(|mode| bits >> (*mode as u8) & 1 == 1).collect();
            let mark = |key, mode: &MarkMode| Mark { key: NodeKey(key), mode: *mode, root: 0 };
            let mut marks: Vec<_> = some.iter().map(|mode| mark(1, mode)).collect();
            marks.extend(some.iter().map(|mode| mark(0, mode)));
            combine(&mut marks);
            for other in MarkMode::ALL {
                let before = some.iter().any(|mode| mode.clashing().contains(&other));
                for key in [0, 1] {
                    let after =
                        marks.iter().any(|m| m.key.0 == key && m.mode.clashing().contains(&other));
                    assert_eq!(before, after, "{some:?} {other:?}");
                }
            }
            assert!(marks.len() <= 4, "at most two marks a node: {marks:?}");
        }
    }
}
