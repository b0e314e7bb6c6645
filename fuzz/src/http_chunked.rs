//! Chunked bodies: the same bytes give the same data however they arrive, and a body that was written anew decodes to
//! the same data.

use crate::http_wire::{Decoder, Encoder, Framing, write_trailers};

/// The result of a body.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    data: Vec<u8>,
    trailers: Vec<u8>,
    /// How many bytes were read, once the body is complete.
    read: Option<usize>,
    has_failed: bool,
}

/// Reads `data` whole, byte by byte and in uneven pieces, and writes it anew.
pub fn check(data: &[u8]) {
    let whole = read(data, &mut |rest| rest);
    assert_eq!(whole, read(data, &mut |_| 1), "byte by byte");
    let mut state = data.len() as u64;
    let uneven = read(data, &mut |rest| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (state >> 33) as usize % rest.min(40)
    });
    assert_eq!(whole, uneven, "in uneven pieces");
    assert!(whole.data.len() <= data.len());
    let mut trailers = Vec::new();
    if whole.read.is_none() || write_trailers(&whole.trailers, &mut trailers).is_err() {
        return;
    }
    let (encoder, mut out) = (Encoder::new(Framing::Chunked), Vec::new());
    for piece in whole.data.chunks(1 + data.len() % 50) {
        encoder.write(piece, &mut out);
    }
    encoder.finish(&trailers, &mut out);
    let again = read(&out, &mut |rest| rest);
    let read = Some(out.len());
    assert_eq!(again, Seen { data: whole.data, trailers, read, has_failed: false });
}

fn read(data: &[u8], piece: &mut dyn FnMut(usize) -> usize) -> Seen {
    let (mut decoder, mut seen, mut at) = (Decoder::new(Framing::Chunked), Seen::default(), 0);
    while at < data.len() && !decoder.is_done() && !seen.has_failed {
        let end = at + piece(data.len() - at);
        while at < end && !decoder.is_done() {
            let Ok(progress) = decoder.read(&data[at..end]) else {
                seen.has_failed = true;
                break;
            };
            assert!(progress.read > 0, "it goes on");
            seen.data.extend_from_slice(&data[at..end][progress.data]);
            at += progress.read;
        }
    }
    if decoder.is_done() {
        seen.read = Some(at);
        seen.trailers = decoder.trailers().to_vec();
    }
    assert_eq!(decoder.end(), seen.read.is_some(), "the end of the connection ends no chunks");
    seen
}
