//! A certificate that nobody renews, and an authority near its end.

use crate::world::{Plan, World};
use amita_harness::cluster::{authority, identity};
use amita_harness::scratch::Scratch;
use amita_identity::{Authority, Clock, Role};
use amita_types::ClusterId;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Long enough for the `for:` of three alerts in its last quarter.
const LIFE: Duration = Duration::from_secs(200);

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn a_certificate_is_not_renewed() {
    let mut world = World::with(Plan::default(), |cluster| {
        let own = authority(cluster.folder()).expect("the authority");
        let short = own.with_leaf_life(LIFE).expect("a life");
        identity(&short, cluster.folder(), Role::Node, "n3").expect("an identity");
    });
    let instance = world.instance(2);
    world.fault("a node's certificate is good for 200 s, and nobody renews it");
    let alerts = [
        ("AmitaCertificateEnds", instance.as_str()),
        ("AmitaCertificateEndsSoon", instance.as_str()),
        ("AmitaCertificateExpired", instance.as_str()),
    ];
    world.all_fire(&alerts);
    world.mended();
    let folder = world.cluster.folder().join("n3.identity");
    std::fs::rename(&folder, folder.with_extension("ended")).expect("renamed");
    let own = authority(world.cluster.folder()).expect("the authority");
    identity(&own, world.cluster.folder(), Role::Node, "n3").expect("an identity");
    world.cluster.stop_node(2);
    world.start_node(2);
    world.all_end(&alerts);
    world.is_quiet();
}

#[test]
#[ignore = "minutes, on a machine that does nothing else"]
fn an_authority_ends() {
    let scratch = Scratch::make("alerts", None, None, 3 << 30).expect("folders");
    let folder = scratch.folder().join("ca");
    // Authorities are good for ten years.
    let made = Clock::system().now().before(3650 * DAY - 60 * DAY);
    Authority::create(&folder, ClusterId(0x5ca1_ab1e), Clock::standing(made)).expect("an authority");
    let plan = Plan {
        is_wrong_at_first: true,
        ..Plan::default()
    };
    let mut world = World::on(plan, scratch, |_| {}, |_| {});
    let instance = world.instance(0);
    world.fault("the authority that all nodes trust ends in 60 days");
    world.fires("AmitaAuthorityEnds", &instance);
    world.mended();
    let own = Authority::open(&folder, Clock::system()).expect("the authority");
    own.rotate(DAY).expect("a new authority");
    for name in ["n1", "n2", "n3", "operator", amita_metadata::client::SERVER_NAME] {
        let folder = world.cluster.folder().join(format!("{name}.identity"));
        own.renew_identity(&folder).expect("renewed");
    }
    world.ends("AmitaAuthorityEnds");
    world.is_quiet();
}
