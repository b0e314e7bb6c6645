//! A sorted list of places, a vector while it is short and a tree when it is long.
//!
//! Promises that an empty list owns no memory, a short one a single allocation, and that a long one takes
//! logarithmic time.

use paceline_types::{Priority, Rank, RequestId, Span, Time};
use std::collections::BTreeSet;

/// A list that grows past this becomes a tree.
const FEW: usize = 32;

type Place = (u8, Rank);

/// Tags with ranks, in order.
#[derive(Debug)]
pub(super) enum Places {
    Few(Vec<Place>),
    Many(BTreeSet<Place>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Few(vec![])
    }
}

impl Places {
    /// Adds a place. Returns whether it is new.
    pub fn insert(&mut self, tag: u8, rank: Rank) -> bool {
        let place = (tag, rank);
        match self {
            Self::Many(tree) => tree.insert(place),
            Self::Few(list) => {
                let Err(index) = list.binary_search(&place) else { return false };
                list.insert(index, place);
                if list.len() > FEW {
                    *self = Self::Many(list.drain(..).collect());
                }
                true
            }
        }
    }

    /// Removes a place. Returns whether it was there.
    pub fn remove(&mut self, tag: u8, rank: Rank) -> bool {
        let place = (tag, rank);
        match self {
            Self::Many(tree) => tree.remove(&place),
            Self::Few(list) => {
                let found = list.binary_search(&place);
                found.map(|index| list.remove(index)).is_ok()
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::Few(list) => list.is_empty(),
            Self::Many(tree) => tree.is_empty(),
        }
    }

    /// The lowest rank with this tag.
    pub fn first(&self, tag: u8) -> Option<Rank> {
        match self {
            Self::Few(list) => {
                list.iter().find(|place| place.0 >= tag).filter(|place| place.0 == tag)
            }
            Self::Many(tree) => tree.range((tag, least())..).next().filter(|place| place.0 == tag),
        }
        .map(|place| place.1)
    }

    /// The ranks with this tag, starting at `from`.
    pub fn ranks(&self, tag: u8, from: Option<Rank>) -> impl DoubleEndedIterator<Item = Rank> {
        self.range((tag, from.unwrap_or_else(least)), (tag + 1, least()))
    }

    /// The ranks with this tag that are lower than `rank`.
    pub fn before(&self, tag: u8, rank: Rank) -> impl DoubleEndedIterator<Item = Rank> {
        self.range((tag, least()), (tag, rank))
    }

    fn range(&self, start: Place, end: Place) -> impl DoubleEndedIterator<Item = Rank> {
        let (list, tree) = match self {
            Self::Few(list) => {
                let first = list.partition_point(|place| *place < start);
                let last = list.partition_point(|place| *place < end);
                (&list[first..last.max(first)], None)
            }
            Self::Many(tree) => (&[][..], Some(tree.range(start..end.max(start)))),
        };
        list.iter().chain(tree.into_iter().flatten()).map(|place| place.1)
    }
}

/// The lowest rank.
fn least() -> Rank {
    Rank::new(Time(0), Priority::MAX, Span(u64::MAX), RequestId(0))
}

#[cfg(test)]
mod tests {
    use super::{FEW, Places};
    use paceline_types::{Priority, Rank, RequestId, Span, Time};
    use std::collections::BTreeSet;

    #[test]
    fn equals_a_sorted_set() {
        let mut state = 3u64;
        let mut next = |max: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % max
        };
        let (mut places, mut model) = (Places::default(), BTreeSet::new());
        let mut largest = 0;
        for step in 0..20_000 {
            let tag = next(3) as u8;
            let rank = |at| Rank::new(Time(at), Priority::START, Span(0), RequestId(at % 3));
            let place = rank(next(40));
            if next(10) < if (step / 500) % 2 == 0 { 7 } else { 2 } {
                assert_eq!(places.insert(tag, place), model.insert((tag, place)));
            } else {
                assert_eq!(places.remove(tag, place), model.remove(&(tag, place)));
            }
            largest = largest.max(model.len());
            let of = |tag| model.iter().filter(move |(t, _)| *t == tag).map(|(_, rank)| *rank);
            let probe = rank(next(40));
            assert!(places.ranks(tag, None).eq(of(tag)));
            assert!(places.ranks(tag, Some(probe)).eq(of(tag).filter(|rank| *rank >= probe)));
            assert!(places.before(tag, probe).eq(of(tag).filter(|rank| *rank < probe)));
            assert_eq!(places.first(tag), of(tag).next());
            assert_eq!(places.is_empty(), model.is_empty());
        }
        assert!(largest > FEW, "both shapes were tried");
    }
}
