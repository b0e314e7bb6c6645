//! Claims that a script cannot make: too wide ones, and those of requests that sleep while resources are
//! created and deleted.

use crate::plans::{configure, from_api, submit};
use paceline_checkpoints::{At, Limit, Spec};
use paceline_claims::{MARKS_MAX, Resource, ResourceId};
use paceline_engine::{Config, Effect, Engine, Foreseen, Outcome, prepare};
use paceline_types::{
    CheckpointId, Claim, Mode, Reason, Refusal, Request, RequestId, Time, Unknown,
};
use std::sync::Arc;

fn resource(id: u64, name: &str, parents: &[u64]) -> Resource {
    let parents = parents.iter().map(|parent| ResourceId(*parent)).collect();
    Resource { id: ResourceId(id), name: name.into(), parents }
}

fn claiming(names: &[&str]) -> Request {
    let claim = |name: &&str| Claim { resource: (*name).into(), mode: Mode::Exclusive };
    let claims = names.iter().map(claim).collect();
    Request { claims, ..Request::new(from_api()) }
}

/// A resource "one" with `doors` children, each of which has another parent as well.
fn wide(doors: usize) -> Config {
    let mut resources = vec![resource(0, "one", &[])];
    for door in 1..=doors as u64 {
        resources.push(resource(1_000_000 + door, &format!("side{door}"), &[]));
        resources.push(resource(door, &format!("door{door}"), &[0, 1_000_000 + door]));
    }
    Config { resources, ..Config::default() }
}

fn too_wide() -> Refusal {
    Refusal::lasting(Reason::TooWide { resource: "one".into(), max: MARKS_MAX })
}

#[test]
fn a_claim_that_is_too_wide_is_refused() {
    let mut engine = Engine::new(1);
    configure(&mut engine, &wide(MARKS_MAX));
    for unknown in [Unknown::Refuse, Unknown::Wait, Unknown::Create] {
        let request = Request { unknown, ..claiming(&["door1", "one"]) };
        let prepared = prepare(&engine.snapshot(), request.clone()).unwrap();
        let explained = engine.explain(Time(0), &prepared, &|_, _| false);
        assert_eq!(explained.foreseen, Foreseen::Refuse(too_wide()));
        assert_eq!(submit(&mut engine, request).1, Outcome::Refused(too_wide()));
    }
    let refusal = submit(&mut engine, claiming(&["x", "one"])).1;
    let reason = Reason::UnknownResource { resource: "x".into(), near: None };
    assert_eq!(refusal, Outcome::Refused(Refusal::lasting(reason)), "unknown comes first");
    assert_eq!(submit(&mut engine, claiming(&["door1"])).1, Outcome::Started);
}

/// An edit makes a claim too wide: its holder continues to run, its waiters are refused in rank order.
#[test]
fn waiters_whose_claim_becomes_too_wide_are_refused() {
    let mut engine = Engine::new(1);
    configure(&mut engine, &wide(1));
    let (holder, _) = submit(&mut engine, claiming(&["one"]));
    let first = submit(&mut engine, claiming(&["one"])).0;
    let second = Request { unknown: Unknown::Create, ..claiming(&["tmp", "one"]) };
    let second = submit(&mut engine, second).0;
    let third = Request { unknown: Unknown::Wait, ..claiming(&["late", "one"]) };
    let third = submit(&mut engine, third).0;
    let refuse = |id: RequestId| Effect::Refuse { id, refusal: too_wide() };
    let mut config = wide(MARKS_MAX);
    configure(&mut engine, &config);
    drain(&mut engine);
    assert_eq!(engine.poll_effect(), Some(refuse(first)));
    assert_eq!(engine.poll_effect(), Some(refuse(second)));
    assert_eq!(engine.poll_effect(), None, "the third waits for a resource that is not there");
    let (door, outcome) = submit(&mut engine, claiming(&["door7"]));
    assert_eq!(outcome, Outcome::Waiting, "C1: it is held");
    config.resources.push(resource(9_999_999, "late", &[]));
    configure(&mut engine, &config);
    drain(&mut engine);
    assert_eq!(engine.poll_effect(), Some(refuse(third)));
    assert!(engine.settle(Time(0), holder));
    drain(&mut engine);
    assert_eq!(engine.poll_effect(), Some(Effect::Start { id: door }));
    assert_eq!(engine.poll_effect(), None);
}

/// A waiter would create the resource that was deleted; its other claim is too wide by now.
#[test]
fn a_resource_is_not_made_for_a_claim_that_is_too_wide() {
    let mut engine = Engine::new(1);
    let mut config = wide(1);
    config.resources.push(resource(9_999_999, "other", &[]));
    configure(&mut engine, &config);
    assert_eq!(submit(&mut engine, claiming(&["one"])).1, Outcome::Started);
    let request = Request { unknown: Unknown::Create, ..claiming(&["other", "one"]) };
    let (id, _) = submit(&mut engine, request);
    configure(&mut engine, &wide(MARKS_MAX));
    drain(&mut engine);
    assert_eq!(engine.poll_effect(), Some(Effect::Refuse { id, refusal: too_wide() }));
    assert_eq!(engine.claims().stats().made, 0);
}

/// A sleeper keeps ids and no graph. A renamed resource is the one it claimed. Of deleted ones the first is
/// named, in the order of its claims, by the name it was claimed by.
#[test]
fn sleepers_keep_no_graph() {
    let mut engine = Engine::new(1);
    let list = vec![resource(1, "a", &[]), resource(2, "b", &[]), resource(3, "c", &[])];
    let gate =
        Spec::new(CheckpointId(1), "gate", At::Frontend("api".into()), Limit::Concurrency(1));
    let mut config = Config { checkpoints: vec![gate], resources: list, ..Config::default() };
    configure(&mut engine, &config);
    let (first, outcome) = submit(&mut engine, claiming(&[]));
    assert_eq!(outcome, Outcome::Started);
    let (second, _) = submit(&mut engine, claiming(&["b"]));
    let (third, _) = submit(&mut engine, claiming(&["c", "b", "a"]));
    let old = Arc::downgrade(engine.claims().graph());
    config.resources = vec![resource(2, "z", &[]), resource(4, "b", &[])];
    configure(&mut engine, &config);
    assert!(old.upgrade().is_none(), "nobody keeps the old graph");
    assert!(engine.settle(Time(0), first));
    assert_eq!(engine.poll_effect(), Some(Effect::Start { id: second }));
    assert_eq!(engine.claims().view("z").unwrap().holding, 1, "it was called b");
    assert_eq!(engine.claims().view("b").unwrap().holding, 0);
    assert!(engine.settle(Time(0), second));
    let Some(Effect::Refuse { id, refusal }) = engine.poll_effect() else { panic!("refused") };
    assert_eq!(id, third);
    assert_eq!(refusal.to_string(), "no resource \"c\"");
}

fn drain(engine: &mut Engine) {
    while engine.poll_timeout() == Some(Time(0)) {
        engine.handle_timeout(Time(0));
    }
}
