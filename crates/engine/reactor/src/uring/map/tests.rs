use super::*;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

/// The file that a process of the test below is to map, and to cut short.
const CHILD: &str = "AMITA_TEST_CUT_SHORT";

#[test]
fn a_file_that_is_cut_short_ends_the_process_with_a_line() {
    if let Some(path) = std::env::var_os(CHILD) {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let map = Map::new(&file, 2 * PAGE as u64).unwrap();
        let mut page = vec![0; PAGE];
        assert!(map.read(0, &mut page), "the page is there");
        file.set_len(0).unwrap();
        map.read(0, &mut page);
        panic!("the page is gone: {}", black_box(&page)[0]);
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("store");
    std::fs::write(&path, vec![1; 2 * PAGE]).unwrap();
    let test = "uring::map::tests::a_file_that_is_cut_short_ends_the_process_with_a_line";
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{said}");
    assert!(said.contains("was cut short"), "{said}");
}
