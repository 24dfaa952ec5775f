use super::*;
use proptest::prelude::*;

#[test]
fn a_name_is_its_text() {
    let name = Name::new(CLUSTER, Role::Node, "rack-1.n2").unwrap();
    let text = "amita://6d2a6b5e-2f0c-4ad5-9d0b-3a7f1f3f0c11/node/rack-1.n2";
    assert_eq!(name.to_string(), text);
    assert_eq!(text.parse::<Name>().unwrap(), name);
    for role in Role::ALL {
        assert_eq!(role.text().parse::<Role>().unwrap(), role);
    }
}

#[test]
fn what_is_no_name_is_told_why() {
    let id = CLUSTER.to_string();
    for (text, why) in [
        ("", "begin"),
        ("amita:/", "begin"),
        ("AMITA://x/node/n", "begin"),
        ("amita://x", "three parts"),
        (&format!("amita://{id}/node"), "three parts"),
        ("amita://x/node/n", "not a UUID"),
        (&format!("amita://{}/node/n", id.to_uppercase()), "lower case"),
        (&format!("amita://{id}/root/n"), "no role"),
        (&format!("amita://{id}/Node/n"), "no role"),
        (&format!("amita://{id}/node/"), "empty"),
        (&format!("amita://{id}/node/a/b"), "contains"),
        (&format!("amita://{id}/node/a/viewer"), "contains"),
        (&format!("amita://{id}/operator/eve/root"), "no role of an operator"),
        (&format!("amita://{id}/operator/eve/Viewer"), "no role of an operator"),
        (&format!("amita://{id}/operator/eve/"), "no role of an operator"),
        (&format!("amita://{id}/operator/eve/viewer/x"), "no role of an operator"),
        (&format!("amita://{id}/operator//viewer"), "empty"),
        // One name has one text.
        (&format!("amita://{id}/operator/eve/admin"), "no role stands behind"),
        (&format!("amita://{id}/node/a%20b"), "contains"),
        (&format!("amita://{id}/node/.."), "starts with"),
        (&format!("amita://{id}/node/{}", "x".repeat(201)), "more than 200"),
    ] {
        let error = text.parse::<Name>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn an_operators_role_stands_behind_the_name_unless_it_is_all() {
    for role in OperatorRole::ALL
        .into_iter()
        .filter(|role| *role != OperatorRole::Mirror)
    {
        let name = Name::operator(CLUSTER, role, "eve").unwrap();
        let text = name.to_string();
        assert_eq!(text.parse::<Name>().unwrap(), name);
        assert_eq!(
            text.ends_with(&format!("/operator/eve/{role}")),
            role != OperatorRole::Admin,
            "{text}"
        );
        assert_eq!((name.name(), name.operator_role()), ("eve", Some(role)));
        assert_eq!(role.text().parse::<OperatorRole>().unwrap(), role);
    }
    assert_eq!(
        Name::new(CLUSTER, Role::Operator, "eve").unwrap().operator_role(),
        Some(OperatorRole::Admin)
    );
    // Other ends of mirrors have tokens alone.
    assert_eq!("mirror".parse(), Ok(OperatorRole::Mirror));
    assert!(Name::operator(CLUSTER, OperatorRole::Mirror, "eve").is_err());
    assert!(
        format!("amita://{CLUSTER}/operator/eve/mirror")
            .parse::<Name>()
            .is_err()
    );
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Operator) {
        assert_eq!(Name::new(CLUSTER, role, "x").unwrap().operator_role(), None, "{role}");
    }
}

proptest! {
    #[test]
    fn every_name_comes_back(id in any::<u128>(), role in 0..5usize, name in "[A-Za-z0-9_][A-Za-z0-9._-]{0,199}") {
        let name = Name::new(ClusterId(id), Role::ALL[role], name).unwrap();
        prop_assert_eq!(name.to_string().parse::<Name>().unwrap(), name);
    }

    #[test]
    fn no_text_panics(text in "(amita://)?[ -~]{0,60}", token in "(amita-join-1\\.)?[A-Za-z0-9_=-]{0,120}") {
        let _ = text.parse::<Name>();
        let _ = text.parse::<Serial>();
        prop_assert!(token.parse::<Token>().is_err() || token.len() == 120);
    }

    /// Whatever stands in the files of an identity, it is refused and nothing ends.
    #[test]
    fn no_pem_and_no_list_panics(text in "(amita-trust-1\n)?(cluster: x\n)?(-----BEGIN (X509 CRL|CERTIFICATE)-----\n)?[ -~\n]{0,200}") {
        let _ = crate::pem::decode(&text);
        prop_assert!(crate::trust::Trust::signed(&text, &[]).is_err());
        prop_assert!(crate::trust::Trust::unsigned(&text, Some(&text)).is_err());
    }

    #[test]
    fn pem_comes_back(der in proptest::collection::vec(any::<u8>(), 0..300)) {
        let text = crate::pem::encode("THING", &der);
        let blocks = crate::pem::decode(&text).unwrap();
        prop_assert_eq!(blocks.len(), 1);
        prop_assert_eq!((blocks[0].label.as_str(), &*blocks[0].der), ("THING", &der));
    }
}

#[test]
fn times_are_read_by_people() {
    assert_eq!(NOW.to_string(), "2027-01-15T08:00:00Z");
    assert_eq!(UnixSeconds(0).to_string(), "1970-01-01T00:00:00Z");
    assert_eq!(UnixSeconds(u64::MAX).to_string(), format!("second {}", u64::MAX));
}

#[test]
fn nothing_shows_a_secret() {
    let world = World::new();
    let token = world.authority.token(&world.name(Role::Node, "a")).unwrap();
    let text = token.to_text();
    assert_eq!(text.parse::<Token>().unwrap().id(), token.id());
    assert_eq!(format!("{token:?}"), format!("Token({})", token.id()));
    let folder = world.made(Role::Node, "n1");
    let live = world.live(&folder);
    let key = std::fs::read_to_string(folder.join("key.pem")).unwrap();
    let secret = key.lines().nth(2).unwrap();
    let pending = PendingKey::make(&world.folder("x")).unwrap();
    for shown in [
        format!("{live:?}"),
        format!("{:?}", live.current()),
        format!("{pending:?}"),
        format!("{:?}", world.authority),
        format!("{:?}", live.client_config(Expected::any(&[Role::Node]))),
    ] {
        assert!(!shown.contains(secret) && !shown.contains("PRIVATE"), "{shown}");
    }
}
