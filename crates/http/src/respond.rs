//! The one place where refusals and failures become HTTP responses.
//!
//! No other module of this crate chooses a status. Every response states in one sentence what happened and where: as
//! JSON if the client accepts JSON, else as text. A frontend can replace this body for a status with a page of its
//! own.

use crate::date;
use crate::serve::{Failure, Unfit, tls_why};
use crate::wire::{HeadError, line, number_line, push_number};
use paceline_host::Quota;
use paceline_types::{Place, Reason, Refusal, Time};
use std::borrow::Cow;
use std::fmt::Write as _;

/// A page that replaces the usual body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

/// A response that the daemon makes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub status: u16,
    /// A word that programs match on.
    pub word: &'static str,
    /// One sentence for people.
    pub message: Cow<'static, str>,
    place: Option<Place>,
    rule: Option<u32>,
    retry_after: Option<u64>,
    /// The limit that refused the request, as `RateLimit-Policy` reports it.
    quota: Option<Quota>,
}

impl Reply {
    /// A response with this status and message.
    fn new(status: u16, word: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self { status, word, message, place: None, rule: None, retry_after: None, quota: None }
    }

    /// The response to a head that cannot be parsed.
    pub fn bad_head(error: HeadError) -> Self {
        let status = match error {
            HeadError::TooLong => 431,
            HeadError::TargetTooLong => 414,
            HeadError::Expectation => 417,
            HeadError::Connect => 405,
            HeadError::Bad(_) => 400,
        };
        Self::new(status, "bad_request", error.text())
    }

    /// The response to a request that is invalid for another reason.
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "bad_request", message)
    }

    /// The response to a head that times out.
    pub fn slow_head() -> Self {
        Self::new(408, "timeout", "the head of the request was not received in time")
    }

    /// The response to a head that rules cannot evaluate.
    pub fn unfit(unfit: &Unfit) -> Self {
        match unfit {
            Unfit::TooMuch(error) => Self::new(431, "too_long", error.to_string()),
            Unfit::Credentials(text) => Self::bad_request(*text),
        }
    }

    /// The response to a body that is too long.
    pub fn body_too_long() -> Self {
        Self::new(413, "too_large", "the body of the request is longer than the frontend allows")
    }

    /// The response when an edit has removed the server.
    pub fn no_server() -> Self {
        Self::new(503, "no_server", "the server was taken out of the configuration")
    }

    /// The response when an edit has removed the frontend whose address the request arrived at.
    pub fn no_frontend() -> Self {
        Self::new(503, "no_frontend", "no frontend listens at this address any more")
    }

    /// The response when no server can be connected to. It does not name servers or their addresses; the access log
    /// does. `tls` describes the TLS failure, if TLS failed.
    pub fn unreachable(tls: Option<&'static str>) -> Self {
        const MESSAGE: &str = "the server cannot be connected to";
        match tls {
            Some(why) => Self::new(502, "bad_gateway", format!("{MESSAGE}: TLS: {why}")),
            None => Self::new(502, "bad_gateway", MESSAGE),
        }
    }

    /// The response to a request that would need more memory than is left.
    pub fn no_room(message: &'static str) -> Self {
        Self::new(503, "exhausted", message)
    }

    /// The response when all descriptors for connections to servers are in use, or the backend has used its share.
    pub fn no_descriptor(is_share_used: bool) -> Self {
        let message = match is_share_used {
            true => "the backend has used up its share of connections to servers",
            false => "there are too many connections to servers",
        };
        Self::new(503, "exhausted", message)
    }

    /// The response in place of a missing one; none if the client has disconnected.
    pub fn failed(failure: &Failure) -> Option<Self> {
        Some(match failure {
            Failure::ClientLeft => return None,
            Failure::ClientSlow => {
                Self::new(408, "timeout", "the body of the request was not received in time")
            }
            Failure::Body(text) => Self::bad_request(*text),
            Failure::BodyTooLong => Self::body_too_long(),
            Failure::NoRoom(text) => Self::no_room(text),
            Failure::Broken(error) | Failure::BrokenOff(error) => match tls_why(error) {
                Some(why) => {
                    let message = format!("the server closed the connection: TLS: {why}");
                    Self::new(502, "bad_gateway", message)
                }
                None => Self::new(502, "bad_gateway", "the server closed the connection"),
            },
            Failure::Response(_) => {
                Self::new(502, "bad_gateway", "the response of the server cannot be passed on")
            }
            Failure::ServerSlow => {
                Self::new(504, "gateway_timeout", "the server did not answer in time")
            }
        })
    }

    /// The response to a request that was refused at `now`. `quota` is the limit of the checkpoint that refused it.
    pub fn refused(refusal: &Refusal, now: Time, quota: Option<Quota>) -> Self {
        let (status, word) = status(&refusal.reason);
        let status = refusal.status.unwrap_or(status);
        let mut reply = Self::new(status, word, refusal.reason.to_string());
        let is_passing = matches!(status, 429 | 503);
        let seconds = refusal.retry_at.map(|at| at.since(now).0.div_ceil(1_000_000_000));
        // A slot becomes free when another request ends. That moment is unknown; soon is the best guess.
        reply.retry_after = is_passing.then(|| seconds.unwrap_or(1).max(1));
        if let Reason::Rejected { rule } = refusal.reason {
            reply.rule = Some(rule);
        }
        reply.place = refusal.reason.place().cloned();
        reply.quota = quota;
        reply
    }

    /// The name and value of each field in the head, except the fields of the body and of the connection.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![];
        if let Some(seconds) = self.retry_after {
            fields.push(("Retry-After", seconds.to_string()));
        }
        if let (Some(quota), Some(Place::Checkpoint { name, .. })) = (&self.quota, &self.place) {
            let name = quoted(name);
            let mut said = format!("{name};q={}", quota.count);
            if let Some(window) = quota.window {
                let _ = write!(said, ";w={}", window.0.div_ceil(1_000_000_000).max(1));
            }
            fields.push(("RateLimit-Policy", said));
            let seconds = self.retry_after.unwrap_or(1);
            fields.push(("RateLimit", format!("{name};r=0;t={seconds}")));
        }
        fields
    }

    /// The body and its media type.
    pub fn body<'a>(&self, page: Option<&'a Page>, is_json: bool) -> (Cow<'a, [u8]>, &'static str) {
        match page {
            Some(page) => (Cow::Borrowed(&page.body), page.content_type),
            None if is_json => (Cow::Owned(self.json().into_bytes()), "application/json"),
            None => {
                let text = format!("{} {}\n", self.status, self.message);
                (Cow::Owned(text.into_bytes()), "text/plain; charset=utf-8")
            }
        }
    }

    fn json(&self) -> String {
        let mut text = String::from("{\"error\":");
        push_json(&mut text, self.word);
        text.push_str(",\"message\":");
        push_json(&mut text, &self.message);
        let _ = write!(text, ",\"status\":{}", self.status);
        self.push_place(&mut text);
        if let Some(seconds) = self.retry_after {
            let _ = write!(text, ",\"retry_after\":{seconds}");
        }
        text.push_str("}\n");
        text
    }

    /// Adds the place that refused the request, if any, to a JSON object.
    pub fn push_place(&self, out: &mut String) {
        match &self.place {
            Some(Place::Checkpoint { name, key }) => {
                out.push_str(",\"checkpoint\":");
                push_json(out, name);
                if let Some(key) = key {
                    out.push_str(",\"key\":");
                    push_json(out, key);
                }
            }
            Some(Place::Pool(name)) => {
                out.push_str(",\"pool\":");
                push_json(out, name);
            }
            None => {}
        }
        if let Some(rule) = self.rule {
            let _ = write!(out, ",\"rule\":{rule}");
        }
    }

    /// Writes the whole response as HTTP/1.1. Returns the length of its body.
    pub fn write(&self, how: How<'_>, out: &mut Vec<u8>) -> usize {
        let (body, content_type) = self.body(how.page, how.is_json);
        out.extend_from_slice(b"HTTP/1.1 ");
        push_number(out, u64::from(self.status));
        out.push(b' ');
        out.extend_from_slice(phrase(self.status).as_bytes());
        out.extend_from_slice(b"\r\n");
        line(out, b"Date", date::http(how.wall_ms).as_bytes());
        line(out, b"Content-Type", content_type.as_bytes());
        number_line(out, b"Content-Length", body.len() as u64);
        line(out, b"Cache-Control", b"no-store");
        for (name, value) in self.fields() {
            line(out, name.as_bytes(), value.as_bytes());
        }
        if self.status == 405 {
            line(out, b"Allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        }
        match (how.keeps, how.is_11) {
            (false, _) => line(out, b"Connection", b"close"),
            (true, false) => line(out, b"Connection", b"keep-alive"),
            (true, true) => {}
        }
        out.extend_from_slice(b"\r\n");
        let sent = if how.is_head { &[] } else { &*body };
        out.extend_from_slice(sent);
        sent.len()
    }
}

/// How a response is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How<'a> {
    pub page: Option<&'a Page>,
    pub is_json: bool,
    pub is_head: bool,
    pub keeps: bool,
    /// Whether the client speaks HTTP/1.1.
    pub is_11: bool,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

/// The usual status of a reason, and its word.
fn status(reason: &Reason) -> (u16, &'static str) {
    match reason {
        Reason::Rejected { .. } => (403, "rejected"),
        Reason::QueueFull { .. } => (503, "queue_full"),
        Reason::TooLong { .. } => (503, "too_long"),
        Reason::Expired { .. } => (503, "expired"),
        Reason::CostTooHigh { .. } => (503, "cost_too_high"),
        Reason::Draining { .. } | Reason::Ending => (503, "draining"),
        Reason::NoBackend { .. } => (503, "no_backend"),
        Reason::NoServer { .. } => (503, "no_server"),
        Reason::BackendDeleted { .. } => (503, "no_backend"),
        Reason::UnknownResource { .. } => (503, "unknown_resource"),
        Reason::TooWide { .. } => (503, "too_wide"),
        Reason::BlocksItself { .. } => (503, "blocks_itself"),
        Reason::Deadlock { .. } => (503, "deadlock"),
        Reason::NotOwner { .. } => (503, "not_owner"),
        Reason::Cancelled { .. } => (503, "cancelled"),
        Reason::Exhausted { .. } => (503, "exhausted"),
    }
}

/// The reason phrase of a status (RFC 9110 15).
pub(crate) const fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Refused",
    }
}

/// A name as a string of structured fields (RFC 9651 3.3.3), which allows only ASCII.
fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            ' '..='~' => text.push(c),
            _ => text.push('?'),
        }
    }
    text.push('"');
    text
}

/// Writes a JSON string, and escapes every character that could move a terminal's cursor or end a line: all control
/// characters, including those beyond ASCII, and the two Unicode separators.
pub(crate) fn push_json(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::{HeadError, How, Quota, Reply, push_json};
    use paceline_types::{Place, Reason, Refusal, Span, Time};

    fn refusal(status: Option<u16>) -> Refusal {
        let place = Place::Checkpoint { name: "per \"user\"".into(), key: Some("a\nb".into()) };
        let reason = Reason::QueueFull { place, max: 5 };
        Refusal { reason, retry_at: Some(Time(2_500_000_000)), status }
    }

    fn written(reply: &Reply, is_json: bool, is_head: bool) -> String {
        let mut out = vec![];
        reply.write(
            How {
                page: None,
                is_json,
                is_head,
                keeps: false,
                is_11: true,
                wall_ms: 784_111_777_000,
            },
            &mut out,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_refusal_names_checkpoint_reason_and_time_to_come_back() {
        let quota = Quota { count: 100, window: Some(Span::from_secs(60)) };
        let reply = Reply::refused(&refusal(Some(429)), Time(1_000_000_000), Some(quota));
        let text = written(&reply, true, false);
        assert!(text.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{text}");
        assert!(text.contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "{text}");
        assert!(text.contains("\r\nRetry-After: 2\r\n"), "rounded up: {text}");
        assert!(
            text.contains("\r\nRateLimit-Policy: \"per \\\"user\\\"\";q=100;w=60\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\nRateLimit: \"per \\\"user\\\"\";r=0;t=2\r\n"), "{text}");
        let body = text.split_once("\r\n\r\n").unwrap().1;
        assert!(body.contains("\"checkpoint\":\"per \\\"user\\\"\",\"key\":\"a\\nb\""), "{body}");
        assert!(body.contains("\"error\":\"queue_full\"") && body.contains("\"retry_after\":2"));
        assert_eq!(Reply::refused(&refusal(None), Time(0), None).status, 503);
    }

    #[test]
    fn json_has_nothing_that_moves_a_cursor_or_ends_a_line() {
        let mut out = String::new();
        push_json(
            &mut out,
            "a\"\\\n\t\u{1b}\u{7f}\u{80}\u{85}\u{9b}2J\u{9f}\u{a0}é\u{2028}\u{2029}😀",
        );
        let escaped = r#""a\"\\\n\u0009\u001b\u007f\u0080\u0085\u009b2J\u009f"#;
        assert_eq!(out, format!("{escaped}\u{a0}é{}😀\"", r"\u2028\u2029"));
    }

    /// H1: an ambiguous head gets 400; a head that is too long gets a status of its own (RFC 9110 15.5, RFC 6585 5).
    #[test]
    fn every_wrong_head_has_its_status_h1_d2() {
        for (error, status) in [
            (HeadError::Bad("x"), 400),
            (HeadError::Connect, 405),
            (HeadError::TargetTooLong, 414),
            (HeadError::Expectation, 417),
            (HeadError::TooLong, 431),
        ] {
            assert_eq!(Reply::bad_head(error).status, status, "{error:?}");
        }
    }

    #[test]
    fn head_has_no_body_and_rules_forbid() {
        let refusal = Refusal::lasting(Reason::Rejected { rule: 7 });
        let reply = Reply::refused(&refusal, Time(0), None);
        let text = written(&reply, false, true);
        assert!(
            text.starts_with("HTTP/1.1 403 Forbidden\r\n") && text.ends_with("\r\n\r\n"),
            "{text}"
        );
        assert!(!text.contains("Retry-After"), "another try has no chance");
        assert!(written(&reply, true, false).contains("\"rule\":7"));
    }
}
