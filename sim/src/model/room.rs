//! Room in a fair queue: the waiter that a newcomer displaces.

use super::config::Checkpoint;
use super::{Model, Place, Queued, Reason, Seat, Stage};

impl Model {
    /// The flow of a request at a checkpoint.
    pub(super) fn flow_of(&self, id: u64, at: &Checkpoint) -> &'static str {
        at.fair.map_or("", |attribute| self.as_seen_at(id, at).value(attribute))
    }

    /// The bound of a queue that is reached.
    pub(super) fn full(&self, at: &Checkpoint, seat: Seat) -> Option<u64> {
        let (len, total) = self.lengths(at, seat);
        let (max_len, max_total) = (at.queue.max_len, at.queue.max_total);
        (len >= max_len).then_some(max_len).or((total >= max_total).then_some(max_total))
    }

    /// How many wait at a counter, and at all counters of its checkpoint.
    fn lengths(&self, at: &Checkpoint, seat: Seat) -> (u64, u64) {
        (self.order(at.id, seat.counter).len() as u64, self.queued(at.name, None))
    }

    /// The waiter that makes room for a newcomer, if the queue is full and one has to.
    pub(super) fn displaced_by(&self, id: u64, at: &Checkpoint, seat: Seat) -> Option<u64> {
        let (len, total) = self.lengths(at, seat);
        let is_exceeded = len > at.queue.max_len || total > at.queue.max_total;
        if at.fair.is_none() || is_exceeded || self.full(at, seat).is_none() {
            return None;
        }
        let own = self.flow_line(at.id, seat.counter, self.flow_of(id, at)).len();
        let line_of = |waiter: u64| match &self.requests[&waiter].stage {
            Stage::Queued(Queued { flow, .. }) => self.flow_line(at.id, seat.counter, flow),
            _ => vec![],
        };
        // Each flow is visited once for each of its waiters, which is harmless.
        let lines = self.order(at.id, seat.counter).into_iter().map(line_of);
        let ends = lines.filter_map(|line| Some((line.len(), *line.last()?)));
        let (longest, last) = ends.max_by_key(|(len, last)| (*len, self.requests[last].rank))?;
        (longest >= own + 2).then_some(last)
    }

    /// Removes a waiter from its queue. It is refused when the newcomer has joined.
    pub(super) fn displace(&mut self, at: &Checkpoint, seat: Seat, displaced: Option<u64>) {
        let Some(max) = self.full(at, seat).filter(|_| displaced.is_some()) else { return };
        let Some(id) = displaced else { return };
        let Some(request) = self.requests.get_mut(&id) else { return };
        let Stage::Queued(queued) = &request.stage else { return };
        let place = Place::Checkpoint(at.name, queued.seat.key);
        request.stage = Stage::Moving;
        self.displaced = Some((id, Reason::QueueFull(place, max)));
    }

    /// Refuses the waiter that was displaced.
    pub(super) fn refuse_displaced(&mut self) {
        if let Some((id, reason)) = self.displaced.take() {
            self.refuse(id, reason);
        }
    }
}
