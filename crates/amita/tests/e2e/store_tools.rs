//! `amita store` on the disk files of a cluster: while they are served, and after a kill.

use crate::world::{A_NODE_IS_GONE, World, pattern};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

fn store(world: &World, node: usize) -> PathBuf {
    world.cluster.nodes()[node].stores[0].clone()
}

/// The JSON lines that a dump prints.
fn lines(world: &World, arguments: &[&str]) -> Vec<Value> {
    let text = world.amita_done(&[&["store", "dump", "--json"], arguments].concat());
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line} is no JSON: {error}")))
        .collect()
}

#[test]
fn a_store_is_looked_at_while_it_is_served_and_after_a_kill() {
    let mut world = World::with_volume();
    let path = store(&world, 2);
    let path = path.to_str().expect("a plain name").to_owned();
    let mut client = world.open(0);
    let written = pattern(5, 1 << 20);
    client.write(0, &written).expect("written");
    let done = AtomicBool::new(false);
    let (found, checked) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // It is written all the time while it is looked at.
            let mut rounds = 0u64;
            while !done.load(Ordering::Relaxed) {
                let block = pattern(rounds, 4096);
                client.write(rounds % 2048 * 4096, &block).expect("written");
                rounds += 1;
            }
            client.close();
            rounds
        });
        let found = world.json(&["store", "inspect", &path]);
        let checked: Vec<Value> = (0..5)
            .map(|_| world.json(&["store", "check", "--data", &path]))
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().expect("it ended") > 0);
        (found, checked)
    });
    assert!(found["chunks"].as_u64() > Some(0), "{found}");
    assert!(found["blocks"].as_u64() >= Some(256), "{found}");
    // One volume of the cluster's; the store's own, which holds a copy of the metadata, may be there or not yet.
    let volumes = found["volumes"].as_array().expect("a list");
    let of_cluster = volumes.iter().filter(|volume| volume["volume"] != u64::MAX);
    assert_eq!(of_cluster.count(), 1, "{found}");
    for report in checked {
        assert_eq!(report["clean"], true, "{report}");
        assert!(report["seen"]["blocks_verified"].as_u64() >= Some(256), "{report}");
    }

    world.cluster.kill_node(2);
    let before = std::fs::read(&path).expect("read");
    let report = world.json(&["store", "check", "--data", &path]);
    assert_eq!(report["clean"], true, "{report}");
    let table = world.amita_done(&["store", "inspect", &path]);
    let id = found["store"].as_str().expect("a UUID");
    assert!(table.contains(id) && table.contains("checkpoint 1"), "{table}");

    let superblocks = lines(&world, &["--superblocks", &path]);
    assert_eq!(superblocks.len(), 2);
    assert!(superblocks.iter().all(|found| found["store"] == id), "{superblocks:?}");
    let log = lines(&world, &["--log-pages", &path]);
    let write = log.iter().find(|line| line["record"] == "write").expect("a write");
    let chunk = write["chunk"].as_str().expect("a chunk");
    let entries = lines(&world, &["--chunk", chunk, &path]);
    let entry = entries.iter().find(|entry| entry["slot"].is_u64()).expect("data");
    let offset = entry["offset"].as_u64().expect("a place");
    let page = lines(&world, &["--page", &offset.to_string(), &path]);
    assert_eq!(page[0]["what"], "other", "{page:?}");
    assert!(
        world
            .amita_done(&["store", "inspect", "--chunk", chunk, &path])
            .contains("the chunk")
    );
    assert!(
        before == std::fs::read(&path).expect("read"),
        "nothing of it wrote anything"
    );

    // One bit of that block is not what it was.
    let mut image = before;
    image[offset as usize + 77] ^= 1;
    std::fs::write(&path, &image).expect("written");
    assert_eq!(world.json(&["store", "check", &path])["clean"], true);
    let refused = world.amita(&["store", "check", "--data", &path]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
    assert!(
        refused.text.contains(&format!("byte {offset}")) && refused.text.contains("1 problem"),
        "{}",
        refused.text
    );
    world.end(A_NODE_IS_GONE);
}

#[test]
fn what_cannot_be_read_has_an_exit_code_of_its_own() {
    let world = World::metadata_only(1);
    let nothing = world.file("nothing");
    let nothing = nothing.to_str().expect("a plain name");
    let text = world.file("text");
    std::fs::write(&text, vec![7; 1 << 20]).expect("written");
    let text = text.to_str().expect("a plain name");
    let folder = world.folder().to_str().expect("a plain name");
    for path in [nothing, text, folder] {
        for command in [
            &["store", "check"][..],
            &["store", "inspect"],
            &["store", "dump", "--chunk", "1/0"],
        ] {
            let refused = world.amita(&[command, &[path]].concat());
            assert_eq!(refused.status.code(), Some(2), "{command:?} {path}: {}", refused.text);
        }
    }
    let made = world.file("made.store");
    let made = made.to_str().expect("a plain name");
    world.amita_done(&["disk", "format", "--size", "16M", made]);
    let refused = world.amita(&["store", "dump", "--chunk", "1/0", made]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    let refused = world.amita(&["store", "dump", "--page", "100", made]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    let refused = world.amita(&["store", "dump", "--chunk", "1.0", made]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("as in 7/0"), "{}", refused.text);
    world.end(&[]);
}
