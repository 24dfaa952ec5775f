//! What finds no place on a link.

use super::*;
use amita_fabric::{Cut, CutStep, Fabric, Message};
use amita_reactor::Slice;
use amita_types::SetId;

/// Questions of sets share their places with requests for release. All I/O of the volumes between the two nodes goes by the same link.
#[test]
fn a_question_of_a_set_that_finds_no_place_does_not_end_the_link() {
    let mut rig = Rig::new();
    let other = NodeId(2);
    let mut driver = rig.world.driver(2);
    let config = amita_fabric::Config::new(CLUSTER, other, 1, driver.pool().clone());
    let mut peer = Fabric::new(config);
    let address = peer.listen(&mut driver, "127.0.0.1:7000".parse().unwrap()).unwrap();
    let now = rig.world.now();
    rig.core.cx.peers.fabric.set_peer(now, other, Some(address));
    let mut passes = |rig: &mut Rig| {
        let mut completions = Vec::new();
        for _ in 0..50 {
            rig.pass();
            driver.poll(Wait::No, &mut completions);
            for completion in completions.drain(..) {
                peer.completion(&mut driver, completion);
            }
            peer.events().for_each(drop);
            peer.flush(&mut driver);
        }
    };
    passes(&mut rig);
    let link = rig.core.cx.peers.fabric.link_to(other).expect("it is up");
    for tag in 0..300 {
        let cut = Cut {
            tag,
            set: SetId(1),
            volume: VOLUME,
            generation: Generation(1),
            step: CutStep::Adopt,
        };
        let cx = &mut rig.core.cx;
        cx.peers
            .send(link, Message::Cut(cut), Slice::default(), &mut cx.control);
    }
    passes(&mut rig);
    assert_eq!(rig.core.cx.peers.fabric.link_to(other), Some(link));
}
