//! Places: clients that ask again after an orderly shutdown keep the time that they waited, once, and no other
//! client does.
//!
//! All clients choose from few places, so that they often meet those of the last run, and use them for other
//! requests. The model knows only an upper bound of the time that a place is worth: how long any client that
//! asked with it can have waited.

use super::World;
use paceline_host::PlaceHash;
use paceline_host::registry::PermitView;
use paceline_types::{Span, Time};
use std::collections::BTreeMap;

/// How many places there are.
const PLACES: u64 = 3;

/// What is known of places.
#[derive(Default)]
pub(super) struct Places {
    /// When the doors of this run opened, at the earliest.
    opened: Time,
    /// The requests of this run, by number: when, and with which place.
    asked: BTreeMap<u64, (Time, Option<u64>)>,
    /// How long a client with a place of the last run may have waited.
    worth: BTreeMap<u64, Span>,
    /// Whether the disk failed as the last run ended, so that rows of earlier runs may exist.
    is_unsure: bool,
}

impl World {
    /// The place that the next client asks with, if any. It uses no random numbers, so that older seeds keep
    /// their meaning.
    pub(super) fn choose_place(&mut self) -> Option<PlaceHash> {
        let place = Some((self.next + self.step) % (PLACES + 1)).filter(|place| *place < PLACES);
        self.places.asked.insert(self.next, (self.now(), place));
        place.map(|place| PlaceHash([place as u8; 32]))
    }

    /// Called when the daemon shuts down in order.
    pub(super) fn leave_places(&mut self, is_healthy: bool) {
        let now = self.now();
        let Places { opened, asked, worth, .. } = &self.places;
        let mut left: BTreeMap<u64, Span> = BTreeMap::new();
        for (at, place) in asked.values() {
            let Some(place) = place else { continue };
            let before = worth.get(place).map(|worth| worth.0 + now.since(*opened).0);
            let waited = Span(before.unwrap_or(0).max(now.since(*at).0));
            let longest = left.entry(*place).or_default();
            *longest = waited.max(*longest);
        }
        self.places.worth = left;
        self.places.is_unsure = !is_healthy;
    }

    /// Called when a daemon starts. After a crash the places of the run before may exist, if they were not
    /// used.
    pub(super) fn open_places(&mut self) {
        self.places.asked.clear();
        self.places.opened = self.now();
    }

    /// Checks a permit that a client received: it waited since it asked, or since it asked the last run.
    pub(super) fn check_waited(&mut self, number: u64, view: &PermitView) -> Result<(), String> {
        let now = self.now();
        let Some((at, place)) = self.places.asked.get(&number).copied() else { return Ok(()) };
        if view.waited <= now.since(at) || self.places.is_unsure {
            return Ok(());
        }
        let worth = place.and_then(|place| self.places.worth.remove(&place));
        let longest = worth.map(|worth| worth.0 + now.since(self.places.opened).0);
        if longest.is_some_and(|longest| view.waited.0 <= longest) {
            return Ok(());
        }
        Err(format!(
            "request {} asked at {at:?} with place {place:?}, which is worth {worth:?}, and counts as having waited {:?}",
            view.request.0, view.waited
        ))
    }
}
