//! The parser: one whole JSON text, from bytes to a value.
//!
//! Recursive descent with a bound on depth, so that the stack it uses is bounded too. Errors name the byte offset
//! and what was expected there.

use super::{Json, Object};
use std::borrow::Cow;
use std::fmt;

/// Why a text is not JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Offset of the offending byte from the start of the text.
    pub offset: usize,
    /// What is wrong there.
    pub reason: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// Parses `text`, which must be exactly one JSON value with optional white space around it, nested at most
/// `depth_max` deep.
pub fn parse(text: &[u8], depth_max: usize) -> Result<Json, ParseError> {
    let mut parser = Parser { text, at: 0, depth_left: depth_max };
    let value = parser.value()?;
    parser.end()?;
    Ok(value)
}

/// Reads a JSON text in pieces: the outer objects member by member, their contents as values.
pub struct Reader<'a> {
    parser: Parser<'a>,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of `text`.
    #[must_use]
    pub fn new(text: &'a [u8], depth_max: usize) -> Self {
        Self { parser: Parser { text, at: 0, depth_left: depth_max } }
    }

    /// Whether the next value is an object.
    pub fn is_object(&mut self) -> bool {
        self.parser.skip_space();
        self.parser.peek() == Some(b'{')
    }

    /// Reads an object: `each` is called with the name of every member, in the order of the text,
    /// and must read or skip its value.
    pub fn object<E: From<ParseError>>(
        &mut self,
        mut each: impl FnMut(&mut Self, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_object() {
            return Err(self.parser.error("expected an object").into());
        }
        self.parser.deeper()?;
        self.parser.skip_space();
        if self.parser.peek() == Some(b'}') {
            self.parser.at += 1;
        } else {
            loop {
                let name = self.parser.member_name()?;
                each(self, &name)?;
                if !self.parser.more(b'}', "expected , or } in object")? {
                    break;
                }
            }
        }
        self.parser.depth_left += 1;
        Ok(())
    }

    /// Reads a value.
    pub fn value(&mut self) -> Result<Json, ParseError> {
        self.parser.value()
    }

    /// Skips a value; the contents of its strings and numbers are not checked.
    pub fn skip(&mut self) -> Result<(), ParseError> {
        self.parser.skip_value()
    }

    /// Checks that nothing follows.
    pub fn end(mut self) -> Result<(), ParseError> {
        self.parser.end()
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth_left: usize,
}

impl<'a> Parser<'a> {
    fn end(&mut self) -> Result<(), ParseError> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.error("trailing garbage")) }
    }

    /// Skips an opening bracket.
    fn deeper(&mut self) -> Result<(), ParseError> {
        self.depth_left =
            self.depth_left.checked_sub(1).ok_or_else(|| self.error("nested too deeply"))?;
        self.at += 1;
        Ok(())
    }

    /// Skips a comma or the closing bracket; returns whether it was a comma.
    fn more(&mut self, close: u8, expected: &'static str) -> Result<bool, ParseError> {
        self.skip_space();
        let c = self.peek();
        if c != Some(b',') && c != Some(close) {
            return Err(self.error(expected));
        }
        self.at += 1;
        Ok(c == Some(b','))
    }

    fn member_name(&mut self) -> Result<Cow<'a, str>, ParseError> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a member name"));
        }
        let name = self.text()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.error("expected : after member name"));
        }
        self.at += 1;
        Ok(name)
    }

    fn skip_value(&mut self) -> Result<(), ParseError> {
        self.skip_space();
        let mut depth = 0usize;
        while let Some(c) = self.peek() {
            match c {
                b'"' => {
                    self.skip_string()?;
                    if depth == 0 {
                        return Ok(());
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' if depth == 0 => return Ok(()),
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Ok(());
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        Err(self.error("unexpected end of text"))
    }

    fn skip_string(&mut self) -> Result<(), ParseError> {
        self.at += 1;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let stop = rest.iter().position(|&c| c == b'"' || c == b'\\');
            let stop = stop.ok_or_else(|| self.error("unterminated string"))?;
            self.at += stop + 1;
            if rest.get(stop) == Some(&b'"') {
                return Ok(());
            }
            self.at += 1;
        }
    }

    fn error(&self, reason: &'static str) -> ParseError {
        ParseError { offset: self.at, reason }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Json, ParseError> {
        self.skip_space();
        match self.peek() {
            Some(b'"') => Ok(Json::String(self.text()?.into())),
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Json::Bool(true)),
            Some(b'f') => self.word(b"false", Json::Bool(false)),
            Some(b'n') => self.word(b"null", Json::Null),
            Some(_) => Err(self.error("expected a JSON value")),
            None => Err(self.error("unexpected end of text")),
        }
    }

    fn word(&mut self, word: &[u8], value: Json) -> Result<Json, ParseError> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.error("expected true, false or null"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self) -> Result<Json, ParseError> {
        self.deeper()?;
        let mut elements = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
        } else {
            // Most arrays of the notation are pairs.
            elements.reserve_exact(2);
            loop {
                elements.push(self.value()?);
                if !self.more(b']', "expected , or ] in array")? {
                    break;
                }
            }
        }
        // A vector that has grown step by step may have room for twice as many.
        if elements.capacity() > elements.len() + 16 {
            elements.shrink_to_fit();
        }
        self.depth_left += 1;
        Ok(Json::Array(elements))
    }

    fn object(&mut self) -> Result<Json, ParseError> {
        self.deeper()?;
        let mut members = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                let name = self.member_name()?;
                members.push((name.into(), self.value()?));
                if !self.more(b'}', "expected , or } in object")? {
                    break;
                }
            }
        }
        self.depth_left += 1;
        Ok(Json::Object(Object::new(members)))
    }

    /// A string whose opening quote is at the current byte.
    fn text(&mut self) -> Result<Cow<'a, str>, ParseError> {
        self.at += 1;
        let run = self.plain_run()?;
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(run));
        }
        let mut out = String::from(run);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(out));
                }
                Some(b'\\') => out.push(self.escape()?),
                _ => out.push_str(self.plain_run()?),
            }
        }
    }

    /// The bytes up to the next quote or backslash, which must exist.
    fn plain_run(&mut self) -> Result<&'a str, ParseError> {
        let start = self.at;
        let rest = self.text.get(start..).unwrap_or_default();
        let len = rest
            .iter()
            .position(|&c| matches!(c, b'"' | b'\\' | 0..=0x1f))
            .ok_or(ParseError { offset: self.text.len(), reason: "unterminated string" })?;
        self.at += len;
        if rest.get(len).is_some_and(|&c| c < 0x20) {
            return Err(self.error("control character in string must be escaped"));
        }
        std::str::from_utf8(rest.get(..len).unwrap_or_default()).map_err(|error| ParseError {
            offset: start + error.valid_up_to(),
            reason: "string is not valid UTF-8",
        })
    }

    /// One escape sequence whose backslash is at the current byte.
    fn escape(&mut self) -> Result<char, ParseError> {
        self.at += 1;
        let c = self.peek().ok_or_else(|| self.error("unterminated string"))?;
        self.at += 1;
        Ok(match c {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.error("unknown escape in string")),
        })
    }

    fn unicode_escape(&mut self) -> Result<char, ParseError> {
        let first = self.four_digits()?;
        let code = match first {
            0 => return Err(self.error("null bytes are not supported in strings")),
            0xd800..=0xdbff => {
                if self.text.get(self.at..self.at + 2) != Some(b"\\u") {
                    return Err(self.error("leading surrogate without a trailing one"));
                }
                self.at += 2;
                let second = self.four_digits()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(self.error("leading surrogate without a trailing one"));
                }
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| self.error("trailing surrogate without a leading one"))
    }

    fn four_digits(&mut self) -> Result<u32, ParseError> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.error("expected four hexadecimal digits after \\u"))?;
        self.at += 4;
        Ok(digits)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Json, ParseError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return Err(self.error("malformed number"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.error("expected digits after decimal point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.error("expected digits in exponent"));
            }
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        if let Some(integer) = whole_number(text) {
            return Ok(Json::Integer(integer));
        }
        let real: f64 = text.parse().map_err(|_| self.error("malformed number"))?;
        if !real.is_finite() {
            return Err(self.error("number is out of range"));
        }
        // A number that is whole only as a double is written as an integer too.
        let whole = real.fract() == 0.0 && (-I64_EDGE..I64_EDGE).contains(&real);
        Ok(if whole { Json::Integer(real as i64) } else { Json::Real(real) })
    }
}

/// The first double beyond the 64-bit integers.
const I64_EDGE: f64 = 9_223_372_036_854_775_808.0;

/// The integer that `text` denotes, if it is one in the 64-bit range, however it is written: `10`, `1e1` and
/// `100.0e-1` are the same.
fn whole_number(text: &str) -> Option<i64> {
    if let Ok(integer) = text.parse() {
        return Some(integer);
    }
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut value: i128 = 0;
    // Zeros count only when another digit follows them, so any number of trailing zeros is accepted.
    let mut zeros: u32 = 0;
    for digit in whole.bytes().chain(fraction.bytes()).map(|c| i128::from(c - b'0')) {
        if digit == 0 {
            zeros += u32::from(value != 0);
        } else {
            value = value.checked_mul(10i128.checked_pow(zeros + 1)?)?.checked_add(digit)?;
            zeros = 0;
        }
    }
    let scale = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let scale = scale.checked_add(zeros.into())?;
    if value != 0 {
        value = value.checked_mul(10i128.checked_pow(u32::try_from(scale).ok()?)?)?;
    }
    i64::try_from(if negative { -value } else { value }).ok()
}
