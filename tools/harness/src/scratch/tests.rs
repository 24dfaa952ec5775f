use super::Scratch;
use std::os::unix::fs::PermissionsExt;

#[test]
fn what_was_made_is_removed_and_what_was_there_stays() {
    let parent = tempfile::tempdir().expect("a folder");
    let made = parent.path().join("new");
    let there = parent.path().join("there");
    std::fs::create_dir(&there).expect("made");
    let scratch = Scratch::make("test", Some(&made), Some(&there), 4096).expect("folders");
    std::fs::write(scratch.folder().join("file"), "x").expect("written");
    drop(scratch);
    assert!(!made.exists());
    assert!(there.exists());
}

#[test]
fn a_folder_that_holds_something_is_refused_and_untouched() {
    let parent = tempfile::tempdir().expect("a folder");
    let file = parent.path().join("precious");
    std::fs::write(&file, "x").expect("written");
    let error = Scratch::make("test", Some(parent.path()), None, 4096).expect_err("refused");
    assert!(error.what.contains("not empty"), "{error}");
    assert!(file.exists());
}

#[test]
fn folders_are_their_owners() {
    let parent = tempfile::tempdir().expect("a folder");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let made = parent.path().join("new");
    let scratch = Scratch::make("test", Some(&made), None, 4096).expect("folders");
    assert_eq!((mode(scratch.folder()), mode(scratch.stores())), (0o700, 0o700));
    let there = parent.path().join("there");
    std::fs::create_dir(&there).expect("made");
    for loose in [0o777, 0o775, 0o702] {
        std::fs::set_permissions(&there, std::fs::Permissions::from_mode(loose)).expect("set");
        let error = Scratch::make("test", Some(&there), None, 4096).expect_err("refused");
        assert!(error.advice.contains("chmod 700"), "{error}");
    }
}

#[test]
fn too_little_room_is_said_before_anything_starts() {
    let parent = tempfile::tempdir().expect("a folder");
    let error = Scratch::make("test", None, Some(parent.path()), u64::MAX / 4).expect_err("refused");
    assert!(error.what.contains("free"), "{error}");
    assert!(error.advice.contains("--store-dir"), "{error}");
}
