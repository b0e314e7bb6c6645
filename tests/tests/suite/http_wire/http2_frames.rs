//! Invalid frames (RFC 9113 3 to 7): a connection error ends that connection and no other, a stream error ends that
//! stream alone.

use super::door::Door;
use super::frames::{
    ACK, CANCEL, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM,
    FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, Frame, GOAWAY, HEADERS, Http2, PADDED, PING, PREFACE,
    PRIORITY, PROTOCOL_ERROR, PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, STREAM_CLOSED,
    WINDOW_UPDATE, block, request,
};
use super::recorder::Recorder;
use super::wire::Wire;

fn door() -> (Door, Recorder) {
    let server = Recorder::start();
    (Door::plain(server.address, ""), server)
}

/// An open stream: the request's body has not ended.
fn open(client: &mut Http2, stream: u32) {
    client.headers(stream, &request("POST", "/open", &[]), 0);
}

#[test]
fn greetings_are_checked() {
    let (door, _server) = door();
    let address = door.address("web");
    Http2::connect(address).serves(1);
    // An invalid preface is an invalid HTTP/1 request.
    let mut wire = Wire::connect(address);
    wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\n\n");
    assert_eq!(wire.response().status, 400);
    // After the preface, settings must be first.
    let mut client = Http2 { wire: Wire::connect(address), is_polite: true };
    client.wire.send(PREFACE);
    client.send(&Frame::new(DATA, 0, 1, "x"));
    client.ends_with(&[PROTOCOL_ERROR], "data before settings");
    let mut wire = Wire::connect(address);
    wire.send([PREFACE, b"GET / HTTP/1.1\r\n\r\n"].concat());
    wire.rest();
    door.ends_well();
}

#[test]
fn pings_and_settings_are_answered() {
    let (door, _server) = door();
    let mut client = Http2::connect(door.address("web"));
    client.send(&Frame::new(PING, 0, 0, *b"pingpong"));
    assert_eq!(client.next_of(PING), Frame::new(PING, ACK, 0, *b"pingpong"));
    client.send(&Frame::new(SETTINGS, 0, 0, [0x7f, 0x7f, 0, 0, 0, 1]));
    assert_eq!(client.next_of(SETTINGS), Frame::new(SETTINGS, ACK, 0, []), "unknown ones pass");
    // Unknown frames and flags, and padding, are ignored.
    client.send(&Frame::new(0x77, 0xff, 0, [1, 2, 3]));
    client.send(&Frame::new(PRIORITY, 0, 9, [0, 0, 0, 0, 1]));
    let mut padded = vec![3];
    padded.extend(block(&request("GET", "/padded", &[])));
    padded.extend([0; 3]);
    client.send(&Frame::new(HEADERS, END_HEADERS | END_STREAM | PADDED, 1, padded));
    assert_eq!(client.response(1), (200, "GET /padded HTTP/1.1".into()));
    client.serves(3);
}

/// Each on its own connection, which ends with the code of the standard.
#[test]
fn errors_of_the_connection_end_it_alone() {
    let (door, _server) = door();
    let half = &block(&request("GET", "/half", &[]))[..10];
    let cases: Vec<(&str, u32, Vec<Frame>)> = vec![
        ("DATA on stream 0", PROTOCOL_ERROR, vec![Frame::new(DATA, 0, 0, b"x")]),
        ("HEADERS on stream 0", PROTOCOL_ERROR, vec![Frame::new(HEADERS, 5, 0, half)]),
        ("DATA on an idle stream", PROTOCOL_ERROR, vec![Frame::new(DATA, 0, 1, b"x")]),
        (
            "RST_STREAM on an idle stream",
            PROTOCOL_ERROR,
            vec![Frame::new(RST_STREAM, 0, 1, [0; 4])],
        ),
        ("RST_STREAM on stream 0", PROTOCOL_ERROR, vec![Frame::new(RST_STREAM, 0, 0, [0; 4])]),
        ("WINDOW_UPDATE on an idle stream", PROTOCOL_ERROR, vec![window(1, 1)]),
        ("WINDOW_UPDATE of 0", PROTOCOL_ERROR, vec![window(0, 0)]),
        ("WINDOW_UPDATE of 0 on a stream", PROTOCOL_ERROR, vec![open_frame(1), window(1, 0)]),
        ("WINDOW_UPDATE that overflows", FLOW_CONTROL_ERROR, vec![window(0, 0x7fff_ffff)]),
        ("SETTINGS on a stream", PROTOCOL_ERROR, vec![Frame::new(SETTINGS, 0, 1, [])]),
        ("SETTINGS of 5 bytes", FRAME_SIZE_ERROR, vec![Frame::new(SETTINGS, 0, 0, [0; 5])]),
        ("an ACK with settings", FRAME_SIZE_ERROR, vec![Frame::new(SETTINGS, ACK, 0, [0; 6])]),
        ("push that is 2", PROTOCOL_ERROR, vec![setting(2, 2)]),
        ("a window over 2^31", FLOW_CONTROL_ERROR, vec![setting(4, 0x8000_0000)]),
        ("frames too small", PROTOCOL_ERROR, vec![setting(5, 100)]),
        ("frames too large", PROTOCOL_ERROR, vec![setting(5, 0x100_0000)]),
        ("PING on a stream", PROTOCOL_ERROR, vec![Frame::new(PING, 0, 1, [0; 8])]),
        ("PING of 7 bytes", FRAME_SIZE_ERROR, vec![Frame::new(PING, 0, 0, [0; 7])]),
        ("GOAWAY on a stream", PROTOCOL_ERROR, vec![Frame::new(GOAWAY, 0, 1, [0; 8])]),
        ("a push of a client", PROTOCOL_ERROR, vec![Frame::new(PUSH_PROMISE, 4, 1, [0, 0, 0, 2])]),
        ("CONTINUATION alone", PROTOCOL_ERROR, vec![Frame::new(CONTINUATION, 4, 1, half)]),
        ("an even stream", PROTOCOL_ERROR, vec![headers(2)]),
        ("a stream that comes late", PROTOCOL_ERROR, vec![headers(5), headers(3)]),
        (
            "another frame within a header block",
            PROTOCOL_ERROR,
            vec![Frame::new(HEADERS, 0, 1, half), Frame::new(PING, 0, 0, [0; 8])],
        ),
        (
            "another stream within a header block",
            PROTOCOL_ERROR,
            vec![Frame::new(HEADERS, 0, 1, half), Frame::new(CONTINUATION, 4, 3, half)],
        ),
        ("a block that is no code", COMPRESSION_ERROR, vec![Frame::new(HEADERS, 5, 1, [0xff; 9])]),
        ("an entry that is not there", COMPRESSION_ERROR, vec![Frame::new(HEADERS, 5, 1, [0xfe])]),
        ("a frame too large", FRAME_SIZE_ERROR, vec![Frame::new(DATA, 0, 1, vec![0; 20_000])]),
        (
            "a pad longer than its frame",
            PROTOCOL_ERROR,
            vec![open_frame(1), Frame::new(DATA, PADDED, 1, [9, 0])],
        ),
    ];
    for (why, code, frames) in cases {
        let mut client = Http2::connect(door.address("web"));
        for frame in &frames {
            client.send(frame);
        }
        // Any error may be reported as the most general one (RFC 9113 7).
        client.ends_with(&[code, PROTOCOL_ERROR], why);
    }
    door.serves();
    door.ends_well();
}

fn window(stream: u32, more: u32) -> Frame {
    Frame::new(WINDOW_UPDATE, 0, stream, more.to_be_bytes())
}

fn setting(id: u16, value: u32) -> Frame {
    Frame::new(SETTINGS, 0, 0, [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

fn headers(stream: u32) -> Frame {
    Frame::new(HEADERS, END_HEADERS | END_STREAM, stream, block(&request("GET", "/x", &[])))
}

fn open_frame(stream: u32) -> Frame {
    Frame::new(HEADERS, END_HEADERS, stream, block(&request("POST", "/open", &[])))
}

/// Errors of one stream: the others on the same connection continue.
#[test]
fn errors_of_a_stream_end_it_alone() {
    let (door, server) = door();
    let mut client = Http2::connect(door.address("web"));
    open(&mut client, 1);
    client.send(&window(1, 0x7fff_ffff));
    assert_eq!(client.reset(1, "WINDOW_UPDATE that overflows"), FLOW_CONTROL_ERROR);
    client.headers(3, &request("POST", "/open", &[("content-length", "1")]), 0);
    client.send(&Frame::new(DATA, END_STREAM, 3, "ab"));
    assert_eq!(client.reset(3, "more data than said"), PROTOCOL_ERROR);
    client.serves(5);
    assert_eq!(server.take().requests.len(), 1, "nothing whole of the others");
    door.ends_well();
}

/// Frames on a stream that has ended end it again, or the connection (RFC 9113 5.1).
#[test]
fn frames_on_closed_streams_are_refused() {
    let (door, server) = door();
    for frame in [Frame::new(DATA, END_STREAM, 1, b"more"), headers(1)] {
        let mut client = Http2::connect(door.address("web"));
        client.serves(1);
        client.send(&frame);
        let code = loop {
            let frame = client.next().expect("an error comes");
            if matches!(frame.kind, RST_STREAM | GOAWAY) {
                break frame.code();
            }
        };
        assert!(matches!(code, STREAM_CLOSED | PROTOCOL_ERROR), "{frame:?}: {code}");
    }
    door.serves();
    assert_eq!(server.take().requests.len(), 3);
}

#[test]
fn header_blocks_without_end_are_cut_off_d4() {
    let (door, _server) = door();
    for piece in [vec![], block(&[("x-filler", &"x".repeat(1_000))])] {
        let mut client = Http2::connect(door.address("web"));
        client.send(&Frame::new(HEADERS, END_STREAM, 1, block(&request("GET", "/flood", &[]))));
        let flood = Frame::new(CONTINUATION, 0, 1, piece).bytes().repeat(100);
        // The connection is full or closed long before; a failed write shows it.
        use std::io::Write as _;
        let mut sent = 0;
        while client.wire.stream.write_all(&flood).is_ok() {
            sent += 100;
            assert!(sent < 1_000_000, "a header block without end is read on and on");
        }
    }
    door.serves();
    assert!(door.memory() < 200 << 10, "{} KiB", door.memory());
    door.ends_well();
}

#[test]
fn too_many_streams_are_refused() {
    let played = super::door::Played::new();
    let door = Door::plain(played.address(), "");
    let mut client = Http2 { wire: Wire::connect(door.address("web")), is_polite: true };
    client.wire.send(PREFACE);
    client.send(&setting(1, 0));
    let settings = client.next_of(SETTINGS).payload;
    let mut limits = settings.chunks(6).filter(|entry| entry[..2] == [0, 3]);
    let entry = limits.next().expect("the server says how many streams it takes");
    let max = u32::from_be_bytes(entry[2..].try_into().unwrap());
    assert!((100..=1_000).contains(&max), "{max}");
    for n in 0..=max {
        client.ask(2 * n + 1, "/many");
    }
    assert_eq!(client.reset(2 * max + 1, "one too many"), REFUSED_STREAM);
    client.wire.close();
    door.ends_well();
}

/// CVE-2023-44487: streams that are reset as soon as they are opened. The connection is closed, and other connections
/// are not affected.
#[test]
fn rapid_resets_are_cut_off_d4() {
    use super::frames::ENHANCE_YOUR_CALM;
    let (door, _server) = door();
    let mut client = Http2::connect(door.address("web"));
    let mut stream = 1;
    let code = loop {
        let mut pairs = vec![];
        for _ in 0..200 {
            pairs.extend(headers(stream).bytes());
            pairs.extend(Frame::new(RST_STREAM, 0, stream, CANCEL.to_be_bytes()).bytes());
            stream += 2;
        }
        use std::io::Write as _;
        let is_cut = client.wire.stream.write_all(&pairs).is_err();
        door.serves();
        assert!(stream < 200_000, "resets go on and on");
        if is_cut {
            break loop {
                match client.next() {
                    Some(frame) if frame.kind == GOAWAY => break Some(frame.code()),
                    Some(_) => {}
                    None => break None,
                }
            };
        }
    };
    assert!(code.is_none_or(|code| code == ENHANCE_YOUR_CALM), "{code:?}");
    door.serves();
    assert!(door.memory() < 200 << 10, "{} KiB", door.memory());
    door.ends_well();
}
