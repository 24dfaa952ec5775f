use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_image_of_an_encrypted_volume_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let place = |encrypted: bool| Place {
        cluster: String::new(),
        volume: 1,
        generation: 1,
        snapshot: 0,
        size_bytes: 1 << 20,
        done_bytes: 0,
        encrypted,
    };
    let paths = ["raw", "qcow2"].map(|name| folder.path().join(name));
    let [raw, qcow2] = &paths;
    Target::raw(raw, &place(true), false).unwrap();
    Target::qcow2(qcow2, &place(true), false).unwrap();
    assert_eq!(paths.each_ref().map(|path| mode(path)), [OWN, OWN]);
    assert!(Target::qcow2(qcow2, &place(true), false).is_err(), "it is there");
    // What others could read is written over.
    for path in &paths {
        std::fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
    Target::raw(raw, &place(false), true).unwrap();
    Target::qcow2(qcow2, &place(false), true).unwrap();
    assert_eq!(
        paths.each_ref().map(|path| mode(path)),
        [0o644, 0o644],
        "it is nobody's secret"
    );
    Target::raw(raw, &place(true), true).unwrap();
    Target::qcow2(qcow2, &place(true), true).unwrap();
    assert_eq!(paths.each_ref().map(|path| mode(path)), [OWN, OWN]);
}
