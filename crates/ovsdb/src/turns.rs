//! Turns of long messages, which take many times their length in memory to parse.
//!
//! Promises that the connections of a remote together parse at most [`LONG_BYTES_TOGETHER_MAX`] at a time, and that
//! each user or address takes turns with the others: a client that sends a long message waits for the earlier messages
//! of its own user or address, and for one turn of each other, however many those have sent. A turn is taken only for a
//! complete message, so no client holds one by sending slowly.

use paceline_host::{Peer, broken};
use paceline_types::limits::LONG_BYTES_TOGETHER_MAX;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// What turns are counted in.
const TURN_BYTES: usize = 1 << 10;

/// The turns of long messages at one remote.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    /// What each peer has of them, while it has connections.
    each: Arc<Mutex<BTreeMap<Peer, Weak<Semaphore>>>>,
}

/// The turns of one user's or address's messages.
#[derive(Clone, Debug)]
pub(crate) struct PeerTurns {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// A turn that is had when this is ready, until what it answers is dropped.
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
        let known = each.get(&peer).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| {
            each.retain(|_, own| own.strong_count() > 0);
            let own = free();
            each.insert(peer, Arc::downgrade(&own));
            own
        });
        PeerTurns { own, all: Arc::clone(&self.all) }
    }
}

impl PeerTurns {
    /// Waits until a message of so many bytes has its turn.
    pub(crate) fn wait(&self, bytes: usize) -> Turn {
        let permits = bytes.min(LONG_BYTES_TOGETHER_MAX) / TURN_BYTES;
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let Self { own, all } = self.clone();
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

    /// D4: who has sent many long messages does not let the message of another wait for all of them.
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
}
