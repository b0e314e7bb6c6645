//! All requests that wait or run, found by number, session, lock, server, pool and counter.
//!
//! A request is open from [`Requests::open`] to [`Requests::close`]. While it is open:
//!
//! - no other request has its number;
//! - its session, and each lock that it requires, lead to it;
//! - it weighs as many bytes as its attributes have ([`Weight`]).
//!
//! Three more indexes lead to open requests:
//!
//! - `asleep`: from [`Requests::sleep`] to [`Requests::wake`], each request that sleeps at a checkpoint and has
//!   a server;
//! - `slots`: from [`Requests::take_slot`] to [`Requests::leave_slot`], each request that runs in a pool with a
//!   maximum;
//! - `counts`: from [`Requests::hold`] to [`Requests::drop_count`], each request that holds a count others may
//!   wait for. A count is returned after its request has ended, so this index may outlive the request for some
//!   steps.
//!
//! Between two steps of the engine all open requests are here. Within a step the engine takes one out
//! ([`Requests::take`]), moves it, and then either puts it back ([`Requests::put`]) or closes it. Taking it out and
//! putting it back change no index.

use crate::prepare::Draft;
use crate::weight::Weight;
use crate::work::Work;
use paceline_checkpoints::{HeldCount, KeyHash};
use paceline_types::{
    CheckpointId, PoolId, Priority, Rank, Request, RequestId, ServerId, SessionId, Span, Time,
};
use std::collections::{BTreeMap, BTreeSet};

/// All requests that wait or run.
#[derive(Debug)]
pub(crate) struct Requests {
    next_number: u64,
    by_number: BTreeMap<RequestId, Box<Work>>,
    sessions: BTreeSet<(SessionId, RequestId)>,
    locks: BTreeSet<(SessionId, Box<str>, RequestId)>,
    asleep: BTreeSet<(ServerId, Rank)>,
    slots: BTreeSet<(PoolId, RequestId)>,
    counts: BTreeSet<(CheckpointId, KeyHash, RequestId)>,
    weight: Weight,
}

impl Requests {
    /// No requests.
    pub const fn new() -> Self {
        Self {
            next_number: 1,
            by_number: BTreeMap::new(),
            sessions: BTreeSet::new(),
            locks: BTreeSet::new(),
            asleep: BTreeSet::new(),
            slots: BTreeSet::new(),
            counts: BTreeSet::new(),
            weight: Weight::new(),
        }
    }

    /// Numbers requests from `first` on.
    pub fn number_from(&mut self, first: RequestId) {
        debug_assert!(self.by_number.is_empty(), "no request has a number yet");
        self.next_number = self.next_number.max(first.0);
    }

    /// Makes sure that no other request gets this number.
    pub const fn number_behind(&mut self, id: RequestId) {
        if self.next_number <= id.0 {
            self.next_number = id.0 + 1;
        }
    }

    /// The number of the next request.
    pub const fn next_number(&self) -> RequestId {
        RequestId(self.next_number)
    }

    /// A number for a new request.
    #[inline]
    pub const fn number(&mut self) -> RequestId {
        let id = RequestId(self.next_number);
        self.next_number += 1;
        id
    }

    /// Opens a request: until it is closed, its session and its locks lead to it, and its weight counts.
    #[inline]
    pub fn open(&mut self, work: &Work) {
        self.weight.add(&work.draft.request);
        let Some(session) = work.draft.request.session else { return };
        self.sessions.insert((session, work.rank.id));
        for lock in &work.draft.request.locks {
            self.locks.insert((session, lock.clone(), work.rank.id));
        }
    }

    /// Closes a request that ends.
    #[inline]
    pub fn close(&mut self, work: &Work) {
        self.weight.remove(&work.draft.request);
        let Some(session) = work.draft.request.session else { return };
        self.sessions.remove(&(session, work.rank.id));
        for lock in &work.draft.request.locks {
            self.locks.remove(&(session, lock.clone(), work.rank.id));
        }
    }

    /// Changes the attributes of an open request.
    pub fn edit<T>(&mut self, draft: &mut Draft, change: impl FnOnce(&mut Draft) -> T) -> T {
        self.weight.edit(draft, change)
    }

    /// Changes the attributes of all open requests.
    pub fn edit_all(&mut self, mut change: impl FnMut(&mut Draft)) {
        for work in self.by_number.values_mut() {
            self.weight.edit(&mut work.draft, &mut change);
        }
    }

    /// How many requests are open.
    pub const fn open_count(&self) -> usize {
        self.weight.requests()
    }

    /// Whether no index leads to a request, except for counts that are still to be returned.
    pub fn is_blank(&self) -> bool {
        self.by_number.is_empty()
            && self.sessions.is_empty()
            && self.locks.is_empty()
            && self.asleep.is_empty()
            && self.slots.is_empty()
    }

    /// What there is no room for, and its maximum, if there is no room for one more request.
    pub fn lacks(
        &self,
        request: &Request,
        requests_max: usize,
        bytes_max: usize,
    ) -> Option<(&'static str, usize)> {
        self.weight.lacks(request, requests_max, bytes_max)
    }

    /// Stores a request that waits or runs.
    #[inline]
    pub fn put(&mut self, work: Box<Work>) {
        self.by_number.insert(work.rank.id, work);
    }

    /// Removes a request, to move or to end it.
    #[inline]
    pub fn take(&mut self, id: RequestId) -> Option<Box<Work>> {
        self.by_number.remove(&id)
    }

    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&Work> {
        self.by_number.get(&id).map(AsRef::as_ref)
    }

    /// A request whose stage or line changes. The values that the indexes depend on are changed only by other
    /// methods.
    #[inline]
    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Work> {
        self.by_number.get_mut(&id).map(AsMut::as_mut)
    }

    /// A request, if it runs.
    #[inline]
    pub fn running(&self, id: RequestId) -> Option<&Work> {
        self.get(id).filter(|work| work.runs())
    }

    /// A request, if it waits.
    #[inline]
    pub fn waiting(&self, id: RequestId) -> Option<&Work> {
        self.get(id).filter(|work| !work.runs())
    }

    /// All requests starting at this number, in the order of their numbers.
    pub fn from(&self, first: RequestId) -> impl Iterator<Item = (RequestId, &Work)> {
        self.by_number.range(first..).map(|(id, work)| (*id, work.as_ref()))
    }

    /// All requests, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Work)> {
        self.by_number.iter().map(|(id, work)| (*id, work.as_ref()))
    }

    /// The requests of a session, in the order of their numbers.
    pub fn of_session(&self, session: SessionId) -> impl Iterator<Item = RequestId> {
        let range = (session, RequestId(0))..=(session, RequestId(u64::MAX));
        self.sessions.range(range).map(|(_, id)| *id)
    }

    /// The requests of a session that require this lock, in the order of their numbers.
    pub fn of_lock(&self, session: SessionId, lock: &str) -> impl Iterator<Item = RequestId> {
        let users = self.locks.range((session, Box::from(lock), RequestId(0))..);
        let users = users.take_while(move |(owner, name, _)| *owner == session && **name == *lock);
        users.map(|(_, _, id)| *id)
    }

    /// Puts a request to sleep in the queue of a checkpoint, which has queued it.
    pub fn sleep(&mut self, now: Time, mut work: Box<Work>, at: CheckpointId) {
        work.sleep(now, at);
        if let Some(seat) = &work.seat {
            self.asleep.insert((seat.server(), work.rank));
        }
        self.put(work);
    }

    /// Called when a request no longer sleeps at a checkpoint.
    pub fn wake(&mut self, now: Time, work: &mut Work) {
        if let Some(seat) = &work.seat {
            self.asleep.remove(&(seat.server(), work.rank));
        }
        work.wake(now);
    }

    /// The requests that sleep at a checkpoint and have this server, by rank.
    pub fn asleep_with(&self, server: ServerId) -> impl Iterator<Item = Rank> {
        let first = Rank::new(Time(0), Priority::MAX, Span(u64::MAX), RequestId(0));
        let asleep = self.asleep.range((server, first)..);
        asleep.take_while(move |(other, _)| *other == server).map(|(_, rank)| *rank)
    }

    /// Notes that a request has a slot of a pool that has a maximum.
    #[inline]
    pub fn take_slot(&mut self, pool: PoolId, id: RequestId) {
        self.slots.insert((pool, id));
    }

    /// Notes that a request no longer has this slot.
    #[inline]
    pub fn leave_slot(&mut self, pool: PoolId, id: RequestId) {
        self.slots.remove(&(pool, id));
    }

    /// Moves running requests to other pools. `has_max` says whether a pool has a maximum.
    pub fn move_slots(&mut self, heirs: &[(PoolId, PoolId)], has_max: impl Fn(PoolId) -> bool) {
        for (id, work) in self.by_number.iter_mut().filter(|(_, work)| work.has_slot()) {
            let heir = heirs.iter().find(|(old, _)| *old == work.pool);
            let Some((old, new)) = heir else { continue };
            work.pool = *new;
            self.slots.remove(&(*old, *id));
            if has_max(*new) {
                self.slots.insert((*new, *id));
            }
        }
    }

    /// Lists the requests that have slots of pools that now have a maximum.
    pub fn list_slots(&mut self, is_limited: impl Fn(PoolId) -> bool) {
        let users = self.by_number.iter().filter(|(_, work)| work.has_slot());
        let users = users.filter(|(_, work)| is_limited(work.pool));
        self.slots.extend(users.map(|(id, work)| (work.pool, *id)));
    }

    /// The requests that have the slots of a pool with a maximum, in the order of their numbers.
    pub fn of_pool(&self, pool: PoolId) -> impl Iterator<Item = RequestId> {
        let range = (pool, RequestId(0))..=(pool, RequestId(u64::MAX));
        self.slots.range(range).map(|(_, id)| *id)
    }

    /// Notes that a request holds a count, which its checkpoint must get back.
    #[inline]
    pub fn hold(&mut self, work: &mut Work, held: HeldCount) {
        if let Some(counter) = held.counter() {
            self.counts.insert((held.checkpoint(), counter, work.rank.id));
        }
        work.held.push(held);
    }

    /// Notes that a request no longer holds this count.
    #[inline]
    pub fn drop_count(&mut self, id: RequestId, held: &HeldCount) {
        if let Some(counter) = held.counter() {
            self.counts.remove(&(held.checkpoint(), counter, id));
        }
    }

    /// The requests that hold a count of this counter, in the order of their numbers.
    pub fn of_counter(
        &self,
        checkpoint: CheckpointId,
        counter: KeyHash,
    ) -> impl Iterator<Item = RequestId> {
        let range =
            (checkpoint, counter, RequestId(0))..=(checkpoint, counter, RequestId(u64::MAX));
        self.counts.range(range).map(|(_, _, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::Requests;
    use crate::work::{Stage, Work};
    use crate::{Engine, Prepared, prepare};
    use paceline_checkpoints::Checkpoints;
    use paceline_types::{
        Attributes, CheckpointId, Known, PoolId, Priority, Rank, Request, RequestId, SessionId,
        Span, Time,
    };

    const SESSION: SessionId = SessionId(7);

    fn work(id: RequestId) -> Box<Work> {
        let mut request = Request::new(Attributes::new());
        request.session = Some(SESSION);
        request.locks.push("l".into());
        let Prepared(mut work) = prepare(&Engine::new(1).snapshot(), request).unwrap();
        work.rank = Rank::new(Time(0), Priority::START, Span::ZERO, id);
        work
    }

    /// Every index leads to a request for as long as documented, and no longer.
    #[test]
    fn a_request_is_found_until_it_ends() {
        let mut requests = Requests::new();
        let id = requests.number();
        let mut one = work(id);
        requests.open(&one);
        assert_eq!(requests.of_session(SESSION).collect::<Vec<_>>(), [id]);
        assert_eq!(requests.of_lock(SESSION, "l").collect::<Vec<_>>(), [id]);
        assert_eq!(requests.of_lock(SESSION, "k").count(), 0);

        let mut checkpoints = Checkpoints::new(1, Span::ZERO);
        requests.hold(&mut one, checkpoints.restore_former(Time(0), "c"));
        let (checkpoint, counter) = (one.held[0].checkpoint(), one.held[0].counter().unwrap());
        assert_eq!(requests.of_counter(checkpoint, counter).collect::<Vec<_>>(), [id]);

        requests.sleep(Time(1), one, CheckpointId(1));
        assert!(requests.waiting(id).is_some() && requests.running(id).is_none());
        let mut one = requests.take(id).unwrap();
        requests.wake(Time(3), &mut one);
        assert_eq!((one.stage, one.slept_at(CheckpointId(1))), (Stage::Moving, Span(2)));

        one.start(Time(3));
        requests.take_slot(PoolId::DEFAULT, id);
        requests.put(one);
        assert_eq!(requests.of_pool(PoolId::DEFAULT).collect::<Vec<_>>(), [id]);
        assert!(!requests.is_blank());

        let one = requests.take(id).unwrap();
        requests.leave_slot(PoolId::DEFAULT, id);
        requests.close(&one);
        requests.drop_count(id, &one.held[0]);
        assert!(requests.is_blank());
        assert_eq!(
            (requests.open_count(), requests.of_counter(checkpoint, counter).count()),
            (0, 0)
        );
        assert_eq!(requests.next_number(), RequestId(2));
    }

    /// The weight of a request follows its attributes, so ending it removes its present weight.
    #[test]
    fn an_edit_of_attributes_changes_the_weight() {
        let mut requests = Requests::new();
        let id = requests.number();
        let mut one = work(id);
        requests.open(&one);
        requests
            .edit(&mut one.draft, |draft| draft.request.attributes.put(Known::User, "a long name"));
        let bytes = one.draft.request.bytes();
        let other = Request::new(Attributes::new());
        assert_eq!(requests.lacks(&other, 9, bytes), None);
        assert_eq!(requests.lacks(&other, 9, bytes - 1), Some(("bytes of attributes", bytes - 1)));
        requests.close(&one);
        assert_eq!(requests.lacks(&other, 9, 0), None);
    }
}
