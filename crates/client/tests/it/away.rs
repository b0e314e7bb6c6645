//! Tests of what `WhenAway` promises while the daemon is away.

use crate::fake::{Fake, Scratch};
use paceline_client::{Client, Error, Kind, LockOptions, Options, PermitRequest, Target, WhenAway};
use std::time::Duration;

fn client(dir: &Scratch, when_away: WhenAway) -> Result<Client, Error> {
    let target = Target::in_data_directory(dir.path());
    Client::connect_with(&target, Options { when_away, ..Options::default() })
}

#[test]
fn closed_fails_at_once_and_names_the_place() {
    let dir = Scratch::new();
    let error = client(&dir, WhenAway::Closed).unwrap_err();
    assert!(error.is_unreachable());
    let socket = dir.path().join("api.sock");
    assert_eq!(error.to_string(), format!("no daemon listens on {}", socket.display()));
}

#[test]
fn open_admits_what_excludes_nobody_and_nothing_else() {
    let dir = Scratch::new();
    let client = client(&dir, WhenAway::Open).unwrap();
    let mut permit = client.permit(PermitRequest::new().attribute("user", "a")).unwrap();
    assert_eq!(permit.grant(), None);
    assert_eq!(permit.renew().unwrap(), None);
    permit.settle().unwrap();
    let claim = client.permit(PermitRequest::new().claim("disk:da0"));
    assert!(claim.unwrap_err().is_unreachable());
    let locked = client.permit(PermitRequest::new().require_lock("deploy"));
    assert!(locked.unwrap_err().is_unreachable());
    assert!(client.lock("deploy", &LockOptions::default()).unwrap_err().is_unreachable());
    assert!(client.objects(Kind::Pools).unwrap_err().is_unreachable());
    assert!(client.requests().unwrap_err().is_unreachable());
}

#[test]
fn open_asks_again_once_the_daemon_is_back() {
    let dir = Scratch::new();
    let client = client(&dir, WhenAway::Open).unwrap();
    assert_eq!(client.permit(PermitRequest::new()).unwrap().grant(), None);
    let _fake = Fake::start_in(dir, |_| None);
    assert!(client.permit(PermitRequest::new()).unwrap().grant().is_some());
}

#[test]
fn waiting_finds_a_daemon_that_starts() {
    let dir = Scratch::new();
    assert!(client(&dir, WhenAway::Closed).unwrap_err().is_unreachable());
    let target = Target::in_data_directory(dir.path());
    let waiting = std::thread::spawn(move || {
        let when_away = WhenAway::Wait(Duration::from_secs(20));
        let client = Client::connect_with(&target, Options { when_away, ..Options::default() })?;
        client.permit(PermitRequest::new()).map(|permit| permit.grant().is_some())
    });
    let _fake = Fake::start_in(dir, |_| None);
    assert!(waiting.join().unwrap().unwrap());
}

#[test]
fn waiting_ends() {
    let dir = Scratch::new();
    let when_away = WhenAway::Wait(Duration::from_millis(20));
    assert!(client(&dir, when_away).unwrap_err().is_unreachable());
}

/// A stopped daemon accepts no more connections once its backlog is full.
#[test]
fn connecting_to_a_daemon_that_hangs_ends_in_time() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let dir = Scratch::new();
    let target = Target::in_data_directory(dir.path());
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(dir.path().join("api.sock")).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    let options = Options { timeout: Duration::from_millis(50), ..Options::default() };
    let first = Client::connect_with(&target, options.clone()).unwrap();
    let error = Client::connect_with(&target, options).unwrap_err();
    assert!(error.is_unreachable(), "{error}");
    assert!(error.to_string().contains("did not accept the connection in time"), "{error}");
    drop(first);
}
