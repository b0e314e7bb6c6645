//! The keys that are derived from a password (RFC 5802 3), and the operations on them.
//!
//! Owns all cryptography of this module. No key appears in `Debug`.

use super::prepare::prepared;
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;

/// The length of a key, a signature and a proof.
pub(super) const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// A key, or a proof made from one.
#[derive(Clone, Copy)]
pub(super) struct Key(pub [u8; KEY_BYTES]);

/// What a client proves that it has. With it an upstream server that stores the same verifier accepts our login, so it
/// is as secret as the password.
#[derive(Clone, Copy, Debug)]
pub struct ClientKey(pub(super) Key);

impl Key {
    pub(super) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The hash of this key.
    pub(super) fn hash(&self) -> Self {
        Self::from_digest(digest::digest(&digest::SHA256, &self.0).as_ref())
    }

    /// The signature of a message by this key.
    pub(super) fn sign(&self, message: &[u8]) -> Self {
        Self::from_digest(hmac::sign(&self.hmac(), message).as_ref())
    }

    /// Whether this key made the signature of the message, in constant time.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.hmac(), message, signature).is_ok()
    }

    /// This key with another one laid over it. Twice with the same one gives this key again.
    pub(super) fn xor(&self, other: &Self) -> Self {
        let mut both = self.0;
        both.iter_mut().zip(&other.0).for_each(|(byte, other)| *byte ^= other);
        Self(both)
    }

    /// Whether the keys are the same, in constant time.
    pub(super) fn is(&self, other: &Self) -> bool {
        // `ring` compares in constant time only where it verifies a signature.
        let blind = hmac::Key::new(hmac::HMAC_SHA256, b"compare");
        hmac::verify(&blind, &self.0, hmac::sign(&blind, &other.0).as_ref()).is_ok()
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    fn from_digest(digest: &[u8]) -> Self {
        let mut key = [0; KEY_BYTES];
        key.iter_mut().zip(digest).for_each(|(byte, digest)| *byte = *digest);
        Self(key)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The keys of the client and of the server.
pub(super) fn derive(password: &[u8], salt: &[u8], iterations: NonZeroU32) -> (ClientKey, Key) {
    let mut salted = [0; KEY_BYTES];
    let password = prepared(password);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, &password, &mut salted);
    let salted = Key(salted);
    (ClientKey(salted.sign(b"Client Key")), salted.sign(b"Server Key"))
}

/// The signature by a secret of any length.
pub(super) fn sign_with(secret: &[u8], parts: [&[u8]; 2]) -> Key {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    parts.iter().for_each(|part| context.update(part));
    Key::from_digest(context.sign().as_ref())
}
