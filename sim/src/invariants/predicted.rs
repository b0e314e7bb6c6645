//! Predicted times are correct on a quiet system: when no request arrives or ends, every waiter of a rate
//! passes at the very nanosecond that `why` named.

use crate::history::Step;
use crate::model::config::{Arrival, Attribute, Config, Limit, Weight};
use crate::model::{NUMBERS, Spot};
use crate::rng::Rng;
use crate::story::{Story, checkpoint, request};
use crate::subject::Subject;
use std::collections::BTreeMap;

/// Fills the queues of a random rate and compares the predictions with what happens.
///
/// # Errors
///
/// When a request passes at another time than predicted.
pub fn check(subject: &mut dyn Subject, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let n = rng.pick(&NUMBERS);
    let d = rng.between(1_000, 3_000_000_000);
    let mut config = Config::empty();
    let mut rate = checkpoint(1, "c0", Limit::Rate { n, d, burst: rng.between(3, 6) });
    rate.key = rng.chance(30).then_some(Attribute::Host);
    rate.fair = rng.chance(50).then_some(Attribute::User);
    rate.weight = rng.pick(&[Weight::Same, Weight::Of("ann", 3), Weight::Of("bob", 7)]);
    config.checkpoints.push(rate);
    let mut story = Story::new(subject, rng.pick(&[0, 1_000_000_000_000]), config);
    let count = rng.between(1, 60);
    for _ in 0..count {
        story.now += rng.pick(&[0, 0, 1, 1_000, d / n]);
        let user = rng.pick(&["ann", "bob", "cid"]);
        let arrival =
            Arrival { cost: rng.between(1, 3), host: rng.pick(&["east", "west"]), ..request(user) };
        story.submit(arrival);
    }
    let alive = story.alive();
    let mut predicted = BTreeMap::new();
    for (id, sight) in alive.iter().filter(|(_, sight)| sight.spot != Spot::Running) {
        let until =
            sight.until.ok_or_else(|| format!("seed {seed}: nothing predicted for {id}"))?;
        predicted.insert(*id, until);
    }
    while let Some(due) = story.timeout()
        && !predicted.is_empty()
    {
        story.now = due;
        for id in story.step(Step::Timeout) {
            if predicted.remove(&id) != Some(due) {
                return Err(format!("seed {seed}: request {id} passed at {due}: {alive:?}"));
            }
        }
    }
    if predicted.is_empty() { Ok(()) } else { Err(format!("seed {seed}: left {predicted:?}")) }
}
