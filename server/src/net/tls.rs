//! [`Tls`]: a certificate and its key, from PEM files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls::crypto::ring};

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has nothing of the kind in it.
    #[error("cannot read {what} from {path:?}: {source}")]
    File {
        /// The certificate or the key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A file is no PEM, as one that is cut.
    #[error("cannot read {what} from {path:?}: {reason}")]
    NoPem {
        /// The certificate or the key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no certificate in the file.
    #[error("there is no certificate in {path:?}")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not go together, or are of no use.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The certificates of a PEM file, of which there is at least one.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = certificates.map_err(file("a certificate", path))?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(certificates)
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(pem::Error) -> TlsError + use<> {
    let path = path.to_owned();
    // Its own text has lines as numbers of their bytes, and a line may be all of a key.
    move |source| match source {
        pem::Error::MissingSectionEnd { .. } => {
            TlsError::NoPem { what, path, reason: "there is no -----END line to a -----BEGIN line" }
        }
        pem::Error::IllegalSectionStart { .. } => {
            TlsError::NoPem { what, path, reason: "a -----BEGIN line does not end with -----" }
        }
        source => TlsError::File { what, path, source },
    }
}

/// TLS with a certificate; HTTP/1.1 is all that it offers.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

impl Tls {
    /// Reads a chain of certificates, the server's own first, and its private key.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn read(certificates: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = read_certificates(certificates)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(file("a private key", key))?;
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As one that is being replaced is for a moment, or that has lost its line ends. What may be a key is not told.
    #[test]
    fn a_file_that_is_no_pem_is_told_in_words() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.pem");
        let error = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_certificates(&path).unwrap_err().to_string()
        };
        let expected = |why| format!("cannot read a certificate from {path:?}: {why}");
        let no_end = expected("there is no -----END line to a -----BEGIN line");
        assert_eq!(error("-----BEGIN CERTIFICATE-----\nMIIB\n"), no_end);
        assert_eq!(error("-----BEGIN CERTIFICATE-----MIIB-----END CERTIFICATE-----\n"), no_end);
        let no_begin = expected("a -----BEGIN line does not end with -----");
        assert_eq!(error("-----BEGIN CERTIFICATE-----MIIB\n"), no_begin);
    }
}
