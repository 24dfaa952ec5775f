//! What volumes and snapshots hold is told to the byte, and a pool's quota holds whoever asks at once.

use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, eventually};
use amita_harness::nbd::{Client, NbdRequest};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const BLOCK: u64 = 4096;

/// Which write each block has, of the volume and of each of its snapshots: each write's blocks take space of their own.
#[derive(Default)]
struct Model {
    head: BTreeMap<u64, u64>,
    snapshots: BTreeMap<String, BTreeMap<u64, u64>>,
    writes: u64,
}

type Place = (u64, u64);

fn places(view: &BTreeMap<u64, u64>) -> BTreeSet<Place> {
    view.iter().map(|(block, write)| (*block, *write)).collect()
}

impl Model {
    fn write(&mut self, client: &mut Client, first: u64, count: u64) {
        self.writes += 1;
        let bytes: Vec<u8> = self.writes.to_le_bytes().repeat((count * BLOCK / 8) as usize);
        client.write(first * BLOCK, &bytes).expect("written");
        self.head
            .extend((first..first + count).map(|block| (block, self.writes)));
    }

    fn trim(&mut self, client: &mut Client, first: u64, count: u64) {
        let request = NbdRequest::Trim {
            offset: first * BLOCK,
            bytes: (count * BLOCK) as u32,
        };
        client.ask(request).expect("asked");
        client.answer().expect("answered").result.expect("trimmed");
        for block in first..first + count {
            self.head.remove(&block);
        }
    }

    fn snapshot(&mut self, world: &World, name: &str) {
        world.amita_done(&["volume", "snapshot", "create", VOLUME, name]);
        self.snapshots.insert(name.to_owned(), self.head.clone());
    }

    fn delete(&mut self, world: &World, name: &str) {
        world.amita_done(&["volume", "snapshot", "delete", VOLUME, name]);
        self.snapshots.remove(name);
    }

    /// Used, held, and what each snapshot alone holds, in bytes.
    fn figures(&self) -> (u64, u64, BTreeMap<String, u64>) {
        let head = places(&self.head);
        let mut held = head.clone();
        let mut unique = BTreeMap::new();
        for (name, view) in &self.snapshots {
            let mut own = places(view);
            held.extend(&own);
            own.retain(|place| !head.contains(place));
            for (other, view) in &self.snapshots {
                if other != name {
                    let others = places(view);
                    own.retain(|place| !others.contains(place));
                }
            }
            unique.insert(name.clone(), own.len() as u64 * BLOCK);
        }
        (head.len() as u64 * BLOCK, held.len() as u64 * BLOCK, unique)
    }

    fn compare(&self, world: &World, when: &str) {
        let (used, held, unique) = self.figures();
        let shown = world.json(&["volume", "show", VOLUME]);
        let figure = |name: &str| shown[name].as_u64();
        assert_eq!(figure("size_bytes"), Some(VOLUME_BYTES), "{when}: {shown}");
        assert_eq!(figure("provisioned_bytes"), Some(VOLUME_BYTES), "{when}: {shown}");
        assert_eq!(figure("used_bytes"), Some(used), "{when}: {shown}");
        assert_eq!(figure("held_bytes"), Some(held), "{when}: {shown}");
        assert_eq!(figure("unique_bytes"), Some(held), "{when}: {shown}");
        let listed = world.json(&["volume", "snapshot", "list", VOLUME]);
        let listed: BTreeMap<String, u64> = (listed.as_array().expect("a list").iter())
            .map(|found| {
                let name = found["name"].as_str().expect("a name").to_owned();
                (name, found["unique_bytes"].as_u64().expect("it is known"))
            })
            .collect();
        assert_eq!(listed, unique, "{when}");
        let volumes = world.json(&["volume", "list"]);
        assert_eq!(volumes[0]["used_bytes"].as_u64(), Some(used), "{when}: {volumes}");
    }
}

fn freeing(world: &World) -> Option<u64> {
    world.json(&["volume", "show", VOLUME])["freeing_bytes"].as_u64()
}

#[test]
fn figures_are_exact_through_snapshots_deletions_and_a_dead_node() {
    let mut world = World::with_volume();
    let mut client = world.open(0);
    let mut model = Model::default();
    model.compare(&world, "nothing was written");
    model.write(&mut client, 0, 256);
    model.write(&mut client, 2000, 300);
    model.compare(&world, "written");
    model.snapshot(&world, "first");
    model.compare(&world, "a snapshot costs nothing");
    model.write(&mut client, 100, 50);
    model.write(&mut client, 120, 40);
    model.trim(&mut client, 2100, 100);
    model.compare(&world, "what is replaced is the snapshot's own");
    model.snapshot(&world, "second");
    model.write(&mut client, 0, 128);
    model.write(&mut client, 5000, 1000);
    model.snapshot(&world, "third");
    model.write(&mut client, 130, 1);
    model.compare(&world, "three snapshots");
    model.delete(&world, "second");
    model.compare(&world, "what two had is the other one's now, at once");
    eventually("what only it had is given back", || freeing(&world) == Some(0));
    model.compare(&world, "and it stays so");

    // With a node away the others speak for all groups; and it speaks again when it is back.
    world.cluster.kill_node(2);
    model.write(&mut client, 7000, 64);
    model.compare(&world, "a node is dead");
    world.cluster.start_node(2).expect("it starts");
    model.write(&mut client, 7010, 64);
    eventually("it is in sync again", || {
        let pools = world.json(&["pool", "list"]);
        let counts = &pools[0]["group_counts"];
        counts["whole"] == pools[0]["groups"] && counts["syncing"] == 0
    });
    model.compare(&world, "it is back");
    eventually("its store tells how full it is", || {
        world.json(&["pool", "show", "demo"])["all_stores_known"] == true
    });

    let pool = world.json(&["pool", "show", "demo"]);
    let (used, held, unique) = model.figures();
    let figure = |name: &str| pool[name].as_u64().unwrap_or_else(|| panic!("{name}: {pool}"));
    assert_eq!((figure("volumes_used_bytes"), figure("held_bytes")), (used, held));
    assert_eq!(figure("raw_bytes"), figure("used_bytes") + figure("free_bytes"));
    assert!(figure("used_bytes") >= 2 * held, "{pool}");
    assert_eq!((figure("provisioned_bytes"), figure("volumes")), (VOLUME_BYTES, 1));
    assert_eq!(pool["asked"]["snapshots"].as_u64(), Some(unique.len() as u64));
    assert_eq!(
        (figure("copies"), pool["stores"].as_array().map(Vec::len)),
        (3, Some(3))
    );
    for name in ["first", "third"] {
        model.delete(&world, name);
        model.compare(&world, "deleted");
    }
    assert_eq!(model.figures().0, model.figures().1, "the head alone is left");
    client.close();
    let expected = [A_NODE_IS_GONE, A_NODE_RETURNS].concat();
    world.end(&expected);
}

/// A volume's used, held and unique bytes.
fn figures(world: &World, volume: &str) -> [u64; 3] {
    let shown = world.json(&["volume", "show", volume]);
    ["used_bytes", "held_bytes", "unique_bytes"].map(|name| {
        shown[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{volume} {name}: {shown}"))
    })
}

/// What clones share is used by each of them, and is nobody's own.
#[test]
fn figures_of_clones_are_exact() {
    const MIB: u64 = 256;
    let world = World::with_volume();
    let blocks = |numbers: [u64; 3]| numbers.map(|blocks| blocks * BLOCK);
    let is = |volume: &str, used: u64, held: u64, unique: u64, when: &str| {
        assert_eq!(
            figures(&world, volume),
            blocks([used, held, unique]),
            "{volume}: {when}"
        );
    };
    let unique_of = |volume: &str, name: &str| {
        let listed = world.json(&["volume", "snapshot", "list", volume]);
        let found = listed
            .as_array()
            .expect("a list")
            .iter()
            .find(|found| found["name"] == name);
        found.expect("it is there")["unique_bytes"]
            .as_u64()
            .expect("it is known")
            / BLOCK
    };
    let held_together = || {
        let pool = world.json(&["pool", "show", "demo"]);
        assert_eq!(pool.get("space_unknown"), None, "{pool}");
        pool["held_bytes"].as_u64().expect("it is known") / BLOCK
    };
    let mut model = Model::default();
    let mut client = world.open(0);
    // Two chunks of four MiB, and a third one that is not touched any more.
    model.write(&mut client, 0, 6 * MIB);
    model.write(&mut client, 8 * MIB, 100);
    model.snapshot(&world, "golden");
    model.write(&mut client, 0, 10);
    let all = 6 * MIB + 100;
    is(VOLUME, all, all + 10, all + 10, "no clone");
    assert_eq!(unique_of(VOLUME, "golden"), 10);

    let golden = format!("{VOLUME}@golden");
    for name in ["one", "two"] {
        world.amita_done(&["volume", "clone", &golden, name]);
        is(name, all, all, 0, "nothing of it was used");
    }
    is(VOLUME, all, all + 10, 0, "it stays for as long as it has clones");
    assert_eq!(unique_of(VOLUME, "golden"), 0, "its deletion frees nothing");
    assert_eq!(held_together(), all + 10);
    let listed = world.json(&["volume", "list"]);
    let used = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|found| found["used_bytes"].as_u64());
    assert_eq!(used.collect::<Vec<_>>(), [Some(all * BLOCK); 3]);

    // One chunk is made by a read and a write, the others stay as they are.
    world.cluster.offer_by_nbd("one").expect("it is exported");
    let mut one = Client::open(world.cluster.nodes()[1].nbd, "one", PATIENCE).expect("it opens");
    let mut bytes = vec![0; BLOCK as usize];
    one.read(0, &mut bytes).expect("it is read");
    is("one", all, all, 0, "a chunk is made");
    assert_eq!(held_together(), all + 10, "and costs no block");
    one.write(0, &vec![9; 5 * BLOCK as usize]).expect("written");
    one.write(20 * MIB * BLOCK, &vec![9; 7 * BLOCK as usize])
        .expect("written");
    is("one", all + 7, all + 7, 12, "five are replaced, seven are new");
    is("two", all, all, 0, "the other one is as it was");
    is(VOLUME, all, all + 10, 0, "and so is what they come from");
    assert_eq!(held_together(), all + 22);

    // A clone of the clone has what that has, and what it has not made from the golden one.
    world.amita_done(&["volume", "snapshot", "create", "one", "middle"]);
    one.write(0, &vec![8; BLOCK as usize]).expect("written");
    world.amita_done(&["volume", "clone", "one@middle", "three"]);
    is("three", all + 7, all + 7, 0, "two levels");
    is("one", all + 7, all + 8, 0, "it has a clone");
    assert_eq!(held_together(), all + 23);

    // Flattened: nobody needs the snapshot any more, and what is shared is nobody's own still.
    world.amita_done(&["volume", "delete", "three", "--now"]);
    world.amita_done(&["volume", "flatten", "one"]);
    is("one", all + 7, all + 8, 13, "what it shares is not its own");
    is("two", all, all, 0, "it has not lost its parent");
    world.amita_done(&["volume", "delete", "two", "--now"]);
    // The head's 10, and the 10 that it has replaced without the 5 that the clone has not replaced.
    is(
        VOLUME,
        all,
        all + 10,
        15,
        "what the flattened one has replaced is its own again",
    );
    assert_eq!(unique_of(VOLUME, "golden"), 5);
    assert_eq!(held_together(), all + 23);
    one.close();
    client.close();
    world.amita_done(&["volume", "delete", VOLUME, "--now", "--snapshots"]);
    eventually("what was shared is the last one's own", || {
        figures(&world, "one") == blocks([all + 7, all + 8, all + 8])
    });
    assert_eq!(held_together(), all + 8);
    world.end(&[]);
}

/// What nobody tells is not known, and is not zero.
#[test]
fn a_figure_that_nobody_tells_is_not_known() {
    let world = World::serving(&["--metrics", "off"]);
    let mut client = world.open(0);
    Model::default().write(&mut client, 0, 16);
    let shown = world.json(&["volume", "show", VOLUME]);
    for figure in ["used_bytes", "held_bytes", "unique_bytes"] {
        assert_eq!(shown.get(figure), Some(&Value::Null), "{shown}");
    }
    let why = shown["space_unknown"].as_str().unwrap_or_default();
    assert!(why.contains("tells nothing; start it with --metrics"), "{why}");
    assert_eq!(world.json(&["volume", "list"])[0]["used_bytes"], Value::Null);
    let pool = world.json(&["pool", "show", "demo"]);
    assert_eq!(
        (&pool["held_bytes"], pool["volumes"].as_u64()),
        (&Value::Null, Some(1)),
        "{pool}"
    );
    client.close();
    world.end(&[]);
}

#[test]
fn a_quota_holds_whoever_asks_at_once() {
    let world = World::with_volume();
    let asked = |world: &World| world.json(&["pool", "quota", "demo"]);
    assert_eq!(asked(&world)["quota"]["provisioned_bytes"], Value::Null);
    world.amita_done(&["pool", "quota", "demo", "--provisioned", "256M"]);
    let world_ref = &world;
    let results: Vec<(bool, String)> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..6)
            .map(|number| {
                scope.spawn(move || {
                    let name = format!("v{number}");
                    let made = world_ref.amita(&["volume", "create", &name, "--pool", "demo", "--size", "64M"]);
                    (made.status.success(), made.text)
                })
            })
            .collect();
        asking.into_iter().map(|asked| asked.join().expect("it ends")).collect()
    });
    let made = results.iter().filter(|(made, _)| *made).count();
    assert_eq!(
        made, 3,
        "256 MiB have room for the one that is there, and three: {results:#?}"
    );
    for (_, text) in results.iter().filter(|(made, _)| !made) {
        assert!(
            text.contains("the quota of pool demo has no room") && text.contains("amita pool quota demo --provisioned"),
            "{text}"
        );
    }
    assert_eq!(asked(&world)["asked"]["provisioned_bytes"].as_u64(), Some(256 << 20));
    let refused = world.amita(&["volume", "resize", VOLUME, "--size", "65M"]);
    assert!(
        !refused.status.success() && refused.text.contains("quota"),
        "{}",
        refused.text
    );
    world.amita_done(&["pool", "quota", "demo", "--none", "--snapshots", "1"]);
    world.amita_done(&["volume", "resize", VOLUME, "--size", "65M"]);
    world.amita_done(&["volume", "snapshot", "create", VOLUME, "one"]);
    let refused = world.amita(&["volume", "snapshot", "create", VOLUME, "two"]);
    assert!(
        !refused.status.success() && refused.text.contains("1 of 1 snapshots"),
        "{}",
        refused.text
    );
    let missing = world.amita(&["pool", "quota", "nowhere", "--volumes", "1"]);
    assert!(
        !missing.status.success() && missing.text.contains("no pool named nowhere"),
        "{}",
        missing.text
    );
    world.end(&[]);
}
