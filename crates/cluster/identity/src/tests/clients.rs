use super::*;
use crate::capability::BadCapability;
use crate::certificate::peer_capability;
use amita_types::VolumeId;
use amita_types::capability::{Capability, Entry, Grant, Rights, Scope};
use rcgen::{CertificateParams, CustomExtension, Issuer, KeyPair, SanType};
use rustls::pki_types::CertificateDer;

fn volumes(numbers: &[u64]) -> Grant {
    let entry = |number: &u64| Entry {
        scope: Scope::Volume(VolumeId(*number)),
        rights: Rights::ALL,
    };
    Grant::new("", numbers.iter().map(entry).collect()).unwrap()
}

fn tenant(name: &str) -> Grant {
    let entry = Entry {
        scope: Scope::Tenant,
        rights: Rights::ALL,
    };
    Grant::new(name, vec![entry]).unwrap()
}

fn terms(grant: Grant) -> ClientTerms {
    ClientTerms {
        grant,
        life: CLIENT_LIFE,
    }
}

fn capability_in(folder: &Path, now: UnixSeconds) -> Option<Capability> {
    let identity = Identity::open(folder, now).unwrap();
    let found = peer_capability(&identity.chain()[0]).unwrap();
    assert_eq!(identity.facts().capability, found);
    found
}

#[test]
fn a_clients_certificate_says_what_it_was_granted() {
    let world = World::new();
    let granted = world.authority.grant(
        &world.name(Role::Client, "app"),
        &ClientTerms {
            life: HOUR,
            ..terms(volumes(&[9, 4]))
        },
    );
    let granted = granted.unwrap();
    assert_eq!((granted.at, granted.life), (NOW, HOUR));
    let folder = world.made(Role::Client, "app");
    let identity = Identity::open(&folder, NOW).unwrap();
    assert_eq!(identity.not_after(), NOW.after(HOUR));
    assert!(identity.facts().not_before < NOW);
    let said = Capability {
        made_s: NOW.0,
        grant: volumes(&[4, 9]),
    };
    assert_eq!(capability_in(&folder, NOW), Some(said));
    let other = world.live(&world.made(Role::Node, "n1"));
    assert_eq!(other.judge(identity.chain(), Usage::Client).unwrap(), *identity.name());
    world.pass(HOUR + Duration::from_secs(1));
    let over = other.judge(identity.chain(), Usage::Client).unwrap_err();
    assert!(matches!(over, Refusal::Expired { .. }), "{over}");
}

#[test]
fn who_was_granted_nothing_has_no_capability() {
    let world = World::new();
    world
        .authority
        .grant(&world.name(Role::Client, "app"), &terms(tenant("acme")))
        .unwrap();
    // Another client, and a node of the client's name.
    for (role, name) in [(Role::Client, "other"), (Role::Node, "app")] {
        let folder = world.folder(&format!("{role}-{name}"));
        world.authority.make_identity(&folder, &world.name(role, name)).unwrap();
        assert_eq!(capability_in(&folder, NOW), None, "{role} {name}");
        assert_eq!(Identity::open(&folder, NOW).unwrap().not_after(), NOW.after(LEAF_LIFE));
    }
}

#[test]
fn a_renewed_certificate_and_a_token_say_what_the_ledger_says_then() {
    let world = World::new();
    let name = world.name(Role::Client, "app");
    world.authority.grant(&name, &terms(volumes(&[1, 2]))).unwrap();
    let folder = world.made(Role::Client, "app");
    let token = world.authority.token(&name).unwrap();
    let less = ClientTerms {
        life: 10 * HOUR,
        ..terms(volumes(&[2]))
    };
    world.authority.change_grant(&name, &less.into()).unwrap();
    let before = capability_in(&folder, NOW).unwrap();
    assert_eq!(before.grant, volumes(&[1, 2]), "what was made stays what it is");
    let pending = PendingKey::make(&world.folder("joined")).unwrap();
    let answer = world.authority.redeem(&token, pending.request()).unwrap();
    let joined = pending
        .install(&answer.certificate, &answer.trust, Some(token.authority()), NOW)
        .unwrap();
    world.pass(HOUR);
    let renewed = world.authority.renew_identity(&folder).unwrap();
    assert_eq!(renewed.not_after(), NOW.after(11 * HOUR));
    for (identity, made_s) in [(&joined, NOW.0), (&renewed, NOW.after(HOUR).0)] {
        let said = Capability {
            made_s,
            grant: volumes(&[2]),
        };
        assert_eq!(identity.facts().capability, Some(said));
    }
}

#[test]
fn a_client_is_granted_one_thing_until_it_is_changed() {
    let world = World::new();
    let authority = &world.authority;
    let name = world.name(Role::Client, "app");
    let unknown = authority
        .change_grant(&name, &terms(tenant("acme")).into())
        .unwrap_err();
    assert!(matches!(unknown, IdentityError::NotGranted { .. }), "{unknown}");
    let first = authority.grant(&name, &terms(tenant("acme"))).unwrap();
    world.pass(HOUR);
    assert_eq!(authority.grant(&name, &terms(tenant("acme"))).unwrap(), first);
    let other = authority.grant(&name, &terms(tenant("other"))).unwrap_err();
    assert!(matches!(other, IdentityError::GrantedOtherwise(_)), "{other}");
    assert_eq!(authority.granted().unwrap(), std::slice::from_ref(&first));
    let changed = authority.change_grant(&name, &terms(tenant("other")).into()).unwrap();
    assert_eq!(changed.at, NOW.after(HOUR));
    let again = Authority::open(authority.folder(), world.clock.clone()).unwrap();
    assert_eq!(again.granted().unwrap(), [changed]);
    let told = authority.log().unwrap().lines.join("\n");
    let count = |action: &str| told.matches(&format!("\"{action}\"")).count();
    assert_eq!((count("client.grant"), count("client.change")), (2, 1), "{told}");
    // Who changes something else meanwhile does not give back what was taken away.
    let longer = ClientChange {
        life: Some(2 * HOUR),
        ..ClientChange::default()
    };
    let changed = again.change_grant(&name, &longer).unwrap();
    assert_eq!((changed.life, changed.grant), (2 * HOUR, tenant("other")));
    assert!(told.contains("acme"), "{told}");
}

#[test]
fn what_is_granted_has_its_limits() {
    let world = World::new();
    let grant = |name: &Name, life| {
        let terms = ClientTerms {
            grant: volumes(&[1]),
            life,
        };
        world.authority.grant(name, &terms)
    };
    let name = |name: &str| world.name(Role::Client, name);
    let second = Duration::from_secs(1);
    let [shortest, longest] = [Duration::from_secs(600), 7 * DAY];
    for life in [shortest - second, longest + second] {
        let error = grant(&name("app"), life).unwrap_err();
        assert!(matches!(error, IdentityError::NotGranted { .. }), "{error}");
    }
    for (role, wanted) in [(Role::Node, "no client"), (Role::Authority, "nobody is given")] {
        let error = grant(&world.name(role, "app"), DAY).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let foreign = Name::new(ClusterId(1), Role::Client, "app").unwrap();
    assert!(matches!(grant(&foreign, DAY), Err(IdentityError::OtherCluster { .. })));
    assert_eq!(world.authority.granted().unwrap(), []);
    grant(&name("a"), shortest).unwrap();
    grant(&name("b"), longest).unwrap();
}

/// Of a name that was revoked and forgotten in everything else, too, and whatever process on the same folder noted it.
#[test]
fn what_was_granted_stays_noted() {
    let world = World::new();
    let mut granted = Vec::new();
    for at in 0..40 {
        let authority = Authority::open(world.authority.folder(), world.clock.clone()).unwrap();
        let name = world.name(Role::Client, &format!("c{at}"));
        granted.push(authority.grant(&name, &terms(volumes(&[at]))).unwrap());
    }
    world.made(Role::Client, "c0");
    world.authority.revoke("client/c0").unwrap();
    world.pass_in_use(60 * DAY);
    world.made(Role::Node, "n1");
    world.authority.revoke("n1").unwrap();
    let name = world.name(Role::Client, "c0");
    assert!(
        world
            .authority
            .issued()
            .unwrap()
            .iter()
            .all(|issued| issued.name != name)
    );
    let again = world.authority.grant(&name, &terms(volumes(&[0]))).unwrap();
    assert_eq!(again, granted[0]);
    assert_eq!(world.authority.granted().unwrap(), granted);
}

#[test]
fn a_ledger_with_a_name_twice_is_not_used() {
    let world = World::new();
    for name in ["a", "b"] {
        world
            .authority
            .grant(&world.name(Role::Client, name), &terms(volumes(&[1])))
            .unwrap();
    }
    let path = world.folder("ca").join("clients");
    assert_eq!(mode_of(&path), 0o600);
    let good = std::fs::read_to_string(&path).unwrap();
    let line = good.lines().next().unwrap();
    std::fs::write(&path, format!("{good}{}\n", line.replace(":1:", ":2:"))).unwrap();
    let error = world.authority.granted().unwrap_err().to_string();
    assert!(error.contains("/client/a is in it twice"), "{error}");
    assert!(world.authority.token(&world.name(Role::Node, "n1")).is_err());
    // A line that a crash has cut off was never told of.
    std::fs::write(&path, format!("{good}{}", &line[..30])).unwrap();
    assert_eq!(world.authority.granted().unwrap().len(), 2);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), good);
}

/// A leaf by the authority's own key, with whatever extensions.
fn forged(world: &World, role: Role, extensions: Vec<CustomExtension>) -> CertificateDer<'static> {
    let keys = std::fs::read_to_string(world.folder("ca").join("ca-key.pem")).unwrap();
    let key = KeyPair::from_pem(&keys).unwrap();
    let roots = Identity::open(&world.folder("n1"), NOW)
        .unwrap()
        .trust()
        .roots()
        .to_vec();
    let issuer = Issuer::from_ca_cert_der(&roots[0], &key).unwrap();
    let mut leaf = CertificateParams::new(Vec::new()).unwrap();
    let uri = format!("amita://{CLUSTER}/{role}/app");
    leaf.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
    leaf.not_before = NOW.before(HOUR).date().unwrap();
    leaf.not_after = NOW.after(HOUR).date().unwrap();
    leaf.custom_extensions = extensions;
    leaf.signed_by(&key, &issuer).unwrap().der().clone()
}

#[test]
fn a_certificate_with_a_bad_capability_is_not_believed() {
    let world = World::new();
    let node = world.live(&world.made(Role::Node, "n1"));
    let good = Capability {
        made_s: NOW.0,
        grant: volumes(&[1]),
    };
    let extension = |made_s| crate::capability::extension(&Capability { made_s, ..good.clone() });
    let oid: Vec<u64> = extension(NOW.0).oid_components().collect();
    let of = |octets: &[u8]| CustomExtension::from_oid_content(&oid, octets.to_vec());
    let judged = |role, extensions| {
        let leaf = forged(&world, role, extensions);
        let judged = node.judge(std::slice::from_ref(&leaf), Usage::Client);
        assert_eq!(peer_capability(&leaf).is_ok(), judged.is_ok());
        judged
    };
    for sound in [vec![], vec![extension(NOW.0)], vec![extension(NOW.after(HOUR).0)]] {
        judged(Role::Client, sound).unwrap();
    }
    judged(Role::Node, vec![]).unwrap();
    let mut version = crate::capability::encode(&good);
    version[4] = 2;
    let early = NOW.before(HOUR).0 - 1;
    for (role, extensions, wanted) in [
        (Role::Client, vec![of(&[])], BadCapability::Form("frame")),
        (Role::Client, vec![of(&[0; 1025])], BadCapability::Long(1025)),
        (Role::Client, vec![of(&version)], BadCapability::Version(2)),
        (
            Role::Client,
            vec![extension(NOW.0), extension(NOW.0)],
            BadCapability::Twice,
        ),
        (Role::Client, vec![extension(early)], BadCapability::Made(early)),
        (Role::Client, vec![extension(u64::MAX)], BadCapability::Made(u64::MAX)),
        (Role::Node, vec![extension(NOW.0)], BadCapability::Role(Role::Node)),
        (Role::Operator, vec![of(&[])], BadCapability::Role(Role::Operator)),
    ] {
        assert_eq!(judged(role, extensions), Err(Refusal::Capability(wanted)));
    }
}

/// An outside authority's certificates are what they were; one that makes the extension makes capabilities.
#[test]
fn an_outside_authority_may_make_capabilities() {
    use rcgen::{BasicConstraints, CertifiedIssuer, IsCa};
    let world = World::new();
    let folder = world.folder("outside");
    std::fs::create_dir(&folder).unwrap();
    mode(&folder, 0o700);
    let mut root = CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        mode(&folder.join(name), 0o600);
    };
    write("key.pem", &key.serialize_pem());
    write("ca.pem", &root.pem());
    let capability = Capability {
        made_s: NOW.0,
        grant: tenant("acme"),
    };
    for wanted in [None, Some(capability)] {
        let mut leaf = CertificateParams::new(Vec::new()).unwrap();
        let uri = format!("amita://{CLUSTER}/client/app");
        leaf.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        leaf.custom_extensions = wanted.iter().map(crate::capability::extension).collect();
        write("cert.pem", &leaf.signed_by(&key, &root).unwrap().pem());
        assert_eq!(capability_in(&folder, NOW), wanted);
    }
}
