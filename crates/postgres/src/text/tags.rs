//! The tags of a statement: sqlcommenter's `/* key='value',key2='v%20x' */`.
//!
//! Owns the form of such a comment. It is the last one after the statement, or else the first one before it; a
//! comment within the statement, and what looks like one in a string, is none. A comment that is not wholly of this
//! form has no tags. Promises at most [`TAGS_MAX`] tags, and keys and values of at most [`TAG_BYTES_MAX`] bytes; what
//! is left out is counted by [`Tags::ignored`].

use super::token::{Dialect, Kind, Lexer, Token};
use std::borrow::Cow;

/// How many tags of a statement are read.
pub const TAGS_MAX: usize = 32;

/// The longest key or value, decoded, in bytes.
pub const TAG_BYTES_MAX: usize = 256;

/// A key and its value, both decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// The key.
    pub key: Cow<'a, str>,
    /// The value.
    pub value: Cow<'a, str>,
}

/// The tags of a statement, in the order of the text.
#[derive(Clone, Debug)]
pub struct Tags<'a> {
    /// What was not read yet of the comment, without its marks.
    rest: &'a str,
    given: usize,
    ignored: usize,
}

impl<'a> Tags<'a> {
    /// Looks for the comment in a statement, or in a text whose last statement it follows.
    pub fn new(text: &'a str, dialect: Dialect) -> Self {
        // Nearly no statement has a comment, and this is faster than the lexer.
        let has_comment = memchr::memmem::find(text.as_bytes(), b"/*").is_some();
        let rest = if has_comment { comment(text, dialect) } else { None };
        Self { rest: rest.unwrap_or_default(), given: 0, ignored: 0 }
    }

    /// How many of the tags read so far were left out, because they were too many, too long or no UTF-8.
    pub const fn ignored(&self) -> usize {
        self.ignored
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        loop {
            let (key, value, rest) = pair(self.rest)?;
            self.rest = rest;
            let tag = decode(key, value).filter(|_| self.given < TAGS_MAX);
            if tag.is_some() {
                self.given += 1;
                return tag;
            }
            self.ignored += 1;
        }
    }
}

/// The inside of the comment with the tags.
fn comment(text: &str, dialect: Dialect) -> Option<&str> {
    let (mut first, mut last, mut is_before) = (None, None, true);
    for token in Lexer::new(text, dialect) {
        match token.kind {
            Kind::Comment => {
                let found = inside(token, text).filter(|inside| is_list(inside));
                if is_before {
                    first = first.or(found);
                }
                last = found.or(last);
            }
            Kind::Blank | Kind::Semicolon => {}
            _ => {
                is_before = false;
                last = None;
            }
        }
    }
    last.or(first)
}

fn inside(token: Token, text: &str) -> Option<&str> {
    token.text(text).strip_prefix("/*")?.strip_suffix("*/")
}

/// Whether the whole inside of a comment is a list of pairs.
fn is_list(mut inside: &str) -> bool {
    while let Some((_, _, rest)) = pair(inside) {
        inside = rest;
        if inside.is_empty() {
            return true;
        }
    }
    false
}

/// The first key and value as they are written, and what follows the comma after them.
fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = text.split_once('=')?;
    let key = key.trim();
    let is_part = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\'' | b',' | b'"');
    if key.is_empty() || !key.bytes().all(is_part) {
        return None;
    }
    let value = rest.trim_start().strip_prefix('\'')?;
    let end = value_end(value)?;
    let (value, rest) = (value.get(..end)?, value.get(end + 1..)?.trim());
    match rest.strip_prefix(',') {
        Some(rest) if !rest.trim().is_empty() => Some((key, value, rest)),
        Some(_) => None,
        None => rest.is_empty().then_some((key, value, rest)),
    }
}

/// The place of the quote that ends a value: the first one without a backslash.
fn value_end(value: &str) -> Option<usize> {
    let bytes = value.as_bytes();
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'\'', b'\\', bytes.get(at..)?)?;
        match bytes.get(at)? {
            b'\\' => at += 2,
            _ => return Some(at),
        }
    }
}

fn decode<'a>(key: &'a str, value: &'a str) -> Option<Tag<'a>> {
    Some(Tag { key: text(key)?, value: text(value)? })
}

/// A key or value without its backslashes and percent signs; none if it is too long or no UTF-8.
fn text(written: &str) -> Option<Cow<'_, str>> {
    if !written.bytes().any(|byte| matches!(byte, b'%' | b'\\')) {
        return (written.len() <= TAG_BYTES_MAX).then_some(Cow::Borrowed(written));
    }
    let bytes = written.as_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let (byte, len) = match (byte, bytes.get(at + 1), bytes.get(at + 2)) {
            (b'\\', Some(&next), _) => (next, 2),
            (b'%', Some(&high), Some(&low)) => match (hex(high), hex(low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => (byte, 1),
            },
            _ => (byte, 1),
        };
        if decoded.len() == TAG_BYTES_MAX {
            return None;
        }
        decoded.push(byte);
        at += len;
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::{TAG_BYTES_MAX, TAGS_MAX, Tags};
    use crate::text::Dialect;

    /// The tags as `key=value` with `;` between them, and how many were left out.
    fn tags(text: &str) -> (String, usize) {
        let mut tags = Tags::new(text, Dialect::Postgres);
        let found: Vec<String> =
            tags.by_ref().map(|tag| format!("{}={}", tag.key, tag.value)).collect();
        (found.join(";"), tags.ignored())
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(tags(text), (expected.to_owned(), 0), "{text}");
    }

    #[test]
    fn tags_follow_or_precede_the_statement() {
        check("SELECT 1 /*app='web',route='%2Fpolls%201'*/", "app=web;route=/polls 1");
        check("SELECT 1 /* app='web' , route='x' */ ; \n", "app=web;route=x");
        check("SELECT 1; /*app='web'*/", "app=web");
        check("/*app='web'*/ SELECT 1", "app=web");
        check("/*+ hint */ /*app='web'*/ SELECT 1 -- end", "app=web");
        check("/*app='a'*/ SELECT 1 /*app='b'*/", "app=b");
        check("/*app='a'*/ SELECT 1 /* b */", "app=a");
        check("SELECT 1 /*app='a'*/ -- done", "app=a");
        check("SELECT 1 /*app='a'*/ + 1", "");
        check("SELECT 1", "");
        check("/*a='b'*/", "a=b");
    }

    #[test]
    fn keys_and_values_are_decoded() {
        check(r"SELECT 1 /*name='O\'Brien'*/", "name=O'Brien");
        check("SELECT 1 /*name='O%27Brien',%C3%BC='%C3%9C'*/", "name=O'Brien;ü=Ü");
        check("SELECT 1 /*a='100%',b='%zz',c='1+1'*/", "a=100%;b=%zz;c=1+1");
        check("SELECT 1 /*empty=''*/", "empty=");
        check("SELECT 1 /*traceparent='00-5bd6-01'*/", "traceparent=00-5bd6-01");
    }

    #[test]
    fn other_comments_have_no_tags() {
        for comment in
            ["a", "a=1", "a='1", "a='1' b='2'", "a='1',", ",a='1'", "='1'", "a b='1'", "a=\"1\""]
        {
            check(&format!("SELECT 1 /*{comment}*/"), "");
        }
        check("SELECT 1 -- a='1'", "");
        check("SELECT 1 /*a='1'", "");
    }

    #[test]
    fn strings_have_no_tags() {
        check("SELECT ' /*a=''1''*/'", "");
        check("SELECT $$ /*a='1'*/$$", "");
        check("SELECT \"/*a='1'*/\"", "");
        check("SELECT '/*' /*a='1'*/", "a=1");
    }

    #[test]
    fn tags_are_bounded_and_the_rest_is_counted() {
        let list =
            |count: usize| (0..count).map(|n| format!("k{n}='v'")).collect::<Vec<_>>().join(",");
        let (found, ignored) = tags(&format!("SELECT 1 /*{}*/", list(TAGS_MAX)));
        assert_eq!((found.matches('=').count(), ignored), (TAGS_MAX, 0));
        let (found, ignored) = tags(&format!("SELECT 1 /*{}*/", list(TAGS_MAX + 7)));
        assert_eq!((found.matches('=').count(), ignored), (TAGS_MAX, 7));
        for plain in ["v", "%76"] {
            let value = plain.repeat(TAG_BYTES_MAX);
            let (found, ignored) = tags(&format!("SELECT 1 /*a='{value}',b='{value}v',c='w'*/"));
            assert_eq!(found, format!("a={};c=w", "v".repeat(TAG_BYTES_MAX)));
            assert_eq!(ignored, 1);
        }
        assert_eq!(tags("SELECT 1 /*a='%FF',b='1'*/"), ("b=1".to_owned(), 1));
    }
}
