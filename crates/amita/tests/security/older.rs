//! An older copy of the metadata takes its place while nodes run.

use crate::bystander::Bystander;
use crate::world::{A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, World, eventually};
use amita_harness::cluster::METADATA_FILE;
use amita_harness::nbd::Client;
use amita_metadata::Call;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A volume that was exported once.
const THEIRS: &str = "theirs";
/// What nodes say of it.
const WENT_BACK: &str = "the metadata went back";
/// What they may say meanwhile.
const EXPECTED: &[&str] = &["metadata", "lease", "cannot be reached", "a connection is given up"];

struct Scene {
    world: World,
    /// All of them: three nodes, and one without a store.
    gateways: Vec<usize>,
}

impl Scene {
    fn new() -> Scene {
        let mut world = World::with_volume();
        let last = world.cluster.add_gateway("g1").expect("a gateway");
        world.amita_done(&["volume", "create", THEIRS, "--pool", "demo", "--size", "4M"]);
        let gateways = (0..=last).collect();
        Scene { world, gateways }
    }

    fn without_stores(&self) -> usize {
        self.gateways.len() - 1
    }

    fn export(&self) {
        self.world.amita_done(&["nbd", "export", THEIRS, "--any-client"]);
    }

    fn open(&self, gateway: usize, volume: &str) -> Result<Client, String> {
        let opened = Client::open(self.world.cluster.nodes()[gateway].nbd, volume, PATIENCE);
        opened.map_err(|why| why.to_string().replace(volume, ""))
    }

    /// At every gateway, one after the other.
    fn is_served_everywhere(&self) {
        for &gateway in &self.gateways {
            eventually("the volume is served", || match self.open(gateway, THEIRS) {
                Ok(client) => {
                    client.close();
                    true
                }
                // Whoever had it open before has not left its gateway yet.
                Err(_) => false,
            });
        }
    }

    /// The gateway says of it what it says of a volume that does not exist, or nothing at all.
    fn is_refused(&self, gateway: usize) -> bool {
        let Err(told) = self.open(gateway, THEIRS) else {
            return false;
        };
        let unknown = self.open(gateway, "nothing").err();
        unknown == Some(told)
    }

    fn is_refused_everywhere(&self) {
        for &gateway in &self.gateways {
            let name = &self.world.cluster.nodes()[gateway].name;
            assert!(self.is_refused(gateway), "{name} serves what was taken away");
        }
    }

    fn has_said(&self, gateway: usize, words: &str) -> bool {
        let log = std::fs::read_to_string(self.world.cluster.node_log(gateway));
        log.is_ok_and(|log| log.contains(words))
    }

    fn file(&self) -> PathBuf {
        self.world.scratch.stores().join(METADATA_FILE)
    }

    /// Copies what the metadata holds, and gives it something else, if that is told.
    fn exchange(&mut self, keep: Option<&Path>, give: Option<&Path>) {
        self.world.cluster.kill_metadata();
        if let Some(keep) = keep {
            std::fs::copy(self.file(), keep).expect("copied");
        }
        if let Some(give) = give {
            std::fs::copy(give, self.file()).expect("copied");
        }
        self.world.cluster.start_metadata().expect("the metadata starts");
    }
}

#[test]
fn a_right_that_was_taken_away_does_not_come_back_with_older_metadata() {
    let mut scene = Scene::new();
    scene.export();
    scene.is_served_everywhere();
    let mut bystander = Bystander::start(&scene.world, 0);
    let [older, newest] = ["older", "newest"].map(|name| scene.world.file(name));
    let (older, newest) = (older.as_path(), newest.as_path());
    scene.exchange(Some(older), None);
    scene.world.amita_done(&["nbd", "unexport", THEIRS]);
    for &gateway in &scene.gateways {
        eventually("the right has ended", || scene.is_refused(gateway));
    }
    bystander.goes_on();

    // Not for a moment, while they have not noticed yet, and not afterwards.
    scene.exchange(Some(newest), Some(older));
    eventually("all gateways have noticed", || {
        scene.is_refused_everywhere();
        scene.gateways.iter().all(|&gateway| scene.has_said(gateway, WENT_BACK))
    });
    bystander.goes_on();
    eventually("status says so", || {
        let status = scene.world.json(&["status"]);
        let facts = status["facts"].as_array().expect("facts");
        facts.iter().any(|fact| fact["name"] == "metadata-older")
    });

    // Its revision grows beyond what they have seen; and a gateway begins anew.
    let metadata = scene.world.cluster.metadata_client().expect("an operator");
    for step in 0..500 {
        let put = Call::put("/amita/test", step.to_string());
        metadata.txn(&put).expect("written to the older copy");
    }
    let again = scene.without_stores();
    scene.world.cluster.kill_node(again);
    scene.world.cluster.start_node(again).expect("it starts");
    eventually("it says what it waits for", || {
        scene.is_refused_everywhere();
        scene.has_said(again, "waiting for another one")
    });
    for _ in 0..3 {
        scene.is_refused_everywhere();
        std::thread::sleep(Duration::from_millis(100));
    }
    bystander.goes_on();

    // By the right metadata everything works, the right that was taken away is not there, and is when it is given again.
    scene.exchange(None, Some(newest));
    for &gateway in &scene.gateways {
        if gateway != again {
            eventually("it is believed again", || {
                scene.has_said(gateway, "again the one that this node knows")
            });
        }
    }
    // It may have given up by now.
    scene.world.cluster.kill_node(again);
    scene.world.cluster.start_node(again).expect("it starts");
    scene.world.cluster.await_node(again).expect("it serves");
    scene.is_refused_everywhere();
    scene.export();
    scene.is_served_everywhere();
    bystander.unharmed(&scene.world, 2);
    scene.world.end(&[EXPECTED, A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}
