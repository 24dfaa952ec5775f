use super::*;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};

pub(super) fn request(folder: &Path) -> PendingKey {
    PendingKey::make(folder).unwrap()
}

#[test]
fn an_authority_is_made_once() {
    let world = World::new();
    let folder = world.folder("ca");
    let error = Authority::create(&folder, CLUSTER, world.clock.clone()).unwrap_err();
    assert!(matches!(error, IdentityError::Exists { .. }), "{error}");
    let again = Authority::open(&folder, world.clock.clone()).unwrap();
    assert_eq!(again.cluster(), CLUSTER);
    assert_eq!(again.hash().unwrap(), world.authority.hash().unwrap());
    let nothing = Authority::open(&world.folder("nothing"), world.clock.clone()).unwrap_err();
    assert!(nothing.to_string().contains("amita cluster init"), "{nothing}");
}

/// What a request says of a name does not count.
#[test]
fn the_authority_decides_the_name() {
    let world = World::new();
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name.push(DnType::CommonName, "admin");
    let uri = format!("amita://{CLUSTER}/operator/admin");
    parameters.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
    let request = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let answer = world
        .authority
        .issue(&request, &world.name(Role::Client, "app"))
        .unwrap();
    let chain = crate::folder::parse_chain(&answer.certificate).unwrap();
    assert_eq!(
        peer_name(&chain[0]).unwrap().to_string(),
        format!("amita://{CLUSTER}/client/app")
    );
    let parsed = crate::certificate::parse(&chain[0]).unwrap();
    assert!(!parsed.is_ca());
    assert!(!parsed.subject().to_string().contains("admin"), "{}", parsed.subject());
}

#[test]
fn a_request_that_is_none_is_refused() {
    let world = World::new();
    let name = world.name(Role::Node, "n1");
    let good = request(&world.folder("n1"));
    let blocks = crate::pem::decode(good.request()).unwrap();
    let mut forged = blocks[0].der.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    let rsa = include_str!("rsa-request.pem");
    let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let p384 = CertificateParams::default()
        .serialize_request(&p384)
        .unwrap()
        .pem()
        .unwrap();
    for (wrong, why) in [
        (String::new(), "no CERTIFICATE REQUEST"),
        ("x".repeat(9000), "too long"),
        (good.request().replace("END", "EN"), "does not end"),
        (
            crate::pem::encode("CERTIFICATE REQUEST", &forged).to_string(),
            "ignature",
        ),
        (crate::pem::encode("CERTIFICATE REQUEST", b"no").to_string(), "parse"),
        (rsa.to_owned(), "P-256"),
        (p384, "P-256"),
    ] {
        let error = world.authority.issue(&wrong, &name).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("request"), "{why}: {error}");
    }
    assert_eq!(world.authority.issued().unwrap(), []);
}

#[test]
fn nobody_is_given_a_name_of_another_cluster_or_the_authoritys() {
    let world = World::new();
    let foreign = Name::new(ClusterId(7), Role::Node, "n1").unwrap();
    let pending = request(&world.folder("n1"));
    let error = world.authority.issue(pending.request(), &foreign).unwrap_err();
    assert!(matches!(error, IdentityError::OtherCluster { .. }), "{error}");
    assert!(matches!(
        world.authority.token(&foreign),
        Err(IdentityError::OtherCluster { .. })
    ));
    let reserved = world.name(Role::Authority, "server");
    assert!(matches!(
        world.authority.token(&reserved),
        Err(IdentityError::ReservedRole(_))
    ));
    assert!(matches!(
        world.authority.issue(pending.request(), &reserved),
        Err(IdentityError::ReservedRole(_))
    ));
    let server = world.authority.server_identity().unwrap();
    assert!(matches!(
        world.authority.renew(&server.chain()[0], pending.request()),
        Err(IdentityError::ReservedRole(_))
    ));
}

#[test]
fn a_token_is_good_once_and_for_a_quarter_of_an_hour() {
    let world = World::new();
    let name = world.name(Role::Node, "n1");
    let folder = world.folder("n1");
    let token = world.authority.token(&name).unwrap();
    let text = token.to_text();
    let kept = std::fs::read_to_string(world.folder("ca").join("tokens")).unwrap();
    assert!(kept.contains(&token.id()) && !kept.contains(&text[20..40]));
    let token: Token = text.parse().unwrap();
    assert_eq!(token.authority(), world.authority.hash().unwrap());
    let pending = request(&folder);
    // A request that is none does not use it up.
    assert!(world.authority.redeem(&token, "nonsense").is_err());
    let answer = world.authority.redeem(&token, pending.request()).unwrap();
    let identity = pending
        .install(&answer.certificate, &answer.trust, Some(token.authority()), NOW)
        .unwrap();
    assert_eq!(*identity.name(), name);
    let taken = |token: &Token| world.authority.redeem(token, request(&world.folder("x")).request());
    let twice = taken(&token).unwrap_err();
    assert!(matches!(twice, IdentityError::Token(BadToken::NotTaken)), "{twice}");

    let late = world.authority.token(&name).unwrap();
    let soon = world.authority.token(&name).unwrap();
    world.pass(TOKEN_LIFE - Duration::from_secs(1));
    taken(&soon).unwrap();
    world.pass(Duration::from_secs(1));
    assert!(matches!(taken(&late), Err(IdentityError::Token(BadToken::NotTaken))));

    // One of another authority, and one with another secret.
    let other = World::new().authority.token(&name).unwrap();
    assert!(matches!(taken(&other), Err(IdentityError::Token(BadToken::NotTaken))));
    let fresh = world.authority.token(&name).unwrap();
    let mut wrong = fresh.to_text().to_string();
    let at = wrong.len() - 60;
    let other = if &wrong[at..=at] == "A" { "B" } else { "A" };
    wrong.replace_range(at..=at, other);
    let wrong: Token = wrong.parse().unwrap();
    assert_eq!(wrong.id(), fresh.id());
    assert!(matches!(taken(&wrong), Err(IdentityError::Token(BadToken::NotTaken))));
    taken(&fresh).unwrap();
}

#[test]
fn tokens_are_bounded() {
    let world = World::new();
    let name = world.name(Role::Client, "c");
    let line = {
        world.authority.token(&name).unwrap();
        std::fs::read_to_string(world.folder("ca").join("tokens")).unwrap()
    };
    std::fs::write(world.folder("ca").join("tokens"), line.repeat(1000)).unwrap();
    let error = world.authority.token(&name).unwrap_err();
    assert!(error.to_string().contains("wait"), "{error}");
    world.pass(TOKEN_LIFE);
    world.authority.token(&name).unwrap();
}

#[test]
fn a_renewal_keeps_the_name_and_takes_a_new_key() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    let (old, key) = (
        Identity::open(&folder, NOW).unwrap(),
        std::fs::read(folder.join("key.pem")).unwrap(),
    );
    world.pass(4 * DAY);
    let new = world.authority.renew_identity(&folder).unwrap();
    assert_eq!(new.name(), old.name());
    assert_eq!(new.not_after(), NOW.after(4 * DAY + LEAF_LIFE));
    assert_ne!(std::fs::read(folder.join("key.pem")).unwrap(), key);
    assert_eq!(world.authority.issued().unwrap().len(), 2);
    // What another authority made is not renewed, even under the same name.
    let other = World::new();
    let theirs = Identity::open(&other.made(Role::Node, "n1"), NOW).unwrap();
    let error = world
        .authority
        .renew(&theirs.chain()[0], request(&world.folder("x")).request())
        .unwrap_err();
    assert!(error.to_string().contains("not in this authority's log"), "{error}");
}

#[test]
fn what_is_revoked_is_refused_and_not_renewed() {
    let world = World::new();
    let (stolen, other) = (world.made(Role::Node, "n1"), world.made(Role::Node, "n2"));
    let live = world.live(&other);
    let shown = Identity::open(&stolen, NOW).unwrap();
    live.judge(shown.chain(), Usage::Client).unwrap();
    let before = live.generation();
    let revoked = world.authority.revoke("n1").unwrap().certificates;
    assert_eq!(revoked.len(), 1);
    assert_eq!(revoked[0].serial, *shown.serial());
    // At the same second a newer list has a higher number all the same.
    assert!(live.install_trust(&world.authority.trust().unwrap()).unwrap());
    assert_eq!(live.current().trust().number(), Some(NOW.0 + 1));
    assert!(live.generation() > before);
    assert_eq!(live.judge(shown.chain(), Usage::Client), Err(Refusal::Revoked));
    assert!(live.current().trust().revokes(shown.serial()));
    let error = world
        .authority
        .renew(&shown.chain()[0], request(&world.folder("x")).request())
        .unwrap_err();
    assert!(matches!(error, IdentityError::NotRenewed { .. }), "{error}");
    // The thief's own folder says so as well, once it has the list.
    let text = world.authority.trust().unwrap();
    crate::folder::install_trust(&stolen, &text).unwrap();
    let error = Identity::open(&stolen, NOW).unwrap_err();
    assert!(error.to_string().contains("revoked"), "{error}");
    // Again is no error and no new list; the name can be given anew.
    world.authority.revoke("n1").unwrap();
    assert_eq!(world.authority.trust().unwrap(), text);
    let again = world.folder("again");
    world
        .authority
        .make_identity(&again, &world.name(Role::Node, "n1"))
        .unwrap();
    live.judge(Identity::open(&again, NOW).unwrap().chain(), Usage::Client)
        .unwrap();
}

/// What a full disk or a crash has kept off the list gets onto it when the command is given again, and when the authority is
/// served: no revocation is said to be done that nobody hears of.
#[test]
fn a_revocation_that_was_cut_short_gets_onto_the_list() {
    let world = World::new();
    world.made(Role::Node, "n1");
    world.made(Role::Node, "n2");
    let others = world.live(&world.made(Role::Node, "n3"));
    let serial = |name: &str| {
        let folder = world.folder(name);
        Identity::open(&folder, NOW).unwrap().serial().clone()
    };
    let is_revoked = |name: &str| {
        others.install_trust(&world.authority.trust().unwrap()).unwrap();
        others.current().trust().revokes(&serial(name))
    };
    // Nothing can be written over a folder that is not empty: the list stays as it was.
    let in_the_way = world.folder("ca").join("trust.new");
    let cut_short = |name: &str| {
        std::fs::create_dir_all(in_the_way.join("x")).unwrap();
        let error = world.authority.revoke(name).unwrap_err();
        assert!(matches!(error, IdentityError::File { .. }), "{error}");
        std::fs::remove_dir_all(&in_the_way).unwrap();
        assert!(!is_revoked(name));
    };
    cut_short("n1");
    assert_eq!(world.authority.revoke("n1").unwrap().certificates.len(), 1);
    assert!(is_revoked("n1"));
    let log = world.authority.log().unwrap();
    assert_eq!(actions(&log).last().unwrap(), "cert.revoke");
    cut_short("n2");
    let _server = AuthorityServer::start(world.authority.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
    assert!(is_revoked("n2"));
    let log = world.authority.log().unwrap();
    assert!(
        log.lines.join("\n").contains(&serial("n2").to_string()),
        "it is told of"
    );
}

/// A token that was stolen with the rest gives no new certificate behind a revocation; those of others stay good.
#[test]
fn tokens_of_a_name_that_is_revoked_are_taken_no_more() {
    let world = World::new();
    let authority = &world.authority;
    let operator = |role| Name::operator(CLUSTER, role, "eve").unwrap();
    authority
        .make_identity(&world.folder("eve"), &operator(OperatorRole::Viewer))
        .unwrap();
    // Of every role of that name.
    let stolen = [OperatorRole::Viewer, OperatorRole::Admin].map(|role| authority.token(&operator(role)).unwrap());
    let other = authority.token(&world.name(Role::Node, "eve")).unwrap();
    let redeem = |token: &Token| authority.redeem(token, request(&world.folder("x")).request());
    let ambiguous = authority.revoke("eve").unwrap_err().to_string();
    assert!(ambiguous.contains("ROLE/NAME"), "{ambiguous}");
    let revoked = authority.revoke("operator/eve").unwrap();
    assert_eq!(revoked.certificates.len(), 1);
    assert_eq!(revoked.tokens, stolen.each_ref().map(Token::id));
    for token in &stolen {
        let error = redeem(token).unwrap_err();
        assert!(matches!(error, IdentityError::Token(BadToken::NotTaken)), "{error}");
        let log = authority.log().unwrap().lines.pop().unwrap();
        assert!(log.contains(&token.id()), "{log}");
    }
    redeem(&other).unwrap();
    // Who was given nothing but a token is found by it, while it is good.
    let only = authority.token(&world.name(Role::Client, "app")).unwrap();
    let revoked = authority.revoke("app").unwrap();
    assert_eq!((revoked.certificates.len(), revoked.tokens), (0, vec![only.id()]));
    assert!(redeem(&only).is_err());
    let again = authority.revoke("app").unwrap_err();
    assert!(matches!(again, IdentityError::NotIssued(_)), "{again}");
}

/// Numbers whose first bit is set have one octet more in a list.
#[test]
fn every_number_that_was_revoked_is_found_on_the_list() {
    let world = World::new();
    for number in ["ff11223344556677889900aabbccddee", "7f11223344556677889900aabbccddee"] {
        world.authority.revoke(number).unwrap();
        let list = world.authority.trust().unwrap();
        world.authority.revoke(number).unwrap();
        assert_eq!(world.authority.trust().unwrap(), list, "{number} is on it");
    }
}

#[test]
fn certificates_are_revoked_by_name_and_by_number() {
    let world = World::new();
    world.made(Role::Node, "n1");
    world
        .authority
        .make_identity(&world.folder("c"), &world.name(Role::Client, "n1"))
        .unwrap();
    let ambiguous = world.authority.revoke("n1").unwrap_err().to_string();
    assert!(ambiguous.contains("ROLE/NAME"), "{ambiguous}");
    assert_eq!(world.authority.revoke("client/n1").unwrap().certificates.len(), 1);
    let full = world.name(Role::Node, "n1").to_string();
    assert_eq!(world.authority.revoke(&full).unwrap().certificates.len(), 1);
    for nobody in ["n9", "", "abcd", "node/n9"] {
        let error = world.authority.revoke(nobody).unwrap_err();
        assert!(matches!(error, IdentityError::NotIssued(_)), "{nobody}: {error}");
    }
    let folder = world.made(Role::Operator, "o");
    let serial = Identity::open(&folder, NOW).unwrap().serial().to_string();
    assert_eq!(
        world.authority.revoke(&serial).unwrap().certificates[0].name,
        Some(world.name(Role::Operator, "o"))
    );
    // One that the log does not know, for it may be an older copy.
    let unknown = "40:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff";
    assert_eq!(world.authority.revoke(unknown).unwrap().certificates[0].name, None);
    assert_eq!(world.authority.revoked().unwrap().len(), 4);
    // What has ended long ago is forgotten at the next change.
    world.pass_in_use(60 * DAY);
    world.made(Role::Node, "n5");
    world.authority.revoke("n5").unwrap();
    assert_eq!(world.authority.revoked().unwrap().len(), 2);
    let issued = world.authority.issued().unwrap();
    assert!(issued.iter().all(|issued| ["busy", "n5"].contains(&issued.name.name())));
}

#[test]
fn the_authority_is_exchanged_while_everybody_goes_on() {
    let world = World::new();
    let (one, two) = (world.made(Role::Node, "n1"), world.made(Role::Node, "n2"));
    let (first, second) = (world.live(&one), world.live(&two));
    let both_believe = || {
        first.judge(second.current().chain(), Usage::Client).unwrap();
        second.judge(first.current().chain(), Usage::Server).unwrap();
    };
    let old = world.authority.hash().unwrap();
    let rotation = world.authority.rotate(HOUR).unwrap();
    assert_ne!(rotation.to, old);
    assert_eq!(rotation.waiting.len(), 2);
    assert!(matches!(world.authority.rotate(HOUR), Err(IdentityError::Rotation(_))));
    // The old one signs until everybody had the time to hear of the new one.
    let signer = || {
        let number = world.authority.issued().unwrap().len();
        world.made(Role::Client, &format!("c{number}"));
        world.authority.issued().unwrap().pop().unwrap().by
    };
    assert_eq!(signer(), old);
    let early = world.authority.finish(true).unwrap_err();
    assert!(early.to_string().contains("signs from"), "{early}");
    for live in [&first, &second] {
        assert!(live.install_trust(&world.authority.trust().unwrap()).unwrap());
        assert_eq!(live.current().trust().roots().len(), 2);
    }
    both_believe();
    world.pass(HOUR);
    assert_eq!(signer(), rotation.to);
    // The authority's server is known by the old one to the end, and so are new tokens.
    assert_eq!(world.authority.hash().unwrap(), old);
    first
        .judge(world.authority.server_identity().unwrap().chain(), Usage::Server)
        .unwrap();
    world.authority.renew_identity(&one).unwrap();
    assert!(first.reload().unwrap());
    both_believe();
    world.authority.revoke("c2").unwrap();
    let waiting = world.authority.finish(false).unwrap_err().to_string();
    assert!(waiting.contains("node/n2"), "{waiting}");
    world.authority.renew_identity(&two).unwrap();
    second.reload().unwrap();
    both_believe();
    world.authority.finish(false).unwrap();
    for live in [&first, &second] {
        assert!(live.install_trust(&world.authority.trust().unwrap()).unwrap());
        assert_eq!(live.current().trust().roots().len(), 1);
    }
    both_believe();
    assert!(matches!(world.authority.finish(false), Err(IdentityError::Rotation(_))));
    let keys = std::fs::read_to_string(world.folder("ca").join("ca-key.pem")).unwrap();
    assert_eq!(keys.matches("BEGIN PRIVATE KEY").count(), 1);
    // A third one follows in the same way.
    let third = world.authority.rotate(Duration::ZERO).unwrap();
    assert_eq!(world.authority.hash().unwrap(), rotation.to);
    assert_eq!(signer(), third.to);
    assert_eq!(third.waiting.len(), 3, "two nodes and a client");
}

/// The list without the old root is the first thing that is written: who has it refuses whatever the old one signs.
#[test]
fn an_exchange_that_ended_half_way_is_ended() {
    let world = World::new();
    let first = world.live(&world.made(Role::Node, "n1"));
    let rotation = world.authority.rotate(Duration::ZERO).unwrap();
    assert!(first.install_trust(&world.authority.trust().unwrap()).unwrap());
    let files = ["ca.pem", "ca-key.pem"].map(|name| world.folder("ca").join(name));
    let contents = || files.each_ref().map(|file| std::fs::read(file).unwrap());
    let before = contents();
    world.authority.renew_identity(&world.folder("n1")).unwrap();
    first.reload().unwrap();
    world.authority.finish(true).unwrap();
    let after = contents();
    for (file, before) in files.iter().zip(before) {
        std::fs::write(file, before).unwrap();
    }
    assert!(first.install_trust(&world.authority.trust().unwrap()).unwrap());
    let server = world.authority.server_identity().unwrap();
    first.judge(server.chain(), Usage::Server).unwrap();
    assert_eq!(world.authority.hash().unwrap(), rotation.to);
    assert_eq!(contents(), after);
}

/// Who was away during the whole exchange learns that its authority has gone, and that it has to join anew.
#[test]
fn who_missed_an_exchange_is_told() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    world.authority.rotate(Duration::ZERO).unwrap();
    world.authority.finish(true).unwrap();
    crate::folder::install_trust(&folder, &world.authority.trust().unwrap()).unwrap();
    let error = Identity::open(&folder, NOW).unwrap_err();
    assert!(error.to_string().contains("no authority that is trusted"), "{error}");
}

/// A folder that was put back from a copy goes on above the numbers that it has forgotten.
#[test]
fn an_authority_from_a_copy_is_believed_again() {
    let world = World::new();
    let live = world.live(&world.made(Role::Node, "n1"));
    world.made(Role::Node, "n2");
    let copy = std::fs::read(world.folder("ca").join("trust")).unwrap();
    world.pass(HOUR);
    world.authority.revoke("n2").unwrap();
    live.install_trust(&world.authority.trust().unwrap()).unwrap();
    std::fs::write(world.folder("ca").join("trust"), copy).unwrap();
    std::fs::remove_file(world.folder("ca").join("revoked")).unwrap();
    world.pass(HOUR);
    world.made(Role::Node, "n3");
    world.authority.revoke("n3").unwrap();
    live.install_trust(&world.authority.trust().unwrap()).unwrap();
}

#[test]
fn a_log_that_was_cut_off_goes_on() {
    let world = World::new();
    world.made(Role::Node, "n1");
    let log = world.folder("ca").join("issued");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, format!("{text}{}", &text[..40])).unwrap();
    world.made(Role::Node, "n2");
    assert_eq!(world.authority.issued().unwrap().len(), 2);
    std::fs::write(&log, format!("nonsense\n{text}")).unwrap();
    let error = world.authority.issued().unwrap_err();
    assert!(error.to_string().contains("line 1 is damaged"), "{error}");
}

/// The root is of use for nothing but this: it may make no further authorities, and its leaves name no host of the web.
#[test]
fn the_root_is_narrow() {
    let world = World::new();
    let live = world.live(&world.made(Role::Node, "n1"));
    let current = live.current();
    let root = crate::certificate::parse(&current.trust().roots()[0]).unwrap();
    let constraints = root.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && constraints.value.ca);
    assert_eq!(constraints.value.path_len_constraint, Some(0));
    assert!(root.name_constraints().unwrap().unwrap().critical);
    let leaf = crate::certificate::parse(&current.chain()[0]).unwrap();
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && usage.server_auth && !usage.any && !usage.code_signing);
    assert!(leaf.key_usage().unwrap().unwrap().value.digital_signature());
    let key = std::fs::read_to_string(world.folder("ca").join("ca-key.pem")).unwrap();
    let key = KeyPair::from_pem(&key).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_der(&current.trust().roots()[0], &key).unwrap();
    for name in ["www.example.com", "127.0.0.1", "::1"] {
        let mut forged = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let uri = format!("amita://{CLUSTER}/node/n1");
        forged.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        let forged = forged.signed_by(&key, &issuer).unwrap();
        let judged = live.judge(&[forged.der().clone()], Usage::Server);
        assert!(matches!(judged, Err(Refusal::Path(_))), "{name}: {judged:?}");
    }
}

fn verified(log: &AuthorityLog) -> Result<amita_audit::Summary, amita_audit::Fault> {
    let mut verifier = amita_audit::Verifier::new(log.trimmed().as_ref());
    if let Some(head) = log.head {
        verifier = verifier.known(head);
    }
    for text in &log.lines {
        let place = amita_audit::Line::parse(text).map_or(verifier.next(), |line| line.record().seq);
        verifier.take(place, text)?;
    }
    verifier.end(None)
}

fn actions(log: &AuthorityLog) -> Vec<String> {
    let record = |text: &String| amita_audit::Line::parse(text).unwrap().record().clone();
    log.lines.iter().map(record).map(|record| record.action).collect()
}

#[test]
fn each_use_of_the_authoritys_keys_is_in_its_log() {
    let world = World::new();
    let authority = &world.authority;
    let name = world.name(Role::Node, "n1");
    authority.make_identity(&world.folder("n1"), &name).unwrap();
    authority.renew_identity(&world.folder("n1")).unwrap();
    let token = authority.token(&world.name(Role::Node, "n2")).unwrap();
    authority
        .redeem(&token, request(&world.folder("n2")).request())
        .unwrap();
    authority.revoke("n1").unwrap();
    authority.rotate(Duration::ZERO).unwrap();
    authority.finish(true).unwrap();
    let stranger = Actor::reached(
        "nobody",
        "none",
        amita_audit::Proof::None,
        Some("192.0.2.1:5".to_owned()),
    );
    authority.tell_refused(&stranger, "cert.issue", "", "no token").unwrap();
    let log = authority.log().unwrap();
    assert_eq!(
        actions(&log),
        [
            "ca.create",
            "cert.issue",
            "cert.renew",
            "token.create",
            "cert.issue",
            "cert.revoke",
            "ca.rotate",
            "ca.finish",
            "cert.issue"
        ]
    );
    let all = log.lines.join("\n");
    let secret = token.to_text();
    let secret = secret.rsplit('.').next().unwrap();
    assert!(all.contains(&token.id()) && !all.contains(secret), "{all}");
    assert!(all.contains("\"refused\"") && all.contains("192.0.2.1"), "{all}");
    assert_eq!(verified(&log).unwrap().records, 9);
    // One opened anew goes on where it was.
    let again = Authority::open(authority.folder(), world.clock.clone()).unwrap();
    again.token(&world.name(Role::Node, "n3")).unwrap();
    assert_eq!(verified(&again.log().unwrap()).unwrap().records, 10);
}

#[test]
fn an_authoritys_log_that_was_changed_or_cut_off_is_found() {
    let world = World::new();
    for name in ["n1", "n2", "n3"] {
        world.authority.token(&world.name(Role::Node, name)).unwrap();
    }
    let path = world.authority.folder().join("audit");
    let sound = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, sound.replace("/node/n2", "/node/n9")).unwrap();
    let found = verified(&world.authority.log().unwrap()).unwrap_err();
    assert_eq!(found, amita_audit::Fault::Changed { seq: 3 });
    let cut: String = sound.lines().take(3).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, cut).unwrap();
    let found = verified(&world.authority.log().unwrap()).unwrap_err();
    assert_eq!(found, amita_audit::Fault::CutOff { last: 3, head: 4 });
    // A damaged log does not stop the authority, and stays a damaged log.
    world.authority.token(&world.name(Role::Node, "n4")).unwrap();
    assert!(verified(&world.authority.log().unwrap()).is_err());
    // A crash has cut off a line and the note beside it: what is there goes on.
    std::fs::write(&path, format!("{sound}0123456789abc")).unwrap();
    std::fs::remove_file(world.authority.folder().join("audit.head")).unwrap();
    world.authority.token(&world.name(Role::Node, "n5")).unwrap();
    assert_eq!(verified(&world.authority.log().unwrap()).unwrap().records, 5);
}
