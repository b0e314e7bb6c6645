//! The syntax of `Host`: a name or an address, and an optional port (RFC 3986 3.2).

use crate::limits::HOST_BYTES_MAX;
use std::net::Ipv6Addr;

/// Whether a text is a valid `Host`. It may be empty (RFC 9112 3.2), and never contains user information.
pub(crate) fn is_host(text: &[u8]) -> bool {
    if text.len() > HOST_BYTES_MAX {
        return false;
    }
    let (name, port) = match memchr::memrchr(b':', text) {
        Some(colon) if !text[colon..].contains(&b']') => (&text[..colon], &text[colon + 1..]),
        _ => (text, &b""[..]),
    };
    is_port(port) && (is_name(name) || is_literal(name))
}

fn is_port(port: &[u8]) -> bool {
    port.len() <= 5 && port.iter().all(u8::is_ascii_digit)
}

/// RFC 3986's reg-name, without percent-encoding: no host name needs it.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte))
}

fn is_literal(name: &[u8]) -> bool {
    let inner = name.strip_prefix(b"[").and_then(|name| name.strip_suffix(b"]"));
    let inner = inner.and_then(|inner| std::str::from_utf8(inner).ok());
    inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn hosts_are_told_from_others() {
        for text in
            ["", "a", "a.example:80", "192.0.2.1", "[::1]", "[2001:db8::1]:443", "a_b", "a:"]
        {
            assert!(is_host(text.as_bytes()), "{text}");
        }
        for text in [
            "a b", "a,b", "a/b", "u@a", "a:http", "a:123456", "[::1", "::1", "[a]", "a\\b", "a#",
            "a?b", "a%41", "é",
        ] {
            assert!(!is_host(text.as_bytes()), "{text}");
        }
        assert!(!is_host("a".repeat(256).as_bytes()));
    }
}
