//! Tests which heads are accepted and which are refused, from RFC 9112 and the promises H1 and D2.

use super::{Framing, HeadError, RequestHead, check_beginning, head_end};
use crate::limits::{FIELDS_MAX, HEAD_BYTES_MAX, TARGET_BYTES_MAX};

fn read(text: &str) -> Result<RequestHead, HeadError> {
    let bytes = text.as_bytes();
    let mut scanned = 0;
    let end = head_end(bytes, &mut scanned)?.expect("the head is whole");
    let mut head = RequestHead::default();
    head.read(&bytes[..end])?;
    Ok(head)
}

/// A head with these lines after `Host`.
fn with(lines: &str) -> Result<RequestHead, HeadError> {
    read(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

#[test]
fn framing_is_what_the_fields_say() {
    for (lines, framing) in [
        ("", Framing::None),
        ("Content-Length: 0\r\n", Framing::None),
        ("content-length:5\r\n", Framing::Length(5)),
        ("Content-Length: \t5 \r\n", Framing::Length(5)),
        ("Transfer-Encoding: Chunked\r\n", Framing::Chunked),
    ] {
        assert_eq!(with(lines).unwrap().framing, framing, "{lines}");
    }
}

#[test]
fn ambiguous_heads_are_refused_h1() {
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: \r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding:\u{b}chunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding\t: chunked\r\n",
        "Host: b\r\n",
        " X: folded\r\n",
        "X: a\r\n\tfolded\r\n",
        "X: a\rb\r\n",
        "X: a\0b\r\n",
        "X: a\u{1}b\r\n",
        "X: a\u{7f}b\r\n",
        "X\r\n",
        ": a\r\n",
        "X Y: a\r\n",
        "X(: a\r\n",
    ] {
        let error = with(lines).unwrap_err();
        assert!(matches!(error, HeadError::Bad(_)), "{lines:?}: {error:?}");
    }
    for text in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: u@b\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "GET / HTTP/0.9\r\nHost: a\r\n\r\n",
        "GET /\r\nHost: a\r\n\r\n",
        "GET\r\nHost: a\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let error = read(text).unwrap_err();
        assert!(matches!(error, HeadError::Bad(_)), "{text:?}: {error:?}");
    }
}

#[test]
fn what_a_connection_does_next() {
    for (text, keeps) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true),
    ] {
        assert_eq!(read(text).unwrap().keeps, keeps, "{text}");
    }
    let upgrade = with("Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n").unwrap();
    assert!(upgrade.upgrade.is_some());
    assert!(with("Upgrade: websocket\r\n").unwrap().upgrade.is_none(), "without the option");
    assert!(with("Connection: upgrade\r\n").unwrap().upgrade.is_none());
}

#[test]
fn connection_has_a_maximum_of_options_d2() {
    let options = |count: usize| with(&format!("Connection: {}\r\n", vec!["x"; count].join(",")));
    assert!(options(crate::limits::OPTIONS_MAX).is_ok());
    let error = options(crate::limits::OPTIONS_MAX + 1).unwrap_err();
    assert!(matches!(error, HeadError::Bad(_)), "{error:?}");
}

#[test]
fn expectations() {
    assert!(with("Expect: 100-Continue\r\nContent-Length: 5\r\n").unwrap().expects);
    assert!(!with("Expect: 100-continue\r\n").unwrap().expects, "nothing is to come");
    assert_eq!(with("Expect: a-cake\r\n").unwrap_err(), HeadError::Expectation);
    let connect = read("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(connect.unwrap_err(), HeadError::Connect);
}

#[test]
fn the_target_says_the_host_before_the_field_does() {
    let text = "GET http://b:81/x HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = read(text).unwrap();
    assert_eq!(head.target.authority(text.as_bytes()), b"b:81");
    let text = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(read(text).unwrap().target.authority(text.as_bytes()), b"a");
}

#[test]
fn lengths_have_a_maximum_d2() {
    let target = |len: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(len - 1));
    assert!(read(&target(TARGET_BYTES_MAX)).is_ok());
    assert_eq!(read(&target(TARGET_BYTES_MAX + 1)).unwrap_err(), HeadError::TargetTooLong);
    let fields = |count: usize| with(&"x: y\r\n".repeat(count - 1));
    assert!(fields(FIELDS_MAX).is_ok());
    assert_eq!(fields(FIELDS_MAX + 1).unwrap_err(), HeadError::TooLong);
    let around = "POST / HTTP/1.1\r\nHost: a\r\nx: \r\n\r\n".len();
    let long = |len: usize| with(&format!("x: {}\r\n", "y".repeat(len - around)));
    assert!(long(HEAD_BYTES_MAX).is_ok());
    assert_eq!(long(HEAD_BYTES_MAX + 1).unwrap_err(), HeadError::TooLong);
    let endless = vec![b'a'; HEAD_BYTES_MAX];
    assert_eq!(head_end(&endless, &mut 0), Err(HeadError::TargetTooLong), "no line end at all");
}

/// The end is found however the head is split, and each byte is examined once.
#[test]
fn the_end_of_a_head_is_found_in_pieces() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
    let mut scanned = 0;
    for len in 0..text.len() {
        let found = head_end(&text[..len], &mut scanned).unwrap();
        assert_eq!(found.is_some(), len >= text.len() - 4, "{len}");
        if found.is_some() {
            assert_eq!(found, Some(text.len() - 4));
            break;
        }
    }
}

#[test]
fn another_protocol_is_known_by_its_first_bytes_d4() {
    let begun = ["", "\r", "G", "GET", "GET ", "GET /x HTTP", "get-it_now! /", "PRI * HTTP/2.0"];
    let whole = ["GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost", "PRI * HTTP/2.0\r\n"];
    for good in begun.into_iter().chain(whole) {
        assert_eq!(check_beginning(good.as_bytes()), Ok(()), "{good:?}");
    }
    let long = "X".repeat(33);
    let other = ["\x16\x03\x01\x02\0", "\0", " GET", "\r\r", "\n", "SSH(2)", "EHLO\r\n", &long];
    // A complete line without a version is not HTTP/1, whatever follows.
    let lines = ["EHLO a\r\n", "GET /\r\n", "USER a b c\r\nHTTP/1.1", "GET / http/1.1\r\n"];
    for bad in other.into_iter().chain(lines) {
        assert!(check_beginning(bad.as_bytes()).is_err(), "{bad:?}");
    }
}
