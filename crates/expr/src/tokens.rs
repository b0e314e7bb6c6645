//! Splits a text into tokens.
//!
//! Owns the form of names, numbers and strings. It is that of CEL with one exception: after a map and a dot, a name
//! may contain `-`, as in `header.x-user`. An entry of a map is a string, and nothing can be subtracted from a
//! string. Never decodes a literal: [`crate::literal`] does.

use crate::{CompileError, literal, name};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name that is not a keyword.
    Name,
    /// `true`, `false` or `null`.
    Keyword,
    Number,
    String,
    /// An operator (`in` is one), bracket or other sign.
    Sign,
}

/// A token and its place in the text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub kind: Kind,
    pub start: usize,
    pub text: &'a str,
}

/// Longer signs are before their prefixes.
const SIGNS: [&str; 22] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

/// The tokens of a text, without blanks and comments.
pub(crate) fn split(text: &str) -> Result<Vec<Token<'_>>, CompileError> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut start = skip_blanks(text, 0);
    while let Some(first) = rest(text, start).chars().next() {
        let (kind, len) = match tokens.as_slice() {
            [.., map, dot] if dot.text == "." && name::is_map(map.text) => {
                entry(rest(text, start)).map_or_else(|| token(text, start, first), Ok)?
            }
            _ => token(text, start, first)?,
        };
        let end = start + len;
        tokens.push(Token { kind, start, text: text.get(start..end).unwrap_or_default() });
        start = skip_blanks(text, end);
    }
    Ok(tokens)
}

fn rest(text: &str, start: usize) -> &str {
    text.get(start..).unwrap_or_default()
}

fn skip_blanks(text: &str, mut start: usize) -> usize {
    loop {
        let left = rest(text, start).trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
        start = text.len() - left.len();
        if !left.starts_with("//") {
            return start;
        }
        start += left.find('\n').unwrap_or(left.len());
    }
}

/// Kind and length of the token that starts at `start`.
fn token(text: &str, start: usize, first: char) -> Result<(Kind, usize), CompileError> {
    let left = rest(text, start);
    let second = left.chars().nth(1).unwrap_or('\0');
    if first.is_ascii_digit() || (first == '.' && second.is_ascii_digit()) {
        return Ok((Kind::Number, number(text, start)?));
    }
    if matches!(first, '"' | '\'') {
        return Ok((Kind::String, string(text, start, false)?));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        return word(text, start);
    }
    if let Some(sign) = SIGNS.iter().find(|sign| left.starts_with(**sign)) {
        return Ok((Kind::Sign, sign.len()));
    }
    let message = match first {
        '=' => "`=` is no operator, write `==` to compare".to_owned(),
        '&' | '|' => format!("`{first}` is no operator, write `{first}{first}`"),
        '{' | '}' => "maps and messages are not part of the language".to_owned(),
        '`' => {
            "names in backticks are not part of the language, write header[\"x-user\"]".to_owned()
        }
        other => format!("unexpected character {other:?}"),
    };
    Err(CompileError::new(text, start, message))
}

fn word(text: &str, start: usize) -> Result<(Kind, usize), CompileError> {
    let left = rest(text, start);
    let len = left.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(left.len());
    let (word, after) = left.split_at(len);
    if after.starts_with(['"', '\'']) {
        match word {
            "r" | "R" => return Ok((Kind::String, 1 + string(text, start + 1, true)?)),
            "b" | "B" | "br" | "bR" | "Br" | "BR" => {
                let message = "bytes are not part of the language, write a string without `b`";
                return Err(CompileError::new(text, start, message));
            }
            _ => {}
        }
    }
    let kind = match word {
        "in" => Kind::Sign,
        "true" | "false" | "null" => Kind::Keyword,
        _ => Kind::Name,
    };
    Ok((kind, len))
}

/// Kind and length of the name of a map's entry, if it contains a `-`.
fn entry(left: &str) -> Option<(Kind, usize)> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let word = left.get(..count(left, part))?.trim_end_matches('-');
    let fits = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (fits && word.contains('-')).then_some((Kind::Name, word.len()))
}

/// Length of the number at `start`: digits, `0x` and hex digits, either with `u`; or a double.
fn number(text: &str, start: usize) -> Result<usize, CompileError> {
    let left = rest(text, start);
    let digits = |from: usize| count(rest(left, from), |c| c.is_ascii_digit());
    let hex = left.strip_prefix("0x").map_or(0, |hex| count(hex, |c| c.is_ascii_hexdigit()));
    let mut len = if hex > 0 { 2 + hex } else { digits(0) };
    let mut double = false;
    if hex == 0 {
        if rest(left, len).starts_with('.') && digits(len + 1) > 0 {
            len += 1 + digits(len + 1);
            double = true;
        }
        let exponent = exponent(rest(left, len));
        double |= exponent > 0;
        len += exponent;
    }
    if !double && rest(left, len).starts_with(['u', 'U']) {
        len += 1;
    }
    if rest(left, len).starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        let message = "a number may not run into a name: expected an operator after it";
        return Err(CompileError::new(text, start + len, message));
    }
    Ok(len)
}

fn exponent(left: &str) -> usize {
    if !left.starts_with(['e', 'E']) {
        return 0;
    }
    let sign = usize::from(rest(left, 1).starts_with(['+', '-']));
    match count(rest(left, 1 + sign), |c| c.is_ascii_digit()) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

fn count(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    text.find(|c| !wanted(c)).unwrap_or(text.len())
}

/// Length of the string whose opening quote is at `start`.
fn string(text: &str, start: usize, raw: bool) -> Result<usize, CompileError> {
    let left = rest(text, start);
    let quote = literal::quotes(left);
    let mut at = quote.len();
    loop {
        let here = rest(left, at);
        if here.starts_with(quote) {
            return Ok(at + quote.len());
        }
        match here.chars().next() {
            Some('\\') if !raw => match literal::escape(here) {
                Some((len, _)) => at += len,
                None => {
                    return Err(CompileError::new(text, start + at, "unknown escape in a string"));
                }
            },
            None | Some('\n' | '\r') if here.is_empty() || quote.len() == 1 => {
                let message = format!("string without its closing {quote}");
                return Err(CompileError::new(text, start, message));
            }
            other => at += other.map_or(1, char::len_utf8),
        }
    }
}
