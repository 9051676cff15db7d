//! TLS, when given a certificate.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use super::TlsFiles;

/// What makes connections of this certificate.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor> {
    let certificate = || format!("can't read the certificate {}", files.certificate.display());
    let chain = CertificateDer::pem_file_iter(&files.certificate).with_context(certificate)?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().with_context(certificate)?;
    let key = || format!("can't read the certificate's key {}", files.key.display());
    let private = PrivateKeyDer::from_pem_file(&files.key).with_context(key)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().context("can't start TLS")?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, private).with_context(|| {
        format!("{} and {} don't belong together", files.certificate.display(), files.key.display())
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
