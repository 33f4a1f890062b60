//! The TLS configuration of clients.
//!
//! It uses ring, which builds in seconds and needs no code generator.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier;

use crate::regular_file;

/// More than any collection of root certificates.
const MAX_ROOTS_BYTES: u64 = 16 << 20;

pub(crate) static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(ring::default_provider()));

/// What a client checks of the certificate of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// Nothing: an eavesdropper learns nothing, but a host that poses as the server is not noticed.
    Nothing,
    /// A trusted authority has signed it, for whatever name.
    Authority(Roots),
    /// A trusted authority has signed it for the name of the server.
    Name(Roots),
}

/// The certificates of the authorities that a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// Those of the machine, read at the first handshake.
    Machine,
    /// Those in a PEM file.
    File(PathBuf),
}

/// Why there is no TLS configuration.
#[derive(Debug)]
pub enum TlsError {
    /// The file of root certificates cannot be read.
    UnreadableRoots {
        path: PathBuf,
        source: io::Error,
    },
    /// The file contains no certificate that can be used.
    NoRoots {
        path: PathBuf,
    },
    Rejected(Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnreadableRoots { path, .. } => {
                write!(f, "cannot read the root certificates in {}", path.display())
            }
            Self::NoRoots { path } => write!(
                f,
                "{} contains no certificate in PEM format",
                path.display()
            ),
            Self::Rejected(_) => f.write_str("cannot prepare TLS"),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::UnreadableRoots { source, .. } => Some(source),
            Self::NoRoots { .. } => None,
            Self::Rejected(error) => Some(error),
        }
    }
}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        Self::Rejected(error)
    }
}

/// Returns a configuration for clients that offer these protocols, in order of preference.
pub fn client_config(
    verification: &Verification,
    protocols: &[&[u8]],
) -> Result<ClientConfig, TlsError> {
    let verifier: Arc<dyn ServerCertVerifier> = match verification {
        Verification::Nothing => Arc::new(AnyCertificate),
        Verification::Authority(roots) => Arc::new(AnyName(verifier(roots)?)),
        Verification::Name(roots) => verifier(roots)?,
    };
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

fn verifier(roots: &Roots) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    match roots {
        Roots::Machine => Ok(Arc::new(LazyVerifier::default())),
        Roots::File(path) => {
            let roots = Arc::new(read_roots(path)?);
            let unusable = |_| TlsError::NoRoots {
                path: path.to_owned(),
            };
            let verifier =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&PROVIDER))
                    .build()
                    .map_err(unusable)?;
            Ok(verifier)
        }
    }
}

fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let pem = regular_file::read_followed(path, MAX_ROOTS_BYTES).map_err(|source| {
        TlsError::UnreadableRoots {
            path: path.to_owned(),
            source,
        }
    })?;
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be parsed is not trusted; the others still are.
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    Ok(roots)
}

/// The verifier of the platform, made when the first certificate arrives. A failure to read the
/// root certificates fails that handshake, and the next one reads them again.
#[derive(Default)]
struct LazyVerifier(OnceLock<Verifier>);

impl LazyVerifier {
    fn get(&self) -> Result<&Verifier, Error> {
        if let Some(verifier) = self.0.get() {
            return Ok(verifier);
        }
        let made = Verifier::new(Arc::clone(&PROVIDER))?;
        Ok(self.0.get_or_init(|| made))
    }
}

impl fmt::Debug for LazyVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazyVerifier")
    }
}

impl ServerCertVerifier for LazyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.get()?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.get()?.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.get()?.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        supported_schemes()
    }
}

/// Accepts a certificate of a trusted authority for any name.
#[derive(Debug)]
struct AnyName(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.0
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The verifiers compare the name last, when everything else is right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts every certificate. The handshake still proves that the server has its key.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        supported_schemes()
    }
}

fn supported_schemes() -> Vec<SignatureScheme> {
    PROVIDER
        .signature_verification_algorithms
        .supported_schemes()
}
