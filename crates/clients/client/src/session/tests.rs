use super::*;
use amita_frontend::engine::Usage;
use amita_frontend::memory::{MemoryService, Volumes};
use amita_types::io::IoError;
use amita_types::{SnapshotId, VolumeId};

const CHUNK: u32 = 1 << 20;
const SIZE: u64 = 64 << 20;

struct Scene {
    session: Session,
    service: MemoryService,
    volumes: Volumes,
    volume: Volume,
}

impl Scene {
    fn new() -> Scene {
        let pool = Pool::heap();
        let volumes = Volumes::new();
        volumes.add("v", SIZE, CHUNK, false);
        let mut service = MemoryService::new(volumes.clone(), pool.clone());
        let mut session = Session::new(FrontId(1), pool, 8 << 20);
        session.open(&mut service, "v", None);
        while let Some((_, event)) = service.events.pop_front() {
            session.event(&mut service, event);
        }
        let info = session.opened.take().unwrap().unwrap();
        let volume = session.add(info, 1);
        Scene {
            session,
            service,
            volumes,
            volume,
        }
    }

    /// Lets what was submitted end, and what that submits.
    fn run(&mut self) {
        loop {
            self.service.run();
            if self.service.events.is_empty() {
                return;
            }
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        while let Some((_, event)) = self.service.events.pop_front() {
            self.session.event(&mut self.service, event);
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8], tag: u64) -> Result<(), Error> {
        let data = Slice::copy_from(bytes);
        self.session.write(&mut self.service, &self.volume, offset, data, tag)
    }

    fn read(&mut self, offset: u64, bytes: u32, tag: u64) -> Result<(), Error> {
        self.session.read(&mut self.service, &self.volume, offset, bytes, tag)
    }

    fn one(&mut self) -> Done {
        assert_eq!(self.session.ended.len(), 1);
        self.session.ended.remove(0)
    }
}

fn noise(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8 ^ seed).collect()
}

#[test]
fn a_request_of_many_pieces_ends_once_in_whatever_order_they_end() {
    let mut scene = Scene::new();
    let (offset, data) = (u64::from(CHUNK) - 70_000, noise(700_001, 3));
    scene.write(offset, &data, 5).unwrap();
    assert!(scene.service.queue.len() > 5, "it is cut");
    while !scene.service.queue.is_empty() {
        scene.service.run_one(scene.service.queue.len() - 1);
        assert!(scene.session.ended.is_empty());
    }
    scene.deliver();
    let done = scene.one();
    assert_eq!((done.tag, done.result), (5, Ok(())));
    assert!(scene.volumes.read(VolumeId(1), offset, data.len()) == data);
    scene.read(offset, data.len() as u32, 6).unwrap();
    while !scene.service.queue.is_empty() {
        scene.service.run_one(scene.service.queue.len() / 2);
    }
    scene.deliver();
    let done = scene.one();
    assert_eq!((done.tag, done.result), (6, Ok(())));
    assert!(done.payload.to_vec() == data);
    assert_eq!(scene.session.under_way(), 0);
}

#[test]
fn one_piece_that_fails_fails_the_request_once_all_have_ended() {
    let mut scene = Scene::new();
    scene.service.fault = Some((300_000, IoError::NoSpace));
    scene.write(0, &noise(1 << 20, 1), 1).unwrap();
    scene.run();
    assert_eq!(scene.one().result, Err(IoError::NoSpace));
    scene.read(0, 1 << 20, 2).unwrap();
    scene.run();
    let done = scene.one();
    assert_eq!(done.result, Err(IoError::NoSpace));
    assert!(done.payload.is_empty(), "what of it was read is not shown");
    // A zeroing that fails begins nothing more.
    scene
        .session
        .write_zeroes(&mut scene.service, &scene.volume, 0, SIZE, 3)
        .unwrap();
    scene.run();
    assert_eq!(scene.one().result, Err(IoError::NoSpace));
    assert_eq!(*scene.session.engine.usage(), Usage::default());
}

#[test]
fn reads_wait_for_memory_in_order_and_writes_behind_them() {
    let mut scene = Scene::new();
    for tag in 0..16 {
        scene.read(tag << 20, 1 << 20, tag).unwrap();
    }
    scene.write(0, &noise(4096, 1), 16).unwrap();
    assert_eq!(scene.session.engine.usage().reading, 8 << 20);
    assert_eq!(scene.session.engine.waiting(), 9);
    scene.run();
    let mut tags: Vec<u64> = scene.session.ended.drain(..).map(|done| done.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..17).collect::<Vec<_>>());
    assert_eq!(*scene.session.engine.usage(), Usage::default());
}

#[test]
fn a_discard_of_everything_goes_by_a_window_and_holds_up_nobody() {
    let mut scene = Scene::new();
    scene.write(0, &noise(1 << 20, 1), 1).unwrap();
    scene.run();
    scene.one();
    let everything = (0, SIZE);
    scene
        .session
        .discard(&mut scene.service, &scene.volume, everything.0, everything.1, 2)
        .unwrap();
    assert_eq!(scene.service.queue.len(), WINDOW as usize);
    scene.read(4096, 4096, 3).unwrap();
    assert_eq!(scene.service.queue.len(), WINDOW as usize + 1);
    scene.run();
    let tags: Vec<u64> = scene.session.ended.iter().map(|done| done.tag).collect();
    assert_eq!(tags, [3, 2], "the read ends among the pieces of the first window");
    assert_eq!(scene.volumes.allocated_bytes(VolumeId(1)), 0);
}

#[test]
fn a_lost_volume_refuses_and_a_late_opening_is_undone() {
    let mut scene = Scene::new();
    scene.read(0, 4096, 1).unwrap();
    let lost = Event::Lost {
        source: VolumeId(1).into(),
        why: "taken over".to_owned(),
    };
    scene.session.event(&mut scene.service, lost);
    assert!(matches!(scene.read(0, 4096, 2), Err(Error::Lost { why, .. }) if why == "taken over"));
    scene.run();
    assert_eq!(scene.one().tag, 1);
    let (mut session, mut service) = (scene.session, scene.service);
    let open = service.open_count;
    session.close(&mut service, &scene.volume).unwrap();
    assert_eq!(service.open_count, open, "what is lost is not closed again");
    session.open(&mut service, "v", None);
    session.give_up_opening();
    let (_, event) = service.events.pop_front().unwrap();
    session.event(&mut service, event);
    assert!(session.opened.is_none());
    assert_eq!(service.open_count, open);
}

#[test]
fn slots_are_bounded_and_used_again() {
    let mut scene = Scene::new();
    for round in 0..3 {
        for tag in 0..MAX_REQUESTS as u64 {
            scene.read(0, 512, tag).unwrap();
        }
        assert!(matches!(scene.read(0, 512, 0), Err(Error::Full { .. })), "{round}");
        scene.run();
        // Ended ones count until they are taken.
        assert!(matches!(scene.read(0, 512, 0), Err(Error::Full { .. })), "{round}");
        scene.session.ended.clear();
    }
}

/// A volume and snapshots of it have one number: each request is of what it was begun on, each end of the one that it is about.
#[test]
fn a_volume_and_its_snapshots_are_open_beside_each_other() {
    let mut scene = Scene::new();
    scene.write(0, &[1; 4096], 1).unwrap();
    scene.run();
    assert_eq!(scene.one().result, Ok(()));
    let snapshot = |number, serial, session: &mut Session| {
        let info = VolumeInfo {
            id: VolumeId(1),
            snapshot: SnapshotId(number),
            name: format!("v@{number}"),
            size_bytes: SIZE / number as u64,
            chunk_bytes: CHUNK,
            read_only: true,
        };
        session.add(info, serial)
    };
    let head = scene.volume;
    let first = snapshot(1, 2, &mut scene.session);
    let second = snapshot(2, 3, &mut scene.session);
    assert_eq!((first.size_bytes(), second.size_bytes()), (SIZE, SIZE / 2));
    for (tag, volume) in [(1, &head), (2, &first), (3, &second)] {
        scene.session.read(&mut scene.service, volume, 0, 4096, tag).unwrap();
    }
    let of: Vec<_> = scene
        .service
        .queue
        .iter()
        .map(|piece| piece.source().snapshot)
        .collect();
    assert_eq!(of, [SnapshotId::HEAD, SnapshotId(1), SnapshotId(2)]);
    scene.run();
    scene.session.ended.clear();
    assert!(matches!(
        scene.session.read(&mut scene.service, &second, SIZE / 2, 4096, 4),
        Err(Error::OutOfRange { .. })
    ));
    // What would change it is refused.
    let data = Slice::copy_from(&[2; 4096]);
    scene.session.write(&mut scene.service, &first, 0, data, 5).unwrap();
    scene.session.discard(&mut scene.service, &second, 0, 4096, 6).unwrap();
    scene.run();
    let ends: Vec<_> = scene.session.ended.drain(..).map(|done| done.result).collect();
    assert_eq!(ends, [Err(IoError::ReadOnly); 2]);
    // The volume goes to another gateway: its snapshots are read there.
    let lost = Event::Lost {
        source: VolumeId(1).into(),
        why: "taken over".to_owned(),
    };
    scene.session.event(&mut scene.service, lost);
    assert!(matches!(scene.read(0, 4096, 7), Err(Error::Lost { .. })));
    scene.session.read(&mut scene.service, &first, 0, 4096, 8).unwrap();
    let lost = Event::Lost {
        source: snapshot_of_v(1),
        why: "the right has ended".to_owned(),
    };
    scene.session.event(&mut scene.service, lost);
    let of_first = scene.session.read(&mut scene.service, &first, 0, 4096, 9);
    assert!(matches!(of_first, Err(Error::Lost { volume, .. }) if volume == "v@1"));
    scene.session.read(&mut scene.service, &second, 0, 4096, 9).unwrap();
}

fn snapshot_of_v(number: u32) -> Source {
    Source {
        volume: VolumeId(1),
        snapshot: SnapshotId(number),
    }
}

/// What became of an opening to compare: the volume, if it is open.
fn open_since(scene: &mut Scene, since: &str) -> Result<Volume, OpenError> {
    scene.session.open(&mut scene.service, "v", Some(since));
    scene.deliver();
    let info = scene.session.opened.take().expect("it has ended")?;
    Ok(scene.session.add(info, 2))
}

#[test]
fn what_was_changed_is_told_by_extents() {
    let mut scene = Scene::new();
    scene.write(0, &noise(4096, 1), 1).unwrap();
    scene.run();
    scene.one();
    scene.volumes.take_snapshot(VolumeId(1), "monday");
    let volume = open_since(&mut scene, "monday").expect("there is one");
    scene.volume = volume;
    // Two blocks that touch, in part; one that is unmapped again; and the last one.
    scene.write(8191, &noise(2, 2), 1).unwrap();
    scene.write(40_960, &noise(4096, 3), 2).unwrap();
    scene.write(u64::from(CHUNK) - 4096, &noise(8192, 4), 3).unwrap();
    scene.run();
    let (session, service) = (&mut scene.session, &mut scene.service);
    session.discard(service, &volume, 40_960, 4096, 4).unwrap();
    scene.run();
    scene.session.ended.clear();
    let told = |scene: &mut Scene, offset: u64| -> Vec<Extent> {
        scene.session.changed(&mut scene.service, &volume, offset, 9).unwrap();
        scene.run();
        let done = scene.one();
        assert_eq!((done.tag, done.result), (9, Ok(())));
        volume.extents(offset, &done.payload).collect()
    };
    let extent = |offset, length, is_zero| Extent {
        offset,
        length,
        is_zero,
    };
    let chunk = u64::from(CHUNK);
    let first = [
        extent(4096, 8192, false),
        extent(40_960, 4096, true),
        extent(chunk - 4096, 4096, false),
    ];
    assert_eq!(told(&mut scene, 0), first);
    assert_eq!(told(&mut scene, 5000), first, "any byte of the chunk");
    assert_eq!(told(&mut scene, chunk), [extent(chunk, 4096, false)]);
    assert_eq!(told(&mut scene, 2 * chunk), []);
    let (session, service) = (&mut scene.session, &mut scene.service);
    session.changed_chunks(service, &volume, 5000, 10).unwrap();
    scene.run();
    let done = scene.one();
    assert_eq!((done.tag, done.result), (10, Ok(())));
    let chunks = done.payload.changed_chunks().expect("that was asked for");
    assert_eq!([0, 1, 2].map(|at| chunks.of(at)), [Some(true), Some(true), Some(false)]);
}

#[test]
fn what_cannot_be_compared_is_told() {
    let mut scene = Scene::new();
    let open = scene.service.open_count;
    let refused = open_since(&mut scene, "monday").unwrap_err();
    assert_eq!(refused, OpenError::NotFound);
    assert_eq!(scene.session.lacks_base(), Some("monday"));
    assert_eq!(scene.service.open_count, open, "it was not opened");
    let changed = scene.session.changed(&mut scene.service, &scene.volume, 0, 1);
    assert!(
        matches!(changed, Err(Error::NotCompared)),
        "it was opened without a snapshot"
    );
}
