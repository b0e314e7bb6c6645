//! The mix of the history of one seed: some exercise everything, some concentrate on one room.

use crate::rng::Rng;

/// What a history concentrates on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Everything at once.
    Mixed,
    /// One or two rate checkpoints.
    Rate,
    /// Concurrency checkpoints.
    Concurrency,
    /// Fair queues.
    Fair,
    /// Claims on a graph.
    Claims,
    /// Pools and rules.
    Pools,
    /// Many edits.
    Edits,
}

/// The mix.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What it concentrates on.
    pub focus: Focus,
    /// The number of steps.
    pub steps: u64,
    /// Weights of arrivals, settles, cancels, ends of sessions, locks, edits, timeouts.
    pub mix: [u64; 7],
    /// The most checkpoints at the start.
    pub checkpoints: u64,
    /// The most pools in addition to the default pool.
    pub pools: u64,
    /// The most resources.
    pub resources: u64,
    /// The most rules.
    pub rules: u64,
    /// The percentage of checkpoints that are fair, have keys, watch, or have a condition.
    pub fair: u64,
    /// See `fair`.
    pub keyed: u64,
    /// See `fair`.
    pub watch: u64,
    /// See `fair`.
    pub when: u64,
    /// The percentage of tight bounds.
    pub tight: u64,
    /// Weights of rate, concurrency and count among checkpoints.
    pub kinds: [u64; 3],
    /// The percentage of requests that have claims.
    pub claims: u64,
    /// The percentage of histories whose default pool has a maximum.
    pub full: u64,
    /// How many requests the engine moves in one call.
    pub step_max: usize,
    /// How many requests may be alive.
    pub requests_max: usize,
    /// Whether there are frontends, backends and connections.
    pub routes: bool,
    /// Whether requests are withdrawn, objects renamed, and `backend` and `server` read.
    pub wide: bool,
    /// Whether edits are often undone, while many requests run.
    pub churn: bool,
    /// Whether frontends are renamed.
    pub signs: bool,
    /// Whether sessions hold claims and ask for more.
    pub nests: bool,
    /// Whether requests arrive that had waited before.
    pub returns: bool,
}

impl Profile {
    /// The mix of a seed.
    pub fn draw(rng: &mut Rng) -> Self {
        let all = [
            Focus::Mixed,
            Focus::Rate,
            Focus::Concurrency,
            Focus::Fair,
            Focus::Claims,
            Focus::Pools,
            Focus::Edits,
        ];
        let focus = all[rng.weighted(&[30, 14, 12, 12, 14, 10, 8])];
        let mut profile = Self {
            focus,
            steps: [60, 110, 250][rng.weighted(&[70, 25, 5])],
            mix: [40, 22, 6, 1, 3, 5, 25],
            checkpoints: 5,
            pools: 3,
            resources: 10,
            rules: 6,
            fair: 25,
            keyed: 40,
            watch: 10,
            when: 20,
            tight: 30,
            kinds: [5, 4, 1],
            claims: 35,
            full: 40,
            step_max: 256,
            requests_max: 1_000_000,
            routes: false,
            wide: false,
            churn: false,
            signs: false,
            nests: false,
            returns: false,
        };
        profile.dwell(rng);
        // Few settles fill the pools, many empty them.
        profile.mix[0] = rng.between(30, 80);
        profile.mix[1] = rng.between(5, 35);
        if rng.chance(15) {
            profile.step_max = rng.between(1, 4) as usize;
        }
        if rng.chance(5) {
            profile.requests_max = rng.between(3, 20) as usize;
        }
        profile
    }

    /// More edits and conditions, if names are edited and read.
    pub fn widen(&mut self) {
        if self.wide {
            (self.mix[5], self.when) = (self.mix[5] * 2, 40);
        }
        if self.wide && self.routes {
            (self.mix[5], self.kinds[2]) = (self.mix[5] * 2, self.kinds[2] + 2);
        }
    }

    /// Many edits, and few ends of requests, if edits are undone.
    pub fn stir(&mut self) {
        if self.churn {
            self.mix[5] = self.mix[5].max(12) * 2;
            self.mix[1] /= 2;
            self.watch /= 2;
        }
    }

    /// Claims, priorities, pools and edits of resources, whatever else the seed concentrates on.
    pub fn nest(&mut self) {
        if self.nests {
            (self.claims, self.resources, self.full) = (90, self.resources.max(16), self.full / 2);
            (self.pools, self.rules) = (self.pools.max(2), self.rules.max(6));
            self.checkpoints = self.checkpoints.min(2);
            self.mix[5] = self.mix[5].max(9);
            self.mix[1] = self.mix[1].min(20);
        }
    }

    fn dwell(&mut self, rng: &mut Rng) {
        match self.focus {
            Focus::Mixed => {}
            Focus::Rate => {
                (self.checkpoints, self.pools, self.resources, self.rules) = (2, 0, 0, 2);
                (self.kinds, self.claims, self.when) = ([1, 0, 0], 0, 5);
            }
            Focus::Concurrency => {
                (self.checkpoints, self.pools, self.resources, self.rules) = (3, 0, 0, 2);
                (self.kinds, self.claims, self.when) = ([0, 1, 0], 0, 5);
            }
            Focus::Fair => {
                (self.checkpoints, self.pools, self.resources, self.rules) = (2, 0, 0, 2);
                (self.kinds, self.claims, self.fair, self.when) = ([1, 1, 0], 0, 95, 0);
                (self.keyed, self.tight) = (15, 10);
            }
            Focus::Claims => {
                (self.checkpoints, self.pools, self.rules) = (rng.below(2), 3, 8);
                (self.resources, self.mix[5]) = (rng.pick(&[4, 8, 14]), 9);
                (self.claims, self.watch, self.full) = (95, 0, 60);
            }
            Focus::Pools => {
                (self.checkpoints, self.pools, self.resources, self.rules) = (1, 4, 0, 10);
                self.claims = 0;
            }
            Focus::Edits => {
                self.mix[5] = 25;
            }
        }
    }
}
