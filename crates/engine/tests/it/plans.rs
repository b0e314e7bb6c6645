//! Plans that a script cannot make: several edits in one, and two from the same configuration.

use paceline_checkpoints::{At, Limit, Spec};
use paceline_claims::{Resource, ResourceId};
use paceline_engine::{Config, Effect, Engine, Outcome, Plan, WaitsFor, prepare};
use paceline_pools::{Change, PoolSet, Range};
use paceline_rules::Rule;
use paceline_types::{
    Attributes, CheckpointId, Claim, KNOWN, Mode, Priority, Reason, Refusal, Request, RequestId,
    Time, Unknown, limits,
};

pub fn configure(engine: &mut Engine, config: &Config) {
    let plan = Plan::new(&engine.snapshot(), config.clone()).unwrap();
    engine.configure(Time(0), &plan);
}

pub fn submit(engine: &mut Engine, request: Request) -> (RequestId, Outcome) {
    let prepared = prepare(&engine.snapshot(), request).unwrap();
    engine.submit(Time(0), prepared, &|_, _| false)
}

pub fn from_api() -> Attributes {
    let mut attributes = Attributes::new();
    attributes.set("frontend", "api").unwrap();
    attributes
}

/// A stopped pool for every priority but 0, a rule that gives one, and a resource.
fn pool_and_resource() -> Config {
    let mut pools = PoolSet::new(1);
    pools.create("p").unwrap();
    let range = Range::new(Priority::MIN, Priority::MAX);
    pools.configure("p", Change { range, ..Change::default() }).unwrap();
    let resource = Resource { id: ResourceId(1), name: "r".into(), parents: vec![] };
    let rules = vec![Rule::parse("10 set 1 stop").unwrap()];
    Config { pools, rules, resources: vec![resource], ..Config::default() }
}

#[test]
fn a_waiter_survives_the_loss_of_its_pool_and_its_resource_at_once() {
    for unknown in [Unknown::Wait, Unknown::Create] {
        let mut engine = Engine::new(1);
        let config = pool_and_resource();
        configure(&mut engine, &config);
        let claims = vec![Claim { resource: "r".into(), mode: Mode::Exclusive }];
        let (id, outcome) =
            submit(&mut engine, Request { claims, unknown, ..Request::new(from_api()) });
        assert_eq!(outcome, Outcome::Waiting);
        let without = Config { pools: PoolSet::new(1), resources: vec![], ..config.clone() };
        configure(&mut engine, &without);
        if unknown == Unknown::Wait {
            let waits_for = engine.why(id).unwrap().waits_for;
            assert_eq!(waits_for, WaitsFor::Creation { resource: "r".into() });
            configure(&mut engine, &Config { resources: config.resources, ..without });
        }
        assert_eq!(engine.poll_effect(), Some(Effect::Start { id }), "{unknown:?}");
        assert!(engine.settle(Time(0), id));
    }
}

/// Both plans were made from the same configuration; what was prepared under the first is prepared
/// again under the second, so its limit holds (P1).
#[test]
fn two_plans_from_one_configuration_are_told_apart_p1() {
    let mut engine = Engine::new(1);
    let base = engine.snapshot();
    let free = Plan::new(&base, pool_and_resource()).unwrap();
    let mut one =
        Spec::new(CheckpointId(1), "one", At::Frontend("api".into()), Limit::Concurrency(1));
    one.queue.len_max = 0;
    let limited = Plan::new(&base, Config { checkpoints: vec![one], ..Config::default() }).unwrap();
    engine.configure(Time(0), &free);
    let early: Vec<_> =
        (0..5).map(|_| prepare(&engine.snapshot(), Request::new(from_api())).unwrap()).collect();
    engine.configure(Time(0), &limited);
    let outcomes =
        early.into_iter().map(|prepared| engine.submit(Time(0), prepared, &|_, _| false));
    let started = outcomes.filter(|(_, outcome)| *outcome == Outcome::Started).count();
    assert_eq!(started, 1);
}

#[test]
fn requests_are_bounded_in_number_and_size() {
    let mut engine = Engine::new(1);
    configure(
        &mut engine,
        &Config { requests_max: 2, requests_bytes_max: 20, ..Config::default() },
    );
    let named = |text: &str| {
        let mut attributes = Attributes::new();
        attributes.set("text", text).unwrap();
        Request::new(attributes)
    };
    let refused = |of, max| Outcome::Refused(Refusal::lasting(Reason::Exhausted { of, max }));
    let (first, outcome) = submit(&mut engine, named("ten bytes."));
    assert_eq!(outcome, Outcome::Started);
    let (_, outcome) = submit(&mut engine, named("eleven here"));
    assert_eq!(outcome, refused("bytes of attributes", 20), "10 + 11 are more than 20");
    let (_, outcome) = submit(&mut engine, named("ten bytes."));
    assert_eq!(outcome, Outcome::Started);
    let (_, outcome) = submit(&mut engine, named(""));
    assert_eq!(outcome, refused("requests", 2));
    assert!(engine.settle(Time(0), first));
    let (_, outcome) = submit(&mut engine, named("ten bytes."));
    assert_eq!(outcome, Outcome::Started, "what ended makes room");
}

#[test]
fn one_request_tells_of_so_many_matches_and_counts_them_all() {
    let mut engine = Engine::new(1);
    let rule = |number| Rule::parse(&format!("{number} raise 1 continue log")).unwrap();
    let rules: Vec<Rule> = (1..=limits::LOGS_MAX as u32 + 4).map(rule).collect();
    configure(&mut engine, &Config { rules, ..Config::default() });
    submit(&mut engine, Request::new(from_api()));
    let mut told = vec![];
    while let Some(effect) = engine.poll_effect() {
        let Effect::Log { rule, .. } = effect else { panic!("{effect:?}") };
        told.push(rule);
    }
    assert_eq!(told, (1..=limits::LOGS_MAX as u32).collect::<Vec<_>>());
    assert!(engine.rule_counts().read().iter().all(|count| count.matches == 1));
}

/// What was prepared for another configuration can be prepared again before the engine's lock is taken.
#[test]
fn a_request_is_renewed_for_the_configuration_in_use() {
    let mut engine = Engine::new(1);
    let mut prepared = prepare(&engine.snapshot(), Request::new(from_api())).unwrap();
    assert!(engine.is_current(&prepared));
    let rules = vec![Rule::parse("10 reject stop").unwrap()];
    configure(&mut engine, &Config { rules, ..Config::default() });
    assert!(!engine.is_current(&prepared));
    prepared.renew(&engine.snapshot());
    assert!(engine.is_current(&prepared));
    let (_, outcome) = engine.submit(Time(0), prepared, &|_, _| false);
    let rejected = Refusal::lasting(Reason::Rejected { rule: 10 });
    assert_eq!(outcome, Outcome::Refused(rejected));
}

#[test]
fn what_is_read_is_known() {
    let rules = vec![Rule::parse("10 header.X-Team exact a and path glob /x* set 1 stop").unwrap()];
    let limit = Limit::Concurrency(1);
    let mut spec = Spec::new(CheckpointId(1), "c", At::Frontend("api".into()), limit);
    spec.key = Some("cookie[\"Id\"] + client".into());
    let listen = vec!["127.0.0.1:80".parse().unwrap()];
    let web = paceline_routing::Frontend {
        use_backend: vec![paceline_routing::UseBackend {
            when: "method == \"GET\" && header[\"Accept\"] != \"\"".into(),
            backend: "app".into(),
        }],
        log_values: vec![("agent".into(), "header[\"user-agent\"]".into())],
        ..paceline_routing::Frontend::new("web", listen)
    };
    let app = paceline_routing::Backend::new(paceline_types::BackendId(1), "app");
    let (frontends, backends, checkpoints) = (vec![web], vec![app], vec![spec]);
    let config = Config { rules, checkpoints, frontends, backends, ..Config::default() };
    let plan = Plan::new(&Engine::new(1).snapshot(), config).unwrap();
    let reads = plan.snapshot().reads();
    let headers: Vec<&str> = reads.headers().iter().map(AsRef::as_ref).collect();
    let cookies: Vec<&str> = reads.cookies().iter().map(AsRef::as_ref).collect();
    assert_eq!((headers, cookies), (vec!["accept", "user-agent", "x-team"], vec!["Id"]));
    let read: Vec<&str> =
        KNOWN.iter().filter(|(_, known)| reads.reads(*known)).map(|(name, _)| *name).collect();
    assert_eq!(read, ["method", "path", "client"]);
}
