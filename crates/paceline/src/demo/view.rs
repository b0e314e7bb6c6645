//! What the demo shows: the state behind one frame, updated from answers and decisions.
//!
//! Pure: it receives values and does no I/O.

use super::traffic::seconds;
use crate::command::{as_text, figure, text};
use crate::moment;
use paceline_client::{Listed, Why};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Decisions that are kept to be shown.
const DECISIONS_MAX: usize = 200;

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Admitted,
    Waits,
    Refused,
}

/// A decision, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Since the start.
    pub at: Duration,
    pub verdict: Verdict,
    pub who: String,
    pub text: String,
}

/// How busy a pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    pub running: u64,
    /// Run slots; `None` if there is no limit.
    pub slots: Option<u64>,
    pub waiting: u64,
}

/// The state of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    pub name: String,
    pub limit: String,
    pub inflight: String,
    pub queued: u64,
    pub passed: String,
    pub refused: String,
}

/// A lock or a resource that is held or waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub what: String,
    pub holders: Vec<String>,
    pub waiters: Vec<String>,
}

/// Everything a frame shows.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub elapsed: Duration,
    pub data: String,
    pub admitted: u64,
    pub waited: u64,
    pub refused: u64,
    pub pools: Vec<Pool>,
    pub checkpoints: Vec<Checkpoint>,
    pub held: Vec<Held>,
    pub decisions: VecDeque<Decision>,
}

impl View {
    /// Records a decision.
    pub fn note(&mut self, decision: Decision) {
        match decision.verdict {
            Verdict::Admitted => self.admitted += 1,
            Verdict::Waits => self.waited += 1,
            Verdict::Refused => self.refused += 1,
        }
        self.decisions.push_back(decision);
        if self.decisions.len() > DECISIONS_MAX {
            self.decisions.pop_front();
        }
    }

    /// How many requests run and wait in each pool, from all requests; `pools` lists the pools.
    pub fn show_pools(&mut self, pools: &[Value], requests: &[Listed]) {
        let count = |name: &str, state: &str| {
            let fits = |request: &&Listed| request.pool == name && request.state == state;
            requests.iter().filter(fits).count() as u64
        };
        let pool = |pool: &Value| {
            let name = text(pool, "name");
            Pool {
                running: count(&name, "running"),
                waiting: count(&name, "waiting"),
                slots: pool.pointer("/threads/max").and_then(Value::as_u64),
                name,
            }
        };
        self.pools = pools.iter().map(pool).collect();
    }

    /// The state of the checkpoints, with the requests that wait at each.
    pub fn show_checkpoints(&mut self, checkpoints: &[Value], requests: &[Listed]) {
        let waits_at = |name: &str| {
            let at = |request: &&Listed| {
                let place = request.waits_for.as_ref().and_then(|place| place.get("checkpoint"));
                place.and_then(Value::as_str) == Some(name)
            };
            requests.iter().filter(at).count() as u64
        };
        let checkpoint = |checkpoint: &Value| {
            let name = text(checkpoint, "name");
            Checkpoint {
                limit: limit(checkpoint),
                inflight: figure(checkpoint, "inflight"),
                queued: waits_at(&name),
                passed: figure(checkpoint, "passed"),
                refused: figure(checkpoint, "refused"),
                name,
            }
        };
        self.checkpoints = checkpoints.iter().map(checkpoint).collect();
    }

    /// Which users hold and wait for what.
    pub fn show_held(&mut self, locks: &[Value], tree: &[Value], requests: &[Listed]) {
        let names: BTreeMap<u64, &str> =
            requests.iter().map(|request| (request.request, request.text.as_str())).collect();
        let who = |list: &Value| -> Vec<String> {
            let each = list.as_array().into_iter().flatten();
            each.map(|id| match id.as_u64().and_then(|id| names.get(&id)) {
                Some(name) => (*name).to_owned(),
                None => owner(&as_text(id)),
            })
            .collect()
        };
        let mut held = vec![];
        for lock in locks {
            let holders = lock.get("owner").filter(|owner| !owner.is_null());
            held.push(Held {
                what: format!("lock {}", text(lock, "name")),
                holders: holders.map(as_text).iter().map(|name| owner(name)).collect(),
                waiters: lock.get("waiters").map(&who).unwrap_or_default(),
            });
        }
        for node in tree {
            let list = |name: &str| node.get(name).map(&who).unwrap_or_default();
            let (holders, waiters) = (list("holders"), list("waiters"));
            if !holders.is_empty() || !waiters.is_empty() {
                held.push(Held { what: text(node, "name"), holders, waiters });
            }
        }
        self.held = held;
    }
}

/// The owner of a lock: the name of the session, without its origin.
fn owner(name: &str) -> String {
    let name = name.rsplit_once('#').map_or(name, |(name, _)| name);
    name.rsplit_once(':').map_or(name, |(name, _)| name).to_owned()
}

/// `6/s, burst 3, by user`
fn limit(checkpoint: &Value) -> String {
    let mut parts = vec![];
    match (checkpoint.get("rate"), checkpoint.get("concurrency")) {
        (Some(rate), _) if !rate.is_null() => parts.push(as_text(rate)),
        (_, Some(most)) if !most.is_null() => parts.push(format!("{} at once", as_text(most))),
        _ => parts.push("counts".to_owned()),
    }
    let key = text(checkpoint, "key");
    if !key.is_empty() {
        parts.push(format!("per {key}"));
    }
    parts.join(" ")
}

/// Why a request waits, in the words of `why`, with a readable time.
pub fn reason(why: &Why) -> String {
    let mut text = why.message.split(", ").next().unwrap_or_default().to_owned();
    if let Some(rest) = text.strip_prefix("waits ") {
        text = rest.to_owned();
    }
    if why.ahead_total > 0 {
        text.push_str(&format!(", {} ahead", why.ahead_total));
    }
    let until = why.until.as_deref().and_then(moment::millis);
    if let (Some(until), Some(since)) = (until, moment::millis(&why.since)) {
        let left = u64::try_from(until.saturating_sub(since)).unwrap_or_default();
        text.push_str(&format!(", {}", seconds(Duration::from_millis(left))));
    }
    text
}
