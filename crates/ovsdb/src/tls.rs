//! TLS for `pssl:` remotes: the server's certificate, and the authority that signs client certificates.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The files that TLS needs.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's private key, PEM.
    pub private_key: PathBuf,
    /// The server's certificate chain, PEM.
    pub certificate: PathBuf,
    /// Certificates of the authorities whose clients are accepted, PEM.
    pub ca_cert: PathBuf,
}

impl TlsFiles {
    /// Reads the files. An error names the file.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, String> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.private_key)
            .map_err(|error| format!("{}: {error}", self.private_key.display()))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca_cert)? {
            roots
                .add(certificate)
                .map_err(|error| format!("{}: {error}", self.ca_cert.display()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|error| format!("{}: {error}", self.ca_cert.display()))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| format!("{}: {error}", self.certificate.display()))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let fail = |error: String| format!("{}: {error}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(|error| fail(error.to_string()))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| fail(error.to_string()))?;
    if all.is_empty() { Err(fail("there is no certificate in it".to_owned())) } else { Ok(all) }
}
