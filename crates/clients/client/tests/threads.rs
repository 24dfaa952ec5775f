//! Clients whose core has a thread of its own.

mod world;

use amita_client::{Client, Done, Error, IoError, Queue, Volume};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use world::{PATIENCE, World, noise};

fn reap(queue: &mut Queue, count: usize) -> Vec<Done> {
    let mut done = Vec::new();
    let until = Instant::now() + PATIENCE;
    while done.len() < count {
        assert!(Instant::now() < until, "{} of {count} ended", done.len());
        queue.wait(Duration::from_secs(1), &mut done);
    }
    done.sort_by_key(|done| done.tag);
    done
}

fn write(queue: &mut Queue, volume: &Volume, offset: u64, bytes: &[u8], tag: u64) {
    let mut buffer = queue.buffer(bytes.len()).expect("memory");
    buffer.copy_from_slice(bytes);
    queue.write(volume, offset, buffer.freeze(), tag).unwrap();
}

#[test]
fn threads_share_a_volume_by_queues() {
    let world = World::new(3);
    let client = Client::connect(&world.config()).unwrap();
    let volume = client.open("v").unwrap();
    std::thread::scope(|scope| {
        for number in 0..3_u64 {
            let mut queue = client.queue(32).unwrap();
            scope.spawn(move || {
                let place = |at: u64| (number << 24) + at * 8192;
                for round in 0..20_u64 {
                    for at in 0..32 {
                        write(
                            &mut queue,
                            &volume,
                            place(at),
                            &noise(8192, number << 32 | round << 8 | at),
                            at,
                        );
                    }
                    assert!(matches!(queue.flush(&volume, 0), Err(Error::Full { most: 32 })));
                    assert!(reap(&mut queue, 32).iter().all(|done| done.result.is_ok()));
                    for at in 0..32 {
                        queue.read(&volume, place(at), 8192, at).unwrap();
                    }
                    for done in reap(&mut queue, 32) {
                        let expected = noise(8192, number << 32 | round << 8 | done.tag);
                        assert!(done.payload.to_vec() == expected, "queue {number}, round {round}");
                    }
                }
                assert_eq!(queue.under_way(), 0);
            });
        }
    });
    // The queues are gone; a new one takes a number of theirs.
    let mut queue = client.queue(4).unwrap();
    queue.discard(&volume, 0, volume.size_bytes(), 1).unwrap();
    queue.write_zeroes(&volume, 4095, 2, 2).unwrap();
    assert!(reap(&mut queue, 2).iter().all(|done| done.result.is_ok()));
    queue.read(&volume, 0, 1 << 20, 3).unwrap();
    assert!(reap(&mut queue, 1)[0].payload.to_vec().iter().all(|byte| *byte == 0));
    client.close();
}

/// Does the event file count something? `/proc` says so without taking it.
fn is_readable(fd: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
    let line = text.lines().find(|line| line.starts_with("eventfd-count:")).unwrap();
    u64::from_str_radix(line.rsplit(' ').next().unwrap(), 16).unwrap() > 0
}

#[test]
fn the_event_file_speaks_when_there_is_something_and_is_silent_after() {
    let world = World::new(1);
    let client = Client::connect(&world.config()).unwrap();
    let volume = client.open("v").unwrap();
    let mut queue = client.queue(8).unwrap();
    let fd = queue.event_fd().as_raw_fd();
    let mut done = Vec::new();
    for round in 0..50 {
        queue.poll(&mut done);
        assert!(
            done.is_empty() && !is_readable(fd),
            "round {round}: nothing is under way"
        );
        write(&mut queue, &volume, 0, &noise(4096, round), round);
        let until = Instant::now() + PATIENCE;
        while !is_readable(fd) {
            assert!(Instant::now() < until, "round {round}: it never speaks");
            std::thread::sleep(Duration::from_micros(100));
        }
        queue.poll(&mut done);
        assert_eq!(done.drain(..).map(|done| done.tag).collect::<Vec<_>>(), [round]);
        assert!(!is_readable(fd), "round {round}: it was taken");
    }
}

#[test]
fn what_cannot_be_is_refused_and_what_is_lost_is_told() {
    let world = World::new(1);
    let mut nowhere = world.config();
    nowhere.metadata = vec!["127.0.0.1:1".to_owned()];
    nowhere.metadata_patience = Duration::from_millis(10);
    assert!(matches!(Client::connect(&nowhere), Err(Error::Join(_))));
    let client = Client::connect(&world.config()).unwrap();
    assert!(matches!(client.open("nothing"), Err(Error::Open { .. })));
    assert!(matches!(client.queue(0), Err(Error::Setting { .. })));
    assert!(matches!(client.queue(1 << 20), Err(Error::Setting { .. })));
    let volume = client.open("v").unwrap();
    let mut queue = client.queue(4).unwrap();
    assert!(matches!(
        queue.read(&volume, volume.size_bytes(), 1, 1),
        Err(Error::OutOfRange { .. })
    ));
    assert!(matches!(queue.read(&volume, 0, 0, 1), Err(Error::Length { .. })));
    // A closed volume is told by the request's end.
    client.close_volume(&volume).unwrap();
    assert!(matches!(client.close_volume(&volume), Err(Error::NotOpen)));
    queue.read(&volume, 0, 4096, 9).unwrap();
    let done = reap(&mut queue, 1);
    assert_eq!((done[0].tag, done[0].result), (9, Err(IoError::Lost)));
    // A queue that outlives its client.
    let volume = client.open("v").unwrap();
    queue.flush(&volume, 1).unwrap();
    client.close();
    assert_eq!(reap(&mut queue, 1).len(), 1);
    assert!(matches!(queue.flush(&volume, 1), Err(Error::Ended)));
    let mut done = Vec::new();
    queue.wait(Duration::from_secs(60), &mut done);
    assert!(done.is_empty(), "with nothing under way it does not wait");
}
