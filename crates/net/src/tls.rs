//! TLS for clients: certificates by server name, and the protocols to offer. TLS to servers is in `tls/client.rs`.

mod client;
mod trust;

pub use client::{ClientTls, name_of, why};
pub use trust::Roots;

use crate::buffer::Prefixed;
use crate::file;
use crate::stream::{Socket, Stream};
use paceline_routing::Certificate;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// Longest file of certificates or of a key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The TLS that clients are offered.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads the certificates; none if the list is empty. `protocols` are offered in this order (ALPN).
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or a key does not match its certificate.
    pub fn new(files: &[Certificate], protocols: &[&[u8]]) -> Result<Option<Self>, String> {
        if files.is_empty() {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut certificates = Certificates::default();
        for files in files {
            certificates.add(load(&files.certificate, &files.key, &provider)?);
        }
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificates));
        // Clients may resume a session at any worker, and after many other clients.
        config.ticketer =
            rustls::crypto::ring::Ticketer::new().map_err(|error| error.to_string())?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Some(Self(TlsAcceptor::from(Arc::new(config)))))
    }

    /// Performs the handshake, within `wait`. Also returns the server name that the client requested.
    pub async fn accept(
        &self,
        socket: Prefixed<Socket>,
        wait: Duration,
    ) -> Option<(Stream, Box<str>)> {
        let stream = tokio::time::timeout(wait, self.0.accept(socket)).await.ok()?.ok()?;
        let sni = stream.get_ref().1.server_name().unwrap_or_default().into();
        Some((Stream::Tls(Box::new(stream)), sni))
    }
}

/// Checks whether a frontend could use these two files.
///
/// # Errors
///
/// When a file cannot be read, or the key does not match the certificate.
pub fn check_certificate(certificate: &str, key: &str) -> Result<(), String> {
    load(certificate, key, &rustls::crypto::ring::default_provider()).map(drop)
}

fn load(
    certificate: &str,
    key: &str,
    provider: &rustls::crypto::CryptoProvider,
) -> Result<CertifiedKey, String> {
    let chain = chain(certificate)?;
    let private = file::read(key, FILE_BYTES_MAX)
        .map_err(|error| error.to_string())
        .and_then(|pem| PrivateKeyDer::from_pem_slice(&pem).map_err(|error| error.to_string()))
        .map_err(|error| format!("cannot read the key {key}: {error}"))?;
    CertifiedKey::from_der(chain, private, provider)
        .map_err(|error| format!("{key} is no key of the certificate {certificate}: {error}"))
}

/// The certificates in a file; there must be at least one.
fn chain(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = file::read(file, FILE_BYTES_MAX)
        .map_err(|error| error.to_string())
        .and_then(|pem| {
            let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
            chain.map_err(|error| error.to_string())
        })
        .map_err(|error| format!("cannot read the certificate {file}: {error}"))?;
    match chain.is_empty() {
        true => Err(format!("there is no certificate in {file}")),
        false => Ok(chain),
    }
}

/// Certificates, chosen by the server name that a client requests. The first one is the default. However many there
/// are, the choice takes one or two lookups.
#[derive(Debug, Default)]
struct Certificates {
    first: Option<Arc<CertifiedKey>>,
    /// By the names in each, in lower case. `*.example.org` is such a name.
    by_name: BTreeMap<Box<str>, Arc<CertifiedKey>>,
}

impl Certificates {
    /// Adds a certificate. A name that an earlier certificate has stays with that one.
    fn add(&mut self, key: CertifiedKey) {
        let key = Arc::new(key);
        self.first.get_or_insert_with(|| Arc::clone(&key));
        let parsed = key.end_entity_cert().ok();
        let parsed = parsed.and_then(|der| webpki::EndEntityCert::try_from(der).ok());
        for name in parsed.iter().flat_map(|own| own.valid_dns_names()) {
            let name = name.to_ascii_lowercase().into_boxed_str();
            self.by_name.entry(name).or_insert_with(|| Arc::clone(&key));
        }
    }

    /// The certificate for a name. A star matches exactly the first label (RFC 6125 6.4.3).
    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let starred = || self.by_name.get(&*format!("*.{}", name.split_once('.')?.1));
        self.by_name.get(&*name).or_else(starred)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        hello.server_name().and_then(|name| self.find(name)).or(self.first.as_ref()).cloned()
    }
}
