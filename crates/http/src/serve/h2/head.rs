//! The head of an HTTP/2 request, written as an HTTP/1.1 head (RFC 9113 8.3).

use http::header::{HOST, TE};
use http::request::Parts;

/// Fields that belong to an HTTP/1.1 connection and make an HTTP/2 request malformed (RFC 9113 8.2.2).
const FORBIDDEN: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// The head, including its empty line.
pub(super) fn text(parts: &Parts, has_ended: bool) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(512);
    let target = parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    if target.is_empty() {
        return Err("the request has no :path");
    }
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    push(&mut out, b"host", host(parts)?);
    let mut cookies: Vec<u8> = vec![];
    for (name, value) in &parts.headers {
        let name = name.as_str();
        if FORBIDDEN.contains(&name) {
            return Err("a request over HTTP/2 has a connection-specific field of HTTP/1.1");
        }
        match name {
            "host" => {}
            // RFC 9113 8.2.3: a cookie may be split into several fields.
            "cookie" => {
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value.as_bytes());
            }
            _ => push(&mut out, name.as_bytes(), value.as_bytes()),
        }
    }
    if parts.headers.get_all(TE).iter().any(|te| te != "trailers") {
        return Err("TE says more than trailers in a request of HTTP/2");
    }
    if !cookies.is_empty() {
        push(&mut out, b"cookie", &cookies);
    }
    if !has_ended && !parts.headers.contains_key(http::header::CONTENT_LENGTH) {
        push(&mut out, b"transfer-encoding", b"chunked");
    }
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

/// The host: `:authority`. A `host` field must match it.
fn host(parts: &Parts) -> Result<&[u8], &'static str> {
    let mut fields = parts.headers.get_all(HOST).iter();
    let (field, more) = (fields.next(), fields.next());
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    match (authority, field.map(http::HeaderValue::as_bytes)) {
        _ if more.is_some() => Err("there are two host fields"),
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            Err(":authority and host name different hosts")
        }
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err("the request names no host"),
    }
}

fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::text;
    use http::Request;

    fn check(
        build: impl FnOnce(http::request::Builder) -> http::request::Builder,
    ) -> Result<String, &'static str> {
        let request = build(Request::builder().uri("https://a.example/x?y")).body(()).unwrap();
        text(&request.into_parts().0, false).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_head_is_written_as_http1() {
        let head = check(|b| {
            b.method("POST").header("X-A", "1").header("cookie", "a=1").header("cookie", "b=2")
        });
        assert_eq!(
            head.unwrap(),
            "POST /x?y HTTP/1.1\r\nhost: a.example\r\nx-a: 1\r\ncookie: a=1; b=2\r\n\
             transfer-encoding: chunked\r\n\r\n"
        );
        let head = check(|b| b.header("content-length", "5")).unwrap();
        assert!(!head.contains("chunked"), "{head}");
    }

    #[test]
    fn what_rfc_9113_forbids_is_refused() {
        for (name, value) in [
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("keep-alive", "1"),
            ("te", "gzip"),
            ("host", "b.example"),
        ] {
            assert!(check(|b| b.header(name, value)).is_err(), "{name}");
        }
        assert!(check(|b| b.header("te", "trailers").header("host", "a.example")).is_ok());
        let alone = Request::builder().uri("/x").body(()).unwrap().into_parts().0;
        assert!(text(&alone, true).is_err(), "no host at all");
    }
}
