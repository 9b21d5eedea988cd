//! [`Certificate`]: what a server shows for itself, and how it takes a newer one while it serves.
//!
//! Invariant: the certificate goes with the key. Files that are of no use change nothing, as those that somebody replaces
//! are for a moment, one before the other.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::tls::{TlsError, file, read_certificates};

/// A chain of certificates and its key, as their files had them when they were read last.
pub(super) struct Certificate {
    chain_file: PathBuf,
    key_file: PathBuf,
    shown: ArcSwap<CertifiedKey>,
}

impl Certificate {
    /// Reads a chain of certificates, the server's own first, and its private key.
    pub(super) fn read(chain_file: &Path, key_file: &Path) -> Result<Self, TlsError> {
        let shown = ArcSwap::from_pointee(read(chain_file, key_file)?);
        Ok(Self { chain_file: chain_file.to_owned(), key_file: key_file.to_owned(), shown })
    }

    pub(super) fn shown(&self) -> Arc<CertifiedKey> {
        self.shown.load_full()
    }

    /// Shows what the files have by now; says whether that is another chain.
    pub(super) fn renew(&self) -> Result<bool, TlsError> {
        let read = read(&self.chain_file, &self.key_file)?;
        let is_another = read.cert != self.shown().cert;
        if is_another {
            self.shown.store(Arc::new(read));
        }
        Ok(is_another)
    }
}

fn read(chain_file: &Path, key_file: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates(chain_file)?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(file("a private key", key_file))?;
    Ok(CertifiedKey::from_der(chain, key, &ring::default_provider())?)
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain_file, key_file, .. } = self;
        f.debug_struct("Certificate").field("chain", chain_file).field("key", key_file).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What replaces a certificate writes two files, one before the other.
    #[test]
    fn a_certificate_without_its_key_leaves_the_one_before() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let directory = tempfile::tempdir().unwrap();
        let (chain, key) = (directory.path().join("chain"), directory.path().join("key"));
        let put = |from: &str, to: &Path| fs::copy(data.join(from), to).unwrap();
        put("localhost.pem", &chain);
        put("localhost.key", &key);
        let certificate = Certificate::read(&chain, &key).unwrap();
        let first = certificate.shown().cert.clone();
        assert!(!certificate.renew().unwrap(), "nothing is new");

        put("renewed.pem", &chain);
        assert!(matches!(certificate.renew(), Err(TlsError::Unusable(_))));
        assert_eq!(certificate.shown().cert, first);
        put("renewed.key", &key);
        assert!(certificate.renew().unwrap());
        assert_eq!(certificate.shown().cert, read_certificates(&chain).unwrap());

        fs::remove_file(&chain).unwrap();
        assert!(matches!(certificate.renew(), Err(TlsError::File { .. })));
        assert_ne!(certificate.shown().cert, first);
    }
}
