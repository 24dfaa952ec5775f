use super::*;

#[test]
fn an_older_list_is_refused() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    world.made(Role::Node, "n2");
    let live = world.live(&folder);
    let older = world.authority.trust().unwrap();
    world.pass(HOUR);
    world.authority.revoke("n2").unwrap();
    let newer = world.authority.trust().unwrap();
    assert!(live.install_trust(&newer).unwrap());
    assert!(!live.install_trust(&newer).unwrap(), "it is known");
    let error = live.install_trust(&older).unwrap_err();
    assert!(
        matches!(error, IdentityError::OlderTrust { given, seen } if given < seen),
        "{error}"
    );
    assert_eq!(live.current().trust().text(), Some(newer.as_str()));
    // Put back behind the node's back: with the file, and with all but the number that was seen.
    std::fs::write(folder.join("trust"), &older).unwrap();
    let error = Identity::open(&folder, world.clock.now()).unwrap_err();
    assert!(error.to_string().contains("an older one was put back"), "{error}");
}

#[test]
fn a_foreign_list_is_refused() {
    let (world, other) = (World::new(), World::new());
    let live = world.live(&world.made(Role::Node, "n1"));
    other.pass(HOUR);
    other.made(Role::Node, "n2");
    other.authority.revoke("n2").unwrap();
    let foreign = other.authority.trust().unwrap();
    let error = live.install_trust(&foreign).unwrap_err();
    assert!(matches!(error, IdentityError::ForeignTrust(_)), "{error}");
    assert!(
        error
            .to_string()
            .contains("no authority that is trusted here has signed it"),
        "{error}"
    );
}

#[test]
fn a_list_that_was_changed_is_refused() {
    let world = World::new();
    let live = world.live(&world.made(Role::Node, "n1"));
    world.made(Role::Node, "n2");
    world.pass(HOUR);
    world.authority.revoke("n2").unwrap();
    let good = world.authority.trust().unwrap();
    let number = format!("number: {}", world.clock.now().0);
    assert!(good.contains(&number));
    let other = World::new();
    let root = other.authority.trust().unwrap();
    let root = &root[root.find("-----BEGIN").unwrap()..root.find("-----BEGIN X509").unwrap()];
    for wrong in [
        good.replace(&number, "number: 99999999999"),
        good.replace("-----BEGIN X509", &format!("{root}-----BEGIN X509")),
        good.replace(&CLUSTER.to_string(), &ClusterId(1).to_string()),
        good.replace("amita-trust-1\n", "amita-trust-1\nnumber: 1\n"),
        good.replace("signature: ", "signatures: "),
        good.lines().filter(|line| !line.starts_with("signature: ")).collect(),
        good.replace("signature: ", "\nsignature: "),
        String::new(),
    ] {
        let error = live.install_trust(&wrong).unwrap_err();
        assert!(matches!(error, IdentityError::ForeignTrust(_)), "{error}");
    }
    assert!(live.install_trust(&good).unwrap());
}

/// Two different lists of one number are a fault of the authority, and the first one stays.
#[test]
fn one_number_is_one_list() {
    let world = World::new();
    let live = world.live(&world.made(Role::Node, "n1"));
    world.made(Role::Node, "n2");
    world.made(Role::Node, "n3");
    let copy = std::fs::read(world.folder("ca").join("trust")).unwrap();
    world.authority.revoke("n2").unwrap();
    live.install_trust(&world.authority.trust().unwrap()).unwrap();
    std::fs::write(world.folder("ca").join("trust"), copy).unwrap();
    world.authority.revoke("n3").unwrap();
    let error = live.install_trust(&world.authority.trust().unwrap()).unwrap_err();
    assert!(error.to_string().contains("says something else"), "{error}");
}

#[test]
fn a_reload_takes_a_renewal_and_nobody_elses_identity() {
    let world = World::new();
    let (one, two) = (world.made(Role::Node, "n1"), world.made(Role::Node, "n2"));
    let live = world.live(&one);
    assert!(!live.reload().unwrap());
    let before = live.generation();
    world.authority.renew_identity(&one).unwrap();
    assert!(live.reload().unwrap());
    assert_eq!(live.generation(), before + 1);
    for name in ["key.pem", "cert.pem"] {
        std::fs::copy(two.join(name), one.join(name)).unwrap();
    }
    let error = live.reload().unwrap_err();
    assert!(error.to_string().contains("start it again"), "{error}");
    assert_eq!(live.name().name(), "n1");
}
