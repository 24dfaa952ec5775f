//! What is told of keys.

use super::{FAILED_TOLD, told};
use amita_control::admin::Rewrapped;

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
