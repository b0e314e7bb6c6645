//! TLS to servers: what a backend trusts and presents, read once and shared by all of its connections.
//!
//! A [`ClientTls`] never changes: if settings or files change, there is a new one. Its sessions belong to one backend
//! only, so a session that was verified under other settings is never resumed.

use super::load;
use super::trust::{Roots, verifier};
use crate::stream::Socket;
use paceline_routing::{Address, BackendTls, Certificate};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Sessions of one backend that can be resumed.
const SESSIONS_MAX: usize = 1_024;

/// The TLS of one backend.
pub struct ClientTls {
    /// The settings that it was made from.
    pub spec: BackendTls,
    /// None if the files could not be read. Then no server is connected to, least of all without TLS.
    connector: Option<TlsConnector>,
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Reads the files of a backend. `protocol` is offered to servers (ALPN).
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or a key does not match its certificate.
    pub fn new(spec: &BackendTls, roots: &mut Roots, protocol: &[u8]) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = verifier(spec, roots, &provider)?;
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            // The settings choose the verifier; `trust` states what it verifies.
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &spec.certificate {
            Some(Certificate { certificate, key }) => {
                let own = SingleCertAndKey::from(load(certificate, key, &provider)?);
                config.with_client_cert_resolver(Arc::new(own))
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols.push(protocol.to_vec());
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        let connector = Some(TlsConnector::from(Arc::new(config)));
        Ok(Self { spec: spec.clone(), connector })
    }

    /// The TLS of a backend whose files could not be read.
    pub fn unready(spec: &BackendTls) -> Self {
        Self { spec: spec.clone(), connector: None }
    }

    /// The TLS of a backend when its files cannot be read: the previous one, unless that verifies less.
    pub fn kept(known: Option<&Arc<Self>>, spec: &BackendTls) -> Arc<Self> {
        let is_enough = |known: &&Arc<Self>| {
            let verifies = known.spec.verify || !spec.verify;
            known.spec == *spec || (known.is_ready() && verifies)
        };
        known.filter(is_enough).map_or_else(|| Arc::new(Self::unready(spec)), Arc::clone)
    }

    /// Whether its files could be read.
    pub const fn is_ready(&self) -> bool {
        self.connector.is_some()
    }

    /// Performs the handshake with a server; none if the files could not be read.
    pub async fn connect(
        &self,
        name: ServerName<'static>,
        socket: Socket,
    ) -> Option<io::Result<TlsStream<Socket>>> {
        Some(self.connector.as_ref()?.connect(name, socket).await)
    }
}

/// The server name for a server at this address. If there is none, the settings were checked to verify nothing. An IP
/// address is not sent.
pub fn name_of(spec: &BackendTls, address: &Address) -> ServerName<'static> {
    let name = spec.name_of(address).and_then(|name| ServerName::try_from(name.into_string()).ok());
    name.unwrap_or_else(|| ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
}

/// Why TLS failed, for clients. Names and authorities are not disclosed to them.
pub fn why(error: &io::Error) -> Option<&'static str> {
    use rustls::Error;
    let inner = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match inner {
        Error::InvalidCertificate(error) => match error {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name"
            }
            CertificateError::UnknownIssuer => {
                "its certificate is from an authority that is not believed"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet"
            }
            _ => "its certificate is not valid",
        },
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => "it does not accept our certificate",
        _ => "the handshake failed",
    })
}

#[cfg(test)]
mod tests {
    use super::{ClientTls, Roots};
    use paceline_routing::BackendTls;
    use std::sync::Arc;

    /// If the new files cannot be read, a backend keeps its old ones, but never verifies less than the settings
    /// require.
    #[test]
    fn what_was_read_before_is_kept_unless_it_verifies_less() {
        let missing = BackendTls { ca: Some("/none".into()), ..BackendTls::default() };
        let trusting = BackendTls { verify: false, ..BackendTls::default() };
        let mut roots = Roots::default();
        assert!(ClientTls::new(&missing, &mut roots, b"http/1.1").is_err());
        let known = Arc::new(ClientTls::new(&trusting, &mut roots, b"http/1.1").unwrap());
        let other = BackendTls { name: Some("a.test".into()), ..trusting.clone() };
        assert!(Arc::ptr_eq(&ClientTls::kept(Some(&known), &other), &known));
        let unready = ClientTls::kept(Some(&known), &missing);
        assert!(!unready.is_ready(), "that would be without verification");
        assert!(Arc::ptr_eq(&ClientTls::kept(Some(&unready), &missing), &unready));
        assert!(!ClientTls::kept(None, &trusting).is_ready());
    }
}
