//! The door itself: which clients it accepts, what every error looks like, and clients that misbehave.

use crate::client::PATIENCE;
use crate::world::World;
use paceline_api::{Address, Limits, Options};
use paceline_host::Capacity;
use serde_json::json;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

#[test]
fn health_needs_no_identity_on_either_socket() {
    let world = World::new();
    for mut client in [world.unix(), world.tcp_with(None), world.tcp_with(Some("wrong"))] {
        assert_eq!(client.get("/healthz").expect(200), json!({ "status": "ok" }));
    }
}

#[test]
fn socket_and_token_are_private() {
    let world = World::new();
    for path in [world.socket().to_owned(), world.directory.join("token")] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn tcp_needs_the_token() {
    let world = World::new();
    for token in [None, Some("wrong"), Some("")] {
        let answer = world.tcp_with(token).get("/v1/permits");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{token:?}");
        answer.expect_error(401, "unauthenticated");
    }
    world.tcp().get("/v1/permits").expect(200);
    world.unix().get("/v1/permits").expect(200);
}

#[test]
fn unknown_paths_and_methods_say_so() {
    let world = World::new();
    let mut client = world.unix();
    let error = client.get("/v1/nothing").expect_error(404, "not_found");
    assert!(error["hint"].as_str().unwrap().contains("openapi"), "{error}");
    let answer = client.delete("/healthz");
    assert_eq!(answer.header("allow"), Some("GET,HEAD"));
    answer.expect_error(405, "method");
}

#[test]
fn a_query_that_is_misspelt_is_refused_on_every_path() {
    let world = World::new();
    let mut client = world.unix();
    let description = client.get("/v1/openapi.json").expect(200);
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let target = format!("{}?unknown=1", path.replace(['{', '}'], ""));
            client.send(&method.to_uppercase(), &target, None);
            let error = client.answer().expect_error(400, "bad_request");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("\"unknown\": there is no such name"), "{target}: {message}");
        }
    }
    for (query, part) in [
        ("?conut=5", "did you mean count?"),
        ("?count=5&count=5", "count: given twice"),
        ("?count", "count: expected a value"),
        ("?count=5&", "there is no such name"),
    ] {
        let error = client.get(&format!("/v1/requests{query}")).expect_error(400, "bad_request");
        assert!(error["message"].as_str().unwrap().contains(part), "{query}: {error}");
    }
    client.get("/v1/requests?").expect(200);
}

#[test]
fn wrong_bodies_say_what_is_wrong() {
    let world = World::new();
    let mut client = world.unix();
    for (body, part) in [
        ("{", "the body is not JSON"),
        ("[]", "the body: expected an object, found a list"),
        (r#"{"lease": 5}"#, "lease: expected a text, found 5"),
        (r#"{"lease": "soon"}"#, "lease: "),
        (r#"{"leese": "5s"}"#, "leese: there is no such member, did you mean lease?"),
    ] {
        client.send("POST", "/v1/sessions", Some(body));
        let error = client.answer().expect_error(400, "bad_request");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part), "{body}: {message}");
    }
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    client.send("POST", "/v1/sessions", Some(&deep));
    client.answer().expect_error(400, "bad_request");
}

#[test]
fn what_is_not_json_is_told_from_its_media_type() {
    let world = World::new();
    let mut client = world.unix();
    client.raw(
        b"POST /v1/sessions HTTP/1.1\r\nhost: p\r\ncontent-type: text/plain\r\n\
          content-length: 2\r\n\r\n{}",
    );
    client.answer().expect_error(415, "media_type");
    client.raw(
        b"POST /v1/sessions HTTP/1.1\r\nhost: p\r\ncontent-type: application/JSON; charset=utf-8\r\n\
          content-length: 2\r\n\r\n{}",
    );
    client.answer().expect(201);
}

#[test]
fn a_huge_body_is_refused_before_it_is_read() {
    let world = World::new();
    let mut client = world.unix();
    client.raw(
        b"POST /v1/sessions HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n\
          content-length: 1073741824\r\n\r\n{",
    );
    client.answer().expect_error(413, "too_large");
    let mut client = world.unix();
    let body = format!("{{\"name\": \"{}\"}}", "x".repeat(1 << 20));
    client.send("POST", "/v1/sessions", Some(&body));
    client.answer().expect_error(413, "too_large");
    // A body without a length.
    let mut client = world.unix();
    client.raw(
        b"POST /v1/sessions HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n\
          transfer-encoding: chunked\r\n\r\n",
    );
    let piece = format!("10000\r\n{}\r\n", " ".repeat(65_536));
    for _ in 0..17 {
        client.raw(piece.as_bytes());
    }
    client.answer().expect_error(413, "too_large");
}

#[test]
fn slow_clients_are_cut_off_and_do_not_stall_others_d2() {
    let short = Duration::from_millis(200);
    let limits = Limits { head_max: short, body_pause_max: short, ..Limits::default() };
    let world = World::with(limits);
    let mut slow_heads: Vec<_> = (0..50).map(|_| world.unix()).collect();
    for client in &mut slow_heads {
        client.raw(b"GET /healthz HTTP/1.1\r\nhost:");
    }
    let mut slow_bodies: Vec<_> = (0..50).map(|_| world.unix()).collect();
    for client in &mut slow_bodies {
        client.raw(
            b"POST /v1/sessions HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n\
              content-length: 20\r\n\r\n{",
        );
    }
    let mut idle = world.unix();
    idle.get("/healthz").expect(200);
    world.unix().get("/healthz").expect(200);
    for mut client in slow_heads {
        assert!(client.is_closed());
    }
    for mut client in slow_bodies {
        let error = client.answer().expect_error(400, "bad_request");
        assert!(
            error["message"].as_str().unwrap().contains("no byte of the body arrived"),
            "{error}"
        );
    }
    // Idle time between two requests does not count as slow.
    idle.get("/healthz").expect(200);
}

/// D1, D2: a body has a time limit as a whole, whatever the pauses in it.
#[test]
fn a_body_that_arrives_slowly_is_given_up_d1_d2() {
    let world = World::with(Limits { body_max: Duration::from_millis(200), ..Limits::default() });
    let mut client = world.unix();
    client.raw(
        b"POST /v1/sessions HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n\
          content-length: 20\r\n\r\n{",
    );
    let error = client.answer().expect_error(400, "bad_request");
    assert!(error["message"].as_str().unwrap().contains("too slowly"), "{error}");
}

/// D1: a body for which there is no room is refused while the client still sends, and small ones are not.
#[test]
fn a_body_without_room_is_refused_d1() {
    let world = World::with(Limits { bodies_bytes_max: 64 << 10, ..Limits::default() });
    let mut client = world.unix();
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(200 << 10));
    client.send("POST", "/v1/sessions", Some(&long));
    let error = client.answer().expect_error(503, "refused");
    assert_eq!(error["reason"], "exhausted");
    world
        .unix()
        .post("/v1/sessions", serde_json::json!({ "name": "x".repeat(1 << 10) }))
        .expect(400);
    world.unix().session(serde_json::json!({ "name": "short" }));
}

#[test]
fn an_idle_connection_is_closed_in_the_end() {
    let short = Duration::from_millis(100);
    let world = World::with(Limits { head_max: short, idle_max: short, ..Limits::default() });
    let mut client = world.unix();
    client.get("/healthz").expect(200);
    assert!(client.is_closed());
}

#[test]
fn a_connection_with_a_bound_session_may_be_idle() {
    let short = Duration::from_millis(100);
    let world = World::with(Limits { head_max: short, idle_max: short, ..Limits::default() });
    let mut bound = world.unix();
    let session = bound.session(json!({ "bound": true }));
    // Connections that become idle later are closed before, three times over.
    for _ in 0..3 {
        let mut other = world.unix();
        other.get("/healthz").expect(200);
        assert!(other.is_closed());
    }
    bound.post("/v1/permits", json!({ "session": session })).expect(201);
}

fn two_connections() -> Limits {
    let connections = Capacity { total: 2, ..Capacity::default() };
    Limits { connections, ..Limits::default() }
}

#[test]
fn one_connection_too_many_is_told_so_and_the_next_fits_again() {
    let world = World::with(two_connections());
    let (mut first, mut second) = (world.unix(), world.unix());
    first.get("/healthz").expect(200);
    second.get("/healthz").expect(200);
    let error = world.unix().answer().expect_error(503, "refused");
    assert_eq!(error["reason"], "exhausted");
    drop(first);
    // The daemon notices the end after a while: ask until there is room.
    while world.unix().answer_or_send("/healthz") != 200 {}
}

#[test]
fn strangers_on_tcp_do_not_shut_out_the_unix_socket() {
    let world = World::with(two_connections());
    let mut strangers = [world.tcp_with(None), world.tcp_with(None)];
    for stranger in &mut strangers {
        stranger.get("/healthz").expect(200);
    }
    world.tcp().answer().expect_error(503, "refused");
    world.unix().get("/v1/tokens").expect(200);
}

#[test]
fn one_address_does_not_take_all_places_of_tcp() {
    let connections = Capacity { each: 1, ..Capacity::default() };
    let world = World::with(Limits { connections, ..Limits::default() });
    let mut first = world.tcp();
    first.get("/v1/status").expect(200);
    let error = world.tcp().answer().expect_error(503, "refused");
    assert_eq!(error["message"], "resources exhausted: too many connections from 127.0.0.1");
    first.get("/v1/status").expect(200);
}

#[test]
fn a_stranger_who_says_nothing_is_closed_as_one_who_speaks_slowly_d2() {
    let limits = Limits { head_max: Duration::from_millis(200), ..Limits::default() };
    let world = World::with(limits);
    let mut known = world.unix();
    let (mut polite, mut silent, mut slow) = (world.tcp(), world.tcp(), world.tcp());
    polite.get("/healthz").expect(200);
    slow.raw(b"GET /healthz");
    let began = Instant::now();
    assert!(silent.is_closed() && slow.is_closed());
    assert!(began.elapsed() < PATIENCE, "closed, not given up on");
    // Later requests may take as long as any, and the kernel identifies clients on the unix socket.
    polite.get("/healthz").expect(200);
    known.get("/healthz").expect(200);
}

#[test]
fn the_head_of_a_request_is_bounded_d2() {
    let world = World::new();
    let mut client = world.unix();
    client.raw(b"GET /healthz HTTP/1.1\r\nhost: p\r\n");
    for number in 0..101 {
        client.raw(format!("x-{number}: y\r\n").as_bytes());
    }
    client.raw(b"\r\n");
    assert_eq!(client.head().0, 431);
    // Sent in one piece and in small ones: the head with its last line is bounded.
    for (bytes, status) in [(32 << 10, 200), ((32 << 10) + 1, 431), (40_000, 431), (70_000, 431)] {
        let (start, end) = ("GET /healthz HTTP/1.1\r\nhost: p\r\nx: ", "\r\n\r\n");
        let head = format!("{start}{}{end}", "y".repeat(bytes - start.len() - end.len()));
        for piece in [bytes, 10_000] {
            let mut client = world.unix();
            for piece in head.as_bytes().chunks(piece) {
                // The answer may arrive, and the connection be closed, before everything is sent.
                let _ = client.stream.get_mut().write_all(piece);
            }
            assert_eq!(client.head().0, status, "{bytes} in pieces of {piece}");
        }
    }
    let mut client = world.unix();
    let target = |bytes: usize| format!("/healthz{}", "x".repeat(bytes - "/healthz".len()));
    client.get(&target(8 << 10)).expect(404);
    client.get(&target((8 << 10) + 1)).expect_error(414, "target_too_long");
    world.unix().get("/healthz").expect(200);
}

#[test]
fn a_taken_address_names_the_option() {
    let world = World::new();
    let taken = world.door.as_ref().unwrap().tcp.unwrap();
    let other = world.directory.join("other");
    std::fs::create_dir(&other).unwrap();
    let error = world.open_again(&Options::in_directory(&other, Address::Tcp(taken)));
    assert!(error.contains("--api") && error.contains(&taken.to_string()), "{error}");
    let error = world.open_again(&Options::in_directory(&world.directory, Address::None));
    assert!(error.contains("api.sock"), "{error}");
}
