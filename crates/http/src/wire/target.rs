//! The target of a request, normalized so that rules match exactly what servers get (H4).
//!
//! In a path, percent-encoded unreserved characters are decoded, and other encodings are written in upper case.
//! Characters that are not allowed in a path are encoded. Dot segments are removed (RFC 3986 6.2.2). An encoded slash
//! stays encoded, and repeated slashes stay. A query is not changed. Invalid encodings and encoded control characters
//! are refused.

use super::field::Piece;
use super::host::is_host;
use super::request::HeadError;

/// The target of a request. Positions are relative to the head.
#[derive(Debug, Default)]
pub(crate) struct Target {
    path: Piece,
    /// The normalized path, if it differs.
    normal: Option<String>,
    pub query: Option<Piece>,
    /// The host, from the target or the `Host` field; empty if there is none.
    authority: Piece,
    /// The normalized host, if it differs.
    normal_authority: Option<String>,
    /// Whether the target itself contains the host.
    pub has_authority: bool,
}

/// Why a target is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetError {
    /// It is neither a path nor `http://HOST/PATH`.
    Form,
    /// A percent sign is not followed by two hexadecimal digits.
    Encoding,
    /// A control character is encoded in the path.
    Control,
    /// It has a fragment.
    Fragment,
}

impl TargetError {
    /// As an error of the head.
    pub const fn bad(self) -> HeadError {
        HeadError::Bad(match self {
            Self::Form => "the target is neither a path nor http://HOST/PATH",
            Self::Encoding => "the path has a percent sign without two digits",
            Self::Control => "the path has an encoded control character",
            Self::Fragment => "the target has a fragment",
        })
    }
}

impl Target {
    /// Parses `target`, a part of `bytes`. The target `*` is only for `OPTIONS`.
    pub fn read(
        &mut self,
        bytes: &[u8],
        target: &[u8],
        is_options: bool,
    ) -> Result<(), TargetError> {
        (self.authority, self.normal_authority) = (Piece::default(), None);
        self.has_authority = false;
        self.query = None;
        self.normal = None;
        let rest = match target {
            [b'/', ..] => target,
            b"*" if is_options => {
                self.path = Piece::of(bytes, target);
                return Ok(());
            }
            _ => self.read_absolute(bytes, target)?,
        };
        let (path, query) = match memchr::memchr(b'?', rest) {
            Some(mark) => (&rest[..mark], Some(&rest[mark + 1..])),
            None => (rest, None),
        };
        if memchr::memchr(b'#', rest).is_some() {
            return Err(TargetError::Fragment);
        }
        self.query = query.map(|query| Piece::of(bytes, query));
        self.path = Piece::of(bytes, path);
        self.normal = match normal(path)? {
            _ if path.is_empty() => Some("/".into()),
            normal => normal,
        };
        Ok(())
    }

    /// The normalized path.
    pub fn path<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match &self.normal {
            Some(normal) => normal.as_bytes(),
            None => self.path.of_bytes(bytes),
        }
    }

    /// The query, without the question mark; empty if there is none.
    pub fn query<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.query.unwrap_or_default().of_bytes(bytes)
    }

    /// The normalized host: lower case, without trailing dots, and without a default port (RFC 3986 6.2.3).
    pub fn authority<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match &self.normal_authority {
            Some(normal) => normal.as_bytes(),
            None => self.authority.of_bytes(bytes),
        }
    }

    /// Sets the host, which was already checked.
    pub fn set_authority(&mut self, bytes: &[u8], authority: Piece) {
        self.authority = authority;
        self.normal_authority = normal_host(authority.of_bytes(bytes));
    }

    /// Splits the scheme and the host off `http://HOST/PATH`.
    fn read_absolute<'a>(
        &mut self,
        bytes: &[u8],
        target: &'a [u8],
    ) -> Result<&'a [u8], TargetError> {
        let has_scheme = |scheme: &[u8]| {
            target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        let scheme_len = match () {
            () if has_scheme(b"http://") => 7,
            () if has_scheme(b"https://") => 8,
            () => return Err(TargetError::Form),
        };
        let rest = &target[scheme_len..];
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        let (host, rest) = rest.split_at(end);
        if host.is_empty() || !is_host(host) {
            return Err(TargetError::Form);
        }
        self.set_authority(bytes, Piece::of(bytes, host));
        self.has_authority = true;
        Ok(rest)
    }
}

/// The normalized host; none if it does not differ.
fn normal_host(host: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(host).ok()?;
    let bare = text.strip_suffix(":80").or(text.strip_suffix(":443")).unwrap_or(text);
    let bare = bare.strip_suffix(':').unwrap_or(bare);
    let (name, port) = match bare.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (bare, None),
    };
    // All trailing dots are removed: with one left, normalizing again would change the result.
    let name = name.trim_end_matches('.');
    let len = name.len() + port.map_or(0, |port| 1 + port.len());
    // Most hosts are already normalized: nothing was removed, and nothing is in upper case.
    if len == text.len() && !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let name = name.to_ascii_lowercase();
    Some(port.map_or_else(|| name.clone(), |port| format!("{name}:{port}")))
}

/// The byte that is percent-encoded at `at`.
fn encoded(text: &[u8], at: usize) -> Option<u8> {
    let digit = |at: usize| (*text.get(at)? as char).to_digit(16);
    Some((digit(at + 1)? * 16 + digit(at + 2)?) as u8)
}

/// The normalized path; none if it does not differ.
fn normal(path: &[u8]) -> Result<Option<String>, TargetError> {
    let is_plain = |byte: &u8| is_path_byte(*byte) && *byte != b'%';
    if path.iter().all(is_plain) && !has_dots(path) {
        return Ok(None);
    }
    let text = recoded(path)?;
    Ok(Some(if has_dots(text.as_bytes()) { without_dots(&text) } else { text }))
}

/// Writes each character in its normalized form.
fn recoded(path: &[u8]) -> Result<String, TargetError> {
    let mut text = String::with_capacity(path.len() + 16);
    let mut at = 0;
    while let Some(byte) = path.get(at).copied() {
        at += 1;
        if byte != b'%' {
            push(&mut text, byte, is_path_byte(byte));
            continue;
        }
        let byte = encoded(path, at - 1).ok_or(TargetError::Encoding)?;
        if byte.is_ascii_control() {
            return Err(TargetError::Control);
        }
        at += 2;
        push(&mut text, byte, is_unreserved(byte));
    }
    Ok(text)
}

fn push(text: &mut String, byte: u8, is_plain: bool) {
    if is_plain {
        text.push(byte as char);
        return;
    }
    let digit = |digit: u8| char::from(if digit < 10 { b'0' + digit } else { b'A' + digit - 10 });
    text.push('%');
    text.push(digit(byte >> 4));
    text.push(digit(byte & 15));
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a byte is allowed in a path without encoding (RFC 3986 3.3).
const fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'/' | b':'
                | b'@'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b'%'
        )
}

/// Whether a segment is `.` or `..`.
fn has_dots(path: &[u8]) -> bool {
    memchr::memmem::find(path, b"/.").is_some()
        && path.split(|byte| *byte == b'/').any(|segment| segment == b"." || segment == b"..")
}

/// Removes dot segments (RFC 3986 5.2.4). `..` at the root has no effect.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = vec![];
    let mut ends_open = false;
    for segment in path.split('/').skip(1) {
        ends_open = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    let mut text = String::with_capacity(path.len());
    for segment in &kept {
        text.push('/');
        text.push_str(segment);
    }
    if ends_open || kept.is_empty() {
        text.push('/');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Target, TargetError};

    fn check(target: &str) -> Result<(String, String, String), TargetError> {
        let mut read = Target::default();
        let bytes = target.as_bytes();
        read.read(bytes, bytes, false)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok((text(read.path(bytes)), text(read.query(bytes)), text(read.authority(bytes))))
    }

    #[test]
    fn rules_match_what_is_forwarded_h4() {
        for (target, path) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/../../a", "/a"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/%61dmin", "/admin"),
            ("/%2e%2e/%2E./admin", "/admin"),
            ("/a%2fb", "/a%2Fb"),
            ("/a//b", "/a//b"),
            ("/..a/.b", "/..a/.b"),
            ("/a%c3%a9", "/a%C3%A9"),
            ("/a|b\"<>\\^`{}", "/a%7Cb%22%3C%3E%5C%5E%60%7B%7D"),
            ("/~x", "/~x"),
            ("/%7ex", "/~x"),
            ("http://a.example", "/"),
            ("HTTP://a.example:80/x/../y", "/y"),
        ] {
            assert_eq!(check(target).unwrap().0, path, "{target}");
        }
    }

    #[test]
    fn the_parts_of_a_target_are_told_apart() {
        let text = |a: &str, b: &str, c: &str| Ok((a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(check("/a?b=%2e&c?d"), text("/a", "b=%2e&c?d", ""));
        assert_eq!(check("/?100%"), text("/", "100%", ""), "a query is not looked into");
        assert_eq!(check("https://h:1?q"), text("/", "q", "h:1"));
        for (target, error) in [
            ("a", TargetError::Form),
            ("*", TargetError::Form),
            ("ftp://h/", TargetError::Form),
            ("http:///a", TargetError::Form),
            ("http://u@h/a", TargetError::Form),
            ("/%zz", TargetError::Encoding),
            ("/%4", TargetError::Encoding),
            ("/%00", TargetError::Control),
            ("/%0d%0a", TargetError::Control),
            ("/a#b", TargetError::Fragment),
        ] {
            assert_eq!(check(target), Err(error), "{target}");
        }
    }

    #[test]
    fn hosts_have_one_form_h4() {
        for (host, normal) in [
            ("a.example", "a.example"),
            ("A.Example", "a.example"),
            ("a.example.", "a.example"),
            ("a.example..:80", "a.example"),
            ("a.example:80", "a.example"),
            ("a.example.:443", "a.example"),
            ("a.example:8080", "a.example:8080"),
            ("A.EXAMPLE.:8080", "a.example:8080"),
            ("a.example:", "a.example"),
            ("[2001:DB8::80]", "[2001:db8::80]"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"),
            ("192.0.2.80", "192.0.2.80"),
        ] {
            assert_eq!(check(&format!("http://{host}/")).unwrap().2, normal, "{host}");
        }
    }

    /// Normalizing a normalized target changes nothing.
    #[test]
    fn the_normal_form_is_its_own_h4() {
        for target in ["/a/%2e%2e/%25/b%2F..", "/%25%32%65/x", "/a|%7c%2f/..", "/./.%2e/%41"] {
            let once = check(target).unwrap().0;
            assert_eq!(check(&once).unwrap().0, once, "{target}");
        }
    }
}
