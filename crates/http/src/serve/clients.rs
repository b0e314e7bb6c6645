//! What each client of the door uses: connections, waiting requests, and bodies that arrived early.
//!
//! A client is identified by the address that it is believed to have (H5), counted as the other doors count peers:
//! all loopback addresses are one client, and so are all addresses of one IPv6 network of 64 bits. On a unix socket a
//! client is a local user. A trusted proxy that does not name its clients stands for many, so it has an account but
//! no bound of its own. Every other client gets only a part of each shared total, so that other clients find room
//! (D1). The bounds are defined beside the totals that they divide (`connections.rs`, `h2/room.rs`, and here for
//! waiting requests).
//!
//! A request waits from the moment it finds no room until it has a connection to a server, whether it waits in a
//! queue, for another server or for a descriptor. Requests that never wait take no lock here.

use paceline_host::{Peer, broken};
use paceline_types::limits::{REQUESTS_BYTES_MAX, REQUESTS_MAX};
use paceline_types::{Reason, Refusal};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Frontends together may hold the maximum of all requests divided by this.
const PARTS_OF_FRONTENDS: usize = 2;

/// One client may have that number divided by this waiting.
const PARTS_OF_ONE: usize = 4;

/// Unused accounts are dropped only above this number of accounts.
const ACCOUNTS_MIN: usize = 1_024;

/// The client of a connection or a request, as far as it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// A machine.
    Address(IpAddr),
    /// A user of this machine, by its number.
    User(u32),
    /// A client that a trusted proxy reports as unknown.
    Unnamed,
    /// A trusted proxy that does not name its client.
    Trusted,
}

/// The totals of one client, over all its connections.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// The number of the account; never reused.
    pub number: u64,
    /// Whether the account stands for many clients, and so has no bound of its own.
    pub is_of_many: bool,
    /// Bytes of bodies that arrived before they could be forwarded.
    pub early_bytes: AtomicUsize,
    requests: AtomicUsize,
    request_bytes: AtomicUsize,
}

/// The accounts of all clients that use something.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Maximum waiting requests of one client.
    requests_max: usize,
    bytes_max: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// By whether the account stands for many clients, and by the peer if it is known.
    accounts: BTreeMap<(bool, Option<Peer>), Weak<Account>>,
    /// The number of the last account.
    last: u64,
    /// The number of accounts at which unused ones are dropped.
    prune_at: usize,
}

impl Default for Clients {
    fn default() -> Self {
        let part = |all: usize| all / PARTS_OF_FRONTENDS / PARTS_OF_ONE;
        Self::new(part(REQUESTS_MAX), part(REQUESTS_BYTES_MAX))
    }
}

impl Clients {
    fn new(requests_max: usize, bytes_max: usize) -> Self {
        Self { requests_max, bytes_max, known: Mutex::default() }
    }

    /// The account of a client.
    pub fn account(&self, client: Client) -> Arc<Account> {
        let key = match client {
            Client::Address(address) => (false, Some(Peer::of_address(address))),
            Client::User(uid) => (false, Some(Peer::User(uid))),
            Client::Unnamed => (false, None),
            Client::Trusted => (true, None),
        };
        let mut known = self.known.lock().unwrap_or_else(broken);
        if let Some(account) = known.accounts.get(&key).and_then(Weak::upgrade) {
            return account;
        }
        if known.accounts.len() >= known.prune_at {
            known.accounts.retain(|_, account| account.strong_count() > 0);
            known.prune_at = ACCOUNTS_MIN.max(2 * known.accounts.len());
        }
        known.last += 1;
        let number = known.last;
        let account = Arc::new(Account { number, is_of_many: key.0, ..Account::default() });
        known.accounts.insert(key, Arc::downgrade(&account));
        account
    }

    /// Counts one more waiting request of so many bytes, until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// When the client already has its maximum.
    fn enter(&self, client: Client, bytes: usize) -> Result<Waiter, Refusal> {
        let account = self.account(client);
        let requests = account.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let all_bytes = account.request_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // If the request is refused, dropping `waiter` undoes the count.
        let waiter = Waiter { account, bytes };
        let full = |of, max: usize| Refusal::lasting(Reason::Exhausted { of, max: max as u64 });
        if waiter.account.is_of_many {
            return Ok(waiter);
        }
        if requests > self.requests_max {
            return Err(full("requests of one client that wait", self.requests_max));
        }
        if all_bytes > self.bytes_max {
            let of = "bytes of attributes of one client's requests that wait";
            return Err(full(of, self.bytes_max));
        }
        Ok(waiter)
    }
}

/// Counts a waiting request until it is dropped.
#[derive(Debug)]
struct Waiter {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.account.requests.fetch_sub(1, Ordering::Relaxed);
        self.account.request_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Counts a request for its client from its first wait until it has a connection to a server.
#[derive(Debug)]
pub(crate) struct WaitCount {
    client: Client,
    bytes: usize,
    waiter: Option<Waiter>,
}

impl WaitCount {
    /// The count of a request of so many bytes that has not waited yet.
    pub const fn new(client: Client, bytes: usize) -> Self {
        Self { client, bytes, waiter: None }
    }

    /// Starts to count the request as waiting, unless it already does.
    ///
    /// # Errors
    ///
    /// When the client already has its maximum of waiting requests.
    pub fn wait(&mut self, clients: &Clients) -> Result<(), Refusal> {
        if self.waiter.is_none() {
            self.waiter = Some(clients.enter(self.client, self.bytes)?);
        }
        Ok(())
    }

    /// The request has a connection and no longer counts.
    pub fn arrive(&mut self) {
        self.waiter = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{ACCOUNTS_MIN, Client, Clients, WaitCount};
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    fn address(text: &str) -> Client {
        Client::Address(text.parse().unwrap())
    }

    /// Counts a waiting request, or returns why it is refused.
    fn wait(clients: &Clients, client: Client, bytes: usize) -> Result<WaitCount, String> {
        let mut waits = WaitCount::new(client, bytes);
        waits.wait(clients).map_err(|refusal| refusal.to_string())?;
        Ok(waits)
    }

    #[test]
    fn no_client_has_all_d1() {
        let clients = Clients::new(2, 100);
        let wait = |client, bytes| wait(&clients, client, bytes);
        let held = [wait(address("127.0.0.1"), 10), wait(address("127.0.0.2"), 10)];
        let refused = wait(address("::1"), 10).unwrap_err();
        assert!(refused.ends_with("no more than 2 requests of one client that wait at a time"));
        let near = wait(address("2001:db8::1"), 60).unwrap();
        let refused = wait(address("2001:db8::2"), 60).unwrap_err();
        assert!(refused.contains("no more than 100 bytes"), "{refused}");
        let others = ["2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"].map(address);
        let unix = [Client::Unnamed, Client::User(0), Client::User(7)];
        for other in others.into_iter().chain(unix) {
            assert!(wait(other, 100).is_ok(), "{other:?}");
        }
        drop((held, near));
        assert!(wait(address("127.0.0.1"), 100).is_ok(), "what is given back is free");
    }

    /// A request counts once from its first wait until it has a connection.
    #[test]
    fn a_request_counts_until_it_has_a_connection_d1() {
        let clients = Clients::new(1, 100);
        let client = address("192.0.2.1");
        let mut first = WaitCount::new(client, 10);
        assert!(wait(&clients, client, 10).is_ok(), "it has not waited yet");
        assert!((0..3).all(|_| first.wait(&clients).is_ok()));
        assert!(wait(&clients, client, 10).is_err());
        first.arrive();
        assert!(wait(&clients, client, 10).is_ok());
    }

    #[test]
    fn a_trusted_proxy_stands_for_many() {
        let clients = Clients::new(1, 1);
        let held: Vec<_> = (0..10).map(|_| wait(&clients, Client::Trusted, 10)).collect();
        assert!(held.iter().all(Result::is_ok));
    }

    #[test]
    fn connections_of_one_client_share_an_account() {
        let clients = Clients::default();
        let one = clients.account(address("192.0.2.1"));
        assert!(Arc::ptr_eq(&one, &clients.account(address("192.0.2.1"))));
        assert!(!Arc::ptr_eq(&one, &clients.account(address("192.0.2.2"))));
        assert!(!Arc::ptr_eq(&clients.account(Client::Trusted), &clients.account(Client::Unnamed)));
        let [seven, eight] = [7, 8].map(|uid| clients.account(Client::User(uid)));
        assert!(!Arc::ptr_eq(&seven, &eight), "users of this machine are clients of their own");
    }

    #[test]
    fn accounts_that_nothing_uses_are_dropped_d1() {
        let clients = Clients::default();
        let of = |number: u32| Client::Address(Ipv4Addr::from_bits(number << 8).into());
        let kept = clients.account(of(1));
        (2..10 * ACCOUNTS_MIN as u32).for_each(|number| drop(clients.account(of(number))));
        assert!(clients.known.lock().unwrap().accounts.len() <= ACCOUNTS_MIN);
        assert!(Arc::ptr_eq(&kept, &clients.account(of(1))));
    }
}
