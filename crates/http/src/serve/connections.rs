//! How many client connections the door may have, in total and at each frontend.
//!
//! Promises that one client leaves connections to other clients, and the clients of one frontend to other frontends
//! (D1). A few connections are reserved for each configured frontend (`floors.rs`). A client may open another
//! connection while it has fewer than `SHARE` times the free connections that are not reserved, so one client can
//! have three quarters of these. It may have `OWN_MIN` connections as long as there is any room. The same threshold
//! applies at each frontend to its `max_connections`. A trusted proxy stands for many clients, so only the remaining
//! room bounds it.
//!
//! A client that has too many gets another connection only in place of an idle one of its own, and is refused otherwise:
//! the listener cannot wait for it, because the connections behind it have to be accepted. When there is no room at all,
//! an idle connection is closed, of the client that has the most among those that have idle ones. If no connection is
//! idle, the next one waits to be accepted. It does not matter which worker a connection belongs to. A connection that is
//! closed for another gives its place back before the other has it, and begins no request meanwhile (`presence.rs`). So
//! there are never more than allowed, except for those that are accepted when a listener ends. A connection on which a
//! response is still being sent is not idle, but that is found out only when it is about to be closed for another.
//!
//! After it has given its place back, an HTTP/2 connection stays open for a moment (`h2/leave.rs`). There is a bound of its
//! own for these, beyond which they are closed at once.
//!
//! Idle connections are listed by client, in the order in which they became idle, roughly: a connection that is used keeps
//! its place, and a search moves up to `SPARED_MAX` of these to the end. The list is touched when a connection becomes idle
//! for the first time, when it ends, and by searches. Each entry that a search strikes off or moves is one that has begun a
//! request since it was listed, so what searches cost is bounded by what requests cost.

use crate::serve::clients::Account;
use crate::serve::floors::Floors;
use crate::serve::presence::{Claim, Presence};
use paceline_host::{Tally, broken};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Connections that a client may have for each free one.
const SHARE: usize = 3;

/// Connections that a client may have, however few are free.
const OWN_MIN: usize = 4;

/// So many idle connections that were used since they were listed are passed over by one search.
const SPARED_MAX: usize = 16;

/// Maximum connections that stay open for a moment without a place, and how many places there must be for each of them.
const LINGERING_MAX: usize = 64;
const LINGERING_SHARE: usize = 8;

/// The shortest time between two log lines about refused connections.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// All client connections.
#[derive(Debug)]
pub(crate) struct Connections {
    books: Mutex<Books>,
    /// Notified when a place is given back, when a connection becomes idle that a search has missed, and when a connection
    /// that should have ended for another stays.
    freed: Notify,
    /// Counts connections that stay open for a moment without a place.
    lingering: Arc<Semaphore>,
}

/// A frontend that a client has connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub frontend: &'a str,
    /// Its `max_connections`.
    pub max: usize,
    /// Its connection count. It changes only under the lock of `Connections`.
    pub tally: &'a Arc<Tally>,
}

impl At<'_> {
    fn number(&self) -> FrontendNumber {
        number_of(self.tally)
    }

    /// How many more connections the frontend may have.
    fn free(&self) -> usize {
        self.max.saturating_sub(self.tally.connections.load(Ordering::Relaxed))
    }
}

/// Identifies a frontend across renames, by the address of its tally.
pub(crate) type FrontendNumber = usize;

fn number_of(tally: &Arc<Tally>) -> FrontendNumber {
    Arc::as_ptr(tally).addr()
}

/// The connections that a bound applies to: those of one frontend, or all.
pub(crate) type Scope = Option<FrontendNumber>;

/// Why a client gets no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The client has its share of these connections.
    Share(Scope),
    /// There is no room among these for anybody.
    All(Scope),
}

#[derive(Debug)]
struct Books {
    frontends: Floors<Box<str>>,
    clients: Shares,
    /// Whether a search has found no idle connection since one became idle.
    is_sought: bool,
    /// Refused and not logged yet.
    refused: u64,
    logged: Option<Instant>,
}

/// The connections of each client, by the number of its account.
#[derive(Debug, Default)]
struct Shares {
    groups: BTreeMap<(Scope, u64), Group>,
    /// Clients that have connections in the list, those that have the most connections last.
    by_count: BTreeSet<(Scope, usize, u64)>,
    /// The last place in the list.
    last: u64,
}

/// What one client has.
#[derive(Debug, Default)]
struct Group {
    count: usize,
    /// Those that were idle when they were looked at last, by their places in the list.
    listed: BTreeMap<u64, Arc<Presence>>,
}

impl Shares {
    fn count(&self, scope: Scope, account: u64) -> usize {
        self.groups.get(&(scope, account)).map_or(0, |group| group.count)
    }

    /// The first in the list of a client's.
    fn first_of(&self, scope: Scope, account: u64) -> Option<&Arc<Presence>> {
        let group = self.groups.get(&(scope, account))?;
        group.listed.first_key_value().map(|(_, presence)| presence)
    }

    /// The first in the list that may `give`, of the client that has the most.
    fn first_of_greediest(
        &self,
        scope: Scope,
        gives: impl Fn(&Presence) -> bool,
    ) -> Option<&Arc<Presence>> {
        let clients = self.by_count.range((scope, 0, 0)..=(scope, usize::MAX, u64::MAX)).rev();
        let groups = clients.filter_map(|(_, _, account)| self.groups.get(&(scope, *account)));
        groups.flat_map(|group| group.listed.values()).find(|presence| gives(presence))
    }

    /// A client has one more at a frontend.
    fn add(&mut self, at: FrontendNumber, account: u64) {
        self.change(at, account, |count| count + 1);
    }

    /// It has one fewer.
    fn remove(&mut self, at: FrontendNumber, account: u64) {
        self.change(at, account, |count| count - 1);
    }

    fn change(&mut self, at: FrontendNumber, account: u64, change: impl Fn(usize) -> usize) {
        for scope in [None, Some(at)] {
            let group = self.groups.entry((scope, account)).or_default();
            let before = group.count;
            group.count = change(before);
            if self.by_count.remove(&(scope, before, account)) {
                self.by_count.insert((scope, group.count, account));
            }
            if group.count == 0 {
                self.groups.remove(&(scope, account));
            }
        }
    }

    /// Puts a connection at the end of the list.
    fn list(&mut self, presence: &Arc<Presence>) {
        self.last += 1;
        presence.set_listed(self.last);
        let account = presence.account();
        for scope in [None, Some(presence.frontend_number)] {
            let Some(group) = self.groups.get_mut(&(scope, account)) else { continue };
            group.listed.insert(self.last, Arc::clone(presence));
            self.by_count.insert((scope, group.count, account));
        }
    }

    /// Takes one out of the list.
    fn strike_off(&mut self, presence: &Presence) {
        let account = presence.account();
        for scope in [None, Some(presence.frontend_number)] {
            let Some(group) = self.groups.get_mut(&(scope, account)) else { continue };
            group.listed.remove(&presence.ticket());
            if group.listed.is_empty() {
                self.by_count.remove(&(scope, group.count, account));
            }
        }
    }
}

impl Connections {
    /// Room for `total` connections.
    pub fn new(total: usize) -> Arc<Self> {
        let (frontends, clients) = (Floors::new(total.max(1)), Shares::default());
        let books = Books { frontends, clients, is_sought: false, refused: 0, logged: None };
        let lingering = Semaphore::new((total / LINGERING_SHARE).min(LINGERING_MAX));
        let (books, lingering) = (Mutex::new(books), Arc::new(lingering));
        Arc::new(Self { books, freed: Notify::new(), lingering })
    }

    /// Sets the configured frontends.
    pub fn share_among(&self, frontends: impl IntoIterator<Item = Box<str>>) {
        self.books().frontends.configure(frontends);
        self.freed.notify_waiters();
    }

    /// Counts a connection of a client at a frontend.
    ///
    /// # Errors
    ///
    /// When the client may have none now.
    pub fn enter(
        self: &Arc<Self>,
        at: At<'_>,
        account: &Arc<Account>,
    ) -> Result<CountedConnection, Full> {
        let books = self.books();
        if let Some(scope) = books.share_of(at, account) {
            return Err(Full::Share(scope));
        }
        // A place that is freed at the frontend is also free in total, but not the other way round.
        let frontend_is_full = at.free() == 0;
        let is_full = books.frontends.common() == 0 && !books.frontends.has_kept(at.frontend);
        if frontend_is_full || is_full {
            return Err(Full::All(frontend_is_full.then(|| at.number())));
        }
        debug_assert!(books.frontends.free() > 0, "there are as many connections as may be");
        Ok(self.take(books, at, account))
    }

    /// Counts a connection that was pending when its listener ended. It is accepted even if there is no room.
    pub fn enter_at_end(self: &Arc<Self>, at: At<'_>, account: &Arc<Account>) -> CountedConnection {
        self.take(self.books(), at, account)
    }

    /// Has an idle connection end for one that does not fit, on whichever worker it is. Returns it, if there was any.
    fn displace(&self, full: Full, at: At<'_>, account: &Account) -> Option<Arc<Presence>> {
        let mut books = self.books();
        let displaced = books.displace(full, at.frontend, account.number);
        books.is_sought |= displaced.is_none();
        drop(books);
        displaced.inspect(|presence| presence.wake())
    }

    /// A connection that is not in the list has become idle.
    pub fn list(&self, presence: &Arc<Presence>) {
        let mut books = self.books();
        books.clients.list(presence);
        let is_sought = std::mem::take(&mut books.is_sought);
        drop(books);
        if is_sought {
            self.freed.notify_waiters();
        }
    }

    /// A connection that should have ended for another stays.
    pub fn look_again(&self) {
        self.freed.notify_waiters();
    }

    /// Waits until a connection of this client `fits`. While it does not, idle connections end for it, one after the other.
    /// Returns none if its client has too many.
    pub async fn room_for<T>(
        &self,
        at: At<'_>,
        account: &Account,
        mut fits: impl FnMut() -> Result<T, Full>,
    ) -> Option<T> {
        // The idle connection that ends for this one. This one has a place only when that one's is given back.
        let mut ending: Option<Arc<Presence>> = None;
        loop {
            // It counts as waiting before it looks, so that no place is freed in between unheard, and no connection becomes
            // idle. What was given back after this is there for `fits`.
            let mut freed = pin!(self.freed());
            freed.as_mut().enable();
            let has_ended = |ending: &Arc<Presence>| ending.has_ended() || !ending.is_displaced();
            let looks = ending.as_ref().is_none_or(has_ended);
            let full = match fits() {
                Ok(fitting) => return Some(fitting),
                Err(full) => full,
            };
            if looks {
                ending = self.displace(full, at, account);
                if ending.is_none() && matches!(full, Full::Share(_)) {
                    return None;
                }
            }
            freed.await;
        }
    }

    /// A permit to stay open for a moment after the place is given back, if not too many connections do.
    pub fn linger(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.lingering).try_acquire_owned().ok()
    }

    /// Returns when there may be room again, or an idle connection.
    fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// Logs refused connections, at most once per `LOG_PAUSE`.
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
        books.clients.add(at.number(), account.number);
        at.tally.connections.fetch_add(1, Ordering::Relaxed);
        drop(books);
        let (all, name) = (Arc::clone(self), at.frontend.into());
        let presence = Arc::new(Presence::new(all, name, at.number(), account.number));
        let (all, tally) = (Arc::clone(self), Arc::clone(at.tally));
        CountedConnection { all, tally, account: Arc::clone(account), presence }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(broken)
    }
}

impl Books {
    /// The scope in which the client has its full share, if any.
    fn share_of(&self, at: At<'_>, account: &Account) -> Option<Scope> {
        let has_share = |scope, free: usize| {
            self.clients.count(scope, account.number) >= free.saturating_mul(SHARE).max(OWN_MIN)
        };
        let scopes = [(Some(at.number()), at.free()), (None, self.frontends.common())];
        let share = scopes.into_iter().find(|(scope, free)| has_share(*scope, *free));
        share.map(|(scope, _)| scope).filter(|_| !account.is_of_many)
    }

    /// Takes a connection out of the list if it is there.
    fn strike_off(&mut self, presence: &Presence) {
        if presence.set_unlisted() {
            self.clients.strike_off(presence);
        }
    }

    /// Claims an idle connection for one at the frontend `own`.
    fn displace(&mut self, full: Full, own: &str, account: u64) -> Option<Arc<Presence>> {
        let Self { frontends, clients, .. } = self;
        // What a frontend with few connections gives up is kept for it, and of no use to another one.
        let gives = |presence: &Presence| match full {
            Full::All(None) => *presence.frontend == *own || !frontends.is_low(&*presence.frontend),
            Full::All(Some(_)) | Full::Share(_) => true,
        };
        let mut spared = 0;
        loop {
            let first = match full {
                Full::Share(scope) => clients.first_of(scope, account),
                Full::All(scope) => clients.first_of_greediest(scope, gives),
            };
            let presence = Arc::clone(first?);
            let claim = presence.claim(spared < SPARED_MAX);
            clients.strike_off(&presence);
            match claim {
                Claim::Busy => {}
                Claim::Spared => {
                    spared += 1;
                    clients.list(&presence);
                }
                Claim::Displaced => return Some(presence),
            }
        }
    }
}

/// Counts a connection until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection {
    all: Arc<Connections>,
    tally: Arc<Tally>,
    account: Arc<Account>,
    presence: Arc<Presence>,
}

impl CountedConnection {
    pub const fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }

    /// The scope in which another client would have its full share if the connection moved to it, if any.
    pub fn share_of(&self, at: At<'_>, account: &Account) -> Option<Scope> {
        self.all.books().share_of(at, account)
    }

    /// It is another client's from now on. It has to become idle again to be displaced.
    pub fn move_to(&mut self, account: Arc<Account>) {
        let at = number_of(&self.tally);
        let mut books = self.all.books();
        books.strike_off(&self.presence);
        books.clients.remove(at, self.account.number);
        books.clients.add(at, account.number);
        self.presence.move_to(account.number);
        drop(books);
        self.account = account;
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut books = self.all.books();
        books.strike_off(&self.presence);
        books.frontends.give_back(&*self.presence.frontend);
        books.clients.remove(number_of(&self.tally), self.account.number);
        self.tally.connections.fetch_sub(1, Ordering::Relaxed);
        self.presence.set_ended();
        drop(books);
        self.all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
