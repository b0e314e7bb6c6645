//! Remotes, in the syntax of Open vSwitch: `punix:PATH`, `ptcp:PORT[:IP]`, `pssl:PORT[:IP]`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// A unix socket.
    Unix(PathBuf),
    /// TCP, unencrypted and without authentication.
    Tcp(SocketAddr),
    /// TLS with client certificates.
    Tls(SocketAddr),
}

/// Why a remote cannot be parsed, and which forms are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRemoteError(String);

impl fmt::Display for ParseRemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseRemoteError {}

/// The port that IANA assigned to OVSDB.
const DEFAULT_PORT: u16 = 6640;

impl FromStr for Remote {
    type Err = ParseRemoteError;

    fn from_str(text: &str) -> Result<Self, ParseRemoteError> {
        let fail = |reason: String| Err(ParseRemoteError(reason));
        match text.split_once(':') {
            Some(("punix", "")) => fail("punix: needs the path of a socket".to_owned()),
            Some(("punix", path)) => Ok(Self::Unix(path.into())),
            Some(("ptcp", address)) => parse_address(address).map(Self::Tcp),
            Some(("pssl", address)) => parse_address(address).map(Self::Tls),
            Some((active @ ("tcp" | "unix" | "ssl"), _)) => {
                fail(format!("{active}: would connect outward; to listen write p{active}:"))
            }
            Some(("db", _)) => {
                fail("db: remotes are not supported; name the remotes themselves".to_owned())
            }
            _ => fail(format!(
                "\"{text}\" is not a remote; write punix:PATH, ptcp:PORT[:IP] or pssl:PORT[:IP]"
            )),
        }
    }
}

/// `[PORT][:IP]`, with an IPv6 address in brackets. Without an address only local clients can connect.
fn parse_address(text: &str) -> Result<SocketAddr, ParseRemoteError> {
    let (port, ip) = text.split_once(':').unwrap_or((text, ""));
    let port = match port {
        "" => DEFAULT_PORT,
        port => port
            .parse()
            .map_err(|_| ParseRemoteError(format!("\"{port}\" is not a port number")))?,
    };
    let ip = match ip {
        "" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip
            .strip_prefix('[')
            .and_then(|ip| ip.strip_suffix(']'))
            .unwrap_or(ip)
            .parse()
            .map_err(|_| ParseRemoteError(format!("\"{ip}\" is not an IP address")))?,
    };
    Ok(SocketAddr::new(ip, port))
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, address) = match self {
            Self::Unix(path) => return write!(f, "punix:{}", path.display()),
            Self::Tcp(address) => ("ptcp", address),
            Self::Tls(address) => ("pssl", address),
        };
        match address.ip() {
            IpAddr::V4(ip) => write!(f, "{word}:{}:{ip}", address.port()),
            IpAddr::V6(ip) => write!(f, "{word}:{}:[{ip}]", address.port()),
        }
    }
}

impl Remote {
    /// Whether every client on the network can use it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_open_vswitch_are_understood() {
        for (text, expected) in [
            ("punix:/run/x.sock", "punix:/run/x.sock"),
            ("ptcp:", "ptcp:6640:127.0.0.1"),
            ("ptcp:0", "ptcp:0:127.0.0.1"),
            ("ptcp:6641:10.0.0.1", "ptcp:6641:10.0.0.1"),
            ("pssl:6641:[::1]", "pssl:6641:[::1]"),
        ] {
            assert_eq!(text.parse::<Remote>().unwrap().to_string(), expected);
        }
        assert!("ptcp:1:0.0.0.0".parse::<Remote>().unwrap().is_open());
        assert!(!"ptcp:1:127.0.0.1".parse::<Remote>().unwrap().is_open());
    }

    #[test]
    fn others_are_refused_with_advice() {
        for text in ["", "punix:", "ptcp:x", "ptcp:1:nowhere", "tcp:127.0.0.1:1", "ptcp:70000"] {
            assert!(text.parse::<Remote>().is_err(), "{text}");
        }
    }
}
