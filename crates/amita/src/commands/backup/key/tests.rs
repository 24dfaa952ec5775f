use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_key_is_drawn_once_and_read_by_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    assert!(Key::find(&path).unwrap().is_none());
    assert_eq!(Key::load(&path).err().map(|why| why.kind), Some(Kind::NotFound));
    let made = Key::make(&path).unwrap();
    let read = Key::load(&path).unwrap();
    assert_eq!(made.bytes(), read.bytes());
    assert_eq!(read.bytes().len(), DRAWN.len() + 2 * DRAWN_BYTES);
    assert_eq!(read.cost(), Cost::OF_RANDOM_BITS);
    assert!(Key::make(&path).is_err(), "what was sealed by it would be lost");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let open = Key::load(&path).err().unwrap();
    assert!(open.what.contains("0640") && open.advice.contains("chmod"), "{open:?}");
}

#[test]
fn a_passphrase_of_somebodys_own_is_slow_to_try() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let write = |text: &str| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("correct horse battery staple\nand what comes behind\n");
    let key = Key::load(&path).unwrap();
    assert_eq!(
        (key.bytes(), key.cost()),
        (&b"correct horse battery staple"[..], Cost::default())
    );
    for looks_drawn in ["amita-backup-key-1:00", "amita-backup-key-1:"] {
        write(looks_drawn);
        assert_eq!(Key::load(&path).unwrap().cost(), Cost::default());
    }
    for bad in ["", "\n", &"x".repeat(5000)] {
        write(bad);
        assert!(Key::load(&path).is_err());
    }
}
