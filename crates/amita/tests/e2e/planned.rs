//! Planned work under load: disks are drained, given back, made to weigh less and replaced, nodes maintained and started again
//! one after the other, and fio, which checks every block that it has written, sees no error and no wrong block.

use crate::load::Load;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, STORE_BYTES, World};
use amita_harness::observe::Observer;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Nodes with a store. The gateway has none, so that each of them can go.
const NODES: usize = 4;
/// How long data may take to be elsewhere, on a machine that does much besides. Changes are gathered for five seconds.
const MOVING: Duration = Duration::from_secs(240);

/// What is done, and what is awaited of it.
struct Work<'a> {
    world: &'a mut World,
    load: &'a Load,
}

impl Work<'_> {
    fn amita(&self, arguments: &[&str]) {
        self.world.amita_done(arguments);
    }

    fn await_that(&self, what: &str, mut is: impl FnMut(&World) -> bool) {
        let end = Instant::now() + MOVING;
        while !is(self.world) {
            assert!(!self.load.has_ended(), "fio has ended while: {what}");
            assert!(
                Instant::now() < end,
                "not within {MOVING:?}: {what}\n{}",
                self.world.amita_done(&["status"])
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn await_whole(&self) {
        let observer = Observer::of(&self.world.cluster).expect("the metadata answers");
        self.await_that("every group has all of its copies", |_| {
            observer.is_whole().unwrap_or(false)
        });
    }

    /// The store at a node's path of this number.
    fn store(&self, node: usize, number: usize) -> String {
        let path = self.world.cluster.nodes()[node].stores[number].display().to_string();
        let mut found = String::new();
        self.await_that("the cluster knows the store", |world| {
            let is_it = |store: &Value| store["path"] == path.as_str() && store["alive"] == true;
            let id = Work::listed(world, is_it).map(|store| store["id"].clone());
            found = id.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
            id.is_some()
        });
        found
    }

    /// How many groups have it as a member.
    fn groups(world: &World, store: &str) -> u64 {
        Work::count(world, store, "groups")
    }

    /// Of how many groups: those whose member it is (`groups`), or that name it in whatever set (`named`).
    fn count(world: &World, store: &str, what: &str) -> u64 {
        let ours = Work::listed(world, |found| found["id"] == store);
        ours.and_then(|store| store[what].as_u64())
            .expect("the store is listed")
    }

    /// The store that it is, as `amita disk list` has it.
    fn listed(world: &World, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        let stores = world.json(&["disk", "list"]);
        stores
            .as_array()
            .into_iter()
            .flatten()
            .find(|store| is_it(store))
            .cloned()
    }

    fn await_groups(&self, store: &str, what: &str, are: impl Fn(u64) -> bool) {
        // It has data until the last group has let it go.
        self.await_that(what, |world| are(Work::count(world, store, "named")));
        self.await_whole();
    }

    /// A node is stopped as an operator stops it, and started with these stores.
    fn restart(&mut self, node: usize, stores: Vec<std::path::PathBuf>) {
        let name = self.world.cluster.nodes()[node].name.clone();
        // What the node before it missed while it was away may not be known yet; then it is refused, and waited for.
        self.await_that("the node may be maintained", |world| {
            let asked = world.amita(&["node", "maintenance", "on", &name]);
            assert!(matches!(asked.status.code(), Some(0 | 5)), "{}", asked.text);
            asked.status.success()
        });
        assert!(self.world.cluster.stop_node(node), "{name} ends in order");
        self.world.cluster.set_stores(node, stores);
        self.world.cluster.start_node(node).expect("it starts again");
        self.world.cluster.await_node(node).expect("it serves again");
        self.amita(&["node", "maintenance", "off", &name]);
        self.await_whole();
    }
}

fn play(limit: Option<&'static str>) {
    let mut world = World::of(NODES);
    let gateway = world.cluster.add_gateway("gateway").expect("a gateway");
    let load = Load::start(&world, gateway, limit);
    let mut work = Work {
        world: &mut world,
        load: &load,
    };

    // Drained, and used again.
    let store = work.store(3, 0);
    work.amita(&["disk", "drain", &store]);
    work.await_groups(&store, "the store is empty", |groups| groups == 0);
    work.amita(&["disk", "drain", "--undo", &store]);
    work.await_groups(&store, "the store is used again", |groups| groups > 0);

    // Another drain, undone when it has begun.
    let other = work.store(2, 0);
    let before = Work::groups(work.world, &other);
    work.amita(&["disk", "drain", &other]);
    work.await_that("the drain has begun", |world| Work::groups(world, &other) < before);
    work.amita(&["disk", "drain", "--undo", &other]);
    work.await_groups(&other, "the store is used again", |groups| groups > 0);

    // Data moves because weights change, and back.
    work.amita(&["disk", "weight", &store, "0"]);
    work.await_groups(&store, "a store without weight has nothing", |groups| groups == 0);
    work.amita(&["disk", "weight", "--by-size", &store]);
    work.await_groups(&store, "it has its share again", |groups| groups > 0);

    // A new disk in the place of an old one.
    let old = work.world.cluster.nodes()[3].stores[0].clone();
    let new = old.with_extension("new");
    let path = new.display().to_string();
    work.amita(&["disk", "format", "--size", &STORE_BYTES.to_string(), &path]);
    work.restart(3, vec![old, new.clone()]);
    let fresh = work.store(3, 1);
    work.amita(&["disk", "replace", &store, &fresh]);
    work.await_groups(&store, "the old store is empty", |groups| groups == 0);
    assert!(Work::groups(work.world, &fresh) > 0, "the new one has taken its place");
    work.restart(3, vec![new]);
    work.amita(&["disk", "forget", &store]);

    // Every node is started again, one after the other.
    for node in 0..NODES {
        let stores = work.world.cluster.nodes()[node].stores.clone();
        work.restart(node, stores);
    }
    let passes = load.finish();
    println!("{passes} passes of fio, without an error");
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
fn planned_work_is_seen_by_no_client() {
    play(Some("--rate_iops=2000"));
}

/// The same with all that fio can do.
#[test]
#[ignore = "takes the machine for minutes: make soak"]
fn planned_work_at_full_load_is_seen_by_no_client() {
    play(None);
}
