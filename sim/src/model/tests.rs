//! The model by itself: small scenarios, worked out by hand from its specification.

use super::config::*;
use super::{Effect, Model, Outcome, Place, Reason, Spot, Stage};
use crate::history::{History, Step};
use crate::story;
use paceline_types::Mode;

const MS: u64 = 1_000_000;

fn arrival() -> Arrival {
    story::request("ann")
}

fn checkpoint(id: u32, name: &'static str, limit: Limit) -> Checkpoint {
    let queue = Bounds { max_len: 100, max_total: 100, max_delay: 1 << 60 };
    Checkpoint { queue, ..story::checkpoint(id, name, limit) }
}

fn pool(id: u32, name: &'static str, range: (i8, i8), max: u64) -> Pool {
    Pool {
        id,
        name,
        range: Some(range),
        max: Some(max),
        max_len: 100,
        max_delay: None,
        state: PoolState::Started,
    }
}

/// A rule that gives every request of this user this priority.
fn priority(user: &'static str, priority: i8) -> Rule {
    Rule {
        number: 10,
        criteria: vec![(Attribute::User, Pattern::Exact(user))],
        when: None,
        verdict: Verdict::Set(priority),
        stop: false,
        disabled: false,
        log: false,
    }
}

fn model(edit: impl FnOnce(&mut Config)) -> Model {
    let mut model = Model::new();
    let mut config = Config::empty();
    edit(&mut config);
    model.configure(0, config);
    model
}

fn submit(model: &mut Model, now: u64, arrival: &Arrival) -> (u64, Outcome) {
    model.submit(now, arrival.clone(), &|_, _| false)
}

/// Three per 10 ms, burst 2: T = 3 1/3 ms. Two pass at once; the third's time is tat - BT + T =
/// 6 2/3 - 6 2/3 + 3 1/3 = 3 1/3 ms, seen at the first whole nanosecond after it.
#[test]
fn a_rate_is_kept_to_the_third_of_a_nanosecond() {
    let rate = Limit::Rate { n: 3, d: 10 * MS, burst: 2 };
    let mut model = model(|config| config.checkpoints.push(checkpoint(1, "c", rate)));
    assert_eq!(submit(&mut model, 0, &arrival()).1, Outcome::Started);
    assert_eq!(submit(&mut model, 0, &arrival()).1, Outcome::Started);
    for _ in 0..4 {
        assert_eq!(submit(&mut model, 0, &arrival()).1, Outcome::Waiting);
    }
    for due in [3_333_334, 6_666_667, 10_000_000, 13_333_334] {
        assert_eq!(model.next_event(), Some(due));
        model.handle_timeout(due - 1);
        assert_eq!(model.take_effects(), []);
        model.handle_timeout(due);
        assert!(matches!(model.take_effects()[..], [Effect::Start(_)]));
    }
    assert!(model.requests.values().all(|request| request.stage == Stage::Running));
}

/// One per 10 ms: a wake 4 ms late costs nothing, one 7 ms late costs the excess over the slip of 5.
#[test]
fn a_late_wake_costs_what_is_over_the_slip() {
    let rate = Limit::Rate { n: 1, d: 10 * MS, burst: 1 };
    let mut model = model(|config| config.checkpoints.push(checkpoint(1, "c", rate)));
    for _ in 0..4 {
        submit(&mut model, 0, &arrival());
    }
    assert_eq!(model.next_event(), Some(10 * MS));
    model.handle_timeout(14 * MS);
    assert_eq!(model.next_event(), Some(20 * MS));
    model.handle_timeout(27 * MS);
    assert_eq!(model.next_event(), Some(32 * MS));
    model.handle_timeout(1);
    assert_eq!(model.next_event(), Some(32 * MS), "a clock that runs backwards stands still");
}

/// A request that is refused later is refunded what it spent, and the next passes at once.
#[test]
fn a_refusal_refunds() {
    let rate = Limit::Rate { n: 1, d: 10 * MS, burst: 1 };
    let mut model = model(|config| {
        config.checkpoints.push(checkpoint(1, "rate", rate));
        config.checkpoints.push(checkpoint(2, "none", Limit::Concurrency(0)));
        config.checkpoints[1].queue.max_len = 1;
    });
    assert_eq!(submit(&mut model, 0, &arrival()).1, Outcome::Waiting);
    let full = Reason::QueueFull(Place::Checkpoint("none", None), 1);
    assert_eq!(submit(&mut model, 0, &arrival()).1, Outcome::Waiting, "for the rate");
    model.handle_timeout(10 * MS);
    assert_eq!(model.take_effects(), [Effect::Refuse(2, full.clone())]);
    // Its 10 ms are refunded: the next one passes the rate now, and is refused after it as well.
    assert_eq!(submit(&mut model, 10 * MS, &arrival()).1, Outcome::Refused(full));
    assert!(model.cancel(10 * MS, 1));
    assert!(!model.cancel(10 * MS, 1));
}

#[test]
fn a_freed_count_goes_straight_to_the_next() {
    let mut model = model(|config| {
        config.checkpoints.push(checkpoint(1, "one", Limit::Concurrency(1)));
    });
    assert_eq!(submit(&mut model, 0, &arrival()), (1, Outcome::Started));
    assert_eq!(submit(&mut model, 0, &arrival()), (2, Outcome::Waiting));
    assert_eq!(model.spot(2), Some(Spot::Checkpoint("one", None)));
    let impatient = Arrival { wait_max: Some(0), ..arrival() };
    let expired = Reason::Expired(Place::Checkpoint("one", None));
    assert_eq!(submit(&mut model, 0, &impatient), (3, Outcome::Refused(expired.clone())));
    let patient = Arrival { wait_max: Some(5), ..arrival() };
    assert_eq!(submit(&mut model, 0, &patient), (4, Outcome::Waiting));
    model.handle_timeout(5);
    assert_eq!(model.take_effects(), [Effect::Refuse(4, expired)], "not only the head expires");
    assert!(model.settle(6, 1));
    assert_eq!(model.take_effects(), [Effect::Start(2)]);
    assert!(!model.settle(6, 1));
    assert_eq!(model.inflight("one", None), 1);
}

/// Weights 1 and 2, shares 2^20 and 2^19. Of the flows' finish tags: ann 1, 2, 3 and bob 0.5, 1,
/// 1.5 (in shares of ann). Ties go by rank.
#[test]
fn fair_flows_are_served_by_their_tags() {
    let mut model = model(|config| {
        let mut one = checkpoint(1, "one", Limit::Concurrency(1));
        one.fair = Some(Attribute::User);
        one.weight = Weight::Of("bob", 2);
        config.checkpoints.push(one);
    });
    let bob = Arrival { user: "bob", ..arrival() };
    submit(&mut model, 0, &arrival());
    for at in [1, 1, 1] {
        submit(&mut model, at, &arrival());
    }
    for at in [2, 2, 2] {
        submit(&mut model, at, &bob);
    }
    // ann: 2, 3, 4 with tags 1, 2, 3; bob: 5, 6, 7 with tags 0.5, 1, 1.5.
    let mut running = 1;
    for next in [5, 2, 6, 7, 3, 4] {
        model.settle(3, running);
        assert_eq!(model.take_effects(), [Effect::Start(next)]);
        running = next;
    }
}

/// The picture of the seed: a data set below a pool below a disk.
#[test]
fn a_claim_takes_the_sub_tree() {
    let mut model = model(|config| {
        let resource = |id, name, parents: &[u32]| Resource { id, name, parents: parents.into() };
        config.resources.push(resource(1, "da1", &[]));
        config.resources.push(resource(2, "da2", &[]));
        config.resources.push(resource(3, "zfs", &[1, 2]));
        config.resources.push(resource(4, "tank", &[3]));
    });
    let claim = |name, mode| Arrival { claims: vec![(name, mode)], ..arrival() };
    assert_eq!(submit(&mut model, 0, &claim("zfs", Mode::Shared)), (1, Outcome::Started));
    assert_eq!(submit(&mut model, 0, &claim("tank", Mode::Shared)), (2, Outcome::Started));
    assert_eq!(submit(&mut model, 0, &claim("da2", Mode::Exclusive)), (3, Outcome::Waiting));
    assert_eq!(
        submit(&mut model, 0, &claim("da1", Mode::Shared)),
        (4, Outcome::Waiting),
        "behind 3"
    );
    assert_eq!(model.spot(4), Some(Spot::Claims));
    // Moved out of the sub-tree, tank is still held by both.
    let mut config = model.config.clone();
    config.resources[3].parents.clear();
    model.configure(1, config);
    assert_eq!(submit(&mut model, 1, &claim("tank", Mode::Exclusive)), (5, Outcome::Waiting));
    model.settle(2, 2);
    assert_eq!(model.take_effects(), []);
    model.settle(2, 1);
    assert_eq!(model.take_effects(), [Effect::Start(3), Effect::Start(5)]);
    let near = Reason::UnknownResource("r0");
    assert_eq!(submit(&mut model, 3, &claim("r0", Mode::Shared)).1, Outcome::Refused(near));
}

/// A waiter whose pool is stopped, or whose turn could not come, blocks no other request.
#[test]
fn only_eligible_waiters_are_in_the_way() {
    let mut model = model(|config| {
        config.resources.push(Resource { id: 1, name: "r1", parents: vec![] });
        config.resources.push(Resource { id: 2, name: "r2", parents: vec![] });
        config.pools.push(pool(1, "p", (5, 5), 1));
        config.rules.push(priority("bob", 5));
    });
    let claim = |user, name| {
        let claims = vec![(name, Mode::Exclusive)];
        Arrival { user, claims, ..arrival() }
    };
    assert_eq!(submit(&mut model, 0, &claim("ann", "r1")), (1, Outcome::Started));
    assert_eq!(submit(&mut model, 0, &claim("bob", "r1")), (2, Outcome::Waiting));
    assert_eq!(submit(&mut model, 0, &claim("bob", "r2")), (3, Outcome::Started), "passes 2");
    assert_eq!(submit(&mut model, 0, &claim("bob", "r2")), (4, Outcome::Waiting));
    model.settle(1, 3);
    assert_eq!(model.take_effects(), [Effect::Start(4)], "a free slot and no conflict");
    model.settle(1, 4);
    // 2 is first for the pool's one slot, so another request of bob's is not eligible behind it.
    assert_eq!(submit(&mut model, 1, &claim("ann", "r2")), (5, Outcome::Started));
    assert_eq!(submit(&mut model, 1, &claim("bob", "r2")), (6, Outcome::Waiting));
    model.settle(2, 5);
    assert_eq!(model.take_effects(), [Effect::Start(6)]);
    let mut config = model.config.clone();
    config.pools[1].state = PoolState::Stopped;
    model.configure(3, config);
    assert_eq!(model.spot(2), Some(Spot::Stopped("p")));
    model.settle(3, 1);
    assert_eq!(submit(&mut model, 3, &claim("ann", "r1")), (7, Outcome::Started), "passes 2");
}

#[test]
fn a_session_does_not_wait_for_itself() {
    let mut model = model(|config| {
        config.resources.push(Resource { id: 1, name: "r1", parents: vec![] });
        config.resources.push(Resource { id: 2, name: "r2", parents: vec![] });
    });
    let claim = |session, names: &[&'static str]| {
        let claims = names.iter().map(|name| (*name, Mode::Exclusive)).collect();
        Arrival { session: Some(session), claims, ..arrival() }
    };
    assert_eq!(submit(&mut model, 0, &claim(1, &["r1"])).1, Outcome::Started);
    let itself = Outcome::Refused(Reason::BlocksItself);
    assert_eq!(submit(&mut model, 0, &claim(1, &["r1"])).1, itself);
    assert_eq!(submit(&mut model, 0, &claim(2, &["r1", "r2"])).1, Outcome::Waiting);
    assert_eq!(submit(&mut model, 0, &claim(1, &["r2"])).1, itself, "through the waiter");
    assert_eq!(submit(&mut model, 0, &claim(3, &["r2"])).1, Outcome::Waiting);
}

/// The second request that asks for what the other holds is refused, or the nested one when another closes the
/// circle.
#[test]
fn sessions_do_not_wait_for_each_other() {
    let mut model = model(|config| {
        config.resources.push(Resource { id: 1, name: "r1", parents: vec![] });
        config.resources.push(Resource { id: 2, name: "r2", parents: vec![] });
        config.rules.push(priority("bob", 2));
    });
    let claim = |session: u64, within: &[u64], names: &[&'static str]| {
        let claims = names.iter().map(|name| (*name, Mode::Exclusive)).collect();
        Arrival { session: Some(session), within: within.to_vec(), claims, ..arrival() }
    };
    assert_eq!(submit(&mut model, 0, &claim(1, &[], &["r1"])).1, Outcome::Started);
    assert_eq!(submit(&mut model, 0, &claim(2, &[], &["r2"])).1, Outcome::Started);
    assert_eq!(submit(&mut model, 0, &claim(3, &[1], &["r2"])), (3, Outcome::Waiting));
    let deadlock = Outcome::Refused(Reason::Deadlock);
    assert_eq!(submit(&mut model, 0, &claim(2, &[], &["r1"])).1, deadlock);
    let both = Arrival { user: "bob", session: None, ..claim(0, &[], &["r1", "r2"]) };
    assert_eq!(submit(&mut model, 0, &both).1, Outcome::Waiting);
    assert_eq!(model.take_effects(), [Effect::Refuse(3, Reason::Deadlock)]);
    model.settle(0, 2);
    model.settle(0, 1);
    assert_eq!(model.take_effects(), [Effect::Start(5)]);
    assert_eq!(submit(&mut model, 0, &claim(1, &[], &["r1"])).1, Outcome::Waiting);
    assert_eq!(submit(&mut model, 0, &claim(1, &[], &["r1"])).1, Outcome::Waiting);
    model.settle(0, 5);
    assert_eq!(model.take_effects(), [Effect::Start(6)], "the other one waits for its turn");
}

/// Priority is a head start of one age step each.
#[test]
fn rank_is_arrival_minus_priority() {
    let mut model = model(|config| {
        config.checkpoints.push(checkpoint(1, "one", Limit::Concurrency(1)));
        config.rules.push(priority("bob", 2));
        config.rules[0].log = true;
    });
    let bob = Arrival { user: "bob", ..arrival() };
    submit(&mut model, 0, &arrival());
    submit(&mut model, 0, &arrival());
    submit(&mut model, 1_999 * MS, &bob);
    submit(&mut model, 2_001 * MS, &bob);
    assert_eq!(model.take_effects(), [Effect::Log(3, 10), Effect::Log(4, 10)]);
    for (settled, next) in [(1, 3), (3, 2), (2, 4)] {
        model.settle(2_001 * MS, settled);
        assert_eq!(model.take_effects(), [Effect::Start(next)]);
    }
}

/// A request that had waited before it arrived is ahead of requests that arrived since.
#[test]
fn rank_is_as_if_it_had_come_so_much_earlier() {
    let mut model = model(|config| {
        config.checkpoints.push(checkpoint(1, "one", Limit::Concurrency(1)));
    });
    let back = |waited| Arrival { waited, wait_max: Some(100 * MS), ..arrival() };
    submit(&mut model, 5 * MS, &arrival());
    submit(&mut model, 6 * MS, &arrival());
    submit(&mut model, 7 * MS, &back(2 * MS));
    submit(&mut model, 8 * MS, &back(9 * MS));
    submit(&mut model, 9 * MS, &back(MS));
    assert_eq!(model.take_effects(), []);
    assert_eq!(model.next_event(), Some(107 * MS), "its deadline counts from when it came");
    for (settled, next) in [(1, 4), (4, 3), (3, 2), (2, 5)] {
        model.settle(10 * MS, settled);
        assert_eq!(model.take_effects(), [Effect::Start(next)]);
    }
}

/// One per 10 ms: a withdrawn request has spent nothing, so the next takes its place; a settled one has.
#[test]
fn who_is_withdrawn_has_spent_nothing() {
    let rate = Limit::Rate { n: 1, d: 10 * MS, burst: 1 };
    let mut model = model(|config| config.checkpoints.push(checkpoint(1, "c", rate)));
    assert_eq!(submit(&mut model, 0, &arrival()).1, Outcome::Started);
    assert_eq!(submit(&mut model, 0, &arrival()).1, Outcome::Waiting);
    assert_eq!(submit(&mut model, 0, &arrival()).1, Outcome::Waiting);
    assert!(model.withdraw(0, 1));
    assert_eq!(model.take_effects(), [Effect::Start(2)]);
    assert!(model.settle(0, 2));
    assert_eq!((model.take_effects(), model.next_event()), (vec![], Some(10 * MS)));
    assert!(!model.withdraw(0, 3), "it does not run");
}

/// A renamed checkpoint keeps its holders and waiters; a condition refers to the object that has the name now.
#[test]
fn names_are_read_anew_and_queues_are_kept() {
    let mut model = model(|config| {
        config.checkpoints.push(checkpoint(1, "c0", Limit::Concurrency(1)));
        config.checkpoints.push(checkpoint(2, "c1", Limit::Concurrency(9)));
        let when = Some(When::Queued("c0", None, 0));
        config.rules.push(Rule { when, verdict: Verdict::Reject, ..priority("bob", 0) });
    });
    let bob = Arrival { user: "bob", ..arrival() };
    submit(&mut model, 0, &arrival());
    submit(&mut model, 0, &arrival());
    assert_eq!(submit(&mut model, 0, &bob).1, Outcome::Refused(Reason::Rejected(10)));
    let mut config = model.config.clone();
    (config.checkpoints[0].name, config.checkpoints[1].name) = ("c1", "c0");
    model.configure(0, config);
    assert_eq!(model.spot(2), Some(Spot::Checkpoint("c1", None)));
    assert_eq!(submit(&mut model, 0, &bob).1, Outcome::Waiting);
    model.settle(0, 1);
    assert_eq!(model.take_effects(), [Effect::Start(2)]);
}

/// Random histories complete, every stage is reached, and at the end everything is released.
#[test]
fn random_histories_reach_every_corner() {
    let (mut started, mut waited, mut refused) = (0, 0, std::collections::BTreeMap::new());
    for seed in 0..300 {
        let mut history = History::new(seed);
        let mut model = Model::new();
        let (now, config) = history.start();
        model.configure(now, config);
        for _ in 0..history.profile.steps {
            let (now, step) = history.step(&model);
            let owned = history.owned.clone();
            match step {
                Step::Submit(arrival) => {
                    let owns = |session, lock: &str| owned.iter().any(|o| *o == (session, lock));
                    match model.submit(now, *arrival, &owns).1 {
                        Outcome::Started => started += 1,
                        Outcome::Waiting => waited += 1,
                        Outcome::Refused(reason) => {
                            let kind = format!("{reason:?}");
                            let kind = kind.split('(').next().unwrap_or_default().to_string();
                            *refused.entry(kind).or_insert(0) += 1;
                        }
                    }
                }
                Step::Settle(id) => drop(model.settle(now, id)),
                Step::Withdraw(id) => drop(model.withdraw(now, id)),
                Step::End(id) => drop(model.end_either(now, id)),
                Step::Cancel(id) => drop(model.cancel(now, id)),
                Step::EndSession(session) => model.end_session(now, session),
                Step::LockTaken(..) => {}
                Step::LockLost(session, lock) => model.lock_lost(now, session, lock),
                Step::Configure(config, _) => model.configure(now, *config),
                Step::SetUp(server, up) => model.set_up(now, server, up),
                Step::Reroute(id) => drop(model.reroute(now, id)),
                Step::Timeout => model.handle_timeout(now),
            }
        }
    }
    println!("{started} started, {waited} waited, {refused:?}");
    assert!(started > 1_000 && waited > 1_000, "{started} started, {waited} waited");
    assert_eq!(refused.len(), 12, "{refused:?}");
}
