//! What clients send after the heads of waiting requests: it is bounded (D1), and forwarded when the request runs.

use super::door::{Door, Played, config, get, ok};
use super::frames::{DATA, END_HEADERS, END_STREAM, Frame, HEADERS, Http2, PING, block, request};
use super::wire::Wire;

/// A door at which one request runs, and all others wait.
fn busy(played: &Played) -> (Door, Wire, Wire) {
    let rest = "[[checkpoint]]\nname = \"one\"\nat = \"backend app\"\nconcurrency = 1\n\
                queue = { max_len = 10000, max_delay = \"5m\" }\n";
    let door = Door::start(&config(played.address(), "", rest));
    let mut first = door.connect();
    first.send(get("/first"));
    let mut server = played.accept();
    assert!(server.request().unwrap().head.starts_with("GET /first "));
    (door, first, server)
}

fn post(client: &mut Http2, stream: u32, more: &[(&str, &str)]) {
    client.headers(stream, &request("POST", "/late", more), 0);
}

/// Trailers that would not be forwarded are not kept: a byte can name a field, which takes many times as much memory.
#[test]
fn trailers_of_a_waiting_request_are_checked_at_once_d1() {
    let played = Played::new();
    let (door, mut first, mut server) = busy(&played);
    let mut client = Http2::connect(door.address("web"));
    let (many, long) = (vec![("x", ""); 101], "x".repeat(8 << 10));
    for (stream, trailers) in [(1, &many[..]), (3, &[("x-long", &*long)])] {
        post(&mut client, stream, &[]);
        client.headers(stream, trailers, END_STREAM);
        assert_eq!(client.response(stream).0, 400, "while others wait");
    }
    post(&mut client, 5, &[]);
    client.headers(5, &[("x-sum", "1")], END_STREAM);
    server.send(ok("first"));
    assert_eq!(first.response().text(), "first");
    let late = server.request().unwrap();
    assert!(late.head.ends_with("x-sum: 1\r\n"), "{late:?}");
    server.send(ok("late"));
    assert_eq!(client.response(5), (200, "late".into()));
    door.ends_well();
}

#[test]
fn trailers_of_waiting_requests_count_with_the_heads_of_their_connection_d1() {
    const HEAD_BYTES: usize = 5_000;
    const TRAILER_BYTES: usize = 8_000;
    let played = Played::new();
    let (door, first, server) = busy(&played);
    let mut client = Http2::connect(door.address("web"));
    let (head, trailer) = ("x".repeat(HEAD_BYTES), "x".repeat(TRAILER_BYTES));
    for stream in (0..100).map(|number| 2 * number + 1) {
        post(&mut client, stream, &[("x-head", &head)]);
        client.headers(stream, &[("x-trailer", &trailer)], END_STREAM);
    }
    // The heads alone fit; with their trailers there is no room for the last ones.
    let refused = 100 - (1 << 20) / (HEAD_BYTES + TRAILER_BYTES);
    for _ in 0..refused {
        assert_eq!(client.next_of(HEADERS).status(), 503, "while others wait");
    }
    drop((client, first, server));
    door.ends_well();
}

/// Many connections at once, and trailers whose fields are named by a byte each.
#[test]
fn trailers_that_cost_a_client_little_cost_little_here_d1() {
    let played = Played::new();
    let (door, first, server) = busy(&played);
    let before = door.memory();
    // Adds a field to the table, then names it repeatedly.
    let literal = [&[0x40, 1, b'x', 0][..], &[0xbe; 959]].concat();
    let mut frames = vec![];
    for stream in (0..100).map(|number| 2 * number + 1) {
        let trailers = if stream == 1 { &literal[..] } else { &[0xbe; 960] };
        let head = block(&request("POST", "/late", &[]));
        frames.push(Frame::new(HEADERS, END_HEADERS, stream, head));
        frames.push(Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, trailers));
    }
    let mut clients: Vec<Http2> = (0..40).map(|_| Http2::connect(door.address("web"))).collect();
    clients.iter_mut().for_each(|client| client.send_at_once(&frames));
    for client in &mut clients {
        (0..100).for_each(|_| assert_eq!(client.next_of(HEADERS).status(), 400));
    }
    // As tables of fields they would take 336 MB together.
    let grown = door.memory().saturating_sub(before);
    assert!(grown < 100 << 10, "{grown} KiB");
    drop((clients, first, server));
    door.ends_well();
}

#[test]
fn a_waiting_request_costs_no_more_than_it_counts_for_d1() {
    const CLIENTS: u64 = 60;
    let played = Played::new();
    let (door, first, server) = busy(&played);
    let before = door.memory();
    let mut clients: Vec<Http2> = vec![];
    for _ in 0..CLIENTS {
        let mut client = Http2::connect(door.address("web"));
        (0..100).for_each(|number| client.ask(2 * number + 1, "/late"));
        client.send(&Frame::new(PING, 0, 0, *b"in order"));
        client.next_of(PING);
        clients.push(client);
    }
    // 5 KiB and the memory of its attributes, and of the connections.
    let grown = door.memory().saturating_sub(before);
    assert!(grown < CLIENTS * 100 * 8, "{grown} KiB");
    drop((clients, first, server));
    door.ends_well();
}

/// A short frame that arrived together with others keeps none of their bytes.
#[test]
fn short_frames_of_waiting_requests_keep_no_more_than_they_hold_d1() {
    const FRAMES: u32 = 12_000;
    let played = Played::new();
    let (door, first, server) = busy(&played);
    let mut client = Http2::connect(door.address("web"));
    (0..100).for_each(|number| post(&mut client, 2 * number + 1, &[]));
    for number in 0..FRAMES {
        let data = Frame::new(DATA, 0, 2 * (number % 100) + 1, [b'x'; 256]);
        let unknown = Frame::new(0xee, 0, 0, [b'y'; 16 << 10]);
        client.send_at_once(&[data, unknown]);
    }
    client.send(&Frame::new(PING, 0, 0, *b"in order"));
    client.next_of(PING);
    // The bodies are 3 MB together; the buffers they were read into were 200 MB.
    assert!(door.memory() < 64 << 10, "{} KiB", door.memory());
    drop((client, first, server));
    door.ends_well();
}

/// More than a piece, and more than the window: what arrived while the request waited, and what arrives then.
#[test]
fn a_body_that_came_early_is_passed_on_whole() {
    let played = Played::new();
    let (door, mut first, mut server) = busy(&played);
    let mut client = Http2::connect(door.address("web"));
    post(&mut client, 1, &[]);
    let body: Vec<u8> = (0..120_000u32).map(|at| (at / 7) as u8).collect();
    let (early, rest) = body.split_at(60_000);
    for piece in early.chunks(9_000) {
        client.send(&Frame::new(DATA, 0, 1, piece));
    }
    client.send(&Frame::new(PING, 0, 0, *b"in order"));
    client.next_of(PING);
    server.send(ok("first"));
    assert_eq!(first.response().text(), "first");
    let (head, mut window) = (server.head().unwrap(), 65_536 - early.len());
    assert!(head.starts_with("POST /late "), "{head}");
    for piece in rest.chunks(9_000) {
        while window < piece.len() {
            let frame = client.next_of(super::frames::WINDOW_UPDATE);
            let by = u32::from_be_bytes(frame.payload.try_into().unwrap());
            window += if frame.stream == 1 { by as usize } else { 0 };
        }
        window -= piece.len();
        client.send(&Frame::new(DATA, 0, 1, piece));
    }
    client.headers(1, &[("x-sum", "1")], END_STREAM);
    let late = server.chunked();
    assert!(late.is_whole && late.body == body, "{} bytes", late.body.len());
    assert_eq!(late.head, "x-sum: 1\r\n");
    server.send(ok("late"));
    assert_eq!(client.response(1), (200, "late".into()));
    door.ends_well();
}
