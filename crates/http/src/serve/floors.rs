//! A number of equal units that several owners share, with a few reserved for each owner.
//!
//! Promises that each configured owner gets its minimum, whatever the others have, as long as callers take no units
//! that are reserved for others (D1). Decides nothing else about how many an owner may have.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// The total divided by this is reserved for owners that have few.
const PARTS: usize = 2;

/// Maximum reserved for one owner.
const EACH_MAX: usize = 16;

/// The total, and what each owner has of it.
#[derive(Debug)]
pub(crate) struct Floors<K> {
    total: usize,
    used: usize,
    /// Units reserved for each configured owner.
    each: usize,
    /// Reserved units that are not in use.
    kept: usize,
    /// How many owners are configured.
    configured: usize,
    /// Configured owners, and other owners that still have units.
    owners: BTreeMap<K, Owner>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    used: usize,
    is_configured: bool,
}

impl<K: Ord> Floors<K> {
    /// `total` units for all owners.
    pub const fn new(total: usize) -> Self {
        Self { total, used: 0, each: 0, kept: 0, configured: 0, owners: BTreeMap::new() }
    }

    /// Sets the configured owners. Other owners keep what they have.
    pub fn configure(&mut self, owners: impl IntoIterator<Item = K>) {
        self.owners.values_mut().for_each(|owner| owner.is_configured = false);
        for owner in owners {
            self.owners.entry(owner).or_default().is_configured = true;
        }
        self.owners.retain(|_, owner| owner.is_configured || owner.used > 0);
        let configured = self.owners.values().filter(|owner| owner.is_configured);
        self.configured = configured.clone().count();
        let each = (self.total / PARTS).checked_div(self.configured);
        self.each = each.unwrap_or(0).min(EACH_MAX);
        self.kept = configured.map(|owner| self.each.saturating_sub(owner.used)).sum();
    }

    /// An owner takes one more unit, even if none is free.
    pub fn take(&mut self, owner: K) {
        let owner = self.owners.entry(owner).or_default();
        self.kept -= usize::from(owner.is_configured && owner.used < self.each);
        owner.used += 1;
        self.used += 1;
    }

    /// An owner returns one unit.
    pub fn give_back<Q: Ord + ?Sized>(&mut self, owner: &Q)
    where
        K: Borrow<Q>,
    {
        let Some(own) = self.owners.get_mut(owner) else { return };
        own.used -= 1;
        self.used -= 1;
        self.kept += usize::from(own.is_configured && own.used < self.each);
        if !own.is_configured && own.used == 0 {
            self.owners.remove(owner);
        }
    }

    /// Free units.
    pub const fn free(&self) -> usize {
        self.total.saturating_sub(self.used)
    }

    /// Free units that are not reserved.
    pub const fn common(&self) -> usize {
        self.free().saturating_sub(self.kept)
    }

    pub fn used<Q: Ord + ?Sized>(&self, owner: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.owners.get(owner).map_or(0, |owner| owner.used)
    }

    /// Whether an owner has no more than its reserve.
    pub fn is_low<Q: Ord + ?Sized>(&self, owner: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.owners.get(owner).is_some_and(|owner| owner.is_configured && owner.used <= self.each)
    }

    /// Whether a unit that is reserved for this owner is free.
    pub fn has_kept<Q: Ord + ?Sized>(&self, owner: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let is_kept = |owner: &Owner| owner.is_configured && owner.used < self.each;
        self.free() > 0 && self.owners.get(owner).is_some_and(is_kept)
    }

    /// How many owners are configured.
    pub const fn configured(&self) -> usize {
        self.configured
    }
}

#[cfg(test)]
mod tests {
    use super::{EACH_MAX, Floors};

    #[test]
    fn the_minimum_of_each_owner_is_kept_d1() {
        let mut floors = Floors::new(20);
        floors.configure(["a", "b"]);
        assert_eq!((floors.free(), floors.common()), (20, 10));
        (0..20).for_each(|_| {
            if floors.has_kept("a") || floors.common() > 0 {
                floors.take("a");
            }
        });
        assert_eq!((floors.used("a"), floors.free(), floors.common()), (15, 5, 0));
        assert!(!floors.has_kept("a") && floors.has_kept("b"));
        (0..5).for_each(|_| floors.take("b"));
        assert!(!floors.has_kept("b") && floors.free() == 0);
        floors.give_back("b");
        assert!(floors.has_kept("b") && floors.common() == 0);
    }

    #[test]
    fn owners_come_and_go() {
        let mut floors = Floors::new(1_000);
        floors.configure(["a"]);
        assert_eq!(floors.common(), 1_000 - EACH_MAX);
        floors.take("a");
        floors.configure(["b"]);
        assert_eq!((floors.used("a"), floors.configured()), (1, 1));
        assert_eq!(floors.common(), 999 - EACH_MAX, "nothing is kept for an owner that is gone");
        floors.give_back("a");
        assert_eq!(floors.owners.len(), 1);
        floors.configure([]);
        assert_eq!((floors.free(), floors.common()), (1_000, 1_000));
    }

    #[test]
    fn what_is_taken_beyond_all_is_given_back() {
        let mut floors = Floors::new(1);
        (0..3).for_each(|_| floors.take("a"));
        assert_eq!((floors.free(), floors.used("a")), (0, 3));
        (0..3).for_each(|_| floors.give_back("a"));
        assert_eq!(floors.free(), 1);
    }
}
