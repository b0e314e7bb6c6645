//! Heads and bodies at their maxima and one beyond (D2), and random bytes (D4).

use super::door::{Door, get};
use super::recorder::Recorder;

fn door() -> (Door, Recorder) {
    let server = Recorder::start();
    (Door::plain(server.address, "max_body = 100000"), server)
}

/// A head of exactly `len` bytes, filled up by its last field.
fn head_of(len: usize) -> String {
    let start = "GET /x HTTP/1.1\r\nHost: a.example\r\nX-Filler: ";
    format!("{start}{}\r\n\r\n", "x".repeat(len - start.len() - 4))
}

#[track_caller]
fn answers(door: &Door, text: impl AsRef<[u8]>, status: u16) {
    let mut client = door.connect();
    client.send(text);
    assert_eq!(client.response().status, status);
    if status != 200 {
        client.ends();
    }
}

/// A client that speaks another protocol waits for a response: it gets one before `timeouts.header`.
#[test]
fn another_protocol_is_answered_at_once_d4() {
    let (door, _server) = door();
    for bytes in [&b"\x16\x03\x01\x02\0\x01\0"[..], b"\0\0\0\0", b"\r\n\0", b"QUIT\r\n"] {
        answers(&door, bytes, 400);
    }
    door.ends_well();
}

#[test]
fn heads_have_maxima_d2() {
    let (door, server) = door();
    answers(&door, head_of(32 << 10), 200);
    answers(&door, head_of((32 << 10) + 1), 431);
    answers(&door, head_of(500_000), 431);
    answers(&door, format!("GET /x HTTP/1.1\r\nX: {}", "x".repeat(100_000)), 431);
    let fields = |count: usize| {
        format!("GET /x HTTP/1.1\r\nHost: a.example\r\n{}\r\n", "X: y\r\n".repeat(count - 1))
    };
    answers(&door, fields(100), 200);
    answers(&door, fields(101), 431);
    answers(&door, fields(4_000), 431);
    let target = |len: usize| get(&format!("/{}", "x".repeat(len - 1)));
    answers(&door, target(8 << 10), 200);
    answers(&door, target((8 << 10) + 1), 414);
    answers(&door, format!("GET /{}", "x".repeat(100_000)), 414);
    // A path whose normalized form is longer.
    answers(&door, target(8 << 10).replace("xx", "|x"), 200);
    answers(&door, get("/x").replace("GET", &"G".repeat(32)), 200);
    answers(&door, get("/x").replace("GET", &"G".repeat(33)), 400);
    let host = |len: usize| get("/x").replace("a.example", &"a".repeat(len));
    answers(&door, host(255), 200);
    answers(&door, host(256), 400);
    assert_eq!(server.take().requests.len(), 6);
    door.ends_well();
}

#[test]
fn bodies_have_maxima_d2() {
    let (door, server) = door();
    let post = |fields: &str| format!("POST /x HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
    let sized = |len: usize| post(&format!("Content-Length: {len}\r\n")) + &"x".repeat(len);
    answers(&door, sized(100_000), 200);
    answers(&door, sized(100_001), 413);
    // The length alone is sufficient, up to the largest possible value.
    answers(&door, post("Content-Length: 100001\r\n"), 413);
    answers(&door, post("Content-Length: 9999999999999999999\r\n"), 413);
    answers(&door, post("Content-Length: 100001\r\nExpect: 100-continue\r\n"), 413);
    let seen = server.take();
    assert_eq!((seen.requests.len(), seen.broken.len()), (1, 0), "a length is known before");
    let chunk = |len: usize| format!("{len:x}\r\n{}\r\n", "x".repeat(len));
    let chunked = |body: String| post("Transfer-Encoding: chunked\r\n") + &body;
    answers(&door, chunked(chunk(60_000) + &chunk(40_000) + "0\r\n\r\n"), 200);
    answers(&door, chunked(chunk(60_000) + &chunk(40_001) + "0\r\n\r\n"), 413);
    let ones = chunk(1).repeat(100_001) + "0\r\n\r\n";
    answers(&door, chunked(ones), 413);
    answers(&door, chunked(format!("1;{}\r\nx\r\n0\r\n\r\n", "x".repeat(1_000))), 200);
    answers(&door, chunked(format!("1;{}\r\nx\r\n0\r\n\r\n", "x".repeat(1_100))), 400);
    answers(&door, chunked(format!("0\r\nX: {}\r\n\r\n", "x".repeat(8_000))), 200);
    answers(&door, chunked(format!("0\r\nX: {}\r\n\r\n", "x".repeat(9_000))), 400);
    answers(&door, chunked(format!("0\r\n{}\r\n", "X: y\r\n".repeat(101))), 400);
    assert_eq!(server.take().requests.len(), 3, "and no whole request of the others");
    door.ends_well();
}

/// Pseudo-random numbers, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn garbage_is_answered_and_forgotten_d4() {
    let (door, server) = door();
    let mut chance = Chance(7);
    let right = get("/x?y=z").into_bytes();
    for round in 0..400 {
        // Random bytes, or a request with some bytes changed.
        let mut bytes: Vec<u8> = if round % 2 == 0 {
            (0..1 + chance.below(2_000)).map(|_| chance.below(256) as u8).collect()
        } else {
            right.clone()
        };
        for _ in 0..1 + chance.below(4) {
            let at = chance.below(bytes.len());
            bytes[at] = chance.below(256) as u8;
        }
        bytes.extend(b"\r\n\r\n\r\n\r\n");
        let mut client = door.connect();
        client.send(&bytes);
        let status = client.response().status;
        assert!(matches!(status, 200 | 400 | 405 | 414 | 417 | 431), "{status}: {bytes:?}");
        if status != 200 {
            client.ends();
        }
    }
    // Everything that was forwarded was a request with one reading.
    for request in server.take().requests {
        assert_eq!(request.matches("\r\n\r\n").count(), 1, "{request:?}");
        assert_eq!(request.matches(" HTTP/1.1\r\nHost: ").count(), 1, "{request:?}");
    }
    door.serves();
    door.ends_well();
}
