use super::*;
use amita_types::capability::MAX_TENANT_BYTES;
use amita_types::{PoolId, VolumeId};
use proptest::prelude::*;

fn entry(scope: Scope) -> Entry {
    Entry {
        scope,
        rights: Rights::ALL,
    }
}

fn capability() -> Capability {
    let entries = vec![entry(Scope::Volume(VolumeId(7))), entry(Scope::Tenant)];
    Capability {
        made_s: 1_800_000_000,
        grant: Grant::new("acme", entries).unwrap(),
    }
}

/// Its parts, each with its tag and length.
const VERSION_1: &str = "020101";
const MADE: &str = "02046b49d200";
const TENANT: &str = "0c0461636d65";
const VOLUME_7: &str = "01000000000000000707";
const THE_TENANTS: &str = "03000000000000000007";

fn listed(entries: [&str; 2]) -> String {
    format!("0414{}", entries.concat())
}

fn entries() -> String {
    listed([VOLUME_7, THE_TENANTS])
}

/// The whole of these parts, with a length in one octet.
fn whole(parts: [&str; 4]) -> Vec<u8> {
    let body = crate::certificate::unhex(&parts.concat()).unwrap();
    [&[SEQUENCE, u8::try_from(body.len()).unwrap()], body.as_slice()].concat()
}

fn fails(der: &[u8]) -> BadCapability {
    match decode(der) {
        Err(why) => why,
        Ok(read) => panic!("{} is read as {read:?}", crate::certificate::hex(der)),
    }
}

#[test]
fn it_stands_in_a_certificate_as_it_is_written_down() {
    let parts = [VERSION_1, MADE, TENANT, &entries()];
    assert_eq!(encode(&capability()), whole(parts));
    assert_eq!(decode(&whole(parts)), Ok(capability()));
}

/// Both forms of the object identifier are the same one.
#[test]
fn the_extension_has_one_name() {
    let written = x509_parser::der_parser::Oid::from(&OID).unwrap();
    assert_eq!(written.as_bytes(), OID_DER);
    assert_eq!(written.to_id_string(), "2.25.2888107559684724880");
    assert!(!extension(&capability()).criticality());
}

#[test]
fn the_longest_and_the_shortest_come_back() {
    let volumes = (0..64)
        .map(|at| entry(Scope::Volume(VolumeId(u64::MAX - at))))
        .collect();
    let longest = Capability {
        made_s: u64::MAX,
        grant: Grant::new("t".repeat(MAX_TENANT_BYTES), volumes).unwrap(),
    };
    let der = encode(&longest);
    assert!(der.len() < MAX_BYTES, "{} bytes", der.len());
    assert_eq!(decode(&der), Ok(longest));
    let shortest = Capability {
        made_s: 0,
        grant: Grant::default(),
    };
    assert_eq!(decode(&encode(&shortest)), Ok(shortest));
}

#[test]
fn another_version_is_refused_whatever_follows() {
    for version in ["020100", "020102", "02017f", "02020100"] {
        let der = whole([version, "0500", "", ""]);
        assert!(matches!(fails(&der), BadCapability::Version(_)), "{version}");
    }
}

#[test]
fn what_is_beyond_a_limit_is_refused() {
    assert_eq!(fails(&[0; MAX_BYTES + 1]), BadCapability::Long(MAX_BYTES + 1));
    // Less than nothing, more than eight octets, none.
    for made in ["0204eb49d200", "0209010000000000000000", "0200"] {
        let why = fails(&whole([VERSION_1, made, TENANT, &entries()]));
        assert_eq!(why, BadCapability::Form("time"), "{made}");
    }
    for tenant in ["0c0120", "0c012d", "0c03c3a474"] {
        let why = fails(&whole([VERSION_1, MADE, tenant, &entries()]));
        assert!(
            matches!(why, BadCapability::Grant(BadGrant::Tenant { .. })),
            "{tenant}: {why}"
        );
    }
    let why = fails(&whole([VERSION_1, MADE, "0c00", &entries()]));
    assert_eq!(why, BadCapability::Grant(BadGrant::NoTenant));
    let mut many = capability();
    many.grant = Grant::new("", (1..=64).map(|at| entry(Scope::Pool(PoolId(at)))).collect()).unwrap();
    // One more: the lengths of the list and of the whole, and the octets.
    let mut der = encode(&many);
    let at = der.len() - 640 - 4;
    assert_eq!(der[at..at + 4], [OCTET_STRING, 0x82, 0x02, 0x80]);
    der[at + 3] += 10;
    der[3] += 10;
    der.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 0x41, 7]);
    assert_eq!(fails(&der), BadCapability::Grant(BadGrant::Entries(65)));
}

#[test]
fn entries_that_are_none_are_refused() {
    for (wrong, entry) in [
        ("no right", "01000000000000000700"),
        ("a right that is none", "01000000000000000708"),
        ("no kind", "00000000000000000707"),
        ("a kind that is none", "04000000000000000707"),
        ("a pool's number", "02000000010000000007"),
        ("a tenant's number", "03000000000000000107"),
        ("its last octet", "010000000000000007"),
    ] {
        let entries = format!("04{:02x}{entry}", entry.len() / 2);
        let why = fails(&whole([VERSION_1, MADE, TENANT, &entries]));
        assert_eq!(why, BadCapability::Form("list of entries"), "{wrong}");
    }
    let twice = listed([VOLUME_7, "01000000000000000701"]);
    let why = fails(&whole([VERSION_1, MADE, TENANT, &twice]));
    assert_eq!(why, BadCapability::Grant(BadGrant::Twice(Scope::Volume(VolumeId(7)))));
}

#[test]
fn the_same_in_other_words_is_refused() {
    let good = whole([VERSION_1, MADE, TENANT, &entries()]);
    let longer = [&[SEQUENCE, 0x81], &good[1..]].concat();
    let tail = [good.as_slice(), &[0]].concat();
    let inside = whole([VERSION_1, MADE, TENANT, &(entries() + "0500")]);
    let disordered = listed([THE_TENANTS, VOLUME_7]);
    for (what, der) in [
        ("a length in two octets", longer),
        ("something behind it", tail),
        ("something at its end", inside),
        (
            "a number with a zero more",
            whole([VERSION_1, "0205006b49d200", TENANT, &entries()]),
        ),
        (
            "a version with a zero more",
            whole(["02020001", MADE, TENANT, &entries()]),
        ),
        (
            "a length of a tenant",
            whole([VERSION_1, MADE, "0c82000461636d65", &entries()]),
        ),
        ("entries out of order", whole([VERSION_1, MADE, TENANT, &disordered])),
    ] {
        let why = fails(&der);
        assert_eq!(why, BadCapability::NotCanonical, "{what}");
    }
}

#[test]
fn a_part_of_it_is_nothing() {
    let good = encode(&capability());
    for end in 0..good.len() {
        fails(&good[..end]);
    }
    for (at, what) in [
        (0, "frame"),
        (2, "version"),
        (5, "time"),
        (11, "tenant"),
        (17, "list of entries"),
    ] {
        let mut wrong = good.clone();
        wrong[at] ^= 0x20;
        assert_eq!(fails(&wrong), BadCapability::Form(what));
    }
}

fn scopes() -> impl Strategy<Value = Scope> {
    prop_oneof![
        any::<u64>().prop_map(|number| Scope::Volume(VolumeId(number))),
        any::<u32>().prop_map(|number| Scope::Pool(PoolId(number))),
        Just(Scope::Tenant),
    ]
}

proptest! {
    #[test]
    fn every_capability_comes_back(
        made_s in any::<u64>(),
        tenant in "[a-z0-9][a-z0-9.-]{0,62}",
        scopes in proptest::collection::btree_set(scopes(), 0..=64),
        rights in 1..=7_u8,
    ) {
        let rights = Rights::new(rights).unwrap();
        let entries = scopes.into_iter().map(|scope| Entry { scope, rights }).collect();
        let capability = Capability {
            made_s,
            grant: Grant::new(tenant, entries).unwrap(),
        };
        let der = encode(&capability);
        prop_assert!(der.len() <= MAX_BYTES);
        prop_assert_eq!(decode(&der), Ok(capability));
    }
}
