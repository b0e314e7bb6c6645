//! The exchange with a client that logs in to us.
//!
//! ```text
//! First --client-first--> (server-first) Final --client-final--> (server-final) Over
//! ```
//!
//! An error leads to `Over` as well. The user's name in the client's first message is ignored, as PostgreSQL does,
//! because the name in the startup packet counts. Optional extensions are ignored, mandatory ones refused.

use super::error::ServerError;
use super::keys::{ClientKey, Key};
use super::message::{self, Attributes, BOUND_HEADER, auth_message, decode, encode, is_nonce};
use super::verifier::Verifier;
use super::{MESSAGE_BYTES_MAX, Mechanism, NONCE_BYTES};

/// The server's side of one login.
#[derive(Debug)]
pub struct Server {
    verifier: Verifier,
    mechanism: Mechanism,
    certificate_hash: Option<Vec<u8>>,
    state: State,
}

/// The answer to a message.
#[derive(Debug)]
pub enum Reply {
    /// The exchange continues with this message.
    Continue(Vec<u8>),
    /// The client knows the password.
    Success {
        /// The last message to the client.
        message: Vec<u8>,
        /// With this we can log in to an upstream server that stores the same verifier.
        client_key: ClientKey,
    },
}

#[derive(Debug)]
enum State {
    /// Before the client's first message; with our part of the nonce.
    First {
        nonce: Vec<u8>,
    },
    Final(Final),
    Over,
}

/// What the client's last message must agree with.
#[derive(Debug)]
struct Final {
    /// The client's first message without its header.
    client_first: Vec<u8>,
    server_first: Vec<u8>,
    /// The value of `c`.
    binding: String,
    nonce: Vec<u8>,
}

impl Server {
    /// Begins a login by the mechanism that the client chose. `certificate_hash` is the channel binding data of the
    /// server's certificate; with it, channel binding was offered.
    ///
    /// # Errors
    ///
    /// When the mechanism was not offered.
    pub fn new(
        verifier: Verifier,
        mechanism: Mechanism,
        certificate_hash: Option<&[u8]>,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Self, ServerError> {
        if !Mechanism::offered(certificate_hash.is_some()).contains(&mechanism) {
            return Err(ServerError::NotOffered);
        }
        let state = State::First { nonce: message::nonce_text(nonce) };
        let certificate_hash = certificate_hash.map(<[u8]>::to_vec);
        Ok(Self { verifier, mechanism, certificate_hash, state })
    }

    /// Handles a message from the client.
    ///
    /// # Errors
    ///
    /// When the login fails. Then it is over.
    pub fn receive(&mut self, message: &[u8]) -> Result<Reply, ServerError> {
        let state = std::mem::replace(&mut self.state, State::Over);
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(ServerError::TooLong);
        }
        match state {
            State::First { nonce } => {
                let next = self.first(message, &nonce)?;
                let reply = Reply::Continue(next.server_first.clone());
                self.state = State::Final(next);
                Ok(reply)
            }
            State::Final(expected) => self.last(message, &expected),
            State::Over => Err(ServerError::OutOfTurn),
        }
    }

    /// The same with a nonce that examples use.
    #[cfg(test)]
    pub(super) fn with_nonce(mut self, nonce: &str) -> Self {
        self.state = State::First { nonce: nonce.into() };
        self
    }

    fn first(&self, message: &[u8], our_nonce: &[u8]) -> Result<Final, ServerError> {
        let (header, client_first) = self.header(message)?;
        let client_nonce = client_nonce(client_first)?;
        let nonce = [client_nonce, our_nonce].concat();
        let settings = format!(",s={},i={}", encode(&self.verifier.salt), self.verifier.iterations);
        let server_first = [b"r=", &nonce[..], settings.as_bytes()].concat();
        let bound = self.certificate_hash.as_deref().filter(|_| header == BOUND_HEADER);
        let binding = message::binding(header, bound.unwrap_or_default());
        Ok(Final { client_first: client_first.to_vec(), server_first, binding, nonce })
    }

    /// The GS2 header (RFC 5802 7), which says how the channel is bound, and the rest of the first message.
    fn header<'m>(&self, message: &'m [u8]) -> Result<(&'m [u8], &'m [u8]), ServerError> {
        let mut parts = message.splitn(3, |&byte| byte == b',');
        let (Some(flag), Some(identity), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(ServerError::Malformed("expected a GS2 header, like n,,"));
        };
        let is_bound = match flag {
            b"n" => false,
            b"y" if self.certificate_hash.is_some() => return Err(ServerError::Downgrade),
            b"y" => false,
            [b'p', b'=', name @ ..] if name == b"tls-server-end-point" => true,
            [b'p', b'=', ..] => return Err(ServerError::BindingType),
            _ => return Err(ServerError::Malformed("expected n, y or p= as channel binding")),
        };
        match identity {
            b"" => {}
            [b'a', b'=', ..] => return Err(ServerError::AuthorizationIdentity),
            _ => return Err(ServerError::Malformed("expected an empty authorization identity")),
        }
        if is_bound != (self.mechanism == Mechanism::Plus) {
            return Err(ServerError::WrongMechanism);
        }
        let header = message.get(..message.len() - rest.len()).unwrap_or_default();
        Ok((header, rest))
    }

    fn last(&self, message: &[u8], expected: &Final) -> Result<Reply, ServerError> {
        let parsed = ClientFinal::parse(message)?;
        if parsed.binding != expected.binding.as_bytes() {
            return Err(ServerError::Binding);
        }
        if parsed.nonce != expected.nonce {
            return Err(ServerError::Nonce);
        }
        let Final { client_first, server_first, .. } = expected;
        let signed = auth_message(client_first, server_first, parsed.without_proof);
        let Verifier { stored_key, server_key, is_mock, .. } = &self.verifier;
        let client_key = parsed.proof.xor(&stored_key.sign(&signed));
        // Without a branch between them, so that a mock verifier takes the same time.
        if !(client_key.hash().is(stored_key) & !is_mock) {
            return Err(ServerError::Proof);
        }
        let message = format!("v={}", encode(&server_key.sign(&signed).0)).into_bytes();
        Ok(Reply::Success { message, client_key: ClientKey(client_key) })
    }
}

/// The nonce in the client's first message without its header.
fn client_nonce(client_first: &[u8]) -> Result<&[u8], ServerError> {
    let mut attributes = Attributes::new(client_first);
    match attributes.next().map_err(ServerError::Malformed)? {
        Some((b'm', _)) => return Err(ServerError::Extension),
        Some((b'n', _)) => {}
        _ => return Err(ServerError::Malformed("expected n=, the user's name")),
    }
    let nonce =
        attributes.expect(b'r', "expected r=, the nonce").map_err(ServerError::Malformed)?;
    if !is_nonce(nonce) {
        return Err(ServerError::Malformed("expected a nonce of printable characters"));
    }
    while attributes.next().map_err(ServerError::Malformed)?.is_some() {}
    Ok(nonce)
}

/// The client's last message.
struct ClientFinal<'m> {
    binding: &'m [u8],
    nonce: &'m [u8],
    proof: Key,
    without_proof: &'m [u8],
}

impl<'m> ClientFinal<'m> {
    fn parse(message: &'m [u8]) -> Result<Self, ServerError> {
        let malformed = ServerError::Malformed;
        let mut attributes = Attributes::new(message);
        let binding =
            attributes.expect(b'c', "expected c=, the channel binding").map_err(malformed)?;
        let nonce = attributes.expect(b'r', "expected r=, the nonce").map_err(malformed)?;
        loop {
            // Without the comma before the proof.
            let end = attributes.position().saturating_sub(1);
            match attributes.next().map_err(malformed)? {
                Some((b'm', _)) => return Err(ServerError::Extension),
                Some((b'p', proof)) => {
                    attributes.end().map_err(malformed)?;
                    let proof = decode(proof).and_then(|proof| Key::from_slice(&proof));
                    let proof = proof.ok_or(malformed("expected a proof of 32 bytes in Base64"))?;
                    let without_proof = message.get(..end).unwrap_or_default();
                    return Ok(Self { binding, nonce, proof, without_proof });
                }
                Some(_) => {}
                None => return Err(malformed("expected p=, the proof")),
            }
        }
    }
}
