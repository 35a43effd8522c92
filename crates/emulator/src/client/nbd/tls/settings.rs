//! Settings of TLS: authorities that are trusted, the name that is expected, and the certificate of the client.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore, SignatureScheme};

use super::reasons::explained;
use crate::client::ClientError;
use crate::frontend::nbd::{TlsParameters, Uri};

/// Files of the folder of `tls-certificates`, named as libnbd, nbdkit and qemu name them.
const AUTHORITIES: &str = "ca-cert.pem";
const CERTIFICATE: &str = "client-cert.pem";
const KEY: &str = "client-key.pem";

/// Everything for the TLS connections to one URI. A copy shares the certificates.
#[derive(Clone)]
pub(in crate::client::nbd) struct TlsSettings {
    config: Arc<ClientConfig>,
    /// Name that the certificate of the server must be for.
    name: ServerName<'static>,
    /// Place where the trusted authorities are from.
    authorities: Arc<str>,
}

impl TlsSettings {
    /// Reads the certificates that a URI names; `None` of a URI without TLS.
    ///
    /// # Errors
    /// If files are missing or damaged, or the host is none that a certificate can name.
    pub(in crate::client::nbd) fn of(uri: &Uri) -> Result<Option<Self>, ClientError> {
        let Some(parameters) = uri.tls() else { return Ok(None) };
        let failed = |reason: String| ClientError::Tls { server: uri.to_string(), reason };
        let host = match (&parameters.hostname, uri) {
            (Some(name), _) => name,
            (None, Uri::Tcp { host, .. }) => host,
            (None, Uri::Unix { .. }) => "localhost",
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            failed(format!(
                "no certificate is for `{host}`, which is neither a name nor an address; write tls-hostname=NAME"
            ))
        })?;
        if let Some(folder) = &parameters.certificates
            && !folder.is_dir()
        {
            let reason = format!("is no folder; tls-certificates names a folder with {AUTHORITIES}");
            return Err(ClientError::Credentials { path: folder.clone(), reason });
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?;
        let (verifier, authorities): (Arc<dyn ServerCertVerifier>, String) = match parameters {
            TlsParameters { accepts_any_server: true, .. } => {
                (Arc::new(AnyServer(provider)), "no authority".to_owned())
            }
            TlsParameters { certificates: Some(folder), .. } => {
                let path = folder.join(AUTHORITIES);
                let verifier = verifier(trusted(&path)?, provider);
                let verifier =
                    verifier.map_err(|reason| ClientError::Credentials { path: path.clone(), reason })?;
                (verifier, format!("`{}`", path.display()))
            }
            TlsParameters { certificates: None, .. } => {
                let roots = trusted_by_system().map_err(failed)?;
                (verifier(roots, provider).map_err(failed)?, "the system".to_owned())
            }
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match parameters.certificates.as_deref().map(own_certificate).transpose()?.flatten()
        {
            None => builder.with_no_client_auth(),
            Some((folder, chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
                let reason = match error {
                    rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                        format!("is not the key of the certificate in {CERTIFICATE}")
                    }
                    error => format!("cannot be used: {error}"),
                };
                ClientError::Credentials { path: folder.join(KEY), reason }
            })?,
        };
        // Every connection proves anew who it is.
        config.resumption = Resumption::disabled();
        Ok(Some(Self { config: Arc::new(config), name, authorities: authorities.into() }))
    }

    /// A connection at its begin.
    pub(super) fn begin(&self) -> Result<UnbufferedClientConnection, rustls::Error> {
        UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }

    /// The failure of a connection in words.
    pub(super) fn error(&self, server: String, error: &rustls::Error) -> ClientError {
        ClientError::Tls { server, reason: explained(error, &self.name, &self.authorities) }
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("TlsSettings");
        fields.field("name", &self.name).field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

fn verifier(
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map(|verifier| verifier as _).map_err(|error| format!("cannot be used: {error}"))
}

/// The authorities of a file.
fn trusted(path: &Path) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates(path)?.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            let reason = format!("certificate {} is damaged: {error}", index + 1);
            ClientError::Credentials { path: path.to_owned(), reason }
        })?;
    }
    Ok(roots)
}

fn trusted_by_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (count, _) = roots.add_parsable_certificates(found.certs);
    if count == 0 {
        let because = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        return Err(format!(
            "the system trusts no authority{because}; write tls-certificates=FOLDER, a folder with {AUTHORITIES}"
        ));
    }
    Ok(roots)
}

type OwnCertificate<'a> = (&'a Path, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The certificate and key of the client in a folder, if they are there.
fn own_certificate(folder: &Path) -> Result<Option<OwnCertificate<'_>>, ClientError> {
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    if !certificate.exists() && !key.exists() {
        return Ok(None);
    }
    let chain = certificates(&certificate)?;
    let what = "private key in PEM form without a password (PKCS #8, PKCS #1 or SEC 1)";
    let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| unreadable(&key, &error, what))?;
    Ok(Some((folder, chain, key)))
}

/// All certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let what = "certificate in PEM form";
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match all {
        Ok(all) if all.is_empty() => Err(unreadable(path, &pem::Error::NoItemsFound, what)),
        Ok(all) => Ok(all),
        Err(error) => Err(unreadable(path, &error, what)),
    }
}

fn unreadable(path: &Path, error: &pem::Error, what: &str) -> ClientError {
    let reason = match error {
        pem::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            format!(
                "is missing; the folder of tls-certificates has {AUTHORITIES}, and for servers that demand a \
                 certificate of the client, {CERTIFICATE} and {KEY}"
            )
        }
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        pem::Error::NoItemsFound => format!("holds no {what}"),
        error => format!("holds no {what}: {error}"),
    };
    ClientError::Credentials { path: path.to_owned(), reason }
}

/// Accepts every certificate, but no server that lacks its key.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
