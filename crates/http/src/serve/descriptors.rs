//! The descriptors that the door may use for connections to servers. (Client connections are in `connections.rs`.)
//!
//! Frontends are open to all clients, and over HTTP/2 one client connection can need a hundred connections to
//! servers. Promises that the door leaves the remaining descriptors of the process to the other doors and to files,
//! whatever its clients do, and that the clients of one backend leave descriptors to other backends (D1).
//!
//! A few descriptors are reserved for each configured backend (`floors.rs`). Of the others, a backend may take
//! another one while it has fewer than `SHARE` times the free ones (the dynamic threshold of a switch's buffer). So
//! one backend can have three quarters of these, and each gets less as more backends need some. A single backend may
//! have all.
//!
//! A request that finds none waits, and does nothing meanwhile. Descriptors that are given back go to the backend that has
//! the fewest, first come, first served there. Backends that have more than are free have to give up what they do not
//! need; the others keep their idle connections, except for requests of their own: what a backend does not need on one
//! worker is always for its requests on another. The tasks that see to that are woken when it may have to be done
//! (`wanted`). Requests that use a connection again take no lock here.

use crate::serve::floors::Floors;
use paceline_host::broken;
use paceline_types::BackendId;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

/// Descriptors that a backend may have for each free one.
const SHARE: usize = 3;

/// The descriptors. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors(Arc<Servers>);

impl Descriptors {
    /// `total` descriptors for all backends.
    pub fn new(total: usize) -> Self {
        let (waiting, last) = (BTreeMap::new(), 0);
        let books = Books { floors: Floors::new(total.max(1)), waiting, last };
        let (books, has_spare) = (Mutex::new(books), AtomicBool::new(true));
        Self(Arc::new(Servers { books, has_spare, wanted: Notify::new() }))
    }

    /// A descriptor for a connection to a server of this backend, or a place in its queue.
    pub fn of_server(&self, backend: BackendId) -> Result<ServerDescriptor, DescriptorWait> {
        let mut books = self.0.books();
        if books.may_have(backend) {
            let taken = self.0.take(&mut books, backend);
            self.0.want(books);
            return Ok(taken);
        }
        let (sender, granted) = oneshot::channel();
        books.last += 1;
        let number = books.last;
        books.waiting.entry(backend).or_default().insert(number, sender);
        self.0.want(books);
        Err(DescriptorWait { servers: Arc::clone(&self.0), backend, number, granted })
    }

    /// Whether a connection to a server of this backend may stay open idle. Not if the backend must give up
    /// descriptors.
    pub fn keeps(&self, backend: BackendId) -> bool {
        self.0.has_spare.load(Ordering::Relaxed) || {
            let books = self.0.books();
            books.floors.free() > 0 && !books.gives(backend)
        }
    }

    /// Whether waiting requests require this backend to give up descriptors that it does not need.
    pub fn gives(&self, backend: BackendId) -> bool {
        self.0.books().gives(backend)
    }

    /// For which requests this backend has to give up what it does not need.
    pub fn wanted_of(&self, backend: BackendId) -> Wanted {
        self.0.books().wanted_of(backend)
    }

    /// Returns when a backend may have to give up descriptors that it did not have to give up before.
    pub fn wanted(&self) -> Notified<'_> {
        self.0.wanted.notified()
    }

    /// A backend has a connection that it no longer needs.
    pub fn offer(&self) {
        if !self.0.has_spare.load(Ordering::Relaxed) {
            self.0.wanted.notify_waiters();
        }
    }

    /// Whether this backend is refused because it has used its share, while other descriptors are free.
    pub fn is_share_used(&self) -> bool {
        self.0.books().floors.free() > 0
    }

    /// Sets the configured backends.
    pub fn share_among(&self, backends: impl IntoIterator<Item = BackendId>) {
        let mut books = self.0.books();
        books.floors.configure(backends);
        self.0.grant(books);
    }
}

/// How many requests wait for what a backend does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// So many of all backends.
    ByAll(usize),
    /// So many of its own; to others it gives nothing.
    ByOwn(usize),
}

#[derive(Debug)]
struct Servers {
    books: Mutex<Books>,
    /// Whether descriptors are free and no request waits. Read without the lock.
    has_spare: AtomicBool,
    wanted: Notify,
}

#[derive(Debug)]
struct Books {
    floors: Floors<BackendId>,
    /// Waiting requests by backend, in order of arrival.
    waiting: BTreeMap<BackendId, Line>,
    /// The number of the last request that began to wait.
    last: u64,
}

type Line = BTreeMap<u64, oneshot::Sender<ServerDescriptor>>;

impl Books {
    fn may_have(&self, backend: BackendId) -> bool {
        match self.floors.configured() > 1 {
            true => {
                let share = self.floors.common().saturating_mul(SHARE);
                self.floors.has_kept(&backend) || self.floors.used(&backend) < share
            }
            false => self.floors.free() > 0,
        }
    }

    fn gives(&self, backend: BackendId) -> bool {
        self.gives_to_all(backend) || self.waiting.contains_key(&backend)
    }

    /// Whether it has so much that it has to give to other backends, too.
    fn gives_to_all(&self, backend: BackendId) -> bool {
        let used = self.floors.used(&backend);
        let is_low = self.floors.configured() > 1 && self.floors.is_low(&backend);
        !self.waiting.is_empty() && used > self.floors.common() && !is_low
    }

    fn wanted_of(&self, backend: BackendId) -> Wanted {
        match self.gives_to_all(backend) {
            true => Wanted::ByAll(self.waiting.values().map(BTreeMap::len).sum()),
            false => Wanted::ByOwn(self.waiting.get(&backend).map_or(0, BTreeMap::len)),
        }
    }

    /// Takes a request out of its line, if it is still there.
    fn leave(&mut self, backend: BackendId, number: u64) {
        let Some(line) = self.waiting.get_mut(&backend) else { return };
        line.remove(&number);
        if line.is_empty() {
            self.waiting.remove(&backend);
        }
    }

    /// Removes and returns the request that gets the next descriptor, if any request may have one.
    fn next(&mut self) -> Option<(BackendId, oneshot::Sender<ServerDescriptor>)> {
        let may_have = self.waiting.keys().filter(|backend| self.may_have(**backend));
        let backend = *may_have.min_by_key(|backend| self.floors.used(*backend))?;
        let line = self.waiting.get_mut(&backend)?;
        let (_, waiter) = line.pop_first()?;
        if line.is_empty() {
            self.waiting.remove(&backend);
        }
        Some((backend, waiter))
    }
}

impl Servers {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(broken)
    }

    fn take(self: &Arc<Self>, books: &mut Books, backend: BackendId) -> ServerDescriptor {
        books.floors.take(backend);
        ServerDescriptor { servers: Arc::clone(self), backend }
    }

    /// Updates the flag after a change.
    fn settle(&self, books: &Books) {
        let has_spare = books.floors.free() > 0 && books.waiting.is_empty();
        self.has_spare.store(has_spare, Ordering::Relaxed);
    }

    /// Finishes a change after which a backend may have to give up descriptors.
    fn want(&self, books: MutexGuard<'_, Books>) {
        self.settle(&books);
        let is_wanted = !books.waiting.is_empty();
        drop(books);
        if is_wanted {
            self.wanted.notify_waiters();
        }
    }

    /// Grants waiting requests the descriptors that they may have now.
    fn grant(self: &Arc<Self>, mut books: MutexGuard<'_, Books>) {
        let mut granted = vec![];
        while let Some((backend, waiter)) = books.next() {
            granted.push((waiter, self.take(&mut books, backend)));
        }
        self.want(books);
        // If a waiter has just left, dropping its descriptor returns it, which takes the lock.
        for (waiter, descriptor) in granted {
            let _ = waiter.send(descriptor);
        }
    }
}

/// The descriptor of a connection to a server. It is returned on drop.
#[derive(Debug)]
pub(crate) struct ServerDescriptor {
    servers: Arc<Servers>,
    backend: BackendId,
}

impl Drop for ServerDescriptor {
    fn drop(&mut self) {
        let mut books = self.servers.books();
        books.floors.give_back(&self.backend);
        self.servers.grant(books);
    }
}

/// A place in the queue: a future that resolves to a descriptor.
#[derive(Debug)]
pub(crate) struct DescriptorWait {
    servers: Arc<Servers>,
    backend: BackendId,
    number: u64,
    granted: oneshot::Receiver<ServerDescriptor>,
}

impl Future for DescriptorWait {
    type Output = Option<ServerDescriptor>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.granted).poll(cx).map(Result::ok)
    }
}

impl Drop for DescriptorWait {
    fn drop(&mut self) {
        let mut books = self.servers.books();
        books.leave(self.backend, self.number);
        self.servers.settle(&books);
    }
}

#[cfg(test)]
mod tests {
    use super::{DescriptorWait, Descriptors, ServerDescriptor, Wanted};
    use paceline_types::BackendId;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const EACH: usize = 100;
    const A: BackendId = BackendId(1);
    const B: BackendId = BackendId(2);
    const C: BackendId = BackendId(3);

    fn shared() -> Descriptors {
        let all = Descriptors::new(EACH);
        all.share_among([A, B]);
        all
    }

    /// Takes as many as a backend gets without waiting.
    fn greedy(all: &Descriptors, backend: BackendId) -> Vec<ServerDescriptor> {
        std::iter::from_fn(|| all.of_server(backend).ok()).collect()
    }

    fn granted(waiting: &mut DescriptorWait) -> Option<ServerDescriptor> {
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
        assert_eq!(first.len(), 63, "three quarters of those that are not kept for the other");
        let second = greedy(&all, B);
        assert_eq!(second.len(), 28);
        assert_eq!(greedy(&all, C).len(), 7, "those are given back");
        assert!(all.is_share_used());
        drop((first, second));
        assert_eq!(all.0.books().floors.free(), EACH);
    }

    /// However many descriptors other backends use, a few are reserved for each.
    #[test]
    fn the_last_backend_has_some_d1() {
        let all = Descriptors::new(EACH);
        let backends: Vec<BackendId> = (0..20).map(BackendId).collect();
        all.share_among(backends.iter().copied());
        let (last, others) = backends.split_last().unwrap();
        let held: Vec<_> = others.iter().map(|backend| greedy(&all, *backend)).collect();
        let waiting: Vec<_> = others.iter().map(|of| all.of_server(*of).unwrap_err()).collect();
        assert_eq!(greedy(&all, *last).len(), 2, "half of all, divided by the backends");
        assert!(!all.gives(*last) && all.gives(others[0]));
        drop((held, waiting));
        assert_eq!(all.0.books().floors.free(), EACH);
    }

    #[test]
    fn the_only_backend_has_all_d1() {
        let all = Descriptors::new(EACH);
        all.share_among([A]);
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
        all.share_among([A]);
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

    /// What is kept for a backend is for its own requests, whichever worker has it.
    #[test]
    fn a_backend_that_has_few_gives_to_its_own_requests_d1() {
        let all = shared();
        let mut few: Vec<_> = (0..16).map(|_| all.of_server(B).unwrap()).collect();
        // One that is not configured any more goes as far as it may.
        let hogs = [A, C, A, C].map(|of| greedy(&all, of));
        let of_a = [A; 3].map(|of| all.of_server(of).unwrap_err());
        assert!(!all.gives(B) && all.wanted_of(B) == Wanted::ByOwn(0));
        let mut own = all.of_server(B).unwrap_err();
        assert!(all.gives(B) && !all.keeps(B));
        let wanted = (all.wanted_of(A), all.wanted_of(B));
        assert_eq!(wanted, (Wanted::ByAll(4), Wanted::ByOwn(1)));
        drop(few.pop());
        let own = granted(&mut own);
        assert!(own.is_some() && !all.gives(B), "it has what it gave");
        drop((few, hogs, of_a, own));
    }
}
