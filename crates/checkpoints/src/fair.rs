//! Weighted fair queuing: many flows take turns at one counter, by weight and cost.
//!
//! Owns the tags. The counter has a virtual time V, each flow a finish tag F, and each flow with waiters the
//! start tag S of its head: max(V, F) when its line becomes non-empty, and the finish tag of the waiter
//! before it from then on. A waiter's finish tag is its start tag plus its share, and the flow whose head has the least
//! (finish tag, rank) is served. Waiters that leave unserved change no tag. Rank orders within a flow.
//!
//! So no tag of a waiter depends on which others are served, and the order in which the waiters are served is known
//! as long as no request arrives. If the least start tag were served, the first request of a flow would be
//! served at once, whatever its cost and weight, and flows that send one request each would have all the service.
//!
//! V rises with the service: by the cost of each served waiter, divided by the weights of the flows that share the
//! counter until the next one is served, and at least to the least start tag of a head. If V only followed the tags,
//! flows that send one request each would all begin at the same V, and a flow that was served once would wait for all
//! of them. V does not rise past the least finish tag of a head: a waiter of a high cost would move it far ahead, and a
//! flow that begins there would wait until the others have caught up.
//!
//! Promises at most [`FLOWS_MAX`] flows of their own. Further flows share [`SHARED_FLOWS`] more, by a hash
//! that no client can choose, so a newcomer waits for the few waiters of its flow, not for all that arrived
//! before. Also knows which flow is the longest, so that a newcomer of a shorter flow can take the place of
//! its last waiter.

use crate::hash::KeyHash;
use paceline_types::limits::{FLOWS_MAX, SHARED_FLOWS};
use paceline_types::{Line, Rank, RequestId, Toll};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Flows of either kind dropped per call: more than one call can add.
const FORGET_STEP: usize = 4;

/// The share of one unit of cost at a weight of one.
pub(crate) const SHARE: u64 = 1 << 20;

/// A point in virtual time: shares served. Sums of shares do not exceed 128 bits.
type Tag = u128;

/// The flow that a waiter is in. Shared flows sort last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FlowKey {
    Own(KeyHash),
    Shared(u16),
}

impl FlowKey {
    /// The shared flow for a flow that has none of its own.
    pub(crate) const fn shared(flow: KeyHash) -> Self {
        Self::Shared((flow.0[0] % SHARED_FLOWS as u64) as u16)
    }
}

/// The flows of one counter.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    /// V.
    time: Tag,
    /// Served cost by which V has not risen yet, in units of 1 / [`SHARE`].
    unspent: Tag,
    /// The flow that was served last, and its weight.
    served: Option<(FlowKey, u32)>,
    flows: BTreeMap<FlowKey, Flow>,
    /// How many of these flows are shared.
    shared: usize,
    /// Flows with waiters, by the finish tag and rank of their heads.
    waiting: BTreeSet<(Tag, Rank, FlowKey)>,
    /// The same flows, by the start tags of their heads.
    starts: BTreeSet<(Tag, FlowKey)>,
    /// The weights of these flows together.
    weights: u64,
    /// Flows without waiters whose finish tag is still ahead of V, by that tag; shared ones apart.
    idle: Idle,
    /// Flows with waiters, by the number of waiters and the rank of the last.
    lengths: BTreeSet<(usize, Rank, FlowKey)>,
    len: usize,
}

#[derive(Debug, Default)]
struct Idle {
    own: BTreeSet<(Tag, FlowKey)>,
    shared: BTreeSet<(Tag, FlowKey)>,
}

impl Idle {
    const fn of(&mut self, key: FlowKey) -> &mut BTreeSet<(Tag, FlowKey)> {
        match key {
            FlowKey::Own(_) => &mut self.own,
            FlowKey::Shared(_) => &mut self.shared,
        }
    }
}

/// The waiters that are served before a given waiter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// How many.
    pub(crate) count: usize,
    /// What they cost together.
    pub(crate) cost: u64,
    /// The last of them, nearest first.
    pub(crate) nearest: Vec<RequestId>,
}

#[derive(Debug, Default)]
struct Flow {
    line: Line,
    /// S, while the flow has waiters.
    start: Tag,
    /// F.
    finish: Tag,
    /// That of its latest request.
    weight: u32,
    /// No waiter costs less than this for each [`RATIO`] of its share.
    cost_min: u64,
    /// No waiter has a larger share.
    share_max: u64,
}

impl Flow {
    /// The entry of its head among the flows with waiters.
    fn head(&self, key: FlowKey) -> Option<(Tag, Rank, FlowKey)> {
        self.line.first().map(|(rank, toll)| (self.start + Tag::from(toll.share), rank, key))
    }

    /// How many requests wait, and the rank of the last of them.
    fn length(&self) -> Option<(usize, Rank)> {
        self.line.last().map(|(last, _)| (self.line.len(), last))
    }
}

/// The unit of share in [`Flow::cost_min`]: a cost has 32 bits, so the ratio has 64.
const RATIO: u32 = 32;

impl Fair {
    /// Adds a waiter to the flow of this key, or to a shared flow; returns which.
    pub(crate) fn join(&mut self, flow: KeyHash, rank: Rank, toll: Toll, weight: u32) -> FlowKey {
        let key = self.flow_of(flow);
        if self.own() >= FLOWS_MAX {
            self.forget();
        }
        self.shared += usize::from(is_shared(key) && !self.flows.contains_key(&key));
        self.len += 1;
        let time = self.time;
        let flow = self.flows.entry(key).or_default();
        let ratio = (toll.cost << RATIO) / toll.share.max(1);
        let head = flow.head(key);
        if let Some(head) = &head {
            self.waiting.remove(head);
            self.weights -= u64::from(flow.weight);
            flow.cost_min = flow.cost_min.min(ratio);
            flow.share_max = flow.share_max.max(toll.share);
        } else {
            self.idle.of(key).remove(&(flow.finish, key));
            flow.start = time.max(flow.finish);
            self.starts.insert((flow.start, key));
            (flow.cost_min, flow.share_max) = (ratio, toll.share);
        }
        flow.weight = weight;
        self.weights += u64::from(weight);
        let before = flow.length();
        flow.line.join(rank, toll);
        let after = flow.length();
        self.waiting.extend(flow.head(key));
        self.relist(key, before, after);
        key
    }

    /// Removes a waiter unserved.
    pub(crate) fn leave(&mut self, key: FlowKey, rank: Rank) -> Option<Toll> {
        let flow = self.flows.get_mut(&key)?;
        let head = flow.head(key)?;
        let before = flow.length();
        let toll = flow.line.leave(rank)?;
        let after = flow.length();
        self.len -= 1;
        self.waiting.remove(&head);
        self.waiting.extend(flow.head(key));
        if flow.line.is_empty() {
            self.starts.remove(&(flow.start, key));
            self.weights -= u64::from(flow.weight);
            self.rest(key);
        }
        self.relist(key, before, after);
        Some(toll)
    }

    /// The waiter that is served next, and its toll.
    pub(crate) fn first(&self) -> Option<(Rank, Toll)> {
        let (_, _, key) = self.waiting.first()?;
        self.flows.get(key)?.line.first()
    }

    /// Serves the next waiter.
    pub(crate) fn serve(&mut self) -> Option<(Rank, Toll)> {
        self.rise();
        let (finish, rank, key) = self.waiting.pop_first()?;
        let flow = self.flows.get_mut(&key)?;
        let before = flow.length();
        let toll = flow.line.leave(rank)?;
        let after = flow.length();
        self.len -= 1;
        self.unspent += Tag::from(toll.cost) * Tag::from(SHARE);
        self.served = Some((key, flow.weight));
        self.starts.remove(&(flow.start, key));
        flow.finish = finish;
        if flow.line.is_empty() {
            self.weights -= u64::from(flow.weight);
            self.rest(key);
        } else {
            flow.start = finish;
            self.starts.insert((finish, key));
            self.waiting.extend(flow.head(key));
        }
        self.relist(key, before, after);
        self.forget();
        Some((rank, toll))
    }

    /// Raises V by what was served since the last time. What would move it too far is dropped.
    fn rise(&mut self) {
        let (Some((start, _)), Some((finish, ..))) = (self.starts.first(), self.waiting.first())
        else {
            return;
        };
        let weights = self.weights_sharing();
        let time = self.time + self.unspent / weights;
        self.unspent = if time > *finish { 0 } else { self.unspent % weights };
        self.time = time.min(*finish).max(*start).max(self.time);
    }

    /// The weights of the flows that share the counter: those with waiters, and the one served last, which may have
    /// none left.
    fn weights_sharing(&self) -> Tag {
        let waits = |key: FlowKey| self.flows.get(&key).is_some_and(|flow| !flow.line.is_empty());
        let served = self.served.filter(|(key, _)| !waits(*key)).map_or(0, |(_, weight)| weight);
        Tag::from((self.weights + u64::from(served)).max(1))
    }

    /// The last waiter of the longest flow, if that flow has at least two waiters more than the flow of the
    /// newcomer, so that the newcomer's flow does not become the longer one.
    pub(crate) fn displaced_by(&self, flow: KeyHash) -> Option<(Rank, Toll)> {
        let (longest, _, key) = self.lengths.last()?;
        let own = self.flows.get(&self.flow_of(flow)).map_or(0, |flow| flow.line.len());
        if *longest < own + 2 {
            return None;
        }
        self.flows.get(key)?.line.last()
    }

    fn relist(
        &mut self,
        key: FlowKey,
        before: Option<(usize, Rank)>,
        after: Option<(usize, Rank)>,
    ) {
        if let Some((len, last)) = before {
            self.lengths.remove(&(len, last, key));
        }
        if let Some((len, last)) = after {
            self.lengths.insert((len, last, key));
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// How many flows have waiters.
    pub(crate) fn flows_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The flow that a newcomer of this key would join.
    pub(crate) fn flow_of(&self, flow: KeyHash) -> FlowKey {
        let key = FlowKey::Own(flow);
        let is_over = |(finish, _): &(Tag, FlowKey)| *finish <= self.time;
        let has_room = self.own() < FLOWS_MAX || self.idle.own.first().is_some_and(is_over);
        if has_room || self.flows.contains_key(&key) { key } else { FlowKey::shared(flow) }
    }

    /// How many flows are not shared.
    fn own(&self) -> usize {
        self.flows.len() - self.shared
    }

    /// A lower bound of the cost that is served before a newcomer. It is short by little more than one waiter of
    /// each flow, and only the waiters of its own flow are looked at.
    pub(crate) fn cost_before_min(&self, key: FlowKey, rank: Rank, share: u64) -> u64 {
        let tag = self.finish_of(key, rank, share);
        let ahead = |flow: &Flow| {
            let share = tag.saturating_sub(flow.start);
            let all = flow.line.toll();
            if Tag::from(all.share) < share {
                all.cost
            } else {
                // The first waiter that is not served before has a share that reaches at least to the tag.
                let least = share.saturating_sub(Tag::from(flow.share_max));
                ((least * Tag::from(flow.cost_min)) >> RATIO) as u64
            }
        };
        let others = self.flows.iter().filter(|(other, _)| **other != key);
        self.cost_before_in_flow(key, rank) + others.map(|(_, flow)| ahead(flow)).sum::<u64>()
    }

    /// The cost of the waiters before `rank` in its own flow.
    fn cost_before_in_flow(&self, key: FlowKey, rank: Rank) -> u64 {
        self.flows.get(&key).map_or(0, |flow| flow.line.before(rank).1.cost)
    }

    /// The cost of all waiters that are served before a newcomer. `without` is the last waiter of a flow, which does
    /// not count.
    pub(crate) fn cost_before(
        &self,
        key: FlowKey,
        rank: Rank,
        share: u64,
        without: Option<Rank>,
    ) -> u64 {
        let cost = |(flow, count, toll): (&Flow, usize, Toll)| {
            let is_last = |last: &(Rank, Toll)| Some(last.0) == without;
            let last = flow.line.last().filter(|last| count == flow.line.len() && is_last(last));
            toll.cost - last.map_or(0, |(_, toll)| toll.cost)
        };
        self.before(key, rank, share).map(cost).sum()
    }

    /// The waiters that are served before the waiter `rank`: how many, their cost, and the last `max` of them, nearest
    /// first. Looks at a few waiters of each flow.
    pub(crate) fn ahead(&self, key: FlowKey, rank: Rank, max: usize) -> Ahead {
        let (mut ahead, mut lines) = (Ahead::default(), vec![]);
        let toll = self.flows.get(&key).and_then(|flow| flow.line.get(rank));
        for (flow, count, toll) in self.before(key, rank, toll.unwrap_or_default().share) {
            ahead.count += count;
            ahead.cost += toll.cost;
            lines.push((flow.start + Tag::from(toll.share), flow.line.back_from(count)));
        }
        // The last waiter of each flow, by its finish tag. When a waiter is taken, the waiter before it in its flow
        // replaces it.
        let flows = lines.len();
        let mut last: BinaryHeap<(Tag, Rank, usize)> = BinaryHeap::with_capacity(flows);
        let mut step = |last: &mut BinaryHeap<_>, index: usize| {
            if let Some((tag, line)) = lines.get_mut(index)
                && let Some((rank, toll)) = line.next()
            {
                last.push((*tag, rank, index));
                *tag -= Tag::from(toll.share);
            }
        };
        (0..flows).for_each(|index| step(&mut last, index));
        while ahead.nearest.len() < max
            && let Some((_, rank, index)) = last.pop()
        {
            ahead.nearest.push(rank.id);
            step(&mut last, index);
        }
        ahead
    }

    /// For each flow, how many of its first waiters are served before `rank`, and their toll.
    fn before(
        &self,
        key: FlowKey,
        rank: Rank,
        share: u64,
    ) -> impl Iterator<Item = (&Flow, usize, Toll)> {
        let tag = self.finish_of(key, rank, share);
        let own = self.flows.get(&key).map(|flow| {
            let (count, toll) = flow.line.before(rank);
            (flow, count, toll)
        });
        let others = self.waiting.iter().take_while(move |(finish, _, _)| *finish <= tag);
        let others = others.filter(move |(_, _, other)| *other != key);
        let others = others.filter_map(move |(_, _, other)| {
            let flow = self.flows.get(other)?;
            let share = u64::try_from(tag - flow.start).unwrap_or(u64::MAX);
            let (count, toll) = flow.line.within_share(share, |other| other < rank);
            Some((flow, count, toll))
        });
        own.into_iter().chain(others)
    }

    /// The finish tag of `rank`, which has this share, or the one it would have as a newcomer.
    fn finish_of(&self, key: FlowKey, rank: Rank, share: u64) -> Tag {
        let start = match self.flows.get(&key) {
            None => self.time,
            Some(flow) if flow.line.is_empty() => self.time.max(flow.finish),
            Some(flow) => flow.start + Tag::from(flow.line.before(rank).1.share),
        };
        start + Tag::from(share)
    }

    /// Handles a flow whose line became empty: it is kept only as long as its finish tag matters.
    fn rest(&mut self, key: FlowKey) {
        let finish = self.flows.get(&key).map_or(0, |flow| flow.finish);
        if finish > self.time {
            self.idle.of(key).insert((finish, key));
        } else {
            self.drop_flow(key);
        }
    }

    /// Drops idle flows whose finish tag no longer matters. Thousands may reach that point at once, so only a
    /// few are dropped at a time. A flow that is still stored is treated as if it were not.
    fn forget(&mut self) {
        for _ in 0..FORGET_STEP {
            for first in [self.idle.own.first().copied(), self.idle.shared.first().copied()] {
                if let Some((finish, key)) = first
                    && finish <= self.time
                {
                    self.idle.of(key).pop_first();
                    self.drop_flow(key);
                }
            }
        }
    }

    fn drop_flow(&mut self, key: FlowKey) {
        let dropped = self.flows.remove(&key);
        self.shared -= usize::from(is_shared(key) && dropped.is_some());
    }
}

const fn is_shared(key: FlowKey) -> bool {
    matches!(key, FlowKey::Shared(_))
}

#[cfg(test)]
mod tests;
