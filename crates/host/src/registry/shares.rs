//! What clients use of bounded resources, counted by user.
//!
//! Promises (D1) that no user takes all of it: each has at most a quarter, all users together leave a tenth free, and
//! only root and the user who runs the daemon may use that tenth. It counts sessions, requests (waiting and running),
//! the bytes that clients gave them with their bookkeeping, and those of locks (owned and waited for), including those
//! of an earlier run. Its mutex is taken last, and nothing is called while it is held.

use super::{HoldError, HoldLimits};
use crate::KeptPermit;
use paceline_locks::cost;
use paceline_types::{Claim, Request};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// One user may have at most one of this many equal parts of everything.
const PARTS_OF_ONE: usize = 4;

/// One of this many equal parts is reserved for root and the user who runs the daemon.
const PARTS_KEPT: usize = 10;

/// What a request takes in addition to the bytes its client sent, in the engine, in the registry and as a row:
/// for itself, and for each of its claims, locks and attributes.
const REQUEST_BYTES: usize = 256;
const CLAIM_BYTES: usize = 320;
const LOCK_BYTES_EACH: usize = 64;
const ATTRIBUTE_BYTES: usize = 64;

/// Amounts of each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    sessions: usize,
    requests: usize,
    bytes: usize,
    lock_bytes: usize,
}

/// What is taken, and by which users.
pub(super) struct Shares {
    limits: HoldLimits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: Amount,
    /// The total of all users except root and the user who runs the daemon.
    users: Amount,
    /// The amount of each of these users that has some.
    each: HashMap<Arc<str>, Amount>,
}

/// The user that takes a share.
#[derive(Clone)]
pub(super) struct Taker {
    shares: Arc<Shares>,
    /// `None` for root and the user who runs the daemon.
    user: Option<Arc<str>>,
}

/// A share that is taken. Dropping it releases it.
pub(super) struct Share {
    taker: Taker,
    amount: Amount,
}

/// The names in errors of what there is too much of: in all, and of one user.
const SESSIONS: [&str; 2] = ["sessions", "sessions of one user"];
const REQUESTS: [&str; 2] =
    ["permits that are held or waited for", "permits of one user that are held or waited for"];
const BYTES: [&str; 2] = [
    "bytes of attributes, claims, names and bookkeeping of permits",
    "bytes of attributes, claims, names and bookkeeping of one user's permits",
];
const LOCK_BYTES: [&str; 2] = [
    "bytes of names and bookkeeping of locks that sessions own or wait for",
    "bytes of names and bookkeeping of locks that one user's sessions own or wait for",
];

impl Amount {
    /// One session.
    pub(super) const SESSION: Self = Self { sessions: 1, requests: 0, bytes: 0, lock_bytes: 0 };

    /// One request, with the name of its permit, which its client sent in addition to the attributes.
    pub(super) fn of_request(request: &Request, name: &str) -> Self {
        let claim = |claim: &Claim| claim.resource.len() + CLAIM_BYTES;
        let claims: usize = request.claims.iter().map(claim).sum();
        let locks: usize = request.locks.iter().map(|lock| lock.len() + LOCK_BYTES_EACH).sum();
        let attributes = request.attributes.iter().count() * ATTRIBUTE_BYTES;
        let bytes = REQUEST_BYTES + request.attributes.bytes() + attributes;
        let bytes = bytes + claims + locks + name.len();
        Self { sessions: 0, requests: 1, bytes, lock_bytes: 0 }
    }

    /// A permit of an earlier run, with all its present claims.
    pub(super) fn of_kept(kept: &KeptPermit) -> Self {
        let mut amount = Self::of_request(&kept.request, &kept.name);
        let names: usize = kept.names.iter().map(|(name, _)| name.len()).sum();
        amount.bytes += names + (kept.names.len() + kept.resources.len()) * CLAIM_BYTES;
        amount
    }

    /// One lock that a session owns or waits for.
    pub(super) fn of_lock(name: &str) -> Self {
        Self { sessions: 0, requests: 0, bytes: 0, lock_bytes: cost(name) }
    }

    fn add(&mut self, more: &Self) {
        self.sessions += more.sessions;
        self.requests += more.requests;
        self.bytes += more.bytes;
        self.lock_bytes += more.lock_bytes;
    }

    fn take_away(&mut self, less: &Self) {
        self.sessions -= less.sessions;
        self.requests -= less.requests;
        self.bytes -= less.bytes;
        self.lock_bytes -= less.lock_bytes;
    }
}

impl Shares {
    pub(super) fn new(limits: HoldLimits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default() })
    }

    /// Takes an amount for a user; `is_owner` if the kernel identifies it as root or the user who runs the
    /// daemon.
    pub(super) fn take(
        self: &Arc<Self>,
        user: &str,
        is_owner: bool,
        amount: Amount,
    ) -> Result<Share, HoldError> {
        let mut taken = crate::sync::lock(&self.taken);
        taken.check((!is_owner).then_some(user), &amount, &self.limits)?;
        Ok(self.add(&mut taken, (!is_owner).then_some(user), amount))
    }

    /// Counts what a user has from an earlier run, whether or not there is room. Only the name of the user is
    /// known, so none of it counts as root's.
    pub(super) fn restore(self: &Arc<Self>, user: &str, amount: Amount) -> Share {
        self.add(&mut crate::sync::lock(&self.taken), Some(user), amount)
    }

    fn add(self: &Arc<Self>, taken: &mut Taken, user: Option<&str>, amount: Amount) -> Share {
        taken.all.add(&amount);
        let user = user.map(|user| {
            taken.users.add(&amount);
            let known = taken.each.get_key_value(user).map(|(user, _)| Arc::clone(user));
            let user = known.unwrap_or_else(|| user.into());
            taken.each.entry(Arc::clone(&user)).or_default().add(&amount);
            user
        });
        Share { taker: Taker { shares: Arc::clone(self), user }, amount }
    }
}

#[cfg(test)]
impl Shares {
    /// Whether nothing is taken.
    pub(super) fn is_empty(&self) -> bool {
        let taken = crate::sync::lock(&self.taken);
        (taken.all, taken.users, taken.each.len()) == Default::default()
    }
}

impl Taker {
    /// Takes an amount for the same user.
    pub(super) fn take(&self, amount: Amount) -> Result<Share, HoldError> {
        let (user, is_owner) = (self.user.as_deref().unwrap_or_default(), self.user.is_none());
        self.shares.take(user, is_owner, amount)
    }

    /// Counts what the user has from an earlier run, whether or not there is room.
    pub(super) fn restore(&self, amount: Amount) -> Share {
        self.shares.add(&mut crate::sync::lock(&self.shares.taken), self.user.as_deref(), amount)
    }
}

impl Share {
    /// The user that took it.
    pub(super) fn taker(&self) -> Taker {
        self.taker.clone()
    }
}

impl Taken {
    fn check(
        &self,
        user: Option<&str>,
        more: &Amount,
        limits: &HoldLimits,
    ) -> Result<(), HoldError> {
        let own = user.map(|user| self.each.get(user).copied().unwrap_or_default());
        let check = |of: fn(&Amount) -> usize, max: usize, [all, one]: [&'static str; 2]| {
            let more = of(more);
            if more == 0 {
                return Ok(());
            }
            if let Some(own) = &own {
                let own_max = (max / PARTS_OF_ONE).max(1);
                if of(own).saturating_add(more) > own_max {
                    return Err(HoldError::TooMany(one, own_max));
                }
                let users_max = max - max / PARTS_KEPT;
                if of(&self.users).saturating_add(more) > users_max {
                    return Err(HoldError::TooMany(all, users_max));
                }
            }
            match of(&self.all).saturating_add(more) > max {
                true => Err(HoldError::TooMany(all, max)),
                false => Ok(()),
            }
        };
        check(|amount| amount.sessions, limits.sessions_max, SESSIONS)?;
        check(|amount| amount.requests, limits.requests_max, REQUESTS)?;
        check(|amount| amount.bytes, limits.bytes_max, BYTES)?;
        check(|amount| amount.lock_bytes, limits.lock_bytes_max, LOCK_BYTES)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Taker { shares, user } = &self.taker;
        let mut taken = crate::sync::lock(&shares.taken);
        taken.all.take_away(&self.amount);
        let Some(user) = user else { return };
        taken.users.take_away(&self.amount);
        if let Some(own) = taken.each.get_mut(user) {
            own.take_away(&self.amount);
            if *own == Amount::default() {
                taken.each.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, Shares};
    use crate::registry::{HoldError, HoldLimits};

    const LIMITS: HoldLimits = HoldLimits {
        sessions_max: 4,
        requests_max: 40,
        bytes_max: 400,
        lock_bytes_max: 4_000,
        expired_max: 0,
    };

    fn amount(requests: usize, bytes: usize) -> Amount {
        Amount { sessions: 0, requests, bytes, lock_bytes: 0 }
    }

    /// D1: a user has its quarter, all users together leave a tenth, and what is released is free again.
    #[test]
    fn no_user_takes_all_d1() {
        for (one, what) in [(amount(1, 0), "permits"), (amount(0, 10), "bytes")] {
            let shares = Shares::new(LIMITS);
            let mut held = Vec::new();
            let mut fill = |user: &str, is_owner: bool| loop {
                match shares.take(user, is_owner, one) {
                    Ok(share) => held.push(share),
                    Err(HoldError::TooMany(of, max)) => return (of, max, held.len()),
                    Err(error) => panic!("{error:?}"),
                }
            };
            let unit = one.bytes.max(1);
            for (index, user) in ["ann", "ben", "cid"].into_iter().enumerate() {
                let (of, max, count) = fill(user, false);
                assert!(of.contains("one user") && of.contains(what), "{of}");
                assert_eq!((max, count), (10 * unit, 10 * (index + 1)));
            }
            let (of, max, count) = fill("dee", false);
            assert!(!of.contains("one user"), "{of}");
            assert_eq!((max, count), (36 * unit, 36));
            // A token may have root's name, and is not root.
            assert_eq!(fill("root", false).2, 36);
            assert_eq!(fill("root", true).2, 40);
            assert_eq!(fill("root", true).1, 40 * unit);
            held.clear();
            assert!(shares.is_empty());
        }
    }

    /// D1: what an earlier run left counts for its user, even where it is more than there may be.
    #[test]
    fn what_an_earlier_run_left_counts_d1() {
        let shares = Shares::new(LIMITS);
        let left: Vec<_> = (0..50).map(|_| shares.restore("ann", amount(1, 1))).collect();
        assert!(shares.take("ann", false, amount(1, 1)).is_err());
        assert!(shares.take("root", true, amount(1, 1)).is_err(), "all together are bounded, too");
        drop(left);
        assert!(shares.take("ann", false, amount(1, 1)).is_ok());
    }
}
