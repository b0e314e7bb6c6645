//! No request starves (C3): however many more urgent requests arrive, a waiter is served before all requests
//! whose rank is higher, so after a bounded time.
//!
//! One request of low priority waits among an endless stream of urgent ones that alone need more than there is.
//! Urgent by p steps of age means: a request that arrives more than p steps later is behind the waiter.

use crate::history::Step;
use crate::model::config::{
    Arrival, Attribute, Config, Limit, Pattern, Pool, PoolState, Resource, Rule, Verdict,
};
use crate::story::{Story, checkpoint, request};
use crate::subject::Subject;
use paceline_types::Mode;

const MS: u64 = 1_000_000;

/// What the requests compete for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scarce {
    /// A count of a concurrency checkpoint.
    Count,
    /// A slot of the default pool.
    Slot,
    /// An exclusive claim, against a stream of shared ones.
    Claim,
    /// The same, with the two kinds in different pools.
    ClaimAcrossPools,
}

/// Every kind of scarcity.
pub const ALL: [Scarce; 4] = [Scarce::Count, Scarce::Slot, Scarce::Claim, Scarce::ClaimAcrossPools];

/// Plays the scenario.
///
/// # Errors
///
/// When the waiter is not served in time, or a request of a higher rank is served before it.
pub fn check(subject: &mut dyn Subject, scarce: Scarce) -> Result<(), String> {
    let (age_step, urgency) = (10 * MS, 5);
    let mut story = Story::new(subject, 1_000_000 * MS, config(scarce, age_step, urgency));
    let begin = story.now;
    let mut running: Vec<u64> = vec![];
    let mut low = None;
    // Urgent requests arrive every millisecond and take three, so that they alone are too many.
    for round in 0..400 {
        story.now += MS;
        let (_, started) = story.submit(urgent(scarce));
        running.extend(started);
        if round == 20 {
            let (id, started) = story.submit(meek(scarce));
            running.extend(started);
            low = Some((id, story.now));
        }
        if round % 3 == 0 && !running.is_empty() {
            let first = running.remove(0);
            let started = story.step(Step::Settle(first));
            running.extend(started);
        }
        let Some((id, at)) = low else { continue };
        if running.contains(&id) {
            // Ahead of it are the requests that arrived until then and in the head start, one in three ms each.
            let ahead = (at - begin) / MS + urgency * age_step / MS;
            let bound = at + 3 * (ahead + 5) * MS;
            return if story.now <= bound {
                Ok(())
            } else {
                Err(format!("{scarce:?}: served at {}, the bound is {bound}", story.now))
            };
        }
    }
    Err(format!("{scarce:?}: {low:?} was never served"))
}

fn config(scarce: Scarce, age_step: u64, urgency: u64) -> Config {
    let mut config = Config::empty();
    config.age_step = age_step;
    let rule = |number, user, verdict| Rule {
        number,
        criteria: vec![(Attribute::User, Pattern::Exact(user))],
        when: None,
        verdict,
        stop: false,
        disabled: false,
        log: false,
    };
    config.rules.push(rule(10, "ann", Verdict::Set(1 + urgency as i8)));
    config.rules.push(rule(20, "bob", Verdict::Set(1)));
    match scarce {
        Scarce::Count => config.checkpoints.push(checkpoint(1, "c0", Limit::Concurrency(1))),
        Scarce::Slot => config.pools[0].max = Some(1),
        Scarce::Claim | Scarce::ClaimAcrossPools => {
            config.resources.push(Resource { id: 1, name: "r1", parents: vec![] });
            config.resources.push(Resource { id: 2, name: "r2", parents: vec![1] });
        }
    }
    if scarce == Scarce::ClaimAcrossPools {
        config.pools.push(Pool {
            id: 1,
            name: "p0",
            range: Some((1, 1)),
            max: Some(1),
            max_len: 1_000,
            max_delay: None,
            state: PoolState::Started,
        });
    }
    config
}

fn urgent(scarce: Scarce) -> Arrival {
    let claims = match scarce {
        Scarce::Claim | Scarce::ClaimAcrossPools => vec![("r2", Mode::Shared)],
        Scarce::Count | Scarce::Slot => vec![],
    };
    Arrival { claims, ..request("ann") }
}

fn meek(scarce: Scarce) -> Arrival {
    let claims = match scarce {
        Scarce::Claim | Scarce::ClaimAcrossPools => vec![("r1", Mode::Exclusive)],
        Scarce::Count | Scarce::Slot => vec![],
    };
    Arrival { claims, ..request("bob") }
}
