//! How the history of one seed is mixed: some try everything, some dwell on one room.

use crate::rng::Rng;

/// What a history dwells on.
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
    /// What it dwells on.
    pub focus: Focus,
    /// How many steps.
    pub steps: u64,
    /// Weights of arrivals, settles, cancels, ends of sessions, locks, edits, timeouts.
    pub mix: [u64; 7],
    /// The most checkpoints at the start.
    pub checkpoints: u64,
    /// The most pools beside the default pool.
    pub pools: u64,
    /// The most resources.
    pub resources: u64,
    /// The most rules.
    pub rules: u64,
    /// In how many of a hundred cases a checkpoint is fair, has keys, watches, has a condition.
    pub fair: u64,
    /// See `fair`.
    pub keyed: u64,
    /// See `fair`.
    pub watch: u64,
    /// See `fair`.
    pub when: u64,
    /// In how many of a hundred cases bounds are tight.
    pub tight: u64,
    /// Weights of rate, concurrency and count among checkpoints.
    pub kinds: [u64; 3],
    /// In how many of a hundred cases a request has claims.
    pub claims: u64,
    /// In how many of a hundred cases the default pool has a maximum.
    pub full: u64,
    /// How many requests the engine moves in one call.
    pub step_max: usize,
    /// How many requests may be alive.
    pub requests_max: usize,
    /// Whether there are frontends, backends and connections.
    pub routes: bool,
    /// Whether requests are withdrawn, things renamed, and `backend` and `server` read.
    pub wide: bool,
    /// Whether what is edited is often edited back, while much runs.
    pub churn: bool,
    /// Whether frontends are renamed.
    pub signs: bool,
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
        };
        profile.dwell(rng);
        // Few settles fill the house, many empty it.
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

    /// More edits and conditions, where names are edited and read.
    pub fn widen(&mut self) {
        if self.wide {
            (self.mix[5], self.when) = (self.mix[5] * 2, 40);
        }
        if self.wide && self.routes {
            (self.mix[5], self.kinds[2]) = (self.mix[5] * 2, self.kinds[2] + 2);
        }
    }

    /// Many edits, and few who end: where things are edited back.
    pub fn stir(&mut self) {
        if self.churn {
            self.mix[5] = self.mix[5].max(12) * 2;
            self.mix[1] /= 2;
            self.watch /= 2;
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
