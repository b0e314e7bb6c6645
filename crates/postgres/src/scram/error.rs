//! Why a verifier is not one, and why a login fails on either side.

use super::{ITERATIONS_MAX, MESSAGE_BYTES_MAX, PASSWORD_BYTES_MAX, SALT_BYTES_MAX};
use std::fmt;

/// Why a verifier was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifierError {
    /// The text does not have the form `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.
    Form,
    /// The iterations are not a number from 1 to [`ITERATIONS_MAX`].
    Iterations,
    /// The salt is not valid Base64 of 1 to [`SALT_BYTES_MAX`] bytes.
    Salt,
    /// `StoredKey` or `ServerKey` is not valid Base64 of 32 bytes.
    Key,
    /// The password is longer than [`PASSWORD_BYTES_MAX`].
    PasswordTooLong,
}

/// Why the login of a client was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerError {
    /// The message is longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
    /// The message cannot be parsed.
    Malformed(&'static str),
    /// The client wants to act as another user.
    AuthorizationIdentity,
    /// The client requires an extension that we do not know.
    Extension,
    /// The client uses a channel binding other than `tls-server-end-point`.
    BindingType,
    /// The client chose a mechanism that was not offered.
    NotOffered,
    /// The message does not suit the mechanism: channel binding without `-PLUS`, or `-PLUS` without channel binding.
    WrongMechanism,
    /// The client believes that channel binding was not offered. An intermediary removed the offer.
    Downgrade,
    /// The channel that the client bound is not ours.
    Binding,
    /// The nonce is not the one of this exchange.
    Nonce,
    /// The password is wrong, or there is no such user.
    Proof,
    /// The exchange is over.
    OutOfTurn,
}

/// Why our login at a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The message is longer than [`MESSAGE_BYTES_MAX`].
    TooLong,
    /// The message cannot be parsed.
    Malformed(&'static str),
    /// The server offers no mechanism that we know.
    NoMechanism,
    /// The server requires an extension that we do not know.
    Extension,
    /// The password is longer than [`PASSWORD_BYTES_MAX`].
    PasswordTooLong,
    /// The server's nonce does not begin with ours, or adds nothing to it.
    Nonce,
    /// The iterations are not a number from 1 to [`ITERATIONS_MAX`].
    Iterations,
    /// The salt is not valid Base64 of 1 to [`SALT_BYTES_MAX`] bytes.
    Salt,
    /// The server's verifier of this user is not the one that the client key belongs to.
    OtherVerifier,
    /// The server refused the login, for this reason.
    Refused(String),
    /// The server does not know the password, so it may be an impostor.
    Signature,
    /// This message was not expected now.
    OutOfTurn,
}

impl fmt::Display for VerifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => {
                f.write_str("expected SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>")
            }
            Self::Iterations => write_iterations(f),
            Self::Salt => write_salt(f),
            Self::Key => f.write_str("expected two keys of 32 bytes in Base64"),
            Self::PasswordTooLong => write_password_too_long(f),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => return write_too_long(f),
            Self::Malformed(what) => return write!(f, "malformed SCRAM message: {what}"),
            Self::AuthorizationIdentity => "SCRAM authorization identities are not supported",
            Self::Extension => "the client requires an unknown SCRAM extension",
            Self::BindingType => "the only supported channel binding is tls-server-end-point",
            Self::NotOffered => "the client chose a SASL mechanism that was not offered",
            Self::WrongMechanism => "channel binding requires SCRAM-SHA-256-PLUS, and vice versa",
            Self::Downgrade => "channel binding was offered, but the client did not see the offer",
            Self::Binding => "the SCRAM channel binding check failed",
            Self::Nonce => "the SCRAM nonce does not match",
            Self::Proof => "password authentication failed",
            Self::OutOfTurn => "the SCRAM exchange is over",
        })
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => return write_too_long(f),
            Self::Malformed(what) => return write!(f, "malformed SCRAM message: {what}"),
            Self::NoMechanism => {
                "the server offers neither SCRAM-SHA-256 nor SCRAM-SHA-256-PLUS with TLS"
            }
            Self::Extension => "the server requires an unknown SCRAM extension",
            Self::PasswordTooLong => return write_password_too_long(f),
            Self::Nonce => "the server's SCRAM nonce does not extend ours",
            Self::Iterations => return write_iterations(f),
            Self::Salt => return write_salt(f),
            Self::OtherVerifier => "the server stores another SCRAM verifier for this user",
            Self::Refused(reason) => return write!(f, "the server refused the login: {reason}"),
            Self::Signature => "the server could not prove that it knows the password",
            Self::OutOfTurn => "the server sent a SCRAM message out of turn",
        })
    }
}

impl std::error::Error for VerifierError {}
impl std::error::Error for ServerError {}
impl std::error::Error for ClientError {}

fn write_too_long(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the SCRAM message is longer than {MESSAGE_BYTES_MAX} bytes")
}

fn write_iterations(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "expected 1 to {ITERATIONS_MAX} SCRAM iterations")
}

fn write_salt(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "expected a SCRAM salt of 1 to {SALT_BYTES_MAX} bytes in Base64")
}

fn write_password_too_long(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "the password is longer than {PASSWORD_BYTES_MAX} bytes")
}
