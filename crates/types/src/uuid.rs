//! Row identifiers and a seeded source of new ones.
//!
//! [`Uuid`] is ordered by its bytes, which is the order in which OVSDB sorts sets of UUIDs. [`UuidSource`] is a plain
//! generator: the host seeds it from the operating system, tests seed it with a number.

use std::fmt;
use std::str::FromStr;

/// A 128-bit identifier, compared and sorted by its bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// The text is not 36 characters of hexadecimal digits and dashes in UUID form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseUuidError;

impl fmt::Display for ParseUuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a UUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
    }
}

impl std::error::Error for ParseUuidError {}

impl Uuid {
    /// The all-zeros UUID, the default value of a UUID column.
    pub const ZERO: Self = Self([0; 16]);

    /// Length of the text form.
    pub const TEXT_LEN: usize = 36;

    /// The UUID of two halves, most significant first.
    #[must_use]
    pub const fn from_halves(high: u64, low: u64) -> Self {
        Self((((high as u128) << 64) | low as u128).to_be_bytes())
    }

    /// The two halves, most significant first.
    #[must_use]
    pub const fn halves(self) -> (u64, u64) {
        let all = u128::from_be_bytes(self.0);
        ((all >> 64) as u64, all as u64)
    }

    /// The 36 bytes of the text form, in lower case.
    #[must_use]
    pub fn text(self) -> [u8; Self::TEXT_LEN] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut out = [b'-'; Self::TEXT_LEN];
        let mut at = 0;
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                at += 1;
            }
            out[at] = HEX[usize::from(byte >> 4)];
            out[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        out
    }

    /// Parses the text form from bytes.
    pub fn parse(text: &[u8]) -> Result<Self, ParseUuidError> {
        let text: &[u8; Self::TEXT_LEN] = text.try_into().map_err(|_| ParseUuidError)?;
        let mut bytes = [0; 16];
        let mut at = 0;
        for (i, byte) in bytes.iter_mut().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                if text[at] != b'-' {
                    return Err(ParseUuidError);
                }
                at += 1;
            }
            *byte = (digit(text[at])? << 4) | digit(text[at + 1])?;
            at += 2;
        }
        Ok(Self(bytes))
    }
}

fn digit(c: u8) -> Result<u8, ParseUuidError> {
    match c {
        b'0'..=b'9' => Ok(c - b'0'),
        b'a'..=b'f' => Ok(c - b'a' + 10),
        b'A'..=b'F' => Ok(c - b'A' + 10),
        _ => Err(ParseUuidError),
    }
}

impl FromStr for Uuid {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<Self, ParseUuidError> {
        Self::parse(text.as_bytes())
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Makes random (version 4) UUIDs from a 256-bit seed, by the xoshiro256++ generator.
#[derive(Clone, Debug)]
pub struct UuidSource {
    state: [u64; 4],
}

impl UuidSource {
    /// A source whose output depends only on `seed`. An all-zero seed is replaced by a fixed one, because the
    /// generator would stay at zero.
    #[must_use]
    pub fn new(seed: [u64; 4]) -> Self {
        Self { state: if seed == [0; 4] { [1, 2, 3, 4] } else { seed } }
    }

    /// A source for tests and tools, seeded by one number.
    #[must_use]
    pub fn from_number(seed: u64) -> Self {
        let mut x = seed;
        Self::new(std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// The next UUID.
    pub fn next_uuid(&mut self) -> Uuid {
        let (high, low) = (self.next_u64(), self.next_u64());
        // RFC 9562 section 5.4: version 4 in the high half, variant 10 in the low half.
        Uuid::from_halves(
            (high & !0xf000) | 0x4000,
            (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000,
        )
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let text = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        assert_eq!(text.to_uppercase().parse::<Uuid>().unwrap().to_string(), text);
    }

    #[test]
    fn bad_texts_are_refused() {
        for text in [
            "",
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f",
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f00",
            "0f1e2d3c+4b5a-6978-8796-a5b4c3d2e1f0",
            "0f1e2d3g-4b5a-6978-8796-a5b4c3d2e1f0",
            "0f1e2d3c4b5a-6978-8796-a5b4c3d2e1f0-",
        ] {
            assert_eq!(text.parse::<Uuid>(), Err(ParseUuidError), "{text}");
        }
    }

    #[test]
    fn sources_repeat_and_mark_version_four() {
        let mut a = UuidSource::from_number(7);
        let mut b = UuidSource::from_number(7);
        for _ in 0..100 {
            let uuid = a.next_uuid();
            assert_eq!(uuid, b.next_uuid());
            assert_eq!(uuid.0[6] >> 4, 4);
            assert_eq!(uuid.0[8] >> 6, 2);
        }
        assert_ne!(UuidSource::from_number(8).next_uuid(), UuidSource::from_number(7).next_uuid());
    }
}
