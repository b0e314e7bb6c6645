//! The head of a response. The server is trusted for its content, not for its syntax.

use super::body::Framing;
use super::byte::{is_value, number};
use super::field::{FieldError, Fields, Header, take_line};
use super::request::Said;
use crate::limits::OPTIONS_MAX;

/// The head of a response. Reused from one response to the next to keep its memory.
#[derive(Debug, Default)]
pub(crate) struct ResponseHead {
    pub status: u16,
    pub fields: Fields,
    pub framing: Framing,
    /// The value of `Content-Length`, even if there is no body (as after `HEAD`).
    pub length: Option<u64>,
    /// Whether the server keeps the connection for another request.
    pub keeps: bool,
    /// The position of the reason phrase, after the status.
    pub reason: super::field::Piece,
}

/// Why the head of a response is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseError(pub &'static str);

impl From<FieldError> for ResponseError {
    fn from(error: FieldError) -> Self {
        Self(error.text())
    }
}

impl ResponseHead {
    /// Parses a head, including the empty line at its end. `is_head` means that it answers a HEAD request.
    pub fn read(&mut self, bytes: &[u8], is_head: bool) -> Result<(), ResponseError> {
        let (line, rest) = take_line(bytes).ok_or(ResponseError(FieldError::LineEnd.text()))?;
        let is_11 = self.read_line(bytes, line)?;
        self.fields.read(bytes, rest.strip_suffix(b"\r\n").unwrap_or(rest))?;
        let (mut length, mut is_chunked) = (None, false);
        let mut said = Said::default();
        for field in self.fields.iter() {
            let value = || field.value.of_bytes(bytes);
            match field.header {
                Header::ContentLength if length.is_some() => {
                    return Err(ResponseError("there are two Content-Length fields"));
                }
                Header::ContentLength => {
                    let found =
                        number(value()).ok_or(ResponseError("Content-Length is no number"))?;
                    length = Some(found);
                }
                Header::TransferEncoding => {
                    if is_chunked || !value().eq_ignore_ascii_case(b"chunked") {
                        return Err(ResponseError(
                            "the only transfer coding known is chunked, once",
                        ));
                    }
                    is_chunked = true;
                }
                Header::Connection => said.read(value()),
                _ => {}
            }
        }
        if said.options > OPTIONS_MAX {
            return Err(ResponseError("Connection has too many options"));
        }
        if is_chunked && (length.is_some() || !is_11) {
            return Err(ResponseError("Transfer-Encoding stands where it may not"));
        }
        self.length = length;
        if said.names {
            // In the response to an upgrade, `Upgrade` is forwarded.
            self.fields.set_hops(bytes, &[Header::Upgrade]);
        }
        // RFC 9112 6.3: these responses have no body, whatever their fields say.
        let is_bare = is_head || self.status < 200 || matches!(self.status, 204 | 304);
        self.framing = match (length, is_chunked) {
            _ if is_bare => Framing::None,
            (_, true) => Framing::Chunked,
            (Some(0), false) => Framing::None,
            (Some(length), false) => Framing::Length(length),
            (None, false) => Framing::Close,
        };
        self.keeps = if is_11 { !said.closes } else { said.keeps && !said.closes };
        self.keeps &= self.framing != Framing::Close;
        Ok(())
    }

    /// Parses the first line. Returns whether it is HTTP/1.1.
    fn read_line(&mut self, bytes: &[u8], line: &[u8]) -> Result<bool, ResponseError> {
        const SHAPE: ResponseError = ResponseError("the first line is not HTTP/1.1 STATUS REASON");
        let (version, rest) = line.split_at_checked(9).ok_or(SHAPE)?;
        let is_11 = match version {
            b"HTTP/1.1 " => true,
            b"HTTP/1.0 " => false,
            _ => return Err(SHAPE),
        };
        let (status, reason) = rest.split_at_checked(3).ok_or(SHAPE)?;
        self.status = number(status).filter(|status| *status >= 100).ok_or(SHAPE)? as u16;
        let reason = match reason {
            [] => reason,
            [b' ', reason @ ..] => reason,
            _ => return Err(SHAPE),
        };
        if !reason.iter().all(|byte| is_value(*byte)) {
            return Err(ResponseError("the reason has a control character"));
        }
        self.reason = super::field::Piece::of(bytes, reason);
        Ok(is_11)
    }
}

#[cfg(test)]
mod tests {
    use super::{Framing, ResponseHead};

    #[test]
    fn bodies_end_where_the_standard_says() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, Framing::Length(5), true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, Framing::None, true),
            ("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n", false, Framing::Chunked, true),
            ("HTTP/1.1 200 \r\n\r\n", false, Framing::Close, false),
            ("HTTP/1.1 204 No\r\n\r\n", false, Framing::None, true),
            ("HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", false, Framing::None, true),
            ("HTTP/1.1 101 No\r\n\r\n", false, Framing::None, true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", false, Framing::Length(5), false),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nconnection: a, close\r\n\r\n",
                false,
                Framing::None,
                false,
            ),
        ];
        for (text, is_head, framing, keeps) in cases {
            let mut head = ResponseHead::default();
            head.read(text.as_bytes(), is_head).unwrap();
            assert_eq!((head.framing, head.keeps), (framing, keeps), "{text}");
        }
    }

    #[test]
    fn servers_cannot_smuggle_either_h1() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r c\r\n\r\n",
            "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 2xx OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
            "HTTP/1.1 200 O\0K\r\n\r\n",
            "\r\n",
        ] {
            assert!(ResponseHead::default().read(text.as_bytes(), false).is_err(), "{text:?}");
        }
    }
}
