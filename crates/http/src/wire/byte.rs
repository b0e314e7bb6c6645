//! Which bytes are allowed in which part of a head.

const TOKEN: u8 = 1;
const VALUE: u8 = 2;
const TARGET: u8 = 4;

/// For every byte, the parts where it is allowed.
static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || is_token_mark(b) {
            table[byte] |= TOKEN;
        }
        // RFC 9110 5.5: visible characters, spaces, tabs and non-ASCII bytes.
        if b == b'\t' || (b >= b' ' && b != 0x7f) {
            table[byte] |= VALUE;
        }
        if b > b' ' && b < 0x7f {
            table[byte] |= TARGET;
        }
        byte += 1;
    }
    table
}

const fn is_token_mark(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
    )
}

const fn has(byte: u8, class: u8) -> bool {
    CLASS[byte as usize] & class != 0
}

/// Whether a byte is allowed in a method or in the name of a field (RFC 9110 5.6.2).
pub(crate) const fn is_token(byte: u8) -> bool {
    has(byte, TOKEN)
}

/// Whether a byte is allowed in the value of a field.
pub(crate) const fn is_value(byte: u8) -> bool {
    has(byte, VALUE)
}

/// Whether all bytes are allowed in the value of a field.
pub(crate) fn is_value_text(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    // Eight at a time: the high bit of a byte is set in the result if the byte is below 0x20 or is 0x7f.
    let is_plain = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let deleted = word ^ (ONES * 0x7f);
        let low = word.wrapping_sub(ONES * 0x20) & !word;
        let is_deleted = deleted.wrapping_sub(ONES) & !deleted;
        (low | is_deleted) & HIGH == 0
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let are_values = |bytes: &[u8]| bytes.iter().all(|byte| is_value(*byte));
    // A word that is not plain may still contain a tab.
    words.iter().all(|word| is_plain(word) || are_values(word)) && are_values(rest)
}

/// Whether a byte is allowed in the target of a request.
pub(crate) const fn is_target(byte: u8) -> bool {
    has(byte, TARGET)
}

/// Whether the text is a token: not empty, and every byte allowed.
pub(crate) fn is_token_text(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| is_token(*byte))
}

/// The bytes without spaces and tabs at either end.
pub(crate) fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// A decimal number of digits only; none if it does not fit.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 19 {
        return None;
    }
    bytes.iter().try_fold(0u64, |sum, byte| {
        byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::is_value_text;

    /// RFC 9110 5.5, byte by byte and at every place of a word.
    #[test]
    fn values_have_no_control_characters_but_tabs() {
        for byte in 0..=u8::MAX {
            let is_allowed = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            for len in 1..20 {
                for at in 0..len {
                    for around in [b'a', b'\t', b' ', 0x80, 0xff, b'~', b'!'] {
                        let mut text = vec![around; len];
                        text[at] = byte;
                        assert_eq!(is_value_text(&text), is_allowed, "{byte} at {at} of {len}");
                    }
                }
            }
        }
        assert!(is_value_text(b""));
    }
}
