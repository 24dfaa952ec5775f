use super::*;

fn fails(folder: &Path, now: UnixSeconds, wanted: &str) -> IdentityError {
    let error = Identity::open(folder, now).unwrap_err();
    assert!(error.to_string().contains(wanted), "{error}");
    error
}

#[test]
fn an_identity_is_made_and_read() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    let identity = Identity::open(&folder, NOW).unwrap();
    assert_eq!(identity.name().to_string(), format!("amita://{CLUSTER}/node/n1"));
    assert_eq!(identity.not_after(), NOW.after(LEAF_LIFE));
    // For clocks that are a day behind; and it is renewed while half of it is left.
    assert_eq!(identity.facts().not_before, NOW.before(DAY));
    assert_eq!(identity.facts().renew_from(), NOW.after(3 * DAY));
    assert_eq!(identity.serial().to_string().len(), 32);
    assert_eq!(mode_of(&folder), 0o700);
    assert_eq!(mode_of(&folder.join("key.pem")), 0o600);
    assert_eq!(mode_of(&world.folder("ca")), 0o700);
    assert_eq!(mode_of(&world.folder("ca").join("ca-key.pem")), 0o600);
    let error = world
        .authority
        .make_identity(&folder, &world.name(Role::Node, "n1"))
        .unwrap_err();
    assert!(matches!(error, IdentityError::Exists { .. }), "{error}");
}

#[test]
fn loose_files_are_refused_with_what_mends_them() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    for (name, loose, right) in [
        ("", 0o750, 0o700),
        ("key.pem", 0o640, 0o600),
        ("key.pem", 0o604, 0o600),
        ("cert.pem", 0o664, 0o644),
        ("ca.pem", 0o646, 0o644),
        ("trust", 0o622, 0o644),
        ("seen", 0o666, 0o644),
    ] {
        let path = folder.join(name);
        mode(&path, loose);
        let error = fails(&folder, NOW, &format!("chmod {right:o}"));
        assert!(
            matches!(error, IdentityError::Loose { mode: m, .. } if m == loose),
            "{error}"
        );
        mode(&path, right);
        Identity::open(&folder, NOW).unwrap();
    }
    let key = world.folder("ca").join("ca-key.pem");
    mode(&key, 0o644);
    let error = Authority::open(&world.folder("ca"), world.clock.clone()).unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

#[test]
fn what_is_missing_or_damaged_is_named() {
    let world = World::new();
    assert!(matches!(
        Identity::open(&world.folder("nowhere"), NOW),
        Err(IdentityError::NoIdentity { .. })
    ));
    for (name, wanted) in [
        ("key.pem", "key.pem is not there"),
        ("cert.pem", "cert.pem is not there"),
        ("ca.pem", "ca.pem is not there"),
        ("trust", "it is gone"),
    ] {
        let folder = world.made(Role::Node, &format!("gone-{name}"));
        std::fs::remove_file(folder.join(name)).unwrap();
        fails(&folder, NOW, wanted);
    }
    for name in ["key.pem", "cert.pem", "ca.pem", "trust", "seen"] {
        let folder = world.made(Role::Node, &format!("empty-{name}"));
        std::fs::write(folder.join(name), "").unwrap();
        let error = Identity::open(&folder, NOW).unwrap_err().to_string();
        assert!(error.contains(name) || error.contains("trust list"), "{name}: {error}");
        std::fs::write(folder.join(name), "x".repeat(2 << 20)).unwrap();
        fails(&folder, NOW, "longer than");
    }
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let world = World::new();
    let (one, other) = (world.made(Role::Node, "n1"), world.made(Role::Node, "n2"));
    std::fs::copy(other.join("key.pem"), one.join("key.pem")).unwrap();
    fails(&one, NOW, "another key");
}

#[test]
fn a_certificate_by_another_authority_is_refused() {
    let (world, other) = (World::new(), World::new());
    let (mine, theirs) = (world.made(Role::Node, "n1"), other.made(Role::Node, "n1"));
    for name in ["key.pem", "cert.pem"] {
        std::fs::copy(theirs.join(name), mine.join(name)).unwrap();
    }
    let error = fails(&mine, NOW, "no authority that is trusted");
    assert!(matches!(
        error,
        IdentityError::Refused {
            why: Refusal::UnknownAuthority,
            ..
        }
    ));
    // A leaf is no authority.
    std::fs::copy(theirs.join("cert.pem"), mine.join("ca.pem")).unwrap();
    fails(&mine, NOW, "no authority's");
}

#[test]
fn the_own_certificate_ends_and_begins() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    Identity::open(&folder, NOW.after(LEAF_LIFE)).unwrap();
    let late = NOW.after(LEAF_LIFE + Duration::from_secs(1));
    let error = fails(&folder, late, "has ended on 2027-01-22T08:00:00Z");
    assert!(error.to_string().contains("amita node token"), "{error}");
    Identity::open(&folder, NOW.before(DAY)).unwrap();
    let error = fails(&folder, NOW.before(DAY + Duration::from_secs(1)), "clock");
    assert!(matches!(error, IdentityError::NotYet { .. }));
    // It can still be shown.
    let (facts, trust) = Identity::show(&folder).unwrap();
    assert_eq!(facts.name, world.name(Role::Node, "n1"));
    assert_eq!(trust.number(), Some(NOW.0));
}

/// A crash after any step of putting a new pair in place leaves one that fits.
#[test]
fn a_renewal_that_crashes_is_completed() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    let old = Identity::open(&folder, NOW).unwrap();
    let before = std::fs::read(folder.join("cert.pem")).unwrap();
    world.pass(DAY);
    let new = world.authority.renew_identity(&folder).unwrap();
    assert_ne!(new.serial(), old.serial());
    let after = std::fs::read(folder.join("cert.pem")).unwrap();
    // The key is in place, the certificate is not.
    std::fs::write(folder.join("cert.next.pem"), &after).unwrap();
    std::fs::write(folder.join("cert.pem"), &before).unwrap();
    let opened = Identity::open(&folder, world.clock.now()).unwrap();
    assert_eq!(opened.serial(), new.serial());
    assert!(!folder.join("cert.next.pem").exists());
    // Before that, a certificate waits whose key was never put in place: the old pair is right.
    std::fs::write(folder.join("cert.next.pem"), &before).unwrap();
    assert_eq!(Identity::open(&folder, NOW).unwrap().serial(), new.serial());
    // A first one that was cut off in the middle.
    std::fs::rename(folder.join("cert.pem"), folder.join("cert.next.pem")).unwrap();
    assert_eq!(Identity::open(&folder, NOW).unwrap().serial(), new.serial());
}

#[test]
fn an_answer_for_another_key_is_not_installed() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    let before = std::fs::read(folder.join("key.pem")).unwrap();
    let (one, other) = (PendingKey::make(&folder).unwrap(), PendingKey::make(&folder).unwrap());
    let answer = world
        .authority
        .issue(other.request(), &world.name(Role::Node, "n1"))
        .unwrap();
    let error = one.install(&answer.certificate, &answer.trust, None, NOW).unwrap_err();
    assert!(error.to_string().contains("another key"), "{error}");
    assert_eq!(std::fs::read(folder.join("key.pem")).unwrap(), before);
    // Nor one by an authority that was not asked.
    let impostor = World::new();
    let pending = PendingKey::make(&world.folder("new")).unwrap();
    let name = impostor.name(Role::Node, "n1");
    let answer = impostor.authority.issue(pending.request(), &name).unwrap();
    let hash = Some(world.authority.hash().unwrap());
    let error = pending
        .install(&answer.certificate, &answer.trust, hash, NOW)
        .unwrap_err();
    assert!(matches!(error, IdentityError::ForeignTrust(_)), "{error}");
    assert!(!world.folder("new").join("key.pem").exists());
}

/// Files of an authority that is not ours: the same names, no list of ours.
#[test]
fn an_outside_authority_works_by_its_files() {
    use rcgen::*;
    let world = World::new();
    let folder = world.folder("outside");
    std::fs::create_dir(&folder).unwrap();
    mode(&folder, 0o700);
    let now = NOW.date().unwrap();
    let root_key = KeyPair::generate().unwrap();
    let mut root = CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    root.not_before = now;
    root.not_after = NOW.after(DAY).date().unwrap();
    let root = CertifiedIssuer::self_signed(root, root_key).unwrap();
    let middle_key = KeyPair::generate().unwrap();
    let mut middle = CertificateParams::new(Vec::new()).unwrap();
    middle.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    middle.distinguished_name.push(DnType::CommonName, "between");
    let middle = CertifiedIssuer::signed_by(middle, middle_key, &root).unwrap();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let leaf = |uri: &str| {
        let mut leaf = CertificateParams::new(vec!["n1.example.com".to_owned()]).unwrap();
        leaf.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        leaf.serial_number = Some(SerialNumber::from(77));
        leaf.signed_by(&key, &middle).unwrap()
    };
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        mode(&folder.join(name), 0o600);
    };
    write("key.pem", &key.serialize_pem());
    write("ca.pem", &root.pem());
    let uri = format!("amita://{CLUSTER}/node/n1");
    write("cert.pem", &format!("{}{}", leaf(&uri).pem(), middle.pem()));
    let identity = Identity::open(&folder, NOW).unwrap();
    assert_eq!(identity.name().to_string(), uri);
    assert_eq!((identity.trust().number(), identity.trust().text()), (None, None));
    // Its revocation list counts.
    let list = CertificateRevocationListParams {
        this_update: now,
        next_update: NOW.after(DAY).date().unwrap(),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(77),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    write("crl.pem", &list.signed_by(&middle).unwrap().pem().unwrap());
    fails(&folder, NOW, "revoked");
    std::fs::remove_file(folder.join("crl.pem")).unwrap();
    // Without our URI it names nobody.
    for wrong in ["spiffe://cluster/node", "amita://x/node/n1"] {
        write("cert.pem", &format!("{}{}", leaf(wrong).pem(), middle.pem()));
        fails(&folder, NOW, "names nobody");
    }
    write("key.pem", &key.serialize_pem().replace("PRIVATE KEY", "EC PRIVATE KEY"));
    fails(&folder, NOW, "openssl pkcs8");
}
