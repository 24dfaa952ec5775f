use super::*;
use std::os::unix::fs::PermissionsExt;

fn facts(disks: &[&Path]) -> Facts {
    let disks: Vec<String> = disks.iter().map(|disk| disk.display().to_string()).collect();
    serde_json::from_value(serde_json::json!({
        "nodes": [{ "name": "n1", "pid": u32::MAX, "disks": disks, "nbd": "127.0.0.1:1" }],
        "metadata": { "pid": u32::MAX, "endpoint": "http://127.0.0.1:2" },
        "volume": { "name": "demo", "size_bytes": 4096, "nbd": [] },
    }))
    .expect("facts")
}

fn write(path: &Path) {
    std::fs::write(path, "x").expect("written");
}

fn permit(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
}

#[test]
fn what_a_demo_did_not_make_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let (own, precious) = (folder.path().join("n1.store"), elsewhere.path().join("precious"));
    let link = folder.path().join("link").join("n1.store");
    let open = elsewhere.path().join("open");
    std::fs::create_dir(&open).expect("made");
    permit(&open, 0o777);
    let in_open = open.join("n1.store");
    for path in [&own, &precious, &in_open, &elsewhere.path().join("n1.store")] {
        write(path);
    }
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("link")).expect("linked");
    facts(&[&own, &precious, &link, &in_open])
        .write(folder.path())
        .expect("written");
    stop(folder.path()).expect("it ends");
    assert!(!own.exists(), "the demo's own");
    assert!(precious.exists() && in_open.exists() && link.exists());
}

#[test]
fn a_description_that_others_can_write_is_not_believed() {
    for loose in ["", FILE] {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("n1.store");
        write(&own);
        facts(&[&own]).write(folder.path()).expect("written");
        permit(&folder.path().join(loose), 0o777);
        let error = stop(folder.path()).expect_err("refused");
        assert!(error.advice.contains("chmod go-w"), "{error}");
        assert!(own.exists());
    }
}
