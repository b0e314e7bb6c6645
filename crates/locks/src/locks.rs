//! The state machine: all locks of one server.
//!
//! Owns the locks by name, the reserved fencing numbers and the queue of effects. Joins `line`
//! (which waiter is next) and `ledger` (which session asked for which lock). It promises what the
//! crate's header says. Each operation takes time logarithmic in locks, sessions and waiters;
//! ending a session takes that much per entry.
//!
//! A lock without owner and waiters does not exist. A lock with waiters but without owner exists
//! only while no fencing number is left; `extend` hands it over. While such a lock exists, no
//! number is left, so no session can be granted anything ahead of its waiters.
//!
//! The host drains effects after each call. An effect for a session that has ended since is void.
//! It never checks names: doors do, with `valid_lock_name` of `types`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::changed::Changes;
use crate::ledger::{Entry, Ledger, Standing};
use crate::line::{Asked, Line, Owner};
use crate::{Effect, LockError, SessionId};
use paceline_types::Span;

/// All locks of one server.
///
/// ```
/// use paceline_locks::{Effect, Locks, SessionId};
///
/// let (ann, bob) = (SessionId(1), SessionId(2));
/// let mut locks = Locks::new(1, 1000, 64 * 1024);
/// assert_eq!(locks.lock(ann, "leader"), Ok(true));
/// assert_eq!(locks.lock(bob, "leader"), Ok(false));
/// locks.release_all(ann);
/// let told = Effect::Locked { session: bob, name: "leader".into(), fencing: 2 };
/// assert_eq!(locks.poll_effect(), Some(told));
/// assert_eq!(locks.owner("leader"), Some((bob, 2)));
/// ```
#[derive(Debug)]
pub struct Locks {
    lines: BTreeMap<Arc<str>, Line>,
    ledger: Ledger,
    /// Locks with waiters and without owner, because no fencing number was left.
    starved: BTreeSet<Arc<str>>,
    next_fencing: u64,
    reserved_until: u64,
    is_stopped: bool,
    effects: VecDeque<Effect>,
    changes: Changes,
}

/// The current state of one lock.
#[derive(Clone, Copy, Debug)]
pub struct LockView<'a> {
    name: &'a Arc<str>,
    line: &'a Line,
}

impl Locks {
    /// No locks. Grants use the fencing numbers from `next_fencing` up to but not including
    /// `reserved_until`; `session_bytes_max` is the budget of each session for its entries.
    pub fn new(next_fencing: u64, reserved_until: u64, session_bytes_max: usize) -> Locks {
        Locks {
            lines: BTreeMap::new(),
            ledger: Ledger::new(session_bytes_max),
            starved: BTreeSet::new(),
            next_fencing,
            reserved_until,
            is_stopped: false,
            effects: VecDeque::new(),
            changes: Changes::default(),
        }
    }

    /// Asks for a lock. True: the session owns it now. False: the session waits, and an
    /// [`Effect::Locked`] follows when its turn comes.
    pub fn lock(&mut self, session: SessionId, name: &str) -> Result<bool, LockError> {
        self.lock_after(session, name, Span::ZERO)
    }

    /// The same for a session that had waited for the lock in the server's last run: it stands before
    /// those that had waited less, and before those that had not.
    pub fn lock_after(
        &mut self,
        session: SessionId,
        name: &str,
        waited: Span,
    ) -> Result<bool, LockError> {
        self.check_entry(session, name)?;
        let key = self.key(name);
        if let Some(line) = self.lines.get_mut(name) {
            let place = line.join(session, waited);
            self.changes.note(&key);
            self.ledger.enter(session, key, Entry::Waiting(place));
            return Ok(false);
        }
        let fencing = self.take_fencing().ok_or(LockError::Exhausted)?;
        self.seize(key, Owner { session, fencing, asked: Asked::Lock });
        Ok(true)
    }

    /// Takes a lock at once. Its owner is notified by [`Effect::Stolen`].
    pub fn steal(&mut self, session: SessionId, name: &str) -> Result<(), LockError> {
        self.check_entry(session, name)?;
        let fencing = self.take_fencing().ok_or(LockError::Exhausted)?;
        self.seize(self.key(name), Owner { session, fencing, asked: Asked::Steal });
        Ok(())
    }

    /// Makes a session the owner of a lock that it owned in an earlier run, with the fencing number
    /// of that grant. False if another session owns it: of several grants, the last must be
    /// restored first.
    pub fn restore(&mut self, session: SessionId, name: &str, fencing: u64) -> bool {
        if self.lines.contains_key(name) || !self.ledger.fits(session, name) {
            return false;
        }
        self.seize(self.key(name), Owner { session, fencing, asked: Asked::Lock });
        true
    }

    /// The locks that a session owns, with the fencing numbers, in name order.
    pub fn owned(&self, session: SessionId) -> impl Iterator<Item = (&Arc<str>, u64)> {
        let fencing = move |name: &Arc<str>| {
            self.owner(name).filter(|(owner, _)| *owner == session).map(|(_, fencing)| fencing)
        };
        self.ledger.names(session).filter_map(move |name| Some((name, fencing(name)?)))
    }

    /// Releases a lock, or stops waiting for it. The next waiter becomes the owner.
    pub fn unlock(&mut self, session: SessionId, name: &str) -> Result<(), LockError> {
        let entry = self.ledger.leave(session, name).ok_or(LockError::NotLocked)?;
        self.release(self.key(name), entry);
        Ok(())
    }

    /// Unlocks every lock that a session locked or stole, in name order. Used when the session
    /// ends.
    pub fn release_all(&mut self, session: SessionId) {
        self.release_some(session, usize::MAX);
    }

    /// Unlocks at most `count` of the locks that a session locked or stole, in name order. Returns
    /// the names of those it owned.
    pub fn release_some(&mut self, session: SessionId, count: usize) -> Vec<Arc<str>> {
        let mut owned = Vec::new();
        for _ in 0..count {
            let Some((name, entry)) = self.ledger.leave_first(session) else { break };
            if matches!(entry, Entry::Owner) {
                owned.push(Arc::clone(&name));
            }
            self.release(name, entry);
        }
        owned
    }

    /// Reserves the numbers below `reserved_until` and grants the locks that waited for them, in
    /// name order. A smaller value than before changes nothing.
    pub fn extend(&mut self, reserved_until: u64) {
        if self.is_stopped {
            return;
        }
        self.reserved_until = self.reserved_until.max(reserved_until);
        while self.fencing_left() > 0
            && let Some(name) = self.starved.pop_first()
        {
            self.hand_over(name);
        }
    }

    /// Grants nothing more: no number is left, and no more are reserved.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.reserved_until = self.next_fencing;
    }

    /// Whether [`Locks::stop`] was called.
    pub const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The oldest effect not yet taken.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The first lock after `after`, in name order, that appeared, disappeared, or whose owner,
    /// fencing number or waiters changed since this function last returned it. A lock that appeared
    /// and disappeared in between is not returned.
    pub fn take_changed(&mut self, after: &str) -> Option<Arc<str>> {
        self.changes.take(after, |name| self.lines.contains_key(name))
    }

    /// Whether [`Locks::take_changed`] has something to return.
    pub fn has_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Makes [`Locks::take_changed`] return this lock once more, whether it exists or not.
    pub fn show_again(&mut self, name: &str) {
        self.changes.note_unseen(&self.key(name));
    }

    /// A number that differs whenever a lock's owner, fencing number or waiters changed.
    pub fn generation(&self) -> u64 {
        self.changes.generation()
    }

    /// How many grants the reserved range still allows.
    pub fn fencing_left(&self) -> u64 {
        self.reserved_until.saturating_sub(self.next_fencing)
    }

    /// The number of the next grant. After a clean stop, a later run resumes from it.
    pub fn next_fencing(&self) -> u64 {
        self.next_fencing
    }

    /// The owner of a lock, and the fencing number of that grant.
    pub fn owner(&self, name: &str) -> Option<(SessionId, u64)> {
        self.lines.get(name)?.owner().map(|owner| (owner.session, owner.fencing))
    }

    /// Whether the session owns the lock. `assert` asks this.
    pub fn is_owner(&self, session: SessionId, name: &str) -> bool {
        self.owner(name).is_some_and(|(owner, _)| owner == session)
    }

    /// The fencing number of the present owner's grant.
    pub fn fencing(&self, name: &str) -> Option<u64> {
        self.owner(name).map(|(_, fencing)| fencing)
    }

    /// The sessions that wait for a lock, the next one first.
    pub fn waiters(&self, name: &str) -> impl Iterator<Item = SessionId> + '_ {
        self.lines.get(name).into_iter().flat_map(Line::waiters)
    }

    /// One lock, if it has an owner or a waiter.
    pub fn view(&self, name: &str) -> Option<LockView<'_>> {
        self.lines.get_key_value(name).map(|(name, line)| LockView { name, line })
    }

    /// All locks with an owner or a waiter, in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LockView<'_>> {
        self.lines.iter().map(|(name, line)| LockView { name, line })
    }

    /// All locks with an owner or a waiter whose names are `first` or later, in name order.
    pub fn iter_from(&self, first: &str) -> impl Iterator<Item = LockView<'_>> {
        let from = (Bound::Included(first), Bound::Unbounded);
        self.lines.range::<str, _>(from).map(|(name, line)| LockView { name, line })
    }

    /// How a session stands to a name; `None` if it may lock or steal it.
    pub fn standing(&self, session: SessionId, name: &str) -> Option<Standing> {
        self.ledger.entry(session, name).map(|entry| match entry {
            Entry::Owner => Standing::Owner,
            Entry::Waiting(_) => Standing::Waiting,
            Entry::Robbed => Standing::Robbed,
        })
    }

    /// How much of its budget a session uses.
    pub fn session_bytes(&self, session: SessionId) -> usize {
        self.ledger.bytes(session)
    }

    fn check_entry(&self, session: SessionId, name: &str) -> Result<(), LockError> {
        if self.ledger.entry(session, name).is_some() {
            return Err(LockError::MustUnlock);
        }
        if !self.ledger.fits(session, name) {
            return Err(LockError::TooMany);
        }
        Ok(())
    }

    /// The shared copy of the lock's name, so that all entries of a lock use one allocation.
    fn key(&self, name: &str) -> Arc<str> {
        match self.lines.get_key_value(name) {
            Some((key, _)) => Arc::clone(key),
            None => Arc::from(name),
        }
    }

    fn take_fencing(&mut self) -> Option<u64> {
        if self.fencing_left() == 0 {
            return None;
        }
        let fencing = self.next_fencing;
        self.next_fencing += 1;
        Some(fencing)
    }

    /// Makes the session the owner; a previous owner loses the lock.
    fn seize(&mut self, key: Arc<str>, owner: Owner) {
        debug_assert!(!self.starved.contains(&key), "no number is left while a lock starves");
        let victim = self.lines.entry(Arc::clone(&key)).or_default().seize(owner);
        if let Some(victim) = victim {
            let entry = victim.place.map_or(Entry::Robbed, Entry::Waiting);
            self.ledger.change(victim.session, &key, entry);
            self.effects.push_back(Effect::Stolen { session: victim.session, name: key.clone() });
        }
        self.changes.note(&key);
        self.ledger.enter(owner.session, key, Entry::Owner);
    }

    /// Removes from the line what a deleted entry stood for.
    fn release(&mut self, name: Arc<str>, entry: Entry) {
        // A session that stole the lock and lost it is in no line, so nothing visible changes.
        if matches!(entry, Entry::Robbed) {
            return;
        }
        self.changes.note(&name);
        let Some(line) = self.lines.get_mut(&name) else {
            debug_assert!(false, "owner and waiters have a lock");
            return;
        };
        if let Entry::Waiting(place) = entry {
            line.leave(place);
        } else {
            line.vacate();
        }
        // Needed also when a waiter left: it may have been the last waiter of a starved lock.
        if line.owner().is_none() {
            self.hand_over(name);
        }
    }

    /// Gives a lock without owner to its next waiter, marks it as starved, or deletes it.
    fn hand_over(&mut self, name: Arc<str>) {
        if !self.lines.get(&name).is_some_and(Line::has_waiters) {
            self.lines.remove(&name);
            self.starved.remove(&name);
            self.changes.note_gone(&name);
            return;
        }
        let Some(fencing) = self.take_fencing() else {
            self.starved.insert(name);
            return;
        };
        let Some(session) = self.lines.get_mut(&name).and_then(|line| line.promote(fencing)) else {
            debug_assert!(false, "the line has waiters");
            return;
        };
        self.ledger.change(session, &name, Entry::Owner);
        self.changes.note(&name);
        self.effects.push_back(Effect::Locked { session, name, fencing });
    }
}

impl<'a> LockView<'a> {
    /// The lock's name.
    pub fn name(&self) -> &'a Arc<str> {
        self.name
    }

    /// Its owner, and the fencing number of that grant.
    pub fn owner(&self) -> Option<(SessionId, u64)> {
        self.line.owner().map(|owner| (owner.session, owner.fencing))
    }

    /// The sessions that wait for it, the next one first. Their number is known without counting.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = SessionId> + 'a {
        self.line.waiters()
    }
}
