//! Start-time fair queuing: many flows take turns at one counter, by weight and cost.
//!
//! Owns the tags. The counter has a virtual time V, each flow a finish tag F, and each flow with waiters the
//! start tag S of its head: max(V, F) when its line becomes non-empty, and the finish tag of the waiter
//! before it from then on. The flow with the least (S, rank of its head) is served. Waiters that leave
//! unserved change no tag. Rank orders within a flow.
//!
//! V rises with the service: by the share of each served waiter, divided by the flows that share the counter until
//! the next one is served, and at least to the S of that one. If V only followed S, flows that send one request
//! each would all begin at the same V, and a flow that was served once would wait for all of them. V does not rise
//! past the least finish tag that a head will have: a waiter with a large share would move it far ahead, and a flow
//! that begins there would wait until the others have caught up.
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
    /// Served shares by which V has not risen yet.
    unspent: Tag,
    /// The flow that was served last.
    served: Option<FlowKey>,
    flows: BTreeMap<FlowKey, Flow>,
    /// How many of these flows are shared.
    shared: usize,
    /// Flows with waiters, by the start tag and rank of their heads.
    waiting: BTreeSet<(Tag, Rank, FlowKey)>,
    /// The same flows, by the finish tags that their heads will have.
    ends: BTreeSet<(Tag, FlowKey)>,
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
    /// No waiter costs less than this for each [`RATIO`] of its share.
    cost_min: u64,
}

impl Flow {
    /// How many requests wait, and the rank of the last of them.
    fn length(&self) -> Option<(usize, Rank)> {
        self.line.last().map(|(last, _)| (self.line.len(), last))
    }
}

/// The unit of share in [`Flow::cost_min`]: a cost has 32 bits, so the ratio has 64.
const RATIO: u32 = 32;

impl Fair {
    /// Adds a waiter to the flow of this key, or to a shared flow; returns which.
    pub(crate) fn join(&mut self, flow: KeyHash, rank: Rank, toll: Toll) -> FlowKey {
        let key = self.flow_of(flow);
        if self.own() >= FLOWS_MAX {
            self.forget();
        }
        self.shared += usize::from(is_shared(key) && !self.flows.contains_key(&key));
        self.len += 1;
        let time = self.time;
        let flow = self.flows.entry(key).or_default();
        let ratio = (toll.cost << RATIO) / toll.share.max(1);
        flow.cost_min = if flow.line.is_empty() { ratio } else { flow.cost_min.min(ratio) };
        match flow.line.first() {
            None => {
                self.idle.of(key).remove(&(flow.finish, key));
                flow.start = time.max(flow.finish);
                self.waiting.insert((flow.start, rank, key));
                self.ends.insert((flow.start + Tag::from(toll.share), key));
            }
            Some((head, old)) if rank < head => {
                self.waiting.remove(&(flow.start, head, key));
                self.waiting.insert((flow.start, rank, key));
                self.ends.remove(&(flow.start + Tag::from(old.share), key));
                self.ends.insert((flow.start + Tag::from(toll.share), key));
            }
            Some(_) => {}
        }
        let before = flow.length();
        flow.line.join(rank, toll);
        let after = flow.length();
        self.relist(key, before, after);
        key
    }

    /// Removes a waiter unserved.
    pub(crate) fn leave(&mut self, key: FlowKey, rank: Rank) -> Option<Toll> {
        let flow = self.flows.get_mut(&key)?;
        let (head, _) = flow.line.first()?;
        let before = flow.length();
        let toll = flow.line.leave(rank)?;
        let after = flow.length();
        self.len -= 1;
        if rank == head {
            self.waiting.remove(&(flow.start, rank, key));
            self.ends.remove(&(flow.start + Tag::from(toll.share), key));
            match flow.line.first() {
                Some((next, then)) => {
                    self.waiting.insert((flow.start, next, key));
                    self.ends.insert((flow.start + Tag::from(then.share), key));
                }
                None => self.rest(key),
            }
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
        let time = self.risen();
        let (start, rank, key) = self.waiting.pop_first()?;
        let flow = self.flows.get_mut(&key)?;
        let before = flow.length();
        let toll = flow.line.leave(rank)?;
        let after = flow.length();
        self.len -= 1;
        self.time = start.max(time);
        self.unspent += Tag::from(toll.share);
        self.served = Some(key);
        flow.finish = start + Tag::from(toll.share);
        self.ends.remove(&(flow.finish, key));
        match flow.line.first() {
            Some((next, then)) => {
                flow.start = flow.finish;
                self.waiting.insert((flow.start, next, key));
                self.ends.insert((flow.start + Tag::from(then.share), key));
            }
            None => self.rest(key),
        }
        self.relist(key, before, after);
        self.forget();
        Some((rank, toll))
    }

    /// Where V has risen to since the last waiter was served. What would move it too far is dropped.
    fn risen(&mut self) -> Tag {
        let flows = self.sharing();
        let most = self.ends.first().map_or(self.time, |(end, _)| *end);
        let time = self.time + self.unspent / flows;
        self.unspent = if time > most { 0 } else { self.unspent % flows };
        time.min(most)
    }

    /// How many flows share the counter: those with waiters, and the one served last, which may have none left.
    fn sharing(&self) -> Tag {
        let waits = |key: FlowKey| self.flows.get(&key).is_some_and(|flow| !flow.line.is_empty());
        let served = self.served.is_some_and(|key| !waits(key));
        (self.waiting.len() + usize::from(served)).max(1) as Tag
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

    /// A lower bound of the cost that is served before `rank`. It is short by little more than one waiter of
    /// each flow, and only the waiters of its own flow are looked at.
    pub(crate) fn cost_before_min(&self, key: FlowKey, rank: Rank) -> u64 {
        let tag = self.start_of(key, rank);
        let ahead = |flow: &Flow| {
            let share = tag.saturating_sub(flow.start);
            let all = flow.line.toll();
            if Tag::from(all.share) <= share {
                all.cost
            } else {
                // The last waiter served before has a share that reaches at least to the tag.
                ((share * Tag::from(flow.cost_min)) >> RATIO) as u64
            }
        };
        let others = self.flows.iter().filter(|(other, _)| **other != key);
        self.cost_before_in_flow(key, rank) + others.map(|(_, flow)| ahead(flow)).sum::<u64>()
    }

    /// The cost of the waiters before `rank` in its own flow.
    fn cost_before_in_flow(&self, key: FlowKey, rank: Rank) -> u64 {
        self.flows.get(&key).map_or(0, |flow| flow.line.before(rank).1.cost)
    }

    /// The cost of all waiters that are served before `rank`, which may wait here already or not. `without`
    /// is the last waiter of a flow, which does not count.
    pub(crate) fn cost_before(&self, key: FlowKey, rank: Rank, without: Option<Rank>) -> u64 {
        let cost = |(flow, count, toll): (&Flow, usize, Toll)| {
            let is_last = |last: &(Rank, Toll)| Some(last.0) == without;
            let last = flow.line.last().filter(|last| count == flow.line.len() && is_last(last));
            toll.cost - last.map_or(0, |(_, toll)| toll.cost)
        };
        self.before(key, rank).map(cost).sum()
    }

    /// The waiters that are served before `rank`: how many, their cost, and the last `max` of them, nearest
    /// first. Looks at a few waiters of each flow.
    pub(crate) fn ahead(&self, key: FlowKey, rank: Rank, max: usize) -> Ahead {
        let (mut ahead, mut lines) = (Ahead::default(), vec![]);
        for (flow, count, toll) in self.before(key, rank) {
            ahead.count += count;
            ahead.cost += toll.cost;
            lines.push((flow.start + Tag::from(toll.share), flow.line.back_from(count)));
        }
        // The last waiter of each flow, by the tag at which it is served. When a waiter is taken, the waiter
        // before it in its flow replaces it.
        let flows = lines.len();
        let mut last: BinaryHeap<(Tag, Rank, usize)> = BinaryHeap::with_capacity(flows);
        let mut step = |last: &mut BinaryHeap<_>, index: usize| {
            if let Some((tag, line)) = lines.get_mut(index)
                && let Some((rank, toll)) = line.next()
            {
                *tag -= Tag::from(toll.share);
                last.push((*tag, rank, index));
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
    fn before(&self, key: FlowKey, rank: Rank) -> impl Iterator<Item = (&Flow, usize, Toll)> {
        let tag = self.start_of(key, rank);
        let own = self.flows.get(&key).map(|flow| {
            let (count, toll) = flow.line.before(rank);
            (flow, count, toll)
        });
        let others = self.waiting.iter().take_while(move |(start, _, _)| *start <= tag);
        let others = others.filter(move |(_, _, other)| *other != key);
        let others = others.filter_map(move |(start, _, other)| {
            let flow = self.flows.get(other)?;
            let share = u64::try_from(tag - start).unwrap_or(u64::MAX);
            let (count, toll) = flow.line.until_share(share, |other| other < rank);
            Some((flow, count, toll))
        });
        own.into_iter().chain(others)
    }

    /// The start tag of `rank`, or the one it would have as a newcomer.
    fn start_of(&self, key: FlowKey, rank: Rank) -> Tag {
        match self.flows.get(&key) {
            None => self.time,
            Some(flow) if flow.line.is_empty() => self.time.max(flow.finish),
            Some(flow) => flow.start + Tag::from(flow.line.before(rank).1.share),
        }
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
