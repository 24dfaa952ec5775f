//! Calls stand behind the cores that do I/O.

use super::world::World;
use std::fs;

/// The niceness of this process' threads of that name (proc(5), field 19 of `stat`).
fn niceness_of(name: &str) -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let paths = tasks.map(|task| task.unwrap().path());
    // Threads of other tests end meanwhile.
    let named = paths.filter(|path| fs::read_to_string(path.join("comm")).is_ok_and(|found| found.trim() == name));
    let stats = named.filter_map(|path| fs::read_to_string(path.join("stat")).ok());
    stats
        .map(|stat| {
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            fields.split(' ').nth(16).unwrap().parse().unwrap()
        })
        .collect()
}

#[test]
fn calls_stand_behind_the_cores() {
    let world = World::new();
    for server in [0, 1] {
        assert_eq!(world.send(server, "GET", "/api/v1/volumes", &[], None).status, 200);
    }
    let found = niceness_of("amita-api");
    assert!(found.len() >= 2, "{found:?}");
    assert!(found.iter().all(|nice| *nice == 10), "{found:?}");
}
