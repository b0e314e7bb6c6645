//! Clients that leave: what they hold and wait for is released, whatever they sent before they left.

use crate::client::Client;
use crate::world::World;
use paceline_api::Limits;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::json;
use std::io::{BufReader, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Data that hides the end of a connection from a server that reads only one request ahead.
fn stray() -> [Vec<u8>; 4] {
    [
        b"\r\n".to_vec(),
        b"GET /healthz HTTP/1.1\r\nhost: p\r\n\r\n".to_vec(),
        b"GET /healthz HTTP/1.1\r\n".to_vec(),
        // More than the server reads ahead, and less than the system buffers.
        b"\r\n".repeat(40 << 10),
    ]
}

/// Sends a request that waits for the permit `first` holds. Returns its number.
fn wait_behind(client: &mut Client, world: &World) -> u64 {
    let mut events = world.events();
    client.send("POST", "/v1/permits", Some("{}"));
    events.next("waiting")["request"].as_u64().unwrap()
}

#[test]
fn a_client_that_waits_and_dies_behind_stray_bytes_leaves_the_queue_p4() {
    let world = World::new();
    world.checkpoint("one", json!({ "concurrency": 1, "queue": { "max_len": 10 } }));
    let mut holder = world.unix();
    holder.post("/v1/permits", json!({})).expect(201);
    for bytes in stray() {
        for mut waiter in [world.unix(), world.tcp()] {
            let request = wait_behind(&mut waiter, &world);
            let mut events = world.events();
            waiter.raw(&bytes);
            drop(waiter);
            assert_eq!(events.next("settled"), json!({ "request": request, "left": true }));
        }
    }
}

#[test]
fn a_session_ends_with_its_connection_whatever_was_sent_before_p4() {
    let world = World::new();
    world.checkpoint("one", json!({ "concurrency": 1, "queue": { "max_len": 10 } }));
    world.unix().post("/v1/permits", json!({})).expect(201);
    let mut other = world.unix();
    let own = other.session(json!({}));
    let follow = b"GET /v1/events HTTP/1.1\r\nhost: p\r\n\r\n".to_vec();
    for (round, bytes) in stray().into_iter().enumerate() {
        for is_waiting in [false, true] {
            let path = format!("/v1/locks/lock_{round}_{is_waiting}");
            let mut holder = world.unix();
            let session = holder.session(json!({ "bound": true }));
            holder.put(&path, json!({ "session": session })).expect(200);
            match is_waiting {
                true => drop(wait_behind(&mut holder, &world)),
                false => {
                    holder.raw(&follow);
                    assert_eq!(holder.head().0, 200);
                }
            }
            holder.raw(&bytes);
            drop(holder);
            other.put(&path, json!({ "session": own, "wait": "10s" })).expect(200);
        }
    }
}

/// Sends bytes with the sender's own end of the connection.
fn send_itself(stream: &UnixStream, bytes: &[u8]) {
    let (own, mut space) = ([stream.as_fd()], [MaybeUninit::uninit(); 64]);
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&own)));
    // This fails if the daemon has closed the connection by now, as it should.
    let _ = sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
}

/// P4: what a client has sent before it died does not keep its connection open, even if it sent that connection
/// itself.
#[test]
fn a_connection_that_was_sent_to_itself_ends_with_its_client_p4() {
    let world = World::new();
    world.checkpoint("one", json!({ "concurrency": 1, "queue": { "max_len": 10 } }));
    world.unix().post("/v1/permits", json!({})).expect(201);
    let mut other = world.unix();
    let own = other.session(json!({}));
    let follow = b"GET /v1/events HTTP/1.1\r\nhost: p\r\n\r\n".to_vec();
    let ways: [fn(&UnixStream); 4] = [
        |stream| send_itself(stream, b"\r\n"),
        |stream| {
            drop((&*stream).write_all(b"GET"));
            send_itself(stream, b" ");
        },
        // The daemon has received both before it reads the first, which may end a read.
        |stream| (0..20).for_each(|_| send_itself(stream, b"\r\n")),
        |stream| {
            // After more bytes than are kept.
            drop((&*stream).write_all(&b"\r\n".repeat(100 << 10)));
            send_itself(stream, b"\r\n");
        },
    ];
    for (round, send) in ways.into_iter().enumerate() {
        for state in ["idle", "waiting", "following"] {
            let path = format!("/v1/locks/lock_{round}_{state}");
            let stream = UnixStream::connect(world.socket()).unwrap();
            let same = Box::new(stream.try_clone().unwrap());
            let mut holder = Client { stream: BufReader::new(same), token: None };
            let session = holder.session(json!({ "bound": true }));
            holder.put(&path, json!({ "session": session })).expect(200);
            match state {
                "waiting" => drop(wait_behind(&mut holder, &world)),
                "following" => {
                    holder.raw(&follow);
                    assert_eq!(holder.head().0, 200);
                }
                _ => {}
            }
            send(&stream);
            drop((stream, holder));
            other.put(&path, json!({ "session": own, "wait": "10s" })).expect(200);
        }
    }
}

/// Requests that were sent behind a waiting one are answered in order once it is.
#[test]
fn requests_behind_one_that_waits_are_answered_after_it() {
    const REQUESTS: usize = 1_000;
    let world = World::new();
    world.checkpoint("one", json!({ "concurrency": 1, "queue": { "max_len": 10 } }));
    let mut first = world.unix();
    let permit = first.post("/v1/permits", json!({})).expect(201);
    let mut waiter = world.unix();
    wait_behind(&mut waiter, &world);
    // More than the library reads ahead by itself.
    waiter.raw(&b"GET /healthz HTTP/1.1\r\nhost: paceline\r\n\r\n".repeat(REQUESTS));
    let path = format!("/v1/permits/{}", permit["permit"].as_str().unwrap());
    first.delete(&path).expect(204);
    waiter.answer().expect(201);
    for _ in 0..REQUESTS {
        waiter.answer().expect(200);
    }
}

/// RFC 9112, section 2.2: empty lines ahead of a request are ignored.
#[test]
fn empty_lines_between_requests_do_not_end_a_bound_connection_p4() {
    let short = Duration::from_millis(100);
    let world = World::with(Limits { head_max: short, idle_max: short, ..Limits::default() });
    let mut bound = world.unix();
    let session = bound.session(json!({ "bound": true }));
    bound.raw(b"\r\n");
    for _ in 0..3 {
        let mut slow = world.unix();
        slow.raw(b"\r\nG");
        assert!(slow.is_closed());
        bound.raw(b"\r\n\r\n");
    }
    bound.post("/v1/permits", json!({ "session": session })).expect(201);
    // Empty lines do not keep an idle connection open that has no session bound to it.
    let mut idle = world.unix();
    idle.raw(b"\r\n");
    assert!(idle.is_closed());
}

/// A client may close its sending side and still read the answers that need not wait.
#[test]
fn what_was_sent_before_a_client_closes_its_sending_side_is_answered() {
    const REQUESTS: usize = 100;
    let world = World::new();
    let mut stream = UnixStream::connect(world.socket()).unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: p\r\n\r\n";
    stream.write_all(&request.repeat(REQUESTS)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), REQUESTS);
}
