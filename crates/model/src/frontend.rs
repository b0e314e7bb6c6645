//! Rows of the table Frontend.
//!
//! Ordered settings are maps from numbers: `use_backend` from its place to `BACKEND when EXPRESSION`,
//! `tls_certificate` and `tls_key` from the place of a certificate to the names of its files. Files are named by
//! absolute paths, so that they are the same wherever the daemon was started.

use crate::error::ModelError;
use crate::reader::Reader;
use paceline_routing::{
    Address, Certificate, ErrorBody, Frontend, FrontendTimeouts, LogFormat, Network,
    ParseAddressError, UseBackend, UserFrom,
};
use paceline_types::Span;
use std::collections::BTreeMap;

/// The longest name of a file.
const PATH_BYTES_MAX: usize = 4_095;

/// The shortest timeout.
const TIMEOUT_MIN: Span = Span::from_ms(1);

/// The word in `upgrades` for none at all; a row without any has the default.
const NO_UPGRADES: &str = "none";

/// The separator between a backend and its condition in `use_backend`.
const WHEN: &str = " when ";

/// The frontend that a row describes.
pub(crate) fn read(row: Reader<'_>) -> Result<Frontend, ModelError> {
    let plain = Frontend::new(row.text("name"), listen(row)?);
    let errors = row.numbered("errors").map(|(status, file)| {
        Ok(ErrorBody { status: status as u16, file: path(row, "errors", (status, file))? })
    });
    Ok(Frontend {
        backend: row.optional("backend").map(Into::into),
        use_backend: use_backend(row)?,
        certificates: certificates(row)?,
        http2: row.choice("http2").unwrap_or(plain.http2),
        proxy_protocol: row.flag("proxy_protocol"),
        trusted: trusted(row)?,
        user_from: match row.optional("user") {
            Some("basic") => Some(UserFrom::Basic),
            Some(_) => Some(UserFrom::Bearer),
            None => None,
        },
        upgrades: upgrades(row)?.unwrap_or(plain.upgrades),
        body_bytes_max: row.number("max_body")?,
        connections_max: row.number("max_connections")?.unwrap_or(plain.connections_max),
        timeouts: timeouts(row, plain.timeouts)?,
        errors: errors.collect::<Result<_, ModelError>>()?,
        access_log: match row.optional("access_log") {
            Some("json") => Some(LogFormat::Json),
            Some(_) => Some(LogFormat::Common),
            None => None,
        },
        log_values: row.named("log_values").map(|(name, e)| (name.into(), e.to_owned())).collect(),
        ..plain
    })
}

fn listen(row: Reader<'_>) -> Result<Vec<Address>, ModelError> {
    let each = row.texts("listen").map(|text| {
        let wrong =
            |error: ParseAddressError| row.error("listen", format!("{error}, found {text:?}"));
        match text.parse().map_err(wrong)? {
            Address::Host { .. } => {
                let message = format!("expected an IP address to listen on, found {text:?}");
                Err(row.error("listen", message))
            }
            address => Ok(address),
        }
    });
    let each: Vec<Address> = each.collect::<Result<_, _>>()?;
    match each.is_empty() {
        true => Err(row.error("listen", "expected an address to listen on".into())),
        false => Ok(each),
    }
}

fn use_backend(row: Reader<'_>) -> Result<Vec<UseBackend>, ModelError> {
    let each = row.numbered("use_backend").map(|(number, text)| {
        let (backend, when) = text.split_once(WHEN).ok_or_else(|| {
            let message = format!("{number}: expected \"BACKEND when EXPRESSION\"");
            row.error("use_backend", message)
        })?;
        Ok(UseBackend { when: when.to_owned(), backend: backend.into() })
    });
    each.collect()
}

fn certificates(row: Reader<'_>) -> Result<Vec<Certificate>, ModelError> {
    let mut keys: BTreeMap<i64, &str> = row.numbered("tls_key").collect();
    let each = row.numbered("tls_certificate").map(|(number, certificate)| {
        let key = keys.remove(&number).ok_or_else(|| {
            row.error("tls_key", format!("{number}: expected the key of this certificate"))
        })?;
        let certificate = path(row, "tls_certificate", (number, certificate))?;
        Ok(Certificate { certificate, key: path(row, "tls_key", (number, key))? })
    });
    let each: Vec<Certificate> = each.collect::<Result<_, ModelError>>()?;
    match keys.keys().next() {
        Some(number) => {
            let message = format!("{number}: expected the certificate of this key");
            Err(row.error("tls_certificate", message))
        }
        None => Ok(each),
    }
}

/// The name of a file, which must not depend on where the daemon was started.
fn path(
    row: Reader<'_>,
    column: &str,
    (number, file): (i64, &str),
) -> Result<Box<str>, ModelError> {
    absolute(file).map_err(|message| row.error(column, format!("{number}: {message}")))
}

/// The name of a file, or its error.
pub(crate) fn absolute(file: &str) -> Result<Box<str>, String> {
    let is_right = file.starts_with('/') && file.len() <= PATH_BYTES_MAX && !file.contains('\0');
    is_right.then(|| file.into()).ok_or_else(|| {
        format!("expected an absolute path of at most {PATH_BYTES_MAX} bytes, found {file:?}")
    })
}

fn trusted(row: Reader<'_>) -> Result<Vec<Network>, ModelError> {
    let each = row.texts("trusted").map(|text| {
        let network = text.parse::<Network>();
        network.map_err(|error| row.error("trusted", format!("{error}, found {text:?}")))
    });
    each.collect()
}

/// The protocols, lower case; `None` if the row does not set them.
fn upgrades(row: Reader<'_>) -> Result<Option<Vec<Box<str>>>, ModelError> {
    let each: Vec<Box<str>> =
        row.texts("upgrades").map(|text| text.to_ascii_lowercase().into()).collect();
    match &*each {
        [] => return Ok(None),
        [word] if &**word == NO_UPGRADES => return Ok(Some(vec![])),
        _ => {}
    }
    // RFC 9110, section 7.8: a protocol is a token, optionally followed by a slash and a version.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&byte);
    let is_wrong = |name: &str| {
        name == NO_UPGRADES || name.is_empty() || name.len() > 64 || !name.bytes().all(fits)
    };
    match each.iter().find(|name| is_wrong(name)) {
        Some(name) => {
            let message = format!("expected a protocol such as \"websocket\", found {name:?}");
            Err(row.error("upgrades", message))
        }
        None => Ok(Some(each)),
    }
}

fn timeouts(row: Reader<'_>, plain: FrontendTimeouts) -> Result<FrontendTimeouts, ModelError> {
    Ok(FrontendTimeouts {
        header: timeout(row, "timeout_header")?.unwrap_or(plain.header),
        body: timeout(row, "timeout_body")?.unwrap_or(plain.body),
        idle: timeout(row, "timeout_idle")?.unwrap_or(plain.idle),
        queue: row.parsed("timeout_queue")?,
        tunnel: timeout(row, "timeout_tunnel")?.unwrap_or(plain.tunnel),
    })
}

/// A timeout, which is never zero.
pub(crate) fn timeout(row: Reader<'_>, column: &str) -> Result<Option<Span>, ModelError> {
    match row.parsed::<Span>(column)? {
        Some(span) if span < TIMEOUT_MIN => {
            Err(row.error(column, format!("expected at least {TIMEOUT_MIN}, found {span}")))
        }
        span => Ok(span),
    }
}
