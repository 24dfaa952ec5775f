use super::*;
use std::sync::mpsc;
use std::thread;

/// Miri takes a thousand times as long for each step.
const ROUNDS: u64 = if cfg!(miri) { 40 } else { 20_000 };

fn small() -> Pool {
    Pool::new(PoolConfig {
        classes: vec![(4096, 4), (65_536, 2)],
        hosts: Vec::new(),
        huge_pages: false,
    })
    .unwrap()
}

/// What the kernel says of the mapping that holds this address.
#[cfg(not(miri))]
fn flags_of(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let ends = range.and_then(|(from, to)| {
            Some((
                usize::from_str_radix(from, 16).ok()?,
                usize::from_str_radix(to, 16).ok()?,
            ))
        });
        if let Some((from, to)) = ends {
            inside = (from..to).contains(&address);
        } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return flags.to_owned();
        }
    }
    panic!("no mapping holds {address:x}");
}

#[test]
#[cfg(not(miri))]
fn what_hosts_write_is_in_no_core_dump() {
    let pool = small();
    let buffer = pool.take(4096).unwrap();
    let flags = flags_of(buffer.as_ptr().addr());
    assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
}

#[test]
fn hosts_take_nothing_from_the_others_nor_these_from_them() {
    let config = PoolConfig {
        classes: vec![(4096, 2)],
        hosts: vec![(4096, 1), (65_536, 1)],
        huge_pages: false,
    };
    let all = Pool::new(config).unwrap();
    let hosts = all.hosts();
    let theirs = [hosts.take(4096).unwrap(), hosts.take(100).unwrap()];
    assert!(hosts.take(1).is_none(), "hosts have all of theirs");
    let ours = [all.take(4096).unwrap(), all.take(4096).unwrap()];
    assert!(all.take(1).is_none() && all.take(65_536).is_none());
    // A block goes back to its own zone, whoever drops it.
    drop(theirs);
    assert!(all.take(1).is_none());
    assert!(hosts.take(65_536).is_some());
    drop(ours);
    assert!(all.take(4096).is_some());
    let without = small();
    assert!(
        without.hosts().take(65_536).is_some(),
        "a pool without a zone for hosts"
    );
}

#[test]
fn hosts_that_take_much_of_little_leave_the_large_blocks_to_those_who_need_them() {
    let config = PoolConfig {
        classes: vec![(4096, 1)],
        hosts: vec![(4096, 2), (65_536, 2), (262_144, 2), (1 << 20, 2)],
        huge_pages: false,
    };
    let hosts = Pool::new(config).unwrap().hosts();
    let small: Vec<BufMut> = std::iter::from_fn(|| hosts.take(16 << 10)).collect();
    assert_eq!(small.len(), 2, "of those of 64 KiB");
    let smallest: Vec<BufMut> = std::iter::from_fn(|| hosts.take(1)).collect();
    assert_eq!(smallest.len(), 2);
    let large: Vec<BufMut> = std::iter::from_fn(|| hosts.take(128 << 10)).collect();
    assert_eq!(large.len(), 4);
}

#[test]
fn a_nodes_memory_is_divided_and_not_more_than_was_said() {
    for total in [64 << 20, 256 << 20] {
        let config = PoolConfig::with_hosts(total);
        let bytes = |classes: &[(usize, usize)]| classes.iter().map(|(size, blocks)| size * blocks).sum::<usize>();
        let (others, hosts) = (bytes(&config.classes), bytes(&config.hosts));
        assert!(
            others + hosts <= total && others + hosts > total / 8 * 7,
            "{others} and {hosts} of {total}"
        );
        assert!(hosts > total / 5 && others > total / 2);
    }
}

fn both() -> [Pool; 2] {
    [small(), Pool::heap()]
}

#[test]
fn a_buffer_has_the_bytes_asked_for_at_a_page_boundary() {
    for pool in both() {
        for bytes in [1, 512, 4095, 4096, 4097, 65_536] {
            let buffer = pool.take(bytes).unwrap();
            assert_eq!(buffer.len(), bytes);
            assert!(buffer.as_ptr().addr().is_multiple_of(BLOCK_ALIGNMENT));
        }
        assert_eq!(pool.take(0).unwrap().len(), 0);
    }
}

#[test]
fn an_exhausted_class_borrows_from_the_next_and_an_exhausted_pool_says_so() {
    let pool = small();
    let mut taken: Vec<BufMut> = (0..6).map(|_| pool.take(100).unwrap()).collect();
    assert!(pool.take(1).is_none());
    taken.remove(5);
    assert!(pool.take(65_536).is_some(), "the last was a large one");
    assert!(pool.take(65_537).is_none(), "nothing is that large");
    taken.clear();
    let all: Vec<BufMut> = (0..6).map(|_| pool.take(1).unwrap()).collect();
    assert_eq!(all.len(), 6);
}

#[test]
fn the_block_returns_with_its_last_view() {
    let pool = Pool::new(PoolConfig {
        hosts: Vec::new(),
        classes: vec![(4096, 1)],
        huge_pages: false,
    })
    .unwrap();
    let mut buffer = pool.take(4096).unwrap();
    let front = buffer.split_to(1000);
    let part = front.slice(10..20);
    let again = part.clone();
    for last in [
        Box::new(buffer) as Box<dyn std::any::Any>,
        Box::new(front),
        Box::new(part),
        Box::new(again),
    ] {
        assert!(pool.take(1).is_none());
        drop(last);
    }
    assert!(pool.take(1).is_some());
}

#[test]
fn splitting_freezing_and_slicing_show_the_right_bytes() {
    for pool in both() {
        let mut buffer = pool.take(100).unwrap();
        for (at, byte) in buffer.iter_mut().enumerate() {
            *byte = at as u8;
        }
        let front = buffer.split_to(30);
        assert_eq!((&front[..3], front.len(), buffer[0]), (&[0, 1, 2][..], 30, 30));
        buffer.truncate(50);
        let back = buffer.split_off(40);
        assert_eq!((buffer.len(), back.len(), back[0]), (40, 10, 70));
        let frozen = buffer.freeze();
        assert_eq!(&frozen.slice(5..=6)[..], [35, 36]);
        assert_eq!(frozen.slice(..).len(), 40);
        assert!(frozen.slice(7..7).is_empty());
        let mut rest = frozen.clone();
        assert_eq!(rest.split_to(39).len(), 39);
        assert_eq!(&rest[..], [69]);
        rest.skip(1);
        assert!(rest.is_empty());
        assert_eq!(frozen, Slice::copy_from(&(30..70).collect::<Vec<u8>>()));
    }
}

#[test]
fn only_neighbours_of_one_block_join() {
    for pool in both() {
        let mut buffer = pool.take(4096).unwrap();
        let other = pool.take(4096).unwrap();
        let (mut first, second, third) = (buffer.split_to(10), buffer.split_to(10), buffer.split_to(10));
        let third = first.join(third).unwrap_err();
        first.join(second).unwrap();
        first.join(third).unwrap();
        assert_eq!(first.len(), 30);
        first.join(Slice::default()).unwrap();
        let mut back = buffer.split_off(100);
        let back_end = back.split_off(50);
        let other = buffer.join(other).unwrap_err();
        let back_end = buffer.join(back_end).unwrap_err();
        buffer.join(back).unwrap();
        buffer.join(back_end).unwrap();
        assert_eq!((buffer.len(), other.len()), (4096 - 30, 4096));
        let mut empty = Slice::default();
        empty.join(first).unwrap();
        assert_eq!(empty.len(), 30);
        let zeros = pool.zeros(20);
        assert!(
            zeros.slice(..10).join(zeros.slice(10..)).is_err(),
            "static bytes have no block"
        );
    }
}

#[test]
fn bytes_come_back_only_to_who_is_alone() {
    for pool in both() {
        let mut buffer = pool.take(4096).unwrap();
        buffer.fill(1);
        let front = buffer.split_to(4000);
        assert!(!buffer.reclaim());
        assert_eq!(buffer.len(), 96);
        drop(front);
        assert!(buffer.reclaim());
        assert_eq!((buffer.len(), buffer[0]), (4096, 1));
        assert!(!BufMut::empty().reclaim());
    }
}

#[test]
fn zeros_are_zeros_and_take_nothing() {
    let pool = Pool::new(PoolConfig {
        hosts: Vec::new(),
        classes: vec![(4096, 1)],
        huge_pages: false,
    })
    .unwrap();
    let zeros = pool.zeros(MAX_ZEROS_BYTES);
    assert!(zeros[..] == [0; MAX_ZEROS_BYTES][..]);
    assert!(zeros.as_ptr().addr().is_multiple_of(BLOCK_ALIGNMENT));
    assert!(pool.take(4096).is_some());
}

#[test]
fn a_wrong_configuration_is_an_error() {
    for classes in [
        vec![],
        vec![(4096, 0)],
        vec![(100, 1)],
        vec![(0, 1)],
        vec![(8192, 1), (4096, 1)],
        vec![(4096, usize::MAX)],
    ] {
        let error = Pool::new(PoolConfig {
            hosts: Vec::new(),
            classes: classes.clone(),
            huge_pages: false,
        })
        .unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{classes:?}");
    }
    let pool = Pool::new(PoolConfig {
        hosts: Vec::new(),
        huge_pages: true,
        ..PoolConfig::with_total(1 << 20)
    })
    .unwrap();
    assert!(pool.take(1 << 20).is_some(), "at least one block of each class");
}

#[test]
fn views_outlive_their_pool() {
    let pool = small();
    let slice = {
        let mut buffer = pool.take(100).unwrap();
        buffer.fill(9);
        buffer.freeze()
    };
    drop(pool);
    assert!(slice.iter().all(|byte| *byte == 9));
}

#[test]
fn blocks_taken_here_and_given_back_there_are_never_shared_nor_lost() {
    let pool = Pool::new(PoolConfig {
        hosts: Vec::new(),
        classes: vec![(4096, 16)],
        huge_pages: false,
    })
    .unwrap();
    let (send, receive) = mpsc::sync_channel::<(u64, Slice)>(8);
    let receive = std::sync::Arc::new(std::sync::Mutex::new(receive));
    let takers: Vec<_> = (0..2)
        .map(|taker| {
            let (pool, send) = (pool.clone(), send.clone());
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let stamp = round * 2 + taker;
                    let mut buffer = loop {
                        match pool.take(64) {
                            Some(buffer) => break buffer,
                            None => thread::yield_now(),
                        }
                    };
                    for word in buffer.chunks_exact_mut(8) {
                        word.copy_from_slice(&stamp.to_le_bytes());
                    }
                    send.send((stamp, buffer.freeze())).unwrap();
                }
            })
        })
        .collect();
    drop(send);
    let givers: Vec<_> = (0..2)
        .map(|_| {
            let receive = receive.clone();
            thread::spawn(move || {
                loop {
                    let Ok((stamp, slice)) = receive.lock().unwrap().recv() else {
                        return;
                    };
                    let copy = slice.clone();
                    drop(slice);
                    assert!(
                        copy.chunks_exact(8).all(|word| word == stamp.to_le_bytes()),
                        "somebody else wrote here"
                    );
                }
            })
        })
        .collect();
    for thread in takers.into_iter().chain(givers) {
        thread.join().unwrap();
    }
    let all: Vec<_> = (0..16).map(|_| pool.take(1).unwrap()).collect();
    assert!(pool.take(1).is_none() && all.len() == 16);
}
