//! Plans that a script cannot make: several edits in one, and two from the same configuration.

use paceline_checkpoints::{At, Limit, Spec};
use paceline_claims::{Resource, ResourceId};
use paceline_engine::{Config, Effect, Engine, Outcome, Plan, Quota, WaitsFor, prepare};
use paceline_expr::Counter;
use paceline_pools::{PoolSet, PoolSpec, Range};
use paceline_routing::{Backend, Frontend, Server, SqlEngine, SqlTarget, UseBackend};
use paceline_rules::Rule;
use paceline_types::{
    Attributes, BackendId, CheckpointId, Claim, KNOWN, Mode, On, PoolId, Priority, Reason, Refusal,
    Request, RequestId, ServerId, Span, Time, Unknown, Uuid, limits,
};
use std::sync::Arc;

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

/// A stopped pool for every priority except 0, a rule that gives such a priority, and a resource.
fn pool_and_resource() -> Config {
    let range = Range::new(Priority::MIN, Priority::MAX);
    let pools = PoolSet::of(vec![PoolSpec { range, ..PoolSpec::new(PoolId(1), "p") }]).unwrap();
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
        let without = Config { pools: PoolSet::new(), resources: vec![], ..config.clone() };
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

/// Both plans were made from the same configuration. A request that was prepared under the first is prepared
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

/// A request that was prepared for another configuration can be prepared again before the engine's lock is
/// taken.
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

/// A frontend's `count` checkpoints precede the choice of the backend, also when a request is prepared again
/// because the configuration changed: backend and server are "" there.
#[test]
fn a_frontend_counts_before_the_backend_is_chosen() {
    let mut engine = Engine::new(1);
    let spec = |id, name, key: &str, when: Option<&str>| Spec {
        key: Some(key.into()),
        when: when.map(Into::into),
        ..Spec::new(CheckpointId(id), name, At::Frontend("web".into()), Limit::Count)
    };
    let live = "inflight(\"b\") >= 0 && backend == \"\"";
    let checkpoints = vec![
        spec(1, "b", "backend", None),
        spec(2, "s", "server", None),
        spec(3, "l", "user", Some(live)),
    ];
    let mut app = Backend::new(BackendId(1), "app");
    let server = Server::new(paceline_types::ServerId(1), "one", "127.0.0.1:80".parse().unwrap());
    app.servers.push(server);
    let listen = vec!["127.0.0.1:8080".parse().unwrap()];
    let web = Frontend { backend: Some("app".into()), ..Frontend::new("web", listen) };
    let config =
        Config { checkpoints, frontends: vec![web], backends: vec![app], ..Config::default() };
    configure(&mut engine, &config);
    let request = || {
        let mut attributes = Attributes::new();
        for (name, value) in [("frontend", "web"), ("backend", "mine"), ("server", "mine/too")] {
            attributes.set(name, value).unwrap();
        }
        prepare(&engine.snapshot(), Request::new(attributes)).unwrap()
    };
    let (first, second, mut third) = (request(), request(), request());
    let owns = |_, _: &str| false;
    assert_eq!(engine.submit(Time(0), first, &owns).1, Outcome::Started);
    configure(&mut engine, &Config { slip: Span::from_ms(1), ..config });
    assert_eq!(engine.submit(Time(0), second, &owns).1, Outcome::Started);
    third.renew(&engine.snapshot());
    assert_eq!(engine.submit(Time(0), third, &owns).1, Outcome::Started);
    for id in [1, 2, 3] {
        let inflight = Counter::Inflight(CheckpointId(id));
        assert_eq!(engine.counter(inflight, Some("")), 3.0, "checkpoint {id}");
    }
}

/// Two checkpoints exchange names: rules and lines that did not change now refer to the other one.
#[test]
fn what_speaks_by_name_means_who_has_the_name() {
    let mut engine = Engine::new(1);
    let spec = |id, name| {
        Spec::new(CheckpointId(id), name, At::Frontend("api".into()), Limit::Concurrency(9))
    };
    let backend = |id, name| {
        let server = Server::new(ServerId(id), "one", "127.0.0.1:80".parse().unwrap());
        Backend { servers: vec![server], ..Backend::new(BackendId(id), name) }
    };
    let mut config = Config {
        checkpoints: vec![spec(1, "a"), Spec { when: Some("false".into()), ..spec(2, "b") }],
        backends: vec![backend(1, "app"), backend(2, "alt")],
        frontends: vec![Frontend {
            backend: Some("app".into()),
            use_backend: vec![UseBackend {
                when: "inflight(\"a\") > 0".into(),
                backend: "alt".into(),
            }],
            ..Frontend::new("web", vec!["127.0.0.1:81".parse().unwrap()])
        }],
        rules: vec![Rule::parse("10 when 'inflight(\"a\") > 0' set 5 stop").unwrap()],
        ..Config::default()
    };
    configure(&mut engine, &config);
    assert_eq!(submit(&mut engine, Request::new(from_api())).1, Outcome::Started);
    let through_web = |engine: &mut Engine| {
        let mut attributes = Attributes::new();
        attributes.set("frontend", "web").unwrap();
        let (id, _) = submit(engine, Request::new(attributes));
        let grant = engine.grant(id).unwrap();
        (grant.server(), grant.priority.number())
    };
    assert_eq!(through_web(&mut engine), (Some(ServerId(2)), 5));
    for spec in &mut config.checkpoints {
        spec.name = if *spec.name == *"a" { "b".into() } else { "a".into() };
    }
    configure(&mut engine, &config);
    assert_eq!(through_web(&mut engine), (Some(ServerId(1)), 0));
}

/// Clients are shown only configured limits; the limit of a gate follows the servers.
#[test]
fn quotas_are_of_limits_that_somebody_set() {
    let at = || At::Frontend("web".into());
    let rate = Limit::Rate { count: 5, per: Span::from_secs(2), burst: 1 };
    let checkpoints = vec![
        Spec::new(CheckpointId(1), "slow", at(), rate),
        Spec {
            on: On::Connection,
            ..Spec::new(CheckpointId(2), "few", at(), Limit::Concurrency(3))
        },
        Spec::new(CheckpointId(3), "all", At::Frontend("api".into()), Limit::Count),
    ];
    let mut app = Backend::new(BackendId(1), "app");
    let address = "127.0.0.1:80".parse().unwrap();
    app.servers.push(Server {
        connections_max: Some(2),
        ..Server::new(paceline_types::ServerId(1), "one", address)
    });
    let config = Config { checkpoints, backends: vec![app], ..Config::default() };
    let plan = Plan::new(&Engine::new(1).snapshot(), config).unwrap();
    let snapshot = plan.snapshot();
    let window = Some(Span::from_secs(2));
    assert_eq!(snapshot.quota("slow"), Some(Quota { count: 5, window }));
    assert_eq!(snapshot.quota("few"), Some(Quota { count: 3, window: None }));
    for none in ["all", "servers of app", "nothing"] {
        assert_eq!(snapshot.quota(none), None, "{none}");
    }
    assert!(snapshot.shapes_connections("web"));
    assert!(!snapshot.shapes_connections("api"));
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

/// Targets of the SQL door that an edit does not change are the same values, so that the door keeps their connections.
#[test]
fn unchanged_targets_are_shared() {
    let target = |name: &str, file: &str| {
        let engine = SqlEngine::Sqlite { file: file.parse().unwrap() };
        SqlTarget::new(Uuid::from_halves(0, 1), name, engine)
    };
    let mut engine = Engine::new(0);
    assert!(engine.snapshot().sql_targets().is_empty());
    let config = |sql_targets| Config { sql_targets, ..Config::default() };
    configure(&mut engine, &config(vec![target("b", "b.db"), target("a", "a.db")]));
    let first = engine.snapshot();
    let names: Vec<&str> = first.sql_targets().iter().map(|target| &*target.name).collect();
    assert_eq!(names, ["a", "b"]);
    configure(&mut engine, &config(vec![target("a", "a.db"), target("b", "b.db")]));
    assert!(Arc::ptr_eq(first.sql_targets(), engine.snapshot().sql_targets()));
    configure(&mut engine, &config(vec![target("a", "a.db"), target("b", "other.db")]));
    let second = engine.snapshot();
    let is_same =
        |name| Arc::ptr_eq(first.sql_target(name).unwrap(), second.sql_target(name).unwrap());
    assert_eq!((is_same("a"), is_same("b")), (true, false));
    assert!(second.sql_target("c").is_none());
    let twice = config(vec![target("a", "a.db"), target("a", "b.db")]);
    let error = Plan::new(&second, twice).unwrap_err();
    assert_eq!(error.to_string(), "sql_target \"a\", name: another one has the same");
}
