//! What operators and scripts do to hand volumes to initiators by iSCSI. What initiators see of it is tested with initiators.

use crate::world::{VOLUME, VOLUME_BYTES, World};
use amita_control::admin;
use amita_harness::cluster::METADATA_FILE;
use amita_metadata::Call;
use amita_types::map;
use std::path::Path;

const LINUX: &str = "iqn.1993-08.org.debian:01:9c11913aa8b";
const ESX: &str = "iqn.1998-01.com.vmware:esx-1:1234567890:64";

#[test]
fn a_volume_is_handed_to_an_initiator_step_by_step() {
    let world = World::with_volume();
    let made = world.json(&["target", "create", "db"]);
    let iqn = made["iqn"].as_str().expect("a name").to_owned();
    assert!(
        iqn.starts_with("iqn.2026-11.io.amita:") && iqn.ends_with(":db"),
        "{iqn}"
    );
    let lun = world.json(&["lun", "add", "db", VOLUME]);
    assert_eq!((&lun["number"], &lun["block_bytes"]), (&0.into(), &512.into()));
    // Capitals stand for small letters: the name is kept as initiators give it.
    let allowed = world.json(&["initiator", "allow", "db", &LINUX.to_ascii_uppercase(), "--lun", "0"]);
    assert_eq!(allowed["initiator"], LINUX, "{allowed}");

    let shown = world.json(&["target", "show", "db"]);
    assert_eq!(
        shown["initiators"],
        serde_json::json!([{ "initiator": LINUX, "luns": [0] }]),
        "{shown}"
    );
    assert_eq!(shown["luns"][0]["volume_name"], VOLUME, "{shown}");
    assert_eq!(shown["any_initiator"], false, "{shown}");
    assert_eq!(world.json(&["lun", "list"])[0]["size_bytes"], VOLUME_BYTES);
    let changed = world.json(&["target", "set", "db", "--require-chap", "--space-warning", "80"]);
    assert_eq!(
        (&changed["chap_required"], &changed["space_warning_percent"]),
        (&true.into(), &80.into())
    );
    for (command, words) in [
        (&["target", "list"][..], &iqn[..]),
        (&["target", "show", "db"], "by CHAP only"),
        (&["lun", "list", "db"], VOLUME),
        (&["initiator", "list"], LINUX),
        (&["initiator", "allow", "db", ESX], "it cannot log in before it has one"),
    ] {
        let text = world.amita_done(command);
        assert!(text.contains(words), "{command:?}: {text}");
    }

    // What cannot be is refused, with the code that scripts tell it by.
    for (command, code, words) in [
        (&["target", "create", "db"][..], 5, "exists already"),
        (
            &["target", "create", "web", "--iqn", "nqn.2001-04.com.example:x"],
            2,
            "iqn.",
        ),
        (
            &["target", "create", "web", "--iqn", "iqn.2001-04.com.example:a_b"],
            2,
            "contains '_'",
        ),
        (
            &["target", "create", "web", "--gateway", "n9"],
            4,
            "there are n1, n2, n3",
        ),
        (&["target", "set", "db", "--space-warning", "101"], 2, "101"),
        (&["target", "delete", "db"], 5, "has 1 LUNs"),
        (&["target", "show", "web"], 4, "there is db"),
        (&["target", "show", ""], 4, "no target named \"\"; there is db"),
        (&["target", "create", &"x".repeat(129)], 2, "at most 128"),
        (&["initiator", "key", ESX, "--chap-user", ""], 2, "it is empty"),
        (&["initiator", "allow", "db", ""], 2, "is no name for an initiator"),
        (
            &["lun", "add", "db", VOLUME, "--block-size", "520"],
            2,
            "choose 512 or 4096",
        ),
        (
            &["volume", "attach", VOLUME, "--iscsi", LINUX, "--target", "a b"],
            5,
            "is LUN 0 of target db",
        ),
        (&["lun", "add", "db", VOLUME], 5, "is LUN 0 of target db"),
        (&["lun", "add", "db", "none"], 4, "no volume named none"),
        (&["lun", "add", "db", VOLUME, "--number", "16384"], 2, "16384"),
        (&["lun", "remove", "db", "7"], 4, "there is 0"),
        (&["initiator", "allow", "db", "myhost"], 2, "iqn."),
        (&["initiator", "allow", "db", ESX, "--lun", "7"], 4, "there is 0"),
        (
            &["initiator", "deny", "db", "iqn.2001-04.com.example:x"],
            4,
            "is not allowed",
        ),
        (&["initiator", "remove", LINUX], 5, "is allowed in db"),
        (&["volume", "delete", VOLUME], 5, "is LUN 0 of target db"),
        (&["nbd", "export", VOLUME, "--any-client"], 5, "LUN 0 of target db"),
    ] {
        let refused = world.amita(command);
        assert_eq!(refused.status.code(), Some(code), "{command:?}: {}", refused.text);
        assert!(refused.text.contains(words), "{command:?}: {}", refused.text);
    }

    world.amita_done(&["initiator", "deny", "db", LINUX]);
    world.amita_done(&["initiator", "remove", LINUX]);
    world.amita_done(&["initiator", "remove", ESX, "--force"]);
    world.amita_done(&["lun", "remove", "db", "0"]);
    world.amita_done(&["target", "delete", "db"]);
    for list in ["target", "lun", "initiator"] {
        assert_eq!(world.json(&[list, "list"]), serde_json::json!([]), "{list}");
    }
    world.end(&[]);
}

#[test]
fn a_targets_record_that_nobody_can_read_stops_what_it_may_speak_of_and_goes() {
    let world = World::with_volume();
    world.amita_done(&["volume", "create", "other", "--pool", "demo", "--size", "1G"]);
    let client = world.cluster.metadata_client().expect("an address");
    let number = admin::volume(&client, VOLUME).expect("the volume").id;
    let record = format!(r#"{{"name":"odd","luns":[{{"number":0,"volume":{number}}}]}}"#);
    let put = Call::put(map::iscsi_target_key("odd"), record.into_bytes());
    client.txn(&put).expect("written");
    let refused = world.amita(&["volume", "delete", VOLUME, "--force"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    for words in [
        "the record of target odd",
        "may say that",
        "amita target delete odd --force",
    ] {
        assert!(refused.text.contains(words), "{words}: {}", refused.text);
    }
    // Of it alone nothing is told.
    world.amita_done(&["target", "create", "even"]);
    let listed = world.amita_done(&["target", "list"]);
    assert!(listed.contains("even"), "{listed}");
    world.amita_done(&["initiator", "allow", "even", LINUX]);
    for list in ["lun", "initiator"] {
        world.amita_done(&[list, "list"]);
    }
    world.amita_done(&["volume", "delete", "other"]);
    let refused = world.amita(&["target", "delete", "odd", "--yes"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    world.amita_done(&["target", "delete", "odd", "--force", "--yes"]);
    world.amita_done(&["volume", "delete", VOLUME]);
    // Nodes say once that they leave it alone.
    world.end(&["not a record that this build can read", "odd"]);
}

/// A gateway that the metadata knows and that does not run: what is printed does not depend on it.
fn gateway(world: &World, name: &str, portals: &[&str]) {
    let client = world.cluster.metadata_client().expect("an address");
    let node = admin::register_node(&client, name, "192.0.2.1:7700", None, 1).expect("registered");
    let portals: Vec<std::net::SocketAddr> = portals.iter().map(|at| at.parse().expect("an address")).collect();
    admin::register_iscsi_gateway(&client, name, node.id, 1, &portals).expect("registered");
}

#[test]
fn attach_makes_what_is_missing_once_and_says_what_each_kind_of_host_has_to_do() {
    let world = World::with_volume();
    let alone = world.amita(&["volume", "attach", VOLUME, "--iscsi", LINUX]);
    assert_eq!(alone.status.code(), Some(1), "{}", alone.text);
    assert!(alone.text.contains("no node speaks iSCSI"), "{}", alone.text);
    world.amita_done(&["volume", "detach", VOLUME, "--iscsi"]);
    world.amita_done(&["target", "delete", VOLUME]);

    gateway(&world, "far", &["192.0.2.1:3260", "198.51.100.1:3260"]);
    let attach = ["volume", "attach", VOLUME, "--iscsi", LINUX, "--target", "db"];
    let first = world.json(&attach);
    assert_eq!(first["made"].as_array().map(Vec::len), Some(3), "{first}");
    assert_eq!(first["portals"][1]["address"], "198.51.100.1", "{first}");
    let again = world.json(&["volume", "attach", VOLUME, "--iscsi", LINUX]);
    assert_eq!(again["made"], serde_json::json!([]), "{again}");
    assert_eq!(
        (&again["iqn"], &again["lun"], &again["naa"]),
        (&first["iqn"], &first["lun"], &first["naa"])
    );
    let naa = first["naa"].as_str().expect("a name");
    let discovery = &again["linux"]["connect"][0];
    assert_eq!(
        discovery, "iscsiadm -m discoverydb -t sendtargets -p 192.0.2.1:3260 -o new --discover",
        "{again}"
    );
    for system in ["linux", "esxi", "windows"] {
        let disk = again[system]["disk"].as_str().expect("a disk").to_lowercase();
        assert!(disk.contains(naa), "{system}: {disk}");
    }
    // What the name of the initiator says of its host, unless somebody says otherwise.
    let text = world.amita_done(&["volume", "attach", VOLUME, "--iscsi", LINUX]);
    assert!(
        text.contains("On Linux") && !text.contains("On ESXi") && text.contains("Node far is not alive now"),
        "{text}"
    );
    let text = world.amita_done(&["volume", "attach", VOLUME, "--iscsi", LINUX, "--for", "all"]);
    assert!(text.contains("On ESXi") && text.contains("On Windows"), "{text}");

    // Another host sees the same disk, and nothing else of the target.
    let other = world.json(&["volume", "attach", VOLUME, "--iscsi", ESX]);
    assert_eq!(other["made"].as_array().map(Vec::len), Some(1), "{other}");
    let shown = world.json(&["target", "show", "db"]);
    assert_eq!(
        shown["initiators"][1],
        serde_json::json!({ "initiator": ESX, "luns": [0] })
    );
    world.amita_done(&["target", "create", "web"]);
    let refused = world.amita(&["volume", "attach", VOLUME, "--iscsi", LINUX, "--target", "web"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    // By NVMe beside that only where it was said.
    let host = "nqn.2014-08.com.example:other";
    let refused = world.amita(&["volume", "attach", VOLUME, "--host", host]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert!(refused.text.contains("LUN 0 of target db"), "{}", refused.text);

    world.amita_done(&["volume", "detach", VOLUME, "--iscsi", "--initiator", ESX]);
    let shown = world.json(&["target", "show", "db"]);
    assert_eq!(shown["initiators"].as_array().map(Vec::len), Some(1), "{shown}");
    world.amita_done(&["volume", "detach", VOLUME, "--iscsi"]);
    assert_eq!(world.json(&["lun", "list"]), serde_json::json!([]));
    let refused = world.amita(&["volume", "detach", VOLUME, "--iscsi"]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    world.end(&[]);
}

fn all_files(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all_files(&path, found);
        } else if path
            .extension()
            .is_none_or(|extension| extension != "key" && extension != "store")
        {
            found.push(String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned());
        }
    }
}

#[test]
fn secrets_of_initiators_are_shown_once_kept_sealed_and_never_listed() {
    let world = World::with_volume();
    let seal = world.file("seal.key").display().to_string();
    let refused = world.amita(&["initiator", "key", LINUX, "--generate-chap"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("amita host seal-key"), "{}", refused.text);
    world.amita_done(&["host", "seal-key", &seal]);

    let said = world.amita_done(&["initiator", "key", LINUX, "--generate-chap", "--seal-key", &seal]);
    let secret = |what: &str| -> String {
        let line = said.lines().find(|line| line.trim_start().starts_with(what));
        let text = line.and_then(|line| line.split_whitespace().nth(1));
        text.unwrap_or_else(|| panic!("{what}: {said}")).to_owned()
    };
    let secrets = [secret("chap-secret"), secret("chap-target-secret")];
    assert!(secrets.iter().all(|secret| secret.len() == 16), "{said}");
    // The targets' is never the initiator's, also where that was set before.
    let file = world.file("mine.key");
    std::fs::write(&file, &secrets[0]).expect("written");
    let file = file.display().to_string();
    let same = [
        "initiator",
        "key",
        LINUX,
        "--chap-target-secret",
        &file,
        "--seal-key",
        &seal,
    ];
    let refused = world.amita(&same);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("choose another"), "{}", refused.text);
    assert!(!refused.text.contains(&secrets[0]), "{}", refused.text);
    let short = world.file("short.key");
    std::fs::write(&short, "elevenbytes").expect("written");
    let short = short.display().to_string();
    let refused = world.amita(&["initiator", "key", ESX, "--chap-secret", &short, "--seal-key", &seal]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("12 to 255 bytes"), "{}", refused.text);

    let listed = world.json(&["initiator", "list"]);
    assert_eq!(
        (&listed[0]["chap"], &listed[0]["chap_target"]),
        (&true.into(), &true.into()),
        "{listed}"
    );
    // A new sealing key: what seals the keys of hosts anew seals these, too.
    let new = world.file("new.key").display().to_string();
    world.amita_done(&["host", "seal-key", &new]);
    let both = std::fs::read_to_string(&new).expect("a key") + &std::fs::read_to_string(&seal).expect("a key");
    std::fs::write(&new, both).expect("written");
    let said = world.amita_done(&["host", "reseal", "--seal-key", &new]);
    assert!(said.contains("2 keys are sealed"), "{said}");
    let refused = world.amita(&same);
    assert!(refused.text.contains("sealed with another key"), "{}", refused.text);

    // Nothing that anybody can read holds a secret: no listing, no log, not the metadata itself.
    let mut texts = vec![listed.to_string(), world.amita_done(&["initiator", "list"])];
    all_files(world.folder(), &mut texts);
    let metadata = std::fs::read(world.scratch.stores().join(METADATA_FILE)).expect("the metadata's file");
    texts.push(String::from_utf8_lossy(&metadata).into_owned());
    for secret in secrets {
        assert!(texts.iter().all(|text| !text.contains(&secret)), "a secret lies open");
    }
    let sealed = texts.iter().any(|text| text.contains("sealed:1:"));
    assert!(sealed, "the metadata's file is looked at, and holds the sealed ones");
    world.end(&[]);
}
