//! The PROXY protocol, versions 1 and 2: a balancer first sends the address of the client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1, including its line end.
const LINE_BYTES_MAX: usize = 107;

/// The first bytes of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Longest header of version 2 that is accepted: addresses, and some extensions.
const HEADER_BYTES_MAX: usize = 2 << 10;

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxyHeader {
    /// The length of the header.
    pub len: usize,
    /// The client of the connection; none if the balancer connects for itself, or does not know the client.
    pub client: Option<SocketAddr>,
    /// Whether the balancer connects for itself.
    pub is_local: bool,
}

/// The connection does not begin with a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxyError;

/// Parses the header at the start of `bytes`; none if it is incomplete.
pub(crate) fn read_proxy_header(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    let starts = |with: &[u8]| {
        let len = with.len().min(bytes.len());
        bytes[..len] == with[..len]
    };
    if starts(SIGNATURE) {
        return read_binary(bytes);
    }
    if starts(b"PROXY ") { read_line(bytes) } else { Err(ProxyError) }
}

fn read_line(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return if bytes.len() < LINE_BYTES_MAX { Ok(None) } else { Err(ProxyError) };
    };
    let len = end + 1;
    let line = bytes[..end].strip_suffix(b"\r").filter(|_| len <= LINE_BYTES_MAX);
    let line = line.and_then(|line| std::str::from_utf8(line).ok()).ok_or(ProxyError)?;
    let mut words = line.split(' ').skip(1);
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(Some(ProxyHeader { len, client: None, is_local: false }));
    }
    let mut address = || words.next().and_then(|word| word.parse::<IpAddr>().ok());
    let (source, destination) = (address(), address());
    let mut port = || words.next().and_then(|word| word.parse::<u16>().ok());
    let (from, to) = (port(), port());
    let (Some(source), Some(destination), Some(port), Some(_), None) =
        (source, destination, from, to, words.next())
    else {
        return Err(ProxyError);
    };
    let is_right = match family {
        Some("TCP4") => source.is_ipv4() && destination.is_ipv4(),
        Some("TCP6") => source.is_ipv6() && destination.is_ipv6(),
        _ => false,
    };
    let client = is_right.then(|| SocketAddr::new(source, port)).ok_or(ProxyError)?;
    Ok(Some(ProxyHeader { len, client: Some(client), is_local: false }))
}

fn read_binary(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyError> {
    let Some((head, rest)) = bytes.split_at_checked(16) else { return Ok(None) };
    let (command, family) = (head[12], head[13]);
    let inner = usize::from(u16::from_be_bytes([head[14], head[15]]));
    let len = 16 + inner;
    if command >> 4 != 2 || command & 15 > 1 || len > HEADER_BYTES_MAX {
        return Err(ProxyError);
    }
    let Some(rest) = rest.get(..inner) else { return Ok(None) };
    if command & 15 == 0 {
        return Ok(Some(ProxyHeader { len, client: None, is_local: true }));
    }
    let client = match family >> 4 {
        1 => address(rest, 4, |bytes| {
            bytes.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into())
        })?,
        2 => address(rest, 16, |bytes| {
            bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into())
        })?,
        _ => return Ok(Some(ProxyHeader { len, client: None, is_local: false })),
    };
    Ok(Some(ProxyHeader { len, client: Some(client), is_local: false }))
}

/// The source address in `rest`: two addresses of `len` bytes, then two ports.
fn address(
    rest: &[u8],
    len: usize,
    read: impl Fn(&[u8]) -> Option<IpAddr>,
) -> Result<SocketAddr, ProxyError> {
    let ports = rest.get(2 * len..2 * len + 4).ok_or(ProxyError)?;
    let port = u16::from_be_bytes([ports[0], ports[1]]);
    Ok(SocketAddr::new(read(rest).ok_or(ProxyError)?, port))
}

#[cfg(test)]
mod tests {
    use super::{ProxyError, ProxyHeader, SIGNATURE, read_proxy_header};

    #[test]
    fn lines_are_read() {
        let text = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\nGET";
        let header = read_proxy_header(text).unwrap().unwrap();
        assert_eq!(header.len, text.len() - 3);
        assert_eq!(header.client.unwrap().to_string(), "192.0.2.1:56324");
        let header = read_proxy_header(b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n").unwrap().unwrap();
        assert_eq!(header.client.unwrap().to_string(), "[2001:db8::1]:1");
        let unknown = read_proxy_header(b"PROXY UNKNOWN\r\n").unwrap().unwrap();
        assert_eq!(unknown, ProxyHeader { len: 15, client: None, is_local: false });
        for len in 0..text.len() - 3 {
            assert_eq!(read_proxy_header(&text[..len]), Ok(None), "{len}");
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let long = [&b"PROXY TCP4 "[..], &[b'1'; 200]].concat();
        for text in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 1\r\n",
            b"PROXY TCP4 ::1 ::1 1 2\r\n",
            b"PROXY TCP5 192.0.2.1 198.51.100.1 1 2\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n",
            &long,
        ] {
            assert_eq!(read_proxy_header(text), Err(ProxyError), "{:?}", text);
        }
    }

    #[test]
    fn version_2_is_read() {
        let header = |command: u8, family: u8, inner: &[u8]| {
            let len = (inner.len() as u16).to_be_bytes();
            [SIGNATURE, &[command, family], &len, inner].concat()
        };
        let four = [&[192, 0, 2, 1][..], &[1; 4], &[0, 80, 1, 1], b"tlv"].concat();
        let text = header(0x21, 0x11, &four);
        let read = read_proxy_header(&text).unwrap().unwrap();
        assert_eq!(
            (read.len, read.client.unwrap().to_string()),
            (text.len(), "192.0.2.1:80".into())
        );
        let six = [&[0; 15][..], &[1], &[0; 16], &[0, 81, 0, 0]].concat();
        let read = read_proxy_header(&header(0x21, 0x21, &six)).unwrap().unwrap();
        assert_eq!(read.client.unwrap().to_string(), "[::1]:81");
        let local = read_proxy_header(&header(0x20, 0, b"")).unwrap().unwrap();
        assert_eq!((local.client, local.is_local), (None, true));
        for len in 0..text.len() {
            assert_eq!(read_proxy_header(&text[..len]), Ok(None), "{len}");
        }
        for wrong in
            [header(0x11, 0x11, &four), header(0x22, 0x11, &four), header(0x21, 0x11, b"x")]
        {
            assert_eq!(read_proxy_header(&wrong), Err(ProxyError));
        }
    }
}
