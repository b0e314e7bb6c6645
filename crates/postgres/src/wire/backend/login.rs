//! What servers send during a login: steps of the authentication, the negotiated version, and the key to cancel with.

use super::super::BodyError;
use super::super::body::{Body, split_text};
use super::super::startup::{CANCEL_KEY_BYTES_MAX, CANCEL_KEY_BYTES_MIN, CancelKey, Version};

/// A step of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// The login is complete.
    Ok,
    /// The server asks for the password in clear text.
    CleartextPassword,
    /// The server asks for an MD5 hash with this salt.
    Md5Password([u8; 4]),
    /// The server offers these SASL mechanisms.
    Sasl(Texts<'a>),
    /// The next data of the mechanism.
    SaslContinue(&'a [u8]),
    /// The last data of the mechanism.
    SaslFinal(&'a [u8]),
    /// A method that is not known here, with its number and data.
    Other(u32, &'a [u8]),
}

impl<'a> Authentication<'a> {
    pub(super) const OK: u32 = 0;
    pub(super) const CLEARTEXT_PASSWORD: u32 = 3;
    pub(super) const MD5_PASSWORD: u32 = 5;
    pub(super) const SASL: u32 = 10;
    pub(super) const SASL_CONTINUE: u32 = 11;
    pub(super) const SASL_FINAL: u32 = 12;

    /// Reads a body.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("Authentication", bytes);
        let step = Self::parse(&mut body)?;
        body.end()?;
        Ok(step)
    }

    pub(super) fn parse(body: &mut Body<'a>) -> Result<Self, BodyError> {
        Ok(match body.u32()? {
            Self::OK => Self::Ok,
            Self::CLEARTEXT_PASSWORD => Self::CleartextPassword,
            Self::MD5_PASSWORD => Self::Md5Password(body.u32()?.to_be_bytes()),
            Self::SASL => Self::Sasl(Texts::parse_list(body)?),
            Self::SASL_CONTINUE => Self::SaslContinue(body.all()),
            Self::SASL_FINAL => Self::SaslFinal(body.all()),
            code => Self::Other(code, body.all()),
        })
    }
}

impl<'a> CancelKey<'a> {
    /// Reads the body of a BackendKeyData.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        Self::parse(&mut Body::new("BackendKeyData", bytes))
    }

    pub(super) fn parse(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let process = body.u32()?;
        let before = body.clone();
        let key = body.all();
        match key.len() {
            CANCEL_KEY_BYTES_MIN..=CANCEL_KEY_BYTES_MAX => Ok(Self { process, key }),
            _ => Err(before.error("the key has less than 4 or more than 256 bytes")),
        }
    }
}

/// What a server does not support of what the client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiation<'a> {
    /// The version that is spoken instead.
    pub version: Version,
    /// The names of the options.
    pub options: Texts<'a>,
}

impl<'a> Negotiation<'a> {
    /// Reads the body of a NegotiateProtocolVersion.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut body = Body::new("NegotiateProtocolVersion", bytes);
        let negotiation = Self::parse(&mut body)?;
        body.end()?;
        Ok(negotiation)
    }

    pub(super) fn parse(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let version = Version::of_number(body.u32()?);
        let count = body.u32()?;
        // Each option has at least its NUL, so a wrong count is found before long.
        Ok(Self { version, options: Texts::parse_counted(body, count)? })
    }
}

/// A list of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texts<'a>(&'a [u8]);

impl<'a> Texts<'a> {
    /// The texts, in order.
    #[must_use]
    pub const fn iter(self) -> TextsIter<'a> {
        TextsIter(self.0)
    }

    /// Whether `text` is in the list.
    #[must_use]
    pub fn has(self, text: &[u8]) -> bool {
        self.iter().any(|own| own == text)
    }

    /// Texts that end with an empty one.
    fn parse_list(body: &mut Body<'a>) -> Result<Self, BodyError> {
        let bytes = body.rest();
        loop {
            let len = bytes.len() - body.rest().len();
            if body.text()?.is_empty() {
                return Ok(Self(bytes.get(..len).unwrap_or_default()));
            }
        }
    }

    fn parse_counted(body: &mut Body<'a>, count: u32) -> Result<Self, BodyError> {
        let bytes = body.rest();
        for _ in 0..count {
            body.text()?;
        }
        let len = bytes.len() - body.rest().len();
        Ok(Self(bytes.get(..len).unwrap_or_default()))
    }
}

impl<'a> IntoIterator for Texts<'a> {
    type Item = &'a [u8];
    type IntoIter = TextsIter<'a>;

    fn into_iter(self) -> TextsIter<'a> {
        self.iter()
    }
}

/// The texts of a list.
#[derive(Clone, Debug)]
pub struct TextsIter<'a>(&'a [u8]);

impl<'a> Iterator for TextsIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (text, rest) = split_text(self.0)?;
        self.0 = rest;
        Some(text)
    }
}
