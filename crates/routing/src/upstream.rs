//! The URL of upstream PostgreSQL servers: `postgresql://HOST[:PORT][,HOST[:PORT]...]/DATABASE[?NAME=VALUE&...]`.
//!
//! Owns its parsing, which is stricter than that of libpq: every part has one place where it is written, and what is
//! not understood is an error with its position. A unix socket is a directory, written as `host=/run/postgresql` with
//! an empty authority, or percent-encoded in place of a host. Users and passwords are never part of it. No input
//! panics.

use crate::address::{Address, ParseAddressError};
use crate::sql::SQL_NAME_BYTES_MAX;
use paceline_types::{Span, nearest};
use std::fmt;
use std::str::FromStr;

/// The most servers of one URL.
pub const UPSTREAM_HOSTS_MAX: usize = 16;

/// The longest URL.
pub const UPSTREAM_BYTES_MAX: usize = 8_192;

/// PostgreSQL's port.
const PORT: u16 = 5_432;

/// The longest time for a connection that can be set, in seconds.
const CONNECT_SECS_MAX: u64 = 3_600;

/// The parameters after the question mark.
const PARAMETERS: [&str; 5] = ["host", "port", "sslmode", "sslrootcert", "connect_timeout"];

/// PostgreSQL servers, and a database that each of them has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrl {
    /// The servers, in the order in which they are tried.
    pub hosts: Vec<Address>,
    /// The name of the database on the servers.
    pub database: Box<str>,
    /// Whether connections are encrypted.
    pub tls: SqlTls,
    /// A file of trusted certificates; those of the system by default. Only with [`SqlTls::VerifyFull`].
    pub ca: Option<Box<str>>,
    /// How long connecting to one server may take, its login included.
    pub connect_timeout: Span,
}

/// Whether connections to servers are encrypted: the parameter `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SqlTls {
    /// Never.
    Disable,
    /// If the server offers it; certificates are not verified.
    #[default]
    Prefer,
    /// Always; certificates are not verified.
    Require,
    /// Always, and the certificate must be valid for the name of the host.
    VerifyFull,
}

/// Why a text is not the URL of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamError {
    /// The character where it is wrong, from 1.
    pub at: usize,
    /// What is wrong there.
    pub problem: UpstreamProblem,
}

/// What can be wrong with the URL of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamProblem {
    /// It does not begin with `postgresql://`.
    Scheme,
    /// It is too long.
    Length,
    /// It contains a blank, a control character or a character that is not ASCII.
    Character(char),
    /// It contains a fragment.
    Fragment,
    /// It contains a user or a password.
    User,
    /// A percent sign is not followed by two hexadecimal digits, or the bytes are not a text.
    Percent,
    /// It has no host.
    NoHost,
    /// It has too many hosts.
    Hosts,
    /// A host is not valid.
    Host(ParseAddressError),
    /// A port is not a number from 1 to 65535.
    Port,
    /// There are neither as many ports as hosts nor one port.
    PortCount,
    /// The authority and a parameter both name hosts or ports.
    HostTwice,
    /// It has no database, or its name is too long or contains a NUL.
    Database,
    /// A slash follows the name of the database.
    Slash,
    /// A parameter has no equals sign.
    Pair,
    /// A parameter is unknown: its name, and a similar one that exists.
    Unknown(Box<str>, Option<&'static str>),
    /// A parameter is given twice.
    Twice(&'static str),
    /// `sslmode` is not one of the modes.
    Mode,
    /// A unix socket is never encrypted.
    UnixTls,
    /// `sslrootcert` is not an absolute path.
    Ca,
    /// `sslrootcert` has no effect with this `sslmode`.
    UnusedCa,
    /// `connect_timeout` is not a number of seconds.
    Timeout,
}

impl SqlTls {
    /// The value of `sslmode`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyFull => "verify-full",
        }
    }

    /// All modes.
    pub const ALL: [Self; 4] = [Self::Disable, Self::Prefer, Self::Require, Self::VerifyFull];
}

impl FromStr for UpstreamUrl {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, UpstreamError> {
        check_characters(text)?;
        let rest = ["postgresql://", "postgres://"].iter().find_map(|s| text.strip_prefix(s));
        let rest = rest.ok_or_else(|| wrong(1, UpstreamProblem::Scheme))?;
        let start = text.len() - rest.len();
        let (place, query) = match rest.split_once('?') {
            Some((place, query)) => (place, Some((query, start + place.len() + 1))),
            None => (rest, None),
        };
        let (authority, path) = match place.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (place, None),
        };
        let end = start + authority.len();
        let database = database(path.unwrap_or_default(), end + 2)?;
        let parameters = Parameters::read(query)?;
        let hosts = hosts((authority, start), &parameters)?;
        let tls = parameters.tls()?;
        let is_unix = |host: &Address| matches!(host, Address::Unix(_));
        let is_forced = matches!(tls, SqlTls::Require | SqlTls::VerifyFull);
        if is_forced && hosts.iter().any(is_unix) {
            return Err(wrong(parameters.at("sslmode"), UpstreamProblem::UnixTls));
        }
        let ca = parameters.ca(tls)?;
        Ok(Self { hosts, database, tls, ca, connect_timeout: parameters.connect_timeout()? })
    }
}

fn wrong(at: usize, problem: UpstreamProblem) -> UpstreamError {
    UpstreamError { at, problem }
}

/// Every character must be ASCII and visible, so that a position is a byte, and none may begin a part that is not
/// parsed here.
fn check_characters(text: &str) -> Result<(), UpstreamError> {
    if text.len() > UPSTREAM_BYTES_MAX {
        return Err(wrong(1, UpstreamProblem::Length));
    }
    let strange = text.chars().enumerate().find(|(_, c)| !c.is_ascii_graphic() || *c == '#');
    match strange {
        Some((at, '#')) => Err(wrong(at + 1, UpstreamProblem::Fragment)),
        Some((at, found)) => Err(wrong(at + 1, UpstreamProblem::Character(found))),
        None => Ok(()),
    }
}

/// The text without percent-encoding. `at` is the position of its first character.
fn decoded(text: &str, at: usize) -> Result<String, UpstreamError> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (bytes, mut out, mut index) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(index) {
        if *byte != b'%' {
            out.push(*byte);
            index += 1;
            continue;
        }
        let pair = digit(bytes.get(index + 1)).zip(digit(bytes.get(index + 2)));
        let (high, low) = pair.ok_or_else(|| wrong(at + index, UpstreamProblem::Percent))?;
        out.push((high * 16 + low) as u8);
        index += 3;
    }
    String::from_utf8(out).map_err(|_| wrong(at, UpstreamProblem::Percent))
}

fn database(path: &str, at: usize) -> Result<Box<str>, UpstreamError> {
    if let Some(slash) = path.find('/') {
        return Err(wrong(at + slash, UpstreamProblem::Slash));
    }
    let name = decoded(path, at)?;
    let is_right = (1..=SQL_NAME_BYTES_MAX).contains(&name.len()) && !name.contains('\0');
    is_right
        .then(|| name.into())
        .ok_or_else(|| wrong(at.saturating_sub(1), UpstreamProblem::Database))
}

/// The parameters after the question mark, decoded, each with the position of its value.
#[derive(Default)]
struct Parameters {
    given: Vec<(&'static str, String, usize)>,
    /// The end of the URL's part before them.
    end: usize,
}

impl Parameters {
    fn read(query: Option<(&str, usize)>) -> Result<Self, UpstreamError> {
        let Some((query, start)) = query else { return Ok(Self::default()) };
        let mut all = Self { given: vec![], end: start };
        let mut at = start + 1;
        for pair in query.split('&') {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| wrong(at, UpstreamProblem::Pair))?;
            let name = decoded(name, at)?;
            let Some(known) = PARAMETERS.into_iter().find(|known| *known == name) else {
                let near = nearest(&name, PARAMETERS)
                    .and_then(|near| PARAMETERS.into_iter().find(|known| *known == near));
                return Err(wrong(at, UpstreamProblem::Unknown(name.into(), near)));
            };
            if all.value(known).is_some() {
                return Err(wrong(at, UpstreamProblem::Twice(known)));
            }
            let value_at = at + pair.len() - value.len();
            all.given.push((known, decoded(value, value_at)?, value_at));
            at += pair.len() + 1;
        }
        Ok(all)
    }

    fn value(&self, name: &str) -> Option<(&str, usize)> {
        let found = self.given.iter().find(|(known, ..)| *known == name);
        found.map(|(_, value, at)| (value.as_str(), *at))
    }

    /// The position of a parameter's value.
    fn at(&self, name: &str) -> usize {
        self.value(name).map_or(self.end, |(_, at)| at)
    }

    fn tls(&self) -> Result<SqlTls, UpstreamError> {
        let Some((word, at)) = self.value("sslmode") else { return Ok(SqlTls::default()) };
        let mode = SqlTls::ALL.into_iter().find(|mode| mode.word() == word);
        mode.ok_or_else(|| wrong(at, UpstreamProblem::Mode))
    }

    fn ca(&self, tls: SqlTls) -> Result<Option<Box<str>>, UpstreamError> {
        match self.value("sslrootcert") {
            None => Ok(None),
            Some((_, at)) if tls != SqlTls::VerifyFull => Err(wrong(at, UpstreamProblem::UnusedCa)),
            Some((file, _)) if file.starts_with('/') && !file.contains('\0') => {
                Ok(Some(file.into()))
            }
            Some((_, at)) => Err(wrong(at, UpstreamProblem::Ca)),
        }
    }

    fn connect_timeout(&self) -> Result<Span, UpstreamError> {
        let Some((text, at)) = self.value("connect_timeout") else {
            return Ok(UpstreamUrl::CONNECT_TIMEOUT);
        };
        let secs = number(text).filter(|secs| (1..=CONNECT_SECS_MAX).contains(secs));
        secs.map(Span::from_secs).ok_or_else(|| wrong(at, UpstreamProblem::Timeout))
    }
}

/// A number in decimal digits only.
fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

fn port(text: &str, at: usize) -> Result<u16, UpstreamError> {
    let port = number(text).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    port.ok_or_else(|| wrong(at, UpstreamProblem::Port))
}

/// The hosts of the authority, or those of the parameter `host`.
fn hosts(
    (authority, start): (&str, usize),
    parameters: &Parameters,
) -> Result<Vec<Address>, UpstreamError> {
    if let Some(at) = authority.find('@') {
        return Err(wrong(start + at + 1, UpstreamProblem::User));
    }
    let given = ["host", "port"].into_iter().find_map(|name| parameters.value(name));
    match (authority, given, parameters.value("host")) {
        ("", _, Some(hosts)) => listed(hosts, parameters.value("port")),
        ("", ..) => Err(wrong(start + 1, UpstreamProblem::NoHost)),
        (_, Some((_, at)), _) => Err(wrong(at, UpstreamProblem::HostTwice)),
        (authority, None, _) => {
            let mut at = start + 1;
            let parts = authority.split(',').map(|part| {
                let host = host_and_port(part, at);
                at += part.len() + 1;
                host
            });
            let hosts: Vec<Address> = parts.collect::<Result<_, _>>()?;
            check_count(hosts, start + 1)
        }
    }
}

fn check_count(hosts: Vec<Address>, at: usize) -> Result<Vec<Address>, UpstreamError> {
    if hosts.len() > UPSTREAM_HOSTS_MAX {
        return Err(wrong(at, UpstreamProblem::Hosts));
    }
    Ok(hosts)
}

/// The hosts of the parameter `host`, with the ports of the parameter `port`: one for each, or one for all.
fn listed(
    (hosts, at): (&str, usize),
    ports: Option<(&str, usize)>,
) -> Result<Vec<Address>, UpstreamError> {
    let each = match ports {
        Some((text, at)) => {
            text.split(',').map(|text| port(text, at)).collect::<Result<Vec<u16>, _>>()?
        }
        None => vec![PORT],
    };
    let names: Vec<&str> = hosts.split(',').collect();
    let of = |index: usize| match &*each {
        [one] => Some(*one),
        each if each.len() == names.len() => each.get(index).copied(),
        _ => None,
    };
    let count = |_: ()| wrong(ports.map_or(at, |(_, at)| at), UpstreamProblem::PortCount);
    let each = names.iter().enumerate().map(|(index, name)| {
        let port = of(index).ok_or(()).map_err(count)?;
        address(name, port, at)
    });
    check_count(each.collect::<Result<_, _>>()?, at)
}

/// One host of the authority: `HOST`, `HOST:PORT`, `[IPv6]` or `[IPv6]:PORT`. A host that begins with an encoded slash
/// is the directory of a unix socket.
fn host_and_port(part: &str, at: usize) -> Result<Address, UpstreamError> {
    let form = || wrong(at, UpstreamProblem::Host(ParseAddressError::Form));
    let end = match part.starts_with('[') {
        true => part.find(']').ok_or_else(form)?,
        false => 0,
    };
    let colon = part.get(end..).and_then(|rest| rest.find(':')).map(|colon| end + colon);
    let (host, number) = match colon.map(|colon| (colon, part.split_at(colon))) {
        // The first character of the rest is the colon.
        Some((colon, (host, rest))) => {
            (host, port(rest.strip_prefix(':').unwrap_or(rest), at + colon + 1)?)
        }
        None => (part, PORT),
    };
    let Some(bracketed) = host.strip_prefix('[') else {
        return address(&decoded(host, at)?, number, at);
    };
    let ip = bracketed.strip_suffix(']').and_then(|ip| ip.parse().ok()).ok_or_else(form)?;
    Ok(Address::Socket((std::net::IpAddr::V6(ip), number).into()))
}

/// The address of a host: an IP address, a name, or the directory of a unix socket.
fn address(host: &str, port: u16, at: usize) -> Result<Address, UpstreamError> {
    let invalid = |error| wrong(at, UpstreamProblem::Host(error));
    if host.is_empty() {
        return Err(wrong(at, UpstreamProblem::NoHost));
    }
    if host.starts_with('/') {
        let directory = host.strip_suffix('/').unwrap_or(host);
        // PostgreSQL names its sockets like this.
        return format!("unix:{directory}/.s.PGSQL.{port}").parse().map_err(invalid);
    }
    if let Ok(ip) = host.parse::<std::net::IpAddr>() {
        return Ok(Address::Socket((ip, port).into()));
    }
    match format!("{host}:{port}").parse().map_err(invalid)? {
        address @ Address::Host { .. } => Ok(address),
        _ => Err(invalid(ParseAddressError::Host)),
    }
}

impl UpstreamUrl {
    /// How long connecting may take by default.
    pub const CONNECT_TIMEOUT: Span = Span::from_secs(5);
}

impl fmt::Display for UpstreamUrl {
    /// The URL in its shortest form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgresql://")?;
        for (index, host) in self.hosts.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match host {
                Address::Socket(address) if address.port() == PORT && address.is_ipv4() => {
                    write!(f, "{}", address.ip())?;
                }
                Address::Socket(address) if address.port() == PORT => {
                    write!(f, "[{}]", address.ip())?
                }
                Address::Host { name, port: PORT } => f.write_str(name)?,
                Address::Unix(path) => {
                    let (directory, port) = path.rsplit_once("/.s.PGSQL.").unwrap_or((path, ""));
                    let directory = if directory.is_empty() { "/" } else { directory };
                    write!(f, "{}:{port}", Encoded(directory))?;
                }
                address => write!(f, "{address}")?,
            }
        }
        write!(f, "/{}", Encoded(&self.database))?;
        let mut separator = '?';
        let mut parameter = |f: &mut fmt::Formatter<'_>, name: &str, value: &str| {
            let written = write!(f, "{separator}{name}={}", Encoded(value));
            separator = '&';
            written
        };
        if self.tls != SqlTls::default() {
            parameter(f, "sslmode", self.tls.word())?;
        }
        if let Some(ca) = &self.ca {
            parameter(f, "sslrootcert", ca)?;
        }
        if self.connect_timeout != Self::CONNECT_TIMEOUT {
            parameter(f, "connect_timeout", &(self.connect_timeout.0 / 1_000_000_000).to_string())?;
        }
        Ok(())
    }
}

/// A text with every byte percent-encoded that is not a letter, a digit or one of `- . _ ~`.
struct Encoded<'t>(&'t str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'-' | b'.' | b'_' | b'~' => write!(f, "{}", char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte)),
            byte => write!(f, "%{byte:02X}"),
        })
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {}: {}", self.at, self.problem)
    }
}

impl std::error::Error for UpstreamError {}

impl fmt::Display for UpstreamProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => {
                f.write_str("expected a URL such as \"postgresql://127.0.0.1:5432/app\"")
            }
            Self::Length => write!(f, "expected a URL of at most {UPSTREAM_BYTES_MAX} bytes"),
            Self::Character(found) => {
                write!(f, "{found:?} must be percent-encoded")
            }
            Self::Fragment => f.write_str("'#' must be written as %23"),
            Self::User => f.write_str(
                "expected hosts only; `login` names the user and the file of its password",
            ),
            Self::Percent => {
                f.write_str("expected two hexadecimal digits after each %, and UTF-8 when decoded")
            }
            Self::NoHost => f.write_str("expected a host, or host=/DIRECTORY of a unix socket"),
            Self::Hosts => write!(f, "expected at most {UPSTREAM_HOSTS_MAX} hosts"),
            Self::Host(ParseAddressError::Path) => {
                f.write_str("the path of the unix socket is too long for the system")
            }
            Self::Host(_) => f.write_str(
                "expected the name of a host, an IPv4 address, or an IPv6 address in brackets",
            ),
            Self::Port => f.write_str("expected a port from 1 to 65535"),
            Self::PortCount => f.write_str("expected one port, or one for each host"),
            Self::HostTwice => f.write_str(
                "expected no host and port here, because hosts are given before the database",
            ),
            Self::Database => write!(
                f,
                "expected a slash and the name of a database, of 1 to {SQL_NAME_BYTES_MAX} bytes"
            ),
            Self::Slash => f.write_str("'/' in the name of a database must be written as %2F"),
            Self::Pair => f.write_str("expected NAME=VALUE"),
            Self::Unknown(name, near) => {
                write!(f, "unknown parameter {name:?}")?;
                match near {
                    Some(near) => write!(f, ", did you mean \"{near}\"?"),
                    None => write!(f, ", expected one of: {}", PARAMETERS.join(", ")),
                }
            }
            Self::Twice(name) => write!(f, "{name} is given twice"),
            Self::Mode => f.write_str("sslmode: expected disable, prefer, require or verify-full"),
            Self::UnixTls => {
                f.write_str("sslmode: a unix socket is not encrypted; expected disable or prefer")
            }
            Self::Ca => f.write_str("sslrootcert: expected an absolute path"),
            Self::UnusedCa => f.write_str("sslrootcert: it needs sslmode=verify-full"),
            Self::Timeout => {
                write!(
                    f,
                    "connect_timeout: expected a number of seconds from 1 to {CONNECT_SECS_MAX}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
