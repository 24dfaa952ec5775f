use super::*;
use amita_types::{ClusterId, VolumeId};

fn client(name: &str) -> GrantedClient {
    let volume = |number| Entry {
        scope: Scope::Volume(VolumeId(number)),
        rights: Rights::ALL,
    };
    GrantedClient {
        name: Name::new(ClusterId(7), Role::Client, name).unwrap(),
        at: UnixSeconds(1_800_000_000),
        life: CLIENT_LIFE,
        grant: Grant::new("", vec![volume(3), volume(9)]).unwrap(),
    }
}

#[test]
fn a_line_comes_back() {
    let mut one = client("app");
    let id = ClusterId(7);
    let text = format!("86400 1800000000 - 1:3:7,1:9:7 amita://{id}/client/app");
    assert_eq!(one.line(), text);
    assert_eq!(GrantedClient::parse(&text), Some(one.clone()));
    let tenants = Entry {
        scope: Scope::Tenant,
        rights: Rights::ALL,
    };
    for grant in [Grant::default(), Grant::new("acme", vec![tenants]).unwrap()] {
        one.grant = grant;
        assert_eq!(GrantedClient::parse(&one.line()), Some(one.clone()));
    }
}

#[test]
fn a_line_that_is_damaged_is_none() {
    let good = client("app").line();
    for (from, to) in [
        ("86400 ", "599 "),
        ("86400 ", "604801 "),
        ("86400 ", "-1 "),
        ("86400 ", "2147483648 8 86400 "),
        (" - ", " a/b "),
        ("1:3:7", "1:3:8"),
        ("1:3:7", "1:3"),
        ("1:3:7", "1:3:7:0"),
        ("1:3:7", "1:9:7"),
        ("1:3:7", "3:0:7"),
        ("/client/", "/node/"),
        ("/client/app", "/client/app more"),
    ] {
        let wrong = good.replace(from, to);
        assert_ne!(wrong, good, "{from:?} is in it");
        assert_eq!(GrantedClient::parse(&wrong), None, "{wrong}");
    }
}

#[test]
fn a_ledger_with_a_name_twice_is_told() {
    assert_eq!(twice(&[client("a"), client("b")]), None);
    let wrong = twice(&[client("a"), client("b"), client("a")]).unwrap();
    assert!(wrong.ends_with("/client/a is in it twice"), "{wrong}");
}
