//! Addresses and networks of peers, as text.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The longest path of a unix socket that the system accepts.
const UNIX_BYTES_MAX: usize = 107;

/// The longest name of a host (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// An address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// An IP address and a port: `127.0.0.1:80`, `[::1]:80`.
    Socket(SocketAddr),
    /// A host by name, resolved when it is connected to: `app.internal:80`.
    Host {
        /// The name.
        name: Box<str>,
        /// The port.
        port: u16,
    },
    /// A unix socket: `unix:/run/app.sock`.
    Unix(Box<str>),
}

/// Why a text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseAddressError {
    /// It has none of the valid forms.
    Form,
    /// The path of a unix socket is not absolute, or too long.
    Path,
    /// The name of a host contains invalid characters, or is too long.
    Host,
    /// The port is not a number from 0 to 65535.
    Port,
}

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str(
                "expected an address such as \"127.0.0.1:80\", \"[::1]:80\", \"app.internal:80\" or \
                 \"unix:/run/app.sock\"",
            ),
            Self::Path => {
                write!(f, "expected an absolute path of at most {UNIX_BYTES_MAX} bytes after unix:")
            }
            Self::Host => f.write_str("expected the name of a host before the port"),
            Self::Port => f.write_str("expected a port from 0 to 65535 after the last colon"),
        }
    }
}

impl std::error::Error for ParseAddressError {}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let is_right = path.starts_with('/') && path.len() <= UNIX_BYTES_MAX;
            let is_right = is_right && !path.contains('\0');
            return is_right.then(|| Self::Unix(path.into())).ok_or(ParseAddressError::Path);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Socket(address));
        }
        let (name, port) = text.rsplit_once(':').ok_or(ParseAddressError::Form)?;
        let port = port.parse().map_err(|_| ParseAddressError::Port)?;
        if name.starts_with('[') || name.parse::<IpAddr>().is_ok() {
            return Err(ParseAddressError::Form);
        }
        if !is_host(name) {
            return Err(ParseAddressError::Host);
        }
        Ok(Self::Host { name: name.into(), port })
    }
}

impl Address {
    /// Whether the system chooses the port.
    #[must_use]
    pub const fn is_any_port(&self) -> bool {
        matches!(self, Self::Socket(socket) if socket.port() == 0)
    }

    /// Its host, as TLS names it: an IP address, or a name without a final dot; `None` for a unix socket.
    #[must_use]
    pub fn host(&self) -> Option<Box<str>> {
        match self {
            Self::Socket(address) => Some(address.ip().to_canonical().to_string().into()),
            Self::Host { name, .. } => Some(name.strip_suffix('.').unwrap_or(name).into()),
            Self::Unix(_) => None,
        }
    }
}

/// Whether a certificate can be for this name: an IP address, or the name of a host according to RFC 1123, whose last
/// part is not a number.
pub(crate) fn is_verifiable(name: &str) -> bool {
    let is_label = |label: &str| !label.starts_with('-') && !label.ends_with('-');
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_name = is_host(name)
        && !name.ends_with('.')
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit());
    is_name || name.parse::<IpAddr>().is_ok()
}

/// Whether a text can be the name of a host.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= HOST_BYTES_MAX && name.strip_suffix('.').unwrap_or(name).split('.').all(is_label)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Host { name, port } => write!(f, "{name}:{port}"),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

/// A network of peers: `10.0.0.0/8`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address in it, with the bits after the prefix set to 0.
    address: IpAddr,
    /// How many bits all addresses in it have in common.
    prefix: u8,
}

/// The text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseNetworkError;

impl fmt::Display for ParseNetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an address, or a network such as \"10.0.0.0/8\" or \"fd00::/8\"")
    }
}

impl std::error::Error for ParseNetworkError {}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseNetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ParseNetworkError)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), str::parse).map_err(|_| ParseNetworkError)?;
        if prefix > bits {
            return Err(ParseNetworkError);
        }
        Ok(Self { address: masked(address, prefix), prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    /// Whether it contains an address. An IPv4 address received over an IPv6 socket is treated as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

/// The address with all bits after the prefix cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Network, ParseAddressError, is_verifiable};

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["127.0.0.1:80", "[::1]:80", "app.internal:8080", "unix:/run/app.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for (text, error) in [
            ("", ParseAddressError::Form),
            ("127.0.0.1", ParseAddressError::Form),
            ("::1:80", ParseAddressError::Form),
            ("[::1:80", ParseAddressError::Form),
            ("app:http", ParseAddressError::Port),
            ("app:65536", ParseAddressError::Port),
            (":80", ParseAddressError::Host),
            ("a b:80", ParseAddressError::Host),
            ("a..b:80", ParseAddressError::Host),
            ("unix:run", ParseAddressError::Path),
        ] {
            assert_eq!(text.parse::<Address>(), Err(error), "{text}");
        }
    }

    #[test]
    fn hosts_are_named_as_certificates_name_them() {
        for (address, host) in [
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[::1]:80", Some("::1")),
            ("[::ffff:10.0.0.1]:80", Some("10.0.0.1")),
            ("app.internal:8080", Some("app.internal")),
            ("app.internal.:8080", Some("app.internal")),
            ("unix:/run/app.sock", None),
        ] {
            let address: Address = address.parse().unwrap();
            assert_eq!(address.host().as_deref(), host, "{address}");
        }
        for name in ["a", "api.internal", "x-1.example", "_a.b", "10.0.0.1", "::1"] {
            assert!(is_verifiable(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in ["", ".", "a.", "-a.b", "a-.b", "a..b", "a b", "*.a", "a:80", "1.2.3", &long] {
            assert!(!is_verifiable(name), "{name}");
        }
    }

    #[test]
    fn networks_hold_their_addresses() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "2001:db8::1", true),
        ];
        for (network, address, is_in) in cases {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), is_in, "{network} {address}");
        }
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/-1", "x/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
