use super::Scratch;

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
fn too_little_room_is_said_before_anything_starts() {
    let parent = tempfile::tempdir().expect("a folder");
    let error = Scratch::make("test", None, Some(parent.path()), u64::MAX / 4).expect_err("refused");
    assert!(error.what.contains("free"), "{error}");
    assert!(error.advice.contains("--store-dir"), "{error}");
}
