//! Flows under `fair` get their shares: equal ones by default, by weight if weights are given, and no flow gets
//! less than it asks for because another asks for more.
//!
//! Measured by Jain's index over what each flow got divided by its fair share: 1 is perfectly fair.

use crate::history::Step;
use crate::model::config::{Arrival, Attribute, Config, Limit, Weight};
use crate::story::{Story, checkpoint, request};
use crate::subject::Subject;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// What two flows ask for and should get, in requests a second of a rate of 100.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What `ann` and `bob` ask for.
    pub asked: (u64, u64),
    /// What each of their requests costs.
    pub cost: (u64, u64),
    /// The weight of `ann`; that of `bob` is 1.
    pub weight: u64,
    /// Their fair shares, as cost.
    pub deserved: (u64, u64),
}

/// Cases that must be fair.
pub const CASES: [Case; 5] = [
    Case { asked: (180, 180), cost: (1, 1), weight: 1, deserved: (50, 50) },
    Case { asked: (180, 20), cost: (1, 1), weight: 1, deserved: (80, 20) },
    Case { asked: (180, 60), cost: (1, 1), weight: 1, deserved: (50, 50) },
    Case { asked: (180, 180), cost: (1, 1), weight: 3, deserved: (75, 25) },
    Case { asked: (180, 60), cost: (1, 3), weight: 1, deserved: (50, 50) },
];

/// Lets both flows ask for some seconds and checks what they got.
///
/// # Errors
///
/// When the shares are less fair than 0.99.
pub fn check(subject: &mut dyn Subject, case: Case, seconds: u64) -> Result<(), String> {
    let begin = 1_000 * SECOND;
    let mut config = Config::empty();
    let rate = Limit::Rate { n: 100, d: SECOND, burst: 5 };
    let mut fair = checkpoint(1, "c0", rate);
    fair.fair = Some(Attribute::User);
    fair.weight = Weight::Of("ann", case.weight);
    config.checkpoints.push(fair);
    let mut story = Story::new(subject, begin, config);
    let mut costs = BTreeMap::new();
    let mut got = [0u64, 0];
    let mut arrivals = vec![];
    for (user, asked, cost) in
        [("ann", case.asked.0, case.cost.0), ("bob", case.asked.1, case.cost.1)]
    {
        let apart = SECOND / asked;
        let request = Arrival { cost, ..request(user) };
        arrivals.extend((0..asked * seconds).map(|k| (begin + k * apart, request.clone())));
    }
    arrivals.sort_by_key(|(at, _)| *at);
    for (at, arrival) in arrivals {
        while let Some(due) = story.timeout().filter(|due| *due <= at) {
            story.now = due;
            let started = story.step(Step::Timeout);
            count(&started, &costs, &mut got);
        }
        story.now = at;
        let (user, cost) = (arrival.user, arrival.cost);
        let (id, started) = story.submit(arrival);
        costs.insert(id, (user, cost));
        count(&started, &costs, &mut got);
    }
    let [ann, bob] = [(got[0], case.deserved.0), (got[1], case.deserved.1)]
        .map(|(got, deserved)| got as f64 / (deserved * seconds) as f64);
    let jain = (ann + bob).powi(2) / (2.0 * (ann * ann + bob * bob));
    if jain < 0.99 || ann + bob < 1.98 {
        return Err(format!("{case:?}: got {got:?}, Jain's index {jain:.4}"));
    }
    Ok(())
}

fn count(started: &[u64], costs: &BTreeMap<u64, (&str, u64)>, got: &mut [u64; 2]) {
    for (user, cost) in started.iter().filter_map(|id| costs.get(id)) {
        got[usize::from(*user == "bob")] += cost;
    }
}
