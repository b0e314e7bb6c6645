//! The login by SCRAM-SHA-256 (RFC 5802, RFC 7677), on the side of the server and of the client.
//!
//! Owns the exchange of a client that logs in to us ([`Server`]), our own exchange with an upstream server
//! ([`Client`]), and what is stored in place of a password ([`Verifier`], in PostgreSQL's text form). Promises:
//!
//! - A password or a key never appears in `Debug` or in an error.
//! - A client cannot distinguish an unknown user from a wrong password: both get messages of the same form and the
//!   same error, in the same time ([`Verifier::or_mock`]).
//! - Proofs and signatures are compared in constant time.
//! - Every message has a maximum length (D3), and no input panics (D4). A server cannot demand more than
//!   [`ITERATIONS_MAX`] rounds of hashing.
//!
//! Channel binding is `tls-server-end-point` (RFC 5929 4): the caller computes the hash of the certificate. Nonces and
//! salts are arguments. It never reads or writes a socket.

mod client;
mod error;
mod keys;
mod message;
mod prepare;
mod server;
mod verifier;

pub use client::{Client, Login};
pub use error::{ClientError, ServerError, VerifierError};
pub use keys::ClientKey;
pub use server::{Reply, Server};
pub use verifier::Verifier;

/// The longest message that is accepted from either side. PostgreSQL's own have fewer than 300 bytes.
pub const MESSAGE_BYTES_MAX: usize = 2_048;

/// The iterations of PostgreSQL's own verifiers, of ours unless configured, and of the exchange with an unknown user.
pub const ITERATIONS: u32 = 4_096;

/// The most iterations of a verifier. Logging in to an upstream server takes them all; this many take a third of a
/// second.
pub const ITERATIONS_MAX: u32 = 1_000_000;

/// The salt's length in PostgreSQL's own verifiers, in ours, and in the exchange with an unknown user.
pub const SALT_BYTES: usize = 16;

/// The longest salt of a verifier.
pub const SALT_BYTES_MAX: usize = 256;

/// The longest password.
pub const PASSWORD_BYTES_MAX: usize = 4_096;

/// The random bytes of a nonce. They are sent in Base64.
pub const NONCE_BYTES: usize = 18;

/// A SASL mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// `SCRAM-SHA-256`, without channel binding.
    Plain,
    /// `SCRAM-SHA-256-PLUS`, with channel binding.
    Plus,
}

impl Mechanism {
    /// The mechanism with this name, if we know it.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        [Self::Plain, Self::Plus].into_iter().find(|mechanism| mechanism.name().as_bytes() == name)
    }

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "SCRAM-SHA-256",
            Self::Plus => "SCRAM-SHA-256-PLUS",
        }
    }

    /// The mechanisms that a server offers, the preferred one first. Channel binding needs the hash of a certificate.
    #[must_use]
    pub const fn offered(has_certificate: bool) -> &'static [Self] {
        if has_certificate { &[Self::Plus, Self::Plain] } else { &[Self::Plain] }
    }
}

#[cfg(test)]
mod tests;
