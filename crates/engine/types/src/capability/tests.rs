use super::*;

fn entry(scope: Scope) -> Entry {
    Entry {
        scope,
        rights: Rights::ALL,
    }
}

fn volume(number: u64) -> Entry {
    entry(Scope::Volume(VolumeId(number)))
}

#[test]
fn rights_are_one_of_three_at_least_and_nothing_else() {
    assert_eq!(Rights::new(0), None);
    for bits in 1..=7 {
        assert_eq!(Rights::new(bits).map(Rights::bits), Some(bits));
    }
    assert!((8..=u8::MAX).all(|bits| Rights::new(bits).is_none()));
    assert_eq!(Rights::ALL.to_string(), "read, write, own");
    assert_eq!(Rights::new(5).unwrap().to_string(), "read, own");
}

#[test]
fn a_scope_is_its_kind_and_number() {
    for scope in [Scope::Volume(VolumeId(u64::MAX)), Scope::Pool(PoolId(9)), Scope::Tenant] {
        let (kind, number) = scope.parts();
        assert_eq!(Scope::of(kind, number), Some(scope));
    }
    for (kind, number) in [(0, 0), (2, 1 << 32), (3, 1), (4, 0), (u8::MAX, 7)] {
        assert_eq!(Scope::of(kind, number), None, "kind {kind}, number {number}");
    }
}

#[test]
fn a_grant_is_in_order_and_says_nothing_twice() {
    let grant = Grant::new(
        "acme",
        vec![
            entry(Scope::Tenant),
            volume(7),
            entry(Scope::Pool(PoolId(1))),
            volume(3),
        ],
    );
    let grant = grant.unwrap();
    let scopes: Vec<Scope> = grant.entries().iter().map(|entry| entry.scope).collect();
    let [seven, three] = [7, 3].map(|number| Scope::Volume(VolumeId(number)));
    assert_eq!(scopes, [three, seven, Scope::Pool(PoolId(1)), Scope::Tenant]);
    let twice = Grant::new("", vec![volume(3), volume(4), volume(3)]).unwrap_err();
    assert_eq!(twice, BadGrant::Twice(three));
    assert_eq!(twice.to_string(), "it names volume 3 twice");
}

#[test]
fn a_grant_has_its_limits() {
    let volumes = |count: u64| (1..=count).map(volume).collect::<Vec<_>>();
    assert_eq!(Grant::new("", volumes(64)).unwrap().entries().len(), MAX_ENTRIES);
    assert_eq!(Grant::new("", volumes(65)).unwrap_err(), BadGrant::Entries(65));
    assert_eq!(Grant::new("", Vec::new()).unwrap(), Grant::default());
    let tenant = |name: &str| Grant::new(name, vec![entry(Scope::Tenant)]);
    assert_eq!(tenant(&"t".repeat(63)).unwrap().tenant().len(), MAX_TENANT_BYTES);
    assert_eq!(tenant("").unwrap_err(), BadGrant::NoTenant);
    for bad in [
        "t".repeat(64),
        "-".to_owned(),
        "a b".to_owned(),
        "a\n".to_owned(),
        "ä".to_owned(),
    ] {
        let error = tenant(&bad).unwrap_err();
        assert!(matches!(error, BadGrant::Tenant { .. }), "{bad:?}: {error}");
    }
}
