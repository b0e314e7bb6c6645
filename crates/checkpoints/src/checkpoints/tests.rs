//! Tests of the whole crate, written from the design and the engine notes.

mod bounds;
mod concurrency;
mod configure;
mod fair;
mod history;
mod keys;
mod model;
mod rate;
mod shares;
mod watch;

use super::Checkpoints;
use crate::at::At;
use crate::hash::KeyHash;
use crate::limit::Limit;
use crate::set::CheckpointSet;
use crate::spec::Spec;
use crate::ticket::{Arrival, Cause, HeldCount, How, Moved, Ticket, Turned};
use paceline_expr::Scope;
use paceline_types::{CheckpointId, PoolId, Priority, Rank, RequestId, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

const ID: CheckpointId = CheckpointId(1);
const MS: u64 = 1_000_000;
const SLIP: Span = Span::from_ms(5);

struct NoNames;

impl Scope for NoNames {
    fn checkpoint(&self, _: &str) -> Option<CheckpointId> {
        None
    }
    fn pool(&self, _: &str) -> Option<PoolId> {
        None
    }
    fn names(&self) -> Vec<&str> {
        vec![]
    }
}

/// A small generator: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
        (self.0 >> 33) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn rate(count: u32, per: Span, burst: u32) -> Spec {
    spec(Limit::Rate { count, per, burst })
}

fn spec(limit: Limit) -> Spec {
    Spec::new(ID, "one", At::Frontend("api".into()), limit)
}

fn set(specs: Vec<Spec>) -> Arc<CheckpointSet> {
    Arc::new(CheckpointSet::compile(specs, &NoNames).unwrap())
}

fn ticket(now: Time, id: u64) -> Ticket {
    Ticket {
        rank: Rank::new(now, Priority::START, Span::from_secs(1), RequestId(id)),
        key: KeyHash::default(),
        flow: KeyHash::default(),
        weight: 1,
        cost: 1,
        deadline: None,
        kept: None,
    }
}

/// One checkpoint with a clock, and what every request holds.
struct Kit {
    room: Checkpoints,
    now: Time,
    held: BTreeMap<u64, HeldCount>,
}

/// The result of an arrival, without the count that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Passed,
    Queued(Option<u64>),
    Full { max: u64, retry_at: Option<u64> },
    TooLong { wait: u64, max: u64, retry_at: Option<u64> },
    Expired { waited: u64, retry_at: Option<u64> },
    CostTooHigh { burst: u32 },
    Again,
    Gone,
}

impl Kit {
    fn new(spec: Spec) -> Self {
        let mut room = Checkpoints::new(7, SLIP);
        room.configure(Time(0), set(vec![spec]));
        Self { room, now: Time(0), held: BTreeMap::new() }
    }

    fn configure(&mut self, specs: Vec<Spec>) {
        self.room.configure(self.now, set(specs));
    }

    /// A plain request of cost 1 arrives.
    fn arrive(&mut self, id: u64) -> Came {
        self.arrive_with(id, |_| ())
    }

    fn arrive_all(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            self.arrive(id);
        }
    }

    fn arrive_with(&mut self, id: u64, change: impl Fn(&mut Ticket)) -> Came {
        let mut ticket = ticket(self.now, id);
        change(&mut ticket);
        match self.room.arrive(self.now, ID, &ticket) {
            Arrival::Passed(held) => {
                assert!(self.held.insert(id, held).is_none());
                Came::Passed
            }
            Arrival::Queued { pass_at, .. } => Came::Queued(pass_at.map(|at| at.0)),
            Arrival::Refused(turned) => turned_away(turned),
        }
    }

    fn settle(&mut self, id: u64) -> Option<u64> {
        let held = self.held.remove(&id).unwrap();
        self.room.settle(self.now, held);
        let moved = self.room.handed()?;
        let (id, came) = self.took(moved);
        assert_eq!(came, Came::Passed);
        Some(id)
    }

    fn refund(&mut self, id: u64) {
        let held = self.held.remove(&id).unwrap();
        self.room.refund(self.now, held);
    }

    /// Everything that moves up to `until`, each at its exact time.
    fn run(&mut self, until: Time) -> Vec<(u64, u64, Came)> {
        let mut all = vec![];
        while let Some(at) = self.room.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            all.extend(self.due());
        }
        self.now = until;
        all
    }

    /// Everything that is due now.
    fn due(&mut self) -> Vec<(u64, u64, Came)> {
        let mut all = vec![];
        while let Some(moved) = self.room.next(self.now) {
            let (id, came) = self.took(moved);
            all.push((self.now.0, id, came));
        }
        all
    }

    fn took(&mut self, moved: Moved) -> (u64, Came) {
        let id = moved.request.0;
        let came = match moved.how {
            How::Passed(held) => {
                assert!(self.held.insert(id, held).is_none());
                Came::Passed
            }
            How::Refused(turned) => turned_away(turned),
            How::Again(_) => Came::Again,
            How::Gone { .. } => Came::Gone,
        };
        (id, came)
    }
}

fn turned_away(turned: Turned) -> Came {
    let retry_at = turned.retry_at.map(|at| at.0);
    match turned.cause {
        Cause::Full { max } => Came::Full { max, retry_at },
        Cause::TooLong { wait, max } => Came::TooLong { wait: wait.0, max: max.0, retry_at },
        Cause::Expired { waited } => Came::Expired { waited: waited.0, retry_at },
        Cause::CostTooHigh { burst } => Came::CostTooHigh { burst },
    }
}

/// Ids of the requests that passed, in order.
fn passed(moves: &[(u64, u64, Came)]) -> Vec<u64> {
    moves.iter().filter(|(.., came)| *came == Came::Passed).map(|(_, id, _)| *id).collect()
}
