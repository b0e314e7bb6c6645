//! The parts of SCRAM messages (RFC 5802 5.1 and 7): attributes, nonces, Base64 and numbers.

use super::{ITERATIONS_MAX, NONCE_BYTES, SALT_BYTES_MAX};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::num::NonZeroU32;

/// The header of a client that binds the channel, up to the user's name.
pub(super) const BOUND_HEADER: &[u8] = b"p=tls-server-end-point,,";

/// The attributes of a message, `x=value`, with commas between them.
pub(super) struct Attributes<'m> {
    /// What is left; `None` at the end.
    rest: Option<&'m [u8]>,
    /// The length of the message.
    len: usize,
}

impl<'m> Attributes<'m> {
    pub(super) fn new(message: &'m [u8]) -> Self {
        Self { rest: Some(message), len: message.len() }
    }

    /// The next attribute: its letter and its value.
    pub(super) fn next(&mut self) -> Result<Option<(u8, &'m [u8])>, &'static str> {
        let Some(rest) = self.rest else { return Ok(None) };
        let comma = memchr::memchr(b',', rest);
        let (attribute, rest) = match comma.and_then(|at| rest.split_at_checked(at)) {
            Some((attribute, rest)) => (attribute, rest.get(1..)),
            None => (rest, None),
        };
        self.rest = rest;
        match attribute {
            [letter, b'=', value @ ..] if letter.is_ascii_alphabetic() && !value.contains(&0) => {
                Ok(Some((*letter, value)))
            }
            _ => Err("expected attributes like r=value, separated by commas"),
        }
    }

    /// The value of the next attribute, which must have this letter.
    pub(super) fn expect(
        &mut self,
        letter: u8,
        what: &'static str,
    ) -> Result<&'m [u8], &'static str> {
        match self.next()? {
            Some((found, value)) if found == letter => Ok(value),
            _ => Err(what),
        }
    }

    pub(super) fn end(&self) -> Result<(), &'static str> {
        if self.rest.is_none() { Ok(()) } else { Err("expected the end of the message") }
    }

    /// The position of the next attribute in the message.
    pub(super) fn position(&self) -> usize {
        self.rest.map_or(self.len, |rest| self.len - rest.len())
    }
}

/// A nonce as it is sent.
pub(super) fn nonce_text(nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
    STANDARD.encode(nonce).into_bytes()
}

/// Whether a nonce has only printable characters. A comma ends it before.
pub(super) fn is_nonce(nonce: &[u8]) -> bool {
    !nonce.is_empty() && nonce.iter().all(u8::is_ascii_graphic)
}

pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes Base64. There is one form of each value: padded, and without superfluous bits.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// A salt of an allowed length.
pub(super) fn salt(text: &[u8]) -> Option<Vec<u8>> {
    decode(text).filter(|salt| is_salt(salt))
}

pub(super) fn is_salt(salt: &[u8]) -> bool {
    (1..=SALT_BYTES_MAX).contains(&salt.len())
}

/// An allowed number of iterations. Digits only, the first of them not 0.
pub(super) fn iterations(text: &[u8]) -> Option<NonZeroU32> {
    if text.first() == Some(&b'0') || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    checked_iterations(std::str::from_utf8(text).ok()?.parse().ok()?)
}

pub(super) fn checked_iterations(iterations: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(iterations).filter(|iterations| iterations.get() <= ITERATIONS_MAX)
}

/// The value of `c`: the header of the client's first message and the hash of the certificate if it binds the channel.
pub(super) fn binding(header: &[u8], certificate_hash: &[u8]) -> String {
    encode(&[header, certificate_hash].concat())
}

/// What both sides sign.
pub(super) fn auth_message(client_first: &[u8], server_first: &[u8], rest: &[u8]) -> Vec<u8> {
    [client_first, server_first, rest].join(&b',')
}
