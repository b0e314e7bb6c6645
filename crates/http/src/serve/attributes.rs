//! The attributes of a request, which rules and expressions read (`design.md`, Attributes).
//!
//! Fields, cookies and the user are read from the code that writes the request for the server, so rules see what the
//! server will get (H4). A field that is not forwarded has no attribute.

use crate::serve::clients::Client;
use crate::serve::table::{FieldsRead, LiveFrontend};
use crate::wire::{Forwarded, Header, RequestHead, RequestWriter};
use paceline_host::Control;
use paceline_net::listen::ListenPoint;
use paceline_routing::{Frontend, UserFrom};
use paceline_types::{AttributeError, Attributes, Known, Request};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What is known of the connection that carries a request.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Where the connection was accepted, which decides its frontend.
    pub place: Arc<ListenPoint>,
    /// The address of the peer, or `unix`.
    pub address: Box<str>,
    /// The client that sends over the connection.
    pub speaker: Speaker,
    /// The client that the PROXY header names.
    pub client: Option<Box<str>>,
    /// The server name that the client requested in TLS.
    pub sni: Box<str>,
}

/// The client that sends over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A local user, by user id, on a unix socket.
    Unix(u32),
    /// The peer, or the client that a PROXY header names in its place.
    Ip(IpAddr),
    /// A client that the PROXY header does not name.
    Unknown,
}

impl Peer {
    /// A peer of which nothing else is known yet.
    pub fn new(from: Speaker, place: Arc<ListenPoint>) -> Self {
        let address = match from {
            Speaker::Ip(ip) => ip.to_string().into(),
            Speaker::Unix(_) | Speaker::Unknown => "unix".into(),
        };
        Self { place, address, speaker: from, client: None, sni: "".into() }
    }

    /// Whether claims of this peer about other clients are trusted (H5). The current settings decide, because a
    /// connection may outlive the settings that it was accepted under.
    pub fn is_trusted(&self, spec: &Frontend) -> bool {
        match self.speaker {
            // The mode of the socket file decides which processes may connect. What they claim about other clients
            // counts only if `trusted` is set.
            Speaker::Unix(_) => !spec.trusted.is_empty(),
            Speaker::Ip(ip) => spec.trusted.iter().any(|network| network.contains(ip)),
            Speaker::Unknown => false,
        }
    }

    /// The client that a request counts for while it waits. `forwarded` is the client that `X-Forwarded-For` names.
    pub fn counted_as(&self, spec: &Frontend, forwarded: Option<IpAddr>) -> Client {
        let is_trusted = |ip| spec.trusted.iter().any(|network| network.contains(ip));
        match (forwarded, self.speaker) {
            (Some(ip), _) | (None, Speaker::Ip(ip)) if is_trusted(ip) => Client::Trusted,
            (Some(ip), _) | (None, Speaker::Ip(ip)) => Client::Address(ip),
            (None, Speaker::Unix(_)) if self.is_trusted(spec) => Client::Trusted,
            (None, Speaker::Unix(uid)) => Client::User(uid),
            (None, Speaker::Unknown) => Client::Unnamed,
        }
    }

    /// What servers are sent about the origin of its requests.
    pub fn forwarded(&self, spec: &Frontend, is_tls: bool) -> Forwarded<'_> {
        let peer = self.client.as_ref().unwrap_or(&self.address);
        Forwarded { peer, is_tls, trusts: self.is_trusted(spec) }
    }
}

/// A request, and its client.
#[derive(Debug)]
pub(crate) struct Asking {
    pub request: Request,
    pub client: Client,
}

/// Why a head cannot become a request that rules evaluate.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The head has more than the attributes of a request can hold.
    TooMuch(AttributeError),
    /// The user that the head names is ambiguous.
    Credentials(&'static str),
}

impl From<AttributeError> for Unfit {
    fn from(error: AttributeError) -> Self {
        Self::TooMuch(error)
    }
}

/// The request for a head, as `writer` will write it, under the configuration in use.
pub(crate) fn request(
    control: &Control,
    frontend: &LiveFrontend,
    peer: &Peer,
    writer: &RequestWriter<'_>,
) -> Result<Asking, Unfit> {
    let (fields_read, generation) =
        frontend.fields_read(control.generation(), &peer.place, || control.snapshot());
    let forwarded = forwarded_for(frontend, peer, writer.head, writer.bytes);
    let mut request = gathered(&fields_read, frontend, peer, forwarded, writer)?;
    (request.named_in, request.kept_bytes) = (Some(generation), writer.bytes.len());
    Ok(Asking { request, client: peer.counted_as(&frontend.spec, forwarded) })
}

/// The request for a head, when the fields to read are known.
fn gathered(
    fields_read: &FieldsRead,
    frontend: &LiveFrontend,
    peer: &Peer,
    forwarded: Option<IpAddr>,
    writer: &RequestWriter<'_>,
) -> Result<Request, Unfit> {
    let RequestWriter { head, bytes, .. } = *writer;
    let (path, query) = (text(head.target.path(bytes)), text(head.target.query(bytes)));
    let client = named(peer, forwarded);
    let mut attributes = Attributes::with_capacity(2 * (path.len() + query.len()) + 192);
    let mut set = |name, value: &str| attributes.set_known(name, value);
    set(Known::Kind, "http")?;
    set(Known::Frontend, &fields_read.frontend)?;
    set(Known::Client, &client)?;
    set(Known::Host, &client)?;
    set(Known::Method, &text(head.method(bytes)))?;
    set(Known::Path, &path)?;
    set(Known::Query, &query)?;
    set(Known::Authority, &text(head.target.authority(bytes)))?;
    set(Known::Sni, &peer.sni)?;
    match query.is_empty() {
        true => set(Known::Text, &path)?,
        false => set(Known::Text, &format!("{path}?{query}"))?,
    }
    if let Some(from) = fields_read.user
        && let Some(user) = user(from, writer).map_err(Unfit::Credentials)?
    {
        set(Known::User, &user)?;
    }
    for (name, attribute) in &fields_read.headers {
        let mut value = vec![];
        if writer.add_values(name.as_bytes(), &mut value) {
            attributes.set(attribute, &text(&value))?;
        }
    }
    for (name, attribute) in &fields_read.cookies {
        if let Some(value) = cookie(writer, name) {
            attributes.set(attribute, &value)?;
        }
    }
    let mut request = Request::new(attributes);
    request.wait_max = frontend.spec.timeouts.queue;
    Ok(request)
}

/// The request that stands for a connection itself, if there are checkpoints on connections.
pub(crate) fn connection(
    control: &Control,
    frontend: &LiveFrontend,
    peer: &Peer,
) -> Option<Asking> {
    let (fields_read, generation) =
        frontend.fields_read(control.generation(), &peer.place, || control.snapshot());
    if !fields_read.shapes_connections {
        return None;
    }
    let mut attributes = Attributes::with_capacity(96);
    let client = peer.client.as_ref().unwrap_or(&peer.address);
    for (name, value) in [
        (Known::Kind, "http"),
        (Known::Frontend, &*fields_read.frontend),
        (Known::Client, client),
        (Known::Host, client),
    ] {
        // These values are short; there is always room for them.
        let _ = attributes.set_known(name, value);
    }
    let mut request = Request::new(attributes);
    request.on = paceline_types::On::Connection;
    request.wait_max = frontend.spec.timeouts.queue;
    request.named_in = Some(generation);
    Some(Asking { request, client: peer.counted_as(&frontend.spec, None) })
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The client of the request.
pub(crate) fn client<'a>(
    frontend: &LiveFrontend,
    peer: &'a Peer,
    head: &RequestHead,
    bytes: &[u8],
) -> Cow<'a, str> {
    named(peer, forwarded_for(frontend, peer, head, bytes))
}

fn named(peer: &Peer, forwarded: Option<IpAddr>) -> Cow<'_, str> {
    let neighbour = peer.client.as_ref().unwrap_or(&peer.address);
    forwarded.map_or(Cow::Borrowed(neighbour), |address| Cow::Owned(address.to_string()))
}

/// The last address in `X-Forwarded-For` that is not trusted, if the peer is trusted (H5).
fn forwarded_for(
    frontend: &LiveFrontend,
    peer: &Peer,
    head: &RequestHead,
    bytes: &[u8],
) -> Option<IpAddr> {
    if !peer.is_trusted(&frontend.spec) {
        return None;
    }
    let values: Vec<&[u8]> = head.fields.all(Header::XForwardedFor, bytes).collect();
    let mut found: Option<IpAddr> = None;
    for address in values.iter().rev().flat_map(|value| value.rsplit(|byte| *byte == b',')) {
        let Some(address) = forwarded_address(&text(address)) else { break };
        found = Some(address);
        if !frontend.spec.trusted.iter().any(|network| network.contains(address)) {
            break;
        }
    }
    found
}

/// An address in `X-Forwarded-For`. Some proxies append a port.
fn forwarded_address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok();
    let address =
        address.or_else(|| text.parse::<SocketAddr>().ok().map(|with_port| with_port.ip()));
    address.map(|address| address.to_canonical())
}

/// The value of a cookie.
fn cookie<'a>(writer: &'a RequestWriter<'_>, name: &str) -> Option<Cow<'a, str>> {
    let cookies = writer.passing(Header::Cookie);
    let mut pairs = cookies.flat_map(|value| value.split(|byte| *byte == b';'));
    pairs.find_map(|pair| {
        let pair = pair.trim_ascii();
        let equals = memchr::memchr(b'=', pair)?;
        (&pair[..equals] == name.as_bytes()).then(|| text(&pair[equals + 1..]))
    })
}

/// The user that `Authorization` names, if it uses the configured scheme. It is a name, not a proof.
///
/// Servers accept more than the standards allow, and differ: the first field or the last one, a tab for a space,
/// base64 with other characters in it. Credentials that a server may read differently, or may read where this
/// function finds none, would evade rules about users. So they are refused (H4).
fn user(from: UserFrom, writer: &RequestWriter<'_>) -> Result<Option<String>, &'static str> {
    let mut values = writer.passing(Header::Authorization);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("there are two Authorization fields");
    }
    let scheme = match from {
        UserFrom::Basic => &b"basic"[..],
        UserFrom::Bearer => b"bearer",
    };
    let Some((begun, rest)) = value.split_at_checked(scheme.len()) else { return Ok(None) };
    if !begun.eq_ignore_ascii_case(scheme) {
        return Ok(None);
    }
    // RFC 9110 11.4: only spaces separate the scheme and the credentials.
    let blank = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
    let read = match from {
        _ if blank == 0 => None,
        UserFrom::Basic => basic(&rest[blank..]).map(Some),
        UserFrom::Bearer => subject(&rest[blank..]),
    };
    read.ok_or("the credentials of the Authorization field cannot be read")
}

/// The name in Basic credentials (RFC 7617 2); none if they are malformed.
fn basic(credentials: &[u8]) -> Option<String> {
    if credentials.iter().any(|byte| matches!(byte, b'-' | b'_')) {
        return None;
    }
    let decoded = decode_base64(credentials)?;
    let colon = memchr::memchr(b':', &decoded)?;
    let name = std::str::from_utf8(&decoded[..colon]).ok()?;
    (!name.contains(char::is_control)).then(|| name.to_owned())
}

/// The subject of a JSON Web Token, if it has one (RFC 7519 4.1.2). A token without three parts is of another kind
/// and names no user. None if the token is malformed.
fn subject(token: &[u8]) -> Option<Option<String>> {
    // RFC 6750 2.1.
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    if token.is_empty() || !token.iter().all(is_allowed) {
        return None;
    }
    let mut parts = token.split(|byte| *byte == b'.');
    let (Some(_), Some(claims), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Some(None);
    };
    if claims.iter().any(|byte| matches!(byte, b'+' | b'/')) {
        return None;
    }
    let claims: serde_json::Value = serde_json::from_slice(&decode_base64(claims)?).ok()?;
    match claims.as_object()?.get("sub") {
        Some(subject) => Some(Some(subject.as_str()?.to_owned())),
        None => Some(None),
    }
}

/// Base64 of either alphabet, with or without padding (RFC 4648 4 and 5).
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"==").or(text.strip_suffix(b"=")).unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for byte in group {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' | b'-' => 62,
                b'/' | b'_' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * (4 - group.len());
        let whole = match group.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=whole]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
