//! The line of every queue: waiters in the order of rank, with the cost of all waiters ahead of one.
//!
//! Owns a sorted list in chunks. Promises that joining, leaving, and computing how many waiters are ahead of one, and
//! their cost, touch one chunk and a short list of sums, so that a line of 100,000 costs about as much as one of ten.
//! Never re-sorts: a rank does not change.

use crate::{Rank, RequestId};
use std::collections::VecDeque;

/// A chunk that grows beyond this is split in two.
const CHUNK_MAX: usize = 128;

/// A chunk that shrinks below this is merged with a neighbour if that is short too.
const CHUNK_MIN: usize = 16;

/// What one waiter, or several together, will use up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// Units of the counter that the waiter waits for.
    pub cost: u64,
    /// Units of the fair share: cost by weight. If shares do not matter, the same as the cost.
    pub share: u64,
}

impl std::ops::AddAssign for Toll {
    fn add_assign(&mut self, other: Self) {
        self.cost += other.cost;
        self.share += other.share;
    }
}

impl std::ops::SubAssign for Toll {
    fn sub_assign(&mut self, other: Self) {
        self.cost -= other.cost;
        self.share -= other.share;
    }
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// Rank and toll, in order; never empty.
    places: Vec<(Rank, Toll)>,
    toll: Toll,
}

/// Waiters in rank order, each with a toll.
#[derive(Clone, Debug, Default)]
pub struct Line {
    chunks: VecDeque<Chunk>,
    len: usize,
    toll: Toll,
}

impl Line {
    /// An empty line.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: VecDeque::new(), len: 0, toll: Toll { cost: 0, share: 0 } }
    }

    /// Adds a waiter. Each rank is in the line at most once.
    pub fn join(&mut self, rank: Rank, toll: Toll) {
        self.len += 1;
        self.toll += toll;
        let index = self.chunk_of(rank);
        let Some(chunk) = self.chunks.get_mut(index) else {
            self.chunks.push_back(Chunk { places: vec![(rank, toll)], toll });
            return;
        };
        let place = chunk.places.partition_point(|(other, _)| *other < rank);
        debug_assert!(chunk.places.get(place).is_none_or(|(other, _)| *other != rank));
        chunk.places.insert(place, (rank, toll));
        chunk.toll += toll;
        if chunk.places.len() > CHUNK_MAX {
            let places = chunk.places.split_off(CHUNK_MAX / 2);
            let toll = sum(&places);
            chunk.toll -= toll;
            self.chunks.insert(index + 1, Chunk { places, toll });
        }
    }

    /// Removes the waiter `rank`; returns its toll, or `None` if it was not here.
    pub fn leave(&mut self, rank: Rank) -> Option<Toll> {
        let index = self.chunk_of(rank);
        let chunk = self.chunks.get_mut(index)?;
        let place = chunk.places.binary_search_by(|(other, _)| other.cmp(&rank)).ok()?;
        let (_, toll) = chunk.places.remove(place);
        chunk.toll -= toll;
        if chunk.places.len() < CHUNK_MIN {
            self.merge(index);
        }
        self.len -= 1;
        self.toll -= toll;
        Some(toll)
    }

    /// The first waiter, and its toll.
    #[must_use]
    pub fn first(&self) -> Option<(Rank, Toll)> {
        self.chunks.front().and_then(|chunk| chunk.places.first()).copied()
    }

    /// The last waiter, and its toll.
    #[must_use]
    pub fn last(&self) -> Option<(Rank, Toll)> {
        self.chunks.back().and_then(|chunk| chunk.places.last()).copied()
    }

    /// How many requests wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no request waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The toll of all waiters.
    #[must_use]
    pub const fn toll(&self) -> Toll {
        self.toll
    }

    /// How many waiters are ahead of `rank`, and their toll; `rank` itself need not be here.
    #[must_use]
    pub fn before(&self, rank: Rank) -> (usize, Toll) {
        let index = self.chunk_of(rank);
        let (mut count, mut toll) = (0, Toll::default());
        for chunk in self.chunks.range(..index.min(self.chunks.len())) {
            count += chunk.places.len();
            toll += chunk.toll;
        }
        if let Some(chunk) = self.chunks.get(index) {
            let place = chunk.places.partition_point(|(other, _)| *other < rank);
            count += place;
            toll += sum(&chunk.places[..place]);
        }
        (count, toll)
    }

    /// The toll of the waiter `rank`, if it is here.
    #[must_use]
    pub fn get(&self, rank: Rank) -> Option<Toll> {
        let places = &self.chunks.get(self.chunk_of(rank))?.places;
        let place = places.binary_search_by(|(other, _)| other.cmp(&rank)).ok()?;
        places.get(place).map(|(_, toll)| *toll)
    }

    /// How many waiters at the front fit in `share`, and their toll: all waiters whose own share and the shares ahead of
    /// them sum to less than `share`, or to exactly `share` if `tie` holds for the waiter.
    #[must_use]
    pub fn within_share(&self, share: u64, tie: impl Fn(Rank) -> bool) -> (usize, Toll) {
        let (mut count, mut toll) = (0, Toll::default());
        for chunk in &self.chunks {
            if toll.share + chunk.toll.share < share {
                count += chunk.places.len();
                toll += chunk.toll;
                continue;
            }
            for (rank, more) in &chunk.places {
                let end = toll.share + more.share;
                if end > share || (end == share && !tie(*rank)) {
                    return (count, toll);
                }
                count += 1;
                toll += *more;
            }
        }
        (count, toll)
    }

    /// The waiter at index `index`, counted from 0.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<Rank> {
        let mut left = index;
        for chunk in &self.chunks {
            if left < chunk.places.len() {
                return chunk.places.get(left).map(|(rank, _)| *rank);
            }
            left -= chunk.places.len();
        }
        None
    }

    /// All waiters in order, with their tolls.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, Toll)> {
        self.chunks.iter().flat_map(|chunk| chunk.places.iter().copied())
    }

    /// The first `count` waiters with their tolls, in reverse order.
    pub fn back_from(&self, count: usize) -> impl Iterator<Item = (Rank, Toll)> {
        let (mut index, mut left) = (0, count);
        while let Some(chunk) = self.chunks.get(index)
            && chunk.places.len() < left
        {
            left -= chunk.places.len();
            index += 1;
        }
        let last = self.chunks.get(index).map_or(&[][..], |chunk| &chunk.places);
        let before = self.chunks.range(..index.min(self.chunks.len())).rev();
        let before = before.flat_map(|chunk| chunk.places.iter().rev());
        last[..left.min(last.len())].iter().rev().chain(before).copied()
    }

    /// The last `max` waiters before `rank`, nearest first.
    #[must_use]
    pub fn nearest_before(&self, rank: Rank, max: usize) -> Vec<RequestId> {
        let index = self.chunk_of(rank);
        let mut found = Vec::with_capacity(max.min(self.len));
        for chunk in self.chunks.range(..(index + 1).min(self.chunks.len())).rev() {
            let place = chunk.places.partition_point(|(other, _)| *other < rank);
            for (other, _) in chunk.places[..place].iter().rev() {
                if found.len() == max {
                    return found;
                }
                found.push(other.id);
            }
        }
        found
    }

    /// Merges a chunk that became short with the next one, or the previous one, if both fit in one. So the number of
    /// chunks follows the number of waiters, even when they leave from the middle.
    fn merge(&mut self, index: usize) {
        if self.chunks.get(index).is_some_and(|chunk| chunk.places.is_empty()) {
            self.chunks.remove(index);
            return;
        }
        for first in [index, index.wrapping_sub(1)] {
            let second = first.wrapping_add(1);
            let len = |at: usize| self.chunks.get(at).map(|chunk| chunk.places.len());
            let (Some(a), Some(b)) = (len(first), len(second)) else { continue };
            if a + b > CHUNK_MAX / 2 {
                continue;
            }
            if let Some(behind) = self.chunks.remove(second)
                && let Some(chunk) = self.chunks.get_mut(first)
            {
                chunk.places.extend(behind.places);
                chunk.toll += behind.toll;
            }
            return;
        }
    }

    /// The last chunk that starts at or before `rank`, or the first.
    fn chunk_of(&self, rank: Rank) -> usize {
        let after = self
            .chunks
            .partition_point(|chunk| chunk.places.first().is_some_and(|(first, _)| *first <= rank));
        after.saturating_sub(1)
    }
}

fn sum(places: &[(Rank, Toll)]) -> Toll {
    let mut toll = Toll::default();
    for (_, more) in places {
        toll += *more;
    }
    toll
}

#[cfg(test)]
mod tests {
    use super::{Line, Toll};
    use crate::{Priority, Rank, RequestId, Span, Time};
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    fn rank(at: u64, id: u64) -> Rank {
        Rank::new(Time(at), Priority::START, Span(0), RequestId(id))
    }

    /// Compares the line with a sorted map, over a long sequence of joins and leaves.
    #[test]
    fn equals_a_sorted_map() {
        let mut line = Line::new();
        let mut model: BTreeMap<Rank, Toll> = BTreeMap::new();
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
            state >> 33
        };
        let sum = |tolls: &mut dyn Iterator<Item = &Toll>| {
            let mut sum = Toll::default();
            tolls.for_each(|toll| sum += *toll);
            sum
        };
        for step in 0..20_000 {
            let growing = (step / 4_000) % 2 == 0;
            let place = rank(next() % 5_000, next() % 3);
            if next() % 10 < if growing { 8 } else { 2 } {
                let toll = Toll { cost: next() % 100, share: 1 + next() % 50 };
                if let Entry::Vacant(free) = model.entry(place) {
                    free.insert(toll);
                    line.join(place, toll);
                }
            } else {
                assert_eq!(line.leave(place), model.remove(&place));
            }
            if step % 50 == 0 {
                let probe = rank(next() % 5_000, next() % 3);
                let ahead = model.range(..probe);
                let toll = sum(&mut ahead.clone().map(|(_, toll)| toll));
                assert_eq!(line.before(probe), (ahead.clone().count(), toll), "step {step}");
                let near: Vec<_> = ahead.rev().take(5).map(|(rank, _)| rank.id).collect();
                assert_eq!(line.nearest_before(probe, 5), near);
                assert_eq!(line.get(probe), model.get(&probe).copied());
                let index = next() as usize % 5_000;
                assert_eq!(line.nth(index), model.keys().nth(index).copied());
                let share = next() % 10_000;
                for tied in [false, true] {
                    let (mut count, mut used) = (0, Toll::default());
                    for toll in model.values() {
                        let end = used.share + toll.share;
                        if end > share || (end == share && !tied) {
                            break;
                        }
                        count += 1;
                        used += *toll;
                    }
                    assert_eq!(line.within_share(share, |_| tied), (count, used), "step {step}");
                }
                let first = model.iter().map(|(rank, toll)| (*rank, *toll)).take(index);
                let back: Vec<_> = line.back_from(index).collect();
                assert!(back.into_iter().rev().eq(first), "step {step}");
                assert!(line.iter().eq(model.iter().map(|(r, c)| (*r, *c))));
            }
            assert_eq!(line.len(), model.len());
            assert_eq!(line.first(), model.first_key_value().map(|(r, c)| (*r, *c)));
        }
        assert_eq!(line.toll(), sum(&mut model.values()));
    }

    /// Leaving from the middle does not leave a line of short chunks behind.
    #[test]
    fn chunks_follow_the_waiters() {
        let mut line = Line::new();
        let toll = Toll { cost: 1, share: 1 };
        (0..50_000).for_each(|at| line.join(rank(at, at), toll));
        for at in (0..50_000).filter(|at| at % 100 != 0) {
            line.leave(rank(at, at)).unwrap();
        }
        assert_eq!(line.len(), 500);
        assert!(line.chunks.len() <= 2 * 500 / 16, "{} chunks", line.chunks.len());
    }
}
