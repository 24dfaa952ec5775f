use super::*;
use amita_types::ClusterId;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// Whoever could read the file has the token as well: it is refused, with what mends it, and said to be used no more.
#[test]
fn a_token_in_a_file_that_others_can_read_is_refused() {
    let scratch = tempfile::tempdir().expect("a folder");
    let cluster = ClusterId(9);
    let authority = Authority::create(&scratch.path().join("ca"), cluster, Clock::system()).expect("an authority");
    let name = Name::new(cluster, Role::Node, "n1").expect("a name");
    let token = authority.token(&name).expect("a token");
    let file = scratch.path().join("token");
    std::fs::write(&file, format!("\n{}\n", *token.to_text())).expect("written");
    for mode in [0o644, 0o640, 0o660, 0o604, 0o622] {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("its rights");
        let refused = read_token(&file).expect_err("others can read it");
        assert_eq!(refused.kind, Kind::Unreadable);
        let mends = format!("chmod 600 {}", file.display());
        assert!(refused.what.contains(&mends), "{mode:o}: {}", refused.what);
    }
    for mode in [0o600, 0o400] {
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("its rights");
        assert_eq!(read_token(&file).expect("it is ours alone").id(), token.id());
    }
}

/// What a shell makes of `<(...)`: others cannot open it, whatever its mode says.
#[test]
fn a_token_comes_by_a_pipe_as_well() {
    let scratch = tempfile::tempdir().expect("a folder");
    let pipe = scratch.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("it runs");
    assert!(made.success());
    std::fs::set_permissions(&pipe, Permissions::from_mode(0o644)).expect("its rights");
    let into = pipe.clone();
    let writer = std::thread::spawn(move || std::fs::write(into, "amita-join-1.nothing\n"));
    let error = read_token(&pipe).expect_err("this is no token");
    assert!(error.what.contains("this is no token"), "{}", error.what);
    writer.join().expect("it ends").expect("written");
}
