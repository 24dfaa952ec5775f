//! Clients that run their core in the caller's thread, against nodes in the same process.

mod world;

use amita_client::{Error, IoError, Local, MAX_READ_WRITE_BYTES, Slice, Volume};
use amita_control::admin;
use std::time::{Duration, Instant};
use world::{PATIENCE, World, noise, reap};

fn buffer(local: &mut Local, bytes: &[u8]) -> Slice {
    let mut buffer = local.buffer(bytes.len()).expect("memory for a buffer");
    buffer.copy_from_slice(bytes);
    buffer.freeze()
}

fn write(local: &mut Local, volume: &Volume, offset: u64, bytes: &[u8]) {
    let data = buffer(local, bytes);
    local.write(volume, offset, data, 1).unwrap();
    assert_eq!(reap(local, 1)[0].result, Ok(()));
}

fn read(local: &mut Local, volume: &Volume, offset: u64, bytes: u32) -> Vec<u8> {
    local.read(volume, offset, bytes, 2).unwrap();
    let done = reap(local, 1).remove(0);
    assert_eq!(done.result, Ok(()));
    done.payload.to_vec()
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_written_is_read_by_it_and_by_others() {
    let world = World::new(3);
    let mut local = world.local();
    let volume = local.open("v").unwrap();
    assert_eq!(volume.size_bytes(), 64 << 20);
    // One block; across chunks, inside blocks, longer than a message; the last bytes of the volume.
    let ranges = [
        (0, 4096),
        ((4 << 20) - 5000, 300_001),
        (volume.size_bytes() - 77, 77),
        (12 << 20, MAX_READ_WRITE_BYTES as usize),
    ];
    for (seed, (offset, bytes)) in ranges.into_iter().enumerate() {
        let data = noise(bytes, seed as u64);
        write(&mut local, &volume, offset, &data);
        assert!(read(&mut local, &volume, offset, bytes as u32) == data, "at {offset}");
    }
    local.flush(&volume, 5).unwrap();
    assert_eq!(reap(&mut local, 1)[0].tag, 5);
    // Many at once, each ended once.
    for tag in 0..256 {
        let data = buffer(&mut local, &noise(4096, tag));
        local.write(&volume, (20 << 20) + tag * 4096, data, tag).unwrap();
    }
    let tags: Vec<u64> = reap(&mut local, 256).iter().map(|done| done.tag).collect();
    assert_eq!(tags, (0..256).collect::<Vec<u64>>());
    assert_eq!(local.under_way(), 0);
    local.close();
    let mut other = world.local();
    let volume = other.open("v").unwrap();
    for (seed, (offset, bytes)) in ranges.into_iter().enumerate() {
        let data = noise(bytes, seed as u64);
        assert!(read(&mut other, &volume, offset, bytes as u32) == data, "at {offset}");
    }
    for tag in 0..256 {
        assert!(read(&mut other, &volume, (20 << 20) + tag * 4096, 4096) == noise(4096, tag));
    }
}

#[test]
fn discards_and_zeroings_of_any_length() {
    let world = World::new(1);
    let mut local = world.local();
    let volume = local.open("v").unwrap();
    let data = noise(1 << 20, 3);
    for at in 0..32 {
        write(&mut local, &volume, at << 20, &data);
    }
    // Inside a block at both ends: the blocks in between go, the rest stays.
    local.discard(&volume, 5000, 20 << 20, 1).unwrap();
    local.write_zeroes(&volume, (24 << 20) + 100, 5 << 20, 2).unwrap();
    for done in reap(&mut local, 2) {
        assert_eq!(done.result, Ok(()));
    }
    let mut expected: Vec<u8> = (0..32).flat_map(|_| data.clone()).collect();
    expected[8192..(20 << 20) + 4096].fill(0);
    expected[(24 << 20) + 100..(29 << 20) + 100].fill(0);
    for at in 0..32 {
        let (from, to) = ((at << 20) as usize, ((at + 1) << 20) as usize);
        assert!(
            read(&mut local, &volume, at << 20, 1 << 20) == expected[from..to],
            "MiB {at}"
        );
    }
    // Nothing to be done is done at once.
    local.discard(&volume, 1, 100, 7).unwrap();
    assert_eq!(reap(&mut local, 1)[0].tag, 7);
}

#[test]
fn bad_input_is_refused_and_does_no_harm() {
    let world = World::new(1);
    let mut local = world.local();
    match local.open("nothing") {
        Err(Error::Open { volume, why }) => {
            assert_eq!((volume.as_str(), why.to_string().is_empty()), ("nothing", false))
        }
        other => panic!("{other:?}"),
    }
    let volume = local.open("v").unwrap();
    let size = volume.size_bytes();
    let block = buffer(&mut local, &noise(4096, 1));
    assert!(matches!(
        local.write(&volume, size - 100, block.clone(), 1),
        Err(Error::OutOfRange { .. })
    ));
    assert!(matches!(
        local.write(&volume, u64::MAX - 10, block.clone(), 1),
        Err(Error::OutOfRange { .. })
    ));
    assert!(matches!(local.read(&volume, size, 1, 1), Err(Error::OutOfRange { .. })));
    assert!(matches!(local.read(&volume, 0, 0, 1), Err(Error::Length { .. })));
    assert!(matches!(
        local.read(&volume, 0, MAX_READ_WRITE_BYTES + 1, 1),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        local.write(&volume, 0, Slice::default(), 1),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        local.discard(&volume, 0, size + 1, 1),
        Err(Error::OutOfRange { .. })
    ));
    // As many as there may be, and one more.
    for tag in 0..amita_client::MAX_REQUESTS as u64 {
        local.read(&volume, 0, 4096, tag).unwrap();
    }
    assert!(matches!(local.read(&volume, 0, 4096, 1), Err(Error::Full { .. })));
    reap(&mut local, amita_client::MAX_REQUESTS);
    local.close_volume(&volume).unwrap();
    assert!(matches!(local.close_volume(&volume), Err(Error::NotOpen)));
    assert!(matches!(local.write(&volume, 0, block, 1), Err(Error::NotOpen)));
    // Another client's handle is none of this one's.
    let again = local.open("v").unwrap();
    assert_ne!(again, volume);
    assert!(matches!(local.flush(&volume, 1), Err(Error::NotOpen)));
    assert!(local.flush(&again, 1).is_ok());
}

#[test]
fn a_volume_is_one_clients_until_it_lets_go() {
    let world = World::new(1);
    let mut first = world.local();
    let volume = first.open("v").unwrap();
    write(&mut first, &volume, 0, &noise(4096, 1));
    // While the first uses it (and lets its core run), nobody else gets it.
    let config = world.config();
    let second = std::thread::spawn(move || {
        let mut second = Local::connect(&config).unwrap();
        let refused = matches!(second.open("v"), Err(Error::Open { .. }));
        (refused, second.close())
    });
    let mut done = Vec::new();
    while !second.is_finished() {
        first.wait(Duration::from_millis(5), &mut done);
    }
    assert!(second.join().unwrap().0, "a volume in use is refused");
    // It is let go of: the next one gets it, and what is still asked for here ends with an error.
    first.close_volume(&volume).unwrap();
    let config = world.config();
    let second = std::thread::spawn(move || {
        let mut second = Local::connect(&config).unwrap();
        let volume = second.open("v").unwrap();
        read(&mut second, &volume, 0, 4096)
    });
    while !second.is_finished() {
        first.wait(Duration::from_millis(5), &mut done);
    }
    assert!(second.join().unwrap() == noise(4096, 1));
}

#[test]
fn a_client_that_stands_still_loses_its_volume_and_is_told() {
    let world = World::new(3);
    let mut first = world.local();
    let volume = first.open("v").unwrap();
    write(&mut first, &volume, 0, &noise(4096, 1));
    // The first makes no call: it answers nobody, and the second takes over.
    let mut second = world.local();
    let taken = second.open("v").unwrap();
    write(&mut second, &taken, 0, &noise(4096, 2));
    // What it begins now fails (or is refused, if it has heard already), and never shows what is old.
    let mut done = Vec::new();
    let until = Instant::now() + PATIENCE;
    let mut tag = 0;
    let why = loop {
        tag += 1;
        match first.read(&volume, 0, 4096, tag) {
            Err(Error::Lost { why, .. }) => break why,
            Err(why) => panic!("{why}"),
            Ok(()) => {}
        }
        first.wait(Duration::from_millis(100), &mut done);
        for done in done.drain(..) {
            match done.result {
                Ok(()) => assert!(done.payload.to_vec() == noise(4096, 2), "an old state was shown"),
                Err(why) => assert_eq!(why, IoError::Lost),
            }
        }
        assert!(Instant::now() < until, "the first is never told");
    };
    assert!(!why.is_empty());
    assert!(first.close_volume(&volume).is_ok());
    assert!(read(&mut second, &taken, 0, 4096) == noise(4096, 2));
}

#[test]
fn a_client_leaves_no_record_and_a_dead_one_is_not_missed() {
    let world = World::new(1);
    let nodes = || admin::nodes(&world.meta).unwrap().len();
    let local = world.local();
    let seen = admin::status(&world.meta).unwrap();
    assert_eq!(
        seen.nodes
            .iter()
            .filter(|found| found.node.client && found.alive)
            .count(),
        1
    );
    assert_eq!(nodes(), 2);
    local.close();
    assert_eq!(nodes(), 1);
    assert_eq!(admin::status(&world.meta).unwrap().warnings, Vec::<String>::new());
    // Somebody takes the record of a living one out (its lease had ended): it comes back.
    let mut local = world.local();
    let volume = local.open("v").unwrap();
    let found = admin::nodes(&world.meta).unwrap();
    let record = found.iter().find(|node| node.client).unwrap();
    admin::forget_client(&world.meta, record).unwrap();
    await_that("the record comes back", || nodes() == 2);
    write(&mut local, &volume, 0, &noise(4096, 1));
}

#[test]
fn a_wait_ends_at_its_limit_whatever_came_before() {
    let world = World::new(1);
    let mut local = world.local();
    let volume = local.open("v").unwrap();
    let mut done = Vec::new();
    let wait = |local: &mut Local, done: &mut Vec<_>, limit_ms| {
        let start = Instant::now();
        local.wait(Duration::from_millis(limit_ms), done);
        assert!(start.elapsed() < PATIENCE, "it never ends");
        start.elapsed() >= Duration::from_millis(limit_ms)
    };
    for round in 0..20 {
        assert!(
            wait(&mut local, &mut done, 3) && done.is_empty(),
            "nothing is under way"
        );
        // This leaves an alarm behind that rings in a poll.
        local.read(&volume, 0, 4096, round).unwrap();
        local.wait(Duration::from_millis(10), &mut done);
        std::thread::sleep(Duration::from_millis(11));
        let start = Instant::now();
        while done.is_empty() {
            assert!(start.elapsed() < PATIENCE, "it never ends");
            local.poll(&mut done);
        }
        assert_eq!(done.drain(..).count(), 1);
        assert!(wait(&mut local, &mut done, 5));
        // Another thread ends it early, as often as it likes: it goes on to its limit.
        let waker = local.waker();
        let other = std::thread::spawn(move || (0..10).for_each(|_| waker.wake()));
        assert!(wait(&mut local, &mut done, 5));
        other.join().unwrap();
    }
}

#[test]
fn copies_in_the_process_are_read_there() {
    let world = World::without_pool(1);
    let mut config = world.config();
    assert!(
        Local::connect(&{
            let mut nameless = config.clone();
            nameless.stores = vec![world.spare_store()];
            nameless
        })
        .is_err()
    );
    config.name = Some("hyper".to_owned());
    config.stores = vec![world.spare_store()];
    let mut local = Local::connect(&config).unwrap();
    assert_eq!(local.stores(), 1);
    world.make_pool(2);
    let volume = local.open("v").unwrap();
    let data = noise(1 << 20, 9);
    write(&mut local, &volume, 3 << 20, &data);
    assert!(read(&mut local, &volume, 3 << 20, 1 << 20) == data);
    local.close();
    // A node with stores is missed when it is away.
    let seen = admin::status(&world.meta).unwrap();
    assert!(
        seen.nodes
            .iter()
            .any(|found| found.node.name == "hyper" && !found.alive)
    );
}
