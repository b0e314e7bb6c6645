//! The head of a response: a head that is accepted and written anew has the same status and the same end of the body,
//! for clients of both versions. The first byte selects the method and the version.

use crate::http_wire::{Framing, ResponseHead, ResponseWriter, head_end};
use crate::limits::{FIELDS_MAX, HEAD_BYTES_MAX};

/// Parses `data` as a head, writes it anew, and parses the result.
pub fn check(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let (is_head, is_11) = (first & 1 != 0, first & 2 == 0);
    let Ok(Some(end)) = head_end(data, &mut 0) else { return };
    let bytes = &data[..end];
    let mut head = ResponseHead::default();
    if head.read(bytes, is_head).is_err() {
        return;
    }
    assert!((100..1_000).contains(&head.status));
    assert!(!head.keeps || head.framing != Framing::Close, "such a connection has to end");
    let writer = ResponseWriter { head: &head, bytes, is_11, keeps: is_11, upgrades: false };
    let mut out = Vec::new();
    writer.write(&mut out);
    if out.len() >= HEAD_BYTES_MAX || head.fields.iter().count() + 2 > FIELDS_MAX {
        return;
    }
    assert_eq!(head_end(&out, &mut 0), Ok(Some(out.len())), "one head, no more");
    let mut again = ResponseHead::default();
    again.read(&out, is_head).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(again.status, head.status);
    assert_eq!(again.framing, writer.framing(), "the body ends where it did");
    assert_eq!(again.reason.of_bytes(&out), head.reason.of_bytes(bytes));
    // Interim responses and 204 have no length (RFC 9110 8.6).
    let has_length = head.status >= 200 && head.status != 204;
    assert_eq!(again.length, head.length.filter(|_| has_length));
}
