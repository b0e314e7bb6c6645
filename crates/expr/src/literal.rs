//! Literals: the values of numbers and strings, as CEL writes them.
//!
//! Owns escapes, quotes and the ranges of numbers. Its input is only what [`crate::tokens`] recognized as a literal,
//! so every string has a value and a number can only be too large.

use crate::tree::Part;

/// The value of a number; `None` if it does not fit its type. Only an int or a double can be `negative`: the sign
/// belongs to them, because the least int has no positive counterpart.
pub(crate) fn number(text: &str, negative: bool) -> Option<Part<'static>> {
    let sign = if negative { "-" } else { "" };
    let digits = text.strip_suffix(['u', 'U']).unwrap_or(text);
    if let Some(hex) = digits.strip_prefix("0x") {
        return i64::from_str_radix(&format!("{sign}{hex}"), 16).ok().map(Part::Int);
    }
    let signed = format!("{sign}{digits}");
    if digits.contains(['.', 'e', 'E']) {
        return signed.parse().ok().filter(|double: &f64| double.is_finite()).map(Part::Double);
    }
    signed.parse().ok().map(Part::Int)
}

/// The value of a string: without its quotes, each end of a line as `\n`, and escapes replaced.
pub(crate) fn string(text: &str) -> String {
    let raw = text.strip_prefix(['r', 'R']);
    let quoted = raw.unwrap_or(text);
    let quotes = quotes(quoted).len();
    let inner = quoted.get(quotes..quoted.len() - quotes).unwrap_or_default();
    let inner = inner.replace("\r\n", "\n").replace('\r', "\n");
    if raw.is_some() {
        return inner;
    }
    let (mut value, mut rest) = (String::with_capacity(inner.len()), inner.as_str());
    while let Some(at) = rest.find('\\') {
        let (before, escaped) = rest.split_at(at);
        value.push_str(before);
        let (len, character) = escape(escaped).unwrap_or((1, '\\'));
        value.push(character);
        rest = escaped.get(len..).unwrap_or_default();
    }
    value + rest
}

/// The quotes that a string begins with: one, or three.
pub(crate) fn quotes(text: &str) -> &'static str {
    let all = ["\"\"\"", "'''", "\""];
    all.into_iter().find(|quotes| text.starts_with(quotes)).unwrap_or("'")
}

/// Length and meaning of the escape that `text` begins with, if it is valid and denotes a character.
pub(crate) fn escape(text: &str) -> Option<(usize, char)> {
    let code = |from: usize, len: usize, radix: u32| {
        let digits = text.get(from..from + len).filter(|d| d.chars().all(|c| c.is_digit(radix)))?;
        Some((from + len, char::from_u32(u32::from_str_radix(digits, radix).ok()?)?))
    };
    match text.chars().nth(1)? {
        'a' => Some((2, '\u{7}')),
        'b' => Some((2, '\u{8}')),
        'f' => Some((2, '\u{c}')),
        'n' => Some((2, '\n')),
        'r' => Some((2, '\r')),
        't' => Some((2, '\t')),
        'v' => Some((2, '\u{b}')),
        same @ ('"' | '\'' | '\\' | '?' | '`') => Some((2, same)),
        'x' | 'X' => code(2, 2, 16),
        'u' => code(2, 4, 16),
        'U' => code(2, 8, 16),
        '0'..='3' => code(1, 3, 8),
        _ => None,
    }
}
