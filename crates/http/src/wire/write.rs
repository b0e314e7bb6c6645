//! Writes heads anew from what was parsed (H2), without hop-by-hop fields (H3).

use super::body::Framing;
use super::field::{Field, Fields, Header};
use super::request::RequestHead;
use super::response::ResponseHead;

/// What a server is sent about the origin of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded<'a> {
    /// The address of the peer on this connection.
    pub peer: &'a str,
    pub is_tls: bool,
    /// Whether claims of the peer about other clients are trusted and forwarded (H5).
    pub trusts: bool,
}

/// Writes the head of a request to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestWriter<'a> {
    pub head: &'a RequestHead,
    /// The bytes that the head was parsed from.
    pub bytes: &'a [u8],
    pub forwarded: Forwarded<'a>,
    /// Whether the upgrade that the client may ask for is forwarded.
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

    /// Adds to `out` what the server gets under a name, in any case. Several fields are joined with commas. Returns
    /// whether there are any.
    pub fn add_values(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
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

    /// The forwarded values of a client's field, in order.
    pub fn passing(&self, header: Header) -> impl Iterator<Item = &[u8]> {
        let fields = self.head.fields.iter();
        let ours = fields.filter(move |field| field.header == header && self.passes(field));
        ours.map(|field| field.value.of_bytes(self.bytes))
    }

    /// Calls `take` for each field that the server gets and whose name `is_wanted`, in the order in which they are
    /// written. Servers and rules both use this function, so they see the same fields (H4).
    fn each(&self, is_wanted: impl Fn(&[u8]) -> bool, mut take: impl FnMut(&[u8], &[u8])) {
        if is_wanted(b"Host") {
            take(b"Host", self.head.target.authority(self.bytes));
        }
        for field in self.head.fields.iter() {
            let name = field.name.of_bytes(self.bytes);
            // The name is checked first: a caller that wants one field does not need to know whether others are
            // forwarded.
            if is_wanted(name) && self.passes(field) {
                take(name, field.value.of_bytes(self.bytes));
            }
        }
        self.each_origin(&is_wanted, &mut take);
        self.each_of_connection(&is_wanted, &mut take);
    }

    /// Whether a field is forwarded as the client sent it.
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

    /// The fields about the origin of the request.
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

    /// The fields about the body's framing and the connection.
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
            // A length of 0 is written if the client wrote one: a server may require it for a method that usually has
            // a body.
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

    /// The forwarded addresses, with the peer as the last one.
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

/// Whether the client accepts trailers. They are forwarded to it, so the server may know.
fn takes_trailers(head: &RequestHead, bytes: &[u8]) -> bool {
    let mut values = head.fields.all(Header::Te, bytes).flat_map(|te| te.split(|b| *b == b','));
    values.any(|te| super::byte::trimmed(te).eq_ignore_ascii_case(b"trailers"))
}

/// Writes the head of a server's response to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseWriter<'a> {
    pub head: &'a ResponseHead,
    /// The bytes that the head was parsed from.
    pub bytes: &'a [u8],
    /// Whether the client speaks HTTP/1.1.
    pub is_11: bool,
    /// Whether the client connection stays open for another request.
    pub keeps: bool,
    /// Whether the response accepts an upgrade, which is forwarded.
    pub upgrades: bool,
}

impl ResponseWriter<'_> {
    /// The framing of the body after the head. An HTTP/1.0 client cannot read chunks.
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
            // RFC 9110 8.6: a 204 response has no length.
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

/// Whether servers that treat underscores and dashes alike, as CGI does, would take this name for a field that
/// matters to the proxy.
fn is_double(name: &[u8]) -> bool {
    dashed(name).is_some_and(|dashed| Header::named(&dashed) != Header::Other)
}

/// A name with underscores as such servers read it.
fn dashed(name: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(b'_', name)?;
    Some(name.iter().map(|b| if *b == b'_' { b'-' } else { *b }).collect())
}

/// Writes the trailers of a body that are forwarded.
pub(crate) fn write_trailers(trailers: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    read_trailers(trailers, |name, value| line(out, name, value))
}

/// The forwarded trailers of a body, by name and value. They are checked, and fields about framing or routing are
/// removed (RFC 9110 6.5.1).
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
        let is_misleading =
            is_double(name) || is_for_heads(dashed(name).as_deref().unwrap_or(name));
        if !is_misleading {
            pass(name, field.value.of_bytes(trailers));
        }
    }
    Ok(())
}

/// Whether a field is meaningful only before the body.
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
mod tests;
