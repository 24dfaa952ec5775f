mod closed;
mod held;
mod hostile;
mod iscsi;
mod locks;
mod losses;
mod named;
mod nvme;
mod observe;
mod peers;
mod slowed;

use super::*;
use crate::directory::OpeningId;
use crate::faults::{Fault, Faults};
use crate::forwarder::Work;
use crate::mail::{Origin, VolumeMessage, VolumeRoute};
use crate::trace::TraceConfig;
use amita_frontend::{Event, Flow, Front, FrontId, StorageService};
use amita_reactor::sim::{SimConfig, SimDriver, World};
use amita_reactor::{Inbox, Outbox, Pool};
use amita_sequencer::Opened;
use amita_types::condition::Failing;
use amita_types::io::{IoError, Op};
use amita_types::map::{self, PoolKind};
use amita_types::{ClusterId, Epoch, Generation, GroupIndex, NodeId, PoolId, StoreId, TraceId, VolumeId};
use std::cell::RefCell;

const VOLUME: VolumeId = VolumeId(7);
const CLUSTER: ClusterId = ClusterId(1);

/// A host's session that keeps what it hears.
#[derive(Default)]
struct Session(Rc<RefCell<Vec<Event>>>);

impl Front for Session {
    fn received(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn event(&mut self, _: Time, event: Event, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        self.0.borrow_mut().push(event);
        Flow::Go
    }

    fn tick(&mut self, _: Time, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn wants_input(&self) -> bool {
        false
    }

    fn receive_bytes(&self) -> usize {
        0
    }

    fn end_pass(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn closed(&mut self, _: &mut dyn StorageService) {}
}

/// The only core of a node, with a host, and without any store that it could reach.
struct Rig {
    world: World,
    driver: SimDriver,
    core: Core,
    front: FrontId,
    heard: Rc<RefCell<Vec<Event>>>,
}

impl Rig {
    fn new() -> Rig {
        let mut world = World::new(1, SimConfig::default());
        let driver = world.driver(1);
        let node = NodeId(1);
        let config = CoreConfig {
            node,
            core: 0,
            cores: 1,
            stores: 0,
            links_per_peer: 1,
            dials_others: true,
            secret_links: true,
            refused_for: REFUSED_FOR,
            silent_for: SILENT_FOR,
            stale_after: Duration::from_secs(1),
            nvme: amita_nvme::Config::default(),
            iscsi: amita_iscsi::Config::default(),
            fabric: amita_fabric::Config::new(CLUSTER, node, 1, driver.pool().clone()),
            store: amita_store::Config::default(),
            sequencer: amita_sequencer::Config::default(),
            opener: amita_sequencer::OpenerConfig::new(node, ""),
            moves: false,
            trace: TraceConfig::default(),
            faults: Faults::NONE,
        };
        let mut core = Core::new(config, Mail::alone());
        let heard = Rc::new(RefCell::new(Vec::new()));
        let front = core.fronts.attach(|_| Box::new(Session(heard.clone())));
        Rig {
            world,
            driver,
            core,
            front,
            heard,
        }
    }

    fn pass(&mut self) {
        self.world.next_until(self.world.now().plus(Duration::from_millis(1)));
        let mut completions = Vec::new();
        self.driver.poll(Wait::No, &mut completions);
        self.core.pass(&mut self.driver, &mut completions);
    }

    fn make_shard(&mut self, generation: u32) {
        let opened = Box::new(opened(Generation(generation)));
        self.core
            .on_mail(&mut self.driver, VolumeMessage::MakeShard { opened }.into());
        self.pass();
    }

    fn write(&mut self, tag: u64) {
        let front = self.front;
        let (offset, length) = (0, 4096);
        self.core.fronts.with(front, |_, service| {
            let payload = amita_reactor::Slice::copy_from(&[1; 4096]);
            service.submit(front, tag, VOLUME.into(), Op::Write { offset, length }, payload);
        });
        self.pass();
    }

    /// The directory has said where the volume's I/O goes.
    fn sought(&mut self, way: VolumeRoute) {
        let now = self.core.cx.clock.began();
        let core = &mut self.core;
        core.forwarding.sought(&mut core.cx, now, VOLUME, way);
        self.pass();
    }

    /// How the I/Os of the host have ended.
    fn ended(&self) -> Vec<(u64, Result<(), IoError>)> {
        let heard = self.heard.borrow();
        let done = heard.iter().filter_map(|event| match event {
            Event::Done { tag, result, .. } => Some((*tag, *result)),
            _ => None,
        });
        done.collect()
    }

    /// The directory says that a volume is lost.
    fn lose(&mut self, volume: VolumeId, generation: u32) {
        let lost = VolumeMessage::Lost {
            volume,
            generation: Some(Generation(generation)),
            why: "another gateway has it".to_owned(),
            known: self.core.cx.view.known_by(volume),
        };
        self.core.on_mail(&mut self.driver, lost.into());
        self.pass();
    }

    fn was_told_of_the_loss(&self) -> bool {
        let heard = self.heard.borrow();
        heard.iter().any(|event| matches!(event, Event::Lost { .. }))
    }
}

fn opened(generation: Generation) -> Opened {
    let store = StoreId(9);
    Opened {
        keys: None,
        volume: map::Volume {
            generation,
            owner: Some(NodeId(1)),
            ..map::Volume::new(VOLUME, "v", "p", 1 << 30)
        },
        volume_revision: 1,
        pool: map::Pool {
            failure_domain: amita_types::placement::Level::Node,
            class: None,
            id: PoolId(1),
            name: "p".to_owned(),
            kind: PoolKind::Replicated {
                copies: 1,
                min_copies: 1,
            },
            groups: 1,
            chunk_bytes: 4 << 20,
        },
        generation,
        given_back: None,
        owner: NodeId(1),
        groups: vec![(
            map::Group {
                index: GroupIndex(0),
                epoch: Epoch(1),
                members: vec![store],
                in_sync: vec![store],
                syncing: Vec::new(),
            },
            1,
        )],
        reservation: None,
    }
}

/// Another core has found the volume lost; its word is on another ring than the directory's, which has opened the volume again.
#[test]
fn what_is_under_way_ends_when_a_newer_sequencer_overtakes_the_end_of_the_older_one() {
    let mut rig = Rig::new();
    rig.make_shard(3);
    rig.write(1);
    assert!(rig.ended().is_empty());
    rig.make_shard(5);
    assert_eq!(rig.ended(), [(1, Err(IoError::Lost))]);
    assert!(!rig.was_told_of_the_loss(), "that is the directory's to say");
    rig.heard.borrow_mut().clear();

    // The late word of the older one's end finds nothing to do.
    rig.write(2);
    let late = VolumeMessage::DropShard {
        volume: VOLUME,
        generation: Generation(3),
        why: "late".to_owned(),
        handed_over: false,
    };
    rig.core.on_mail(&mut rig.driver, late.into());
    rig.pass();
    assert!(rig.ended().is_empty() && !rig.was_told_of_the_loss());
    assert_eq!(rig.core.cx.shards.generation(VOLUME), Some(Generation(5)));
}

/// A session knows a volume by the number that it had when that was opened. What it has become is lost: it is told by that number, though it asks for nothing.
/// What it was is lost late, to the core that found that: nobody is told, for it goes on with what it has become.
#[test]
fn who_has_opened_a_volume_before_it_moved_is_told_when_what_it_has_become_is_lost() {
    const BEFORE: VolumeId = VolumeId(6);
    let mut rig = Rig::new();
    for (id, host) in [(BEFORE, None), (VOLUME, Some(BEFORE))] {
        let lineage = map::Lineage {
            host,
            ..map::Lineage::default()
        };
        let record = map::Volume {
            id,
            lineage,
            ..opened(Generation(3)).volume
        };
        rig.core.cx.view.apply(&crate::control::Record {
            key: map::volume_key(&record.name),
            value: Some(serde_json::to_vec(&record).unwrap()),
            revision: 1,
            created: 1,
        });
    }
    let told = |rig: &Rig| {
        let heard = rig.heard.borrow();
        let lost = heard.iter().filter_map(|event| match event {
            Event::Lost { source, .. } => Some(source.volume),
            _ => None,
        });
        lost.collect::<Vec<VolumeId>>()
    };
    rig.make_shard(3);
    rig.lose(BEFORE, 3);
    assert!(told(&rig).is_empty(), "it goes on");
    rig.lose(VOLUME, 3);
    assert_eq!(told(&rig), [BEFORE, VOLUME]);
    assert_eq!(rig.core.cx.shards.generation(VOLUME), None);
}

/// The volume is closed for a mirror. A host that hears of a loss, or of a path, asks again until it is let in, and then writes over what the other end
/// has acknowledged since: it hears the last word, of what is under way and of all that comes.
#[test]
fn what_hosts_have_under_way_of_a_volume_that_is_closed_ends_for_good() {
    let mut rig = Rig::new();
    rig.make_shard(3);
    rig.write(1);
    assert!(rig.ended().is_empty());
    let record = map::Volume {
        owner: None,
        closed: Some(Box::new(map::Closed {
            mirror: amita_types::MirrorId(77),
            name: "dr".to_owned(),
            since: Generation(4),
        })),
        ..opened(Generation(4)).volume
    };
    rig.core.cx.view.apply(&crate::control::Record {
        key: map::volume_key(&record.name),
        value: Some(serde_json::to_vec(&record).unwrap()),
        revision: 1,
        created: 1,
    });
    rig.lose(VOLUME, 3);
    assert_eq!(rig.ended(), [(1, Err(IoError::Closed))]);
    assert!(rig.was_told_of_the_loss());
    rig.heard.borrow_mut().clear();
    // It has opened the volume for itself; and one that the volume is a namespace or a LUN of.
    rig.write(2);
    rig.core.fronts.with(rig.front, |_, service| {
        service.identify(rig.front, frontend::HostKey(9));
    });
    rig.write(3);
    assert_eq!(rig.ended(), [(2, Err(IoError::Closed))], "its record is read first");
    rig.sought(VolumeRoute::Closed);
    assert_eq!(rig.ended(), [(2, Err(IoError::Closed)), (3, Err(IoError::Closed))]);
    // The owner itself says so, whatever is known here.
    let mut rig = Rig::new();
    let opened = Box::new(Opened {
        volume: record,
        ..opened(Generation(5))
    });
    rig.core
        .on_mail(&mut rig.driver, VolumeMessage::MakeShard { opened }.into());
    rig.write(6);
    assert_eq!(rig.ended(), [(6, Err(IoError::Closed))]);
}

/// The volume was opened again, and this node has not heard of it: a host that heard the last word here would try no other path.
#[test]
fn what_is_known_late_of_a_volume_that_was_closed_is_no_last_word() {
    let mut rig = Rig::new();
    let record = map::Volume {
        owner: None,
        closed: Some(Box::new(map::Closed {
            mirror: amita_types::MirrorId(77),
            name: "dr".to_owned(),
            since: Generation(4),
        })),
        ..opened(Generation(4)).volume
    };
    rig.core.cx.view.apply(&crate::control::Record {
        key: map::volume_key(&record.name),
        value: Some(serde_json::to_vec(&record).unwrap()),
        revision: 1,
        created: 1,
    });
    rig.core.fronts.with(rig.front, |_, service| {
        service.identify(rig.front, frontend::HostKey(9));
    });
    rig.write(1);
    rig.sought(VolumeRoute::There(NodeId(2)));
    assert!(rig.ended().is_empty(), "it goes to its owner: {:?}", rig.ended());
    assert_eq!(rig.core.forwarding.forwarder.counts(), (0, 1));
    // It was this node's, and another one has it now.
    let mut rig = Rig::new();
    rig.make_shard(5);
    rig.write(2);
    rig.core.cx.view.apply(&crate::control::Record {
        key: map::volume_key(&record.name),
        value: Some(serde_json::to_vec(&record).unwrap()),
        revision: 1,
        created: 1,
    });
    let drop = VolumeMessage::DropShard {
        volume: VOLUME,
        generation: Generation(5),
        why: "another gateway has it".to_owned(),
        handed_over: false,
    };
    rig.core.on_mail(&mut rig.driver, drop.into());
    rig.pass();
    assert_eq!(rig.ended(), [(2, Err(IoError::Lost))]);
}

/// The word of a sequencer's end and the word to make it come by different rings.
#[test]
fn a_sequencer_that_was_dropped_before_it_was_made_is_not_made() {
    let mut rig = Rig::new();
    let end = VolumeMessage::DropShard {
        volume: VOLUME,
        generation: Generation(3),
        why: "lost".to_owned(),
        handed_over: false,
    };
    rig.core.on_mail(&mut rig.driver, end.into());
    rig.make_shard(3);
    assert_eq!(rig.core.cx.shards.generation(VOLUME), None);
    rig.make_shard(4);
    assert_eq!(rig.core.cx.shards.generation(VOLUME), Some(Generation(4)));
}

/// Each new beginning of its tags would have 8 KiB kept of a gateway for as long as it lives.
#[test]
fn what_is_kept_of_a_gateway_is_kept_of_each_of_its_cores_and_of_nothing_else() {
    let mut rig = Rig::new();
    let (link, node, session) = (amita_fabric::Link(1), NodeId(2), 9);
    let live = map::Live {
        session,
        pid: 1,
        stores: None,
        version: map::METADATA_VERSION,
    };
    rig.core.cx.view.apply(&crate::control::Record {
        key: map::live_key(node),
        value: Some(serde_json::to_vec(&live).unwrap()),
        revision: 1,
        created: 1,
    });
    rig.core.forwarding.receiving.link_opened(link, node);
    let now = rig.driver.now();
    for top in 0..1 << 16 {
        let clear = amita_fabric::Forward {
            // A core and a part of it in the upper bits; the count is below.
            tag: top << 40 | 1,
            session,
            host: [0; 16],
            volume: VOLUME,
            generation: Generation(1),
            op: amita_fabric::ForwardOp::Clear,
            offset: 0,
            length: 4096,
            crc: 0,
            as_of: now.0,
            snapshot: amita_types::SnapshotId::HEAD,
        };
        let nothing = amita_reactor::Slice::default();
        rig.core
            .forwarding
            .on_forward(&mut rig.core.cx, now, link, clear, nothing);
    }
    assert_eq!(rig.core.forwarding.receiving.windows(), 1, "core 0's");
}

/// An NBD session has opened the volume, which is on its way to another gateway: what it has written waits. Its host connects anew, writes the same and
/// something else to the same place, and both are acknowledged: were the first one sent to the new owner then, the last would be gone.
#[test]
fn what_waits_of_a_session_for_an_owner_goes_with_it() {
    let mut rig = Rig::new();
    let now = rig.driver.now();
    let origin = rig.core.cx.origin(now, rig.front, 1);
    assert_eq!(origin.host, frontend::HostKey::NONE);
    let (offset, length) = (0, 4096);
    let work = Work::Io(Op::Write { offset, length });
    let core = &mut rig.core;
    core.forwarding.forwarder.pause_for_keys(now, VOLUME);
    core.forwarding
        .wait(&mut core.cx, now, VOLUME, origin, work, amita_reactor::Slice::default());
    assert_eq!(rig.core.forwarding.forwarder.counts(), (0, 1));
    rig.core.fronts.detach(&mut rig.driver, rig.front);
    rig.pass();
    assert_eq!(rig.core.forwarding.forwarder.counts(), (0, 0));
}

/// Nothing of a host waits any more when the next message is looked at.
#[test]
fn hosts_are_dropped_before_mail_is_taken_in() {
    let mut rig = Rig::new();
    rig.make_shard(3);
    let now = rig.driver.now();
    let origin = Origin {
        core: 0,
        front: rig.front,
        tag: 1,
        arrived: now,
        parsed: now,
        kept: now,
        trace: TraceId::NONE,
        host: frontend::HostKey(9),
        generation: Generation(0),
        snapshot: amita_types::SnapshotId::HEAD,
    };
    let read = Op::Read {
        offset: 0,
        length: 4096,
    };
    rig.core.forwarding.forwarder.halt();
    let work = Work::Io(read);
    rig.core.forwarding.wait(
        &mut rig.core.cx,
        now,
        VOLUME,
        origin,
        work,
        amita_reactor::Slice::default(),
    );
    assert_eq!(rig.core.forwarding.forwarder.counts(), (0, 1), "hosts go first");
    rig.pass();
    assert!(!rig.core.forwarding.forwarder.is_halted());
    assert_eq!(rig.core.forwarding.forwarder.counts(), (0, 0));
}

/// The volume is in the recycle bin, and a clone needs one of its chunks opened: only that waits for an owner.
#[test]
fn of_a_deleted_volume_hosts_are_served_nothing_and_clones_what_they_need() {
    let mut rig = Rig::new();
    let record = map::Volume {
        name: map::hidden_name(VOLUME),
        owner: None,
        ..opened(Generation(3)).volume
    };
    let value = serde_json::to_vec(&record).unwrap();
    rig.core.control(ToCore::Record(crate::control::Record {
        key: map::volume_key(&record.name),
        value: Some(value),
        revision: 1,
        created: 1,
    }));
    rig.pass();
    let now = rig.core.cx.clock.began();
    let asked = Asked {
        clone: (VolumeId(8), Generation(4)),
        volume: VOLUME,
        snapshot: amita_types::SnapshotId(1),
        chunk: amita_types::ChunkIndex(0),
        chunk_bytes: 4 << 20,
    };
    parents::read(&mut rig.core, now, asked);
    let origin = rig.core.cx.origin(now, rig.front, 5);
    let (offset, length) = (0, 4096);
    let work = Work::Io(Op::Read { offset, length });
    let core = &mut rig.core;
    core.forwarding
        .wait(&mut core.cx, now, VOLUME, origin, work, amita_reactor::Slice::default());
    assert_eq!(rig.core.forwarding.forwarder.counts(), (0, 1));
    rig.pass();
    assert_eq!(rig.ended(), [(5, Err(IoError::Unavailable))]);
    rig.pass();
    assert_eq!(rig.core.forwarding.forwarder.counts(), (0, 1), "it is being opened");
}

/// Another node owns an encrypted volume. What it holds goes there by links that nobody else can read, and by no others; what tells
/// nothing of that goes by any.
#[test]
fn the_data_of_an_encrypted_volume_is_forwarded_by_secret_links_alone() {
    let key = map::KeyName {
        volume: VOLUME,
        image: VOLUME,
        number: map::KeyNumber(1),
    };
    let (offset, length) = (0, 4096);
    for (encrypted, secret, refused) in [(true, false, true), (true, true, false), (false, false, false)] {
        let mut rig = Rig::new();
        rig.core.cx.config.secret_links = secret;
        let record = map::Volume {
            owner: Some(NodeId(2)),
            keys: encrypted.then(|| map::KeyRing::new(key)),
            ..opened(Generation(3)).volume
        };
        rig.core.control(ToCore::Record(crate::control::Record {
            key: map::volume_key(&record.name),
            value: Some(serde_json::to_vec(&record).unwrap()),
            revision: 1,
            created: 1,
        }));
        rig.pass();
        let now = rig.core.cx.clock.began();
        let ops = [
            Op::Read { offset, length },
            Op::Write { offset, length },
            Op::Allocation { offset },
        ];
        for (tag, op) in ops.into_iter().enumerate() {
            let mut origin = rig.core.cx.origin(now, rig.front, tag as u64);
            origin.host = frontend::HostKey(9);
            let (core, payload) = (&mut rig.core, amita_reactor::Slice::default());
            core.forwarding
                .wait(&mut core.cx, now, VOLUME, origin, Work::Io(op), payload);
        }
        let there = VolumeRoute::There(NodeId(2));
        let core = &mut rig.core;
        core.forwarding.sought(&mut core.cx, now, VOLUME, there);
        let waiting = if refused { 1 } else { 3 };
        assert_eq!(
            rig.core.forwarding.forwarder.counts(),
            (0, waiting),
            "{encrypted} {secret}"
        );
        let troubles = rig.core.cx.shards.take_troubles();
        let told: Vec<_> = troubles
            .iter()
            .map(|(volume, failing, _)| (*volume, *failing))
            .collect();
        match refused {
            true => assert_eq!(told, [(VOLUME, Failing::Reads), (VOLUME, Failing::Writes)]),
            false => assert!(told.is_empty(), "{told:?}"),
        }
        rig.pass();
        let ended: Vec<u64> = rig.ended().into_iter().map(|(tag, _)| tag).collect();
        let refusals: &[u64] = if refused { &[0, 1] } else { &[] };
        assert_eq!(ended, refusals);
    }
}

impl Rig {
    /// The record of the volume, which nobody owns, as the metadata has it from now on.
    fn limit(&mut self, revision: u64, iops: Option<u64>) {
        let limit = |rate: u64| map::Limits {
            iops: map::Measures {
                both: Some(map::Limit {
                    rate,
                    burst: rate / 10 + 2,
                    peak: None,
                }),
                ..map::Measures::default()
            },
            ..map::Limits::default()
        };
        let record = map::Volume {
            owner: None,
            limits: iops.map(limit).map(Box::new),
            ..opened(Generation(3)).volume
        };
        self.core.control(ToCore::Record(crate::control::Record {
            key: map::volume_key(&record.name),
            value: Some(serde_json::to_vec(&record).unwrap()),
            revision,
            created: 1,
        }));
    }
}

/// The limit goes, and in the same pass the host has something more. (Nobody has the volume open, so that each ends as it is routed.)
#[test]
fn what_has_waited_for_a_limit_goes_before_what_comes_when_that_is_gone() {
    let mut rig = Rig::new();
    rig.limit(1, Some(10));
    rig.pass();
    rig.write(1);
    rig.write(2);
    assert!(rig.ended().is_empty());
    rig.limit(2, None);
    rig.write(3);
    rig.pass();
    let tags: Vec<u64> = rig.ended().into_iter().map(|(tag, _)| tag).collect();
    assert_eq!(tags, [1, 2, 3]);
}

/// What that is for: without it the first write would never end.
#[test]
fn a_forgotten_sequencer_ends_nothing() {
    let mut rig = Rig::new();
    rig.core.cx.config.faults = Faults::NONE.with(Fault::ForgetOldShard);
    rig.make_shard(3);
    rig.write(1);
    rig.make_shard(5);
    for _ in 0..10_000 {
        rig.pass();
    }
    assert!(rig.ended().is_empty());
}
