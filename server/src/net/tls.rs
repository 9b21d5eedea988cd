//! [`Tls`]: a certificate and its key, from PEM files, which are read again while it is used.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, rustls::crypto::ring};

use super::certificate::{Certificate, TlsError};
use super::on_own_thread;

/// How often the files are read again.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// TLS with a certificate; HTTP/1.1 is all that it offers.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

impl Tls {
    /// Reads a chain of certificates, the server's own first, and its private key.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn read(certificates: &Path, key: &Path) -> Result<Self, TlsError> {
        let certificate = Arc::new(Certificate::read(certificates, key)?);
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Reads the files again, which may block; says whether the certificate is another. Connections that begin from here
    /// on are shown what the files have, and the certificate before if that is of no use.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn renew(&self) -> Result<bool, TlsError> {
        self.certificate.renew()
    }

    /// [Reads](Self::renew) the files again every minute, for ever. What fails is logged once.
    pub async fn keep_renewed(self) {
        let mut told = None;
        loop {
            tokio::time::sleep(READ_AGAIN).await;
            let tls = self.clone();
            let Ok(reading) = on_own_thread(move || tls.renew()) else { continue };
            let Ok(renewed) = reading.await else { continue };
            if let Ok(true) = renewed {
                tracing::info!("new connections are shown the certificate that is in its file now");
            }
            let failure = renewed.err().map(|error| error.to_string());
            if let Some(error) = failure.as_ref().filter(|_| failure != told) {
                tracing::warn!(%error, "connections are shown the certificate that was read before");
            }
            told = failure;
        }
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
    use super::super::read_certificates;
    use super::*;

    /// A certificate is good for months, and a server runs for longer.
    #[tokio::test(start_paused = true)]
    async fn files_are_read_again_while_a_server_runs() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let directory = tempfile::tempdir().unwrap();
        let files = ["pem", "key"].map(|end| directory.path().join(end));
        let put = |name: &str| {
            for (end, to) in ["pem", "key"].iter().zip(&files) {
                std::fs::copy(data.join(format!("{name}.{end}")), to).unwrap();
            }
        };
        put("localhost");
        let [certificate, key] = &files;
        let tls = Tls::read(certificate, key).unwrap();
        let first = tls.certificate.shown();
        let renewing = tokio::spawn(tls.clone().keep_renewed());
        put("renewed");
        while tls.certificate.shown().cert == first.cert {
            tokio::time::sleep(READ_AGAIN).await;
        }
        assert_eq!(tls.certificate.shown().cert, read_certificates(certificate).unwrap());
        assert!(!renewing.is_finished());
    }
}
