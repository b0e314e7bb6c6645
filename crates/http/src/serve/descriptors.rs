//! The descriptors that the door may have: so many for clients, and as many for servers.
//!
//! Anybody may be a client of a frontend, and over HTTP/2 one connection of a client can need a hundred to servers.
//! Promises that the door leaves the rest of the process's descriptors to the other doors and to files, whatever its
//! clients do, and that the clients of one backend leave some to the other backends (D1).
//!
//! A backend may have another connection while it has fewer than `SHARE` times those that are free (the dynamic threshold
//! of a switch's buffer). So one backend can have three quarters of all, never the last ones, and the more backends
//! want some, the less each may have. A backend that is the only one may have all.
//!
//! Whoever finds none waits. Descriptors that are given back go to the backend that has the fewest, first come, first
//! served there. Meanwhile backends that have more than are free have to give up what they do not need, and the
//! others keep their idle connections. Requests that use a connection again take no lock here.

use paceline_host::broken;
use paceline_types::BackendId;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// For each descriptor that is free, a backend may have so many.
const SHARE: usize = 3;

/// What is left of them. Copies share it.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors {
    clients: Arc<Semaphore>,
    servers: Arc<Servers>,
}

/// One of a client that is in use. It is given back when this is dropped.
pub(crate) type Descriptor = OwnedSemaphorePermit;

impl Descriptors {
    /// So many for each side.
    pub fn new(each: usize) -> Self {
        let each = each.clamp(1, Semaphore::MAX_PERMITS);
        let (books, has_spare) = (Books { free: each, ..Books::default() }, AtomicBool::new(true));
        let servers = Servers { books: Mutex::new(books), has_spare, wanted: Notify::new() };
        Self { clients: Arc::new(Semaphore::new(each)), servers: Arc::new(servers) }
    }

    /// One for a client that has connected, as soon as there is one.
    pub async fn of_client(&self) -> Option<Descriptor> {
        Arc::clone(&self.clients).acquire_owned().await.ok()
    }

    /// One for a client that must not wait, even if there is none.
    pub fn of_client_now(&self) -> Option<Descriptor> {
        Arc::clone(&self.clients).try_acquire_owned().ok()
    }

    /// One for a connection to a server of this backend, or a place in line for it.
    pub fn of_server(&self, backend: BackendId) -> Result<ServerDescriptor, Waiting> {
        let mut books = self.servers.books();
        if books.may_have(backend) {
            return Ok(self.servers.take(&mut books, backend));
        }
        let (sender, granted) = oneshot::channel();
        books.last += 1;
        let number = books.last;
        books.account(backend).waiting.insert(number, sender);
        self.servers.tell(&books);
        drop(books);
        self.servers.wanted.notify_waiters();
        Err(Waiting { servers: Arc::clone(&self.servers), backend, number, granted })
    }

    /// Whether a connection to a server of this backend may be kept for later: not if the backend has to give.
    pub fn keeps(&self, backend: BackendId) -> bool {
        self.servers.has_spare.load(Ordering::Relaxed) || {
            let books = self.servers.books();
            books.free > 0 && !books.gives(backend)
        }
    }

    /// Whether somebody waits for whom this backend has to give up what it does not need.
    pub fn gives(&self, backend: BackendId) -> bool {
        self.servers.books().gives(backend)
    }

    /// Told when somebody begins to wait.
    pub fn wanted(&self) -> Notified<'_> {
        self.servers.wanted.notified()
    }

    /// Whether this backend is refused because of its share: there are others.
    pub fn is_share_used(&self) -> bool {
        self.servers.books().free > 0
    }

    /// There are so many backends now.
    pub fn share_among(&self, backends: usize) {
        let mut books = self.servers.books();
        books.is_shared = backends > 1;
        self.servers.grant(books);
    }
}

/// Those for connections to servers.
#[derive(Debug)]
struct Servers {
    books: Mutex<Books>,
    /// Whether some are free and nobody waits, for those who take no lock.
    has_spare: AtomicBool,
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Books {
    free: usize,
    /// Whether there is more than one backend.
    is_shared: bool,
    /// Each backend that has some or waits for some.
    backends: BTreeMap<BackendId, Account>,
    /// The number of whoever came to wait last.
    last: u64,
}

#[derive(Debug, Default)]
struct Account {
    used: usize,
    /// Those who wait, the first one first.
    waiting: BTreeMap<u64, oneshot::Sender<ServerDescriptor>>,
}

impl Books {
    fn account(&mut self, backend: BackendId) -> &mut Account {
        self.backends.entry(backend).or_default()
    }

    fn used(&self, backend: BackendId) -> usize {
        self.backends.get(&backend).map_or(0, |account| account.used)
    }

    fn may_have(&self, backend: BackendId) -> bool {
        match self.is_shared {
            true => self.used(backend) < self.free.saturating_mul(SHARE),
            false => self.free > 0,
        }
    }

    /// Backends that wait for some, and how many they have.
    fn waiting(&self) -> impl Iterator<Item = (BackendId, usize)> {
        let waits = |(_, account): &(&BackendId, &Account)| !account.waiting.is_empty();
        self.backends.iter().filter(waits).map(|(backend, account)| (*backend, account.used))
    }

    fn is_wanted(&self) -> bool {
        self.waiting().next().is_some()
    }

    fn gives(&self, backend: BackendId) -> bool {
        self.used(backend) > self.free && self.is_wanted()
    }

    /// Forgets a backend that has nothing and wants nothing.
    fn tidy(&mut self, backend: BackendId) {
        let is_over = |account: &Account| account.used == 0 && account.waiting.is_empty();
        if self.backends.get(&backend).is_some_and(is_over) {
            self.backends.remove(&backend);
        }
    }
}

impl Servers {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(broken)
    }

    fn tell(&self, books: &Books) {
        self.has_spare.store(books.free > 0 && !books.is_wanted(), Ordering::Relaxed);
    }

    fn take(self: &Arc<Self>, books: &mut Books, backend: BackendId) -> ServerDescriptor {
        books.free -= 1;
        books.account(backend).used += 1;
        self.tell(books);
        ServerDescriptor { servers: Arc::clone(self), backend }
    }

    /// Gives to those who wait what they may have by now.
    fn grant(self: &Arc<Self>, mut books: MutexGuard<'_, Books>) {
        let mut granted = vec![];
        loop {
            let may_have = books.waiting().filter(|(backend, _)| books.may_have(*backend));
            let Some((backend, _)) = may_have.min_by_key(|(_, used)| *used) else { break };
            let Some((_, waiter)) = books.account(backend).waiting.pop_first() else { break };
            granted.push((waiter, self.take(&mut books, backend)));
        }
        self.tell(&books);
        // One whose waiter leaves in this moment is given back, which takes the lock.
        drop(books);
        for (waiter, descriptor) in granted {
            let _ = waiter.send(descriptor);
        }
    }
}

/// One of a connection to a server. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct ServerDescriptor {
    servers: Arc<Servers>,
    backend: BackendId,
}

impl Drop for ServerDescriptor {
    fn drop(&mut self) {
        let mut books = self.servers.books();
        books.free += 1;
        books.account(self.backend).used -= 1;
        books.tidy(self.backend);
        self.servers.grant(books);
    }
}

/// A place in line: a future of a descriptor.
#[derive(Debug)]
pub(crate) struct Waiting {
    servers: Arc<Servers>,
    backend: BackendId,
    number: u64,
    granted: oneshot::Receiver<ServerDescriptor>,
}

impl Future for Waiting {
    type Output = Option<ServerDescriptor>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.granted).poll(cx).map(Result::ok)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut books = self.servers.books();
        if books.account(self.backend).waiting.remove(&self.number).is_some() {
            self.servers.tell(&books);
        }
        books.tidy(self.backend);
    }
}

#[cfg(test)]
mod tests {
    use super::{Descriptors, ServerDescriptor, Waiting};
    use paceline_types::BackendId;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const EACH: usize = 100;
    const A: BackendId = BackendId(1);
    const B: BackendId = BackendId(2);
    const C: BackendId = BackendId(3);

    fn shared() -> Descriptors {
        let all = Descriptors::new(EACH);
        all.share_among(2);
        all
    }

    /// As many as a backend gets without waiting.
    fn greedy(all: &Descriptors, backend: BackendId) -> Vec<ServerDescriptor> {
        std::iter::from_fn(|| all.of_server(backend).ok()).collect()
    }

    fn granted(waiting: &mut Waiting) -> Option<ServerDescriptor> {
        let mut cx = Context::from_waker(Waker::noop());
        match pin!(waiting).poll(&mut cx) {
            Poll::Ready(granted) => granted,
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_backend_leaves_some_to_the_others_d1() {
        let all = shared();
        let first = greedy(&all, A);
        assert_eq!(first.len(), 75);
        let second = greedy(&all, B);
        assert_eq!(second.len(), 19);
        assert_eq!(greedy(&all, C).len(), 5, "those are given back");
        assert!(all.is_share_used());
        drop((first, second));
        assert!(all.servers.books().backends.is_empty(), "who has nothing is forgotten");
        assert_eq!(all.servers.books().free, EACH);
    }

    #[test]
    fn the_only_backend_has_all_d1() {
        let all = Descriptors::new(EACH);
        all.share_among(1);
        let first = greedy(&all, A);
        assert_eq!(first.len(), EACH);
        assert!(!all.is_share_used() && !all.keeps(A));
        let mut waiting = all.of_server(B).unwrap_err();
        assert!(granted(&mut waiting).is_none());
        drop(first);
        assert!(granted(&mut waiting).is_some());
    }

    #[test]
    fn what_is_given_back_goes_to_the_one_who_has_least_and_came_first() {
        let all = Descriptors::new(2);
        all.share_among(1);
        let (one, two) = (all.of_server(A).unwrap(), all.of_server(A).unwrap());
        let [mut second, mut first, mut third] = [A, B, B].map(|of| all.of_server(of).unwrap_err());
        assert!(all.gives(A) && !all.keeps(A));
        drop(one);
        let first = granted(&mut first);
        assert!(first.is_some() && granted(&mut second).is_none() && granted(&mut third).is_none());
        drop(third);
        drop(two);
        assert!(granted(&mut second).is_some(), "whoever left is passed over");
        drop(first);
        assert!(all.keeps(A));
    }

    #[test]
    fn a_grant_to_one_who_leaves_is_not_lost() {
        let all = Descriptors::new(1);
        let one = all.of_server(A).unwrap();
        let (left, mut next) = (all.of_server(A).unwrap_err(), all.of_server(A).unwrap_err());
        drop(one);
        assert!(granted(&mut next).is_none(), "it is the first one's");
        drop(left);
        assert!(granted(&mut next).is_some());
    }

    #[test]
    fn a_backend_that_has_few_gives_none_d1() {
        let all = shared();
        let small = all.of_server(B).unwrap();
        let first = greedy(&all, A);
        let waiting = all.of_server(A).unwrap_err();
        assert!(all.gives(A) && !all.keeps(A));
        assert!(!all.gives(B) && all.keeps(B), "its idle connections are its own");
        drop((small, first, waiting));
        assert!(all.keeps(A));
    }
}
