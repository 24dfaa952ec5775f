//! Volumes move to another pool while they are written to and read: nobody hears of it, nothing is lost, their snapshots are there by their names; also
//! where whoever is at it is killed; and nothing is left of a move that is taken back.

use crate::passes::{is_under_way, nothing_is_left, other_pool, who_is_at};
use crate::reverts::{compare, open, write};
use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, WRITES_WAIT, World, eventually, pattern, within,
};
use amita_control::admin;
use amita_types::map;
use amita_types::{SnapshotId, VolumeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
/// Where one who writes 1, 2, 3, ... does so, and reads back what it has written just before.
const DIARY_AT: u64 = 48 << 20;
const PAGES: u64 = 32;

fn pool(world: &World) -> String {
    let shown = world.json(&["volume", "show", VOLUME]);
    shown["pool"].as_str().expect("a name").to_owned()
}

fn is_moving(world: &World) -> bool {
    is_under_way(world, "migrate")
}

/// Somebody who writes, reads what was written just before, and is told of no error.
pub struct Diary {
    entry: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Diary {
    pub fn begin(world: &World, volume: &str) -> Diary {
        let mut client = open(world, 0, volume);
        let (entry, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, told) = (Arc::clone(&entry), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            let mut entry = 0u64;
            let mut found = vec![0; BLOCK as usize];
            while !told.load(Ordering::Relaxed) {
                entry += 1;
                let at = DIARY_AT + entry % PAGES * BLOCK;
                let page = entry.to_le_bytes().repeat(BLOCK as usize / 8);
                client.write(at, &page).expect("no client hears of a move");
                client.read(at, &mut found).expect("nor by a read");
                assert_eq!(found, page, "what was acknowledged is read");
                count.store(entry, Ordering::SeqCst);
            }
            client.close();
        });
        Diary { entry, ends, thread }
    }

    pub fn goes_on(&self) {
        let before = self.entry.load(Ordering::SeqCst);
        eventually("it goes on", || self.entry.load(Ordering::SeqCst) > before + 2);
    }

    /// What its pages hold at the end.
    pub fn end(self, content: &mut [u8]) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it was told of no error");
        let last = self.entry.load(Ordering::SeqCst);
        for entry in last.saturating_sub(PAGES - 1).max(1)..=last {
            let at = (DIARY_AT + entry % PAGES * BLOCK) as usize;
            content[at..at + BLOCK as usize].copy_from_slice(&entry.to_le_bytes().repeat(BLOCK as usize / 8));
        }
    }
}

/// Hosts that write as fast as they are let, here and there, each to a part of the volume of its own, and are told of no error.
struct Writers {
    written: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    /// What each has written last to each block of its part.
    threads: Vec<std::thread::JoinHandle<Vec<u64>>>,
}

impl Writers {
    const COUNT: u64 = 8;
    const PART: u64 = 4 * MIB;

    fn begin(world: &World) -> Writers {
        let (written, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let threads = (0..Writers::COUNT).map(|part| {
            let mut client = open(world, 0, VOLUME);
            let (count, told) = (Arc::clone(&written), Arc::clone(&ends));
            std::thread::spawn(move || {
                let blocks = Writers::PART / BLOCK;
                let mut last = vec![0; blocks as usize];
                let mut number = 0u64;
                while !told.load(Ordering::Relaxed) {
                    number += 1;
                    // Each block once in turn, no two neighbours one behind the other.
                    let block = number * 389 % blocks;
                    let page = Writers::page(part, number);
                    client
                        .write(part * Writers::PART + block * BLOCK, &page)
                        .expect("no host hears of a move");
                    last[block as usize] = number;
                    count.fetch_add(1, Ordering::SeqCst);
                }
                client.close();
                last
            })
        });
        Writers {
            threads: threads.collect(),
            written,
            ends,
        }
    }

    fn page(part: u64, number: u64) -> Vec<u8> {
        (part << 48 | number).to_le_bytes().repeat(BLOCK as usize / 8)
    }

    /// So many writes more.
    fn go_on(&self, writes: u64) {
        let before = self.written.load(Ordering::SeqCst);
        eventually("they go on", || self.written.load(Ordering::SeqCst) > before + writes);
    }

    /// What they have written at the end.
    fn end(self, content: &mut [u8]) {
        self.ends.store(true, Ordering::Relaxed);
        for (part, thread) in (0..).zip(self.threads) {
            let last = thread.join().expect("it was told of no error");
            for (block, number) in last.into_iter().enumerate().filter(|(_, number)| *number > 0) {
                let at = (part * Writers::PART) as usize + block * BLOCK as usize;
                content[at..][..BLOCK as usize].copy_from_slice(&Writers::page(part, number));
            }
        }
    }
}

/// A volume with two snapshots, and what it holds at each and now.
fn with_snapshots(world: &World) -> [Vec<u8>; 3] {
    let mut client = open(world, 0, VOLUME);
    let mut content = vec![0; VOLUME_BYTES as usize];
    write(
        &mut client,
        &mut content,
        3 * MIB + BLOCK,
        &pattern(1, 2 * MIB as usize),
    );
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "one"]);
    let one = content.clone();
    write(
        &mut client,
        &mut content,
        4 * MIB - BLOCK,
        &pattern(3, 3 * BLOCK as usize),
    );
    write(&mut client, &mut content, 20 * MIB, &pattern(2, MIB as usize));
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "two"]);
    let two = content.clone();
    write(&mut client, &mut content, 40 * MIB, &pattern(4, 64 * BLOCK as usize));
    client.close();
    [one, two, content]
}

fn all_is_there(world: &World, [one, two, now]: &[Vec<u8>; 3]) {
    compare(world, 0, &format!("{VOLUME}@one"), one);
    compare(world, 0, &format!("{VOLUME}@two"), two);
    compare(world, 0, VOLUME, now);
}

#[test]
fn a_volume_moves_while_it_is_used() {
    let world = World::with_volume();
    other_pool(&world);
    let before = pool(&world);
    let mut all = with_snapshots(&world);
    let stable = world.json(&["volume", "show", VOLUME])["stable_id"].clone();
    let diary = Diary::begin(&world, VOLUME);
    diary.goes_on();
    world.amita_done(&["volume", "migrate", VOLUME, "--pool", "other"]);
    diary.goes_on();
    assert_eq!(pool(&world), "other");
    assert_eq!(
        world.json(&["volume", "show", VOLUME])["stable_id"],
        stable,
        "hosts see the same disk"
    );
    diary.end(&mut all[2]);
    all_is_there(&world, &all);
    nothing_is_left(&world, "migrate", &["one", "two"]);
    // And back.
    world.amita_done(&["volume", "migrate", VOLUME, "--pool", &before]);
    all_is_there(&world, &all);
    nothing_is_left(&world, "migrate", &["one", "two"]);
    world.end(&[]);
}

/// They leave nothing of the volume's limit to whoever moves it, and change as much as half of that would bring. And tokens are lent by the volume's
/// owner, which holds for the last pass.
#[test]
fn a_limited_volume_moves_while_its_hosts_do_all_that_they_may() {
    let world = World::with_volume();
    other_pool(&world);
    world.amita_done(&["volume", "limit", "set", VOLUME, "--iops", "500"]);
    let before = pool(&world);
    let writers = Writers::begin(&world);
    writers.go_on(1000);
    let (job, _) = begun(&world, "1G");
    within(2 * PATIENCE, "it has moved", || !is_moving(&world));
    assert_eq!(pool(&world), "other", "{job}");
    let limits = world.json(&["volume", "limit", "show", VOLUME]);
    assert_eq!(limits["limits"]["iops"]["both"]["rate"], 500, "{limits}");
    writers.go_on(500);
    let mut content = vec![0; VOLUME_BYTES as usize];
    writers.end(&mut content);
    compare(&world, 0, VOLUME, &content);
    nothing_is_left(&world, "migrate", &[]);
    // Nobody uses it, and what it may do is little.
    world.amita_done(&["volume", "limit", "set", VOLUME, "--iops", "50"]);
    world.amita_done(&["volume", "migrate", VOLUME, "--pool", &before]);
    assert_eq!(pool(&world), before);
    compare(&world, 0, VOLUME, &content);
    world.end(&[]);
}

/// The number that the job's id ends with: the target's.
fn begun(world: &World, rate: &str) -> (String, VolumeId) {
    let said = world.json(&[
        "volume",
        "migrate",
        VOLUME,
        "--pool",
        "other",
        "--limit-rate",
        rate,
        "--no-wait",
    ]);
    let job = said["job"].as_str().expect("a job").to_owned();
    let (_, number) = job.rsplit_once('-').expect("a number");
    let target = VolumeId(number.parse().expect("a number"));
    (job, target)
}

#[test]
fn where_whoever_is_at_it_is_killed_another_one_goes_on() {
    let mut world = World::with_volume();
    other_pool(&world);
    let all = with_snapshots(&world);
    let (_, target) = begun(&world, "128K");
    let mut moving = None;
    eventually("somebody is at it", || {
        moving = who_is_at(&world, target);
        moving.is_some()
    });
    let first = moving.expect("somebody");
    let nodes = world.cluster.nodes();
    let index = nodes.iter().position(|node| node.name == first).expect("a node");
    world.cluster.kill_node(index);
    eventually("another node is at it, or has moved it", || {
        match who_is_at(&world, target) {
            Some(now) => now != first,
            None => !is_moving(&world),
        }
    });
    world.cluster.start_node(index).expect("it starts");
    world.cluster.await_node(index).expect("it serves");
    within(3 * PATIENCE, "it has moved", || !is_moving(&world));
    assert_eq!(pool(&world), "other");
    nothing_is_left(&world, "migrate", &["one", "two"]);
    all_is_there(&world, &all);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, WRITES_WAIT].concat());
}

#[test]
fn nothing_is_left_of_a_move_that_is_taken_back() {
    let world = World::with_volume();
    other_pool(&world);
    let before = pool(&world);
    let mut all = with_snapshots(&world);
    let diary = Diary::begin(&world, VOLUME);
    let (job, target) = begun(&world, "64K");
    let refused = world.amita(&["volume", "rename", VOLUME, "elsewhere"]);
    assert!(
        refused.text.contains("is being moved to another pool"),
        "{}",
        refused.text
    );
    // By its rate the first pass takes half a minute: it is left in its middle, to stand still and for good.
    let place = || {
        let meta = world.cluster.metadata_client().expect("the metadata");
        let record = admin::copy_of(&meta, target).expect("it can be read");
        record.expect("it moves").place
    };
    eventually("its first pass is begun", || place().pass != SnapshotId(0));
    world.amita_done(&["job", "pause", &job]);
    eventually("nobody is at it", || who_is_at(&world, target).is_none());
    assert_eq!(place().base, SnapshotId(0), "no pass is done");
    world.amita_done(&["job", "resume", &job]);
    eventually("somebody is at it", || who_is_at(&world, target).is_some());
    world.amita_done(&["job", "cancel", &job]);
    eventually("it is removed", || !is_moving(&world));
    diary.goes_on();
    diary.end(&mut all[2]);
    assert_eq!(pool(&world), before);
    let meta = world.cluster.metadata_client().expect("the metadata");
    assert!(admin::volume(&meta, &map::moving_name(target)).is_err());
    nothing_is_left(&world, "migrate", &["one", "two"]);
    all_is_there(&world, &all);
    world.end(&[]);
}
