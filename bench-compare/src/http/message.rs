//! Heads of HTTP/1.1 messages, as far as a load generator and its upstream need them.
//!
//! Finds the end of a message by its content-length, and whether the connection ends with it. It never decodes
//! chunks: no peer here sends them, and a chunked message is reported as an error.

use crate::failure::{Failure, Outcome};

/// The longest head that is accepted.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// The properties of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The request line or the status line.
    pub first: &'a [u8],
    /// Bytes of the whole message, including its body.
    pub len: usize,
    /// Where the body begins.
    pub body_at: usize,
    /// The sender will close the connection.
    pub is_last: bool,
}

impl<'a> Head<'a> {
    /// Parses a head; none if it is not complete yet.
    pub fn read(bytes: &'a [u8]) -> Outcome<Option<Self>> {
        let mut lines = Lines { bytes, at: 0 };
        let Some(first) = lines.next() else { return unfinished(bytes) };
        let mut is_last = first.ends_with(b"1.0") || first.starts_with(b"HTTP/1.0");
        let mut body_len = 0;
        loop {
            let Some(line) = lines.next() else { return unfinished(bytes) };
            match line.first().map(|byte| byte | 0x20) {
                None => break,
                Some(b'c') => {
                    if let Some(value) = value(line, b"content-length") {
                        body_len = number(value)
                            .ok_or_else(|| Failure::new("content-length is not a number"))?;
                    } else if let Some(value) = value(line, b"connection") {
                        is_last |= value.eq_ignore_ascii_case(b"close");
                    }
                }
                Some(b't') if value(line, b"transfer-encoding").is_some() => {
                    return Err(Failure::new("a message came in chunks, which is not read here"));
                }
                Some(_) => {}
            }
        }
        let body_at = lines.at;
        Ok(Some(Self { first, len: body_at.saturating_add(body_len), body_at, is_last }))
    }

    /// The second word: the path of a request, or the status of a response.
    pub fn second(&self) -> &'a [u8] {
        self.first.split(|&byte| byte == b' ').nth(1).unwrap_or_default()
    }

    /// The status of a response.
    pub fn status(&self) -> Outcome<u16> {
        number(self.second())
            .and_then(|status| u16::try_from(status).ok())
            .ok_or_else(|| Failure::new("an answer has no status"))
    }
}

/// Parses a decimal number.
pub fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn unfinished(bytes: &[u8]) -> Outcome<Option<Head<'_>>> {
    if bytes.len() < HEAD_BYTES_MAX {
        return Ok(None);
    }
    Err(Failure::new(format!("a head is longer than {HEAD_BYTES_MAX} bytes")))
}

fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    let rest = rest.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name).then(|| rest.trim_ascii())
}

/// Complete lines, without their line ends.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let line = &rest[..rest.iter().position(|&byte| byte == b'\n')?];
        self.at += line.len() + 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_where_its_length_says() {
        let text = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length:  4\r\n\r\nbodyGET";
        let head = Head::read(text).unwrap().unwrap();
        assert_eq!((head.second(), head.len, head.is_last), (&b"/a"[..], text.len() - 3, false));
        assert_eq!(Head::read(&text[..40]).unwrap(), None);
        let answer = b"HTTP/1.1 503 No\r\nconnection: Close\r\ncontent-length: 0\r\n\r\n";
        let head = Head::read(answer).unwrap().unwrap();
        assert_eq!((head.status().unwrap(), head.len, head.is_last), (503, answer.len(), true));
    }

    #[test]
    fn what_is_not_read_is_said() {
        let cases = [
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "a message came in chunks"),
            ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "content-length is not a number"),
            (&"a".repeat(HEAD_BYTES_MAX), "a head is longer than 16384 bytes"),
        ];
        for (text, message) in cases {
            let error = Head::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
