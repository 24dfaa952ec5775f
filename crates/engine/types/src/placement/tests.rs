use super::*;
use crate::id::{Epoch, VolumeId};
use crate::layout::{ChunkId, ChunkIndex};

const POOL: PoolId = PoolId(1);

/// Store `i` of `per_node` each on nodes 1, 2, ...; racks of two nodes, sites of two racks.
fn stores(nodes: u32, per_node: u32) -> Vec<Candidate> {
    let store = |node: u32, disk: u32| Candidate {
        store: StoreId(u128::from(mix(u64::from(node * 1000 + disk))) << 64 | u128::from(disk)),
        weight: 100,
        keeps_only: false,
        location: Location {
            site: format!("s{}", (node - 1) / 4),
            rack: format!("r{}", (node - 1) / 2 % 2),
            node: NodeId(node),
        },
    };
    (1..=nodes)
        .flat_map(|node| (0..per_node).map(move |disk| store(node, disk)))
        .collect()
}

fn all(candidates: &[Candidate], groups: u32, copies: usize, level: Level) -> Vec<Vec<StoreId>> {
    (0..groups)
        .map(|group| place(POOL, GroupIndex(group), candidates, copies, level).unwrap())
        .collect()
}

fn loads(plan: &[Vec<StoreId>]) -> BTreeMap<StoreId, u64> {
    let mut loads = BTreeMap::new();
    for store in plan.iter().flatten() {
        *loads.entry(*store).or_default() += 1;
    }
    loads
}

/// How many copies of the second plan lie where the first has none.
fn moved(before: &[Vec<StoreId>], after: &[Vec<StoreId>]) -> usize {
    before
        .iter()
        .zip(after)
        .map(|(old, new)| new.iter().filter(|store| !old.contains(store)).count())
        .sum()
}

#[test]
fn no_two_copies_in_one_domain_whatever_the_level() {
    let candidates = stores(12, 3);
    for (level, copies) in [(Level::Disk, 8), (Level::Node, 8), (Level::Rack, 6), (Level::Site, 3)] {
        for plan in [
            all(&candidates, 256, copies, level),
            plan_pool(POOL, 256, &candidates, copies, level).unwrap(),
        ] {
            for members in &plan {
                let of = |store: &StoreId| candidates.iter().find(|c| c.store == *store).unwrap().domain(level);
                let domains: BTreeSet<_> = members.iter().map(of).collect();
                assert_eq!((members.len(), domains.len()), (copies, copies), "{level}: {members:?}");
            }
        }
    }
}

#[test]
fn the_order_of_the_candidates_does_not_matter() {
    let candidates = stores(7, 2);
    let reversed: Vec<_> = candidates.iter().rev().cloned().collect();
    assert_eq!(
        all(&candidates, 128, 3, Level::Node),
        all(&reversed, 128, 3, Level::Node)
    );
    let other = (0..128).filter(|group| {
        place(PoolId(2), GroupIndex(*group), &candidates, 3, Level::Node).unwrap()
            == place(POOL, GroupIndex(*group), &candidates, 3, Level::Node).unwrap()
    });
    assert!(other.count() < 10, "pools are placed apart");
}

#[test]
fn stores_are_chosen_in_proportion_to_their_weight() {
    let mut candidates = stores(10, 1);
    for candidate in &mut candidates[..5] {
        candidate.weight = 300;
    }
    candidates[9].weight = 0;
    let loads = loads(&all(&candidates, 8192, 1, Level::Node));
    let total: u32 = candidates.iter().map(|candidate| candidate.weight).sum();
    for candidate in &candidates {
        let expected = 8192.0 * f64::from(candidate.weight) / f64::from(total);
        let got = loads.get(&candidate.store).copied().unwrap_or(0) as f64;
        // Three and a half standard deviations of a binomial.
        assert!(
            (got - expected).abs() <= 3.5 * expected.sqrt(),
            "{got} where {expected} was due"
        );
    }
}

#[test]
fn a_plan_keeps_every_store_near_its_share() {
    for (nodes, per_node, groups, copies) in [(3, 1, 64, 3), (4, 1, 64, 3), (5, 4, 128, 3), (20, 8, 4096, 3)] {
        let candidates = stores(nodes, per_node);
        let plan = plan_pool(POOL, groups, &candidates, copies, Level::Node).unwrap();
        let loads = loads(&plan);
        let share = f64::from(groups) * copies as f64 / candidates.len() as f64;
        for candidate in &candidates {
            let load = loads[&candidate.store] as f64;
            assert!(
                load <= (share * 1.1).ceil() + 1.0 && load >= share * 0.6,
                "{load} where {share} is due"
            );
        }
    }
}

#[test]
fn a_heavy_node_takes_one_copy_and_leaves_the_rest_to_the_others() {
    let mut candidates = stores(5, 2);
    candidates[0].weight = 10_000;
    candidates[1].weight = 10_000;
    let plan = plan_pool(POOL, 256, &candidates, 2, Level::Node).unwrap();
    let loads = loads(&plan);
    let heavy = loads[&candidates[0].store] + loads[&candidates[1].store];
    assert!((240..=256).contains(&heavy), "one copy of nearly every group: {heavy}");
    for candidate in &candidates[2..] {
        assert!(
            (20..=40).contains(&loads[&candidate.store]),
            "32 each are due: {}",
            loads[&candidate.store]
        );
    }
}

#[test]
fn a_store_that_comes_or_goes_moves_only_its_own() {
    let candidates = stores(10, 1);
    let fewer = &candidates[..9];
    let (before, after) = (all(fewer, 4096, 3, Level::Node), all(&candidates, 4096, 3, Level::Node));
    let added = candidates[9].store;
    for (old, new) in before.iter().zip(&after) {
        let foreign = new
            .iter()
            .filter(|store| **store != added && !old.contains(store))
            .count();
        assert_eq!(foreign, 0, "nothing moves between stores that stay: {old:?} {new:?}");
    }
    let due = 4096 * 3 / 10;
    assert!((due * 9 / 10..=due * 11 / 10).contains(&moved(&before, &after)));
    assert_eq!(moved(&before, &after), moved(&after, &before), "and back the same way");
}

#[test]
fn children_of_a_split_inherit_and_get_their_parents_chunks() {
    let candidates = stores(4, 1);
    let plan = plan_pool(POOL, 8, &candidates, 3, Level::Node).unwrap();
    let groups: Vec<map::Group> = plan
        .into_iter()
        .enumerate()
        .map(|(index, members)| map::Group {
            syncing: Vec::new(),
            index: group_at(index),
            epoch: Epoch(index as u64 + 1),
            in_sync: members[1..].to_vec(),
            members,
        })
        .collect();
    let halves = split(&groups);
    assert_eq!(halves.len(), 16);
    assert_eq!(halves[..8], groups, "parents stay as they are");
    for chunk in 0..1000 {
        let chunk = ChunkId {
            volume: VolumeId(7),
            index: ChunkIndex(chunk),
        };
        let (old, new) = (&groups[chunk.group(8).0 as usize], &halves[chunk.group(16).0 as usize]);
        assert_eq!(
            (&old.members, &old.in_sync, old.epoch),
            (&new.members, &new.in_sync, new.epoch)
        );
        assert_eq!(new.index, chunk.group(16));
    }
}

#[test]
fn the_impossible_is_named() {
    let candidates = stores(2, 3);
    let error = place(POOL, GroupIndex(0), &candidates, 3, Level::Node).unwrap_err();
    assert_eq!(
        error,
        PlacementError::TooFewDomains {
            copies: 3,
            level: Level::Node,
            found: 2
        }
    );
    assert_eq!(
        error.to_string(),
        "3 copies need 3 different nodes, but only 2 nodes have a store; add stores, or take fewer copies"
    );
    assert!(place(POOL, GroupIndex(0), &candidates, 3, Level::Disk).is_ok());
    let mut idle = stores(3, 1);
    idle[1].weight = 0;
    assert!(matches!(
        place(POOL, GroupIndex(0), &idle, 3, Level::Node),
        Err(PlacementError::TooFewDomains { .. })
    ));
    assert!(matches!(
        place(POOL, GroupIndex(0), &[], 1, Level::Disk),
        Err(PlacementError::TooFewDomains { .. })
    ));
    for copies in [0, MAX_MEMBERS + 1] {
        assert_eq!(
            place(POOL, GroupIndex(0), &idle, copies, Level::Node),
            Err(PlacementError::BadCopies { copies })
        );
    }
    assert_eq!(
        plan_pool(POOL, 12, &idle, 2, Level::Node),
        Err(PlacementError::BadGroups { groups: 12 })
    );
    let twice = [idle[0].clone(), idle[0].clone()];
    let error = place(POOL, GroupIndex(0), &twice, 1, Level::Node).unwrap_err();
    assert_eq!(error, PlacementError::TwiceListed { store: idle[0].store });
}

#[test]
fn the_logarithm_is_right() {
    for draw in [0_u64, 1, 2, 3, 1000, u64::MAX / 3, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        let exact = 64.0 - (draw.max(1) as f64).log2();
        let ours = minus_log2(draw) as f64 / (1_u64 << 32) as f64;
        assert!((ours - exact).abs() < 1e-6, "{draw}: {ours} and {exact}");
    }
}

/// The share of the present members that a plan keeps within a factor of what is due.
fn assert_balanced(what: &str, plan: &[Vec<StoreId>], candidates: &[Candidate], copies: usize, level: Level) {
    let loads = loads(plan);
    for (candidate, share) in candidates.iter().zip(shares(candidates, copies, level)) {
        let load = loads.get(&candidate.store).copied().unwrap_or(0);
        let (due, limit) = (share.due(plan.len() as u64), share.limit(plan.len() as u64));
        assert!(
            load <= limit + 1 && load * 10 >= due * 7,
            "{what}: {load} where {due} is due, at most {limit}"
        );
    }
    assert!(
        plan.iter().all(|members| is_lawful(members, candidates, copies, level)),
        "{what}"
    );
}

/// Adding or removing 1 of N: what moves is what must, within a fifth; balance and domains hold; and a second plan moves
/// nothing.
#[test]
fn only_what_must_moves() {
    println!(
        "{:<44} {:>7} {:>7} {:>6}",
        "topology and change", "needed", "moved", "ratio"
    );
    let topologies = [
        (3, 1, 64, 2, Level::Node),
        (4, 1, 64, 3, Level::Node),
        (5, 2, 256, 3, Level::Node),
        (8, 1, 512, 3, Level::Node),
        (10, 1, 4096, 3, Level::Node),
        (12, 4, 4096, 3, Level::Node),
        (16, 2, 2048, 3, Level::Rack),
        (16, 2, 2048, 2, Level::Site),
        (20, 8, 4096, 3, Level::Node),
        (6, 4, 512, 4, Level::Disk),
    ];
    for (nodes, per_node, groups, copies, level) in topologies {
        let all = stores(nodes, per_node);
        let one_disk_less = &all[..all.len() - 1];
        let one_node_less = &all[..all.len() - per_node as usize];
        for (what, fewer) in [("disk", one_disk_less), ("node", one_node_less)] {
            if plan_pool(POOL, groups, fewer, copies, level).is_err() {
                continue;
            }
            let new: BTreeSet<StoreId> = all[fewer.len()..].iter().map(|own| own.store).collect();
            let shares = shares(&all, copies, level);
            let due: u64 = shares[fewer.len()..]
                .iter()
                .map(|share| share.due(u64::from(groups)))
                .sum();
            let name =
                |sign: &str| format!("{nodes} nodes x {per_node}, {groups} x {copies} by {level}: {sign}1 {what}");
            let replan = |candidates: &[Candidate], present: &[Vec<StoreId>]| {
                let plan = replan_pool(POOL, candidates, copies, level, present).unwrap();
                assert_eq!(plan.unmet, []);
                assert_balanced(&name(""), &plan.members, candidates, copies, level);
                let again = replan_pool(POOL, candidates, copies, level, &plan.members).unwrap();
                assert_eq!(again, plan, "{}: what is well stays", name(""));
                plan.members
            };
            let report = |sign: &str, needed: u64, moved: usize| {
                let ratio = moved as f64 / needed as f64;
                println!("{:<44} {needed:>7} {moved:>7} {ratio:>6.3}", name(sign));
                assert!(ratio <= 1.2, "{}: {moved} moved, {needed} needed", name(sign));
            };
            let before = replan(fewer, &vec![Vec::new(); groups as usize]);
            let after = replan(&all, &before);
            report("+", due, moved(&before, &after));
            let held = after.iter().flatten().filter(|store| new.contains(store)).count();
            let back = replan(fewer, &after);
            report("-", held as u64, moved(&after, &back));
        }
    }
}

#[test]
fn a_new_weight_moves_the_difference() {
    let mut candidates = stores(8, 1);
    let before = plan_pool(POOL, 1024, &candidates, 3, Level::Node).unwrap();
    candidates[0].weight = 50;
    let after = replan_pool(POOL, &candidates, 3, Level::Node, &before).unwrap().members;
    assert_balanced("half the weight", &after, &candidates, 3, Level::Node);
    let loads = (
        loads(&before)[&candidates[0].store],
        loads(&after)[&candidates[0].store],
    );
    assert_eq!(moved(&before, &after) as u64, loads.0 - loads.1, "nothing else moves");
}

#[test]
fn what_keeps_only_keeps_and_gets_nothing() {
    let mut candidates = stores(6, 1);
    let before = plan_pool(POOL, 512, &candidates[..5], 3, Level::Node).unwrap();
    candidates[0].keeps_only = true;
    let down = candidates[0].store;
    // Another leaves, a new one comes: the one that is away neither gains nor loses more than balance asks.
    let now: Vec<Candidate> = [&candidates[..4], &candidates[5..]].concat();
    let after = replan_pool(POOL, &now, 3, Level::Node, &before).unwrap();
    assert_eq!(after.unmet, []);
    for (old, new) in before.iter().zip(&after.members) {
        assert!(old.contains(&down) || !new.contains(&down), "it gets nothing new");
    }
}

/// Where a rule cannot be met, groups keep what they have, and are named.
#[test]
fn what_cannot_be_placed_stays_and_is_named() {
    let candidates = stores(4, 1);
    let before = plan_pool(POOL, 64, &candidates[..3], 3, Level::Node).unwrap();
    let plan = replan_pool(POOL, &candidates[..2], 3, Level::Node, &before).unwrap();
    assert_eq!(plan.unmet.len(), 64);
    for (old, new) in before.iter().zip(&plan.members) {
        assert_eq!(old.iter().collect::<BTreeSet<_>>(), new.iter().collect::<BTreeSet<_>>());
    }
    let plan = replan_pool(
        POOL,
        &[&candidates[..2], &candidates[3..]].concat(),
        3,
        Level::Node,
        &before,
    )
    .unwrap();
    assert_eq!(plan.unmet, [], "another store is there: all of it goes");
    assert!(
        plan.members
            .iter()
            .all(|members| !members.contains(&candidates[2].store))
    );
}

/// A stricter rule: copies that share a domain part.
#[test]
fn a_new_rule_moves_what_breaks_it() {
    let candidates = stores(12, 2);
    let before = plan_pool(POOL, 256, &candidates, 3, Level::Node).unwrap();
    let breaks = |members: &&Vec<StoreId>| !is_lawful(members, &candidates, 3, Level::Rack);
    assert!(before.iter().filter(breaks).count() > 0);
    let after = replan_pool(POOL, &candidates, 3, Level::Rack, &before).unwrap();
    assert_eq!(after.unmet, []);
    assert_eq!(after.members.iter().filter(breaks).count(), 0);
}
