//! Memory that connections use because their clients do not read, or do not finish what they send.
//!
//! It is counted over all connections, and for each peer: a user of this machine, or an address. A connection may use a
//! quarter of what is left to its peer. So a single connection can have its maximum, and many share: the more they use,
//! the less each may use (the dynamic threshold of a switch's buffer). Every connection may always use a little, so
//! that no client is shut out. Bytes stop counting when they are dropped, whichever part drops them.
//!
//! Promises (D1) that all connections together use no more than the budget and a little for each; that a peer has at
//! most a quarter of it, and all users without a role a sixteenth; and that the last tenth is reserved for root and the
//! user who runs the daemon. An item for a client that had read everything is allowed beyond that, up to as much again.
//!
//! It only counts; the callers decide what happens to a connection that exceeds its share. It takes a lock only when a
//! connection begins.

use crate::places::Peer;
use paceline_types::limits::{SHARE_BYTES_MIN, UNREAD_BYTES_TOGETHER_MAX};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// The memory that all connections may use together.
#[derive(Debug)]
pub(crate) struct Whole {
    bytes_max: usize,
    used: AtomicUsize,
    /// The budget of each peer that has connections.
    peers: Mutex<BTreeMap<Option<Peer>, Weak<Budget>>>,
}

/// The memory that the connections of one peer may use together.
#[derive(Debug)]
pub struct Budget {
    whole: Arc<Whole>,
    used: AtomicUsize,
    /// The most that this peer may use of the whole.
    bytes_max: usize,
    /// This peer may use no more once all peers together use this much.
    open: usize,
    /// What this peer may use whatever the others use.
    kept: usize,
    /// The most that one of its connections may use.
    share_max: usize,
}

impl Default for Whole {
    fn default() -> Self {
        Self::of(UNREAD_BYTES_TOGETHER_MAX)
    }
}

impl Whole {
    fn of(bytes_max: usize) -> Self {
        Self { bytes_max, used: AtomicUsize::new(0), peers: Mutex::default() }
    }

    /// The budget of `peer`. Sessions without a peer share one.
    pub(crate) fn budget(self: &Arc<Self>, peer: Option<Peer>) -> Arc<Budget> {
        // All users without a role share one budget, however many they are.
        let peer = match peer {
            Some(Peer::Stranger(_)) => Some(Peer::Stranger(0)),
            other => other,
        };
        let mut peers = crate::sync::lock(&self.peers);
        let known = peers.get(&peer).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            peers.retain(|_, budget| budget.strong_count() > 0);
            let budget = Arc::new(self.new_budget(peer));
            peers.insert(peer, Arc::downgrade(&budget));
            budget
        })
    }

    fn new_budget(self: &Arc<Self>, peer: Option<Peer>) -> Budget {
        let (all, tenth) = (self.bytes_max, self.bytes_max / 10);
        let (bytes_max, share_max) = match peer {
            Some(Peer::Owner) => (all, usize::MAX),
            Some(Peer::User(_) | Peer::Address(_)) => (all / 4, usize::MAX),
            // They may do nothing but `echo`.
            Some(Peer::Stranger(_)) => (all / 16, SHARE_BYTES_MIN),
            None => (all - tenth, usize::MAX),
        };
        let (open, kept) = match peer {
            Some(Peer::Owner) => (all, tenth),
            _ => (all - tenth, 0),
        };
        let (whole, used) = (Arc::clone(self), AtomicUsize::new(0));
        Budget { whole, used, bytes_max, open, kept, share_max }
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Budget {
    /// What one connection may use now; `most` is what it may use when it is alone.
    #[must_use]
    pub fn share(&self, most: usize) -> usize {
        let (used, all) = (self.used(), self.whole.used());
        let left = self.bytes_max.saturating_sub(used).min(self.open.saturating_sub(all));
        let left = left.max(self.kept.saturating_sub(used));
        (left / 4).max(SHARE_BYTES_MIN).min(most).min(self.share_max)
    }

    /// What the connections of this peer use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether this peer, or all peers together, use more than they may.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.is_more_than(1)
    }

    /// Whether so much is used that there is no room even for a client that had read everything.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.is_more_than(2)
    }

    fn is_more_than(&self, times: usize) -> bool {
        let (used, all) = (self.used(), self.whole.used());
        used > times * self.kept && (used > times * self.bytes_max || all > times * self.open)
    }

    /// A part of this budget, of zero bytes at first.
    #[must_use]
    pub fn part(self: &Arc<Self>) -> Part {
        Part { budget: Arc::clone(self), bytes: 0 }
    }
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
pub struct Part {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Part {
    /// Sets the number of bytes that count.
    pub fn set(&mut self, bytes: usize) {
        for used in [&self.budget.used, &self.budget.whole.used] {
            match bytes.checked_sub(self.bytes) {
                Some(0) => return,
                Some(more) => used.fetch_add(more, Ordering::Relaxed),
                None => used.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
            };
        }
        self.bytes = bytes;
    }

    /// The number of bytes that count.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The budget that it counts in.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const ALL: usize = 1 << 30;
    const ALONE: usize = 16 << 20;

    /// Parts of a budget, each as large as allowed.
    fn greedy(budget: &Arc<Budget>, count: usize) -> Vec<Part> {
        let part = |_| {
            let mut part = budget.part();
            part.set(budget.share(ALONE));
            part
        };
        (0..count).map(part).collect()
    }

    #[test]
    fn one_alone_has_all_and_many_share_d1() {
        let whole = Arc::new(Whole::of(ALL));
        let budget = whole.budget(Some(Peer::Owner));
        assert_eq!(budget.share(ALONE), ALONE);
        let mut greedy = greedy(&budget, 10_000);
        assert!(budget.share(ALONE) <= 128 << 10, "{} are left to each", budget.share(ALONE));
        assert!(budget.used() <= ALL + 10_000 * SHARE_BYTES_MIN);
        greedy.truncate(10);
        assert_eq!(budget.share(ALONE), ALONE);
        greedy.clear();
        assert_eq!((budget.used(), whole.used()), (0, 0));
    }

    #[test]
    fn a_little_is_always_allowed_d1() {
        let whole = Arc::new(Whole::of(1 << 20));
        let budget = whole.budget(Some(Peer::User(1)));
        let mut part = budget.part();
        part.set(5 << 20);
        assert!(budget.is_spent() && budget.is_exceeded());
        assert_eq!(budget.share(ALONE), SHARE_BYTES_MIN);
        assert_eq!(budget.share(100), 100);
        part.set(300 << 10);
        assert!(budget.is_spent() && !budget.is_exceeded());
        part.set(1 << 10);
        assert!(!budget.is_spent());
    }

    /// However many connections a peer has, other peers have room. If many peers use everything, root still has
    /// room.
    #[test]
    fn no_peer_has_all_d1() {
        let whole = Arc::new(Whole::of(ALL));
        let little = 1_000 * SHARE_BYTES_MIN;
        let strangers = whole.budget(Some(Peer::Stranger(65_534)));
        let stranger = greedy(&strangers, 1_000);
        assert!(stranger.iter().all(|part| part.bytes() <= SHARE_BYTES_MIN));
        assert!(Arc::ptr_eq(&strangers, &whole.budget(Some(Peer::Stranger(1)))));
        let user = whole.budget(Some(Peer::User(1)));
        let mut greedy_user = greedy(&user, 1_000);
        assert!(user.used() <= ALL / 4 + little, "{} bytes", user.used());
        assert!(Arc::ptr_eq(&user, &whole.budget(Some(Peer::User(1)))));
        let honest = whole.budget(Some(Peer::User(2)));
        assert_eq!(honest.share(ALONE), ALONE);
        assert!(!honest.is_spent());
        let address = |number: u8| Peer::Address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)));
        for number in 0..8 {
            let budget = whole.budget(Some(address(number)));
            greedy_user.extend(greedy(&budget, 100));
        }
        assert_eq!(honest.share(ALONE), SHARE_BYTES_MIN);
        let owner = whole.budget(Some(Peer::Owner));
        assert_eq!(owner.share(ALONE), ALONE);
        assert!(!owner.is_spent());
        drop((stranger, greedy_user));
        assert_eq!(whole.used(), 0);
        drop((strangers, user, honest, owner));
        let _one = whole.budget(Some(Peer::Owner));
        assert_eq!(crate::sync::lock(&whole.peers).len(), 1, "peers that have left are forgotten");
    }
}
