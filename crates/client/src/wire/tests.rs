//! Answers of servers, well-formed and malformed, whole and byte by byte.

use super::{Body, FIELDS_MAX, HEAD_BYTES_MAX, Message, head, segment};
use crate::request::Method;

/// Status, body and whether the connection is kept, of an answer that arrives `step` bytes at a time.
fn read(answer: &[u8], step: usize) -> Result<(u16, Vec<u8>, bool), &'static str> {
    let (mut seen, mut rest) = (0, answer);
    let mut found = None;
    while found.is_none() {
        seen = (seen + step).min(answer.len());
        found = head(&answer[..seen]).map_err(|error| error.0)?;
        assert!(found.is_some() || seen < answer.len(), "the head has no end");
    }
    let (mut head, length) = found.unwrap();
    rest = &rest[length..];
    let (mut body, mut given) = (vec![], 0);
    while head.body != Body::Done && given < rest.len() {
        given = (given + step).min(rest.len());
        let used = head.body.take(&rest[..given], &mut body).map_err(|error| error.0)?;
        rest = &rest[used..];
        given -= used;
    }
    if head.body == Body::ToEnd || head.body == Body::Done {
        return Ok((head.status, body, head.keeps));
    }
    Err("more is to come")
}

fn check(answer: &str, expected: Result<(u16, &str, bool), &str>) {
    for step in [1, 2, 3, 7, 10_000] {
        let found = read(answer.as_bytes(), step);
        let found = found
            .as_ref()
            .map(|(status, body, keeps)| (*status, std::str::from_utf8(body).unwrap(), *keeps))
            .map_err(|error| *error);
        assert_eq!(found, expected, "{step} bytes at a time: {answer:?}");
    }
}

#[test]
fn bodies_by_length_by_chunks_and_to_the_end() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", Ok((200, "{}", true)));
    check("HTTP/1.1 204 No Content\r\n\r\n", Ok((204, "", true)));
    check(
        "HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 0\r\n\r\n",
        Ok((200, "", false)),
    );
    check("HTTP/1.0 200 OK\r\n\r\nabc", Ok((200, "abc", false)));
    check(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nab\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
        Ok((200, "ab0123456789", true)),
    );
}

#[test]
fn what_is_not_an_answer_is_an_error() {
    let bad_size = Err("a chunk of the answer has no valid size");
    check("SSH-2.0-OpenSSH_9.2\r\n\r\n", Err("the answer is not HTTP/1.1"));
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        Err("the answer has two lengths"),
    );
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",
        Err("the length of the answer is not a number"),
    );
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
        Err("the answer has a length and a transfer coding"),
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\na",
        Err("the answer has an unknown transfer coding"),
    );
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", bad_size);
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", bad_size);
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        Err("a chunk of the answer has no end"),
    );
}

#[test]
fn a_head_and_its_fields_have_a_maximum() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
    assert_eq!(head(long.as_bytes()).unwrap_err().0, "the head of the answer is too long");
    let fields = |count| format!("HTTP/1.1 204 N\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert!(head(fields(FIELDS_MAX).as_bytes()).unwrap().is_some());
    assert!(head(fields(FIELDS_MAX + 1).as_bytes()).is_err());
}

#[test]
fn lines_around_chunks_have_a_maximum() {
    let start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let long = "x".repeat(super::CHUNK_LINE_BYTES_MAX);
    assert!(read(format!("{start}1;{long}").as_bytes(), 10_000).is_err());
    let trailer = format!("{start}0\r\nX: {long}");
    let too_long = "a line after the answer's body is too long";
    assert_eq!(read(trailer.as_bytes(), 10_000).unwrap_err(), too_long);
    let lines = "X: y\r\n".repeat(super::TRAILER_LINES_MAX + 1);
    let many = read(format!("{start}0\r\n{lines}\r\n").as_bytes(), 10_000);
    assert_eq!(many.unwrap_err(), "the answer has too many lines after its body");
}

#[test]
fn a_request_is_one_request() {
    let bytes = Message::new(Method::Put, "/v1/locks/a", b"{}").bytes("paceline", Some("t"));
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "PUT /v1/locks/a HTTP/1.1\r\nHost: paceline\r\nAuthorization: Bearer t\r\n\
         Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    );
    let bytes = Message::new(Method::Get, "/healthz", b"").bytes("paceline", None);
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "GET /healthz HTTP/1.1\r\nHost: paceline\r\n\r\n"
    );
}

#[test]
fn names_cannot_leave_their_part_of_a_path() {
    for (name, expected) in [
        ("disk:/dev/da0", "disk%3A%2Fdev%2Fda0"),
        ("..", "%2E%2E"),
        ("a.b", "a.b"),
        ("a b\r\nX: y?#%", "a%20b%0D%0AX%3A%20y%3F%23%25"),
        ("ä", "%C3%A4"),
    ] {
        assert_eq!(segment(name), expected);
    }
}
