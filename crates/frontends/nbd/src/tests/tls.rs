//! TLS, by a client of rustls in the same thread.

use super::*;
use crate::{Admitted, Judge, TlsAcceptor, TlsError, TlsFiles, TlsMode};
use amita_frontend::service::Event;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, SupportedProtocolVersion, version};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// An authority, a server and a client, as files.
struct Pki {
    folder: tempfile::TempDir,
}

impl Pki {
    fn new() -> Pki {
        Pki::named(None)
    }

    /// With a client whose certificate has this URI.
    fn named(uri: Option<String>) -> Pki {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki { folder };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(pki.path("ca.pem"), authority.pem()).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            if name == "client"
                && let Some(uri) = &uri
            {
                params
                    .subject_alt_names
                    .push(SanType::URI(uri.as_str().try_into().unwrap()));
            }
            let certificate = params.signed_by(&key, &authority).unwrap();
            std::fs::write(pki.path(&format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(pki.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        pki
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self, verify: bool) -> TlsFiles {
        TlsFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_authorities: verify.then(|| self.path("ca.pem")),
        }
    }

    fn server(&self, mode: TlsMode, verify: bool) -> Client {
        Pki::greeted(self.config(mode, verify))
    }

    fn config(&self, mode: TlsMode, verify: bool) -> Config {
        Config {
            tls: Some(TlsAcceptor::load(mode, &self.files(verify)).unwrap()),
            ..Config::default()
        }
    }

    fn greeted(config: Config) -> Client {
        let mut client = Client::with(config, 16 * MIB, 1 << 20);
        client.settle();
        client.take(18);
        client.send(&3u32.to_be_bytes());
        client
    }

    fn client(&self, identity: bool) -> ClientConnection {
        Pki::connection(self.client_config(identity, rustls::ALL_VERSIONS))
    }

    fn connection(config: Arc<ClientConfig>) -> ClientConnection {
        ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap()
    }

    fn client_config(&self, identity: bool, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = if identity {
            let chain = vec![CertificateDer::from_pem_file(self.path("client.pem")).unwrap()];
            builder
                .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(self.path("client.key")).unwrap())
                .unwrap()
        } else {
            builder.with_no_client_auth()
        };
        Arc::new(config)
    }
}

/// Lets both ends talk until both are silent; what the server said in plain text.
fn exchange(client: &mut Client, tls: &mut ClientConnection) -> Result<Vec<u8>, rustls::Error> {
    let mut plain = Vec::new();
    loop {
        let mut bytes = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut bytes).unwrap();
        }
        let silent = bytes.is_empty();
        let mut rest = &bytes[..];
        while !rest.is_empty() && client.closed.is_none() && client.front.wants_input() {
            let count = client.receive(rest);
            rest = &rest[count..];
            client.settle();
        }
        client.settle();
        let output = std::mem::take(&mut client.output);
        let mut source = &output[..];
        while !source.is_empty() {
            tls.read_tls(&mut source).unwrap();
            tls.process_new_packets()?;
            let _ = tls.reader().read_to_end(&mut plain);
        }
        if silent && output.is_empty() {
            return Ok(plain);
        }
    }
}

/// Begins TLS.
fn upgrade(client: &mut Client, tls: &mut ClientConnection) -> Result<(), rustls::Error> {
    client.send(&option(opt::STARTTLS, &[]));
    assert_eq!(client.option_reply().kind, reply::ACK);
    exchange(client, tls).map(|plain| assert!(plain.is_empty()))
}

/// Sends plain text and returns what came back.
fn say(client: &mut Client, tls: &mut ClientConnection, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    for part in bytes.chunks(32 << 10) {
        tls.writer().write_all(part).unwrap();
        plain.extend(exchange(client, tls).unwrap());
    }
    plain
}

#[test]
fn a_session_over_tls() {
    let pki = Pki::new();
    for (mode, verify) in [
        (TlsMode::Allow, false),
        (TlsMode::Require, false),
        (TlsMode::Require, true),
    ] {
        let mut client = pki.server(mode, verify);
        let mut tls = pki.client(verify);
        upgrade(&mut client, &mut tls).unwrap();
        let mut plain = say(&mut client, &mut tls, &option(opt::STRUCTURED_REPLY, &[]));
        plain.extend(say(&mut client, &mut tls, &option(opt::STARTTLS, &[])));
        plain.extend(say(&mut client, &mut tls, &option(opt::GO, &info("vol", &[]))));
        client.output = plain;
        let kinds: Vec<_> = client.option_replies().iter().map(|reply| reply.kind).collect();
        assert_eq!(
            kinds,
            [reply::ACK, reply::ERR_INVALID, reply::INFO, reply::ACK],
            "a second STARTTLS is refused"
        );
        let data = pattern(3, 5 << 20);
        client.output = say(&mut client, &mut tls, &write(1, 777, &data));
        assert_eq!(client.simple(), (1, 0));
        client.output = say(&mut client, &mut tls, &request(0, command::READ, 2, 777, 5 << 20));
        assert!(client.structured_read(2, 777, 5 << 20).as_ref() == Ok(&data));
        client.output = say(&mut client, &mut tls, &request(0, command::DISC, 0, 0, 0));
        assert_eq!(client.closed, Some(CloseReason::Goodbye));
        let state = tls.process_new_packets().unwrap();
        assert!(state.peer_has_closed(), "TLS was shut down before the connection");
    }
}

#[test]
fn the_service_is_told_who_asks() {
    let pki = Pki::new();
    let mut client = pki.server(TlsMode::Allow, false);
    client.send(&option(opt::LIST, &[]));
    assert_eq!(client.service.asked_by, Some(Who::Stranger));
    for identity in [false, true] {
        let mut client = pki.server(TlsMode::Allow, identity);
        let mut tls = pki.client(identity);
        upgrade(&mut client, &mut tls).unwrap();
        say(&mut client, &mut tls, &option(opt::GO, &info("vol", &[])));
        // What rcgen calls a subject that was given no name.
        let named = Who::Client("rcgen self signed cert".into());
        let expected = if identity { named } else { Who::Stranger };
        assert_eq!(client.service.asked_by, Some(expected), "TLS alone proves nothing");
    }
}

/// Whom the cluster's authority vouches for, in a test.
#[derive(Debug, Default)]
struct Vouching {
    admits: AtomicBool,
    keeps: AtomicBool,
    admitted: Admitted,
}

impl Judge for Vouching {
    fn admits(&self, chain: &[CertificateDer<'_>]) -> Result<Admitted, String> {
        assert_eq!(chain.len(), 1);
        let admitted = self.admits.load(SeqCst).then(|| self.admitted.clone());
        admitted.ok_or("not let in".to_owned())
    }

    fn keeps(&self, _: &[CertificateDer<'_>]) -> Result<(), String> {
        self.keeps.load(SeqCst).then_some(()).ok_or("revoked".to_owned())
    }
}

/// One that is taken up again is believed by what it has shown before, however long ago.
#[test]
fn no_session_is_taken_up_again() {
    let pki = Pki::new();
    for version in [&version::TLS12, &version::TLS13] {
        let config = pki.client_config(true, &[version]);
        for _ in 0..3 {
            let mut client = pki.server(TlsMode::Require, true);
            let mut tls = Pki::connection(config.clone());
            upgrade(&mut client, &mut tls).unwrap();
            say(&mut client, &mut tls, &option(opt::GO, &info("vol", &[])));
            assert_eq!(tls.handshake_kind(), Some(HandshakeKind::Full), "{version:?}");
        }
    }
}

#[test]
fn who_is_not_vouched_for_any_more_is_cut_off() {
    const CLUSTER: amita_types::ClusterId = amita_types::ClusterId(7);
    let pki = Pki::named(Some(format!("amita://{CLUSTER}/client/db1")));
    let judge = Arc::new(Vouching::default());
    let open = |judge: &Arc<Vouching>| {
        let config = Config {
            cluster: Some(CLUSTER),
            judge: Some(judge.clone()),
            ..pki.config(TlsMode::Require, true)
        };
        let mut client = Pki::greeted(config);
        let mut tls = pki.client(true);
        let upgraded = upgrade(&mut client, &mut tls);
        (client, tls, upgraded)
    };
    let (client, ..) = open(&judge);
    assert_eq!(client.closed, Some(CloseReason::Tls("not let in".to_owned())));
    judge.admits.store(true, SeqCst);
    judge.keeps.store(true, SeqCst);
    let (mut client, mut tls, upgraded) = open(&judge);
    upgraded.unwrap();
    client.service.events.push_back((FRONT, Event::Trust));
    client.settle();
    say(&mut client, &mut tls, &option(opt::GO, &info("vol", &[])));
    assert_eq!(client.service.asked_by, Some(Who::Client("db1".into())));
    client.service.events.push_back((FRONT, Event::Trust));
    client.settle();
    assert_eq!(client.closed, None);
    judge.keeps.store(false, SeqCst);
    client.service.events.push_back((FRONT, Event::Trust));
    client.settle();
    assert_eq!(client.closed, Some(CloseReason::Tls("revoked".to_owned())));
    // What another authority has signed is not the judge's.
    let other = Pki::new();
    let mut client = Pki::greeted(Config {
        cluster: Some(CLUSTER),
        judge: Some(judge),
        ..other.config(TlsMode::Require, true)
    });
    upgrade(&mut client, &mut other.client(true)).unwrap();
    client.service.events.push_back((FRONT, Event::Trust));
    client.settle();
    assert_eq!(client.closed, None);
}

#[test]
fn a_server_that_requires_tls_answers_nothing_else() {
    let pki = Pki::new();
    let mut client = pki.server(TlsMode::Require, false);
    for (number, data) in [
        (opt::LIST, vec![]),
        (opt::INFO, info("vol", &[])),
        (opt::GO, info("vol", &[])),
        (opt::STRUCTURED_REPLY, vec![]),
        (99, vec![]),
    ] {
        client.send(&option(number, &data));
        assert_eq!(client.option_reply().kind, reply::ERR_TLS_REQD);
    }
    client.send(&option(opt::EXPORT_NAME, b"vol"));
    assert!(matches!(client.closed, Some(CloseReason::Refused(_))));
    let mut client = pki.server(TlsMode::Require, false);
    client.send(&option(opt::ABORT, &[]));
    assert_eq!(client.option_reply().kind, reply::ACK, "to abort is always allowed");
}

#[test]
fn a_server_that_allows_tls_serves_plain_text_too() {
    Pki::new().server(TlsMode::Allow, false).start(true);
}

#[test]
fn authorities_mean_that_a_certificate_is_required() {
    let pki = Pki::new();
    let mut client = pki.server(TlsMode::Allow, true);
    client.send(&option(opt::GO, &info("vol", &[])));
    assert_eq!(client.option_reply().kind, reply::ERR_TLS_REQD, "plain text shows none");
    let mut client = pki.server(TlsMode::Allow, true);
    assert!(upgrade(&mut client, &mut pki.client(false)).is_err(), "TLS without one");
    assert_eq!(client.service.open_count, 0);
    let mut client = pki.server(TlsMode::Allow, true);
    upgrade(&mut client, &mut pki.client(true)).unwrap();
}

#[test]
fn nothing_that_was_agreed_in_plain_text_holds_under_tls() {
    let pki = Pki::new();
    let mut client = pki.server(TlsMode::Allow, false);
    let mut tls = pki.client(false);
    client.send(&option(opt::STRUCTURED_REPLY, &[]));
    client.output.clear();
    upgrade(&mut client, &mut tls).unwrap();
    say(&mut client, &mut tls, &option(opt::GO, &info("vol", &[])));
    client.output = say(&mut client, &mut tls, &request(0, command::READ, 2, 0, 10));
    assert_eq!(client.simple(), (2, 0), "structured replies were forgotten");
}

#[test]
fn a_client_without_a_certificate_is_refused() {
    let pki = Pki::new();
    let mut client = pki.server(TlsMode::Require, true);
    let mut tls = pki.client(false);
    assert!(upgrade(&mut client, &mut tls).is_err(), "the client hears of it");
    assert!(
        matches!(client.closed, Some(CloseReason::Tls(_))),
        "{:?}",
        client.closed
    );
    // Nor one of another authority.
    let other = Pki::new();
    std::fs::copy(other.path("client.pem"), pki.path("client.pem")).unwrap();
    std::fs::copy(other.path("client.key"), pki.path("client.key")).unwrap();
    let mut client = pki.server(TlsMode::Require, true);
    assert!(upgrade(&mut client, &mut pki.client(true)).is_err());
    assert!(matches!(client.closed, Some(CloseReason::Tls(_))));
}

#[test]
fn plain_text_behind_starttls_is_not_believed() {
    let pki = Pki::new();
    let mut client = pki.server(TlsMode::Allow, false);
    client.send(&[option(opt::STARTTLS, &[]), option(opt::GO, &info("vol", &[]))].concat());
    assert!(
        matches!(client.closed, Some(CloseReason::Tls(_))),
        "{:?}",
        client.closed
    );
    assert_eq!(client.service.open_count, 0);
}

#[test]
fn rubbish_instead_of_tls_ends_the_connection() {
    let pki = Pki::new();
    for bytes in [vec![0; 100], vec![0xff; 70_000], b"\x16\x03\x01\xff\xff".repeat(9000)] {
        let mut client = pki.server(TlsMode::Require, false);
        client.send(&option(opt::STARTTLS, &[]));
        client.output.clear();
        let mut rest = &bytes[..];
        while !rest.is_empty() && client.closed.is_none() && client.front.wants_input() {
            let count = client.receive(rest);
            rest = &rest[count..];
            client.settle();
        }
        assert!(
            matches!(client.closed, Some(CloseReason::Tls(_))),
            "{:?}",
            client.closed
        );
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let pki = Pki::new();
    std::fs::write(pki.path("empty"), "").unwrap();
    std::fs::write(
        pki.path("rubbish"),
        "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let load = |change: &dyn Fn(&mut TlsFiles)| {
        let mut files = pki.files(true);
        change(&mut files);
        TlsAcceptor::load(TlsMode::Allow, &files).map(|_| ()).unwrap_err()
    };
    let missing = load(&|files| files.certificate = pki.path("nothing"));
    assert!(
        matches!(missing, TlsError::File { .. }) && missing.to_string().contains("nothing"),
        "{missing}"
    );
    let missing = load(&|files| files.key = pki.path("nothing"));
    assert!(matches!(missing, TlsError::File { .. }), "{missing}");
    assert!(matches!(
        load(&|files| files.certificate = pki.path("empty")),
        TlsError::Empty { .. }
    ));
    assert!(matches!(
        load(&|files| files.key = pki.path("empty")),
        TlsError::Empty { .. }
    ));
    assert!(
        matches!(
            load(&|files| files.key = pki.path("server.pem")),
            TlsError::Empty { .. }
        ),
        "a certificate"
    );
    assert!(matches!(
        load(&|files| files.certificate = pki.path("rubbish")),
        TlsError::File { .. }
    ));
    let others = load(&|files| files.key = pki.path("client.key"));
    assert!(matches!(others, TlsError::Pair { .. }), "another's key");
    let said = others.to_string();
    assert!(said.ends_with("they are not for the same key"), "{said}");
    let authorities = load(&|files| files.client_authorities = Some(pki.path("empty")));
    assert!(matches!(authorities, TlsError::Empty { .. }), "{authorities}");
}

/// What waits for memory and may not be taken yet anyway waits for that, and not a millisecond at a time.
#[test]
fn want_of_memory_wakes_nobody_who_takes_no_input() {
    let pki = Pki::new();
    let mut client = pki.server(TlsMode::Allow, false);
    let mut tls = pki.client(false);
    upgrade(&mut client, &mut tls).unwrap();
    let short = Pool::new(amita_reactor::PoolConfig::with_total(16 << 20)).unwrap();
    let every = |bytes: usize| -> Vec<_> { std::iter::from_fn(|| Inbox::new().start_receive(&short, bytes)).collect() };
    let (_large, _medium, mut small) = (every(1 << 20), every(64 << 10), every(4 << 10));
    assert!(small.pop().is_some(), "one block for what comes first");
    // The service is asked by the first option, and does not answer; there is no memory for the rest of the second.
    client.runs = false;
    let asked = [option(opt::LIST, &[]), option(77, &[0; 8000])].concat();
    tls.writer().write_all(&asked).unwrap();
    let mut bytes = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut bytes).unwrap();
    }
    let mut buffer = client.inbox.start_receive(&client.pool, 64 << 10).unwrap();
    buffer[..bytes.len()].copy_from_slice(&bytes);
    client.inbox.received(buffer, bytes.len());
    let memory = std::mem::replace(&mut client.pool, short.clone());
    client.end_pass();
    assert!(!client.front.wants_input(), "it waits for the service");
    assert_eq!(client.front.deadline(), None);
    client.runs = true;
    client.settle();
    let again = client.front.deadline().expect("memory is looked for now");
    assert!(again.since(client.now) <= Duration::from_millis(1));
    client.now = again;
    client.pool = memory;
    client.output = exchange(&mut client, &mut tls).unwrap();
    let kinds: Vec<_> = client.option_replies().iter().map(|reply| reply.kind).collect();
    assert_eq!(kinds, [reply::SERVER, reply::ACK, reply::ERR_UNSUP]);
}
