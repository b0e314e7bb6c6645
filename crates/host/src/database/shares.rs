//! Counts what clients take of a bounded resource of a database: monitors, waiting transactions, and the steps
//! of trying those again. The locks of connections are counted in the same way.
//!
//! Promises that neither a connection nor a client with many connections (a user of this machine, or an
//! address) takes all of it: each has a bound well below that of the database. A part is reserved for root and
//! the user who runs the daemon, who are bounded only per connection.

use crate::places::Peer;
use crate::session::Session;
use paceline_locks::SessionId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// For one connection.
    pub(crate) connection: u64,
    /// For all connections of one user or address.
    pub(crate) peer: u64,
    /// For all clients of the database.
    pub(crate) all: u64,
    /// The part of that which only root and the user who runs the daemon may take.
    pub(crate) kept: u64,
}

/// Which bound a client has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Connection,
    Peer,
    All,
}

/// The client that a share belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    session: SessionId,
    peer: Option<Peer>,
}

impl Holder {
    pub(crate) fn of(session: &Session) -> Self {
        Self { session: session.id, peer: session.peer() }
    }
}

/// What clients have taken.
#[derive(Debug)]
pub(crate) struct Shares {
    bound: Bound,
    all: u64,
    /// Only connections and peers that have taken something.
    sessions: BTreeMap<SessionId, u64>,
    peers: BTreeMap<Peer, u64>,
}

impl Shares {
    pub(crate) const fn new(bound: Bound) -> Self {
        Self { bound, all: 0, sessions: BTreeMap::new(), peers: BTreeMap::new() }
    }

    /// Whether nothing is taken.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        (self.all, self.sessions.len(), self.peers.len()) == (0, 0, 0)
    }

    /// Takes `amount`, unless that is more than a bound allows.
    pub(crate) fn take(&mut self, holder: Holder, amount: u64) -> Result<(), Full> {
        if amount == 0 {
            // Even if others have taken everything, or more than is open to this client.
            return Ok(());
        }
        let Bound { connection, peer, all, kept } = self.bound;
        let has = |taken: Option<&u64>| taken.copied().unwrap_or(0).saturating_add(amount);
        if has(self.sessions.get(&holder.session)) > connection {
            return Err(Full::Connection);
        }
        let is_owner = holder.peer == Some(Peer::Owner);
        let by_peer = holder.peer.filter(|_| !is_owner);
        if by_peer.is_some_and(|known| has(self.peers.get(&known)) > peer) {
            return Err(Full::Peer);
        }
        let open = if is_owner { all } else { all.saturating_sub(kept) };
        if has(Some(&self.all)) > open {
            return Err(Full::All);
        }
        self.all += amount;
        *self.sessions.entry(holder.session).or_insert(0) += amount;
        if let Some(peer) = by_peer {
            *self.peers.entry(peer).or_insert(0) += amount;
        }
        Ok(())
    }

    /// Releases what [`Shares::take`] took.
    pub(crate) fn give_back(&mut self, holder: Holder, amount: u64) {
        self.all -= amount;
        subtract(self.sessions.entry(holder.session), amount);
        if let Some(peer) = holder.peer.filter(|peer| *peer != Peer::Owner) {
            subtract(self.peers.entry(peer), amount);
        }
    }
}

fn subtract<K: Ord>(entry: Entry<'_, K, u64>, amount: u64) {
    if let Entry::Occupied(mut share) = entry {
        *share.get_mut() -= amount;
        if *share.get() == 0 {
            share.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Full, Holder, Shares};
    use crate::places::Peer;
    use paceline_locks::SessionId;

    #[test]
    fn nobody_takes_all() {
        let bound = Bound { connection: 3, peer: 5, all: 12, kept: 4 };
        let mut shares = Shares::new(bound);
        let holder = |session, peer| Holder { session: SessionId(session), peer: Some(peer) };
        let mut taken = Vec::new();
        for (session, peer, full) in [
            (1, Peer::User(1), Full::Connection),
            (2, Peer::User(1), Full::Peer),
            (3, Peer::User(2), Full::Connection),
            (4, Peer::User(2), Full::All),
            (5, Peer::Owner, Full::Connection),
            (6, Peer::Owner, Full::All),
        ] {
            let holder = holder(session, peer);
            let refused = loop {
                match shares.take(holder, 1) {
                    Ok(()) => taken.push(holder),
                    Err(full) => break full,
                }
            };
            assert_eq!(refused, full, "connection {session}");
        }
        assert_eq!(taken.len(), 12);
        taken.into_iter().for_each(|holder| shares.give_back(holder, 1));
        assert!(shares.is_empty());
        assert_eq!(shares.take(holder(1, Peer::User(1)), 4), Err(Full::Connection));
        assert_eq!(shares.take(holder(1, Peer::User(1)), 3), Ok(()));
    }
}
