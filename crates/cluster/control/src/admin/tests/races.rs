//! Many who change the cluster at one time: who is not the first waits, and comes through.

use super::*;
use crate::admin::subsystem::uses_guard;
use amita_types::map::Closing;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Many at one metadata, each in its own thread: they wait as those with a server do.
struct Shared(Mutex<State>);

impl Transact for Shared {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        // Between what is read and what is written others come in.
        std::thread::yield_now();
        self.0.txn(call)
    }

    fn after_lost(&self, races: u32) {
        std::thread::sleep(amita_metadata::after_lost(races));
    }
}

const WORKERS: usize = 100;
const EACH: usize = 10;

/// What each of many does to its own volumes, all at one time; how many gave up. Those ask again, as programs do: who is kept off a processor between what
/// it has read and what it writes loses as often as that happens.
fn at_once(meta: &Shared, what: impl Fn(&Shared, &str) -> Result<()> + Sync) -> usize {
    let gave_up = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (gave_up, what) = (&gave_up, &what);
            scope.spawn(move || {
                for number in 0..EACH {
                    while let Err(why) = what(meta, &format!("v{worker}-{number}")) {
                        assert!(matches!(why, AdminError::TooManyRaces { .. }), "{why}");
                        gave_up.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    gave_up.into_inner()
}

/// Without pauses more than half of all give up (decision 091).
const FEW: usize = WORKERS * EACH / 4;

#[test]
fn a_hundred_make_and_delete_volumes_at_one_time() {
    let meta = Shared(cluster_of(3));
    create_pool(&meta, &spec(3)).unwrap();
    let gave_up = at_once(&meta, |meta, name| create_volume(meta, name, "main", 4096).map(drop));
    assert!(gave_up < FEW, "{gave_up}");
    let numbers: BTreeSet<u64> = volumes(&meta).unwrap().iter().map(|volume| volume.id.0).collect();
    assert_eq!(numbers.len(), WORKERS * EACH, "a number was given twice");
    let gave_up = at_once(&meta, |meta, name| delete(meta, name, false).map(drop));
    assert!(gave_up < FEW, "{gave_up}");
    assert_eq!(volumes(&meta).unwrap(), []);
}

/// Five nodes, each asks at the same moment; of a group of three at most one may rest.
#[test]
fn nodes_that_ask_for_maintenance_at_one_time_are_let_go_one_by_one() {
    let meta = Shared(cluster_of(5));
    create_pool(&meta, &PoolSpec { groups: 64, ..spec(3) }).unwrap();
    for _ in 0..20 {
        let answers: Vec<Result<map::Node>> = std::thread::scope(|scope| {
            let asks: Vec<_> = (1..=5)
                .map(|node| {
                    let meta = &meta;
                    scope.spawn(move || maintain_node(meta, &format!("n{node}"), true, false))
                })
                .collect();
            asks.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        let resting: Vec<_> = nodes(&meta)
            .unwrap()
            .into_iter()
            .filter(|node| node.maintenance)
            .collect();
        assert_eq!(resting.len(), 1, "{resting:?}");
        for refused in answers.into_iter().filter_map(std::result::Result::err) {
            assert!(matches!(refused, AdminError::WouldWait { .. }), "{refused}");
        }
        maintain_node(&meta, &resting[0].name, false, false).unwrap();
    }
}

/// Deletions do not lose against each other; against whoever makes a use of some volume they do.
#[test]
fn a_deletion_compares_what_volumes_are_used_for_and_does_not_change_it() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    for name in ["a", "b", "c"] {
        create_volume(&meta, name, "main", 4096).unwrap();
    }
    create_subsystem(
        &meta,
        &SubsystemSpec {
            name: "s".to_owned(),
            ..SubsystemSpec::default()
        },
    )
    .unwrap();
    let before = uses_guard(&meta).unwrap();
    delete(&meta, "a", false).unwrap();
    let bin = Fate::Recycle {
        deleted_at: 5,
        purge_at: 10,
    };
    carry_out(&meta, Deletion::of("b", false, bin), &mut || false).unwrap();
    assert_eq!(uses_guard(&meta).unwrap(), before);
    // Somebody is about to make it a namespace, and it goes: its own record is compared.
    struct Overtaken<'a>(&'a Mutex<State>, AtomicUsize);
    impl Transact for Overtaken<'_> {
        fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
            if call.then.iter().any(Op::is_write) && self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                delete(self.0, "c", false).unwrap();
            }
            self.0.txn(call)
        }
    }
    let overtaken = Overtaken(&meta, AtomicUsize::new(0));
    let late = add_namespace(&overtaken, "s", "c", None, 4096);
    assert!(
        matches!(late, Err(AdminError::NoSuch { what: "volume", .. })),
        "{late:?}"
    );
    assert_eq!(namespaces_of(&meta, "s").unwrap(), []);
    assert!(overtaken.1.load(Ordering::Relaxed) > 0);
}

/// Whatever is compared has been changed by another one, each time.
struct Changing<'a>(&'a Mutex<State>, String, AtomicUsize);

impl Transact for Changing<'_> {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if call.compares.iter().any(|compare| compare.key() == self.1) {
            self.0.txn(&Call::put(self.1.as_str(), "7"))?;
        }
        self.0.txn(call)
    }

    fn after_lost(&self, races: u32) {
        self.2.store(races as usize, Ordering::Relaxed);
    }
}

#[test]
fn who_gives_up_says_at_what_others_were_faster() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    create_volume(&meta, "v", "main", 4096).unwrap();
    let told = |counter: &str, what: &dyn Fn(&dyn Transact) -> Result<()>| {
        let changing = Changing(&meta, map::counter_key(counter), AtomicUsize::new(0));
        let why = what(&changing).unwrap_err().to_string();
        assert_eq!(
            why,
            format!(
                "/amita/next/{counter} was changed by others at each of 16 tries; try again, with fewer such changes at one time"
            )
        );
        assert_eq!(
            changing.2.into_inner(),
            15,
            "it has waited before each try but the first"
        );
    };
    told("volumes", &|meta| create_volume(meta, "w", "main", 4096).map(drop));
    told("namespaces", &|meta| delete(meta, "v", false).map(drop));
    // So does who changes it only while it is what was seen.
    let (_, seen) = Precondition::of(&meta, |meta| volume(meta, "v"), |_| vec![map::volume_key("v")]).unwrap();
    told("namespaces", &|meta| {
        seen.run(meta, &|_| Ok(true), |meta| delete(meta, "v", false)).map(drop)
    });
}

/// Two delete it: who is second lets the first wait for the owner, and does not ask the metadata without end meanwhile.
#[test]
fn who_waits_for_anothers_question_waits() {
    let meta = cluster_of(3);
    create_pool(&meta, &spec(3)).unwrap();
    let made = create_volume(&meta, "v", "main", 4096).unwrap();
    let open = Volume {
        owner: Some(NodeId(2)),
        ..made
    };
    meta.txn(&Call::put(map::volume_key("v"), json(&open))).unwrap();
    let mut first = Deletion::new("v", false, 9);
    assert_eq!(first.step(&meta), Ok(None));
    let key = map::closing_key(open.id);
    let mut pauses = 0;
    let second = delete_volume(&meta, "v", false, 9, &mut || {
        pauses += 1;
        pauses < 3
    });
    assert_eq!(second, Err(AdminError::BeingClosed { name: "v".to_owned() }));
    assert_eq!(pauses, 3);
    assert!(
        get::<Closing>(&meta, &key).unwrap().is_some(),
        "the first one's question stands"
    );
}

/// It is somebody's disk by then, or whole: both are seen in the transaction by which it would go.
#[test]
fn what_is_filled_goes_only_as_long_as_it_is_and_is_nobodys_disk() {
    /// Something comes between what is read of a volume without an owner and the transaction by which it goes.
    struct Between<'a, F: Fn(&Mutex<State>)>(&'a Mutex<State>, F, AtomicUsize);
    impl<F: Fn(&Mutex<State>)> Transact for Between<'_, F> {
        fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
            if !call.is_read_only() && self.2.fetch_add(1, Ordering::Relaxed) == 0 {
                (self.1)(self.0);
            }
            self.0.txn(call)
        }
    }
    let filled = || {
        let meta = cluster_of(3);
        create_pool(&meta, &spec(3)).unwrap();
        let made = create_volume(&meta, "v", "main", 1 << 20).unwrap();
        let import = map::Import {
            format: "f".to_owned(),
            image_bytes: 1 << 20,
            modified_ns: 1,
            done_bytes: 0,
            ails: None,
            attempt: None,
        };
        begin_import(&meta, &made, &import).unwrap();
        meta
    };
    let delete = |meta: &Mutex<State>, between: fn(&Mutex<State>)| {
        let meta = Between(meta, between, AtomicUsize::new(0));
        Deletion::new("v", true, 9).while_filled_by("f").step(&meta)
    };
    let meta = filled();
    assert!(matches!(delete(&meta, |_| {}), Ok(Some(_))));
    volume(&meta, "v").unwrap_err();

    let meta = filled();
    let refused = delete(&meta, |meta| {
        let spec = SubsystemSpec {
            name: "s".to_owned(),
            ..SubsystemSpec::default()
        };
        create_subsystem(meta, &spec).unwrap();
        add_namespace(meta, "s", "v", None, 4096).unwrap();
    });
    assert!(matches!(refused, Err(AdminError::Attached { .. })), "{refused:?}");
    assert_eq!(
        subsystem(&meta, "s").unwrap().namespaces.len(),
        1,
        "its hosts have it still"
    );

    let meta = filled();
    let refused = delete(&meta, |meta| {
        let spec = ExportSpec {
            any_client: true,
            ..ExportSpec::default()
        };
        export_volume(meta, "v", &spec).unwrap();
    });
    assert!(matches!(refused, Err(AdminError::StillExported { .. })), "{refused:?}");
    assert_eq!(exports(&meta).unwrap().len(), 1);

    let meta = filled();
    let refused = delete(&meta, |meta| {
        let whole = volume(meta, "v").unwrap();
        let import = about(meta, whole.id).unwrap().import.unwrap();
        end_import(meta, &whole, &import).unwrap();
    });
    assert_eq!(refused, Err(AdminError::Changed));
    volume(&meta, "v").unwrap();
}
