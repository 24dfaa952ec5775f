use super::*;
use amita_reactor::driver::Wait;
use amita_reactor::sim::{DiskConfig, SimConfig, SimDriver, World};
use amita_store::FormatParams;
use amita_types::message::{Purpose, ReadRequest, RequestBody, Scope};
use amita_types::{
    BlockRange, ChunkIndex, ClusterId, Epoch, Generation, GroupId, GroupIndex, PoolId, RequestId, SnapshotId, TraceId,
    Version,
};
use std::time::Duration;

const STORE: StoreId = StoreId(9);
const DISK: &str = "disk";

/// A store that is held until it is admitted.
struct Rig {
    world: World,
    driver: SimDriver,
    stores: Stores,
}

impl Rig {
    fn new() -> Rig {
        let mut world = World::new(1, SimConfig::default());
        let size_bytes = 64 << 20;
        world.create_disk(DISK, DiskConfig::flash(size_bytes));
        let params = FormatParams {
            store: STORE,
            cluster: ClusterId(1),
            size_bytes,
            log_bytes: None,
        };
        let format = amita_store::format(&params).expect("large enough");
        for offset in amita_store::format::superblock::OFFSETS {
            world.write_disk(DISK, offset, &format.superblock().encode());
        }
        let mut driver = world.driver(1);
        let mut stores = Stores::default();
        stores.await_admission();
        let opened = stores.open(&mut driver, Path::new(DISK), Config::default());
        opened.expect("the disk is there");
        Rig { world, driver, stores }
    }

    /// Until something is told of that `found` likes.
    fn until<T>(&mut self, found: impl Fn(&FromCore) -> Option<T>) -> T {
        for _ in 0..1_000_000 {
            let limit = self.world.now().plus(Duration::from_millis(1));
            self.world.next_until(limit);
            let mut completions = Vec::new();
            self.driver.poll(Wait::No, &mut completions);
            let now = self.driver.now();
            for completion in completions {
                self.stores.completion(now, completion);
            }
            self.stores.tick(now);
            self.stores.run(&mut self.driver);
            self.stores.end_pass(now);
            self.stores.run(&mut self.driver);
            let mut told = Vec::new();
            self.stores.announce(now, &mut told);
            if let Some(found) = told.iter().find_map(&found) {
                return found;
            }
        }
        panic!("never told");
    }

    fn mounted(&mut self) -> u64 {
        self.until(|told| match told {
            FromCore::StoreMounted { mount, .. } => Some(*mount),
            FromCore::StoreServes { .. } => panic!("nobody has claimed it"),
            _ => None,
        })
    }

    fn serves(&mut self) {
        self.until(|told| matches!(told, FromCore::StoreServes { .. }).then_some(()));
    }

    fn fail(&mut self) {
        let now = self.driver.now();
        let host = &mut self.stores.hosts[0];
        host.store.device_hangs(now, HUNG_AFTER);
        (self.stores.touched, self.stores.news) = (true, true);
        self.until(|told| matches!(told, FromCore::StoreFailed { .. }).then_some(()));
    }
}

#[test]
fn each_mount_is_admitted_for_itself() {
    let mut rig = Rig::new();
    let first = rig.mounted();
    assert!(!rig.stores.serves(STORE));
    rig.stores.admit(STORE, DISK, first);
    rig.serves();
    assert!(rig.stores.serves(STORE));

    rig.fail();
    let second = rig.mounted();
    assert!(second > first);
    assert!(!rig.stores.serves(STORE), "its claim was given up");
    // The answer to the first claim is late.
    rig.stores.admit(STORE, DISK, first);
    assert!(!rig.stores.hosts[0].admitted);
    rig.stores.admit(STORE, DISK, second);
    rig.serves();
    assert!(rig.stores.serves(STORE));
}

#[test]
fn a_store_that_comes_back_is_looked_at_and_written_to_again() {
    let mut rig = Rig::new();
    for revision in 1..=2 {
        let mount = rig.mounted();
        rig.stores.admit(STORE, DISK, mount);
        rig.serves();
        rig.stores.recall(STORE);
        rig.until(|told| matches!(told, FromCore::Recalled { .. }).then_some(()));
        let content = Content::new(0, revision, b"records").expect("short");
        rig.stores.keep(&content, &[STORE]);
        rig.until(|told| matches!(told, FromCore::Kept { revision: kept, .. } if *kept == revision).then_some(()));
        rig.fail();
        // The keeper does not know yet.
        rig.stores.keep(&content, &[STORE]);
    }
}

/// A store that had failed, and was to be tried again, is not any more: that is told as its failing was, so that an event
/// says what to do.
#[test]
fn a_store_that_is_not_tried_again_any_more_says_so() {
    let mut rig = Rig::new();
    let mount = rig.mounted();
    rig.stores.admit(STORE, DISK, mount);
    rig.serves();
    let failed = |told: &FromCore| match told {
        FromCore::StoreFailed { why, .. } => Some(why.clone()),
        _ => None,
    };
    let now = rig.driver.now();
    rig.stores.hosts[0].store.device_hangs(now, HUNG_AFTER);
    (rig.stores.touched, rig.stores.news) = (true, true);
    let first = rig.until(failed);
    assert!(first.contains("tried again in"), "{first}");
    // The disk says something else when it is mounted anew.
    for offset in amita_store::format::superblock::OFFSETS {
        rig.world.write_disk(DISK, offset, &[0x5a; 4096]);
    }
    let last = rig.until(|told| match told {
        FromCore::StoreStaysOut { why, .. } => Some(why.clone()),
        FromCore::StoreFailed { .. } => panic!("that was told"),
        _ => None,
    });
    assert!(!last.contains("tried again in"), "{last}");
}

/// A read of a volume that nobody has fenced: it is refused as soon as the store has it.
fn read(volume: VolumeId, number: u64) -> Request {
    Request {
        id: RequestId(number),
        store: STORE,
        scope: Scope {
            volume,
            generation: Generation(1),
            group: GroupId {
                pool: PoolId(1),
                index: GroupIndex(0),
            },
            epoch: Epoch(1),
            snapshot: SnapshotId::HEAD,
        },
        trace: TraceId::NONE,
        purpose: Purpose::Unsaid,
        body: RequestBody::Read(ReadRequest {
            chunk: ChunkIndex(0),
            range: BlockRange::new(0, 1),
            least: Version::NONE,
            versions: false,
            newest: None,
        }),
    }
}

#[test]
fn there_is_an_order_as_long_as_something_is_said_of_a_volume() {
    let mut rig = Rig::new();
    let mount = rig.mounted();
    rig.stores.admit(STORE, DISK, mount);
    rig.serves();
    rig.stores.depth = DepthLimits { least: 1, most: 1 };
    rig.stores.hosts[0].flushes = false;
    let (volume, now) = (VolumeId(1), rig.driver.now());
    let ask = |rig: &mut Rig, number: u64| {
        let request = read(volume, number);
        rig.stores.request(now, NodeId(1), LinkId(1), request, Slice::default());
    };
    let answered = |rig: &mut Rig| -> Vec<u64> {
        rig.stores.touched = true;
        rig.stores.run(&mut rig.driver);
        let replies = rig.stores.take_replies();
        replies.iter().map(|(_, answer, _)| answer.id.0).collect()
    };
    (1..=3).for_each(|number| ask(&mut rig, number));
    assert_eq!(rig.stores.turn_counts().count(), 0);
    assert_eq!(answered(&mut rig), [1, 2, 3]);

    let weighty = Priority {
        weight: Some(200),
        ..Priority::default()
    };
    rig.stores.rank(now, volume, Some(weighty));
    assert!(rig.stores.have_order());
    (4..=6).for_each(|number| ask(&mut rig, number));
    let counts = rig.stores.turn_counts().next().expect("there is an order").1;
    assert_eq!((counts.passed[0], counts.waiting, counts.depth), (1, 2, (1, 1)));
    assert_eq!(answered(&mut rig), [4]);
    // There is room, so the next pass is due, and brings the next one.
    assert_eq!(rig.stores.deadline(), Some(now));
    rig.stores.end_pass(now);
    assert_eq!(answered(&mut rig), [5]);
    // A link that closes takes along what waits of it.
    ask(&mut rig, 7);
    rig.stores.link_closed(now, LinkId(1));
    assert_eq!(answered(&mut rig), [6, 7]);

    (8..=10).for_each(|number| ask(&mut rig, number));
    rig.stores.rank(now, volume, None);
    assert_eq!(rig.stores.turn_counts().count(), 0);
    assert_eq!(answered(&mut rig), [8, 9, 10]);
}
