//! The connections of clients that the door may have, over all frontends and at each.
//!
//! Promises that one client leaves some to the others, and that the clients of one frontend leave some to the other
//! frontends (D1). A few are kept for each frontend that is configured (`floors.rs`). A client may have another
//! connection while it has fewer than `SHARE` times the free connections that are kept for no frontend, so that one client
//! can have three quarters of these. It may have `OWN_MIN` connections as long as there is any room. The same threshold
//! holds at each frontend, of its `max_connections`. A trusted proxy stands for many clients, so only the rest of the
//! room bounds it.
//!
//! A client that has too many gets another connection only in place of an idle one of its own, and is refused otherwise:
//! the listener cannot wait for it, because the connections behind it have to be accepted. When there is no room at all,
//! an idle connection of the client that has the most is closed. If no connection is idle, the next one waits to be
//! accepted. A connection that is closed for another gives its place back before the other has it, and begins no request
//! meanwhile. So there are never more than allowed, except for those that are accepted when a listener ends.

use crate::serve::clients::Account;
use crate::serve::floors::Floors;
use paceline_host::{Tally, broken};
use std::collections::{BTreeMap, BTreeSet};
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

/// A frontend that a client has connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub frontend: &'a str,
    /// Its `max_connections`.
    pub max: usize,
    /// Where its connections are counted. They change under the lock of `Connections` only.
    pub tally: &'a Arc<Tally>,
}

impl At<'_> {
    fn number(&self) -> FrontendNumber {
        number_of(self.tally)
    }

    /// How many more it may have.
    fn free(&self) -> usize {
        self.max.saturating_sub(self.tally.connections.load(Ordering::Relaxed))
    }
}

/// What tells frontends apart, whatever they are called by now: where their tallies are.
pub(crate) type FrontendNumber = usize;

fn number_of(tally: &Arc<Tally>) -> FrontendNumber {
    Arc::as_ptr(tally).addr()
}

/// The connections that a bound is for: those of one frontend, or all.
pub(crate) type Scope = Option<FrontendNumber>;

/// Why a client gets no connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It has its share of these.
    Share(Scope),
    /// There is no room. These clients have the most, the greediest first.
    All(Scope, Vec<u64>),
}

#[derive(Debug)]
struct Books {
    frontends: Floors<Box<str>>,
    clients: Shares,
    /// Refused and not logged yet.
    refused: u64,
    logged: Option<Instant>,
}

/// How many connections each client has, by the number of its account.
#[derive(Debug, Default)]
struct Shares {
    counts: BTreeMap<(Scope, u64), usize>,
    /// The same, those that have the most last.
    by_count: BTreeSet<(Scope, usize, u64)>,
}

impl Shares {
    fn count(&self, scope: Scope, account: &Account) -> usize {
        self.counts.get(&(scope, account.number)).copied().unwrap_or(0)
    }

    fn greediest(&self, scope: Scope) -> Vec<u64> {
        let all = self.by_count.range((scope, 0, 0)..=(scope, usize::MAX, u64::MAX));
        all.rev().take(GREEDIEST).map(|(_, _, number)| *number).collect()
    }

    /// A client has one more at a frontend.
    fn add(&mut self, at: FrontendNumber, account: &Account) {
        self.change(at, account, |count| count + 1);
    }

    /// It has one fewer.
    fn remove(&mut self, at: FrontendNumber, account: &Account) {
        self.change(at, account, |count| count - 1);
    }

    fn change(&mut self, at: FrontendNumber, account: &Account, change: impl Fn(usize) -> usize) {
        for scope in [None, Some(at)] {
            let before = self.count(scope, account);
            let after = change(before);
            self.by_count.remove(&(scope, before, account.number));
            if after > 0 {
                self.by_count.insert((scope, after, account.number));
                self.counts.insert((scope, account.number), after);
            } else {
                self.counts.remove(&(scope, account.number));
            }
        }
    }
}

impl Connections {
    /// Room for so many.
    pub fn new(total: usize) -> Arc<Self> {
        let (frontends, clients) = (Floors::new(total.max(1)), Shares::default());
        let books = Books { frontends, clients, refused: 0, logged: None };
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
        at: At<'_>,
        account: &Arc<Account>,
    ) -> Result<CountedConnection, Full> {
        let books = self.books();
        if let Some(scope) = books.share_of(at, account) {
            return Err(Full::Share(scope));
        }
        // A place that is freed at the frontend is one that is free for all, but not the other way round.
        let frontend_is_full = at.free() == 0;
        let is_full = books.frontends.common() == 0 && !books.frontends.has_kept(at.frontend);
        if frontend_is_full || is_full {
            let scope = frontend_is_full.then(|| at.number());
            return Err(Full::All(scope, books.clients.greediest(scope)));
        }
        debug_assert!(books.frontends.free() > 0, "there are as many connections as may be");
        Ok(self.take(books, at, account))
    }

    /// One for a client that waits to be accepted when its listener ends: it is accepted, even if there is no room.
    pub fn enter_at_end(self: &Arc<Self>, at: At<'_>, account: &Arc<Account>) -> CountedConnection {
        self.take(self.books(), at, account)
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
        at: At<'_>,
        account: &Arc<Account>,
    ) -> CountedConnection {
        books.frontends.take(at.frontend.into());
        books.clients.add(at.number(), account);
        at.tally.connections.fetch_add(1, Ordering::Relaxed);
        CountedConnection {
            all: Arc::clone(self),
            frontend: at.frontend.into(),
            tally: Arc::clone(at.tally),
            account: Arc::clone(account),
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(broken)
    }
}

impl Books {
    /// Of which connections a client has as many as it may have, if of any.
    fn share_of(&self, at: At<'_>, account: &Account) -> Option<Scope> {
        let has_share = |scope, free: usize| {
            self.clients.count(scope, account) >= free.saturating_mul(SHARE).max(OWN_MIN)
        };
        let scopes = [(Some(at.number()), at.free()), (None, self.frontends.common())];
        let share = scopes.into_iter().find(|(scope, free)| has_share(*scope, *free));
        share.map(|(scope, _)| scope).filter(|_| !account.is_of_many)
    }
}

/// That a connection is counted; it is not when this is dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection {
    all: Arc<Connections>,
    frontend: Box<str>,
    tally: Arc<Tally>,
    account: Arc<Account>,
}

impl CountedConnection {
    pub const fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The frontend that it came in at.
    pub fn frontend(&self) -> FrontendNumber {
        number_of(&self.tally)
    }

    /// Of which connections another client, whose it would be, has as many as it may have, if of any.
    pub fn share_of(&self, at: At<'_>, account: &Account) -> Option<Scope> {
        self.all.books().share_of(at, account)
    }

    /// It is another client's from now on.
    pub fn move_to(&mut self, account: Arc<Account>) {
        let mut books = self.all.books();
        books.clients.remove(self.frontend(), &self.account);
        books.clients.add(self.frontend(), &account);
        drop(books);
        self.account = account;
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut books = self.all.books();
        books.frontends.give_back(&*self.frontend);
        books.clients.remove(self.frontend(), &self.account);
        self.tally.connections.fetch_sub(1, Ordering::Relaxed);
        drop(books);
        self.all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
