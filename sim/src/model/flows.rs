//! The fair order: the tags of flows and the virtual time of each counter.

use super::checkpoints::Counter;
use super::{Model, Queued, Stage};
use std::collections::BTreeSet;

/// One flow's tags.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name.
    pub name: &'static str,
    /// The start tag of its head.
    pub start: u64,
    /// The finish tag.
    pub finish: u64,
}

impl Model {
    /// Moves the tags of the flow whose head is served, and the virtual time.
    pub(super) fn serve_flow(&mut self, checkpoint: u32, queued: &Queued) {
        let more = self.flow_line(checkpoint, queued.seat.counter, queued.flow).len() > 1;
        let sharing = self.flows_sharing(checkpoint, queued.seat.counter);
        let end = self.first_end(checkpoint, queued.seat.counter);
        let counter = self.counter(checkpoint, queued.seat.counter);
        let tags = counter.flow(queued.flow);
        let start = tags.start;
        tags.finish = start + queued.share;
        if more {
            tags.start = tags.finish;
        }
        let risen = counter.now_virtual + counter.unspent / sharing;
        counter.unspent = if risen > end { 0 } else { counter.unspent % sharing } + queued.share;
        counter.now_virtual = start.max(risen.min(end));
        counter.served = Some(queued.flow);
    }

    /// The start tag that each waiter will have when it is the head of its flow; `waiters` are in rank order.
    pub(super) fn tags(&self, checkpoint: u32, key: Option<&str>, waiters: &[u64]) -> Vec<u64> {
        let flows = self.known_counter(checkpoint, key).map_or(&[][..], |counter| &counter.flows);
        let mut next: Vec<(&str, u64)> = flows.iter().map(|flow| (flow.name, flow.start)).collect();
        let tag = |id: &u64| {
            let Stage::Queued(queued) = &self.requests[id].stage else { return 0 };
            let Some((_, start)) = next.iter_mut().find(|(name, _)| *name == queued.flow) else {
                return 0;
            };
            *start += queued.share;
            *start - queued.share
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

    /// The least finish tag that the head of a flow with waiters will have.
    fn first_end(&self, checkpoint: u32, key: Option<&str>) -> u64 {
        let flows = self.known_counter(checkpoint, key).map_or(&[][..], |counter| &counter.flows);
        let ends = flows.iter().filter_map(|flow| {
            let head = self.flow_line(checkpoint, key, flow.name).first().copied()?;
            let Stage::Queued(queued) = &self.requests[&head].stage else { return None };
            Some(flow.start + queued.share)
        });
        ends.min().unwrap_or(0)
    }

    /// How many flows share a counter: those with waiters, and the one served last.
    fn flows_sharing(&self, checkpoint: u32, key: Option<&str>) -> u64 {
        let flows = self.requests.values().filter_map(|request| match &request.stage {
            Stage::Queued(queued)
                if queued.checkpoint == checkpoint && queued.seat.counter == key =>
            {
                Some(queued.flow)
            }
            _ => None,
        });
        let served = self.known_counter(checkpoint, key).and_then(|counter| counter.served);
        flows.chain(served).collect::<BTreeSet<_>>().len() as u64
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
            self.flows.push(Flow { name, start: 0, finish: 0 });
            self.flows.len() - 1
        });
        &mut self.flows[index]
    }
}
