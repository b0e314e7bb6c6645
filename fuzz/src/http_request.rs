//! The head of a request: a head that is accepted, written anew and parsed again means the same (H1, H2, H4), and its
//! end does not depend on how it arrives.

use crate::http_wire::{Forwarded, Framing, HeadError, RequestHead, RequestWriter, head_end};
use crate::limits::{FIELDS_MAX, HEAD_BYTES_MAX, TARGET_BYTES_MAX};

/// Fields that the proxy itself adds.
const FIELDS_ADDED: usize = 6;

/// Parses `data` as a head, writes it anew, and parses the result.
pub fn check(data: &[u8]) {
    let Some(end) = end_of(data) else { return };
    let bytes = &data[..end];
    let mut head = RequestHead::default();
    if let Err(error) = head.read(bytes) {
        assert!(!error.text().is_empty());
        return;
    }
    assert!(head.is_11 || head.framing != Framing::Chunked, "HTTP/1.0 has no chunks");
    for (trusts, upgrades) in [(false, false), (false, true), (true, false)] {
        let once = written(&head, bytes, trusts, upgrades);
        let Some(again) = read_again(&head, bytes, &once) else { continue };
        assert_eq!(means(&again, &once), means(&head, bytes));
        assert_eq!(again.upgrade.is_some(), upgrades && head.upgrade.is_some());
        // For a trusted peer, the list of forwarded addresses grows with each proxy.
        if !trusts {
            let twice = written(&again, &once, trusts, upgrades);
            assert_eq!(text(&twice), text(&once), "the second writing changes nothing");
        }
    }
}

/// The end of the head, found in one piece and in several.
fn end_of(data: &[u8]) -> Option<usize> {
    let whole = head_end(data, &mut 0);
    let mut scanned = 0;
    let step = 1 + data.len() % 7;
    let mut pieces = Ok(None);
    for len in (0..=data.len()).filter(|len| len % step == 0 || *len == data.len()) {
        pieces = head_end(&data[..len], &mut scanned);
        if pieces != Ok(None) {
            break;
        }
    }
    assert_eq!(whole.is_err(), pieces.is_err(), "{whole:?} {pieces:?}");
    let end = whole.ok().flatten();
    assert_eq!(end, pieces.ok().flatten());
    end
}

fn written(head: &RequestHead, bytes: &[u8], trusts: bool, upgrades: bool) -> Vec<u8> {
    let forwarded = Forwarded { peer: "192.0.2.7", is_tls: false, trusts };
    let mut out = Vec::new();
    RequestWriter { head, bytes, forwarded, upgrades }.write(&mut out);
    out
}

/// Parses what was written; none if it only exceeds a maximum length, because lines were added.
fn read_again(head: &RequestHead, bytes: &[u8], once: &[u8]) -> Option<RequestHead> {
    let is_long = once.len() >= HEAD_BYTES_MAX
        || head.fields.iter().count() + FIELDS_ADDED > FIELDS_MAX
        || head.target.path(bytes).len() + head.target.query(bytes).len() >= TARGET_BYTES_MAX;
    let end = match head_end(once, &mut 0) {
        Err(_) if is_long => return None,
        end => end,
    };
    assert_eq!(end, Ok(Some(once.len())), "one head, no more: {}", text(once));
    let mut again = RequestHead::default();
    match again.read(once) {
        Err(HeadError::TooLong | HeadError::TargetTooLong) if is_long => None,
        read => {
            assert_eq!(read, Ok(()), "{}", text(once));
            Some(again)
        }
    }
}

/// What a head means to its readers.
fn means(head: &RequestHead, bytes: &[u8]) -> (String, String, String, String, Framing, bool) {
    (
        text(head.method(bytes)),
        text(head.target.path(bytes)),
        text(head.target.query(bytes)),
        text(head.target.authority(bytes)),
        head.framing,
        head.expects,
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
