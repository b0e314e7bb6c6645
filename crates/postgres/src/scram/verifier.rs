//! What is stored in place of a password, in PostgreSQL's text form.
//!
//! Owns its parsing and writing, and the verifier of a user that does not exist.

use super::error::VerifierError;
use super::keys::{Key, derive, sign_with};
use super::message::{self, checked_iterations, decode, encode, is_salt};
use super::{ITERATIONS, PASSWORD_BYTES_MAX, SALT_BYTES};
use std::num::NonZeroU32;

/// What a server stores to verify a password. The password cannot be computed from it, but it can be guessed.
#[derive(Clone, Debug)]
pub struct Verifier {
    pub(super) iterations: NonZeroU32,
    pub(super) salt: Vec<u8>,
    pub(super) stored_key: Key,
    pub(super) server_key: Key,
    /// Whether no password satisfies it.
    pub(super) is_mock: bool,
}

impl Verifier {
    /// Parses `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`.
    ///
    /// # Errors
    ///
    /// When the text does not have exactly that form, or a part is beyond its limits.
    pub fn parse(text: &str) -> Result<Self, VerifierError> {
        let rest = text.strip_prefix("SCRAM-SHA-256$").ok_or(VerifierError::Form)?;
        let (settings, keys) = rest.split_once('$').ok_or(VerifierError::Form)?;
        let (iterations, salt) = settings.split_once(':').ok_or(VerifierError::Form)?;
        let (stored_key, server_key) = keys.split_once(':').ok_or(VerifierError::Form)?;
        let key = |text: &str| {
            decode(text.as_bytes()).and_then(|key| Key::from_slice(&key)).ok_or(VerifierError::Key)
        };
        Ok(Self {
            iterations: message::iterations(iterations.as_bytes())
                .ok_or(VerifierError::Iterations)?,
            salt: message::salt(salt.as_bytes()).ok_or(VerifierError::Salt)?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
            is_mock: false,
        })
    }

    /// Makes the verifier of a password. It takes time in proportion to the iterations.
    ///
    /// # Errors
    ///
    /// When an argument is beyond its limits.
    pub fn new(password: &[u8], salt: &[u8], iterations: u32) -> Result<Self, VerifierError> {
        let iterations = checked_iterations(iterations).ok_or(VerifierError::Iterations)?;
        if !is_salt(salt) {
            return Err(VerifierError::Salt);
        }
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(VerifierError::PasswordTooLong);
        }
        let (client_key, server_key) = derive(password, salt, iterations);
        let stored_key = client_key.0.hash();
        Ok(Self { iterations, salt: salt.to_vec(), stored_key, server_key, is_mock: false })
    }

    /// The verifier of a user that does not exist. It is the same each time for the same secret and user, and no
    /// password satisfies it.
    #[must_use]
    pub fn mock(secret: &[u8], user: &[u8]) -> Self {
        let salt = sign_with(secret, [b"salt:", user]).0;
        Self {
            iterations: NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN),
            salt: salt.into_iter().take(SALT_BYTES).collect(),
            stored_key: sign_with(secret, [b"stored:", user]),
            server_key: sign_with(secret, [b"server:", user]),
            is_mock: true,
        }
    }

    /// The verifier of a user if there is one, otherwise the mock one. Both are computed, so that the time does not
    /// depend on whether the user exists.
    #[must_use]
    pub fn or_mock(known: Option<&Self>, secret: &[u8], user: &[u8]) -> Self {
        let mock = Self::mock(secret, user);
        known.cloned().unwrap_or(mock)
    }

    /// The text form. It is a secret: passwords can be guessed by it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let [salt, stored_key, server_key] =
            [&self.salt[..], &self.stored_key.0, &self.server_key.0].map(encode);
        format!("SCRAM-SHA-256${}:{salt}${stored_key}:{server_key}", self.iterations)
    }

    /// The iterations.
    #[must_use]
    pub fn iterations(&self) -> u32 {
        self.iterations.get()
    }
}
