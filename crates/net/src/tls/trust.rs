//! Which server certificates are trusted.
//!
//! There are three settings: authorities that the system trusts, authorities in a file, or any certificate. In each
//! case the server must prove that it has the key of its certificate.

use super::chain;
use paceline_routing::BackendTls;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// The certificates that the system trusts. They are read when they are first needed, once for all backends that are
/// read together.
#[derive(Debug, Default)]
pub struct Roots(Option<Result<Arc<RootCertStore>, String>>);

impl Roots {
    fn system(&mut self) -> Result<Arc<RootCertStore>, String> {
        self.0.get_or_insert_with(read_system).clone()
    }
}

fn read_system() -> Result<Arc<RootCertStore>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // Some system certificates are too old to be parsed; the others are valid without them.
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        let next = "install ca-certificates, or name a file of them as ca";
        return Err(format!("the system has no root certificates{why}; {next}"));
    }
    Ok(Arc::new(store))
}

/// The verifier for the servers of a backend.
pub(super) fn verifier(
    spec: &BackendTls,
    roots: &mut Roots,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let of_authorities = |store: Arc<RootCertStore>| {
        WebPkiServerVerifier::builder_with_provider(store, Arc::clone(provider))
            .build()
            .map_err(|error| error.to_string())
    };
    match &spec.ca {
        _ if !spec.verify => Ok(Arc::new(Anyone(Arc::clone(provider)))),
        None => Ok(of_authorities(roots.system()?)?),
        Some(file) => {
            let listed = chain(file)?;
            let mut store = RootCertStore::empty();
            for certificate in &listed {
                let added = store.add(certificate.clone());
                added.map_err(|error| format!("cannot use a certificate of {file}: {error}"))?;
            }
            Ok(Arc::new(Listed { authorities: of_authorities(Arc::new(store))?, listed }))
        }
    }
}

/// Trusts the authorities in a file, and the certificates in it themselves. So a server with a self-signed
/// certificate is trusted by listing that certificate.
#[derive(Debug)]
struct Listed {
    authorities: Arc<WebPkiServerVerifier>,
    listed: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // At this point the certificate was already found valid at this time. Most tools mark a self-signed
            // certificate as that of an authority, which a server certificate otherwise never is.
            Err(error) if is_authority(&error) && self.listed.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Whether a certificate was refused only because it is that of an authority.
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    let inner = other.0.downcast_ref::<webpki::Error>();
    inner == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// Trusts any certificate.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
