//! Requests that wait for their turn, counted by the client that they are from.
//!
//! The engine bounds all requests of frontends together. Promises that no client has more than a quarter of that by
//! requests that wait, so that the others find room (D1). A client is an address as it is believed (H5), as the other doors
//! count peers: all loopback addresses are one, and so are those of one IPv6 network of 64 bits. Proxies that are trusted
//! and say of nobody whose requests theirs are stand for many, and are not bounded by themselves.
//!
//! Requests that need not wait take no lock here.

use paceline_host::{Peer, broken};
use paceline_types::limits::{REQUESTS_BYTES_MAX, REQUESTS_MAX};
use paceline_types::{Reason, Refusal};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// The part of all requests that those of frontends may be: one of so many.
const PARTS_OF_FRONTENDS: usize = 2;

/// The part of these that one client may have waiting: one of so many.
const PARTS_OF_ONE: usize = 4;

/// Who a request is from, as far as that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// A machine.
    Address(IpAddr),
    /// Somebody whose address is not known: whoever may use a unix socket.
    Unnamed,
    /// A proxy that is trusted, and says no more.
    Trusted,
}

/// What one client may have, and what each has.
#[derive(Debug)]
pub(crate) struct Waiters {
    max: Amount,
    /// Only clients that have something.
    taken: Mutex<BTreeMap<Option<Peer>, Amount>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    requests: usize,
    bytes: usize,
}

impl Default for Waiters {
    fn default() -> Self {
        let part = |all: usize| all / PARTS_OF_FRONTENDS / PARTS_OF_ONE;
        Self::new(part(REQUESTS_MAX), part(REQUESTS_BYTES_MAX))
    }
}

impl Waiters {
    fn new(requests: usize, bytes: usize) -> Self {
        Self { max: Amount { requests, bytes }, taken: Mutex::default() }
    }

    /// Counts one more request of so many bytes, while the answer is kept; nothing is counted of those who are trusted.
    ///
    /// # Errors
    ///
    /// When its client has as much as it may have.
    pub fn enter(
        self: &Arc<Self>,
        client: Client,
        bytes: usize,
    ) -> Result<Option<Waiter>, Refusal> {
        let peer = match client {
            Client::Address(address) => Some(Peer::of_address(address)),
            Client::Unnamed => None,
            Client::Trusted => return Ok(None),
        };
        let mut taken = self.taken();
        let own = taken.get(&peer).copied().unwrap_or_default();
        let own = Amount { requests: own.requests + 1, bytes: own.bytes + bytes };
        let full = |of, max: usize| Refusal::lasting(Reason::Exhausted { of, max: max as u64 });
        if own.requests > self.max.requests {
            return Err(full("requests of one client that wait", self.max.requests));
        }
        if own.bytes > self.max.bytes {
            let of = "bytes of attributes of one client's requests that wait";
            return Err(full(of, self.max.bytes));
        }
        taken.insert(peer, own);
        drop(taken);
        Ok(Some(Waiter { all: Arc::clone(self), peer, bytes }))
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<Option<Peer>, Amount>> {
        self.taken.lock().unwrap_or_else(broken)
    }
}

/// That a request is counted; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    all: Arc<Waiters>,
    peer: Option<Peer>,
    bytes: usize,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut taken = self.all.taken();
        let Some(own) = taken.get_mut(&self.peer) else { return };
        own.requests -= 1;
        own.bytes -= self.bytes;
        if own.requests == 0 {
            taken.remove(&self.peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, Waiters};
    use std::sync::Arc;

    fn address(text: &str) -> Client {
        Client::Address(text.parse().unwrap())
    }

    #[test]
    fn no_client_has_all_d1() {
        let waiters = Arc::new(Waiters::new(2, 100));
        let enter = |client, bytes| waiters.enter(client, bytes);
        let held = [enter(address("127.0.0.1"), 10), enter(address("127.0.0.2"), 10)];
        let refused = enter(address("::1"), 10).unwrap_err().to_string();
        assert!(refused.ends_with("no more than 2 requests of one client that wait at a time"));
        let near = enter(address("2001:db8::1"), 60).unwrap();
        let refused = enter(address("2001:db8::2"), 60).unwrap_err().to_string();
        assert!(refused.contains("no more than 100 bytes"), "{refused}");
        let others = ["2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"].map(address);
        for other in others.into_iter().chain([Client::Unnamed]) {
            assert!(enter(other, 100).unwrap().is_some(), "{other:?}");
        }
        drop((held, near));
        assert!(waiters.taken().is_empty(), "what is given back is free");
        assert!(enter(address("127.0.0.1"), 100).is_ok());
    }

    #[test]
    fn a_trusted_proxy_stands_for_many() {
        let waiters = Arc::new(Waiters::new(1, 1));
        let held: Vec<_> = (0..10).map(|_| waiters.enter(Client::Trusted, 10)).collect();
        assert!(held.iter().all(Result::is_ok) && waiters.taken().is_empty());
    }
}
