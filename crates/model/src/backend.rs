//! Rows of the tables Backend and Server.

use crate::error::ModelError;
use crate::frontend::{absolute, timeout};
use crate::reader::Reader;
use paceline_routing::{
    Address, Backend, BackendTimeouts, BackendTls, Certificate, Health, ParseAddressError, Server,
};
use paceline_types::{BackendId, ServerId};

/// The settings of health checks, if they are on.
const HEALTH: [&str; 6] = [
    "health_path",
    "health_host",
    "health_interval",
    "health_timeout",
    "health_rise",
    "health_fall",
];

/// The settings of TLS, if it is on.
const TLS: [&str; 5] = ["tls_ca", "tls_name", "tls_verify", "tls_certificate", "tls_key"];

/// The backend that a row describes, without servers.
pub(crate) fn read(row: Reader<'_>, id: BackendId) -> Result<Backend, ModelError> {
    let plain = Backend::new(id, row.text("name"));
    let timeouts = BackendTimeouts {
        connect: timeout(row, "timeout_connect")?.unwrap_or(plain.timeouts.connect),
        response: timeout(row, "timeout_response")?.unwrap_or(plain.timeouts.response),
        idle: timeout(row, "timeout_idle")?.unwrap_or(plain.timeouts.idle),
    };
    Ok(Backend {
        balance: row.parsed("balance")?.unwrap_or(plain.balance),
        queue_len_max: row.number("queue_max_len")?,
        queue_delay_max: row.parsed("queue_max_delay")?,
        retries: row.number("retries")?.unwrap_or(plain.retries),
        health: health(row)?,
        timeouts,
        tls: tls(row)?,
        ..plain
    })
}

fn health(row: Reader<'_>) -> Result<Option<Health>, ModelError> {
    if !is_on(row, "health", &HEALTH)? {
        return Ok(None);
    }
    let plain = Health::default();
    let path = row.optional("health_path");
    // RFC 9112, section 3.2.1: a path begins with a slash and contains no blanks.
    if let Some(path) = path.filter(|path| !path.starts_with('/') || has_blanks(path)) {
        let message = format!("expected a path such as \"/health\", found {path:?}");
        return Err(row.error("health_path", message));
    }
    let host = row.optional("health_host");
    if let Some(host) = host.filter(|host| host.is_empty() || has_blanks(host)) {
        let message = format!("expected the name of a host, found {host:?}");
        return Err(row.error("health_host", message));
    }
    Ok(Some(Health {
        path: path.map(Into::into),
        host: host.map(Into::into),
        interval: timeout(row, "health_interval")?.unwrap_or(plain.interval),
        timeout: timeout(row, "health_timeout")?.unwrap_or(plain.timeout),
        rise: row.number("health_rise")?.unwrap_or(plain.rise),
        fall: row.number("health_fall")?.unwrap_or(plain.fall),
    }))
}

fn tls(row: Reader<'_>) -> Result<Option<BackendTls>, ModelError> {
    if !is_on(row, "tls", &TLS)? {
        return Ok(None);
    }
    let file = |column: &'static str| {
        let file = row.optional(column).map(absolute).transpose();
        file.map_err(|message| row.error(column, message))
    };
    let certificate = match (file("tls_certificate")?, file("tls_key")?) {
        (Some(certificate), Some(key)) => Some(Certificate { certificate, key }),
        (None, None) => None,
        (Some(_), None) => {
            return Err(row.error("tls_key", "expected the key of the certificate".into()));
        }
        (None, Some(_)) => {
            return Err(row.error("tls_certificate", "expected the certificate of the key".into()));
        }
    };
    let plain = BackendTls::default();
    Ok(Some(BackendTls {
        ca: file("tls_ca")?,
        name: row.optional("tls_name").map(Into::into),
        verify: row.choice("tls_verify").unwrap_or(plain.verify),
        certificate,
    }))
}

/// Whether the column `switch` is true. If it is not, the columns `how` must not be set.
fn is_on(row: Reader<'_>, switch: &str, how: &[&str]) -> Result<bool, ModelError> {
    if row.flag(switch) {
        return Ok(true);
    }
    match how.iter().find(|column| row.has(column)) {
        Some(column) => {
            let message = format!("expected none, because {switch} is false");
            Err(row.error(column, message))
        }
        None => Ok(false),
    }
}

fn has_blanks(text: &str) -> bool {
    !text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The server that a row describes.
pub(crate) fn read_server(row: Reader<'_>, id: ServerId) -> Result<Server, ModelError> {
    let text = row.text("address");
    let wrong = |error: ParseAddressError| row.error("address", format!("{error}, found {text:?}"));
    let address: Address = text.parse().map_err(wrong)?;
    let is_port_0 = match &address {
        Address::Socket(address) => address.port() == 0,
        Address::Host { port, .. } => *port == 0,
        Address::Unix(_) => false,
    };
    if is_port_0 {
        let message = format!("expected a port to connect to, found {text:?}");
        return Err(row.error("address", message));
    }
    let plain = Server::new(id, row.text("name"), address);
    Ok(Server {
        weight: row.number("weight")?.unwrap_or(plain.weight),
        connections_max: row.number("max_connections")?,
        ..plain
    })
}
