//! The first packets: their forms, their limits, and what is refused.

use super::super::SqlState;
use super::{
    CANCEL_KEY_BYTES_MAX, CANCEL_KEY_BYTES_MIN, CancelKey, PACKET_BYTES_MAX, Packet, Startup,
    StartupError, Version, read, write_cancel, write_gss_request, write_ssl_request, write_startup,
};

fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    let length = 8 + body.len() as u32;
    [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
}

fn startup(body: &[u8]) -> Vec<u8> {
    packet(Version::V3_0.number(), body)
}

/// Checks that `bytes` are one packet, that no shorter beginning is one, and that what follows is not touched.
fn check(bytes: &[u8], expected: Packet<'_>) {
    assert_eq!(read(bytes), Ok(Some((expected, bytes.len()))));
    for len in 0..bytes.len() {
        assert_eq!(read(&bytes[..len]), Ok(None), "{len}");
    }
    let more = [bytes, b"Q\0\0"].concat();
    match expected {
        Packet::SslRequest | Packet::GssRequest => {
            assert_eq!(read(&more), Err(StartupError::Unencrypted));
        }
        _ => assert_eq!(read(&more), Ok(Some((expected, bytes.len())))),
    }
}

fn read_startup(bytes: &[u8]) -> Startup<'_> {
    match read(bytes) {
        Ok(Some((Packet::Startup(startup), len))) if len == bytes.len() => startup,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_are_read_as_they_were_written_and_clear_text_behind_them_is_refused() {
    let mut out = vec![];
    write_ssl_request(&mut out);
    assert_eq!(out, b"\0\0\0\x08\x04\xd2\x16\x2f");
    check(&out, Packet::SslRequest);
    out.clear();
    write_gss_request(&mut out);
    assert_eq!(out, b"\0\0\0\x08\x04\xd2\x16\x30");
    check(&out, Packet::GssRequest);
    for key in [&[7; CANCEL_KEY_BYTES_MIN][..], &[8; 32], &[9; CANCEL_KEY_BYTES_MAX]] {
        out.clear();
        let cancel = CancelKey { process: 0x8001_0203, key };
        write_cancel(&mut out, cancel);
        check(&out, Packet::Cancel(cancel));
        let shown = format!("CancelKey(2147549699, {} bytes)", key.len());
        assert_eq!(format!("{cancel:?}"), shown, "without the secret");
    }
}

#[test]
fn startup_messages_are_read_as_they_were_written() {
    let pairs: [(&[u8], &[u8]); 4] =
        [(b"user", b"ann"), (b"database", b"app"), (b"application_name", b"\xff"), (b"x", b"")];
    let mut out = vec![];
    write_startup(&mut out, Version::V3_2, pairs);
    let startup = read_startup(&out);
    check(&out, Packet::Startup(startup));
    assert_eq!((startup.user, startup.database), ("ann", "app"));
    assert_eq!(startup.version, Version::V3_2);
    assert_eq!(startup.parameters.iter().collect::<Vec<_>>(), pairs);
    assert_eq!(startup.parameters.value("application_name"), Some(&b"\xff"[..]));
    assert_eq!(startup.parameters.value("x"), Some(&b""[..]));
    assert_eq!(startup.parameters.value("y"), None);
    // Names and values cannot end the list or begin another parameter.
    out.clear();
    let pairs: [(&[u8], &[u8]); 3] = [(b"", b"x"), (b"\0", b"x"), (b"us\0er", b"a\0n\0n")];
    write_startup(&mut out, Version::V3_0, pairs);
    assert_eq!(out, packet(0x3_0000, b"user\0ann\0\0"));
}

#[test]
fn the_database_is_that_of_the_user_unless_named_and_the_last_value_counts() {
    for (body, user, database) in [
        (&b"user\0ann\0\0"[..], "ann", "ann"),
        (b"user\0ann\0database\0\0\0", "ann", "ann"),
        (b"database\0app\0user\0ann\0\0", "ann", "app"),
        (b"user\0ann\0user\0bob\0database\0a\0database\0b\0\0", "bob", "b"),
    ] {
        let bytes = startup(body);
        let startup = read_startup(&bytes);
        assert_eq!((startup.user, startup.database), (user, database));
        assert!(!startup.needs_negotiation());
    }
}

#[test]
fn the_length_is_limited_d3() {
    for length in [0, 1, 4, 7, PACKET_BYTES_MAX as u32 + 5, 1 << 31, u32::MAX] {
        let error = Err(StartupError::Length(length));
        assert_eq!(read(&length.to_be_bytes()), error, "{length} before anything else arrives");
    }
    let user = b"user\0ann\0x\0";
    // The code, the parameters, the NUL of the value and the NUL of the list.
    let value = vec![b'x'; PACKET_BYTES_MAX - 4 - user.len() - 2];
    let longest = startup(&[user, &value[..], b"\0\0"].concat());
    assert_eq!(longest.len(), PACKET_BYTES_MAX + 4);
    assert_eq!(read_startup(&longest).parameters.value("x"), Some(&value[..]));
    let longer = startup(&[user, &value[..], b"x\0\0"].concat());
    assert_eq!(read(&longer), Err(StartupError::Length(PACKET_BYTES_MAX as u32 + 5)));
}

#[test]
fn invalid_packets_are_refused() {
    let cancel = super::CANCEL_REQUEST;
    let cases = [
        (packet(super::SSL_REQUEST, b"x"), StartupError::Length(9)),
        (packet(super::GSSENC_REQUEST, b"user"), StartupError::Length(12)),
        (packet(cancel, b""), StartupError::Length(8)),
        (packet(cancel, &[0; 3]), StartupError::Length(11)),
        (packet(cancel, &[0; 4 + CANCEL_KEY_BYTES_MIN - 1]), StartupError::CancelKey(3)),
        (packet(cancel, &[0; 4 + CANCEL_KEY_BYTES_MAX + 1]), StartupError::CancelKey(257)),
        (startup(b""), StartupError::Layout),
        (startup(b"user\0ann\0"), StartupError::Layout),
        (startup(b"user\0ann"), StartupError::Layout),
        (startup(b"user\0\0"), StartupError::Layout),
        (startup(b"user\0"), StartupError::Layout),
        (startup(b"user\0ann\0\0\0"), StartupError::Layout),
        (startup(b"user\0ann\0\0x\0y\0\0"), StartupError::Layout),
        (startup(b"user\0ann\0x"), StartupError::Layout),
        (startup(b"\0"), StartupError::NoUser),
        (startup(b"user\0\0\0"), StartupError::NoUser),
        (startup(b"USER\0ann\0\0"), StartupError::NoUser),
        (startup(b"user\0\xff\0\0"), StartupError::NotUtf8("user")),
        (startup(b"user\0ann\0database\0\xc3\0\0"), StartupError::NotUtf8("database")),
    ];
    for (bytes, error) in cases {
        assert_eq!(read(&bytes), Err(error), "{bytes:?}");
    }
}

#[test]
fn bytes_of_other_protocols_are_refused_at_once() {
    let length = u32::from_be_bytes(*b"GET ");
    assert_eq!(read(b"GET / HTTP/1.1\r\n\r\n"), Err(StartupError::Length(length)));
    assert_eq!(read(b"\x16"), Ok(Some((Packet::Tls, 0))));
    assert_eq!(read(b"\x16\x03\x01\x02\x00\x01"), Ok(Some((Packet::Tls, 0))));
    assert_eq!(read(b"\x15\x03\x01\x02"), Err(StartupError::Length(0x1503_0102)));
}

#[test]
fn versions_are_negotiated_or_refused() {
    let negotiated = [
        (0x3_0000, Version::V3_0, false),
        (0x3_0001, Version::V3_0, true),
        (0x3_0002, Version::V3_2, false),
        (0x3_0003, Version::V3_2, true),
        (3 << 16 | 9_999, Version::V3_2, true),
        (0x3_ffff, Version::V3_2, true),
    ];
    for (number, agreed, differs) in negotiated {
        let bytes = packet(number, b"user\0ann\0\0");
        let startup = read_startup(&bytes);
        assert_eq!(startup.version.number(), number);
        assert_eq!(startup.version.agreed(), agreed);
        assert_eq!(startup.needs_negotiation(), differs);
    }
    for number in [0, 0x2_0000, 0x4_0000, 1_234 << 16 | 5_681, 1_234 << 16, u32::MAX] {
        // What follows is not read, because another version may have another form.
        let bytes = packet(number, b"anything");
        let error = StartupError::Version(Version::of_number(number));
        assert_eq!(read(&bytes), Err(error));
        assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED);
    }
    assert_eq!(
        StartupError::Version(Version { major: 4, minor: 0 }).to_string(),
        "unsupported protocol version 4.0: this server supports 3.0 to 3.2"
    );
}

#[test]
fn options_of_the_protocol_are_listed_as_unsupported() {
    let bytes = startup(b"_pq_.a\x001\0user\0ann\0_pq_\0x\0_pq_.b\0\0\0");
    let startup = read_startup(&bytes);
    assert_eq!(startup.unsupported_options().collect::<Vec<_>>(), [&b"_pq_.a"[..], b"_pq_.b"]);
    assert!(startup.needs_negotiation());
}

#[test]
fn replication_is_refused_by_its_value() {
    let read_with = |value: &str| {
        let bytes = startup(format!("user\0ann\0replication\0{value}\0\0").as_bytes());
        read(&bytes).map(|packet| assert!(packet.is_some()))
    };
    for value in ["false", "FALSE", "f", "fal", "no", "n", "off", "of", "0"] {
        assert_eq!(read_with(value), Ok(()), "{value}");
    }
    for value in ["true", "database", "on", "1", "yes", "o", "", "falsee", "00", "x"] {
        assert_eq!(read_with(value), Err(StartupError::Replication), "{value}");
    }
}
