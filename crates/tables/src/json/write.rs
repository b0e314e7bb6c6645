//! The writer: values to JSON bytes.
//!
//! Also offers functions (string, number, UUID) that write rows directly, without building a value first. Reals are
//! written with the fewest digits that read back as the same value.

use super::Json;
use paceline_types::Uuid;
use std::io::Write as _;

impl Json {
    /// Appends the text of this value, members sorted by name, without white space.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_up_to(usize::MAX, out);
    }

    /// Appends the beginning of this value: more than `most` bytes are in `out` if there is more of it.
    pub(crate) fn write_up_to(&self, most: usize, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Integer(integer) => write_integer(*integer, out),
            Self::Real(real) => write_real(*real, out),
            Self::String(text) => {
                let mut end = text.len().min(most);
                while !text.is_char_boundary(end) {
                    end += 1;
                }
                write_string(text.as_bytes().get(..end).unwrap_or_default(), out);
            }
            Self::Array(elements) => write_array_up_to(elements, most, out),
            Self::Object(object) => {
                out.push(b'{');
                for (i, (name, value)) in object.iter().enumerate() {
                    if out.len() > most {
                        break;
                    }
                    if i > 0 {
                        out.push(b',');
                    }
                    write_string(name.as_bytes(), out);
                    out.push(b':');
                    value.write_up_to(most, out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Appends an array of these elements, or the beginning of it like [`Json::write_up_to`].
pub(crate) fn write_array_up_to<'a>(
    elements: impl IntoIterator<Item = &'a Json>,
    most: usize,
    out: &mut Vec<u8>,
) {
    out.push(b'[');
    for (i, element) in elements.into_iter().enumerate() {
        if out.len() > most {
            break;
        }
        if i > 0 {
            out.push(b',');
        }
        element.write_up_to(most, out);
    }
    out.push(b']');
}

/// Appends `text`, which is UTF-8, as a quoted JSON string.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&c| c < 0x20 || c == b'"' || c == b'\\') {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        if let Some((&c, after)) = special.split_first() {
            write_escape(c, out);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn write_escape(c: u8, out: &mut Vec<u8>) {
    match c {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        8 => out.extend_from_slice(b"\\b"),
        12 => out.extend_from_slice(b"\\f"),
        _ => {
            let _ = write!(out, "\\u{c:04x}");
        }
    }
}

/// Appends an integer in decimal.
pub fn write_integer(integer: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut left = integer.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if integer < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a real with the fewest digits that read back as the same value. It has an exponent where `ovsdb-server`
/// writes one, in the same form: `1e+37`.
pub fn write_real(real: f64, out: &mut Vec<u8>) {
    let size = real.abs();
    // Formatting into memory cannot fail.
    let _ = if size == 0.0 || (1e-4..1e15).contains(&size) {
        write!(out, "{real}")
    } else {
        // With a sign and at least two digits, as C writes exponents.
        let text = format!("{real:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
        write!(out, "{digits}e{sign}{exponent:0>2}")
    };
}

/// Appends `["uuid","..."]`, the notation of a UUID.
pub fn write_uuid(uuid: Uuid, out: &mut Vec<u8>) {
    out.extend_from_slice(b"[\"uuid\",\"");
    out.extend_from_slice(&uuid.text());
    out.extend_from_slice(b"\"]");
}
