//! Heads written anew from what was read (H2), without what is only between two neighbours (H3).

use super::body::Framing;
use super::field::{Field, Fields, Header};
use super::request::RequestHead;
use super::response::ResponseHead;

/// What a server is told of where a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded<'a> {
    /// The address of the peer, the neighbour on this connection.
    pub peer: &'a str,
    pub is_tls: bool,
    /// Whether what the peer says of others is believed, and passed on (H5).
    pub trusts: bool,
}

/// Writes the head of a request to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestWriter<'a> {
    pub head: &'a RequestHead,
    /// What the head was read from.
    pub bytes: &'a [u8],
    pub forwarded: Forwarded<'a>,
    /// Whether the upgrade that it may ask for passes.
    pub upgrades: bool,
}

impl RequestWriter<'_> {
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { head, bytes, .. } = *self;
        out.reserve(bytes.len() + 128);
        out.extend_from_slice(head.method(bytes));
        out.push(b' ');
        out.extend_from_slice(head.target.path(bytes));
        if head.target.query.is_some() {
            out.push(b'?');
            out.extend_from_slice(head.target.query(bytes));
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        self.each(|_| true, |name, value| line(out, name, value));
        out.extend_from_slice(b"\r\n");
    }

    /// Adds to `out` what the server reads under a name, whatever its case; several fields are one, with
    /// commas. Whether there are any.
    pub fn read(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let mut is_found = false;
        let is_wanted = |own: &[u8]| own.len() == name.len() && own.eq_ignore_ascii_case(name);
        self.each(is_wanted, |_, value| {
            if is_found {
                out.extend_from_slice(b", ");
            }
            is_found = true;
            out.extend_from_slice(value);
        });
        is_found
    }

    /// The values of a field of the client's that pass, in their order.
    pub fn passing(&self, header: Header) -> impl Iterator<Item = &[u8]> {
        let fields = self.head.fields.iter();
        let ours = fields.filter(move |field| field.header == header && self.passes(field));
        ours.map(|field| field.value.of_bytes(self.bytes))
    }

    /// Takes the fields that the server gets, in the order they are written: those whose name
    /// `is_wanted`. This is the one place that knows them, for servers as for rules (H4).
    fn each(&self, is_wanted: impl Fn(&[u8]) -> bool, mut take: impl FnMut(&[u8], &[u8])) {
        if is_wanted(b"Host") {
            take(b"Host", self.head.target.authority(self.bytes));
        }
        for field in self.head.fields.iter() {
            let name = field.name.of_bytes(self.bytes);
            // The name first: who wants one field need not know whether others pass.
            if is_wanted(name) && self.passes(field) {
                take(name, field.value.of_bytes(self.bytes));
            }
        }
        self.each_origin(&is_wanted, &mut take);
        self.each_of_connection(&is_wanted, &mut take);
    }

    /// Whether a field passes as the client sent it.
    fn passes(&self, field: &Field) -> bool {
        let passes = match field.header {
            Header::Host
            | Header::Connection
            | Header::Hop
            | Header::ContentLength
            | Header::TransferEncoding
            | Header::Te
            | Header::Upgrade
            | Header::XForwardedFor => false,
            Header::Expect => self.head.expects,
            Header::Forwarded | Header::XForwardedHost | Header::XForwardedProto => {
                self.forwarded.trusts
            }
            Header::Authorization | Header::Cookie | Header::Trailer | Header::Other => true,
        };
        passes && !is_double(field.name.of_bytes(self.bytes))
    }

    /// The fields that tell where it came from.
    fn each_origin(&self, is_wanted: &impl Fn(&[u8]) -> bool, take: &mut impl FnMut(&[u8], &[u8])) {
        const FOR: &[u8] = b"X-Forwarded-For";
        const PROTO: &[u8] = b"X-Forwarded-Proto";
        const HOST: &[u8] = b"X-Forwarded-Host";
        let Self { head, bytes, forwarded, .. } = *self;
        let has = |header| forwarded.trusts && head.fields.all(header, bytes).next().is_some();
        if is_wanted(FOR) {
            match forwarded.trusts {
                true => take(FOR, &self.chain()),
                false => take(FOR, forwarded.peer.as_bytes()),
            }
        }
        if is_wanted(PROTO) && !has(Header::XForwardedProto) {
            take(PROTO, if forwarded.is_tls { b"https" } else { b"http" });
        }
        if is_wanted(HOST) && !has(Header::XForwardedHost) {
            take(HOST, head.target.authority(bytes));
        }
    }

    /// The fields that tell how the message goes on, and the connection.
    fn each_of_connection(
        &self,
        is_wanted: &impl Fn(&[u8]) -> bool,
        take: &mut impl FnMut(&[u8], &[u8]),
    ) {
        const LENGTH: &[u8] = b"Content-Length";
        let Self { head, bytes, .. } = *self;
        let mut say = |name: &[u8], value: &[u8]| {
            if is_wanted(name) {
                take(name, value);
            }
        };
        match head.framing {
            Framing::Length(length) => say(LENGTH, digits(length, &mut [0; 20])),
            Framing::Chunked => say(b"Transfer-Encoding", b"chunked"),
            // Said where it was said: a server may want it of a method that usually has a body.
            Framing::None if head.fields.all(Header::ContentLength, bytes).next().is_some() => {
                say(LENGTH, b"0");
            }
            Framing::None | Framing::Close => {}
        }
        if let Some(protocol) = head.upgrade.filter(|_| self.upgrades) {
            say(b"Upgrade", protocol.of_bytes(bytes));
            say(b"Connection", b"Upgrade");
        } else if (is_wanted(b"TE") || is_wanted(b"Connection")) && takes_trailers(head, bytes) {
            say(b"TE", b"trailers");
            say(b"Connection", b"TE");
        }
    }

    /// The peer, behind those that it speaks for.
    fn chain(&self) -> Vec<u8> {
        let mut all = vec![];
        let fields = self.head.fields.all(Header::XForwardedFor, self.bytes);
        for value in fields.filter(|value| !value.is_empty()) {
            all.extend_from_slice(value);
            all.extend_from_slice(b", ");
        }
        all.extend_from_slice(self.forwarded.peer.as_bytes());
        all
    }
}

/// Whether the client says that it minds trailers: they are passed on to it, so the server may know.
fn takes_trailers(head: &RequestHead, bytes: &[u8]) -> bool {
    let mut values = head.fields.all(Header::Te, bytes).flat_map(|te| te.split(|b| *b == b','));
    values.any(|te| super::byte::trimmed(te).eq_ignore_ascii_case(b"trailers"))
}

/// Writes the head of a server's response to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseWriter<'a> {
    pub head: &'a ResponseHead,
    /// What the head was read from.
    pub bytes: &'a [u8],
    /// Whether the client speaks HTTP/1.1.
    pub is_11: bool,
    /// Whether the connection is kept for another request, as far as the client goes.
    pub keeps: bool,
    /// Whether the response is the answer to an upgrade, which passes.
    pub upgrades: bool,
}

impl ResponseWriter<'_> {
    /// How the body is written behind the head: a client of HTTP/1.0 cannot read chunks.
    pub const fn framing(&self) -> Framing {
        match self.head.framing {
            Framing::Chunked | Framing::Close if self.is_11 => Framing::Chunked,
            Framing::Chunked | Framing::Close => Framing::Close,
            framing => framing,
        }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { head, bytes, .. } = *self;
        out.reserve(bytes.len() + 64);
        out.extend_from_slice(b"HTTP/1.1 ");
        push_number(out, u64::from(head.status));
        out.push(b' ');
        out.extend_from_slice(head.reason.of_bytes(bytes));
        out.extend_from_slice(b"\r\n");
        for field in head.fields.iter().filter(|field| self.passes(field)) {
            line(out, field.name.of_bytes(bytes), field.value.of_bytes(bytes));
        }
        self.write_connection(out);
        out.extend_from_slice(b"\r\n");
    }

    fn passes(&self, field: &Field) -> bool {
        match field.header {
            Header::Connection
            | Header::Hop
            | Header::ContentLength
            | Header::TransferEncoding
            | Header::Te => false,
            Header::Upgrade => self.upgrades,
            _ => true,
        }
    }

    fn write_connection(&self, out: &mut Vec<u8>) {
        if self.upgrades {
            line(out, b"Connection", b"Upgrade");
            return;
        }
        if self.head.status < 200 {
            return;
        }
        match (self.framing(), self.head.length) {
            // RFC 9110 8.6: 204 has no length.
            _ if self.head.status == 204 => {}
            (Framing::Chunked, _) => line(out, b"Transfer-Encoding", b"chunked"),
            (Framing::Close, _) => {}
            (Framing::Length(length), _) | (Framing::None, Some(length)) => {
                number_line(out, b"Content-Length", length);
            }
            (Framing::None, None) => {}
        }
        match (self.keeps, self.is_11) {
            (false, _) => line(out, b"Connection", b"close"),
            (true, false) => line(out, b"Connection", b"keep-alive"),
            (true, true) => {}
        }
    }
}

/// Whether a name with underscores would be taken for a field that the proxy minds by servers that turn
/// both signs into one, as CGI does.
fn is_double(name: &[u8]) -> bool {
    if memchr::memchr(b'_', name).is_none() {
        return false;
    }
    let dashed: Vec<u8> = name.iter().map(|b| if *b == b'_' { b'-' } else { *b }).collect();
    Header::named(&dashed) != Header::Other
}

/// Writes the trailers of a body that pass.
pub(crate) fn write_trailers(trailers: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    read_trailers(trailers, |name, value| line(out, name, value))
}

/// The trailers of a body that pass, by name and value: checked, without those that say how to read a
/// message or whom it is for (RFC 9110 6.5.1).
pub(crate) fn read_trailers(
    trailers: &[u8],
    mut pass: impl FnMut(&[u8], &[u8]),
) -> Result<(), &'static str> {
    if trailers.is_empty() {
        return Ok(());
    }
    let mut fields = Fields::default();
    fields.read(trailers, trailers).map_err(super::field::FieldError::text)?;
    for field in fields.iter().filter(|field| field.header == Header::Other) {
        let name = field.name.of_bytes(trailers);
        if !is_for_heads(name) {
            pass(name, field.value.of_bytes(trailers));
        }
    }
    Ok(())
}

/// Whether a field means something only before the body.
fn is_for_heads(name: &[u8]) -> bool {
    const NAMES: [&str; 14] = [
        "age",
        "cache-control",
        "date",
        "expires",
        "location",
        "max-forwards",
        "pragma",
        "range",
        "retry-after",
        "set-cookie",
        "vary",
        "www-authenticate",
        "authentication-info",
        "accept",
    ];
    const STARTS: [&str; 3] = ["content-", "if-", "accept-"];
    let starts = |start: &&str| {
        name.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes()))
    };
    let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
    NAMES.iter().any(is) || STARTS.iter().any(starts)
}

/// Writes one field.
#[inline]
pub(crate) fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes one field whose value is a number.
pub(crate) fn number_line(out: &mut Vec<u8>, name: &[u8], value: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    push_number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Writes a number.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(digits(number, &mut [0; 20]));
}

/// The digits of a number.
fn digits(mut number: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut first = room.len();
    loop {
        first -= 1;
        room[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    &room[first..]
}

#[cfg(test)]
mod tests {
    use super::{Forwarded, RequestWriter, ResponseWriter, write_trailers};
    use crate::wire::request::RequestHead;
    use crate::wire::response::ResponseHead;

    fn sent(text: &str, trusts: bool, upgrades: bool) -> String {
        let mut head = RequestHead::default();
        head.read(text.as_bytes()).unwrap();
        let forwarded = Forwarded { peer: "192.0.2.7", is_tls: false, trusts };
        let mut out = vec![];
        RequestWriter { head: &head, bytes: text.as_bytes(), forwarded, upgrades }.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_is_written_anew_h2_h3() {
        let text = "POST http://b/%61/../c?d HTTP/1.1\r\nhost: a\r\nX-A:  1 \r\nConnection: x-hop, close\r\n\
                    X-Hop: secret\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTE: gzip, trailers\r\n\
                    Upgrade: websocket\r\ntransfer-encoding: CHUNKED\r\nCookie: c=1\r\n\r\n";
        let expected = "POST /c?d HTTP/1.1\r\nHost: b\r\nX-A: 1\r\nCookie: c=1\r\n\
                        X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: b\r\n\
                        Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
        assert_eq!(sent(text, false, true), expected);
    }

    #[test]
    fn only_listed_peers_are_believed_h5() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\nX-Forwarded-Proto: https\r\n\
                    Forwarded: for=1\r\nX-Forwarded-Host: c\r\nX_Forwarded_For: 6\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n";
        assert_eq!(
            sent(text, false, false),
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\n\
             X-Forwarded-Host: a\r\n\r\n"
        );
        assert_eq!(
            sent(text, true, false),
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nForwarded: for=1\r\n\
             X-Forwarded-Host: c\r\nX-Forwarded-For: 203.0.113.1, 10.0.0.1, 192.0.2.7\r\n\r\n"
        );
    }

    #[test]
    fn upgrades_pass_only_where_they_may_h3() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        assert!(sent(text, false, true).contains("Upgrade: websocket\r\nConnection: Upgrade\r\n"));
        assert!(!sent(text, false, false).to_lowercase().contains("upgrade"));
    }

    /// The options stand in several fields, in any case; what only looks like one of them passes.
    #[test]
    fn all_that_connection_names_goes_no_further_h3() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nConnection: X-THREE ,close,\tx-one\r\nX-Tow: 2\r\n\
                    x-three: 3\r\nx-one: 1\r\nCookie: a=1\r\nX-On: 4\r\nX-Ones: 5\r\nconnection: cookie\r\n\r\n";
        assert_eq!(
            sent(text, false, false),
            "GET / HTTP/1.1\r\nHost: a\r\nX-Tow: 2\r\nX-On: 4\r\nX-Ones: 5\r\n\
             X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n"
        );
    }

    /// What is said anew is said whatever `Connection` names: the length of a body, whom a request is from.
    #[test]
    fn what_the_proxy_says_itself_cannot_be_named_away_h3_h5() {
        let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTE: trailers\r\nX-Forwarded-For: 203.0.113.1\r\n\
                    X-Forwarded-Proto: https\r\nConnection: te, content-length, x-forwarded-for, host, x-forwarded-proto\r\n\r\n";
        assert_eq!(
            sent(text, true, false),
            "POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1, 192.0.2.7\r\n\
             X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\
             Content-Length: 0\r\nTE: trailers\r\nConnection: TE\r\n\r\n"
        );
    }

    /// Under every name that either knows, rules read what the server does (H4).
    #[test]
    fn what_is_read_is_what_is_written_h4() {
        let heads = [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET http://Secret.example:80/ HTTP/1.1\r\nHost: public.example\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Key: k\r\nConnection: X-Key\r\nx-key: 2\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Key: 1\r\nX-Other: 3\r\nx-KEY: 2\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1\r\nx-forwarded-for:\r\nX_Forwarded_For: 2\r\n\
             X-Forwarded-Host: b\r\nForwarded: for=1\r\nX-Forwarded-Proto: ftp\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 007\r\nExpect: 100-continue\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 7\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nTrailer: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nTE: trailers\r\nConnection: Upgrade, TE\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTE: gzip;q=1, trailers\r\nKeep-Alive: 1\r\nProxy-Authorization: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: cookie, authorization\r\nCookie: a=1\r\nAuthorization: x\r\n\r\n",
        ];
        for text in heads {
            for (trusts, upgrades) in [(false, false), (true, true)] {
                check_reads(text, trusts, upgrades);
            }
        }
    }

    fn check_reads(text: &str, trusts: bool, upgrades: bool) {
        let mut head = RequestHead::default();
        head.read(text.as_bytes()).unwrap();
        let forwarded = Forwarded { peer: "192.0.2.7", is_tls: true, trusts };
        let writer = RequestWriter { head: &head, bytes: text.as_bytes(), forwarded, upgrades };
        let mut out = vec![];
        writer.write(&mut out);
        let out = String::from_utf8(out).unwrap();
        let fields = |text: &str| -> Vec<(String, String)> {
            let lines = text.lines().skip(1).filter_map(|line| line.split_once(':'));
            lines.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect()
        };
        let (asked, got) = (fields(text), fields(&out));
        for (name, _) in asked.iter().chain(&got) {
            let values: Vec<_> =
                got.iter().filter(|own| own.0 == *name).map(|own| &*own.1).collect();
            let mut read = vec![];
            let is_found = writer.read(name.as_bytes(), &mut read);
            assert_eq!(is_found, !values.is_empty(), "{name} of {text} as {out}");
            assert_eq!(String::from_utf8(read).unwrap(), values.join(", "), "{name} of {text}");
        }
    }

    #[test]
    fn an_empty_body_stays_said() {
        let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        assert!(sent(text, false, true).contains("Content-Length: 0\r\n"));
    }

    fn answered(text: &str, is_11: bool, keeps: bool, is_head: bool) -> String {
        let mut head = ResponseHead::default();
        head.read(text.as_bytes(), is_head).unwrap();
        let mut out = vec![];
        let bytes = text.as_bytes();
        ResponseWriter { head: &head, bytes, is_11, keeps, upgrades: false }.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_response_is_written_for_its_client() {
        let text = "HTTP/1.1 200 Fine\r\nX-A: 1\r\nConnection: x-hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunked = "HTTP/1.1 200 Fine\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(answered(text, true, true, false), chunked);
        let closed = "HTTP/1.1 200 Fine\r\nX-A: 1\r\nConnection: close\r\n\r\n";
        assert_eq!(answered(text, false, false, false), closed, "HTTP/1.0 knows no chunks");
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
        assert_eq!(answered(head, true, true, true), head, "HEAD keeps the length");
        assert_eq!(
            answered(head, false, true, false),
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n"
        );
        let none = "HTTP/1.1 204 No\r\n\r\n";
        assert_eq!(answered(none, true, true, false), none);
    }

    #[test]
    fn an_answer_to_an_upgrade_keeps_it_whatever_else_connection_names_h3() {
        let text = "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\n\r\n";
        let mut head = ResponseHead::default();
        head.read(text.as_bytes(), false).unwrap();
        let (mut out, bytes) = (vec![], text.as_bytes());
        ResponseWriter { head: &head, bytes, is_11: true, keeps: true, upgrades: true }
            .write(&mut out);
        let expected = "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn trailers_pass_but_those_that_would_mislead() {
        let mut out = vec![];
        let trailers =
            b"X-Sum: 1\r\nContent-Length: 5\r\nHost: b\r\nTransfer-Encoding: x\r\nSet-Cookie: a\r\nContent-type: b\r\nY:2\r\n";
        write_trailers(trailers, &mut out).unwrap();
        assert_eq!(out, b"X-Sum: 1\r\nY: 2\r\n");
        assert!(write_trailers(b"X : 1\r\n", &mut vec![]).is_err());
    }
}
