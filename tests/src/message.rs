//! HTTP/1.1 messages as both ends of a test read them, without any of the daemon's code.
//!
//! Owns nothing. Promises that a body is returned both decoded and as it arrived. Never repairs a malformed message:
//! the error says what was read.

use std::io::{self, BufRead, Read};

/// A body and its trailers.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Its bytes as they arrived, with chunk sizes.
    pub raw: Vec<u8>,
    /// Its decoded bytes.
    pub bytes: Vec<u8>,
    /// The trailers, the names in lower case.
    pub trailers: Vec<(String, String)>,
}

/// The length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A number of bytes.
    Known(u64),
    /// Given by its chunks.
    Chunked,
    /// Up to the end of the connection.
    ToTheEnd,
}

/// The next head with its empty line; none at the end of the connection.
///
/// # Errors
/// If the connection breaks or ends within a head.
pub fn read_head(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head)? == 0 {
            return match head.is_empty() {
                true => Ok(None),
                false => Err(bad(format!("a head ends early: {}", head.escape_ascii()))),
            };
        }
    }
    String::from_utf8(head).map(Some).map_err(bad)
}

/// The first value of the field of this name.
#[must_use]
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// The length of the body after a head, if the head states it.
#[must_use]
pub fn length(head: &str) -> Option<Length> {
    if field(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    {
        return Some(Length::Chunked);
    }
    field(head, "content-length").and_then(|text| text.parse().ok()).map(Length::Known)
}

/// Reads a body.
///
/// # Errors
/// If the connection breaks or ends within it.
pub fn read_body(stream: &mut impl BufRead, length: Length) -> io::Result<Body> {
    let mut body = Body::default();
    match length {
        Length::Known(length) => {
            stream.take(length).read_to_end(&mut body.bytes)?;
            if (body.bytes.len() as u64) < length {
                return Err(bad(format!("{} of {length} bytes came", body.bytes.len())));
            }
            body.raw.clone_from(&body.bytes);
        }
        Length::ToTheEnd => {
            stream.read_to_end(&mut body.bytes)?;
            body.raw.clone_from(&body.bytes);
        }
        Length::Chunked => while read_chunk(stream, &mut body)? {},
    }
    Ok(body)
}

fn read_chunk(stream: &mut impl BufRead, body: &mut Body) -> io::Result<bool> {
    let line = read_line(stream, &mut body.raw)?;
    let size = line.split(';').next().unwrap_or_default();
    let size = u64::from_str_radix(size.trim(), 16)
        .map_err(|error| bad(format!("{line:?} is no size of a chunk: {error}")))?;
    if size == 0 {
        loop {
            let line = read_line(stream, &mut body.raw)?;
            let Some((name, value)) = line.split_once(':') else { return Ok(false) };
            body.trailers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let mut data = Vec::new();
    stream.take(size + 2).read_to_end(&mut data)?;
    body.raw.extend_from_slice(&data);
    match data.strip_suffix(b"\r\n") {
        Some(data) if data.len() as u64 == size => body.bytes.extend_from_slice(data),
        _ => return Err(bad(format!("a chunk of {size} bytes ends early"))),
    }
    Ok(true)
}

fn read_line(stream: &mut impl BufRead, raw: &mut Vec<u8>) -> io::Result<String> {
    let start = raw.len();
    stream.read_until(b'\n', raw)?;
    match raw[start..].strip_suffix(b"\r\n") {
        Some(line) => String::from_utf8(line.to_vec()).map_err(bad),
        None => Err(bad(format!("a line ends early: {}", raw[start..].escape_ascii()))),
    }
}

fn bad(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::{Length, length, read_body, read_head};

    #[test]
    fn chunks_are_put_together_and_trailers_kept() {
        let mut text: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nSum: 5\r\n\r\nrest";
        let head = read_head(&mut text).unwrap().unwrap();
        assert_eq!(length(&head), Some(Length::Chunked));
        let body = read_body(&mut text, Length::Chunked).unwrap();
        assert_eq!((&body.bytes[..], text), (&b"abcde"[..], &b"rest"[..]));
        assert_eq!(body.trailers, [("sum".to_owned(), "5".to_owned())]);
        assert!(read_body(&mut text, Length::Known(5)).is_err(), "it ends early");
    }
}
