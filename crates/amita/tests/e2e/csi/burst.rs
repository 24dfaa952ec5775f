//! Claims that come all at one time: a cluster is restored, or a hundred jobs begin. Sidecars ask with as many workers as they have, the controller
//! dies in the middle, and what was asked for is asked for again; in the end each claim has its volume, once, and when all are gone nothing is left.

use super::{BTreeMap, Driver, MIB, Path, Said, call, disk, wanted};
use crate::world::World;
use amita_csi::wire::controller::*;
use prost::Message;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Calls under way at one time: external-provisioner and -attacher have a hundred workers unless told otherwise, of which each waits for most of
/// its time; each is a process here.
const WORKERS: usize = 24;
/// Claims are of pods of so many machines.
const MACHINES: usize = 10;
/// Before a call that failed is made again. Sidecars wait for a second, and longer each time.
const AGAIN: Duration = Duration::from_millis(200);
/// What any call may take, with all that it is made again for.
const PATIENCE: Duration = Duration::from_secs(120);
/// `ABORTED`, `UNAVAILABLE` and `DEADLINE_EXCEEDED`: it is asked for again.
const TRY_AGAIN: [&str; 3] = ["10", "14", "4"];

/// Calls of one kind.
struct Storm<A> {
    name: &'static str,
    answers: Vec<A>,
    took: Vec<Duration>,
    /// Calls that were made again.
    again: usize,
    lasted: Duration,
}

impl<A> Storm<A> {
    fn print(&mut self) {
        self.took.sort_unstable();
        let at = |percent: usize| self.took[(self.took.len() - 1) * percent / 100];
        println!(
            "{}: {} in {:.1?}, p50 {:.1?}, p99 {:.1?}, at most {:.1?}; {} made again",
            self.name,
            self.took.len(),
            self.lasted,
            at(50),
            at(99),
            at(100),
            self.again
        );
    }
}

/// Makes a call for each of so many claims, until each has its answer. `meanwhile` is told how many have theirs.
fn storm<M: Message, A: Message + Default>(
    (name, method): (&'static str, &str),
    (folder, socket): (&Path, &Path),
    claims: usize,
    request: &(impl Fn(usize) -> M + Sync),
    meanwhile: impl FnOnce(&AtomicUsize),
) -> Storm<A> {
    let (next, done, again) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let answers = Mutex::new(BTreeMap::new());
    let work = |worker: usize| {
        let place = format!("burst-{worker}");
        loop {
            let claim = next.fetch_add(1, Ordering::Relaxed);
            if claim >= claims {
                return;
            }
            let (message, until) = (request(claim), Instant::now() + PATIENCE);
            loop {
                let why = match call(folder, socket, &place, method, &message) {
                    Said::Message { message, took } => {
                        answers.lock().expect("answers").insert(claim, (message, took));
                        break;
                    }
                    Said::Status { code, why } if TRY_AGAIN.contains(&code.as_str()) => why,
                    Said::Status { code, why } => panic!("{name} of claim {claim}: {code} {why}"),
                    Said::Nothing(why) => why,
                };
                assert!(Instant::now() < until, "{name} of claim {claim} has no end: {why}");
                again.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(AGAIN);
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let work = &work;
            scope.spawn(move || work(worker));
        }
        meanwhile(&done);
    });
    let (answers, took) = answers.into_inner().expect("answers").into_values().unzip();
    Storm {
        name,
        answers,
        took,
        again: again.into_inner(),
        lasted: begun.elapsed(),
    }
}

fn machine(claim: usize) -> String {
    format!("0f8fad5b-d9cb-469f-a165-{:012x}", claim % MACHINES)
}

/// So many claims are bound, attached, detached and deleted; the controller is killed when a half of each is done.
fn burst(claims: usize) {
    let world = World::with_volume();
    let mut driver = Some(Driver::begin(&world));
    let socket = driver.as_ref().expect("a driver").socket.clone();
    let place = (world.folder(), socket.as_path());
    let mut killed = |done: &AtomicUsize| {
        let mut had = (0, Instant::now());
        while had.0 < claims / 2 {
            std::thread::sleep(Duration::from_millis(5));
            let now = done.load(Ordering::Relaxed);
            if now > had.0 {
                had = (now, Instant::now());
            }
            assert!(had.1.elapsed() < PATIENCE, "no call ends any more behind {now}");
        }
        let mut old = driver.take().expect("a driver");
        old.process.kill();
        drop(old);
        driver = Some(Driver::begin(&world));
    };

    let make = |claim: usize| CreateVolumeRequest {
        ..wanted(&format!("pvc-burst-{claim}"), 64)
    };
    let name = ("CreateVolume", "csi.v1.Controller/CreateVolume");
    let mut made: Storm<CreateVolumeResponse> = storm(name, place, claims, &make, &mut killed);
    made.print();
    let volumes: Vec<String> = made
        .answers
        .into_iter()
        .map(|answer| {
            let volume = answer.volume.expect("a volume");
            assert_eq!(volume.capacity_bytes, 64 * MIB);
            volume.volume_id
        })
        .collect();
    assert_eq!(
        volumes.iter().collect::<BTreeSet<_>>().len(),
        claims,
        "each has its own"
    );
    let listed = world.json(&["volume", "list"]);
    let listed = listed.as_array().expect("volumes");
    assert_eq!(
        listed.len(),
        claims + 1,
        "and there are no others but the one of the test"
    );

    let publish = |claim: usize| ControllerPublishVolumeRequest {
        volume_id: volumes[claim].clone(),
        node_id: machine(claim),
        volume_capability: Some(disk()),
        ..Default::default()
    };
    let name = ("ControllerPublishVolume", "csi.v1.Controller/ControllerPublishVolume");
    let mut published: Storm<ControllerPublishVolumeResponse> = storm(name, place, claims, &publish, &mut killed);
    published.print();
    let mut of_volumes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut token = String::new();
    loop {
        let request = ListVolumesRequest {
            max_entries: 300,
            starting_token: token,
        };
        let said = call(
            place.0,
            place.1,
            "burst-list",
            "csi.v1.Controller/ListVolumes",
            &request,
        );
        let Said::Message { message, .. } = said else {
            panic!("no list");
        };
        let page: ListVolumesResponse = message;
        for entry in page.entries {
            let nodes = entry.status.expect("a status").published_node_ids;
            of_volumes.insert(entry.volume.expect("a volume").volume_id, nodes);
        }
        token = page.next_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(of_volumes.len(), claims);
    for (claim, volume) in volumes.iter().enumerate() {
        assert_eq!(of_volumes[volume], [machine(claim)], "{volume}");
    }

    let unpublish = |claim: usize| ControllerUnpublishVolumeRequest {
        volume_id: volumes[claim].clone(),
        node_id: machine(claim),
        ..Default::default()
    };
    let name = (
        "ControllerUnpublishVolume",
        "csi.v1.Controller/ControllerUnpublishVolume",
    );
    let mut taken_off: Storm<ControllerUnpublishVolumeResponse> = storm(name, place, claims, &unpublish, &mut killed);
    taken_off.print();
    let delete = |claim: usize| DeleteVolumeRequest {
        volume_id: volumes[claim].clone(),
        ..Default::default()
    };
    let name = ("DeleteVolume", "csi.v1.Controller/DeleteVolume");
    let mut deleted: Storm<DeleteVolumeResponse> = storm(name, place, claims, &delete, &mut killed);
    deleted.print();
    assert_eq!(world.json(&["subsystem", "list"]), serde_json::json!([]));
    let left = world.json(&["volume", "list"]);
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    driver.expect("a driver").end();
    world.end(&[]);
}

#[test]
fn claims_that_come_at_one_time_outlive_their_controller() {
    burst(48);
}

#[test]
#[ignore = "a thousand claims take minutes: scripts/soak runs it"]
fn a_thousand_claims() {
    burst(1000);
}
