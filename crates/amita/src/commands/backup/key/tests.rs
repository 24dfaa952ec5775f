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

#[test]
fn what_is_no_regular_file_is_refused_and_waited_for_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
        let (sender, told) = std::sync::mpsc::channel();
        let asked = path.to_owned();
        std::thread::spawn(move || {
            let refused = Key::load(&asked).err().map(|why| why.what);
            let _ = sender.send((refused, read(&asked, "file of credentials").err().map(|why| why.what)));
        });
        let found = told.recv_timeout(std::time::Duration::from_secs(20));
        let (key, secret) = found.expect("it is not waited for");
        for why in [key, secret] {
            assert!(
                why.as_ref().is_some_and(|why| why.contains("no regular file")),
                "{path:?}: {why:?}"
            );
        }
    }
}
