//! The fair order: the tags of flows and the virtual time of each counter.

use super::checkpoints::{Counter, SHARE};
use super::{Model, Queued, Stage};

/// One flow's tags.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name.
    pub name: &'static str,
    /// The start tag of its head.
    pub start: u64,
    /// The finish tag.
    pub finish: u64,
    /// The weight of its latest request.
    pub weight: u64,
}

impl Model {
    /// Moves the tags of the flow whose head is served, and the virtual time.
    pub(super) fn serve_flow(&mut self, checkpoint: u32, queued: &Queued) {
        let at = (checkpoint, queued.seat.counter);
        let sharing = self.weights_sharing(at.0, at.1);
        let heads = self.head_tags(at.0, at.1);
        let starts = heads.iter().map(|(start, _)| *start);
        let finishes = heads.iter().map(|(_, finish)| *finish);
        let (first_start, first_finish) = (starts.min(), finishes.min());
        let more = self.flow_line(at.0, at.1, queued.flow).len() > 1;
        let counter = self.counter(at.0, at.1);
        let tags = counter.flow(queued.flow);
        let weight = tags.weight;
        tags.finish = tags.start + queued.share;
        if more {
            tags.start = tags.finish;
        }
        // The work since the last time, spread over all weights, but never past the first finish.
        let risen = counter.now_virtual + counter.unspent / sharing;
        counter.unspent = match first_finish {
            Some(finish) if risen > finish => 0,
            _ => counter.unspent % sharing,
        };
        counter.unspent += queued.cost * SHARE;
        let risen = first_finish.map_or(risen, |finish| risen.min(finish));
        let bounds = [counter.now_virtual, risen, first_start.unwrap_or(0)];
        counter.now_virtual = bounds.into_iter().max().unwrap_or(0);
        counter.served = Some((queued.flow, weight));
    }

    /// The finish tag that each waiter will have; `waiters` are in rank order.
    pub(super) fn tags(&self, checkpoint: u32, key: Option<&str>, waiters: &[u64]) -> Vec<u64> {
        let flows = self.known_counter(checkpoint, key).map_or(&[][..], |counter| &counter.flows);
        let mut next: Vec<(&str, u64)> = flows.iter().map(|flow| (flow.name, flow.start)).collect();
        let tag = |id: &u64| {
            let Stage::Queued(queued) = &self.requests[id].stage else { return 0 };
            let Some((_, tag)) = next.iter_mut().find(|(name, _)| *name == queued.flow) else {
                return 0;
            };
            *tag += queued.share;
            *tag
        };
        waiters.iter().map(tag).collect()
    }

    /// The waiters of one flow of a counter, by rank.
    pub(super) fn flow_line(&self, checkpoint: u32, key: Option<&str>, flow: &str) -> Vec<u64> {
        let ids = self.requests.iter().filter(|(_, request)| match &request.stage {
            Stage::Queued(queued) => {
                queued.checkpoint == checkpoint && queued.seat.counter == key && queued.flow == flow
            }
            _ => false,
        });
        self.by_rank(ids.map(|(id, _)| *id).collect())
    }

    /// The start and finish tag of the head of each flow with waiters.
    fn head_tags(&self, checkpoint: u32, key: Option<&str>) -> Vec<(u64, u64)> {
        let flows = self.known_counter(checkpoint, key).map_or(&[][..], |counter| &counter.flows);
        let tags = flows.iter().filter_map(|flow| {
            let head = self.flow_line(checkpoint, key, flow.name).first().copied()?;
            let Stage::Queued(queued) = &self.requests[&head].stage else { return None };
            Some((flow.start, flow.start + queued.share))
        });
        tags.collect()
    }

    /// The weights of the flows that share a counter: those with waiters, and the one served last.
    fn weights_sharing(&self, checkpoint: u32, key: Option<&str>) -> u64 {
        let Some(counter) = self.known_counter(checkpoint, key) else { return 1 };
        let waits = |name: &str| !self.flow_line(checkpoint, key, name).is_empty();
        let waiting = counter.flows.iter().filter(|flow| waits(flow.name)).map(|flow| flow.weight);
        let served = counter.served.filter(|(name, _)| !waits(name)).map(|(_, weight)| weight);
        waiting.chain(served).sum::<u64>().max(1)
    }

    /// Forgets all tags of a counter without waiters.
    pub(super) fn forget_tags_if_empty(&mut self, checkpoint: u32, key: Option<&'static str>) {
        if self.order(checkpoint, key).is_empty() {
            let counter = self.counter(checkpoint, key);
            counter.now_virtual = 0;
            counter.unspent = 0;
            counter.served = None;
            counter.flows.clear();
        }
    }
}

impl Counter {
    pub(super) fn flow(&mut self, name: &'static str) -> &mut Flow {
        let found = self.flows.iter().position(|flow| flow.name == name);
        let index = found.unwrap_or_else(|| {
            self.flows.push(Flow { name, start: 0, finish: 0, weight: 1 });
            self.flows.len() - 1
        });
        &mut self.flows[index]
    }
}
