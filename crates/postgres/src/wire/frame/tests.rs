//! The frame of every kind on every side, at its limits and one beyond.

use super::super::SqlState;
use super::super::kind::{Kinds, client_name, server_name};
use super::{
    FrameError, HEAD_BYTES, Head, LENGTH_MAX, LOGIN_LENGTH_MAX, SERVER_LENGTH_MAX,
    SERVER_SMALL_LENGTH_MAX, SMALL_LENGTH_MAX, Side, Walk,
};

fn head(kind: u8, length: u32) -> [u8; HEAD_BYTES] {
    let [a, b, c, d] = length.to_be_bytes();
    [kind, a, b, c, d]
}

/// Checks that exactly `kinds` may be sent, with lengths from 4 to `max`.
fn check(side: Side, kinds: &[u8], max: u32) {
    for &kind in kinds {
        for length in [4, 5, max - 1, max] {
            let expected = Head { kind, body_len: length - 4 };
            assert_eq!(side.head(&head(kind, length)), Ok(Some(expected)), "{kind} {length}");
        }
        let mut wrong = vec![0, 1, 3, max + 1, 1 << 31, u32::MAX];
        wrong.dedup();
        for length in wrong {
            let error = side.head(&head(kind, length)).unwrap_err();
            assert!(matches!(error, FrameError::Length { .. }), "{kind} {length}: {error}");
            assert!(error.to_string().contains(&length.to_string()), "{error}");
            assert_eq!(error.state(), SqlState::PROTOCOL_VIOLATION);
        }
    }
}

#[test]
fn every_kind_is_limited_d3() {
    check(Side::LOGIN, b"p", LOGIN_LENGTH_MAX);
    check(Side::client(LENGTH_MAX), b"CDEHSXcf", SMALL_LENGTH_MAX);
    check(Side::client(LENGTH_MAX), b"QPBdF", LENGTH_MAX);
    check(Side::client(100_000), b"QPBdF", 100_000);
    check(Side::client(100_000), b"CDEHSXcf", SMALL_LENGTH_MAX);
    // The caller's maximum neither goes below the small messages nor beyond what servers take.
    check(Side::client(5), b"QPBdFCDEHSXcf", SMALL_LENGTH_MAX);
    check(Side::client(u32::MAX), b"QPBdF", LENGTH_MAX);
    check(Side::SERVER, b"RKSZC123nsIGHWcv", SERVER_SMALL_LENGTH_MAX);
    check(Side::SERVER, b"TDtENdVA", SERVER_LENGTH_MAX);
}

#[test]
fn kinds_of_the_other_side_and_unknown_ones_are_refused_by_their_first_byte() {
    let sides: [(Side, &[u8]); 3] = [
        (Side::LOGIN, b"p"),
        (Side::client(LENGTH_MAX), b"QPBdFCDEHSXcf"),
        (Side::SERVER, b"RKSZC123nsIGHWcvTDtENdVA"),
    ];
    for (side, kinds) in sides {
        for kind in 0..=255 {
            let is_known = kinds.contains(&kind);
            let bytes = head(kind, 4);
            assert_eq!(side.head(&bytes).is_ok(), is_known, "{kind}");
            for len in 1..HEAD_BYTES {
                assert_eq!(side.head(&bytes[..len]).is_ok(), is_known, "{kind} {len}");
            }
            assert!(!is_known || matches!(side.head(&bytes[..4]), Ok(None)));
            let names = if side.is_server { server_name } else { client_name };
            assert!(!is_known || names(kind).is_some(), "{kind} has a name");
        }
        assert_eq!(side.head(b""), Ok(None));
    }
}

#[test]
fn errors_name_the_message_and_the_side() {
    let client = Side::client(LENGTH_MAX);
    let text = |side: Side, bytes: &[u8]| side.head(bytes).unwrap_err().to_string();
    assert_eq!(text(client, b"G"), "unknown kind 0x47 of a message from the client");
    assert_eq!(text(client, b"p"), "unexpected password message from the client");
    assert_eq!(text(Side::LOGIN, b"Q"), "unexpected Query message from the client");
    assert_eq!(text(Side::SERVER, b"Q"), "unknown kind 0x51 of a message from the server");
    assert_eq!(
        text(client, &head(b'S', 3)),
        "invalid length 3 of a Sync message: it must be 4 to 10000"
    );
}

#[test]
fn a_walk_stops_at_the_first_message_that_is_not_complete() {
    let bytes = b"D\0\0\0\x06abD\0\0\0\x04C\0\0\0\x05\0D\0\0\0\x08ab";
    let mut walk = Walk::new(Side::SERVER, bytes);
    let rows = Kinds::of(b"D");
    assert_eq!((walk.skip(&rows), walk.at()), (Ok(2), 12));
    assert_eq!((walk.skip(&rows), walk.at()), (Ok(0), 12));
    let framed = walk.step().unwrap().unwrap();
    assert_eq!((framed.kind, framed.body(), walk.at()), (b'C', &b"\0"[..], 18));
    assert_eq!((walk.skip(&rows), walk.step()), (Ok(0), Ok(None)));
    // What is known of the last one is enough to relay it as it arrives.
    let head = walk.head().unwrap().unwrap();
    assert_eq!((head.kind, head.body_len, head.total()), (b'D', 4, 9));
    assert_eq!(head.total() - walk.rest().len(), 2, "bytes are missing");
}

#[test]
fn a_walk_reports_a_wrong_message_only_when_it_comes_to_it() {
    let mut walk = Walk::new(Side::SERVER, b"Z\0\0\0\x05IZ\0\0\0\x03");
    assert!(walk.step().unwrap().is_some());
    let error = walk.step().unwrap_err();
    assert_eq!(walk.head(), Err(error));
    assert_eq!(walk.skip(&Kinds::of(b"Z")), Err(error));
    assert_eq!(walk.at(), 6);
}
