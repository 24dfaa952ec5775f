use super::*;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use tempfile::TempDir;

fn folder(mode: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    permit(folder.path(), mode);
    folder
}

fn permit(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn config(path: PathBuf, mode: u32) -> ServeConfig {
    let mut config = ServeConfig::new(
        "n1",
        vec!["127.0.0.1:2379".to_owned()],
        "127.0.0.1:7700".parse().unwrap(),
    );
    config.nbd_socket = Some(path);
    config.nbd_socket_mode = mode;
    config
}

fn bind(config: &ServeConfig) -> Result<(LocalSocket, UnixListener), ServeError> {
    check(config)?;
    let log: Log = Arc::new(|_, _| {});
    LocalSocket::bind(config, &log).map(Option::unwrap)
}

fn refused(config: &ServeConfig) -> String {
    bind(config).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn it_has_the_rights_that_were_asked_for_and_goes_with_its_process() {
    for (mode, of_folder) in [(OWNER_ALONE, 0o700), (OWNER_AND_GROUP, 0o710), (OWNER_AND_GROUP, 0o700)] {
        let folder = folder(of_folder);
        let path = folder.path().join("nbd");
        let (socket, _listener) = bind(&config(path.clone(), mode)).unwrap();
        let facts = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(facts.mode() & 0o777, mode);
        assert_eq!(facts.gid(), std::fs::metadata(folder.path()).unwrap().gid());
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }
}

#[test]
fn a_folder_that_lets_others_in_is_refused_with_what_mends_it() {
    for (of_folder, mode, mends) in [
        (0o755, OWNER_ALONE, "chmod 700 "),
        (0o750, OWNER_ALONE, "chmod 700 "),
        (0o711, OWNER_ALONE, "chmod 700 "),
        (0o770, OWNER_AND_GROUP, "chmod 710 "),
        (0o755, OWNER_AND_GROUP, "chmod 710 "),
        // Whoever can open the folder can hold a lock on it, and no gateway starts.
        (0o750, OWNER_AND_GROUP, "chmod 710 "),
        (0o1777, OWNER_ALONE, "install -d -m 700 "),
    ] {
        let folder = folder(of_folder);
        let config = config(folder.path().join("nbd"), mode);
        let said = refused(&config);
        let command = format!("{mends}{}", folder.path().display());
        assert!(
            said.contains("--nbd-socket") && said.contains(&command),
            "{of_folder:o}: {said}"
        );
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
        // What is said mends it.
        if mends.starts_with("chmod") {
            permit(folder.path(), u32::from_str_radix(&mends[6..9], 8).unwrap());
            bind(&config).unwrap();
        }
    }
    let folder = folder(0o700);
    for (mode, path, words) in [
        (0o666, folder.path().join("nbd"), "0660"),
        (OWNER_ALONE, folder.path().join("none/nbd"), "install -d -m 700 "),
        (OWNER_ALONE, PathBuf::from("nbd"), "absolute"),
        (OWNER_ALONE, folder.path().join("x".repeat(120)), "at most 107"),
    ] {
        let said = refused(&config(path, mode));
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_folder_above_that_others_can_change_is_refused() {
    let above = folder(0o700);
    let own = above.path().join("own");
    std::fs::create_dir(&own).unwrap();
    permit(&own, 0o700);
    let by_link = above.path().join("link");
    std::os::unix::fs::symlink(&own, &by_link).unwrap();
    for path in [own.join("nbd"), by_link.join("nbd")] {
        let config = config(path, OWNER_ALONE);
        for (mode, is_refused) in [(0o770, true), (0o702, true), (0o1777, false), (0o755, false)] {
            permit(above.path(), mode);
            let bound = bind(&config);
            assert_eq!(bound.is_err(), is_refused, "{mode:o}");
            if let Err(why) = bound {
                let why = why.to_string();
                assert!(
                    why.contains(&above.path().display().to_string()) && why.contains(&format!("{mode:04o}")),
                    "{why}"
                );
            }
        }
    }
}

#[test]
fn what_a_dead_process_left_is_replaced_and_what_lives_is_not() {
    let folder = folder(0o700);
    let path = folder.path().join("nbd");
    let config = config(path.clone(), OWNER_ALONE);
    // As a process that was killed leaves it.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (socket, listener) = bind(&config).unwrap();
    let said = refused(&config);
    assert!(
        said.contains(&path.display().to_string()) && said.contains("another process serves there"),
        "{said}"
    );
    UnixStream::connect(&path).unwrap();
    assert!(listener.accept().is_ok(), "the one that lives goes on");
    // One that somebody else has made there since stays.
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(socket);
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_file_that_is_no_socket_stays_as_it_is() {
    let folder = folder(0o700);
    let path = folder.path().join("nbd");
    std::fs::write(&path, "letters").unwrap();
    let said = refused(&config(path.clone(), OWNER_ALONE));
    assert!(said.contains("is no socket"), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), b"letters");
    std::fs::remove_file(&path).unwrap();
    // Nor is a link followed to a socket that is elsewhere.
    let elsewhere = folder.path().join("elsewhere");
    drop(UnixListener::bind(&elsewhere).unwrap());
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(refused(&config(path, OWNER_ALONE)).contains("is no socket"));
    assert!(elsewhere.exists());
}

#[test]
fn of_many_that_find_a_dead_ones_socket_one_takes_its_place() {
    let folder = folder(0o700);
    let path = folder.path().join("nbd");
    drop(UnixListener::bind(&path).unwrap());
    let config = config(path.clone(), OWNER_ALONE);
    let start = std::sync::Barrier::new(4);
    let bound: Vec<_> = std::thread::scope(|scope| {
        let one = || {
            start.wait();
            bind(&config).ok()
        };
        let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        all.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(bound.len(), 1);
    UnixStream::connect(&path).unwrap();
}
