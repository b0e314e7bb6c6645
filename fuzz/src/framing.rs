//! The framer: the same bytes give the same messages however they arrive, and the memory for an unfinished message is
//! bounded (promise D1).

use crate::schema::check_text;
use crate::wire::{Framer, Message};
use paceline_types::limits::{FRAME_BYTES_MAX, JSON_DEPTH_MAX_OVSDB};

/// Maxima that inputs reach easily, and the maxima of the door.
const LIMITS: [(usize, usize); 3] = [(32, 4), (300, 16), (FRAME_BYTES_MAX, JSON_DEPTH_MAX_OVSDB)];

/// The result of a stream.
#[derive(Debug, PartialEq)]
struct Seen {
    messages: Vec<Vec<u8>>,
    /// Which error is reported may depend on the pieces, because the framer reports the first one that it finds.
    failed: bool,
    partial: bool,
}

/// Feeds `data` whole, byte by byte and in uneven pieces, and parses the messages.
pub fn check(data: &[u8]) {
    for (bytes_max, depth_max) in LIMITS {
        let whole = feed(data, bytes_max, depth_max, &mut |rest| rest);
        let single = feed(data, bytes_max, depth_max, &mut |_| 1);
        assert_eq!(whole, single, "byte by byte");
        let mut state = data.len() as u64;
        let uneven = feed(data, bytes_max, depth_max, &mut |rest| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1 + (state >> 33) as usize % rest.min(40)
        });
        assert_eq!(whole, uneven, "in uneven pieces");
        for message in &whole.messages {
            assert!(message.len() <= bytes_max);
            parse(message, depth_max);
        }
    }
    stops_when_told(data);
}

fn feed(
    data: &[u8],
    bytes_max: usize,
    depth_max: usize,
    piece: &mut dyn FnMut(usize) -> usize,
) -> Seen {
    let mut framer = Framer::new(bytes_max, depth_max);
    let mut seen = Seen { messages: Vec::new(), failed: false, partial: false };
    let (mut at, mut told) = (0, 0);
    while at < data.len() && !seen.failed {
        let end = at + piece(data.len() - at);
        let fed = framer.feed(&data[at..end], |message| {
            told = skip_space(data, told);
            assert!(data[told..end].starts_with(&message), "a message is a part of the stream");
            told += message.len();
            seen.messages.push(message.to_vec());
            true
        });
        at = end;
        seen.failed = fed.is_err();
        if !seen.failed {
            let kept = skip_space(&data[..at], told)..at;
            assert!(kept.len() <= bytes_max, "an unfinished message is bounded");
            assert_eq!(framer.is_partial(), !kept.is_empty());
        }
    }
    seen.partial = !seen.failed && framer.is_partial();
    seen
}

fn skip_space(data: &[u8], from: usize) -> usize {
    from + data[from..].iter().take_while(|c| c.is_ascii_whitespace()).count()
}

/// The framer returns no further message in a call after `each` has returned false.
fn stops_when_told(data: &[u8]) {
    let mut count = 0;
    let mut framer = Framer::new(FRAME_BYTES_MAX, JSON_DEPTH_MAX_OVSDB);
    let taken = framer.feed(data, |_| {
        count += 1;
        count < 2
    });
    assert!(count <= 2);
    if let Ok(taken) = taken {
        assert!(taken <= data.len());
        assert!(count == 2 || taken == data.len(), "what is not taken is behind the last message");
    }
}

fn parse(message: &[u8], depth_max: usize) {
    match Message::parse(message, depth_max) {
        Ok(Message::Request { id, params, .. }) => {
            check_text(&id, depth_max);
            assert!(params.iter().all(|param| param.memory() > 0));
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    check_text(message, depth_max);
}
