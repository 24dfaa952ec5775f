use super::*;
use rustls::{ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection};
use std::sync::Arc;

/// At the client, and at the server.
type Errors = (Option<Error>, Option<Error>);

/// What both sides say of a handshake, and whom each has found.
fn handshake(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Result<(Name, Name), Box<Errors>> {
    let mut client: Connection = ClientConnection::new(client, server_name()).unwrap().into();
    let mut server: Connection = ServerConnection::new(server).unwrap().into();
    let (mut at_client, mut at_server) = (None, None);
    for _ in 0..8 {
        pass(&mut client, &mut server, &mut at_server);
        pass(&mut server, &mut client, &mut at_client);
    }
    let peer = |connection: &Connection| peer_name(&connection.peer_certificates().unwrap()[0]).unwrap();
    if at_client.is_some() || at_server.is_some() {
        return Err(Box::new((at_client, at_server)));
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    assert_eq!(client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    Ok((peer(&client), peer(&server)))
}

fn pass(from: &mut Connection, to: &mut Connection, error: &mut Option<Error>) {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() && error.is_none() {
        to.read_tls(&mut rest).unwrap();
        if let Err(why) = to.process_new_packets() {
            *error = Some(why);
        }
    }
}

fn any() -> Expected {
    Expected::any(&[Role::Node])
}

fn refused(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> String {
    let (at_client, at_server) = *handshake(client, server).unwrap_err();
    let said = [at_client, at_server].map(|error| error.map_or_else(String::new, |error| format!("{error:?}")));
    format!("client: {} server: {}", said[0], said[1])
}

#[test]
fn both_sides_learn_who_the_other_is() {
    let world = World::new();
    let (one, two) = (
        world.live(&world.made(Role::Node, "n1")),
        world.live(&world.made(Role::Node, "n2")),
    );
    let found = handshake(
        one.client_config(Expected::named(Role::Node, "n2")),
        two.server_config(&[Role::Node]),
    );
    assert_eq!(found.unwrap(), (two.name(), one.name()));
}

#[test]
fn who_answers_is_whom_was_dialled() {
    let world = World::new();
    let (one, two) = (
        world.live(&world.made(Role::Node, "n1")),
        world.live(&world.made(Role::Node, "n2")),
    );
    let server = two.server_config(&[Role::Node]);
    let wrong = refused(one.client_config(Expected::named(Role::Node, "n3")), server.clone());
    assert!(wrong.contains("OtherName"), "{wrong}");
    let wrong = refused(one.client_config(Expected::named(Role::Gateway, "n2")), server);
    assert!(wrong.contains("OtherRole"), "{wrong}");
}

#[test]
fn a_role_that_is_not_let_in_is_refused() {
    let world = World::new();
    let node = world.live(&world.made(Role::Node, "n1"));
    let client = world.live(&world.made(Role::Client, "c"));
    let wrong = refused(
        client.client_config(any()),
        node.server_config(&[Role::Node, Role::Operator]),
    );
    assert!(wrong.contains("OtherRole"), "{wrong}");
    handshake(client.client_config(any()), node.server_config(&[Role::Client])).unwrap();
    // The authority's own server is let in nowhere, and dialled by nobody who wants a node.
    let authority = world.authority.server().unwrap();
    let wrong = refused(
        authority.client_config(any()),
        node.server_config(&[Role::Node, Role::Operator]),
    );
    assert!(wrong.contains("OtherRole"), "{wrong}");
    let wrong = refused(node.client_config(any()), authority.server_config(&[Role::Node]));
    assert!(wrong.contains("OtherRole"), "{wrong}");
}

#[test]
fn a_stranger_is_refused() {
    let (world, other) = (World::new(), World::new());
    let node = world.live(&world.made(Role::Node, "n1"));
    // The same cluster's id, the same names, another authority.
    let foreign = other.live(&other.made(Role::Node, "n2"));
    let wrong = refused(foreign.client_config(any()), node.server_config(&[Role::Node]));
    assert!(wrong.contains("UnknownIssuer"), "{wrong}");
    let wrong = refused(node.client_config(any()), foreign.server_config(&[Role::Node]));
    assert!(wrong.contains("UnknownIssuer"), "{wrong}");
    // Without any certificate.
    let bare = crate::tls::client_config_with(crate::tls::provider(), world.clock.clone(), Arc::new(Anything), None);
    let wrong = refused(bare, node.server_config(&[Role::Node]));
    assert!(wrong.contains("NoCertificatesPresented"), "{wrong}");
}

/// One outside authority for two clusters: the name in the certificate keeps them apart.
#[test]
fn another_cluster_of_the_same_authority_is_refused() {
    let (world, other) = (World::new(), World::of(ClusterId(5)));
    let (mine, theirs) = (world.made(Role::Node, "n1"), other.made(Role::Node, "n1"));
    for folder in [&mine, &theirs] {
        for name in ["trust", "seen"] {
            std::fs::remove_file(folder.join(name)).unwrap();
        }
    }
    let read = |folder: &Path| std::fs::read_to_string(folder.join("ca.pem")).unwrap();
    let both = read(&mine) + &read(&theirs);
    std::fs::write(mine.join("ca.pem"), &both).unwrap();
    std::fs::write(theirs.join("ca.pem"), &both).unwrap();
    let (mine, theirs) = (world.live(&mine), other.live(&theirs));
    let wrong = refused(theirs.client_config(any()), mine.server_config(&[Role::Node]));
    assert!(wrong.contains("OtherCluster"), "{wrong}");
}

#[test]
fn clocks_may_differ_by_a_day_and_certificates_end() {
    let world = World::new();
    let (one, two) = (world.made(Role::Node, "n1"), world.made(Role::Node, "n2"));
    let at = |folder: &Path, now: UnixSeconds| {
        let identity = Identity::open(folder, NOW).unwrap();
        Live::new(None, identity, Clock::standing(now))
    };
    let meet = |client: UnixSeconds, server: UnixSeconds| {
        handshake(
            at(&one, client).client_config(any()),
            at(&two, server).server_config(&[Role::Node]),
        )
    };
    meet(NOW.before(DAY), NOW.after(DAY)).unwrap();
    meet(NOW.after(LEAF_LIFE), NOW).unwrap();
    let (at_client, at_server) = *meet(NOW.after(LEAF_LIFE + HOUR), NOW).unwrap_err();
    assert!(format!("{at_client:?}").contains("Expired"), "{at_client:?}");
    // The alert says which certificate it is.
    assert!(format!("{at_server:?}").contains("CertificateExpired"), "{at_server:?}");
    let (_, at_server) = *meet(NOW, NOW.before(DAY + HOUR)).unwrap_err();
    assert!(format!("{at_server:?}").contains("NotValidYet"), "{at_server:?}");
}

/// Configurations are made once, and go on while everything behind them is exchanged.
#[test]
fn configurations_follow_what_is_exchanged() {
    let world = World::new();
    let (one, two) = (world.made(Role::Node, "n1"), world.made(Role::Node, "n2"));
    let (client, server) = (world.live(&one), world.live(&two));
    let (dials, accepts) = (client.client_config(any()), server.server_config(&[Role::Node]));
    handshake(dials.clone(), accepts.clone()).unwrap();
    world.authority.rotate(Duration::ZERO).unwrap();
    for live in [&client, &server] {
        live.install_trust(&world.authority.trust().unwrap()).unwrap();
    }
    world.pass(6 * DAY);
    for (folder, live) in [(&one, &client), (&two, &server)] {
        world.authority.renew_identity(folder).unwrap();
        live.reload().unwrap();
    }
    world.pass(3 * DAY);
    handshake(dials.clone(), accepts.clone()).unwrap();
    world.authority.finish(false).unwrap();
    server.install_trust(&world.authority.trust().unwrap()).unwrap();
    handshake(dials.clone(), accepts.clone()).unwrap();
    world.authority.revoke("n1").unwrap();
    server.install_trust(&world.authority.trust().unwrap()).unwrap();
    let wrong = refused(dials, accepts);
    assert!(wrong.contains("Revoked"), "{wrong}");
}

#[test]
fn nothing_is_resumed() {
    let world = World::new();
    let live = world.live(&world.made(Role::Node, "n1"));
    let accepts = live.server_config(&[Role::Node]);
    assert_eq!((accepts.send_tls13_tickets, accepts.max_early_data_size), (0, 0));
    assert!(!accepts.session_storage.can_cache() && !accepts.ticketer.enabled());
    let dials = live.client_config(any());
    assert!(!dials.enable_early_data && !dials.enable_sni);
    for _ in 0..2 {
        let mut client: Connection = ClientConnection::new(dials.clone(), server_name()).unwrap().into();
        let mut server: Connection = ServerConnection::new(accepts.clone()).unwrap().into();
        let mut error = None;
        for _ in 0..4 {
            pass(&mut client, &mut server, &mut error);
            pass(&mut server, &mut client, &mut error);
        }
        assert_eq!(client.handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}

/// A client that believes every server: what it is refused for is the server's doing.
#[derive(Debug)]
pub(crate) struct Anything;

impl rustls::client::danger::ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        unreachable!("TLS 1.2 is not spoken")
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        crate::tls::provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
