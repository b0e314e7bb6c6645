//! The engine's figures, read in pieces so that no request waits long for the engine's lock.

use super::Control;
use paceline_claims::NodeKey;
use paceline_engine::Snapshot;
use paceline_model::Figures;
use paceline_routing::ServerFigures;
use paceline_types::PoolId;

/// Checkpoints, resources, backends or servers that are read per turn under the lock.
const TURN: usize = 256;

impl Control {
    /// How many requests run, wait, pass and are refused, for each object.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        let state = self.state();
        let snapshot = state.engine.snapshot();
        for pool in snapshot.pools().list() {
            let pools = state.engine.pools();
            let (running, waiting) = (pools.running(pool.id), pools.waiting(pool.id));
            figures.pools.insert(pool.id, (u64::from(running), waiting as u64));
        }
        let counts = state.engine.rule_counts().read();
        drop(state);
        let numbers = snapshot.rules().rules().iter().map(|rule| rule.number);
        figures.rules = numbers.zip(counts).collect();
        let checkpoints: Vec<_> = snapshot.checkpoints().iter().map(|one| one.spec.id).collect();
        for ids in checkpoints.chunks(TURN) {
            let state = self.state();
            let of = |id| Some((id, state.engine.checkpoints().stats(id)?));
            figures.checkpoints.extend(ids.iter().copied().filter_map(of));
        }
        self.resource_figures(&mut figures);
        self.backend_figures(&snapshot, &mut figures);
        self.server_figures(&snapshot, &mut figures);
        figures.frontends = self.http.figures();
        figures
    }

    /// How many requests run in a pool, and how many wait for it.
    #[must_use]
    pub fn pool_figures(&self, pool: PoolId) -> (u32, usize) {
        let state = self.state();
        (state.engine.pools().running(pool), state.engine.pools().waiting(pool))
    }

    fn backend_figures(&self, snapshot: &Snapshot, figures: &mut Figures) {
        let backends: Vec<_> =
            snapshot.routing().backends().iter().map(|backend| backend.id).collect();
        for ids in backends.chunks(TURN) {
            let state = self.state();
            let of = |id| Some((id, state.engine.servers_stats(id)?));
            figures.backends.extend(ids.iter().copied().filter_map(of));
        }
    }

    fn server_figures(&self, snapshot: &Snapshot, figures: &mut Figures) {
        let backends = snapshot.routing().backends().iter();
        let servers: Vec<_> =
            backends.flat_map(|backend| &backend.servers).map(|server| server.id).collect();
        for ids in servers.chunks(TURN) {
            let state = self.state();
            let of = |id| {
                let ServerFigures { up, held } = state.engine.fleet().server(id)?;
                Some((id, (up, u64::from(held))))
            };
            figures.servers.extend(ids.iter().copied().filter_map(of));
        }
    }

    fn resource_figures(&self, figures: &mut Figures) {
        let mut after: Option<NodeKey> = None;
        loop {
            let state = self.state();
            let mut looked_at = 0;
            for view in state.engine.claims().views(after).take(TURN) {
                (after, looked_at) = (Some(view.key), looked_at + 1);
                let counts = (view.holding as u64, view.waiting as u64);
                if let Some(id) = view.id.filter(|_| counts != (0, 0)) {
                    figures.resources.insert(id, counts);
                }
            }
            if looked_at < TURN {
                return;
            }
        }
    }
}
