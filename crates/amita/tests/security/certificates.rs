//! Certificates that are not, not yet, or not any more good for what they are shown for.

use crate::attacker::{FABRIC, HTTP2_PREFACE, METADATA, PLAIN_HELLO, Tls};
use crate::bystander::Bystander;
use crate::world::{STORE_BYTES, VOLUME, VOLUME_BYTES, World, certificates, config, eventually, scratch};
use amita_harness::cluster::{Cluster, Metadata, authority, identity};
use amita_identity::{Authority, Clock, Name, Role};
use amita_types::ClusterId;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of the certificate that gateways show to clients of NBD.
const SERVER: &str = "nbd-server";
const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);
/// What nodes say of who could not prove who it is, and of clients of NBD that could not.
const REFUSED: &[&str] = &["could not prove who it is", "the connection of a host at"];
/// What they and the metadata say of a certificate that was revoked.
const REVOKED: &[&str] = &["could not prove who it is", "the certificate was revoked", "(Revoked)"];

/// An identity that an authority makes: in this role, at this time, for so long.
fn made(authority: &Authority, folder: PathBuf, role: Role, name: &str) -> PathBuf {
    let name = Name::new(authority.cluster(), role, name).expect("a name");
    authority.make_identity(&folder, &name).expect("an identity");
    folder
}

/// Three nodes that serve NBD to clients with certificates of the cluster's own authority.
fn world() -> World {
    let scratch = scratch(3 * STORE_BYTES);
    let mut config = config(&scratch, 3, Metadata::Embedded);
    let own = authority(scratch.folder()).expect("an authority");
    let trusted = identity(&own, scratch.folder(), Role::Gateway, "server").expect("an identity");
    // Stock clients want a certificate that names the address.
    let server = scratch.folder().join(SERVER);
    std::fs::create_dir(&server).expect("a folder");
    certificates(&server);
    for (option, file) in [
        ("--tls-certificate", server.join("server-cert.pem")),
        ("--tls-key", server.join("server-key.pem")),
        ("--tls-client-authorities", trusted.join("ca.pem")),
    ] {
        config.serve_arguments.push(option.to_owned());
        config.serve_arguments.push(file.display().to_string());
    }
    // The network is for who has a certificate; who may open the socket needs none.
    let cluster = Cluster::start_with(config, Cluster::give_sockets).expect("a cluster");
    cluster.make_volume(VOLUME, VOLUME_BYTES).expect("a volume");
    World { cluster, scratch }
}

/// An identity's files under the names by which clients of NBD look for them, and its URI at a node.
fn nbd_uri(world: &World, identity: &Path) -> String {
    let folder = identity.with_extension("nbd");
    std::fs::create_dir(&folder).expect("a folder");
    for (from, to) in [
        (identity.join("cert.pem"), "client-cert.pem"),
        (identity.join("key.pem"), "client-key.pem"),
        (world.file(SERVER).join("ca-cert.pem"), "ca-cert.pem"),
    ] {
        std::fs::copy(from, folder.join(to)).expect("copied");
    }
    let address = world.cluster.nodes()[0].nbd;
    format!("nbds://{address}/{VOLUME}?tls-certificates={}", folder.display())
}

#[test]
fn a_certificate_of_another_time_authority_or_role_opens_nothing() {
    let world = world();
    let mut bystander = Bystander::by_socket(&world, 0);
    let ca = world.file("ca");
    let now = Clock::system().now();
    let at = |time, life| {
        let authority = Authority::open(&ca, Clock::standing(time)).expect("the cluster's authority");
        authority.with_leaf_life(life).expect("a life")
    };
    let (current, over) = (at(now, DAY), at(now.before(2 * DAY), DAY));
    // A certificate begins a seventh of its life before it is made: this one a day from now, by our clock.
    let later = at(now.after(DAY + DAY / 7 + HOUR), DAY);
    let false_ca = world.file("false-ca");
    let foreign = Authority::create(&false_ca, current.cluster(), Clock::system()).expect("another authority");
    let other_ca = world.file("other-ca");
    let other = Authority::create(&other_ca, ClusterId(77), Clock::system()).expect("an authority of others");

    let file = |name: &str| world.file(name);
    let nodes = [
        ("over since yesterday", made(&over, file("over"), Role::Node, "n1")),
        ("good from tomorrow", made(&later, file("later"), Role::Node, "n1")),
        (
            "by another authority",
            made(&foreign, file("foreign"), Role::Node, "n1"),
        ),
        ("of another cluster", made(&other, file("other"), Role::Node, "n1")),
        ("of a client", made(&current, file("app"), Role::Client, "app")),
    ];
    let operator = made(&current, file("eve"), Role::Operator, "eve");
    let address = world.cluster.metadata_address().expect("it is ours");
    for (what, folder) in &nodes {
        for (port, protocol, said) in [
            (address, METADATA, HTTP2_PREFACE),
            (world.cluster.nodes()[0].fabric, FABRIC, PLAIN_HELLO),
            (world.cluster.nodes()[2].fabric, FABRIC, PLAIN_HELLO),
        ] {
            let tls = Tls {
                shows: Some(folder),
                protocol,
                is_old: false,
            };
            let found = tls.told(port, said);
            assert!(found.is_refused(), "a certificate {what} at {port}: {found:?}");
        }
        bystander.goes_on();
    }
    // An operator is none of the nodes; at the metadata it is at home. So it is seen that the others were looked at.
    let good = Tls {
        shows: Some(&operator),
        protocol: FABRIC,
        is_old: false,
    };
    let found = good.told(world.cluster.nodes()[0].fabric, PLAIN_HELLO);
    assert!(found.is_refused(), "an operator at the fabric: {found:?}");
    let greeting = Tls {
        protocol: METADATA,
        ..good
    };
    assert_eq!(greeting.greeted(address, HTTP2_PREFACE)[3], 4, "the settings of HTTP/2");
    // Nobody speaks an older TLS, whatever he shows.
    for (port, protocol) in [(address, METADATA), (world.cluster.nodes()[0].fabric, FABRIC)] {
        let old = Tls {
            shows: Some(&operator),
            protocol,
            is_old: true,
        };
        let found = old.told(port, HTTP2_PREFACE);
        assert!(found.is_refused(), "TLS 1.2 at {port}: {found:?}");
    }

    clients(&world, &[&current, &over, &later, &foreign, &other], &operator);
    bystander.unharmed_by_socket(&world, 2);
    eventually("it is told of", || {
        let log = std::fs::read_to_string(world.cluster.node_log(0)).expect("a log");
        REFUSED.iter().all(|words| log.contains(words))
    });
    // And so does the metadata.
    world.end(&[REFUSED, &["was not let in"]].concat());
}

/// S6: clients of NBD are held to the same.
fn clients(world: &World, authorities: &[&Authority; 5], operator: &Path) {
    let plain = world.tool("nbdinfo", &["--size", &world.uri(0)]);
    assert!(!plain.status.success(), "without a certificate: {}", plain.text);
    for (number, authority) in authorities.iter().enumerate() {
        let folder = world.file(&format!("client{number}"));
        let made = made(authority, folder, Role::Client, "ann");
        let found = world.tool("nbdinfo", &["--size", &nbd_uri(world, &made)]);
        assert_eq!(
            found.status.success(),
            number == 0,
            "authority {number}: {}",
            found.text
        );
        let told = found.text.contains(&VOLUME_BYTES.to_string());
        assert_eq!(told, number == 0, "authority {number}: {}", found.text);
    }
    let found = world.tool("nbdinfo", &["--size", &nbd_uri(world, operator)]);
    assert!(!found.status.success(), "an operator is no client: {}", found.text);
}

/// Whoever has stolen a node's key has it until it is revoked, and then nothing, at the metadata as at the fabric.
#[test]
fn a_stolen_certificate_opens_nothing_once_it_was_revoked() {
    let world = World::with_volume();
    let mut bystander = Bystander::start(&world, 0);
    let authority = world.cluster.authority().expect("a secure cluster");
    let stolen = made(authority, world.file("stolen"), Role::Gateway, "lost");
    let address = world.cluster.metadata_address().expect("it is ours");
    let thief = Tls {
        shows: Some(&stolen),
        protocol: METADATA,
        is_old: false,
    };
    assert_eq!(thief.greeted(address, HTTP2_PREFACE)[3], 4, "it is good as yet");
    authority.revoke("lost").expect("revoked");
    // What the authority's server tells everybody within half a minute: here each is renewed at once.
    for name in ["n1", "n2", "n3", "metadata"] {
        authority
            .renew_identity(&world.file(&format!("{name}.identity")))
            .expect("renewed");
    }
    eventually("the metadata refuses it", || {
        thief.told(address, HTTP2_PREFACE).is_refused()
    });
    for node in world.cluster.nodes() {
        let thief = Tls {
            protocol: FABRIC,
            ..thief
        };
        eventually("a node refuses it", || {
            thief.told(node.fabric, PLAIN_HELLO).is_refused()
        });
    }
    bystander.goes_on();
    bystander.unharmed(&world, 1);
    world.end(REVOKED);
}

/// A client of NBD whose certificate was revoked has no disk any more, wherever it is; who was not revoked keeps his.
#[test]
fn a_client_of_nbd_that_was_revoked_is_cut_off() {
    let world = world();
    let authority = world.cluster.authority().expect("a secure cluster");
    let [ann, bob] = ["ann", "bob"].map(|name| made(authority, world.file(name), Role::Client, name));
    let address = world.cluster.nodes()[0].nbd;
    let open = |folder: &Path| {
        let tls = Tls {
            shows: Some(folder),
            protocol: &[],
            is_old: false,
        };
        tls.nbd(address, VOLUME)
    };
    let (mut lost, mut kept) = (open(&ann), open(&bob));
    lost.flush();
    kept.flush();
    authority.revoke("ann").expect("revoked");
    for node in ["n1", "n2", "n3", "metadata"] {
        authority
            .renew_identity(&world.file(&format!("{node}.identity")))
            .expect("renewed");
    }
    lost.cut_off();
    kept.flush();
    let found = world.tool("nbdinfo", &["--size", &nbd_uri(&world, &ann)]);
    assert!(!found.status.success(), "{}", found.text);
    let found = world.tool("nbdinfo", &["--size", &nbd_uri(&world, &bob)]);
    assert!(found.status.success(), "{}", found.text);
    kept.flush();
    world.end(&["the certificate was revoked"]);
}
