//! Messages that arrive in pieces: the walk over them is the same wherever they are split.

use super::super::frame::{Framed, HEAD_BYTES, Head, Side, Walk};
use super::super::kind::Kinds;
use super::lots::Lots;
use super::written::{client_bytes, server_bytes};
use super::{CLIENT, made};

/// Several random messages, one after another.
fn stream(seed: u64, is_server: bool) -> Vec<u8> {
    let mut lots = Lots::new(seed);
    let mut message = || match is_server {
        true => server_bytes(&made::server(&mut lots)),
        false => client_bytes(&made::client(&mut lots)),
    };
    (0..8).flat_map(|_| message()).collect()
}

/// All messages of a buffer that has arrived whole.
fn whole(side: Side, bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut walk, mut found) = (Walk::new(side, bytes), vec![]);
    while let Some(Framed { kind, bytes }) = walk.step().unwrap() {
        found.push((kind, bytes.to_vec()));
    }
    assert_eq!(walk.at(), bytes.len());
    found
}

/// The messages of `pieces`. What a walk has not passed is kept for the next piece.
fn in_pieces(side: Side, pieces: &[&[u8]]) -> Vec<(u8, Vec<u8>)> {
    let (mut kept, mut found) = (vec![], vec![]);
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut walk = Walk::new(side, &kept);
        while let Some(Framed { kind, bytes }) = walk.step().unwrap() {
            found.push((kind, bytes.to_vec()));
        }
        let at = walk.at();
        kept.drain(..at);
    }
    assert_eq!(kept, b"");
    found
}

/// The heads of the messages in `pieces`, read by a relay that keeps no more than an incomplete head.
fn relayed(side: Side, pieces: &[&[u8]]) -> (Vec<Head>, Vec<u8>) {
    let (mut kept, mut missing, mut heads, mut out) = (vec![], 0, vec![], vec![]);
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut bytes = &kept[..];
        loop {
            let (passed, rest) = bytes.split_at(missing.min(bytes.len()));
            out.extend_from_slice(passed);
            missing -= passed.len();
            bytes = rest;
            if missing > 0 {
                break;
            }
            let Some(head) = side.head(bytes).unwrap() else { break };
            heads.push(head);
            missing = head.total();
        }
        kept = bytes.to_vec();
        assert!(kept.len() < HEAD_BYTES);
    }
    assert_eq!(missing + kept.len(), 0);
    (heads, out)
}

#[test]
fn a_stream_split_at_any_byte_is_the_same_walk() {
    for seed in 0..60 {
        for (side, is_server) in [(CLIENT, false), (Side::SERVER, true)] {
            let bytes = stream(seed, is_server);
            let expected = whole(side, &bytes);
            assert_eq!(expected.len(), 8);
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                assert_eq!(in_pieces(side, &[first, second]), expected, "seed {seed}, at {at}");
                let (heads, out) = relayed(side, &[first, second]);
                assert_eq!((heads.len(), &out), (8, &bytes), "seed {seed}, at {at}");
            }
            for len in [1, 2, 3, 7] {
                let pieces: Vec<_> = bytes.chunks(len).collect();
                assert_eq!(in_pieces(side, &pieces), expected, "seed {seed}, pieces of {len}");
                assert_eq!(relayed(side, &pieces).1, bytes, "seed {seed}, pieces of {len}");
            }
        }
    }
}

#[test]
fn a_walk_that_skips_passes_the_same_messages() {
    for seed in 0..200 {
        let bytes = stream(seed, true);
        let mut lots = Lots::new(seed);
        let plain: Vec<u8> = b"RSDCdtTEN123".iter().copied().filter(|_| lots.is_so()).collect();
        let kinds = Kinds::of(&plain);
        let cut = &bytes[..bytes.len() - lots.below(bytes.len())];
        let mut stepped = Walk::new(Side::SERVER, cut);
        let mut walk = stepped.clone();
        loop {
            let count = walk.skip(&kinds).unwrap();
            for _ in 0..count {
                let framed = stepped.step().unwrap().unwrap();
                assert!(kinds.has(framed.kind));
            }
            assert_eq!(walk.at(), stepped.at(), "seed {seed}");
            let next = walk.step().unwrap();
            assert_eq!(next, stepped.step().unwrap(), "seed {seed}");
            let Some(framed) = next else { break };
            assert!(!kinds.has(framed.kind), "seed {seed}");
        }
        assert_eq!(walk.head(), stepped.head());
    }
}
