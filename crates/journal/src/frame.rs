//! The frame around one record: `OVSDB JSON <length> <sha1>\n`, then the body.
//!
//! Owns writing a frame and reading its header line. The body on disk is the JSON text and a
//! newline; length and hash cover both. Promises that `parse_header` and `hash` accept what `frame`
//! writes. Never reads files.

use sha1::{Digest, Sha1};

/// The maximum length of a body. It is this large because a compacted database is a single record.
pub const RECORD_LEN_MAX: u64 = 1 << 32;

/// The first bytes of every header line of a standalone log.
pub(crate) const LEAD: &[u8] = b"OVSDB JSON ";

/// The longest header line: lead, 20 digits, a blank, the hash, a newline.
pub(crate) const HEADER_LEN_MAX: usize = LEAD.len() + 20 + 1 + 2 * HASH_LEN + 1;

const HASH_LEN: usize = 20;

/// The SHA-1 hash of a body.
pub(crate) type Hash = [u8; HASH_LEN];

/// Frames `body`, one JSON text without a newline at its end, and adds it to `out`.
pub fn frame(body: &[u8], out: &mut Vec<u8>) {
    let mut sha1 = Sha1::new();
    sha1.update(body);
    sha1.update(b"\n");
    let hash: Hash = sha1.finalize().into();

    out.reserve(HEADER_LEN_MAX + body.len() + 1);
    out.extend_from_slice(LEAD);
    push_decimal(body.len() as u64 + 1, out);
    out.push(b' ');
    for byte in hash {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
    out.push(b'\n');
    out.extend_from_slice(body);
    out.push(b'\n');
}

/// The hash of a whole body, newline included.
pub(crate) fn hash(body: &[u8]) -> Hash {
    Sha1::digest(body).into()
}

/// A parsed header line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The length of the line, newline included.
    pub line_len: usize,
    /// The length of the body that follows.
    pub body_len: u64,
    /// The hash of that body.
    pub hash: Hash,
}

/// Reads the header line at the start of `bytes`, or `None` if there is no valid one.
pub(crate) fn parse_header(bytes: &[u8]) -> Option<Header> {
    let rest = bytes.strip_prefix(LEAD)?;
    let digits = rest.iter().take(21).take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = rest.split_at_checked(digits)?;
    let body_len: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    let (hex, rest) = rest.strip_prefix(b" ")?.split_at_checked(2 * HASH_LEN)?;
    let hash = parse_hash(hex)?;
    if body_len == 0 || rest.first() != Some(&b'\n') {
        return None;
    }
    Some(Header { line_len: LEAD.len() + digits + 1 + 2 * HASH_LEN + 1, body_len, hash })
}

fn parse_hash(hex: &[u8]) -> Option<Hash> {
    let mut hash = [0; HASH_LEN];
    let mut bad = 0;
    for (byte, pair) in hash.iter_mut().zip(hex.chunks_exact(2)) {
        let (high, low) = (UNHEX[usize::from(pair[0])], UNHEX[usize::from(pair[1])]);
        bad |= high | low;
        *byte = (high << 4) | (low & 15);
    }
    (bad & 0xf0 == 0).then_some(hash)
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The value of each hexadecimal digit, in either case; 0xff for every other byte.
const UNHEX: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        let digit = HEX[value];
        table[digit as usize] = value as u8;
        table[digit.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    table
};

fn push_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_ovsdb_writes() {
        let mut out = Vec::new();
        frame(b"{}", &mut out);
        // printf '{}\n' | sha1sum
        let expected = "OVSDB JSON 3 5f36b2ea290645ee34d943220a14b54ee5ea5be5\n{}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn header_lines() {
        const H: &str = "5f36b2ea290645ee34d943220a14b54ee5ea5be5";
        let upper = H.to_uppercase();
        let table: &[(String, Option<u64>)] = &[
            (format!("OVSDB JSON 3 {H}\nrest"), Some(3)),
            (format!("OVSDB JSON 3 {upper}\n"), Some(3)),
            (format!("OVSDB JSON {} {H}\n", u64::MAX), Some(u64::MAX)),
            (format!("OVSDB JSON {}0 {H}\n", u64::MAX), None),
            (format!("OVSDB JSON 0 {H}\n"), None),
            (format!("OVSDB JSON  {H}\n"), None),
            (format!("OVSDB JSON -3 {H}\n"), None),
            (format!("OVSDB JSON +3 {H}\n"), None),
            (format!("OVSDB JSON 3  {H}\n"), None),
            (format!("OVSDB JSON 3 {H}"), None),
            (format!("OVSDB JSON 3 {H}\r\n"), None),
            (format!("OVSDB JSON 3 g{}\n", &H[1..]), None),
            (format!("OVSDB JSON 3 {}\n", &H[1..]), None),
            (format!("OVSDB CLUSTER 3 {H}\n"), None),
            (format!("ovsdb JSON 3 {H}\n"), None),
            (String::new(), None),
        ];
        for (line, expected) in table {
            let header = parse_header(line.as_bytes());
            assert_eq!(header.map(|header| header.body_len), *expected, "{line:?}");
        }
    }
}
