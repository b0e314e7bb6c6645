//! The choice of one server: in turn, by load, or at random.
//!
//! Only servers that are up, have a weight and have room are considered; one walk over all servers of a backend finds
//! one.

use crate::backend::Balance;
use crate::lot::Lot;
use crate::site::{Site, SiteId};
use paceline_types::ServerId;
use std::sync::Arc;

/// The state of a server for the choice.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub id: ServerId,
    pub weight: u32,
    pub max: Option<u32>,
    pub up: bool,
    /// Its site.
    pub site: Arc<Site>,
    /// Requests that were given the server at this site.
    pub fresh: u32,
    /// All requests that count against it: these, and ghosts.
    pub held: u32,
    /// How far it is behind its share, for round robin.
    pub credit: i64,
}

impl Slot {
    /// Whether it gets new requests at all.
    pub const fn is_usable(&self) -> bool {
        self.up && self.weight > 0
    }

    pub fn has_room(&self) -> bool {
        self.max.is_none_or(|max| self.held < max)
    }

    /// How many more requests it may have.
    pub fn room(&self) -> u32 {
        self.max.map_or(u32::MAX, |max| max.saturating_sub(self.held))
    }

    /// Whether it would have a lower load for its weight than the other, each with one more request.
    fn is_freer_than(&self, other: &Self) -> bool {
        let load = |held: u32, weight: u32| (u64::from(held) + 1) * u64::from(weight);
        load(self.held, other.weight) < load(other.held, self.weight)
    }
}

/// The state between the choices of one backend.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// Where the next search among equals begins.
    first: usize,
}

/// The index of the next server, if there is one; ignores those at the sites `except`, which are sorted.
pub(crate) fn pick(
    balance: Balance,
    slots: &mut [Slot],
    except: &[SiteId],
    turn: &mut Turn,
    lot: &mut Lot,
) -> Option<usize> {
    let is_left_out = |slot: &Slot| except.binary_search(&slot.site.id).is_ok();
    let can = |slot: &Slot| slot.is_usable() && slot.has_room() && !is_left_out(slot);
    match balance {
        Balance::RoundRobin => in_turn(slots, can),
        Balance::LeastConnections => least(slots, turn, can),
        Balance::PowerOfTwo => by_lot(slots, lot, can),
    }
}

/// Adds its weight to the credit of each server; the highest is chosen and pays the total of the weights.
fn in_turn(slots: &mut [Slot], can: impl Fn(&Slot) -> bool) -> Option<usize> {
    let (mut best, mut total) = (None::<(i64, usize)>, 0);
    for (place, slot) in slots.iter_mut().enumerate() {
        if !can(slot) {
            continue;
        }
        slot.credit += i64::from(slot.weight);
        total += i64::from(slot.weight);
        if best.is_none_or(|(credit, _)| slot.credit > credit) {
            best = Some((slot.credit, place));
        }
    }
    let (_, place) = best?;
    slots.get_mut(place)?.credit -= total;
    Some(place)
}

/// The server with the lowest load; of equals, the first after the last one chosen.
fn least(slots: &[Slot], turn: &mut Turn, can: impl Fn(&Slot) -> bool) -> Option<usize> {
    let first = if turn.first < slots.len() { turn.first } else { 0 };
    let (before, behind) = slots.split_at(first);
    let mut best = None::<(&Slot, usize)>;
    let from_first = behind.iter().zip(first..).chain(before.iter().zip(0..));
    for (slot, place) in from_first.filter(|(slot, _)| can(slot)) {
        if best.is_none_or(|(best, _)| slot.is_freer_than(best)) {
            best = Some((slot, place));
        }
    }
    let (_, place) = best?;
    turn.first = place + 1;
    Some(place)
}

/// Draws two servers and chooses the one with the lower load, the first of equals. If there is only one, nothing is
/// drawn.
fn by_lot(slots: &[Slot], lot: &mut Lot, can: impl Fn(&Slot) -> bool) -> Option<usize> {
    let count = slots.iter().filter(|slot| can(slot)).count();
    let nth = |nth: usize| slots.iter().enumerate().filter(|(_, slot)| can(slot)).nth(nth);
    if count < 2 {
        return nth(0).map(|(place, _)| place);
    }
    let first = lot.below(count);
    let second = lot.below(count - 1);
    let second = if second < first { second } else { second + 1 };
    let ((first, one), (second, other)) = (nth(first)?, nth(second)?);
    Some(if other.is_freer_than(one) { second } else { first })
}
