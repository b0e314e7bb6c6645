//! The long-run rate equals the limit when enough requests wait.
//!
//! So many requests arrive at once that they wait for long. On exact wakes the k-th passes at the first
//! nanosecond at or after (k - B) D/N, however odd N and D are. On wakes that are late by less than the slip
//! every request passes at the first wake after that time: nothing is lost, however many wakes are late.

use crate::history::Step;
use crate::model::config::{Config, Limit};
use crate::rng::Rng;
use crate::story::{Story, checkpoint, request};
use crate::subject::Subject;

/// Plays the scenario for one rate and `count` requests; `late` is how late a wake may be.
///
/// # Errors
///
/// When a request passes at another time than it should.
pub fn check(
    subject: &mut dyn Subject,
    (n, d, burst): (u64, u64, u64),
    late: u64,
    count: u64,
) -> Result<(), String> {
    let begin = 1_000_000_000_000;
    let mut rng = Rng::new(n ^ d);
    let mut config = Config::empty();
    // With no slip at all, what a wake loses to the next whole nanosecond would be lost.
    config.slip = late.max(1);
    config.checkpoints.push(checkpoint(1, "c0", Limit::Rate { n, d, burst }));
    let mut story = Story::new(subject, begin, config);
    let mut passed = 0;
    for _ in 0..count {
        passed += story.submit(request("ann")).1.len() as u64;
    }
    if passed != burst {
        return Err(format!("{passed} pass at once, not the burst of {burst}"));
    }
    while passed < count {
        let due = begin + due(passed + 1 - burst, n, d);
        if story.timeout() != Some(due) {
            return Err(format!("number {passed} is due at {due}, not {:?}", story.timeout()));
        }
        story.now = due + rng.below(late.max(1));
        let started = story.step(Step::Timeout).len() as u64;
        let right = (passed..count).filter(|k| begin + self::due(k + 1 - burst, n, d) <= story.now);
        if started != right.count() as u64 {
            return Err(format!("{started} pass at {}", story.now));
        }
        passed += started;
    }
    Ok(())
}

/// The first nanosecond at or after k D/N.
fn due(k: u64, n: u64, d: u64) -> u64 {
    (k * d).div_ceil(n)
}
