//! Authorities and certificates of a moment, and the configurations that are made of them.

use amita_metadata::server::{Judge, OperatorRole, Peer, Role, Tls};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate of a server at `address`.
    pub fn server(&self, address: IpAddr) -> Leaf {
        self.leaf_with("server", |params| {
            params.subject_alt_names = vec![SanType::IpAddress(address)]
        })
    }

    /// A certificate of `user`: etcd's users are named so.
    pub fn leaf(&self, user: &str) -> Leaf {
        self.leaf_with(user, |_| {})
    }

    pub fn expired(&self, user: &str) -> Leaf {
        self.leaf_with(user, |params| {
            (params.not_before, params.not_after) =
                (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
        })
    }

    /// It ends after so long.
    pub fn ending(&self, user: &str, life: Duration) -> Leaf {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.leaf_with(user, |params| {
            params.not_after = rcgen::date_time_ymd(1970, 1, 1) + (now + life);
        })
    }

    fn leaf_with(&self, user: &str, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.subject_alt_names = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Leaf {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap())
            .unwrap();
        roots
    }

    /// A client that trusts this authority, with a certificate or without.
    pub fn client(&self, own: Option<&Leaf>) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(self.roots());
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => builder.with_client_auth_cert(own.chain(), own.key()).unwrap(),
        })
    }
}

impl Leaf {
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()]
    }

    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }

    /// Writes `NAME.pem` and `NAME-key.pem`.
    pub fn write(&self, folder: &Path, name: &str) -> [PathBuf; 2] {
        let paths = [
            folder.join(format!("{name}.pem")),
            folder.join(format!("{name}-key.pem")),
        ];
        std::fs::write(&paths[0], &self.certificate).unwrap();
        std::fs::write(&paths[1], &self.key).unwrap();
        paths
    }
}

/// Knows certificates by their bytes.
#[derive(Default)]
pub struct Known {
    peers: Mutex<HashMap<Vec<u8>, Peer>>,
    generation: AtomicU64,
}

impl Known {
    pub fn add(&self, leaf: &Leaf, role: Role, name: &str) {
        self.insert(
            leaf,
            role,
            name,
            (role == Role::Operator).then_some(OperatorRole::Admin),
        );
    }

    pub fn add_operator(&self, leaf: &Leaf, role: OperatorRole, name: &str) {
        self.insert(leaf, Role::Operator, name, Some(role));
    }

    fn insert(&self, leaf: &Leaf, role: Role, name: &str, operator_role: Option<OperatorRole>) {
        let peer = Peer {
            name: format!("amita://test/{role:?}/{name}"),
            role,
            operator_role,
        };
        let der = leaf.chain()[0].to_vec();
        self.peers.lock().unwrap().insert(der, peer);
    }

    pub fn revoke(&self, leaf: &Leaf) {
        self.peers.lock().unwrap().remove(&leaf.chain()[0].to_vec());
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl Judge for Known {
    fn judge(&self, chain: &[CertificateDer<'_>]) -> Result<Peer, String> {
        let found = self.peers.lock().unwrap().get(chain[0].as_ref()).cloned();
        found.ok_or_else(|| "a certificate of nobody".to_owned())
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
}

impl Authority {
    /// A server that lets in whom this authority has signed and `known` knows.
    pub fn serve(&self, own: &Leaf, known: &Arc<Known>) -> Tls {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(own.chain(), own.key())
            .unwrap();
        Tls::new(Arc::new(config), Arc::clone(known) as Arc<dyn Judge>)
    }
}
