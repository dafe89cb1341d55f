// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS with certificates of both sides: what the daemon shows and whom it takes, and the same for
//! its clients.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use x509_cert::Certificate;
use x509_cert::der::Decode;

use crate::base::exit::Failure;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A key pair's files: PEM.
#[derive(Debug, Clone)]
pub struct Pair<'a> {
    /// The certificate, with those between it and its authority.
    pub cert: &'a Path,
    /// Its private key.
    pub key: &'a Path,
}

impl Pair<'_> {
    fn load(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Failure> {
        let text = read(self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&text)
            .map_err(|error| about(self.key, &format!("no private key in PEM: {error}")))?;
        Ok((certificates(self.cert)?, key))
    }
}

fn about(path: &Path, what: &str) -> Failure {
    Failure::usage(format!("{}: {what}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| about(path, &error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(about(path, "no certificate in PEM")),
        Err(error) => Err(about(path, &format!("no certificate in PEM: {error}"))),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    for one in certificates(path)? {
        let added = roots.add(one);
        added.map_err(|error| about(path, &format!("no certificate of an authority: {error}")))?;
    }
    Ok(roots)
}

/// What the daemon shows, and that it takes those only whose certificates `client_ca` has signed.
///
/// # Errors
/// A file cannot be read, or has something else.
pub fn server(pair: &Pair<'_>, client_ca: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let (certificates, key) = pair.load()?;
    let roots = Arc::new(roots(client_ca)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    let verifier = verifier.map_err(|error| about(client_ca, &error.to_string()))?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::failed(format!("TLS: {error}")))?;
    let mut config = builder
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates, key)
        .map_err(|error| about(pair.cert, &error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// What a client shows, and that it takes the daemon only if `ca` has signed its certificate.
///
/// # Errors
/// A file cannot be read, or has something else.
pub fn client(pair: &Pair<'_>, ca: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let (certificates, key) = pair.load()?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::failed(format!("TLS: {error}")))?;
    let config = builder
        .with_root_certificates(roots(ca)?)
        .with_client_auth_cert(certificates, key)
        .map_err(|error| about(pair.cert, &error.to_string()))?;
    Ok(Arc::new(config))
}

/// The subject of a certificate, as RFC 4514 writes it. One without a subject that can be read is
/// known by its digest, so that holders of two of them are not the same.
pub fn subject(certificate: &CertificateDer<'_>) -> String {
    let read = Certificate::from_der(certificate);
    let subject = read.map(|read| read.tbs_certificate.subject.to_string());
    match subject {
        Ok(subject) if !subject.is_empty() => subject,
        _ => format!("sha256:{}", digest(certificate)),
    }
}

fn digest(bytes: &[u8]) -> String {
    let suite = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13();
    let digest = suite.map(|suite| suite.common.hash_provider.hash(bytes));
    let digest = digest.as_ref().map_or(&[][..], AsRef::as_ref);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
