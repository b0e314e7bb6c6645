//! TLS at a frontend: certificates by name, protocols by choice. TLS to servers is below.

mod client;
mod trust;

pub(crate) use client::{ClientTls, name_of, why};
pub(crate) use trust::Roots;

use crate::serve::buffer::Prefixed;
use crate::serve::stream::{Socket, Stream};
use paceline_routing::Frontend;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// The TLS of one frontend.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads the certificates of a frontend; none if it has none.
    pub fn new(frontend: &Frontend) -> Result<Option<Self>, String> {
        if frontend.certificates.is_empty() {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut certificates = Certificates(vec![]);
        for files in &frontend.certificates {
            let key = load(&files.certificate, &files.key, &provider)?;
            certificates.0.push(Arc::new(key));
        }
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certificates));
        // Clients may take up their session at any worker, and after many others.
        config.ticketer =
            rustls::crypto::ring::Ticketer::new().map_err(|error| error.to_string())?;
        if frontend.http2 {
            config.alpn_protocols.push(b"h2".to_vec());
        }
        config.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Some(Self(TlsAcceptor::from(Arc::new(config)))))
    }

    /// Shakes hands, within `wait`; also tells the name that the client asked for.
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

/// Whether a frontend could use these two files; what is wrong with them if not.
///
/// # Errors
///
/// When one cannot be read, or the key is not that of the certificate.
pub fn check_certificate(certificate: &str, key: &str) -> Result<(), String> {
    load(certificate, key, &rustls::crypto::ring::default_provider()).map(drop)
}

fn load(
    certificate: &str,
    key: &str,
    provider: &rustls::crypto::CryptoProvider,
) -> Result<CertifiedKey, String> {
    let chain = chain(certificate)?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("cannot read the key {key}: {error}"))?;
    CertifiedKey::from_der(chain, private, provider)
        .map_err(|error| format!("{key} is no key of the certificate {certificate}: {error}"))
}

/// The certificates in a file, of which there has to be one.
fn chain(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("cannot read the certificate {file}: {error}"))?;
    match chain.is_empty() {
        true => Err(format!("there is no certificate in {file}")),
        false => Ok(chain),
    }
}

/// Certificates, chosen by the name that a client asks for; the first one for all others.
#[derive(Debug)]
struct Certificates(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let is_for = |key: &&Arc<CertifiedKey>| {
            let certificate = key.end_entity_cert().ok();
            let parsed = certificate.and_then(|cert| ParsedCertificate::try_from(cert).ok());
            let (Some(parsed), Some(name)) = (parsed, &name) else { return false };
            rustls::client::verify_server_name(&parsed, name).is_ok()
        };
        let chosen = if self.0.len() > 1 { self.0.iter().find(is_for) } else { None };
        chosen.or(self.0.first()).cloned()
    }
}
