//! Our exchange with an upstream server.
//!
//! ```text
//! First --server-first--> (client-final) Final --server-final--> Done
//! ```
//!
//! An error leads to `Over`. The caller must not believe a server that says that the login succeeded before
//! [`Client::is_done`]: such a server has not proved that it knows the password.

use super::error::ClientError;
use super::keys::{ClientKey, Key, derive};
use super::message::{self, Attributes, BOUND_HEADER, auth_message, decode, encode, is_nonce};
use super::verifier::Verifier;
use super::{MESSAGE_BYTES_MAX, Mechanism, NONCE_BYTES, PASSWORD_BYTES_MAX};
use std::fmt;
use std::num::NonZeroU32;

/// The client's side of one login.
#[derive(Debug)]
pub struct Client {
    login: Login,
    mechanism: Mechanism,
    /// The header of the first message, which says how the channel is bound.
    header: &'static [u8],
    certificate_hash: Vec<u8>,
    nonce: Vec<u8>,
    /// The first message without its header.
    first_bare: Vec<u8>,
    state: State,
}

/// What we log in with.
#[derive(Clone)]
pub enum Login {
    /// A password.
    Password(Vec<u8>),
    /// The key of a client that logged in to us, where the upstream server stores the same verifier.
    Key {
        /// The key.
        client_key: ClientKey,
        /// The verifier by which it logged in to us.
        verifier: Verifier,
    },
}

#[derive(Debug)]
enum State {
    First,
    /// With the key that must sign the message.
    Final {
        server_key: Key,
        signed: Vec<u8>,
    },
    Done,
    Over,
}

impl Client {
    /// Begins a login. Of the mechanisms that the server offers it uses channel binding if it can:
    /// `certificate_hash` is the channel binding data of the server's certificate, if there is one.
    ///
    /// # Errors
    ///
    /// When the server offers no mechanism that we know, or the password is too long.
    pub fn new(
        login: Login,
        offered: &[Mechanism],
        certificate_hash: Option<&[u8]>,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Self, ClientError> {
        if matches!(&login, Login::Password(password) if password.len() > PASSWORD_BYTES_MAX) {
            return Err(ClientError::PasswordTooLong);
        }
        let offers = |mechanism| offered.contains(&mechanism);
        // `y` says that we could bind the channel, so that a server that did offer it notices that its offer was
        // removed on the way (RFC 5802 6).
        let (mechanism, header): (_, &'static [u8]) = match certificate_hash {
            Some(_) if offers(Mechanism::Plus) => (Mechanism::Plus, BOUND_HEADER),
            Some(_) if offers(Mechanism::Plain) => (Mechanism::Plain, b"y,,"),
            None if offers(Mechanism::Plain) => (Mechanism::Plain, b"n,,"),
            _ => return Err(ClientError::NoMechanism),
        };
        let bound = certificate_hash.filter(|_| mechanism == Mechanism::Plus);
        let certificate_hash = bound.unwrap_or_default().to_vec();
        let nonce = message::nonce_text(nonce);
        let first_bare = [b"n=,r=", &nonce[..]].concat();
        let state = State::First;
        Ok(Self { login, mechanism, header, certificate_hash, nonce, first_bare, state })
    }

    /// The chosen mechanism.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The first message. The user's name in it is empty, because the one in the startup packet counts.
    #[must_use]
    pub fn first(&self) -> Vec<u8> {
        [self.header, &self.first_bare].concat()
    }

    /// Handles the server's first message and returns our last one. With a password it takes time in proportion to
    /// the iterations that the server demands, which are bounded.
    ///
    /// # Errors
    ///
    /// When the login fails. Then it is over.
    pub fn answer(&mut self, server_first: &[u8]) -> Result<Vec<u8>, ClientError> {
        let state = std::mem::replace(&mut self.state, State::Over);
        if !matches!(state, State::First) {
            return Err(ClientError::OutOfTurn);
        }
        let (nonce, salt, iterations) = self.server_first(server_first)?;
        let (client_key, server_key) = match &self.login {
            Login::Password(password) => derive(password, &salt, iterations),
            Login::Key { client_key, verifier } => {
                if verifier.salt != salt || verifier.iterations != iterations {
                    return Err(ClientError::OtherVerifier);
                }
                (*client_key, verifier.server_key)
            }
        };
        let binding = message::binding(self.header, &self.certificate_hash);
        let without_proof = [b"c=", binding.as_bytes(), b",r=", nonce].concat();
        let signed = auth_message(&self.first_bare, server_first, &without_proof);
        let proof = client_key.0.xor(&client_key.0.hash().sign(&signed));
        self.state = State::Final { server_key, signed };
        Ok([&without_proof[..], b",p=", encode(&proof.0).as_bytes()].concat())
    }

    /// Handles the server's last message.
    ///
    /// # Errors
    ///
    /// When the server refuses, or does not prove that it knows the password.
    pub fn finish(&mut self, server_final: &[u8]) -> Result<(), ClientError> {
        let state = std::mem::replace(&mut self.state, State::Over);
        let State::Final { server_key, signed } = state else {
            return Err(ClientError::OutOfTurn);
        };
        let signature = signature(server_final)?;
        if !server_key.verify(&signed, &signature) {
            return Err(ClientError::Signature);
        }
        self.state = State::Done;
        Ok(())
    }

    /// Whether the server has proved that it knows the password.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// The same with a user and a nonce that examples use.
    #[cfg(test)]
    pub(super) fn with_first(mut self, user: &str, nonce: &str) -> Self {
        self.nonce = nonce.into();
        self.first_bare = format!("n={user},r={nonce}").into_bytes();
        self
    }

    /// The nonce, the salt and the iterations in the server's first message.
    fn server_first<'m>(
        &self,
        message: &'m [u8],
    ) -> Result<(&'m [u8], Vec<u8>, NonZeroU32), ClientError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(ClientError::TooLong);
        }
        let malformed = ClientError::Malformed;
        let mut attributes = Attributes::new(message);
        let nonce = match attributes.next().map_err(malformed)? {
            Some((b'm', _)) => return Err(ClientError::Extension),
            Some((b'r', nonce)) => nonce,
            _ => return Err(malformed("expected r=, the nonce")),
        };
        let salt = attributes.expect(b's', "expected s=, the salt").map_err(malformed)?;
        let iterations = attributes.expect(b'i', "expected i=, the iterations");
        let iterations = iterations.map_err(malformed)?;
        attributes.end().map_err(malformed)?;
        let extended = nonce.strip_prefix(&self.nonce[..]).filter(|added| is_nonce(added));
        extended.ok_or(ClientError::Nonce)?;
        let salt = message::salt(salt).ok_or(ClientError::Salt)?;
        let iterations = message::iterations(iterations).ok_or(ClientError::Iterations)?;
        Ok((nonce, salt, iterations))
    }
}

/// The signature in the server's last message.
fn signature(message: &[u8]) -> Result<Vec<u8>, ClientError> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(ClientError::TooLong);
    }
    let mut attributes = Attributes::new(message);
    match attributes.next().map_err(ClientError::Malformed)? {
        Some((b'v', signature)) => {
            attributes.end().map_err(ClientError::Malformed)?;
            let wrong = ClientError::Malformed("expected a signature in Base64");
            decode(signature).ok_or(wrong)
        }
        Some((b'e', reason)) => {
            let printable =
                |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
            Err(ClientError::Refused(reason.iter().map(printable).collect()))
        }
        _ => Err(ClientError::Malformed("expected v=, the signature, or e=, an error")),
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(secret)",
            Self::Key { .. } => "Key(secret)",
        })
    }
}
