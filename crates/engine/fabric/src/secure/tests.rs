use super::*;

fn peer(role: Role, name: &str) -> Peer {
    Peer {
        role,
        name: name.to_owned(),
        certificates: vec![vec![7; 9]],
    }
}

#[test]
fn a_name_makes_its_holder_that_node_and_no_other() {
    for (role, name, recorded, is_it) in [
        (Role::Node, "n1", "n1", true),
        (Role::Node, "n1", "n12", false),
        (Role::Node, "n12", "n1", false),
        (Role::Node, "n1", "N1", false),
        // A gateway inside it, and never a node that may have stores.
        (Role::Node, "n1", "n1.1", true),
        (Role::Node, "n1.1", "n1", false),
        (Role::Node, "n1", "other.n1", false),
        (Role::Node, "", "n1", false),
        (Role::Gateway, "db1", "n1", false),
        (Role::Gateway, "db1", "db1", true),
        (Role::Gateway, "db1", "db1.4711", true),
        (Role::Gateway, "db1", "db12", false),
        (Role::Gateway, "db1", "db", false),
        (Role::Gateway, "db1", "other.db1", false),
        (Role::Client, "n1", "n1", false),
        (Role::Operator, "n1", "n1", false),
    ] {
        for of_record in [Recorded::node(recorded), Recorded::gateway(recorded)] {
            let is_it = is_it && (role == Role::Node && name == recorded || of_record.is_gateway);
            assert_eq!(
                peer(role, name).may_be(&of_record),
                is_it,
                "{role:?} {name} as {of_record:?}"
            );
        }
    }
}

/// Nobody has this name; whoever would must not be everybody.
#[test]
fn a_gateway_without_a_name_is_nobody() {
    for recorded in ["", ".", ".a", "n1"] {
        for recorded in [Recorded::node(recorded), Recorded::gateway(recorded)] {
            assert!(!peer(Role::Gateway, "").may_be(&recorded), "{recorded:?}");
            assert!(!peer(Role::Node, "").may_be(&recorded), "{recorded:?}");
        }
    }
}

#[test]
fn roles_are_told_apart() {
    let all = [Role::Node, Role::Gateway, Role::Client, Role::Operator];
    for role in all {
        let only = Roles::of(&[role]);
        assert!(all.iter().all(|other| only.has(*other) == (*other == role)));
        assert!(!Roles::of(&[]).has(role));
        assert!(Roles::of(&all).has(role));
    }
}

#[test]
fn each_protection_has_a_name_of_its_own() {
    assert_ne!(Protection::Auth.alpn(), Protection::Secret.alpn());
    assert_eq!(Protection::default(), Protection::Auth);
    assert_eq!(
        [Protection::Auth, Protection::Secret].map(|mode| mode.to_string()),
        ["auth", "secret"]
    );
}

#[test]
fn secrets_are_not_printed() {
    let secrets = Secrets {
        send: Zeroizing::new([0xa1; SECRET_BYTES]),
        receive: Zeroizing::new([0xb2; SECRET_BYTES]),
    };
    let step = Step::Done {
        peer: peer(Role::Node, "n1"),
        secrets,
    };
    for text in [format!("{step:?}"), format!("{step:#?}")] {
        assert!(text.contains("Secrets(..)"), "{text}");
        assert!(
            !text.contains("161") && !text.contains("178") && !text.to_lowercase().contains("a1"),
            "{text}"
        );
    }
}
