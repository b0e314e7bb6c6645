//! Permits, locks and sessions: held by guards and released.

use crate::fake::{Asked, Fake, Reply, World, error};
use paceline_client::{
    Client, Error, LockOptions, Options, PermitRequest, SessionOptions, Target, Token,
};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn unix(fake: &Fake) -> Client {
    Client::connect(&Target::in_data_directory(fake.dir.path())).unwrap()
}

fn tcp(fake: &Fake) -> Client {
    let token = Token::new("secret").unwrap();
    Client::connect(&Target::Tcp { address: fake.address.clone(), token }).unwrap()
}

#[test]
fn a_permit_is_given_back_when_dropped() {
    let fake = Fake::start(|_| None);
    let client = unix(&fake);
    let permit = client.permit(PermitRequest::new().attribute("user", "etl")).unwrap();
    let grant = permit.grant().unwrap();
    assert_eq!((grant.request, grant.pool.as_str()), (17, "default"));
    assert_eq!(grant.expires_at, None);
    assert_eq!(fake.world().permits.len(), 1);
    let waiter = std::thread::spawn({
        let client = client.clone();
        move || client.permit(PermitRequest::new()).map(drop)
    });
    fake.wait_until(|world| world.asked.iter().filter(|a| a.path == "/v1/permits").count() == 2);
    assert!(!waiter.is_finished());
    drop(permit);
    waiter.join().unwrap().unwrap();
    assert_eq!(fake.world().permits.len(), 0);
}

/// P4: everything that a program holds on the unix socket is bound to a connection, with one session each.
#[test]
fn p4_permits_on_the_socket_are_bound_and_do_not_share_a_session() {
    let fake = Fake::start(|asked: &Asked| {
        (asked.method == "DELETE").then(|| error(500, "internal", "not this time"))
    });
    fake.world().capacity = 10;
    let client = unix(&fake);
    let first = client.permit(PermitRequest::new()).unwrap();
    let second = client.permit(PermitRequest::new()).unwrap();
    let sessions: Vec<_> = fake.world().permits.values().cloned().collect();
    assert_ne!(sessions[0], sessions[1]);
    assert!(fake.world().sessions.values().all(Option::is_some), "all are bound");
    // The daemon receives no releases in time; the end of the connections releases the permits.
    drop(first);
    fake.wait_until(|world| world.permits.len() == 1);
    assert!(second.settle().is_err());
    fake.wait_until(|world| world.permits.is_empty());
}

#[test]
fn a_connection_serves_one_permit_after_another() {
    let fake = Fake::start(|_| None);
    let client = unix(&fake);
    for _ in 0..3 {
        client.permit(PermitRequest::new()).unwrap().settle().unwrap();
    }
    client.lock("l", &LockOptions::default()).unwrap().unlock().unwrap();
    assert_eq!(fake.world().sessions.len(), 1);
    drop(client);
    fake.wait_until(|world| world.sessions.is_empty());
}

#[test]
fn a_kept_connection_that_ended_is_replaced() {
    let fake = Fake::start(|asked: &Asked| {
        (asked.method == "DELETE").then_some(Reply::JsonThenEnd(204, json!(null)))
    });
    fake.world().capacity = 10;
    let client = unix(&fake);
    client.permit(PermitRequest::new()).unwrap().settle().unwrap();
    fake.wait_until(|world| world.sessions.is_empty());
    client.permit(PermitRequest::new()).unwrap().settle().unwrap();
}

#[test]
fn a_refusal_says_why_and_when() {
    let fake = Fake::start(|_| None);
    fake.world().capacity = 0;
    let client = unix(&fake);
    let refused = client.permit(PermitRequest::new().max_wait(Duration::ZERO)).unwrap_err();
    let Error::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.reason, "expired");
    assert!(refusal.is_queue());
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(2)));
    assert_eq!(refusal.answer.message, "pool \"default\": waited 0s");
    // A refusal is an ordinary answer: the session and its connection continue.
    fake.world().capacity = 1;
    client.permit(PermitRequest::new()).unwrap().settle().unwrap();
    assert_eq!(fake.world().sessions.len(), 1);
}

/// P2: an expired lease releases its permit, and a late renewal fails with its own error.
#[test]
fn p2_a_late_renew_has_its_own_error() {
    let fake = Fake::start(|asked: &Asked| {
        let renews = asked.path.ends_with("/renew");
        renews.then(|| match asked.path.contains("late") {
            true => error(410, "expired", "the lease ran out"),
            false => Reply::Json(200, json!({"expires_at": "2026-01-01T00:01:00.000000Z"})),
        })
    });
    fake.world().capacity = 2;
    let client = tcp(&fake);
    let mut permit = client.permit(PermitRequest::new()).unwrap();
    assert_eq!(permit.renew().unwrap(), Some("2026-01-01T00:01:00.000000Z"));
    let late = PermitRequest { id: Some("late".into()), ..PermitRequest::new() };
    let mut late = client.permit(late).unwrap();
    assert!(matches!(late.renew(), Err(Error::Expired(_))));
    assert!(fake.lines().contains(&"PUT /v1/permits/late".to_owned()));
    assert!(fake.world().asked.iter().all(|asked| asked.token.as_deref() == Some("secret")));
}

#[test]
fn a_lock_carries_its_fencing_number() {
    let fake = Fake::start(|_| None);
    for client in [unix(&fake), tcp(&fake)] {
        let lock = client.lock("deploy", &LockOptions::default()).unwrap();
        let other = client.lock("deploy", &LockOptions::default());
        assert!(matches!(other, Err(Error::Conflict(_))));
        let steal = LockOptions { steal: true, wait: Duration::from_secs(5), place: None };
        let stolen = client.lock("deploy", &steal).unwrap();
        assert!(stolen.fencing() > lock.fencing());
        assert_eq!(stolen.name(), "deploy");
        drop(stolen);
        assert!(fake.world().locks.is_empty());
    }
    let bodies: Vec<_> = fake.world().asked.iter().map(|asked| asked.body.clone()).collect();
    assert!(bodies.iter().any(|body| body["steal"] == true && body["wait"] == "5s"));
}

#[test]
fn a_session_holds_several_and_gives_all_back() {
    let fake = Fake::start(|_| None);
    fake.world().capacity = 2;
    let client = unix(&fake);
    let session = client.session(&SessionOptions::default()).unwrap();
    let lock = session.lock("a", &LockOptions::default()).unwrap();
    let permit = session.permit(&PermitRequest::new().require_lock("a")).unwrap();
    let id = session.id().to_owned();
    assert!(fake.world().permits.values().all(|session| *session == id));
    assert!(fake.world().locks.values().all(|session| *session == id));
    assert!(session.descriptor().is_some());
    assert!(!format!("{session:?}").contains(&id), "the id is a secret");
    drop(client.join_session(&id));
    assert_eq!(fake.world().sessions.len(), 1, "who joined does not end it");
    session.end().unwrap();
    assert!(fake.world().sessions.is_empty());
    assert!(fake.world().permits.is_empty() && fake.world().locks.is_empty());
    assert!(matches!(permit.settle(), Err(Error::NotFound(_))));
    drop(lock);
}

/// A daemon that hangs makes a program wait once, and not once for each release.
#[test]
fn what_a_silent_daemon_does_not_hear_is_waited_for_once() {
    let fake = Fake::start(|asked: &Asked| (asked.method == "DELETE").then_some(Reply::Silence));
    fake.world().capacity = 10;
    let options = Options { timeout: Duration::from_millis(500), ..Options::default() };
    let token = Token::new("secret").unwrap();
    let tcp = Target::Tcp { address: fake.address.clone(), token };
    for target in [Target::in_data_directory(fake.dir.path()), tcp] {
        let client = Client::connect_with(&target, options.clone()).unwrap();
        let permits = [(); 4].map(|()| client.permit(PermitRequest::new()).unwrap());
        fake.world().asked.clear();
        for permit in permits {
            assert!(permit.settle().unwrap_err().is_unreachable());
            let told = fake.lines();
            let told: Vec<_> = told.iter().filter(|line| line.contains("/permits/")).collect();
            assert!(told.iter().all(|line| *line == told[0]), "{told:?}: the first one alone");
        }
    }
}

/// J5: on a full disk a release is repeated until it is written, even that of a seat. Otherwise, if the daemon were
/// killed before, the program would hold it again.
#[test]
fn a_release_that_is_not_written_is_repeated_until_it_is_j5() {
    const TRIES: usize = 3;
    let is_end = |asked: &Asked| asked.line().starts_with("DELETE /v1/sessions/");
    for kind in ["permit", "lock"] {
        let tries = AtomicUsize::new(0);
        let fake = Fake::start(move |asked| {
            let is_written = is_end(asked) && tries.fetch_add(1, Ordering::Relaxed) >= TRIES;
            let full = json!({"released": true, "written": false});
            (asked.method == "DELETE" && !is_written).then_some(Reply::Json(200, full))
        });
        let client = unix(&fake);
        match kind {
            "permit" => client.permit(PermitRequest::new()).unwrap().settle().unwrap(),
            _ => client.lock("deploy", &LockOptions::default()).unwrap().unlock().unwrap(),
        }
        let ends = |world: &World| world.asked.iter().filter(|asked| is_end(asked)).count();
        fake.wait_until(|world| ends(world) == TRIES + 1);
        // The session was ended, so a new one is begun.
        drop(client.lock("other", &LockOptions::default()).unwrap());
        let begun = fake.lines().iter().filter(|line| *line == "POST /v1/sessions").count();
        assert_eq!(begun, 2, "{kind}");
    }
}
