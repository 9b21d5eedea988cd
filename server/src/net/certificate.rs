//! [`Certificate`]: what a server shows for itself, and how it takes a newer one while it serves.
//!
//! Invariant: the certificate goes with the key. Files that are of no use change nothing, as those that somebody replaces
//! are for a moment, one before the other.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, CertificateError, InconsistentKeys};

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
    /// There is no private key in the file.
    #[error("there is no private key in {path:?}, or none that is not encrypted")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The server's own certificate is none of X.509.
    #[error("what {path:?} has first is no certificate of X.509")]
    NotCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The server's own certificate is of X.509 version 1 or 2, which has no names of servers.
    #[error(
        "the certificate in {path:?} is of a version of X.509 before 3: make one of version 3, as \
         `openssl req -x509` does, and `openssl x509 -req` with -extfile"
    )]
    OldCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The private key is none that TLS signs with.
    #[error("the private key in {path:?} is not one of RSA, ECDSA or Ed25519, or is damaged")]
    NotKey {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not go together.
    #[error("the private key in {key:?} is not that of the first certificate in {certificates:?}")]
    OtherKey {
        /// The certificates' file.
        certificates: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Certificate and key are of no use.
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

/// Why a certificate and a key cannot be used, for who has files and knows nothing of peers.
fn unusable(error: rustls::Error, certificates: &Path, key: &Path) -> TlsError {
    let path = certificates.to_owned();
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsError::OtherKey { certificates: path, key: key.to_owned() }
        }
        // There is no variant for it, and its text is all that it has.
        rustls::Error::InvalidCertificate(CertificateError::Other(why))
            if why.to_string() == "UnsupportedCertVersion" =>
        {
            TlsError::OldCertificate { path }
        }
        rustls::Error::InvalidCertificate(CertificateError::BadEncoding) => {
            TlsError::NotCertificate { path }
        }
        rustls::Error::General(_) => TlsError::NotKey { path: key.to_owned() },
        error => TlsError::Unusable(error),
    }
}

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
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey { path: key_file.to_owned() },
        error => file("a private key", key_file)(error),
    })?;
    let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
    certified.map_err(|error| unusable(error, chain_file, key_file))
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

    /// What `openssl x509 -req` made of a request, without extensions, and the key.
    const OLD_CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBEzCBuwIUJZyOqXDajFVz/aeYRiS0VioM4WUwCgYIKoZIzj0EAwIwDDEKMAgG
A1UEAwwBeDAgFw0yNjEyMDEwMTA5MTlaGA8yMTI2MTEwNzAxMDkxOVowDDEKMAgG
A1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKdW5p++gTALZ7UOIiiZ
yvxqR2fKdzoAW6gUKUvqERyuoU6hHUQ1HvogZggkBifbd9QOnCuZlaVB64zJbB4w
aAcwCgYIKoZIzj0EAwIDRwAwRAIgQCli/sEZ/hNfvQ2i0SqDGIAPejcBWMptbgm1
bSt2bRUCIFxYYhMKF3qt+k9zo6C//d3TlTVIKWEflGhMfGwNphrk
-----END CERTIFICATE-----
";
    const ITS_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgtZ8VTmuGPSYq/nhm
4htV60VD/roPdJ466HKWutaPddGhRANCAASnVuafvoEwC2e1DiIomcr8akdnync6
AFuoFClL6hEcrqFOoR1ENR76IGYIJAYn23fUDpwrmZWlQeuMyWweMGgH
-----END PRIVATE KEY-----
";

    /// Each for itself may be as it should be, in files of which one is named.
    #[test]
    fn why_a_certificate_and_a_key_cannot_be_used_is_told_in_words() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let pem = |what: &str| format!("-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n");
        let good = data.join("localhost.pem");
        let (old, key) = (file("old.pem", OLD_CERTIFICATE), file("its.key", ITS_KEY));
        let (no_certificate, no_key) =
            (file("no.pem", &pem("CERTIFICATE")), file("no.key", &pem("PRIVATE KEY")));
        for (certificates, key, expected) in [
            (&old, &key, format!("the certificate in {old:?} is of a version of X.509 before 3: ")),
            (&no_certificate, &key, format!("what {no_certificate:?} has first is no certificate")),
            (&good, &no_key, format!("the private key in {no_key:?} is not one of RSA, ")),
            (
                &good,
                &key,
                format!("the private key in {key:?} is not that of the first certificate in"),
            ),
            (&good, &good, format!("there is no private key in {good:?}")),
        ] {
            let error = Certificate::read(certificates, key).unwrap_err().to_string();
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(Certificate::read(&good, &data.join("localhost.key")).is_ok());
    }

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
        assert!(matches!(certificate.renew(), Err(TlsError::OtherKey { .. })));
        assert_eq!(certificate.shown().cert, first);
        put("renewed.key", &key);
        assert!(certificate.renew().unwrap());
        assert_eq!(certificate.shown().cert, read_certificates(&chain).unwrap());

        fs::remove_file(&chain).unwrap();
        assert!(matches!(certificate.renew(), Err(TlsError::File { .. })));
        assert_ne!(certificate.shown().cert, first);
    }
}
