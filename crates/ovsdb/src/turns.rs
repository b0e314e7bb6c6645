//! Turns of connections at work, and of long messages. Parsing a message takes many times its length in memory.
//!
//! Promises that of each user or address only a few connections handle messages at a time. Each of them may occupy a thread
//! that waits for a database, and there are only so many threads for all clients.
//!
//! Promises that all connections of a remote together parse at most [`LONG_BYTES_TOGETHER_MAX`] at a time, and that
//! users and addresses take turns. A client with a long message waits for the earlier messages of its own user or
//! address, and for one turn of each other user or address, however many messages those have sent. A turn is taken
//! only for a complete message, so no client can hold one by sending slowly.

use paceline_host::{Peer, broken};
use paceline_types::limits::LONG_BYTES_TOGETHER_MAX;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, Weak};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// The unit in which turns are counted.
const TURN_BYTES: usize = 1 << 10;

/// How many connections of one user or address may handle messages at a time: more than there are processors to run
/// them. Cached, because querying the processors is slow.
static WORKING_MAX: LazyLock<usize> = LazyLock::new(|| {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (2 * cpus).max(16)
});

/// The turns of long messages at one remote.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    /// The turns of each peer, while it has connections.
    each: Arc<Mutex<BTreeMap<Peer, Both>>>,
}

/// The turns of the long messages of a peer, and those of its connections.
type Both = (Weak<Semaphore>, Weak<Semaphore>);

/// The turns of the messages and connections of one user or address.
#[derive(Clone, Debug)]
pub(crate) struct PeerTurns {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
    working: Arc<Semaphore>,
}

/// A future that resolves when a connection may handle messages, and what it then has.
pub(crate) type AtWork = Pin<Box<dyn Future<Output = Result<Working, AcquireError>> + Send>>;
pub(crate) type Working = OwnedSemaphorePermit;

/// A future that resolves to a turn. The turn ends when the result is dropped.
pub(crate) type Turn = Pin<Box<dyn Future<Output = Result<Had, AcquireError>> + Send>>;

/// A turn.
pub(crate) type Had = (OwnedSemaphorePermit, OwnedSemaphorePermit);

fn free() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(LONG_BYTES_TOGETHER_MAX / TURN_BYTES))
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self { all: free(), each: Arc::default() }
    }

    /// The turns of `peer`.
    pub(crate) fn of(&self, peer: Peer) -> PeerTurns {
        let mut each = self.each.lock().unwrap_or_else(broken);
        let known = each.get(&peer);
        let known = known.and_then(|(own, working)| Some((own.upgrade()?, working.upgrade()?)));
        let (own, working) = known.unwrap_or_else(|| {
            each.retain(|_, (_, working)| working.strong_count() > 0);
            let (own, working) = (free(), Arc::new(Semaphore::new(*WORKING_MAX)));
            each.insert(peer, (Arc::downgrade(&own), Arc::downgrade(&working)));
            (own, working)
        });
        PeerTurns { own, all: Arc::clone(&self.all), working }
    }
}

impl PeerTurns {
    /// Whether the connection may handle messages now.
    pub(crate) fn try_work(&self) -> Option<Working> {
        Arc::clone(&self.working).try_acquire_owned().ok()
    }

    /// Waits until it may.
    pub(crate) fn wait_to_work(&self) -> AtWork {
        Box::pin(Arc::clone(&self.working).acquire_owned())
    }

    /// Waits for the turn of a message of `bytes` bytes.
    pub(crate) fn wait(&self, bytes: usize) -> Turn {
        let permits = bytes.min(LONG_BYTES_TOGETHER_MAX) / TURN_BYTES;
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let Self { own, all, .. } = self.clone();
        Box::pin(async move {
            let own = own.acquire_many_owned(permits).await?;
            Ok((own, all.acquire_many_owned(permits).await?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Waker};

    /// D4: a client that has sent many long messages does not make the message of another client wait for all of
    /// them.
    #[test]
    fn a_message_waits_for_one_turn_of_each_other_d4() {
        let mut cx = Context::from_waker(Waker::noop());
        let turns = Turns::new();
        let (greedy, modest) = (turns.of(Peer::User(1)), turns.of(Peer::User(2)));
        let mut many: Vec<Turn> =
            (0..100).map(|_| turns.of(Peer::User(1)).wait(LONG_BYTES_TOGETHER_MAX)).collect();
        let mut had = Vec::new();
        let mut poll = |turn: &mut Turn, had: &mut Vec<Had>| match turn.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(turn) => {
                had.push(turn.unwrap());
                true
            }
            std::task::Poll::Pending => false,
        };
        let ready = many.iter_mut().filter_map(|turn| poll(turn, &mut had).then_some(())).count();
        assert_eq!(ready, 1);
        let mut other = modest.wait(100_000);
        assert!(!poll(&mut other, &mut had));
        had.clear();
        drop(many.remove(0));
        assert!(!many.iter_mut().any(|turn| poll(turn, &mut had)), "the other one was first");
        assert!(poll(&mut other, &mut had));
        had.clear();
        assert!(poll(&mut many[0], &mut had));
        drop((greedy, modest, many, other, had));
        turns.of(Peer::Owner);
        assert_eq!(turns.each.lock().unwrap().len(), 1, "who has left is forgotten");
    }

    /// D4: of a user with many connections only some are at work at a time, in the order in which they came, and another
    /// user does not wait for them.
    #[test]
    fn only_some_connections_of_a_user_work_at_a_time_d4() {
        let mut cx = Context::from_waker(Waker::noop());
        let turns = Turns::new();
        let (greedy, modest) = (turns.of(Peer::User(1)), turns.of(Peer::User(2)));
        let mut working: Vec<Working> = std::iter::from_fn(|| greedy.try_work()).collect();
        assert_eq!(working.len(), *WORKING_MAX);
        assert!(modest.try_work().is_some());
        let mut waiting: Vec<AtWork> =
            (0..3).map(|_| turns.of(Peer::User(1)).wait_to_work()).collect();
        let mut poll = |waiting: &mut AtWork| waiting.as_mut().poll(&mut cx).is_ready();
        assert_eq!(waiting.iter_mut().map(&mut poll).collect::<Vec<_>>(), [false; 3]);
        working.pop();
        assert!(greedy.try_work().is_none(), "the turn is of the connection that waits");
        assert!(!poll(&mut waiting[1]));
        // A connection that gives up passes its turn on.
        drop(waiting.remove(0));
        assert!(poll(&mut waiting[0]));
    }
}
