//! The first bytes of a connection, as bytes: what is refused, negotiated and bounded (D3, D4).

use paceline_tests::SqlDoor;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A packet without a kind: its length, then these bytes.
fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn startup(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend_from_slice(name.as_bytes());
        body.push(0);
        body.extend_from_slice(value.as_bytes());
        body.push(0);
    }
    body.push(0);
    packet(&body)
}

/// Everything that the door answers to `bytes` before it closes the connection.
fn answer(door: &SqlDoor, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(door.address()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // The door may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = vec![];
    // So a reset is an end, too; a timeout is not.
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it was not closed"),
        _ => answer,
    }
}

/// The kinds and bodies of the messages in `bytes`.
fn messages(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = vec![];
    while let [kind, a, b, c, d, rest @ ..] = bytes {
        let len = u32::from_be_bytes([*a, *b, *c, *d]) as usize - 4;
        found.push((*kind, rest[..len].to_vec()));
        bytes = &rest[len..];
    }
    found
}

/// The fields of the error that `bytes` end with.
fn error(bytes: &[u8]) -> String {
    let (kind, body) = messages(bytes).pop().unwrap();
    assert_eq!(kind, b'E');
    String::from_utf8_lossy(&body).replace('\0', "|")
}

const V3: u32 = 3 << 16;

#[test]
fn malformed_first_packets_are_refused_and_others_are_served_d3_d4() {
    let door = SqlDoor::start("", "");
    let long = startup(V3, &[("user", &"x".repeat(11_000))]);
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("a length of 3", vec![0, 0, 0, 3, 0, 0, 0, 0], "C08P01"),
        ("a packet of more than 10,000 bytes", long, "C08P01"),
        ("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec(), "C08P01"),
        ("version 4.0", startup(4 << 16, &[("user", "a")]), "C0A000"),
        ("no user", startup(V3, &[("database", "app")]), "C28000"),
        ("replication", startup(V3, &[("user", "a"), ("replication", "true")]), "C0A000"),
        (
            "parameters without an end",
            packet(&[&V3.to_be_bytes()[..], b"user\0a"].concat()),
            "C08P01",
        ),
    ];
    for (what, bytes, state) in cases {
        let said = error(&answer(&door, &bytes));
        assert!(said.contains("SFATAL") && said.contains(state), "{what}: {said}");
    }
    for (what, bytes) in [
        ("a TLS hello", vec![0x16, 3, 1, 2, 0]),
        (
            "a cancel request that names nobody",
            packet(&[&80_877_102u32.to_be_bytes()[..], &[0; 8]].concat()),
        ),
    ] {
        assert_eq!(answer(&door, &bytes), b"", "{what}");
    }
    // Encryption is not offered, and bytes that should have been encrypted are refused.
    let ssl = packet(&80_877_103u32.to_be_bytes());
    let said = answer(&door, &[ssl.clone(), startup(V3, &[("user", "a")])].concat());
    assert!(error(&said).contains("unencrypted data"), "{said:?}");
    assert_eq!(door.run(&["select 'lives'"]).ok(), "lives");
}

/// A session at the unix socket: reads up to ReadyForQuery.
fn log_in(door: &SqlDoor, version: u32, more: &[(&str, &str)]) -> (UnixStream, Vec<(u8, Vec<u8>)>) {
    let mut stream = UnixStream::connect(door.daemon.data().join(".s.PGSQL.5433")).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let user = paceline_tests::postgres::user();
    let parameters = [&[("user", &*user), ("database", "app")][..], more].concat();
    stream.write_all(&startup(version, &parameters)).unwrap();
    let found = read_to_ready(&mut stream);
    (stream, found)
}

fn read_to_ready(stream: &mut UnixStream) -> Vec<(u8, Vec<u8>)> {
    let mut found = vec![];
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let mut body =
            vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
        stream.read_exact(&mut body).unwrap();
        let is_last = matches!(head[0], b'Z' | b'E');
        found.push((head[0], body));
        if is_last {
            return found;
        }
    }
}

fn body_of(found: &[(u8, Vec<u8>)], kind: u8) -> &[u8] {
    &found.iter().find(|(own, _)| *own == kind).unwrap_or_else(|| panic!("{found:?}")).1
}

#[test]
fn versions_and_options_are_negotiated_d3() {
    let door = SqlDoor::start("", "");
    let (_old, found) = log_in(&door, V3, &[]);
    assert_eq!(body_of(&found, b'K').len(), 4 + 4);
    assert!(found.iter().all(|(kind, _)| *kind != b'v'), "{found:?}");
    let (_new, found) = log_in(&door, V3 | 2, &[]);
    assert_eq!(body_of(&found, b'K').len(), 4 + 32, "protocol 3.2 has long keys");
    let (_later, found) = log_in(&door, V3 | 9_999, &[("_pq_.x", "1")]);
    assert_eq!(
        body_of(&found, b'v'),
        [&(V3 | 2).to_be_bytes()[..], &[0, 0, 0, 1], b"_pq_.x\0"].concat()
    );
    // Parameters as a server reports them, and a value that it refuses.
    let (_set, found) =
        log_in(&door, V3, &[("client_encoding", "latin1"), ("application_name", "a b")]);
    let reported: Vec<&[u8]> =
        found.iter().filter(|(kind, _)| *kind == b'S').map(|(_, body)| &body[..]).collect();
    assert!(reported.contains(&&b"client_encoding\0LATIN1\0"[..]), "{found:?}");
    assert!(reported.contains(&&b"application_name\0a b\0"[..]), "{found:?}");
    let (_wrong, found) = log_in(&door, V3, &[("client_encoding", "klingon")]);
    let (kind, body) = found.last().unwrap();
    assert!(*kind == b'E' && String::from_utf8_lossy(body).contains("C22023"), "{found:?}");
}

/// Messages that a client may not send, or that are too long, end its own connection only.
#[test]
fn malformed_messages_end_their_connection_only_d4() {
    let door = SqlDoor::start("", "");
    for bytes in [
        &b"?\0\0\0\x04"[..],
        b"Q\0\0\0\x03",
        b"S\0\0\xff\xff",
        b"Q\x7f\xff\xff\xff",
        b"p\0\0\0\x08pass",
    ] {
        let (mut stream, _) = log_in(&door, V3, &[]);
        stream.write_all(bytes).unwrap();
        let mut rest = vec![];
        stream.read_to_end(&mut rest).unwrap();
        assert!(error(&rest).contains("C08P01"), "{bytes:?}");
    }
    // A malformed body within a known message is an error of its batch.
    let (mut stream, _) = log_in(&door, V3, &[]);
    stream.write_all(b"Q\0\0\0\x06ab").unwrap();
    let mut rest = vec![];
    stream.read_to_end(&mut rest).unwrap();
    assert!(error(&rest).contains("C08P01"), "{rest:?}");
    assert_eq!(door.run(&["select 'lives'"]).ok(), "lives");
}

/// A Query whose text is long is gathered and served; a longer one than rules can read is refused.
#[test]
fn long_statements_are_served_up_to_their_limit() {
    let door = SqlDoor::start("", "");
    let text = |len: usize| format!("select length('{}')", "x".repeat(len));
    let file = door.scratch.write("long.sql", &(text(900_000) + ";\n"));
    let said =
        paceline_tests::postgres::Said::of(&door.psql().arg("-f").arg(file).output().unwrap());
    assert_eq!(said.ok(), "900000");
    let file = door.scratch.write("longer.sql", &(text(1_100_000) + ";\nselect 'lives';\n"));
    let said =
        paceline_tests::postgres::Said::of(&door.psql().arg("-f").arg(file).output().unwrap());
    assert!(said.err.contains("54000") && said.out == "lives", "{said:?}");
}
