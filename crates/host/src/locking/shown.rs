//! The locks as lists and the table Lock of the daemon's own database show them.
//!
//! Of the sessions that wait for a lock, the first [`WAITERS_SHOWN_MAX`] are shown, and the number of all. An operation
//! only marks locks as changed. While a client monitors the table, a job updates it at most once per [`SHOW_PAUSE`],
//! away from the tasks of others. Otherwise the next client that reads the table does. So the cost of a change depends
//! neither on the number of waiters nor on the number of simultaneous changes (D4).

use super::{LockState, Locking, in_turns};
use crate::database::OwnRow;
use paceline_locks::{LockView, SessionId};
use paceline_tables::value::{Atom, Datum};
use paceline_types::Span;
use std::sync::Arc;

/// How many of the sessions that wait for a lock are shown.
pub(super) const WAITERS_SHOWN_MAX: usize = 100;

/// How many names are copied before other threads may lock the mutex.
pub(super) const PIECE_NAMES: usize = 1_000;

/// The time between two updates of the table of locks.
const SHOW_PAUSE: Span = Span::from_ms(10);

/// One lock as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockShown {
    /// Its name.
    pub name: Arc<str>,
    /// The session that owns it, by number and name, and the fencing number of that grant.
    pub owner: Option<(SessionId, String, u64)>,
    /// The names of the first sessions that wait for it, next one first: 100 at most.
    pub waiters: Vec<String>,
    /// How many sessions wait for it.
    pub waiting: usize,
}

impl LockShown {
    /// How many names it has.
    fn names(&self) -> usize {
        1 + self.waiters.len()
    }
}

impl Locking {
    /// The lock of this name, if a session owns it or waits for it.
    #[must_use]
    pub fn shown(&self, name: &str) -> Option<LockShown> {
        let state = self.state();
        state.locks.view(name).map(|lock| state.show(&lock))
    }

    /// The name of the session that owns a lock.
    pub(crate) fn owner_name(&self, name: &str) -> Option<String> {
        let state = self.state();
        state.locks.owner(name).map(|(owner, _)| state.session_name(owner).to_owned())
    }

    /// At most `count` locks that a session owns or waits for, in name order from `first` on. A lock that
    /// changes meanwhile is shown as before or after the change.
    #[must_use]
    pub fn shown_from(&self, first: &str, count: usize) -> Vec<LockShown> {
        let mut shown: Vec<LockShown> = Vec::new();
        loop {
            let (piece, is_last) = self.shown_piece(first, shown.last(), count - shown.len());
            shown.extend(piece);
            if is_last {
                return shown;
            }
            in_turns();
        }
    }

    /// At most `count` locks after `last`, or from `first` on, and whether these are all.
    fn shown_piece(
        &self,
        first: &str,
        last: Option<&LockShown>,
        count: usize,
    ) -> (Vec<LockShown>, bool) {
        let state = self.state();
        let from = state.locks.iter_from(last.map_or(first, |last| &last.name));
        let mut left = from.skip_while(|lock| last.is_some_and(|last| *lock.name() == last.name));
        let (mut piece, mut names) = (Vec::new(), 0);
        while piece.len() < count {
            if names >= PIECE_NAMES {
                return (piece, false);
            }
            let Some(lock) = left.next() else { break };
            let lock = state.show(&lock);
            names += lock.names();
            piece.push(lock);
        }
        (piece, true)
    }

    /// A token that a monitor of the table of locks, or a transaction that waits for it, keeps while it exists.
    pub(crate) fn watch(&self) -> Arc<()> {
        Arc::clone(&self.watched)
    }

    pub(super) fn is_watched(&self) -> bool {
        Arc::strong_count(&self.watched) > 1
    }

    /// Whether the caller must call [`Locking::show`] once it has dropped the mutex: a client watches the table
    /// of locks, it is outdated, and no job is updating it.
    pub(super) fn begins_to_show(&self, state: &mut LockState) -> bool {
        if state.is_showing || !state.locks.has_changed() || !self.is_watched() {
            return false;
        }
        state.is_showing = true;
        true
    }

    /// Starts a job that updates the table of locks, if `begins`.
    pub(super) fn show(self: &Arc<Self>, begins: bool) {
        let Some(own) = self.own.get().filter(|_| begins) else { return };
        let (this, own) = (Arc::clone(self), Arc::clone(own));
        self.tasks.spawn_blocking(move || {
            own.show_locks();
            own.flush();
            this.show_on();
        });
    }

    /// Updates it again after a pause as long as the table of locks is outdated.
    fn show_on(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.tasks.spawn(async move {
            this.clock.sleep(SHOW_PAUSE).await;
            let mut state = this.state();
            state.is_showing = false;
            let begins = this.begins_to_show(&mut state);
            drop(state);
            this.show(begins);
        });
    }

    /// Marks the row of this lock to be shown again, because it was undone.
    pub(crate) fn show_again(&self, name: &str) {
        self.state().locks.show_again(name);
    }

    /// Rows of the table of locks that changed since they were last taken: the next few after the lock `after`,
    /// which becomes the last of them. Empty if there are no more.
    pub(crate) fn take_changed_rows(&self, after: &mut Arc<str>) -> Vec<OwnRow> {
        let mut state = self.state();
        let (mut rows, mut names) = (Vec::new(), 0);
        while names < PIECE_NAMES
            && let Some(name) = state.locks.take_changed(after)
        {
            let values = state.locks.view(&name).map(|lock| {
                names += lock.waiters().len().min(WAITERS_SHOWN_MAX);
                state.row(&lock)
            });
            names += 1;
            rows.push(OwnRow::of_text(&name, values));
            *after = name;
        }
        rows
    }
}

impl LockState {
    fn session_name(&self, session: SessionId) -> &str {
        self.sessions.get(&session).map_or("unknown", |session| &session.name)
    }

    fn show(&self, lock: &LockView<'_>) -> LockShown {
        let name = |id: SessionId| self.session_name(id).to_owned();
        let waiters = lock.waiters();
        LockShown {
            name: Arc::clone(lock.name()),
            owner: lock.owner().map(|(id, fencing)| (id, name(id), fencing)),
            waiting: waiters.len(),
            waiters: waiters.take(WAITERS_SHOWN_MAX).map(name).collect(),
        }
    }

    fn row(&self, lock: &LockView<'_>) -> Vec<(&'static str, Datum)> {
        let name = |id: SessionId| Atom::string(self.session_name(id));
        let (owner, waiters) = (lock.owner(), lock.waiters());
        let waiting = i64::try_from(waiters.len()).unwrap_or(i64::MAX);
        let waiters = waiters.take(WAITERS_SHOWN_MAX).zip(1i64..);
        let waiters = waiters.map(|(id, place)| (Atom::Integer(place), name(id))).collect();
        let fencing = owner.map_or(0, |(_, fencing)| i64::try_from(fencing).unwrap_or(i64::MAX));
        vec![
            ("name", Datum::One(Atom::string(lock.name()))),
            ("owner", owner.map_or(Datum::Empty, |(id, _)| Datum::One(name(id)))),
            ("waiters", Datum::from_sorted_pairs(waiters)),
            ("waiting", Datum::One(Atom::Integer(waiting))),
            ("fencing", Datum::One(Atom::Integer(fencing))),
        ]
    }
}
