//! What is told of keys.

use super::{FAILED_TOLD, Status, TenantStatus, UnsetStatus, bound_to, of_tenants, of_tenants_keys, told};
use amita_control::admin::{Misplaced, Rewrapped};

fn status(tenants: Vec<TenantStatus>, unset: Vec<UnsetStatus>, misplaced: Vec<Misplaced>) -> Status {
    Status {
        wrapped_by: Some("key 7".to_owned()),
        is_of_cluster: true,
        is_first: true,
        ails: None,
        tenants,
        unset,
        misplaced,
    }
}

fn tenant(name: &str, is_in_file: bool, ails: Option<&str>) -> TenantStatus {
    TenantStatus {
        tenant: name.to_owned(),
        wrapped_by: "key 11".to_owned(),
        is_in_file: Some(is_in_file),
        ails: ails.map(str::to_owned),
    }
}

fn unset(name: &str, still_wrapped: usize) -> UnsetStatus {
    UnsetStatus {
        tenant: name.to_owned(),
        still_wrapped,
        ails: None,
    }
}

fn misplaced(tenant: Option<&str>, to: Option<&str>) -> Misplaced {
    Misplaced {
        key: "1/1/1".to_owned(),
        wrapped_by: "key 12".to_owned(),
        tenant: tenant.map(str::to_owned),
        to_be_wrapped_by: to.map(str::to_owned),
        ails: to.is_none().then(|| "its record cannot be used".to_owned()),
    }
}

#[test]
fn all_that_ails_tenants_keys_is_said_at_once_and_no_needed_line_is_to_go() {
    let well = status(vec![tenant("acme", true, None)], Vec::new(), Vec::new());
    assert!(of_tenants_keys(&well).is_ok());
    // A line that has wrapped something still is never to be taken away, also beside one that may be.
    let interrupted = status(
        vec![
            tenant("gone", true, Some("nobody answers")),
            tenant("lost", false, Some("no line")),
        ],
        vec![unset("acme", 2), unset("new", 0)],
        vec![
            misplaced(Some("acme"), Some("key 7")),
            misplaced(Some("acme"), Some("key 7")),
        ],
    );
    assert_eq!(bound_to(&interrupted.misplaced, "acme"), 2);
    assert_eq!(bound_to(&interrupted.misplaced, "new"), 0);
    let said = of_tenants_keys(&interrupted).unwrap_err().to_string();
    for part in [
        "lacks the volume keys of these tenants: lost",
        "do not open what they have wrapped: gone",
        "2 data keys are wrapped by another key",
        "have wrapped data keys still, and none is the tenant's volume key by the metadata: acme",
        "no volume key by the metadata: new",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let only = status(
        Vec::new(),
        vec![unset("acme", 2)],
        vec![misplaced(Some("acme"), Some("key 7"))],
    );
    let why = format!("{:?}", of_tenants_keys(&only).unwrap_err());
    assert!(
        why.contains("Keep their lines") && !why.contains("take the line away"),
        "{why}"
    );
    let told = of_tenants(&only);
    assert!(
        told.contains("wrapped still: 2") && told.contains("volume key rewrap"),
        "{told}"
    );
    // Where nothing can be wrapped again it is not said that it is.
    let unread = status(Vec::new(), Vec::new(), vec![misplaced(None, None)]);
    assert!(!of_tenants(&unread).contains("volume key rewrap"));
    assert!(of_tenants_keys(&unread).is_err());
}

#[test]
fn each_key_that_was_not_wrapped_is_named_and_not_a_thousand() {
    let done = |failed: usize| Rewrapped {
        wrapped: 3,
        same: 2,
        version: None,
        failed: (0..failed).map(|number| format!("key {number}: why")).collect(),
        unseen: Vec::new(),
    };
    assert!(told(&done(0)).starts_with("All data keys"));
    let few = told(&done(FAILED_TOLD));
    assert_eq!(few.lines().count(), 1 + FAILED_TOLD, "{few}");
    assert!(few.contains("  key 0: why\n") && few.contains("key 9") && !few.contains("All") && !few.contains("more"));
    let many = told(&done(1000));
    assert_eq!(many.lines().count(), 2 + FAILED_TOLD, "{many}");
    assert!(many.ends_with("  and 990 more (--json has all)\n"), "{many}");
    // A script has all of them.
    let json = serde_json::to_value(done(1000)).unwrap();
    assert_eq!(json["failed"].as_array().map(Vec::len), Some(1000));
    assert_eq!((&json["wrapped"], &json["same"]), (&3.into(), &2.into()));
    assert_eq!(json.get("version"), None);
}

#[test]
fn of_vaults_key_it_is_said_by_which_version_and_what_not_to_trim() {
    let done = Rewrapped {
        wrapped: 3,
        version: Some(7),
        ..Rewrapped::default()
    };
    let said = told(&done);
    assert!(
        said.contains("first line, by version 7 of Vault's key, tenants' by theirs: 3 now"),
        "{said}"
    );
    let trim = "do not trim versions below 7 while any older copy of the metadata may be put back.\n";
    assert!(said.ends_with(trim), "{said}");
    assert!(!told(&Rewrapped::default()).contains("version"));
    assert_eq!(serde_json::to_value(&done).unwrap()["version"], 7);
}
