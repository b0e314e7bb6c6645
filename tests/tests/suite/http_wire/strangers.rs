//! Unexpected traffic at a port: random bytes at TLS, TLS handshakes that never end, plain HTTP at a TLS port, and
//! PROXY headers that are missing, invalid or from an untrusted peer (H5).

use super::door::{Door, config, get};
use super::recorder::Recorder;
use super::wire::Wire;
use paceline_tests::Scratch;
use std::process::Command;

/// A certificate and its key, as files.
fn certificate(scratch: &Scratch) {
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
                 -subj /CN=a.example -keyout key.pem -out cert.pem";
    let mut command = Command::new("openssl");
    let output = command.args(words.split_whitespace()).current_dir(scratch.path()).output();
    let output = output.expect("openssl is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The beginning of a TLS client hello: a record whose rest never arrives.
const HALF_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 1, 2, 3];

#[test]
fn strangers_at_a_tls_port_are_turned_away_d4() {
    let scratch = Scratch::new();
    certificate(&scratch);
    let server = Recorder::start();
    let more = "tls = { certificate = \"cert.pem\", key = \"key.pem\" }\n\
                timeouts = { header = \"300ms\" }";
    let door = Door::start_in(scratch, &config(server.address, more, ""));
    let address = door.address("web");
    let noise: Vec<u8> = (0..=255u8).cycle().take(5_000).collect();
    let too_large = [&[22, 3, 1, 0xff, 0xff][..], &[0; 70_000]].concat();
    let alert = [21, 3, 3, 0, 2, 2, 40];
    let plain = get("/plain");
    let cases: [(&str, &[u8]); 8] = [
        ("plain HTTP", plain.as_bytes()),
        ("HTTP/2 in the clear", super::frames::PREFACE),
        ("noise", &noise),
        ("zeros", &[0; 100]),
        ("a record too large", &too_large),
        ("an alert", &alert),
        ("half a greeting", HALF_HELLO),
        ("nothing", b""),
    ];
    for (why, bytes) in cases {
        let mut client = Wire::connect(address);
        client.send(bytes);
        let rest = client.rest();
        assert!(!rest.starts_with(b"HTTP"), "{why}: {}", String::from_utf8_lossy(&rest));
    }
    let url = format!("https://{address}/right");
    let output = Command::new("curl").args(["-sk", "--max-time", "20", &url]).output();
    let output = output.expect("curl is installed");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("GET /right "), "{output:?}");
    assert_eq!(server.take().requests.len(), 1);
    door.ends_well();
}

fn trusting(server: &Recorder, trusted: &str) -> Door {
    let more = format!(
        "proxy_protocol = true\ntrusted = [{trusted}]\ntimeouts = {{ header = \"300ms\" }}"
    );
    Door::plain(server.address, &more)
}

#[test]
fn connections_without_a_proxy_header_are_closed_h5() {
    let server = Recorder::start();
    let door = trusting(&server, "\"127.0.0.0/8\"");
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let cases: [(&str, Vec<u8>); 9] = [
        ("none", vec![]),
        ("another protocol", b"PRAXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n".into()),
        ("a wrong family", b"PROXY TCP4 ::1 ::1 1 2\r\n".into()),
        ("a wrong port", b"PROXY TCP4 1.1.1.1 2.2.2.2 1 99999\r\n".into()),
        ("bare LF", b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n".into()),
        ("too long", [&b"PROXY UNKNOWN "[..], &[b'x'; 200], b"\r\n"].concat()),
        ("a wrong version", [&signature[..], &[0x11, 0x11, 0, 0]].concat()),
        ("too short for its family", [&signature[..], &[0x21, 0x11, 0, 2, 1, 1]].concat()),
        ("larger than any", [&signature[..], &[0x21, 0x11, 0xff, 0xff]].concat()),
    ];
    for (why, header) in cases {
        let mut client = door.connect();
        client.send([&header[..], get("/x").as_bytes()].concat());
        let rest = client.rest();
        assert!(rest.is_empty(), "{why}: {}", String::from_utf8_lossy(&rest));
    }
    // The daemon waits for the rest of a header, but not for ever.
    for half in [&b"PROXY TCP4 1.1"[..], &signature[..5]] {
        let mut client = door.connect();
        client.send(half);
        client.ends();
    }
    assert!(server.take().requests.is_empty());
    door.ends_well();
}

#[test]
fn the_client_of_a_proxy_header_counts_h5() {
    let server = Recorder::start();
    let door = trusting(&server, "\"127.0.0.0/8\"");
    let binary =
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &[192, 0, 2, 9, 127, 0, 0, 1, 0, 80, 0, 81]]
            .concat();
    let lie = "GET /x HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 203.0.113.5\r\n\r\n";
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let cases: [(&[u8], &str); 5] = [
        (b"PROXY TCP4 192.0.2.1 127.0.0.1 1 2\r\n", "192.0.2.1"),
        (b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "2001:db8::1"),
        (&binary, "192.0.2.9"),
        // If the balancer connects for itself, it is trusted; if it connects for an unknown client, it is not.
        (local, "203.0.113.5, 127.0.0.1"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    ];
    for (header, client_address) in cases {
        let mut client = door.connect();
        client.send([header, lie.as_bytes()].concat());
        assert_eq!(client.response().status, 200);
        let request = server.take().requests.pop().unwrap();
        let line = format!("X-Forwarded-For: {client_address}\r\n");
        assert!(request.contains(&line), "{line}: {request}");
        assert_eq!(request.matches("X-Forwarded-For").count(), 1, "{request}");
    }
}

/// An untrusted peer cannot name its client.
#[test]
fn proxy_headers_of_strangers_are_not_believed_h5() {
    let server = Recorder::start();
    let door = trusting(&server, "\"10.0.0.0/8\"");
    let mut client = door.connect();
    client.send(format!("PROXY TCP4 10.0.0.1 127.0.0.1 1 2\r\n{}", get("/x")));
    client.ends();
    assert!(server.take().requests.is_empty());
    // If no header is expected, one is an invalid request.
    let door = Door::plain(server.address, "");
    let mut client = door.connect();
    client.send(format!("PROXY TCP4 10.0.0.1 127.0.0.1 1 2\r\n{}", get("/x")));
    assert_eq!(client.response().status, 400);
    client.ends();
    assert!(server.take().requests.is_empty());
}

/// Rules see the last address that is not a trusted proxy's, whatever precedes it.
#[test]
fn forwarded_addresses_count_from_trusted_peers_only_h5() {
    let server = Recorder::start();
    let rest = "[[rule]]\nmatch = { client = \"203.0.113.*\" }\nmode = \"glob\"\nreject = true\n\
                then = \"stop\"\n";
    let ask = |door: &Door, forwarded: &str| {
        let mut client = door.connect();
        client.send(format!(
            "GET /x HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: {forwarded}\r\n\r\n"
        ));
        client.response().status
    };
    let trusted = "trusted = [\"127.0.0.1\", \"10.0.0.0/8\"]";
    let door = Door::start(&config(server.address, trusted, rest));
    assert_eq!(ask(&door, "203.0.113.7"), 403);
    assert_eq!(ask(&door, "203.0.113.7, 10.1.1.1"), 403, "through a trusted one");
    assert_eq!(ask(&door, "203.0.113.7, 192.0.2.1"), 200, "the nearest counts");
    assert_eq!(ask(&door, "203.0.113.7\r\nX-Forwarded-For: 10.1.1.1"), 403, "in two lines");
    assert_eq!(ask(&door, "203.0.113.7, garbage"), 200, "nothing behind garbage is believed");
    let door = Door::start(&config(server.address, "", rest));
    assert_eq!(ask(&door, "203.0.113.7"), 200, "a stranger says what it likes");
}
