//! Requests that arrive.

use super::{History, MS};
use crate::model::config::{Arrival, Config, Unknown};
use crate::words::{HOSTS, LOCKS, MADE, RESOURCES, SERVERS, TASKS, TEXTS, USERS};
use paceline_types::Mode;

impl History {
    /// A new request.
    pub(super) fn arrival(&mut self, config: &Config) -> Arrival {
        let rng = &mut self.rng;
        let backend = rng.pick(&["db", "db", "app", ""]);
        let server = if backend == "db" && rng.chance(60) { rng.pick(&SERVERS) } else { "" };
        let mut arrival = Arrival {
            connection: false,
            user: rng.pick(&USERS),
            host: rng.pick(&HOSTS),
            task: rng.pick(&TASKS),
            text: rng.pick(&TEXTS),
            frontend: rng.pick(&["api", "api", "web"]),
            backend,
            server,
            cost: [1, 2, 3, 6][rng.weighted(&[75, 15, 8, 2])],
            claims: vec![],
            unknown: Unknown::Refuse,
            locks: vec![],
            wait_max: None,
            waited: 0,
            session: None,
            within: vec![],
        };
        arrival.wait_max = match rng.below(10) {
            0 => Some(0),
            1 | 2 => Some(rng.below(40 * MS)),
            3 => Some(rng.below(5_000 * MS)),
            _ => None,
        };
        if rng.chance(50) {
            arrival.session = Some(rng.between(1, 3));
            if rng.chance(7) {
                arrival.locks.push(rng.pick(&LOCKS));
            }
            if rng.chance(3) {
                arrival.locks.push(rng.pick(&LOCKS));
            }
        }
        if self.profile.nests {
            self.nest(&mut arrival);
        }
        let rng = &mut self.rng;
        if rng.chance(self.profile.claims) {
            self.claim(&mut arrival, config);
        }
        self.send_to_door(&mut arrival, config);
        if self.profile.returns && self.rng.chance(30) {
            // Some before the clock began, several the same.
            arrival.waited = self.rng.pick(&[1, 10 * MS, 500 * MS, 3_000 * MS, u64::MAX / 4]);
        }
        arrival
    }

    /// Most requests have a session, and many run within another.
    fn nest(&mut self, arrival: &mut Arrival) {
        let rng = &mut self.rng;
        if arrival.locks.is_empty() && rng.chance(80) {
            arrival.session = Some(rng.between(1, 6));
        }
        for _ in 0..rng.weighted(&[75, 20, 5]) {
            arrival.within.push(rng.between(1, 6));
        }
        if rng.chance(70) {
            arrival.wait_max = None;
        }
    }

    fn claim(&mut self, arrival: &mut Arrival, config: &Config) {
        let rng = &mut self.rng;
        arrival.unknown =
            [Unknown::Refuse, Unknown::Wait, Unknown::Create][rng.weighted(&[6, 2, 1])];
        let shared = rng.pick(&[0, 30, 80]);
        for _ in 0..rng.weighted(&[0, 60, 25, 10, 5]) {
            let known = rng.pick_any(&config.resources).map(|resource| resource.name);
            let name = match (rng.below(20), known) {
                (0, _) => rng.pick(&MADE),
                (1, _) => rng.pick(&RESOURCES),
                (_, Some(known)) => known,
                (_, None) => rng.pick(&MADE),
            };
            // Requests create only names that are never configured.
            let makes = arrival.unknown == Unknown::Create;
            let name = if makes && known != Some(name) { rng.pick(&MADE) } else { name };
            let mode = if rng.chance(shared) { Mode::Shared } else { Mode::Exclusive };
            arrival.claims.push((name, mode));
        }
    }
}
