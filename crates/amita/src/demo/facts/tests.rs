use super::{Facts, MetadataFacts, NodeFacts, VolumeFacts};

#[test]
fn the_file_has_the_shape_that_scripts_rely_on() {
    let facts = Facts {
        nodes: vec![NodeFacts {
            name: "n1".into(),
            pid: 7,
            disks: vec!["/x/n1.store".into()],
            nbd: "127.0.0.1:1".into(),
            nvme: Some("127.0.0.1:3".into()),
        }],
        metadata: MetadataFacts {
            pid: 8,
            endpoint: "http://127.0.0.1:2".into(),
        },
        volume: VolumeFacts {
            name: "demo".into(),
            size_bytes: 4096,
            nbd: vec!["nbd://127.0.0.1:1/demo".into()],
            nbd_unix: vec!["nbd+unix:///demo?socket=/x/n1.nbd".into()],
            nqn: Some("nqn.2026-11.io.amita:01234567:demo".into()),
        },
        api: Some("http://127.0.0.1:4".into()),
        env: [("AMITA_METADATA".to_owned(), "http://127.0.0.1:2".to_owned())].into(),
    };
    let folder = tempfile::tempdir().expect("a folder");
    facts.write(folder.path()).expect("written");
    let text = std::fs::read_to_string(folder.path().join("cluster.json")).expect("read");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        value,
        serde_json::json!({
            "nodes": [{ "name": "n1", "pid": 7, "disks": ["/x/n1.store"], "nbd": "127.0.0.1:1", "nvme": "127.0.0.1:3" }],
            "metadata": { "pid": 8, "endpoint": "http://127.0.0.1:2" },
            "volume": { "name": "demo", "size_bytes": 4096, "nbd": ["nbd://127.0.0.1:1/demo"],
                "nbd_unix": ["nbd+unix:///demo?socket=/x/n1.nbd"],
                "nqn": "nqn.2026-11.io.amita:01234567:demo" },
            "api": "http://127.0.0.1:4",
            "env": { "AMITA_METADATA": "http://127.0.0.1:2" },
        })
    );
    assert_eq!(Facts::read(folder.path()).expect("read"), facts);
}

#[test]
fn no_file_and_another_file_are_errors_that_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(Facts::read(folder.path()).expect_err("none").advice.contains("--keep"));
    std::fs::write(folder.path().join("cluster.json"), "[]").expect("written");
    assert!(
        Facts::read(folder.path())
            .expect_err("no cluster")
            .what
            .contains("does not describe")
    );
}
