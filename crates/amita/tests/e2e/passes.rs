//! What copies of volumes and their moves have in common: the pool that they go to, whether any is under way and who is at it, and that nothing of
//! them is left on the source.

use crate::world::{VOLUME, World};
use amita_metadata::Call;
use amita_types::VolumeId;
use amita_types::map;

/// The pool that volumes go to.
pub fn other_pool(world: &World) {
    world.amita_done(&["pool", "create", "other", "--copies", "2"]);
}

/// Is there any job of that kind, as the ids of jobs say it? Stores may be brought up to date at the same time.
pub fn is_under_way(world: &World, kind: &str) -> bool {
    let jobs = world.json(&["job", "list"]);
    let mut jobs = jobs.as_array().expect("a list").iter();
    jobs.any(|job| job["id"].as_str().expect("an id").split('-').next() == Some(kind))
}

/// No job of that kind, and no snapshots of the volume but these.
pub fn nothing_is_left(world: &World, kind: &str, snapshots: &[&str]) {
    assert!(!is_under_way(world, kind));
    let listed = world.json(&["volume", "snapshot", "list", VOLUME]);
    let names = listed.as_array().expect("a list").iter();
    let names: Vec<&str> = names.map(|found| found["name"].as_str().expect("a name")).collect();
    assert_eq!(names, snapshots);
}

/// The name of the node that is at it; none: nobody is.
pub fn who_is_at(world: &World, target: VolumeId) -> Option<String> {
    let meta = world.cluster.metadata_client().expect("the metadata");
    let reply = meta.txn(&Call::get(map::copier_key(target))).expect("it answers");
    reply.value(0).map(|found| found.json().expect("a name"))
}
