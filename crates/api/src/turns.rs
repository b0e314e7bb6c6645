//! Places that clients take for a while: large answers on their way, clients that follow events, and the bytes of
//! bodies that are being read.
//!
//! Promises that one user cannot take all of them: each has at most a quarter, and a part is reserved for root and the
//! user who runs the daemon, who have no bound of their own (D1).

use crate::identity::Identity;
use crate::respond::Problem;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard};

/// So many places.
#[derive(Debug)]
pub(crate) struct Turns {
    /// What they are for, in a refusal.
    what: &'static str,
    total: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    all: usize,
    by: BTreeMap<String, usize>,
}

/// Places that are released when this is dropped. `T` is how the places are kept.
#[derive(Debug)]
pub(crate) struct Turn<T: Deref<Target = Turns>> {
    of: T,
    /// The user that it counts for; none for the owner.
    user: Option<String>,
    count: usize,
}

impl Turns {
    pub(crate) const fn new(what: &'static str, total: usize) -> Self {
        let taken = Mutex::new(Taken { all: 0, by: BTreeMap::new() });
        Self { what, total, taken }
    }

    /// How many are taken.
    pub(crate) fn count(&self) -> usize {
        self.taken().all
    }

    fn each(&self) -> usize {
        (self.total / 4).max(1)
    }

    /// The part that is kept for the owner.
    fn kept(&self) -> usize {
        (self.total / 10).max(1).min(self.total - 1)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
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
    let user = (!identity.is_owner).then(|| identity.name.clone());
    Turn { of, user, count: 0 }
}

impl<T: Deref<Target = Turns>> Turn<T> {
    /// Takes so many more.
    pub(crate) fn add(&mut self, count: usize) -> Result<(), Problem> {
        let (of, user) = (&*self.of, &self.user);
        let mut taken = of.taken();
        if let Some(user) = user {
            let own = taken.by.get(user).copied().unwrap_or(0);
            if own + count > of.each() {
                let what = format!("{} of one user", of.what);
                return Err(Problem::exhausted(&what, of.each()));
            }
        }
        let most = if user.is_some() { of.total - of.kept() } else { of.total };
        if taken.all + count > most {
            return Err(Problem::exhausted(of.what, most));
        }
        taken.all += count;
        if let Some(user) = user {
            *taken.by.entry(user.clone()).or_default() += count;
        }
        self.count += count;
        Ok(())
    }

    /// Gives them back.
    pub(crate) fn give_back(&mut self) {
        let count = std::mem::take(&mut self.count);
        let mut taken = self.of.taken();
        taken.all -= count;
        if let Some(user) = &self.user
            && let Some(own) = taken.by.get_mut(user)
        {
            *own -= count;
            if *own == 0 {
                taken.by.remove(user);
            }
        }
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
    use super::{Turns, take};
    use crate::identity::{Identity, Role};
    use std::borrow::Cow;
    use std::sync::Arc;

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
        // A token may be called as it likes.
        assert_eq!(most(&user("root", false)), 0);
        assert_eq!(most(&user("root", true)), 1);
        assert_eq!(turns.count(), 8);
        taken.clear();
        assert_eq!(turns.count(), 0);
        assert!(turns.taken().by.is_empty());
    }
}
