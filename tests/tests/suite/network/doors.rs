//! Which doors are opened, which are refused, and what is logged about it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener};

use paceline_tests::client::{Frame, READ_TIMEOUT};
use paceline_tests::{Client, Launch, Scratch};
use rustix::process::Signal;
use serde_json::json;

fn echo(client: &mut Client) {
    assert_eq!(client.call("echo", &json!(["here"])).unwrap(), json!(["here"]));
}

#[test]
fn a_tcp_remote_tells_the_port_it_got() {
    let scratch = Scratch::new();
    let remotes = Launch::new(&scratch).option("--ovsdb", "ptcp:0:127.0.0.1");
    let daemon = remotes.option("--ovsdb", "ptcp:0").start().unwrap();
    let port = daemon.port("ptcp");
    assert!(daemon.ready.starts_with("paceline ready: ovsdb ptcp:"), "{}", daemon.ready);
    assert!(daemon.ready.ends_with("; databases Paceline, _Server\n"), "{}", daemon.ready);
    echo(&mut Client::connect_tcp(port).unwrap());
    // Both are open, and without an address only local clients can connect.
    assert_eq!(daemon.ready.matches(":127.0.0.1").count(), 2, "{}", daemon.ready);
    let second = daemon.ready.rsplit_once("ptcp:").unwrap().1.split_once(':').unwrap().0;
    echo(&mut Client::connect_tcp(second.parse().unwrap()).unwrap());

    // A port that is in use is refused with its name.
    let taken = format!("ptcp:{port}:127.0.0.1");
    let elsewhere = Scratch::new();
    let ended = Launch::new(&elsewhere).option("--ovsdb", taken.as_str()).start().unwrap_err();
    assert!(ended.log.contains(&taken) && ended.status.code() == Some(1), "{ended:?}");
}

#[test]
fn an_open_remote_needs_an_explicit_word() {
    for remote in ["ptcp:0:0.0.0.0", "ptcp:0:[::]"] {
        let scratch = Scratch::new();
        let launch = Launch::new(&scratch).option("--ovsdb", remote);
        let ended = launch.start().unwrap_err();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        for part in [remote, "--allow-unauthenticated-remote", "pssl:"] {
            assert!(ended.log.contains(part), "no {part} in {}", ended.log);
        }
        assert!(!scratch.join("data").exists(), "a refused command line leaves nothing behind");
    }
    let scratch = Scratch::new();
    let launch = Launch::new(&scratch).option("--ovsdb", "ptcp:0:0.0.0.0");
    let daemon = launch.arg("--allow-unauthenticated-remote").start().unwrap();
    echo(&mut Client::connect_tcp(daemon.port("ptcp")).unwrap());
}

#[test]
fn none_opens_no_door_for_ovsdb() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).option("--ovsdb", "none").start().unwrap();
    assert!(!daemon.ready.contains("ovsdb "), "{}", daemon.ready);
    let entries = fs::read_dir(scratch.join("data")).unwrap().map(Result::unwrap);
    let sockets = entries.filter(|entry| entry.file_type().unwrap().is_socket());
    let mut sockets: Vec<_> = sockets.map(|entry| entry.file_name()).collect();
    sockets.sort();
    assert_eq!(sockets, [".s.PGSQL.5433", "api.sock"], "those of SQL and the API are always there");
    assert!(daemon.terminate().status.success());
}

#[test]
fn without_a_remote_there_is_a_private_socket_in_the_data_folder() {
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let socket = scratch.join("data/ovsdb.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    echo(&mut Client::connect(&socket).unwrap());
    assert!(daemon.terminate().status.success());
    assert!(!socket.exists());
}

#[test]
fn sigterm_and_sigint_end_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let scratch = Scratch::new();
        let socket = scratch.join("x.sock");
        let remote = format!("punix:{}", socket.display());
        let daemon = Launch::new(&scratch).option("--ovsdb", remote).start().unwrap();
        let mut client = Client::connect(&socket).unwrap();
        echo(&mut client);
        daemon.signal(signal);
        let ended = daemon.wait();
        assert!(ended.status.success(), "{ended:?}");
        assert!(!socket.exists(), "the socket is left");
        assert_eq!(client.frame().unwrap(), Frame::Closed);
    }
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let scratch = Scratch::new();
    let socket = scratch.join("x.sock");
    let remote = format!("punix:{}", socket.display());
    // A listener that ended without removing its socket, as after a crash.
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let daemon = Launch::new(&scratch).option("--ovsdb", remote.as_str()).start().unwrap();
    echo(&mut Client::connect(&socket).unwrap());

    let elsewhere = Scratch::new();
    let ended = Launch::new(&elsewhere).option("--ovsdb", remote.as_str()).start().unwrap_err();
    assert!(ended.log.contains("another server listens there"), "{ended:?}");
    assert!(ended.log.contains(&remote), "{ended:?}");
    echo(&mut Client::connect(&socket).unwrap());
    // After a crash the daemon's own socket is stale.
    daemon.kill();
    assert!(socket.exists());
    let daemon = Launch::new(&scratch).option("--ovsdb", remote.as_str()).start().unwrap();
    echo(&mut Client::connect(&socket).unwrap());
    assert!(daemon.terminate().status.success());

    // A file of another kind is not a socket, and stays.
    fs::write(&socket, "text").unwrap();
    let ended = Launch::new(&scratch).option("--ovsdb", remote.as_str()).start().unwrap_err();
    assert!(ended.log.contains(&remote), "{ended:?}");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "text");
}

#[test]
fn systemd_is_told() {
    let scratch = Scratch::new();
    let path = scratch.join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let told = || {
        let mut buffer = [0; 100];
        let length = systemd.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let launch = Launch::new(&scratch).env("NOTIFY_SOCKET", &path);
    let daemon = launch.start().unwrap();
    assert_eq!(told(), "READY=1");
    assert!(daemon.terminate().status.success());
    assert_eq!(told(), "STOPPING=1");
    // If no process reads the notification, it serves all the same.
    drop(systemd);
    let daemon = launch.start().unwrap();
    assert!(daemon.terminate().status.success());
}

#[test]
fn the_api_has_a_private_socket_and_a_port_of_its_own() {
    let scratch = Scratch::new();
    let daemon =
        Launch::new(&scratch).option("--ovsdb", "none").api("127.0.0.1:0").start().unwrap();
    let socket = scratch.join("data/api.sock");
    assert!(daemon.ready.contains(&format!("api unix:{}", socket.display())), "{}", daemon.ready);
    for path in [&socket, &scratch.join("data/token")] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let (_, rest) = daemon.ready.split_once("api http://").expect(&daemon.ready);
    let address = rest.split([',', ';']).next().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: p\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("{\"status\":\"ok\"}"),
        "{answer}"
    );
    // A second daemon with the same port reports this, and how to choose another one.
    let other = Scratch::new();
    let failed = Launch::new(&other).api(address).start().err().unwrap();
    assert!(failed.log.contains("--api"), "{}", failed.log);
    assert!(daemon.terminate().status.success());
    assert!(!socket.exists());
}
