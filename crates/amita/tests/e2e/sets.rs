//! Snapshots of two volumes at one moment, which have owners of their own and are written to by turns.

use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, World};
use amita_harness::nbd::Client;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

pub const LOG: &str = "log";
/// How many blocks each of the two has for its diary.
const PAGES: u64 = 40;
const BLOCK: u64 = 4096;
/// Sets that are taken.
const ROUNDS: usize = 25;

/// One who writes entry 1 to the log, and when that is acknowledged to the volume; then entry 2 likewise, and so on. So at any moment the
/// log goes up to the volume's last entry, or one further.
pub struct ByTurns {
    written: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
    writer: JoinHandle<()>,
}

impl ByTurns {
    pub fn begin(log_at: SocketAddr, volume_at: SocketAddr) -> ByTurns {
        let mut log = Client::open(log_at, LOG, PATIENCE).expect("the log opens");
        let mut volume = Client::open(volume_at, VOLUME, PATIENCE).expect("the volume opens");
        let (written, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, told) = (Arc::clone(&written), Arc::clone(&ends));
        let lost = Arc::new(AtomicBool::new(false));
        let may_be_lost = Arc::clone(&lost);
        let writer = std::thread::spawn(move || {
            let mut entry = 0u64;
            while !told.load(Ordering::Relaxed) {
                entry += 1;
                let page = entry.to_le_bytes().repeat(BLOCK as usize / 8);
                let at = entry % PAGES * BLOCK;
                let written = log.write(at, &page).and_then(|()| volume.write(at, &page));
                if written.is_err() && may_be_lost.load(Ordering::SeqCst) {
                    return;
                }
                written.expect("both are written");
                count.store(entry, Ordering::SeqCst);
            }
            log.close();
            volume.close();
        });
        ByTurns {
            written,
            ends,
            lost,
            writer,
        }
    }

    /// Its cluster is lost from now on: an error ends it.
    pub fn may_be_lost(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }

    /// The last entry that both have.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// It was told of an error.
    pub fn has_ended(&self) -> bool {
        self.writer.is_finished()
    }

    pub fn finish(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.writer.join().expect("every write was acknowledged");
    }
}

/// The last entry of a diary, read at a node; all that it should have before is there.
pub fn last_entry(node: SocketAddr, name: &str) -> u64 {
    let mut client = Client::open(node, name, PATIENCE).expect("the snapshot opens");
    let mut page = vec![0; BLOCK as usize];
    let entries: Vec<u64> = (0..PAGES)
        .map(|number| {
            client.read(number * BLOCK, &mut page).expect("it can be read");
            let entry = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
            assert_eq!(
                page,
                entry.to_le_bytes().repeat(BLOCK as usize / 8),
                "a page is of one entry"
            );
            entry
        })
        .collect();
    client.close();
    let last = entries.iter().copied().max().unwrap_or(0);
    for (number, &entry) in (0u64..).zip(&entries) {
        let back = (last + PAGES - number) % PAGES;
        assert_eq!(
            entry,
            last.saturating_sub(back),
            "{name}: page {number} of a diary that ends with {last}"
        );
    }
    last
}

/// The set is one moment of both.
fn check(nodes: &[SocketAddr], name: &str, between: (u64, u64)) -> (u64, u64) {
    let of_log = last_entry(nodes[0], &format!("{LOG}@{name}"));
    let of_volume = last_entry(nodes[2], &format!("{VOLUME}@{name}"));
    assert!(
        of_log == of_volume || of_log == of_volume + 1,
        "{name}: the log goes up to {of_log}, and the volume, which is written to after it, to {of_volume}"
    );
    assert!(
        between.0 <= of_volume && of_log <= between.1,
        "{name}: {of_volume} and {of_log}, and it was taken between {between:?}"
    );
    (of_log, of_volume)
}

#[test]
fn a_set_of_two_volumes_is_one_moment_of_both() {
    let mut world = World::of(4);
    world.amita_done(&["volume", "create", LOG, "--pool", "demo", "--size", "64M"]);
    world.cluster.offer_by_nbd(LOG).expect("it is exported");
    let nodes: Vec<SocketAddr> = world.cluster.nodes().iter().map(|node| node.nbd).collect();

    // Nobody has them open: they are opened for it.
    let first = world.json(&["volume", "snapshot", "create-set", "of-nothing", VOLUME, LOG]);
    assert_eq!(first["snapshots"].as_array().map(Vec::len), Some(2), "{first}");
    assert_eq!(
        (first["id"].as_u64(), &first["snapshots"][0]["set"]),
        (Some(1), &1.into())
    );

    let writer = ByTurns::begin(nodes[1], nodes[0]);
    let owner = |name: &str| world.json(&["volume", "show", name])["owner"].clone();
    assert_ne!(owner(LOG), owner(VOLUME), "each has an owner of its own");
    let mut kept = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("s{round}");
        let before = writer.written();
        world.amita_done(&["volume", "snapshot", "create-set", &name, VOLUME, LOG]);
        let after = writer.written() + 1;
        kept.push((name.clone(), check(&nodes, &name, (before, after))));
    }
    writer.finish();

    // One that nobody owned dies, and comes back: what it serves then is the same.
    world.cluster.kill_node(3);
    world.cluster.start_node(3).expect("it starts again");
    world.cluster.await_node(3).expect("it serves again");
    for (name, (of_log, of_volume)) in &kept {
        assert_eq!(
            last_entry(nodes[3], &format!("{LOG}@{name}")),
            *of_log,
            "{name} has changed"
        );
        assert_eq!(
            last_entry(nodes[1], &format!("{VOLUME}@{name}")),
            *of_volume,
            "{name} has changed"
        );
    }

    let sets = world.json(&["volume", "snapshot", "list-sets"]);
    let sets = sets.as_array().expect("a list");
    assert_eq!((sets.len(), sets[0]["name"].as_str()), (ROUNDS + 1, Some("of-nothing")));
    assert_eq!(sets[ROUNDS]["volumes"].as_array().map(Vec::len), Some(2));
    world.amita_done(&["volume", "snapshot", "delete", LOG, "s3"]);
    for (name, volumes, code, says) in [
        ("s3", vec![VOLUME, VOLUME], 2, "named twice"),
        ("never", vec![VOLUME, "nosuch"], 4, "nosuch"),
        ("s3", vec![VOLUME, LOG], 5, "exists"),
    ] {
        let command = [vec!["volume", "snapshot", "create-set", name], volumes].concat();
        let refused = world.amita(&command);
        assert!(
            refused.status.code() == Some(code) && refused.text.contains(says),
            "{command:?}: {:?} {}",
            refused.status.code(),
            refused.text
        );
    }
    let left = world.json(&["volume", "snapshot", "list", LOG]);
    assert_eq!(
        left.as_array().map(Vec::len),
        Some(ROUNDS),
        "nothing of what was refused was taken"
    );
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}
