//! Places that clients take for a while: answers that are being made or sent, clients that follow events, and the bytes
//! of bodies that are being read.
//!
//! Promises that one user cannot take all of them: each has at most a quarter, and a part is reserved for root and the
//! user who runs the daemon, who have no bound of their own (D1). Clients that wait for a place get it in turns, one
//! for each user that waits. No client waits while there is a place that it may have.

use crate::identity::Identity;
use crate::respond::Problem;
use paceline_host::Ring;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// A number of places.
#[derive(Debug)]
pub(crate) struct Turns {
    /// What they are for, in a refusal.
    what: &'static str,
    total: usize,
    /// How many are taken, to be read without the lock.
    all: AtomicUsize,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    by: BTreeMap<String, usize>,
    /// Clients that wait for a place, by user, each by its order of arrival.
    waiting: Ring<User, BTreeMap<u64, oneshot::Sender<()>>>,
    /// How many clients have waited so far.
    waited: u64,
}

/// The user that a place counts for; `None` for the owner.
pub(crate) type User = Option<String>;

/// Places that are released when this is dropped. `T` is a pointer to all places.
#[derive(Debug)]
pub(crate) struct Turn<T: Deref<Target = Turns>> {
    of: T,
    user: User,
    count: usize,
}

impl Turns {
    pub(crate) const fn new(what: &'static str, total: usize) -> Self {
        let taken = Taken { by: BTreeMap::new(), waiting: Ring::new(), waited: 0 };
        Self { what, total, all: AtomicUsize::new(0), taken: Mutex::new(taken) }
    }

    /// How many are taken.
    pub(crate) fn count(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Checks that a user may have at least one more.
    pub(crate) fn check(&self, user: &User) -> Result<(), Problem> {
        match self.count() {
            0 => Ok(()),
            _ => self.fits(&self.taken().by, user, 1),
        }
    }

    fn each(&self) -> usize {
        (self.total / 4).max(1)
    }

    /// The part that is reserved for the owner.
    fn kept(&self) -> usize {
        (self.total / 10).max(1).min(self.total - 1)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Checks that there are `count` more for a user, if users have as many as `by` says.
    fn fits(&self, by: &BTreeMap<String, usize>, user: &User, count: usize) -> Result<(), Problem> {
        if let Some(user) = user {
            let own = by.get(user).copied().unwrap_or(0);
            if own + count > self.each() {
                let what = format!("{} of one user", self.what);
                return Err(Problem::exhausted(&what, self.each()));
            }
        }
        let most = if user.is_some() { self.total - self.kept() } else { self.total };
        match self.count() + count > most {
            true => Err(Problem::exhausted(self.what, most)),
            false => Ok(()),
        }
    }

    fn add(&self, taken: &mut Taken, user: &User, count: usize) {
        self.all.fetch_add(count, Ordering::Relaxed);
        if let Some(user) = user {
            *taken.by.entry(user.clone()).or_default() += count;
        }
    }

    /// Gives places to waiting clients, as long as there are any that they may have.
    fn pass_on(&self, taken: &mut Taken) {
        loop {
            let Taken { by, waiting, .. } = taken;
            let Some(user) = waiting.turn_of(|user| self.fits(by, user, 1).is_ok()) else { return };
            let first = waiting.all.get_mut(&user).and_then(BTreeMap::pop_first);
            if waiting.all.get(&user).is_some_and(BTreeMap::is_empty) {
                waiting.all.remove(&user);
            }
            if let Some((_, waiter)) = first {
                self.add(taken, &user, 1);
                // A client that has left finds that the place is its own, and releases it.
                let _ = waiter.send(());
            }
        }
    }
}

/// The user that places of the client of a request count for.
pub(crate) fn user_of(identity: &Identity) -> User {
    (!identity.is_owner).then(|| identity.name.clone())
}

/// Takes a place for the client of a request.
pub(crate) fn take<T: Deref<Target = Turns>>(
    of: T,
    identity: &Identity,
) -> Result<Turn<T>, Problem> {
    let mut turn = none(of, identity);
    turn.add(1)?;
    Ok(turn)
}

/// No place yet for the client of a request.
pub(crate) fn none<T: Deref<Target = Turns>>(of: T, identity: &Identity) -> Turn<T> {
    none_of(of, user_of(identity))
}

/// No place yet for a user.
pub(crate) fn none_of<T: Deref<Target = Turns>>(of: T, user: User) -> Turn<T> {
    Turn { of, user, count: 0 }
}

/// Waits for a place for the client of a request. A client that disconnects leaves the line.
pub(crate) async fn wait<T: Deref<Target = Turns>>(of: T, identity: &Identity) -> Turn<T> {
    let mut turn = none(of, identity);
    let Some((number, mut told)) = turn.stand() else { return turn };
    let standing = Standing { turn: &mut turn, number };
    // This fails only if the place was given, too.
    let _ = (&mut told).await;
    drop(standing);
    turn
}

/// A client that waits.
struct Standing<'a, T: Deref<Target = Turns>> {
    turn: &'a mut Turn<T>,
    number: u64,
}

impl<T: Deref<Target = Turns>> Drop for Standing<'_, T> {
    fn drop(&mut self) {
        let Turn { of, user, count } = &mut *self.turn;
        let mut taken = of.taken();
        let waiting = &mut taken.waiting.all;
        let own = waiting.get_mut(user);
        let has_waited = own.is_some_and(|own| own.remove(&self.number).is_some());
        if waiting.get(user).is_some_and(BTreeMap::is_empty) {
            waiting.remove(user);
        }
        // A client that no longer waits has its place.
        *count += usize::from(!has_waited);
    }
}

impl<T: Deref<Target = Turns>> Turn<T> {
    /// Takes `count` more.
    pub(crate) fn add(&mut self, count: usize) -> Result<(), Problem> {
        let mut taken = self.of.taken();
        self.of.fits(&taken.by, &self.user, count)?;
        self.of.add(&mut taken, &self.user, count);
        self.count += count;
        Ok(())
    }

    /// Takes `count` more, whether or not there is room.
    pub(crate) fn add_past(&mut self, count: usize) {
        self.of.add(&mut self.of.taken(), &self.user, count);
        self.count += count;
    }

    /// Takes a place, or joins the queue for one. A caller that joins gets its number in the queue, and a receiver that
    /// resolves when it has a place.
    fn stand(&mut self) -> Option<(u64, oneshot::Receiver<()>)> {
        let mut taken = self.of.taken();
        if self.of.fits(&taken.by, &self.user, 1).is_ok() {
            self.of.add(&mut taken, &self.user, 1);
            self.count += 1;
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        taken.waited += 1;
        let number = taken.waited;
        taken.waiting.all.entry(self.user.clone()).or_default().insert(number, sender);
        Some((number, receiver))
    }

    /// Releases them.
    pub(crate) fn give_back(&mut self) {
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return;
        }
        let mut taken = self.of.taken();
        self.of.all.fetch_sub(count, Ordering::Relaxed);
        if let Some(user) = &self.user
            && let Some(own) = taken.by.get_mut(user)
        {
            *own -= count;
            if *own == 0 {
                taken.by.remove(user);
            }
        }
        self.of.pass_on(&mut taken);
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }
}

impl<T: Deref<Target = Turns>> Drop for Turn<T> {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::{Turn, Turns, take, wait};
    use crate::identity::{Identity, Role};
    use std::borrow::Cow;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    fn user(name: &str, is_owner: bool) -> Identity {
        let host = Cow::Borrowed("unix");
        Identity { name: name.into(), role: Role::Viewer, host, granted: None, is_owner }
    }

    #[test]
    fn one_user_leaves_places_for_others_and_all_leave_some_for_the_owner_d1() {
        let turns = Arc::new(Turns::new("lists", 8));
        let mut taken = Vec::new();
        let mut most = |identity: &Identity| {
            let mut count = 0;
            while let Ok(turn) = take(Arc::clone(&turns), identity) {
                taken.push(turn);
                count += 1;
            }
            count
        };
        let users = ["a", "b", "c", "d"].map(|name| user(name, false));
        assert_eq!(users.each_ref().map(&mut most), [2, 2, 2, 1], "one place is kept");
        // A token may have any name.
        assert_eq!(most(&user("root", false)), 0);
        assert_eq!(most(&user("root", true)), 1);
        assert_eq!(turns.count(), 8);
        taken.clear();
        assert_eq!(turns.count(), 0);
        assert!(turns.taken().by.is_empty());
    }

    type Waiting = Pin<Box<dyn Future<Output = Turn<Arc<Turns>>>>>;

    /// A client that asks for a place, polled as far as it gets.
    fn asking(turns: &Arc<Turns>, name: &str, is_owner: bool) -> Waiting {
        let (turns, user) = (Arc::clone(turns), user(name, is_owner));
        Box::pin(async move { wait(turns, &user).await })
    }

    fn served(waiting: &mut Waiting) -> Option<Turn<Arc<Turns>>> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    /// D1: a user that asks a hundred times has one place at a time, and one turn for each turn of another
    /// user.
    #[test]
    fn users_that_wait_take_turns_d1() {
        let turns = Arc::new(Turns::new("lists", 3));
        let mut greedy: Vec<_> = (0..100).map(|_| asking(&turns, "greedy", false)).collect();
        let mut running: Vec<_> = greedy.iter_mut().filter_map(served).collect();
        assert_eq!(running.len(), 1, "one for one user");
        running.extend(served(&mut asking(&turns, "b", false)));
        assert_eq!(running.len(), 2);
        let mut modest = asking(&turns, "modest", false);
        assert!(served(&mut modest).is_none(), "the last one is kept");
        let owner = served(&mut asking(&turns, "root", true));
        assert!(owner.is_some());
        drop(owner);
        drop(running.pop());
        let turn = served(&mut modest);
        assert!(turn.is_some(), "it is its turn, and the other has one already");
        drop((turn, running));
        let next: Vec<_> = greedy.iter_mut().skip(1).filter_map(served).collect();
        assert_eq!((next.len(), turns.count()), (1, 1), "the next one has it");
        drop((next, greedy));
        assert_eq!(turns.count(), 0);
        let taken = turns.taken();
        assert!(taken.by.is_empty() && taken.waiting.all.is_empty());
    }

    /// A client that leaves while it waits, or in the moment when it got its place, keeps nothing.
    #[test]
    fn a_client_that_leaves_keeps_no_place() {
        let turns = Arc::new(Turns::new("lists", 3));
        let first = served(&mut asking(&turns, "a", false));
        let mut left = asking(&turns, "a", false);
        let mut second = asking(&turns, "a", false);
        assert!(served(&mut left).is_none() && served(&mut second).is_none());
        drop(left);
        drop(first);
        drop(second);
        assert_eq!(turns.count(), 0);
        assert!(turns.taken().waiting.all.is_empty());
    }
}
