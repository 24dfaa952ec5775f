//! Random histories.

use super::*;
use amita_metadata::Refusal;
use amita_types::recovery::SickPolicy;
use proptest::prelude::*;

/// What a random history is made of.
#[derive(Clone, Debug)]
enum Step {
    Die(u32),
    Rise(u32),
    Tell(usize),
    CarryOut(usize),
    /// The call is done or not, and the answer says otherwise or nothing.
    LoseAnswer(usize, bool),
    Refuse(usize),
    Wait(u32),
    /// A sequencer evicts this store from this group by compare-and-set.
    Rival(u32, u32),
    Depose,
    Elect,
    /// The watch starts anew: all records are told again.
    Reread,
    /// A node serves its store, or does not.
    Serve(u32, bool),
    /// A node says that it stops.
    Stop(u32),
    /// A gateway takes a volume over.
    Raise(u64),
    /// An owner says of the syncing members of a group that they are whole.
    Claim(u64, u32),
    MakeVolume(u64),
    DeleteVolume(u64),
    /// A sequencer drops a syncing member.
    Drop(u32, u32),
    /// A node finds its links to these nodes bad, by bits.
    Links(u32, u32),
    /// Placement wants other members.
    Desire(u32, u32, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..=4_u32).prop_map(Step::Die),
        3 => (1..=4_u32).prop_map(Step::Rise),
        4 => prop_oneof![1..4_usize, Just(usize::MAX)].prop_map(Step::Tell),
        4 => (0..4_usize).prop_map(Step::CarryOut),
        2 => (0..4_usize, any::<bool>()).prop_map(|(index, done)| Step::LoseAnswer(index, done)),
        1 => (0..4_usize).prop_map(Step::Refuse),
        3 => prop_oneof![0..3_u32, Just(61)].prop_map(Step::Wait),
        2 => (0..6_u32, 1..=4_u32).prop_map(|(group, store)| Step::Rival(group, store)),
        1 => Just(Step::Depose),
        1 => Just(Step::Elect),
        1 => Just(Step::Reread),
        2 => (1..=4_u32, any::<bool>()).prop_map(|(node, serves)| Step::Serve(node, serves)),
        1 => (1..=4_u32).prop_map(Step::Stop),
        2 => (1..=2_u64).prop_map(Step::Raise),
        6 => (1..=2_u64, 0..6_u32).prop_map(|(volume, group)| Step::Claim(volume, group)),
        1 => (1..=2_u64).prop_map(Step::MakeVolume),
        1 => (1..=2_u64).prop_map(Step::DeleteVolume),
        1 => (0..6_u32, 1..=4_u32).prop_map(|(group, store)| Step::Drop(group, store)),
        4 => (1..=5_u32, prop_oneof![Just(0_u32), Just(0b11_1110), 0..64_u32]).prop_map(|(node, bits)| Step::Links(node, bits)),
        2 => (0..6_u32, 1..=4_u32, 1..=5_u32).prop_map(|(group, old, new)| Step::Desire(group, old, new)),
    ];
    prop::collection::vec(step, 1..120)
}

fn take(scene: &mut Scene, step: Step) {
    match step {
        Step::Die(number) => scene.die(node(number)),
        Step::Rise(number) => scene.rise(node(number)),
        Step::Tell(most) => scene.tell(most),
        Step::Wait(seconds) => scene.wait(seconds),
        Step::CarryOut(index) if index < scene.calls.len() => scene.carry_out(index),
        Step::LoseAnswer(index, done) if index < scene.calls.len() => {
            let (number, call) = scene.calls.remove(index);
            let before = scene.groups();
            if done {
                scene.state.txn(&call).unwrap();
                scene.judge(&before);
            }
            let error = if done {
                Error::Unknown {
                    what: String::new(),
                    endpoint: String::new(),
                }
            } else {
                Error::Unavailable {
                    what: String::new(),
                    endpoints: String::new(),
                }
            };
            scene.apply(Event::Ended {
                call: number,
                result: Err(error),
            });
        }
        Step::Refuse(index) if index < scene.calls.len() => {
            let (number, _) = scene.calls.remove(index);
            scene.apply(Event::Ended {
                call: number,
                result: Err(Refusal::TooLarge { bytes: 1 }.into()),
            });
        }
        Step::Links(number, bits) => {
            let bad: Vec<u32> = (1..=5)
                .filter(|peer| *peer != number && bits & 1 << peer != 0)
                .collect();
            super::networks::put(scene, number, &bad, 4);
        }
        Step::Rival(index, number) => {
            let mut group = scene.groups().remove(index as usize);
            group.in_sync.retain(|own| *own != store(number));
            if group.in_sync.len() >= scene.min_copies && group != scene.groups()[index as usize] {
                group.epoch = group.epoch.next();
                scene.put(&map::group_key(POOL, GroupIndex(index)), &group);
            }
        }
        Step::Depose => {
            let delete = Call {
                then: vec![Op::Delete { key: election_key() }],
                ..Call::default()
            };
            scene.state.txn(&delete).unwrap();
            scene.apply(Event::Deposed);
        }
        Step::Elect => scene.elect(),
        Step::Reread => scene.reread(),
        Step::Serve(number, serves) => {
            let stores = if serves { vec![store(number)] } else { Vec::new() };
            scene.served.insert(node(number), stores);
            scene.rise(node(number));
        }
        Step::Stop(number) => scene.rise_with(node(number), 0),
        Step::Raise(number) => scene.raise(number),
        Step::Claim(number, index) => scene.claim(number, |group| group == index),
        Step::MakeVolume(number) => {
            // Numbers are never used twice; here a volume that comes again keeps what it had.
            if scene.state.get(&map::volume_key(&format!("v{number}"))).is_none() {
                scene.make_volume(number);
            }
        }
        Step::DeleteVolume(number) => {
            let delete = |key: String| Op::Delete { key };
            let call = Call {
                then: vec![delete(map::volume_key(&format!("v{number}")))],
                ..Call::default()
            };
            scene.state.txn(&call).unwrap();
        }
        Step::Drop(index, number) => {
            let mut group = scene.group(index);
            group.syncing.retain(|member| member.store != store(number));
            if group != scene.group(index) {
                group.epoch = group.epoch.next();
                scene.put_group(&group);
            }
        }
        Step::Desire(index, old, new) => {
            let mut group = scene.group(index);
            if !group.members.contains(&store(new)) {
                for member in group.members.iter_mut().filter(|member| **member == store(old)) {
                    *member = store(new);
                }
                scene.put_group(&group);
            }
        }
        Step::CarryOut(_) | Step::LoseAnswer(..) | Step::Refuse(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens in whatever order: only compare-and-set, never below `min_copies`, epochs only rise, nobody in
    /// sync whom not all owners call whole ([`Scene::judge`]). Once all is quiet, no dead store is in sync where enough
    /// living ones are; and once all live and the owners do their work, every group is as it should be.
    #[test]
    fn random_lives_keep_the_rules(min_copies in 1..=3_u8, narrow in any::<bool>(), planning in any::<bool>(), steps in steps()) {
        let mut scene = Scene::led(4, 8, min_copies);
        scene.spare(5);
        scene.make_volume(1);
        scene.machine.config.planning = planning;
        let sick = SickNetworks { policy: SickPolicy::Isolate, after_s: 10, rest_s: 30, per_hour: 4 };
        scene.machine.networks.set(scene.now, sick);
        if narrow {
            let one = Concurrency { per_store: 1, per_pool: 2 };
            scene.machine.config.recovery = Recovery { critical: one, degraded: one, rebalance: one };
        }
        for step in steps {
            take(&mut scene, step);
            prop_assert!(scene.machine.networks.resting(scene.now) <= 1, "one node at a time");
        }
        scene.read_all();
        scene.elect();
        for _ in 0..4 {
            scene.run();
            scene.wait(61);
        }
        scene.run();
        let serving = |own: &StoreId| {
            let home = node(own.0 as u32);
            let serves = scene.served.get(&home).is_none_or(|stores| stores.contains(own));
            serves && scene.leases.contains_key(&home) && !scene.stopped(home)
        };
        for group in scene.groups() {
            let living = group.in_sync.iter().filter(|own| serving(own)).count();
            let stopped = group.in_sync.iter().any(|own| scene.stopped(node(own.0 as u32)));
            if living >= usize::from(min_copies) && !stopped {
                prop_assert_eq!(living, group.in_sync.len(), "{:?} keeps a dead store", group);
            }
        }
        prop_assert!(scene.machine.calls.pending.is_empty());

        scene.served.clear();
        for number in 1..=5 {
            scene.rise(node(number));
            super::networks::put(&mut scene, number, &[], 4);
        }
        for _ in 0..40 {
            scene.run();
            for number in 1..=2 {
                scene.claim(number, |_| true);
            }
            scene.run();
            scene.wait(61);
        }
        for group in scene.groups() {
            let set = |stores: &[StoreId]| stores.iter().copied().collect::<BTreeSet<_>>();
            prop_assert_eq!(set(&group.in_sync), set(&group.members), "{:?} is not healed", group);
            prop_assert!(group.syncing.is_empty());
        }
        let there: Vec<VolumeId> = scene.volumes().iter().map(|volume| volume.id).collect();
        for number in 1..=2 {
            let said = scene.state.get(&map::whole_key(POOL, VolumeId(number))).is_some();
            prop_assert!(!said || there.contains(&VolumeId(number)), "what was said of deleted volumes goes");
        }
    }
}
