//! What commands answer to scripts and to monitoring systems: a sentence, an exit code, errors as JSON; and how a pool goes.

use crate::world::{VOLUME, World, binary, eventually};
use serde_json::Value;

/// The error that a command with `--json` writes.
fn error(world: &World, arguments: &[&str]) -> Value {
    let refused = world.amita(&[arguments, &["--json"]].concat());
    let line = refused.text.lines().find(|line| line.starts_with("{\"error\""));
    let line = line.unwrap_or_else(|| panic!("{arguments:?} gave no error as JSON: {}", refused.text));
    let told: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(
        told["error"]["exit"].as_i64(),
        refused.status.code().map(i64::from),
        "{line}"
    );
    told["error"].clone()
}

#[test]
fn a_status_says_whether_to_worry_and_errors_are_json_for_scripts() {
    let world = World::with_volume();
    let check = || world.amita(&["status", "--check"]);
    eventually("the stores tell how full they are", || check().text.contains("used="));
    let checked = check();
    assert_eq!(checked.status.code(), Some(0), "{}", checked.text);
    assert!(
        checked
            .text
            .starts_with("OK - All is well: 3 nodes, 3 stores, 1 volume"),
        "{}",
        checked.text
    );
    assert!(world.amita_done(&["status"]).starts_with("All is well: "));
    let summary = world.json(&["status"])["summary"].clone();
    assert!(
        summary.as_str().is_some_and(|text| text.starts_with("All is well")),
        "{summary}"
    );
    let operator = world.operator();
    let elsewhere = [
        "status",
        "--check",
        "--metadata",
        "127.0.0.1:1",
        "--identity",
        &operator,
    ];
    let away = world.tool(binary(), &elsewhere);
    assert_eq!(away.status.code(), Some(3), "{}", away.text);
    assert!(away.text.starts_with("UNKNOWN - "), "{}", away.text);

    assert_eq!(error(&world, &["volume", "show", "nosuch"])["code"], "no-such");
    assert_eq!(error(&world, &["volume", "create"])["code"], "usage");
    let held = error(&world, &["pool", "delete", "demo"]);
    assert_eq!(held["code"], "pool-in-use", "{held}");
    assert!(
        held["message"].as_str().is_some_and(|text| text.contains(VOLUME)),
        "{held}"
    );
    world.end(&[]);
}

#[test]
fn a_pool_that_nothing_lies_in_goes_and_its_name_is_free() {
    let world = World::with_volume();
    world.amita_done(&["pool", "create", "spare", "--copies", "1"]);
    world.amita_done(&["volume", "create", "v", "--pool", "spare", "--size", "4M"]);
    world.amita_done(&["volume", "delete", "v"]);
    let refused = world.amita(&["pool", "delete", "spare"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("amita volume purge"), "{}", refused.text);
    world.amita_done(&["volume", "purge", "v"]);
    let gone = world.json(&["pool", "delete", "spare"]);
    assert_eq!(gone["name"], "spare", "{gone}");
    assert_eq!(world.amita(&["pool", "delete", "spare"]).status.code(), Some(4));
    let again = world.json(&["pool", "create", "spare", "--copies", "1"]);
    assert!(again["id"].as_u64() > gone["id"].as_u64(), "{again}");
    world.end(&[]);
}
