//! The engine behind its mutex, with a real clock and real threads.

use super::{Admission, Control, Event, NotWaiting, Permit, Reroute};
use paceline_checkpoints::{At, Limit, Spec};
use paceline_engine::{About, Config, Plan};
use paceline_routing::{Backend, Frontend, Server};
use paceline_types::{Attributes, BackendId, CheckpointId, Reason, Request, ServerId, Span};
use std::sync::Arc;

fn control(limit: Limit) -> Arc<Control> {
    let control = Control::for_tests();
    let spec = Spec::new(CheckpointId(1), "c", At::Frontend("api".into()), limit);
    let config = Config { checkpoints: vec![spec], ..Config::default() };
    control.configure(&Plan::new(&control.snapshot(), config).unwrap());
    control
}

fn request() -> Request {
    let mut attributes = Attributes::new();
    attributes.set("frontend", "api").unwrap();
    Request::new(attributes)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_permit_that_is_dropped_goes_to_the_next_in_line() {
    let control = control(Limit::Concurrency(1));
    let Admission::Started(permit) = control.admit(request()).unwrap() else { panic!() };
    let Admission::Waiting(second) = control.admit(request()).unwrap() else { panic!() };
    let Admission::Waiting(third) = control.admit(request()).unwrap() else { panic!() };
    let (second_id, third_id) = (second.id(), third.id());
    assert_eq!(control.why(third_id).unwrap().ahead, [second_id, permit.id()]);
    drop(permit);
    let permit = runtime().block_on(second).unwrap().unwrap();
    assert_eq!(permit.id(), second_id);
    drop(third);
    assert_eq!(control.why(third_id), None, "who leaves is gone at once");
    drop(permit);
    assert_eq!(control.why(second_id), None);
    assert!(matches!(control.admit(request()).unwrap(), Admission::Started(_)));
}

/// The client is refused with the operator's reason, and the next in line does not wait for the request.
#[test]
fn a_request_that_waits_can_be_cancelled() {
    let control = control(Limit::Concurrency(1));
    let mut events = control.listen();
    let Admission::Started(permit) = control.admit(request()).unwrap() else { panic!() };
    let Admission::Waiting(second) = control.admit(request()).unwrap() else { panic!() };
    let Admission::Waiting(third) = control.admit(request()).unwrap() else { panic!() };
    let reason = || Reason::Cancelled { by: "ann".into(), why: "too\nlate".into() };
    assert_eq!(control.cancel(permit.id(), reason()), Err(NotWaiting::Runs));
    let (id, third_id) = (second.id(), third.id());
    assert_eq!(control.cancel(id, reason()), Ok(()));
    assert_eq!(control.cancel(id, reason()), Err(NotWaiting::Unknown));
    let refusal = runtime().block_on(second).unwrap().unwrap_err();
    assert_eq!(refusal.to_string(), "cancelled by ann: too\\nlate");
    let told = std::iter::from_fn(|| events.try_recv().ok()).last();
    let Some(Event::Refused { id: refused, refusal: why, about: Some(_) }) = told else { panic!() };
    assert_eq!((refused, why), (id, refusal));
    assert_eq!(control.why(third_id).unwrap().ahead, [permit.id()]);
    drop(permit);
    assert!(runtime().block_on(third).unwrap().is_ok());
}

#[test]
fn the_timer_wakes_whoever_may_pass() {
    let control = control(Limit::Rate { count: 100, per: Span::from_secs(1), burst: 1 });
    let Admission::Started(_) = control.admit(request()).unwrap() else { panic!() };
    let Admission::Waiting(waiting) = control.admit(request()).unwrap() else { panic!() };
    let permit = runtime().block_on(waiting).unwrap();
    assert!(permit.is_ok());
}

/// The request was granted, but its caller left before it received the grant: the next request starts at once.
#[test]
fn a_grant_that_nobody_heard_of_spends_nothing() {
    let control = control(Limit::Rate { count: 1, per: Span::from_secs(1), burst: 1 });
    let mut events = control.listen();
    let Admission::Started(_) = control.admit(request()).unwrap() else { panic!() };
    let Admission::Waiting(waiting) = control.admit(request()).unwrap() else { panic!() };
    let id = waiting.id();
    let is_started = |event| matches!(event, Event::Started { id: started, .. } if started == id);
    runtime().block_on(async { while !is_started(events.recv().await.unwrap()) {} });
    drop(waiting);
    assert_eq!(control.why(id), None);
    assert_eq!(events.try_recv(), Ok(Event::Left { id }), "it was of no use");
    assert!(matches!(control.admit(request()).unwrap(), Admission::Started(_)));
}

/// A request that ends once it may run enters a queue behind a request that costs more than is left, and passes it in
/// the same call: by its flow, or by its rank. It is granted, ends once, and its cost stays spent.
#[test]
fn a_request_that_ends_at_once_is_granted_in_a_queue_that_it_overtakes() {
    for by_flow in [true, false] {
        let control = Control::for_tests();
        let limit = Limit::Rate { count: 10, per: Span::from_secs(60), burst: 100 };
        let mut spec = Spec::new(CheckpointId(1), "c", At::Frontend("api".into()), limit);
        spec.queue.delay_max = Span::from_secs(3_600);
        spec.fair = by_flow.then(|| "header[\"x-user\"]".to_owned());
        // Of two flows that have had the same, the one with the first rank is next.
        let rule = "10 header.x-user exact c raise 100";
        let rules = vec![paceline_rules::Rule::parse(rule).unwrap()];
        let config = Config { checkpoints: vec![spec], rules, ..Config::default() };
        control.configure(&Plan::new(&control.snapshot(), config).unwrap());
        let of_user = |user: &str, cost| {
            let mut request = Request { cost, ..request() };
            request.attributes.set("header.x-user", user).unwrap();
            request
        };
        drop(control.admit(of_user("a", 50)).unwrap());
        let Admission::Waiting(head) = control.admit(of_user("b", 100)).unwrap() else { panic!() };
        let mut events = control.listen();
        // A flow has had what it passed with, so the second one of a flow would wait behind the head.
        let costs: &[u32] = if by_flow { &[40] } else { &[10; 4] };
        for cost in costs {
            let admission = control.admit_once(of_user("c", *cost), None).unwrap();
            let Admission::Waiting(waiting) = admission else { panic!("{admission:?}") };
            let id = waiting.id();
            assert!(!control.state().waiters.contains_key(&id), "it has passed in the same call");
            let permit = runtime().block_on(waiting);
            let permit = permit.expect("the session did not end").expect("there is room");
            assert_eq!(permit.id(), id);
            drop(permit);
            assert_eq!(control.why(id), None, "it has ended");
            let told: Vec<Event> = std::iter::from_fn(|| events.try_recv().ok()).collect();
            let is_right = match &told[..] {
                [
                    Event::Waiting { id: a, .. },
                    Event::Started { id: b, .. },
                    Event::Settled { id: c },
                ] => (*a, *b, *c) == (id, id, id),
                _ => false,
            };
            assert!(is_right, "by flow: {by_flow}: {told:?}");
        }
        // 90 are spent.
        let admission = control.admit_once(of_user("d", 20), None).unwrap();
        let Admission::Waiting(late) = admission else { panic!("{admission:?}") };
        assert!(control.state().waiters.contains_key(&late.id()), "10 of 20 are left");
        assert!(control.state().waiters.contains_key(&head.id()));
    }
}

#[test]
fn a_wait_that_is_too_long_is_refused_at_once() {
    let control = control(Limit::Rate { count: 1, per: Span::from_secs(60), burst: 1 });
    let Admission::Started(_) = control.admit(request()).unwrap() else { panic!() };
    let patient = Request { wait_max: Some(Span::from_secs(1)), ..request() };
    let Admission::Refused(_, refusal) = control.admit(patient).unwrap() else { panic!() };
    assert!(matches!(refusal.reason, Reason::TooLong { .. }), "{refusal}");
    assert!(refusal.retry_at.is_some());
}

/// P1 with threads: never more than the limit at once, and every request is granted.
#[test]
fn many_threads_share_one_limit_p1() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let control = control(Limit::Concurrency(3));
    let (running, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let runtime = runtime();
                for _ in 0..200 {
                    let permit = match control.admit(request()).unwrap() {
                        Admission::Started(permit) => permit,
                        Admission::Waiting(waiting) => runtime.block_on(waiting).unwrap().unwrap(),
                        Admission::Refused(_, refusal) => panic!("{refusal}"),
                    };
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 3);
    assert_eq!(done.load(Ordering::SeqCst), 8 * 200);
}

/// A waiter that is dropped leaves nothing behind, even when more requests are due than one call moves.
#[test]
fn who_leaves_in_the_middle_of_a_crowd_holds_nothing() {
    let control = control(Limit::Concurrency(0));
    let mut waiting: Vec<_> = (0..900)
        .map(|_| match control.admit(request()).unwrap() {
            Admission::Waiting(waiting) => waiting,
            other => panic!("{other:?}"),
        })
        .collect();
    let ids: Vec<_> = waiting.iter().map(super::Waiting::id).collect();
    let spec = Spec::new(CheckpointId(1), "c", At::Frontend("api".into()), Limit::Concurrency(800));
    let config = Config { checkpoints: vec![spec], ..Config::default() };
    control.configure(&Plan::new(&control.snapshot(), config).unwrap());
    drop(waiting.remove(600));
    assert_eq!(control.why(ids[600]), None, "it neither waits nor runs");
    drop(waiting);
    assert!(ids.iter().all(|id| control.why(*id).is_none()));
    assert!(control.state().waiters.is_empty(), "nobody is remembered");
}

#[test]
fn the_waiter_of_a_session_that_ends_is_told_so() {
    let control = control(Limit::Concurrency(1));
    let mut events = control.listen();
    let Admission::Started(permit) = control.admit(request()).unwrap() else { panic!() };
    let session = paceline_types::SessionId(7);
    let of_session = Request { session: Some(session), ..request() };
    let Admission::Waiting(waiting) = control.admit(of_session).unwrap() else { panic!() };
    let id = waiting.id();
    control.end_session(session);
    assert!(runtime().block_on(waiting).is_none());
    assert!(control.state().waiters.is_empty());
    let mut seen = vec![];
    while let Ok(event) = events.try_recv() {
        seen.push(event);
    }
    let first = permit.id();
    let about = Some(About::of(&request()));
    let expected = [
        Event::Started { id: first, about: about.clone() },
        Event::Waiting { id, about },
        Event::Left { id },
    ];
    assert_eq!(seen, expected);
}

/// A frontend `web` that sends everything to the backend `app` with these servers, as (number, maximum).
fn web(servers: &[(u32, Option<u32>)]) -> Config {
    let server = |(id, max): &(u32, Option<u32>)| Server {
        connections_max: *max,
        ..Server::new(ServerId(*id), &format!("s{id}"), "127.0.0.1:80".parse().unwrap())
    };
    let servers = servers.iter().map(server).collect();
    let app = Backend { servers, ..Backend::new(BackendId(1), "app") };
    let listen = vec!["127.0.0.1:8080".parse().unwrap()];
    let log_values = match app.is_gated() {
        true => vec![("waiting".into(), "queued(\"servers of app\")".into())],
        false => vec![],
    };
    let web = Frontend { backend: Some("app".into()), log_values, ..Frontend::new("web", listen) };
    Config { frontends: vec![web], backends: vec![app], ..Config::default() }
}

fn web_request() -> Request {
    let mut attributes = Attributes::new();
    attributes.set("frontend", "web").unwrap();
    Request::new(attributes)
}

#[test]
fn the_door_hears_of_configurations_and_finds_its_settings_unchanged() {
    let control = Control::for_tests();
    let mut followed = control.follow();
    assert!(followed.borrow_and_update().routing().frontends().is_empty());
    let config = web(&[(1, Some(1))]);
    control.configure(&Plan::new(&control.snapshot(), config.clone()).unwrap());
    assert!(followed.has_changed().unwrap());
    let first = Arc::clone(&followed.borrow_and_update());
    assert_eq!(first.routing().frontend("web").unwrap().backend.as_deref(), Some("app"));
    assert_eq!(first.routing().server_name(ServerId(1)), Some("app/s1"));
    assert_eq!(control.generation(), first.generation());
    let slip = Span::from_ms(1);
    control.configure(&Plan::new(&first, Config { slip, ..config }).unwrap());
    let second = Arc::clone(&followed.borrow_and_update());
    assert!(Arc::ptr_eq(first.routing(), second.routing()), "an edit of something else");
    assert!(second.generation() > first.generation());
    assert_eq!(control.generation(), second.generation());
}

#[test]
fn a_permit_has_a_server_and_can_change_it() {
    let control = Control::for_tests();
    let config = web(&[(1, Some(1)), (2, Some(1))]);
    control.configure(&Plan::new(&control.snapshot(), config).unwrap());
    let Admission::Started(mut permit) = control.admit(web_request()).unwrap() else { panic!() };
    let server = |permit: &Permit| permit.site().map(|site| site.server);
    assert_eq!(server(&permit), Some(ServerId(1)));
    assert!(permit.slept().is_empty());
    assert!(matches!(permit.reroute(), Reroute::Server));
    assert_eq!(server(&permit), Some(ServerId(2)));
    assert!(matches!(permit.reroute(), Reroute::Nowhere), "both were tried");
    let [there, elsewhere] = ["127.0.0.1:80", "127.0.0.1:9"].map(|text| text.parse().unwrap());
    assert!(!control.set_up(ServerId(2), &elsewhere, false), "it is not there");
    assert!(control.set_up(ServerId(1), &there, false));
    let Admission::Waiting(waiting) = control.admit(web_request()).unwrap() else { panic!() };
    assert_eq!(permit.values(), [("waiting".into(), Some("1".to_owned()))]);
    let held = |control: &Control| -> Vec<_> {
        control.servers().iter().map(|(_, figures)| (figures.up, figures.held)).collect()
    };
    assert_eq!(held(&control), [(false, 0), (true, 1)]);
    drop(permit);
    let permit = runtime().block_on(waiting).unwrap().unwrap();
    assert_eq!(server(&permit), Some(ServerId(2)));
    let slept = permit.slept();
    assert_eq!(slept.len(), 1);
    assert!(&*slept[0].0 == "servers of app" && slept[0].1 > Span::ZERO, "{slept:?}");
    drop(permit);
    assert_eq!(held(&control), [(false, 0), (true, 0)]);
}

/// Another frontend logs values and this one does not, so the engine's lock is not taken.
#[test]
fn values_are_asked_for_only_where_the_frontend_logs_some() {
    let control = Control::for_tests();
    let mut config = web(&[(1, Some(1)), (2, Some(1))]);
    let listen = vec!["127.0.0.1:8081".parse().unwrap()];
    config
        .frontends
        .push(Frontend { backend: Some("app".into()), ..Frontend::new("plain", listen) });
    control.configure(&Plan::new(&control.snapshot(), config).unwrap());
    let mut attributes = Attributes::new();
    attributes.set("frontend", "plain").unwrap();
    let Admission::Started(plain) = control.admit(Request::new(attributes)).unwrap() else {
        panic!()
    };
    let Admission::Started(logging) = control.admit(web_request()).unwrap() else { panic!() };
    let state = control.state();
    let (sender, receiver) = std::sync::mpsc::channel();
    let asked = std::thread::spawn(move || {
        sender.send(plain.values()).unwrap();
        plain
    });
    let values = receiver.recv_timeout(std::time::Duration::from_secs(60));
    drop(state);
    assert_eq!(values, Ok(vec![]));
    assert_eq!(logging.values(), [("waiting".into(), Some("0".to_owned()))]);
    drop(asked.join().unwrap());
}
