//! Identities of nodes: a throw-away certificate authority per job, and one certificate per
//! incarnation of a node.
//!
//! # Start
//!
//! The launcher creates an [`Authority`] for the job, which issues an [`Identity`] to each node.
//! The authority's key never leaves the launcher. A node receives its key over the launch channel,
//! not in a file. The identities of guests are the exception: the launcher issues them as the job
//! starts, and writes them to files. Only the user can read these files, and they are removed when
//! a guest takes them or the job ends. A node without a private launch channel makes its
//! [`NodeKey`] itself, and the authority [certifies](Authority::certify) the public half (see
//! `enrolment`). A certificate contains two names: `n3.<job>.gridspan.invalid`, which a node that
//! dials node 3 requires, and `n3.i1.<job>.gridspan.invalid`, with the incarnation, which both
//! sides require once the other has sent its hello.
//!
//! # Steady state
//!
//! Connections use TLS 1.3 and require both certificates. Only this job's authority is trusted, and
//! the protocol name contains the job, so that jobs on one host cannot connect by accident. There
//! are no session tickets and no 0-RTT, since 0-RTT data can be replayed.
//!
//! # Failure
//!
//! An unknown peer, a node of another job, and a node that claims a number or an incarnation that
//! its certificate does not name are refused during the handshake or at the hello, before any frame
//! is read.

use crate::error::StartError;
use gridspan_topology::NodeId;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// The version of the protocol between nodes: of the hello and of all that follows it.
pub(super) const PROTOCOL_VERSION: u16 = 1;

/// The longest job name: with the node and incarnation it must fit a DNS label and name.
pub(super) const JOB_NAME_BYTES_MAX: usize = 40;

/// An identity could not be created or used. Nothing changed.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The job's name cannot be part of a certificate.
    #[error(
        "the job name {0:?} is not 1 to {JOB_NAME_BYTES_MAX} lower-case letters, digits and \
         inner hyphens: choose another"
    )]
    JobName(String),
    /// A certificate could not be created.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A certificate or key is damaged.
    #[error("cannot read the node's certificate or key, launch it again: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// TLS rejects the certificate or key.
    #[error("cannot use the node's certificate or key, launch it again: {0}")]
    Tls(#[from] rustls::Error),
}

impl From<IdentityError> for StartError {
    fn from(error: IdentityError) -> Self {
        let reason = error.to_string();
        match error {
            IdentityError::JobName(name) => Self::JobName { name, reason },
            _ => Self::Certificate { reason },
        }
    }
}

/// The throw-away certificate authority of one job. It stays with the launcher.
pub struct Authority {
    job: String,
    probe_key: [u8; 32],
    certificate: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    /// Creates an authority for `job`, with a fresh key.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if `job` cannot be part of a certificate's names, or the certificate or
    /// its key cannot be made.
    pub fn new(job: &str) -> Result<Self, IdentityError> {
        check_job_name(job)?;
        let mut probe_key = [0; 32];
        provider()
            .secure_random
            .fill(&mut probe_key)
            .map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let mut parameters = rcgen::CertificateParams::new(vec![])?;
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        parameters.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, format!("gridspan job {job}"));
        let certificate = parameters.self_signed(&key)?;
        let issuer = rcgen::Issuer::new(parameters, key);
        Ok(Self { job: job.to_owned(), probe_key, certificate, issuer })
    }

    /// Issues a certificate with a fresh key for one incarnation of `node`.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the certificate or its key cannot be made.
    pub fn issue(&self, node: NodeId, incarnation: u64) -> Result<Identity, IdentityError> {
        let key = NodeKey::new()?;
        let identity = self.certify(node, incarnation, &key.public())?;
        Ok(Identity { key: key.to_pem(), ..identity })
    }

    /// Issues a certificate for the key that one incarnation of `node` has made. The identity
    /// contains no key: the node adds it.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the certificate cannot be made.
    pub fn certify(
        &self,
        node: NodeId,
        incarnation: u64,
        key: &NodePublicKey,
    ) -> Result<Identity, IdentityError> {
        let names =
            vec![node_name(&self.job, node), incarnation_name(&self.job, node, incarnation)];
        let mut parameters = rcgen::CertificateParams::new(names)?;
        parameters.serial_number = Some(serial(node, incarnation));
        parameters.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![
            rcgen::ExtendedKeyUsagePurpose::ClientAuth,
            rcgen::ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let certificate = parameters.signed_by(key, &self.issuer)?;
        Ok(Identity {
            job: self.job.clone(),
            node,
            incarnation,
            authority: self.certificate.pem(),
            certificate: certificate.pem(),
            key: String::new(),
            probe_key: self.probe_key,
        })
    }

    pub(super) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// Issues a certificate with a fresh key for a server of this name that is not a node.
    pub(super) fn issue_server(
        &self,
        name: &str,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), IdentityError> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()])?;
        parameters.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = parameters.signed_by(&key, &self.issuer)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((certificate.der().clone(), key.into()))
    }
}

/// The key pair of a node.
pub struct NodeKey(rcgen::KeyPair);

impl NodeKey {
    /// Makes a fresh key pair.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the system has no random bytes.
    pub fn new() -> Result<Self, IdentityError> {
        Ok(Self(rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?))
    }

    /// Returns the public half.
    pub fn public(&self) -> NodePublicKey {
        let bytes = self.0.public_key_raw().try_into();
        NodePublicKey(bytes.expect("an Ed25519 key has 32 bytes"))
    }

    /// Returns the private half, in PEM.
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeKey").field(&self.public()).finish()
    }
}

/// The public half of a [`NodeKey`]: a key of Ed25519 (RFC 8032).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePublicKey([u8; 32]);

impl rcgen::PublicKeyData for NodePublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

/// Returns a serial number that no other incarnation of a node has. A number derived from the key
/// would sometimes be a byte shorter, so that runs with the same seed would differ.
fn serial(node: NodeId, incarnation: u64) -> rcgen::SerialNumber {
    let mut bytes = vec![1];
    bytes.extend(node.0.to_be_bytes());
    bytes.extend(incarnation.to_be_bytes());
    bytes.into()
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("job", &self.job).finish_non_exhaustive()
    }
}

/// All data that one incarnation of a node needs to prove its identity. Contains a private key: it
/// may only travel over a channel that others cannot read, and `Debug` omits the key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The job's name.
    pub job: String,
    /// The node.
    pub node: NodeId,
    /// The incarnation of the node; a restarted node has a higher number.
    pub incarnation: u64,
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// The node's certificate, in PEM.
    pub certificate: String,
    /// The node's private key, in PEM; empty until the node adds a key that it has made itself.
    pub key: String,
    /// Key with which all nodes of the job sign their probes.
    pub probe_key: [u8; 32],
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("job", &self.job)
            .field("node", &self.node)
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Returns the QUIC name of the protocol, which differs from job to job.
    pub(super) fn protocol_name(&self) -> Vec<u8> {
        format!("gridspan/{PROTOCOL_VERSION}/{}", self.job).into_bytes()
    }

    /// Returns the TLS settings for connections that this node dials.
    pub(super) fn client_config(&self) -> Result<rustls::ClientConfig, IdentityError> {
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(self.chain()?, self.private_key()?)?;
        config.alpn_protocols = vec![self.protocol_name()];
        config.enable_early_data = false;
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }

    /// Returns the TLS settings for connections that this node accepts.
    pub(super) fn server_config(&self) -> Result<rustls::ServerConfig, IdentityError> {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.roots()?.into(), provider())
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain()?, self.private_key()?)?;
        config.alpn_protocols = vec![self.protocol_name()];
        config.max_early_data_size = 0;
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Returns the TLS settings over QUIC for connections that this node dials.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the certificate or the key of this identity cannot be read or used.
    pub fn quic_client(&self) -> Result<Arc<QuicClientConfig>, IdentityError> {
        let config = QuicClientConfig::try_from(self.client_config()?);
        Ok(Arc::new(config.map_err(|error| rustls::Error::General(error.to_string()))?))
    }

    /// Returns the TLS settings over QUIC for connections that this node accepts: only those with a
    /// certificate of the same authority.
    ///
    /// # Errors
    ///
    /// Those of [`quic_client`](Self::quic_client).
    pub fn quic_server(&self) -> Result<Arc<QuicServerConfig>, IdentityError> {
        let config = QuicServerConfig::try_from(self.server_config()?);
        Ok(Arc::new(config.map_err(|error| rustls::Error::General(error.to_string()))?))
    }

    /// Returns the name that the certificate of `node` must contain. Nodes of the same job that
    /// dial `node` require it.
    pub fn name_of(&self, node: NodeId) -> String {
        node_name(&self.job, node)
    }

    fn roots(&self) -> Result<RootCertStore, IdentityError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes())?)?;
        Ok(roots)
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
        Ok(vec![CertificateDer::from_pem_slice(self.certificate.as_bytes())?])
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, IdentityError> {
        Ok(PrivateKeyDer::from_pem_slice(self.key.as_bytes())?)
    }
}

/// Returns the name that the certificate of `node` must contain for the nodes that dial it.
pub(super) fn node_name(job: &str, node: NodeId) -> String {
    format!("n{}.{job}.gridspan.invalid", node.0)
}

/// Whether the certificate that the other side presented names this incarnation of `node`. TLS has
/// already verified that the job's authority issued it.
pub(super) fn certifies(
    presented: &[CertificateDer<'_>],
    job: &str,
    node: NodeId,
    incarnation: u64,
) -> bool {
    let name = incarnation_name(job, node, incarnation);
    let (Some(end_entity), Ok(name)) = (presented.first(), ServerName::try_from(name)) else {
        return false;
    };
    webpki::EndEntityCert::try_from(end_entity)
        .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(&name).is_ok())
}

/// Checks that `job` can be part of a certificate's names.
///
/// # Errors
///
/// [`IdentityError::JobName`] if it cannot.
pub fn check_job_name(job: &str) -> Result<(), IdentityError> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fine = (1..=JOB_NAME_BYTES_MAX).contains(&job.len())
        && job.bytes().all(inner)
        && !job.starts_with('-')
        && !job.ends_with('-');
    if fine { Ok(()) } else { Err(IdentityError::JobName(job.to_owned())) }
}

fn incarnation_name(job: &str, node: NodeId, incarnation: u64) -> String {
    format!("n{}.i{incarnation}.{job}.gridspan.invalid", node.0)
}

pub(super) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_names_one_life_of_one_node_of_one_job() {
        let identity = Authority::new("heat-7").unwrap().issue(NodeId(3), 2).unwrap();
        let chain = identity.chain().unwrap();
        assert!(certifies(&chain, "heat-7", NodeId(3), 2));
        assert!(!certifies(&chain, "heat-7", NodeId(3), 1));
        assert!(!certifies(&chain, "heat-7", NodeId(4), 2));
        assert!(!certifies(&chain, "heat-8", NodeId(3), 2));
        assert!(!certifies(&[], "heat-7", NodeId(3), 2));
    }

    #[test]
    fn a_key_that_a_node_has_made_fits_its_certificate() {
        let authority = Authority::new("heat").unwrap();
        let key = NodeKey::new().unwrap();

        let identity = authority.certify(NodeId(3), 2, &key.public()).unwrap();

        assert!(certifies(&identity.chain().unwrap(), "heat", NodeId(3), 2));
        assert!(identity.client_config().is_err(), "the key is missing");
        let whole = Identity { key: key.to_pem(), ..identity.clone() };
        assert!(whole.client_config().is_ok() && whole.server_config().is_ok());
        let other = Identity { key: NodeKey::new().unwrap().to_pem(), ..identity };
        assert!(other.client_config().is_err(), "the key of another certificate");
        assert!(!format!("{key:?}").contains("PRIVATE"));
    }

    #[test]
    fn all_certificates_of_one_life_have_equal_length() {
        let authority = Authority::new("heat").unwrap();
        let length = |_| authority.issue(NodeId(3), 2).unwrap().chain().unwrap()[0].len();
        let lengths: std::collections::BTreeSet<usize> = (0..2000).map(length).collect();
        assert_eq!(lengths.len(), 1, "{lengths:?}");
    }

    #[test]
    fn zero_rtt_and_tickets_are_off() {
        let identity = Authority::new("heat").unwrap().issue(NodeId(0), 1).unwrap();
        let server = identity.server_config().unwrap();
        assert_eq!((server.max_early_data_size, server.send_tls13_tickets), (0, 0));
        let client = identity.client_config().unwrap();
        assert!(!client.enable_early_data);
        assert_eq!(client.alpn_protocols, [b"gridspan/1/heat".to_vec()]);
    }

    #[test]
    fn names_that_do_not_fit_a_certificate_are_refused() {
        for job in ["", "Heat", "a.b", "-a", "a-", &"a".repeat(41)] {
            assert!(matches!(Authority::new(job), Err(IdentityError::JobName(_))), "{job}");
        }
    }

    #[test]
    fn the_key_is_not_shown_in_debug_output() {
        let identity = Authority::new("heat").unwrap().issue(NodeId(0), 1).unwrap();
        assert!(!format!("{identity:?}").contains("PRIVATE"));
    }
}
