//! That no secret is in a bundle, whoever wrote it where.

use super::*;
use amita_metadata::model::State;
use amita_metadata::{Call, Transact};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;

#[test]
fn only_what_is_on_the_list_is_picked() {
    let value = json!({
        "name": "n1", "labels": {"owner": "x"}, "kept": "secret",
        "nodes": [{"id": 1, "token": "t", "place": {"rack": "r1", "door": 1234}}, 7],
    });
    let picked = pick(&value, &["name", "nodes.id", "nodes.place.rack"]);
    assert_eq!(
        picked,
        json!({"name": "n1", "nodes": [{"id": 1, "place": {"rack": "r1"}}, null]})
    );
    assert_eq!(pick(&value, &[]), json!({}));
}

/// Records of every kind with a secret in a field that is on no list.
#[test]
fn a_field_that_comes_to_a_record_is_not_packed() {
    let meta = Mutex::new(State::new());
    for kind in RECORDS {
        let mut record: serde_json::Map<String, Value> = kind
            .fields
            .iter()
            .map(|field| ((*field).to_owned(), json!(1)))
            .collect();
        record.insert("of_tomorrow".to_owned(), json!("hunter2"));
        let key = format!("{}{}x", amita_types::map::PREFIX, kind.prefix);
        meta.txn(&Call::put(key, Value::from(record).to_string()))
            .expect("memory");
        let text = String::from_utf8(records(&meta, kind).expect("records")).expect("text");
        assert!(
            text.contains("revision") && text.contains(&format!("\"{}\"", kind.fields[0])),
            "{text}"
        );
        assert!(
            !text.contains("hunter2") && !text.contains("of_tomorrow"),
            "{}: {text}",
            kind.name
        );
    }
    let host = r#"{"nqn":"nqn.a","dhchap":"sealed-one","dhchap_controller":"sealed-two","tls":"sealed-three"}"#;
    meta.txn(&Call::put(
        format!("{}nvme/hosts/nqn.a", amita_types::map::PREFIX),
        host,
    ))
    .expect("memory");
    let hosts = RECORDS.iter().find(|kind| kind.name == "hosts").expect("hosts");
    let text = String::from_utf8(records(&meta, hosts).expect("records")).expect("text");
    assert!(text.contains("nqn.a") && !text.contains("sealed"), "{text}");
    // Nor are kinds that are on no list.
    for left_out in ["api/", "audit/", "about/"] {
        assert!(
            RECORDS.iter().all(|kind| !kind.prefix.starts_with(left_out)),
            "{left_out}"
        );
    }
}

#[test]
fn texts_lose_what_looks_like_a_secret_and_keep_the_rest() {
    let secrets = [
        ("cannot reach https://root:hunter2@etcd1:2379/v3 now", "hunter2"),
        ("at etcd://hunter2@h, and http://plain:2379/x stays", "hunter2"),
        ("token amita-api-1.0123abcd.hunter2hunter2hunter2 was used", "hunter2"),
        ("joined by amita-join-1.hunter2", "hunter2"),
        ("a later one: amita-door-12.hunter2hunter2hunter2x", "hunter2"),
        ("key DHHC-1:01:aHVudGVyMg==:, refused", "aHVudGVyMg"),
        ("psk NVMeTLSkey-1:01:aHVudGVyMg==: refused", "aHVudGVyMg"),
        ("Authorization: Bearer hunter2", "hunter2"),
        ("--password=hunter2 --x", "hunter2"),
        (r#"{"token": "hunter2", "y": 1}"#, "hunter2"),
        ("PASSWORD: hunter2", "hunter2"),
        (
            "x -----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY----- y",
            "hunter2",
        ),
        (
            r#"{"pem":"-----BEGIN EC PRIVATE KEY-----\nhunter2\n-----END EC PRIVATE KEY-----\n","y":1}"#,
            "hunter2",
        ),
        ("-----BEGIN PRIVATE KEY-----\nhunter2 is cut off", "hunter2"),
    ];
    for (text, secret) in secrets {
        let cleaned = clean(text);
        assert!(
            !cleaned.contains(secret) && !cleaned.contains("PRIVATE KEY"),
            "{cleaned}"
        );
        assert!(cleaned.contains("[left out]"), "{cleaned}");
    }
    assert!(clean(secrets[0].0).contains("@etcd1:2379/v3 now"));
    assert!(clean(secrets[1].0).contains("http://plain:2379/x stays"));
    assert!(
        clean(secrets[9].0).ends_with(r#"", "y": 1}"#),
        "{}",
        clean(secrets[9].0)
    );
    assert!(clean(secrets[11].0).ends_with(" y"));
    assert!(
        clean(secrets[12].0).ends_with(r#"\n","y":1}"#),
        "{}",
        clean(secrets[12].0)
    );
    for harmless in [
        "amita-node-3.storage.example-long-domain.org serves nqn.2026-01.io.amita:vms at http://[::1]:4420/",
        "store 5f3a is slow: 12 ms; the tokens of 3 people end soon\n",
        "",
        "über 85 % – amita-inspect 0.1.0 of amita-0.1.0.tar.gz",
    ] {
        assert_eq!(clean(harmless), harmless);
    }
}

#[test]
fn an_archive_has_what_its_manifest_says() {
    let mut bundle = Bundle::new(1_800_000_000, "0.1.0");
    bundle.add("nodes/../../etc/n 1/top.json", "figures", "{\"password\":\"hunter2\"}");
    bundle.add("log.txt", "lines", &"é".repeat(archive::MAX_FILE_BYTES));
    bundle.not_got("node n2", "http://root:hunter2@n2 does not answer");
    let mut bytes = Vec::new();
    bundle.write(&mut bytes).expect("an archive");
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(bytes.as_slice()))
        .entries()
        .expect("entries")
    {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a path").display().to_string();
        assert_eq!(entry.header().mode().expect("a mode"), 0o600);
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        files.insert(name, text);
    }
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        [
            "amita-support/log.txt",
            "amita-support/manifest.json",
            "amita-support/nodes/etc/n_1/top.json"
        ]
    );
    assert!(files.values().all(|text| !text.contains("hunter2")));
    let manifest: Value = serde_json::from_str(&files["amita-support/manifest.json"]).expect("JSON");
    for listed in manifest["files"].as_array().expect("files") {
        let text = &files[&format!("amita-support/{}", listed["name"].as_str().expect("a name"))];
        assert_eq!(listed["bytes"], text.len());
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(listed["sha256"], hex);
        assert!(!listed["why"].as_str().expect("a why").is_empty());
    }
    assert_eq!(manifest["files"][1]["is_cut"], true);
    assert_eq!(manifest["not_got"][0]["what"], "node n2");
}
