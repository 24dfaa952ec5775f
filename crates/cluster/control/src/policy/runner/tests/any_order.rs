//! Everything that may happen, in any order.

use super::*;

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Step,
    Own,
    Crash,
    /// By so many seconds.
    Later(u64),
    Earlier(u64),
    /// An owner of a volume gets silent, or speaks again.
    Silence(u64),
    Speak,
    /// The policy is written anew.
    Change(u32),
    /// An owner is too slow for the next set.
    Void,
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Step),
        4 => Just(Happening::Own),
        1 => Just(Happening::Crash),
        3 => (1u64..900).prop_map(Happening::Later),
        1 => (1u64..20_000).prop_map(Happening::Later),
        1 => (1u64..3000).prop_map(Happening::Earlier),
        1 => (1u64..=5).prop_map(Happening::Silence),
        1 => Just(Happening::Speak),
        1 => (1u32..5).prop_map(Happening::Change),
        1 => Just(Happening::Void),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whenever leaders die, between taking and noting or anywhere else, and whatever clocks do: nothing is taken twice, and the last time that
    /// is due is not lost.
    #[test]
    fn nothing_is_taken_twice_and_nothing_is_lost(
        happenings in prop::collection::vec(any_happening(), 1..150),
        together: bool,
    ) {
        let mut rig = Rig::new();
        rig.volumes(5);
        let policy = rig.of_all("p", "*/5 * * * *", 3);
        let change = PolicyChange { together: Some(together), ..PolicyChange::default() };
        admin::set_policy(&rig.meta, "p", &change).unwrap();
        rig.settle();
        let mut high = rig.wall;
        for happening in &happenings {
            high = high.max(rig.wall);
            match *happening {
                Happening::Step => rig.step(),
                Happening::Own => rig.own(),
                Happening::Crash => rig.crash(),
                Happening::Later(seconds) => {
                    rig.wall += seconds;
                    rig.steady += Duration::from_secs(seconds);
                }
                // By no more than is waited for: beyond that times count anew, and come again.
                Happening::Earlier(seconds) => {
                    let least = MONDAY.max(high.saturating_sub(MOST_BACK));
                    rig.wall = least.max(rig.wall - seconds);
                }
                Happening::Silence(volume) => drop(rig.silent.insert(VolumeId(volume))),
                Happening::Speak => rig.silent.clear(),
                Happening::Void => rig.void = 1,
                Happening::Change(last) => {
                    let keep = KeepChange { last: Some(last), ..KeepChange::default() };
                    let change = PolicyChange { keep, ..PolicyChange::default() };
                    admin::set_policy(&rig.meta, "p", &change).unwrap();
                }
            }
            rig.no_doubles();
        }
        (rig.silent, rig.void) = (BTreeSet::new(), 0);
        // Nothing is wrong any more, and the next time comes.
        rig.settle();
        let due = (rig.wall.max(rig.runs(&policy).after) / 300 + 1) * 300;
        rig.steady += Duration::from_secs(1000);
        rig.at(due);
        rig.no_doubles();
        let name = crate::policy::naming::name("p", "{policy}-{time}", due);
        for volume in (1..=5).map(VolumeId) {
            let names = rig.names(volume);
            prop_assert!(names.contains(&name), "{:?} has {:?} of {}", volume, names, name);
            prop_assert!(names.len() <= 5, "{:?}", names);
        }
        prop_assert_eq!(rig.wishes().len(), 0);
        rig.own_sets();
        prop_assert!(rig.sets().is_empty(), "{:?}", rig.sets());
        if together {
            // What one volume has of a time, all have, and none was taken by itself.
            let of = |volume: u64| -> BTreeSet<String> {
                let taken = rig.taken.iter().filter(|(id, _)| *id == VolumeId(volume));
                taken.map(|(_, name)| name.clone()).collect()
            };
            (2..=5).for_each(|volume| assert_eq!(of(volume), of(1)));
            let alone = (1..=5).flat_map(|volume| rig.sealed(VolumeId(volume))).filter(|found| found.set.is_none());
            prop_assert_eq!(alone.count(), 0);
        }
        let runs = rig.runs(&policy);
        prop_assert!(runs.run.is_none());
        prop_assert!(runs.taken <= rig.taken.len() as u64, "each is counted once: {} of {}", runs.taken, rig.taken.len());
        let there: u64 = (1..=5).map(|volume| rig.names(VolumeId(volume)).len() as u64).sum();
        // What a leader has deleted that died before it noted it is not counted.
        prop_assert!(there + runs.deleted <= rig.taken.len() as u64, "{} and {}", there, runs.deleted);
    }
}
