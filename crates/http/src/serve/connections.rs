//! The connections of clients that the door may have, over all frontends.
//!
//! Promises that one client leaves some to the others, and that the clients of one frontend leave some to the other
//! frontends (D1). A few are kept for each frontend that is configured (`floors.rs`). A client may have another
//! connection while it has fewer than `SHARE` times the free connections that are kept for no frontend, so that one client
//! can have three quarters of these. It may have `OWN_MIN` connections as long as there is any room. A trusted proxy stands
//! for many clients, so only the rest of the door's room bounds it.
//!
//! A client that has too many gets another connection only in place of an idle one of its own, and is refused otherwise:
//! the listener cannot wait for it, because the connections behind it have to be accepted. When there is no room at all,
//! an idle connection of the client that has the most is closed. If no connection is idle, the next one waits to be
//! accepted.

use crate::serve::clients::Account;
use crate::serve::floors::Floors;
use paceline_host::broken;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// For each connection that is free, a client may have so many.
const SHARE: usize = 3;

/// So many a client may have, however many are free.
const OWN_MIN: usize = 4;

/// So many clients are searched for an idle connection, the clients with the most connections first.
const GREEDIEST: usize = 8;

/// The shortest time between two log lines about refused connections.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// All connections of clients.
#[derive(Debug)]
pub(crate) struct Connections {
    books: Mutex<Books>,
    freed: Notify,
}

#[derive(Debug)]
struct Books {
    frontends: Floors<Box<str>>,
    /// How many each client has, and the number of its account.
    clients: BTreeSet<(usize, u64)>,
    /// Refused and not logged yet.
    refused: u64,
    logged: Option<Instant>,
}

/// Why a client gets no connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It has its share.
    Share,
    /// There is no room. These clients have the most, the greediest first.
    All(Vec<u64>),
}

impl Connections {
    /// Room for so many.
    pub fn new(total: usize) -> Arc<Self> {
        let frontends = Floors::new(total.max(1));
        let books = Books { frontends, clients: BTreeSet::new(), refused: 0, logged: None };
        Arc::new(Self { books: Mutex::new(books), freed: Notify::new() })
    }

    /// These are the frontends from now on.
    pub fn share_among(&self, frontends: impl IntoIterator<Item = Box<str>>) {
        self.books().frontends.configure(frontends);
        self.freed.notify_waiters();
    }

    /// One for a client that has connected to a frontend.
    ///
    /// # Errors
    ///
    /// When it may have none now.
    pub fn enter(
        self: &Arc<Self>,
        frontend: &str,
        account: &Arc<Account>,
    ) -> Result<CountedConnection, Full> {
        let books = self.books();
        let common = books.frontends.common();
        let share = common.saturating_mul(SHARE).max(OWN_MIN);
        if !account.is_of_many && account.connections.load(Ordering::Relaxed) >= share {
            return Err(Full::Share);
        }
        if common == 0 && !books.frontends.has_kept(frontend) {
            let greediest = books.clients.iter().rev().take(GREEDIEST);
            return Err(Full::All(greediest.map(|(_, number)| *number).collect()));
        }
        Ok(self.take(books, frontend, account))
    }

    /// One for a client that must have it: another connection is about to end for it, or the daemon ends.
    pub fn enter_anyhow(
        self: &Arc<Self>,
        frontend: &str,
        account: &Arc<Account>,
    ) -> CountedConnection {
        self.take(self.books(), frontend, account)
    }

    /// Returns when there may be room again.
    pub fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// Logs that a connection from `client` was refused, but not each.
    pub fn log_refused(&self, frontend: &str, client: &str) {
        let mut books = self.books();
        books.refused += 1;
        let now = Instant::now();
        if books.logged.is_some_and(|logged| now.duration_since(logged) < LOG_PAUSE) {
            return;
        }
        books.logged = Some(now);
        let refused = std::mem::take(&mut books.refused);
        drop(books);
        tracing::warn!(frontend, client, refused, "refused connections: a client has too many");
    }

    fn take(
        self: &Arc<Self>,
        mut books: MutexGuard<'_, Books>,
        frontend: &str,
        account: &Arc<Account>,
    ) -> CountedConnection {
        books.frontends.take(frontend.into());
        books.count(account, |count| count + 1);
        let (all, account) = (Arc::clone(self), Arc::clone(account));
        CountedConnection { all, frontend: frontend.into(), account }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(broken)
    }
}

impl Books {
    fn count(&mut self, account: &Account, change: impl FnOnce(usize) -> usize) {
        let before = account.connections.load(Ordering::Relaxed);
        let after = change(before);
        account.connections.store(after, Ordering::Relaxed);
        self.clients.remove(&(before, account.number));
        if after > 0 {
            self.clients.insert((after, account.number));
        }
    }
}

/// That a connection is counted; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection {
    all: Arc<Connections>,
    frontend: Box<str>,
    account: Arc<Account>,
}

impl CountedConnection {
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut books = self.all.books();
        books.frontends.give_back(&*self.frontend);
        books.count(&self.account, |count| count - 1);
        drop(books);
        self.all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::{Connections, CountedConnection, Full, OWN_MIN};
    use crate::serve::clients::{Account, Client, Clients};
    use std::sync::Arc;

    const ALL: usize = 100;

    fn shared() -> Arc<Connections> {
        let all = Connections::new(ALL);
        all.share_among(["web".into(), "other".into()]);
        all
    }

    fn account(clients: &Clients, text: &str) -> Arc<Account> {
        clients.account(Client::Address(text.parse().unwrap()))
    }

    /// As many as a client gets.
    fn greedy(all: &Arc<Connections>, frontend: &str, of: &Arc<Account>) -> Vec<CountedConnection> {
        std::iter::from_fn(|| all.enter(frontend, of).ok()).collect()
    }

    #[test]
    fn one_client_leaves_connections_to_others_d1() {
        let (all, clients) = (shared(), Clients::default());
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|text| account(&clients, text));
        let held = greedy(&all, "web", &one);
        assert_eq!(
            held.len(),
            63,
            "three quarters of those that are not kept for the other frontend"
        );
        assert_eq!(all.enter("other", &one).unwrap_err(), Full::Share, "nor there");
        assert!(greedy(&all, "web", &two).len() > OWN_MIN, "those are given back");
        assert!(greedy(&all, "other", &two).len() > OWN_MIN);
        drop(held);
        assert!(all.books().clients.is_empty());
        assert_eq!(greedy(&all, "web", &one).len(), 63);
    }

    /// A proxy that is trusted has all but what is kept for other frontends; an idle one of its connections makes room.
    #[test]
    fn a_trusted_proxy_leaves_connections_to_other_frontends_d1() {
        let (all, clients) = (shared(), Clients::default());
        let (proxy, two) = (clients.account(Client::Trusted), account(&clients, "192.0.2.2"));
        let held = greedy(&all, "web", &proxy);
        assert_eq!(held.len(), ALL - 16);
        assert_eq!(all.enter("web", &two).unwrap_err(), Full::All(vec![proxy.number]));
        assert_eq!(greedy(&all, "other", &two).len(), OWN_MIN);
        // Each takes the place of an idle one of the proxy's, but no client has them all by that.
        let more: Vec<_> = (0..OWN_MIN).map(|_| all.enter_anyhow("web", &two)).collect();
        assert_eq!(all.enter("web", &two).unwrap_err(), Full::Share);
        drop((held, more));
        assert!(all.books().clients.is_empty());
    }
}
