use super::*;
use std::collections::BTreeSet;

fn holders(lanes: PeerLinks, cores: usize) -> BTreeSet<usize> {
    (0..cores).filter(|&core| lanes.holds(core)).collect()
}

#[test]
fn each_pair_has_as_many_holders_as_links_and_all_cores_go_through_one() {
    for cores in [1, 2, 3, 7, 8, 100, 128] {
        for links in [1, 2, 3, 4, 5, 16, 127, 200] {
            for peer in 2..40 {
                let lanes = PeerLinks::new(NodeId(1), NodeId(peer), cores, links);
                let holders = holders(lanes, cores);
                assert_eq!(
                    holders.len(),
                    links.min(cores),
                    "{cores} cores, {links} links, peer {peer}"
                );
                assert!((0..cores).all(|core| holders.contains(&lanes.holder(core))));
            }
        }
    }
}

#[test]
fn both_ends_choose_the_same_cores() {
    for peer in 2..40 {
        let (one, other) = (NodeId(1), NodeId(peer));
        assert_eq!(PeerLinks::new(one, other, 16, 4), PeerLinks::new(other, one, 16, 4));
    }
}

#[test]
fn cores_share_the_followers_evenly() {
    for (cores, links) in [(8, 2), (7, 3), (128, 4), (100, 16)] {
        let lanes = PeerLinks::new(NodeId(3), NodeId(9), cores, links);
        for holder in holders(lanes, cores) {
            let followers = (0..cores).filter(|&core| lanes.holder(core) == holder).count();
            let (least, most) = (cores / links, cores.div_ceil(links));
            assert!(
                (least..=most).contains(&followers),
                "{holder} has {followers} of {cores}"
            );
        }
    }
}

#[test]
fn the_links_to_many_peers_are_spread_over_all_cores() {
    // What the bound is for: linear in nodes, and no core carries them for all.
    let (cores, links, peers) = (128, 4, 1000);
    let mut held = vec![0_usize; cores];
    for peer in 2..2 + peers {
        for core in holders(PeerLinks::new(NodeId(1), NodeId(peer), cores, links), cores) {
            held[core] += 1;
        }
    }
    assert_eq!(held.iter().sum::<usize>(), links * peers as usize);
    let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
    assert!(most - least <= 1, "{held:?}");
}

#[test]
fn the_links_of_a_node_grow_with_its_cores_and_not_with_peers_times_cores() {
    assert_eq!(links(16, 1, 2), 1);
    assert_eq!(links(16, 4, 2), 4);
    assert_eq!(links(16, 128, 0), 16);
    assert_eq!(links(16, 128, 2), 16);
    assert_eq!(links(16, 128, 99), 2);
    assert_eq!(links(16, 128, 999), 1);
    assert_eq!(links(16, 128, 9_999), 1);
    assert_eq!(links(1, 128, 2), 1);
    for cores in 1..=256 {
        for peers in [1, 2, 9, 99, 999, 9_999] {
            let all = peers * links(16, cores, peers);
            assert!(
                all <= peers.max(LINKS_PER_CORE * cores),
                "{cores} cores, {peers} peers: {all}"
            );
        }
    }
}
