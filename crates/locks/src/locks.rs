//! The state machine: all locks of one server.
//!
//! Owns the locks by name, the reserved fencing numbers and the queue of effects; joins `line` (who
//! is next) and `ledger` (who asked). It promises what the crate's header says, each operation in
//! time logarithmic in locks, sessions and waiters (ending a session: that much per entry).
//!
//! A lock without owner and waiters does not exist. A lock with waiters but without owner exists
//! only while no fencing number is left; `extend` hands it over. So while such a lock exists no
//! number is left, and nobody can be granted anything ahead of its waiters.
//!
//! The host drains effects after each call. Effects for a session that has ended since are void.
//! It never checks names: doors do, with `valid_lock_name` of `types`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::changed::Changes;
use crate::ledger::{Entry, Ledger, Standing};
use crate::line::{Asked, Line, Owner};
use crate::{Effect, LockError, SessionId};

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
    /// Locks with waiters and without owner, for want of a fencing number.
    starved: BTreeSet<Arc<str>>,
    next_fencing: u64,
    reserved_until: u64,
    is_stopped: bool,
    effects: VecDeque<Effect>,
    changes: Changes,
}

/// One lock as it stands.
#[derive(Clone, Copy, Debug)]
pub struct LockView<'a> {
    name: &'a Arc<str>,
    line: &'a Line,
}

impl Locks {
    /// No locks, with the numbers from `next_fencing` up to but not including `reserved_until` to
    /// grant, and `session_bytes_max` for the entries of each session.
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

    /// Asks for a lock. True: the session owns it now. False: it waits, and a
    /// [`Effect::Locked`] follows in its turn.
    pub fn lock(&mut self, session: SessionId, name: &str) -> Result<bool, LockError> {
        self.check_entry(session, name)?;
        let key = self.key(name);
        if let Some(line) = self.lines.get_mut(name) {
            let place = line.join(session);
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

    /// A session that owned a lock in an earlier run owns it again, by the grant of that number. False
    /// if somebody else owns it: of several grants the last must be restored first.
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

    /// Gives a lock back, or stops waiting for it. The next in line becomes the owner.
    pub fn unlock(&mut self, session: SessionId, name: &str) -> Result<(), LockError> {
        let entry = self.ledger.leave(session, name).ok_or(LockError::NotLocked)?;
        self.release(self.key(name), entry);
        Ok(())
    }

    /// Unlocks all a session locked or stole, in name order. For when the session ends.
    pub fn release_all(&mut self, session: SessionId) {
        self.release_some(session, usize::MAX);
    }

    /// Unlocks `count` at most of what a session locked or stole, in name order; the names of those it owned.
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

    /// Reserves the numbers below `reserved_until` and hands over what waited for them, in name
    /// order. A smaller value than before changes nothing.
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

    /// The first lock after `after`, in name order, whose owner, fencing number or waiters changed since this last
    /// returned it, or that appeared or went away. A lock that did both in between is not returned.
    pub fn take_changed(&mut self, after: &str) -> Option<Arc<str>> {
        self.changes.take(after, |name| self.lines.contains_key(name))
    }

    /// Whether [`Locks::take_changed`] has something to return.
    pub fn has_changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Has [`Locks::take_changed`] return this lock once more, whether it exists or not.
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

    /// The number the next grant will carry: the place to resume from after a clean stop.
    pub fn next_fencing(&self) -> u64 {
        self.next_fencing
    }

    /// The owner of a lock, and the fencing number of that grant.
    pub fn owner(&self, name: &str) -> Option<(SessionId, u64)> {
        self.lines.get(name)?.owner().map(|owner| (owner.session, owner.fencing))
    }

    /// Whether the session owns the lock: what `assert` asks.
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

    /// One lock, if someone owns it or waits for it.
    pub fn view(&self, name: &str) -> Option<LockView<'_>> {
        self.lines.get_key_value(name).map(|(name, line)| LockView { name, line })
    }

    /// All locks that someone owns or waits for, in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LockView<'_>> {
        self.lines.iter().map(|(name, line)| LockView { name, line })
    }

    /// Those of them whose names are `first` or come after it.
    pub fn iter_from(&self, first: &str) -> impl Iterator<Item = LockView<'_>> {
        let from = (Bound::Included(first), Bound::Unbounded);
        self.lines.range::<str, _>(from).map(|(name, line)| LockView { name, line })
    }

    /// Where a session stands with a name; `None` if it may lock or steal it.
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

    /// The lock's own copy of its name, so that all entries of a lock share one.
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

    /// Makes the session the owner, in place of any other.
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

    /// Undoes in the line what an entry, which is gone, stood for.
    fn release(&mut self, name: Arc<str>, entry: Entry) {
        // A robbed stealer stands in no line, so its going is not seen.
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
        // Also when a waiter left: it may have been the last one of a starved lock.
        if line.owner().is_none() {
            self.hand_over(name);
        }
    }

    /// Gives a lock without owner to its next waiter, lets it starve, or forgets it.
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

    /// The sessions that wait for it, the next one first; the number of waiters is known without counting.
    pub fn waiters(&self) -> impl ExactSizeIterator<Item = SessionId> + 'a {
        self.line.waiters()
    }
}
