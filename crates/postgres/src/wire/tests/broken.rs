//! Damage: what a cut, a changed byte or a wrong length leaves is refused, or is another valid message, which is then
//! the same bytes when it is written. So no damage panics (D4), and no message takes bytes of the next one.

use super::super::frame::{HEAD_BYTES, Side, Walk};
use super::lots::Lots;
use super::written::{client_bytes, server_bytes, startup_bytes};
use super::{CLIENT, ROUNDS, again, made, startup_again};

/// Random messages of both sides, each as bytes.
fn each(mut check: impl FnMut(bool, Side, Vec<u8>)) {
    for seed in 0..ROUNDS {
        let mut lots = Lots::new(seed);
        check(false, CLIENT, client_bytes(&made::client(&mut lots)));
        check(true, Side::SERVER, server_bytes(&made::server(&mut lots)));
    }
}

/// Walks over `bytes`, and checks that each message is refused or is written again as it is.
fn check(is_server: bool, side: Side, bytes: &[u8]) {
    let mut walk = Walk::new(side, bytes);
    while let Ok(Some(framed)) = walk.step() {
        if let Ok(written) = again(is_server, framed.kind, framed.body()) {
            assert_eq!(written, framed.bytes);
        }
    }
    assert!(walk.at() <= bytes.len());
}

#[test]
fn every_body_that_is_cut_off_is_refused_or_another_message_d4() {
    each(|is_server, side, bytes| {
        for len in HEAD_BYTES..bytes.len() {
            let mut cut = bytes[..len].to_vec();
            cut[1..HEAD_BYTES].copy_from_slice(&(len as u32 - 1).to_be_bytes());
            cut.extend_from_slice(&bytes);
            check(is_server, side, &cut);
        }
    });
}

#[test]
fn every_changed_byte_leaves_a_refused_or_another_message_d4() {
    each(|is_server, side, bytes| {
        let follower = bytes.clone();
        for at in 0..bytes.len() {
            for change in [0x01, 0x02, 0x20, 0x7f, 0x80, 0xff] {
                let mut changed = [&bytes[..], &follower].concat();
                changed[at] ^= change;
                check(is_server, side, &changed);
            }
        }
    });
}

#[test]
fn every_wrong_length_is_refused_or_makes_other_messages_d4() {
    each(|is_server, side, bytes| {
        let length = bytes.len() as u32 - 1;
        let edges = [i32::MAX as u32, 1 << 31, u32::MAX, 0xffff, 10_001];
        for wrong in (0..length * 2 + 8).chain(edges) {
            let mut changed = [&bytes[..], &bytes].concat();
            changed[1..HEAD_BYTES].copy_from_slice(&wrong.to_be_bytes());
            check(is_server, side, &changed);
        }
    });
}

#[test]
fn every_damaged_first_packet_is_refused_or_another_packet_d4() {
    let check = |bytes: &[u8]| {
        if let Ok(Some(written)) = startup_again(bytes) {
            assert!(bytes.starts_with(&written), "{bytes:?}");
        }
    };
    for seed in 0..ROUNDS {
        let bytes = startup_bytes(&mut Lots::new(seed));
        for at in 0..bytes.len() {
            assert_eq!(startup_again(&bytes[..at]), Ok(None), "seed {seed}: it is incomplete");
            let mut cut = bytes[..at].to_vec();
            if at >= 4 {
                cut[..4].copy_from_slice(&(at as u32).to_be_bytes());
                check(&cut);
            }
            for change in [0x01, 0x02, 0x20, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                check(&changed);
            }
        }
        for wrong in 0..bytes.len() as u32 * 2 {
            let mut changed = [&bytes[..], &bytes].concat();
            changed[..4].copy_from_slice(&wrong.to_be_bytes());
            check(&changed);
        }
    }
}
