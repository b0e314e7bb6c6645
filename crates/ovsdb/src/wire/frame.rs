//! Framing: JSON objects one after the other on a stream, with only white space between them.
//!
//! The scanner finds the end of an object by counting brackets outside strings. It refuses a message that is too deep
//! or too long as soon as it detects this, so the memory for an unfinished message is bounded.

use std::borrow::Cow;
use std::fmt;

/// Why a stream cannot be parsed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A message is longer than allowed.
    TooLong(usize),
    /// A message is nested more deeply than allowed.
    TooDeep(usize),
    /// There is something other than white space between messages.
    NotAnObject,
    /// Brackets do not match.
    Unbalanced,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(max) => write!(f, "message is longer than {max} bytes"),
            Self::TooDeep(max) => write!(f, "message is nested more than {max} deep"),
            Self::NotAnObject => f.write_str("a message must be a JSON object"),
            Self::Unbalanced => f.write_str("brackets do not match"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Finds messages in a stream of bytes.
#[derive(Debug)]
pub struct Framer {
    bytes_max: usize,
    depth_max: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The beginning of an unfinished message.
    partial: Vec<u8>,
}

impl Framer {
    /// A framer for messages up to this length and depth.
    #[must_use]
    pub fn new(bytes_max: usize, depth_max: usize) -> Self {
        Self {
            bytes_max,
            depth_max,
            depth: 0,
            in_string: false,
            escaped: false,
            partial: Vec::new(),
        }
    }

    /// Takes the next bytes of the stream and calls `each` with every message that ends in them, in order, until
    /// `each` returns false. Returns how many bytes it consumed. The caller must pass the others again.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Cow<'_, [u8]>) -> bool,
    ) -> Result<usize, FrameError> {
        let mut rest = bytes;
        loop {
            if self.depth == 0 {
                let space = rest.iter().take_while(|c| c.is_ascii_whitespace()).count();
                rest = rest.get(space..).unwrap_or_default();
                match rest.first() {
                    None => return Ok(bytes.len()),
                    Some(b'{') => {}
                    Some(_) => return Err(FrameError::NotAnObject),
                }
            }
            let Some(end) = self.find_end(rest)? else {
                if self.partial.len() + rest.len() > self.bytes_max {
                    return Err(FrameError::TooLong(self.bytes_max));
                }
                self.partial.extend_from_slice(rest);
                return Ok(bytes.len());
            };
            let (last, after) = rest.split_at(end);
            if self.partial.len() + last.len() > self.bytes_max {
                return Err(FrameError::TooLong(self.bytes_max));
            }
            let go_on = if self.partial.is_empty() {
                each(Cow::Borrowed(last))
            } else {
                self.partial.extend_from_slice(last);
                each(Cow::Owned(std::mem::take(&mut self.partial)))
            };
            if !go_on {
                return Ok(bytes.len() - after.len());
            }
            rest = after;
        }
    }

    /// Bytes that are kept of an unfinished message.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.partial.len()
    }

    /// Whether a message has begun and not ended.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.depth > 0
    }

    /// Where the current message ends in `bytes`, if it does.
    fn find_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let mut at = 0;
        while let Some(&c) = bytes.get(at) {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                let run = bytes.get(at..).unwrap_or_default();
                let Some(stop) = run.iter().position(|&c| c == b'"' || c == b'\\') else {
                    return Ok(None);
                };
                at += stop + 1;
                match run.get(stop) {
                    Some(b'"') => self.in_string = false,
                    _ => self.escaped = true,
                }
                continue;
            }
            at += 1;
            match c {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth > self.depth_max {
                        return Err(FrameError::TooDeep(self.depth_max));
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.checked_sub(1).ok_or(FrameError::Unbalanced)?;
                    if self.depth == 0 {
                        return Ok(Some(at));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: Result<&[&str], FrameError>) {
        let mut framer = Framer::new(40, 4);
        let mut got = Vec::new();
        let mut error = None;
        for piece in pieces {
            let fed = framer.feed(piece.as_bytes(), |frame| {
                got.push(String::from_utf8(frame.to_vec()).unwrap());
                true
            });
            if let Err(e) = fed {
                error = Some(e);
                break;
            }
        }
        match expected {
            Ok(frames) => {
                assert_eq!(error, None, "{pieces:?}");
                assert_eq!(got, frames, "{pieces:?}");
            }
            Err(expected) => assert_eq!(error, Some(expected), "{pieces:?}"),
        }
    }

    #[test]
    fn messages_are_found_however_they_arrive() {
        check(&["{}"], Ok(&["{}"]));
        check(&["{}{}\n {\"a\":1} "], Ok(&["{}", "{}", "{\"a\":1}"]));
        check(&["{", "}", "{\"a", "\":[]}"], Ok(&["{}", "{\"a\":[]}"]));
        check(&["{\"}\":\"\\\"", "}\"}"], Ok(&["{\"}\":\"\\\"}\"}"]));
        check(&["{\"\\", "\"}\":1}{}"], Ok(&["{\"\\\"}\":1}", "{}"]));
        check(&["   ", "\n"], Ok(&[]));
    }

    #[test]
    fn what_is_behind_a_stop_is_given_again() {
        let mut framer = Framer::new(40, 4);
        let (stream, mut at, mut got) = (b"{} {\"a\":1}\n{", 0, Vec::new());
        for _ in 0..3 {
            let rest = stream.get(at..).unwrap();
            let taken = framer.feed(rest, |frame| {
                got.push(frame.into_owned());
                false
            });
            at += taken.unwrap();
        }
        assert_eq!(got, [b"{}".to_vec(), b"{\"a\":1}".to_vec()]);
        assert_eq!((at, framer.is_partial()), (stream.len(), true));
    }

    #[test]
    fn limits_hold_before_the_message_ends() {
        check(&["{\"a\":[[[["], Err(FrameError::TooDeep(4)));
        check(&["{\"a\":\"", &"x".repeat(50)], Err(FrameError::TooLong(40)));
        check(&[&format!("{{\"a\":\"{}\"}}", "x".repeat(50))], Err(FrameError::TooLong(40)));
        check(&["[]"], Err(FrameError::NotAnObject));
        check(&["{}x"], Err(FrameError::NotAnObject));
    }
}
