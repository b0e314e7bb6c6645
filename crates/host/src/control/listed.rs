//! Requests as a list shows them.

use super::Control;
use paceline_engine::Why;
use paceline_types::{Request, RequestId};

/// A request that waits or runs.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What it asked for.
    pub request: Request,
    /// Where it stands.
    pub why: Why,
}

/// Requests that one turn under the engine's lock looks at.
const TURN: usize = 64;

impl Control {
    /// The requests that wait or run, in the order they came, from `first` on; `count` at most. The
    /// engine's lock is let go between every few, so what comes or goes meanwhile may be missing.
    #[must_use]
    pub fn list(&self, first: RequestId, count: usize) -> Vec<Listed> {
        let (mut listed, mut next) = (Vec::new(), first);
        while listed.len() < count {
            let state = self.state();
            let engine = &state.engine;
            let ids: Vec<RequestId> =
                engine.requests_from(next).take(TURN.min(count - listed.len())).collect();
            let Some(last) = ids.last() else { break };
            next = RequestId(last.0 + 1);
            listed.extend(ids.iter().filter_map(|id| {
                Some(Listed { request: engine.request(*id)?.clone(), why: engine.why(*id)? })
            }));
        }
        listed
    }
}
