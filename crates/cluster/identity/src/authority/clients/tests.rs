use super::*;
use amita_types::{ClusterId, VolumeId};

fn client(name: &str, first: u32) -> GrantedClient {
    let volume = |number| Entry {
        scope: Scope::Volume(VolumeId(number)),
        rights: Rights::ALL,
    };
    GrantedClient {
        name: Name::new(ClusterId(7), Role::Client, name).unwrap(),
        at: UnixSeconds(1_800_000_000),
        numbers: Numbers::new(NodeId(first), 8).unwrap(),
        life: CLIENT_LIFE,
        grant: Grant::new("", vec![volume(3), volume(9)]).unwrap(),
    }
}

#[test]
fn a_line_comes_back() {
    let mut one = client("app", FIRST_CLIENT_NUMBER + 64);
    let id = ClusterId(7);
    let text = format!("2147483712 8 86400 1800000000 - 1:3:7,1:9:7 amita://{id}/client/app");
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
    let good = client("app", FIRST_CLIENT_NUMBER).line();
    for (from, to) in [
        ("2147483648 8 ", "2147483647 8 "),
        ("2147483648 8 ", "2147483648 65 "),
        (" 86400 ", " 599 "),
        (" 86400 ", " 604801 "),
        (" 86400 ", " -1 "),
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

/// What chance gives that was given before is not given again, nor anything so close that the other could come to it.
#[test]
fn numbers_are_drawn_until_nobody_has_had_them() {
    let known = [client("a", FIRST_CLIENT_NUMBER), client("b", FIRST_CLIENT_NUMBER + 640)];
    let mut chances = [0, 63, 640, 703, u32::MAX - 127].into_iter();
    let drawn = draw(&known, 3, || chances.next().unwrap()).unwrap();
    assert_eq!((drawn.first(), drawn.count()), (NodeId(u32::MAX - 127), 3));
    assert_eq!(chances.next(), None);
    let last = draw(&known, MAX_NUMBERS, || u32::MAX).unwrap();
    assert_eq!(last.last(), NodeId(u32::MAX));
    assert_eq!(draw(&known, 8, || 640), None, "there is an end to it");
    // A range of before that begins elsewhere is kept apart as well.
    let odd = [client("c", FIRST_CLIENT_NUMBER + 1000)];
    for near in [960, 1000] {
        assert_eq!(draw(&odd, 8, || near), None, "{near}");
    }
    assert!(draw(&odd, 8, || 1088).is_some());
}

#[test]
fn a_ledger_with_something_twice_is_told() {
    let clients = |second: (&str, u32)| [client("a", FIRST_CLIENT_NUMBER), client(second.0, second.1)];
    assert_eq!(overlap(&clients(("b", FIRST_CLIENT_NUMBER + 64))), None);
    for near in [0, 7, 63] {
        let wrong = overlap(&clients(("b", FIRST_CLIENT_NUMBER + near))).unwrap();
        assert!(wrong.starts_with("two clients have numbers from"), "{wrong}");
    }
    let wrong = overlap(&clients(("a", FIRST_CLIENT_NUMBER + 64))).unwrap();
    assert!(wrong.ends_with("/client/a is in it twice"), "{wrong}");
}
