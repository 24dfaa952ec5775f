//! Clients that mean harm, or are broken.

use super::*;
use crate::Limits;
use crate::wire::command_flag as flag;
use proptest::prelude::*;

/// A session with a bit of everything.
fn session(structured: bool) -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    if structured {
        bytes.extend(option(opt::STRUCTURED_REPLY, &[]));
        bytes.extend(option(opt::LIST_META_CONTEXT, &meta("vol", &[])));
        bytes.extend(option(opt::SET_META_CONTEXT, &meta("vol", &["base:allocation"])));
    }
    bytes.extend(option(opt::LIST, &[]));
    bytes.extend(option(opt::INFO, &info("vol", &[1, 2, 3])));
    bytes.extend(option(99, b"unknown"));
    bytes.extend(option(opt::GO, &info("vol", &[3])));
    bytes.extend(write(1, 100, &pattern(0, 5000)));
    bytes.extend(request(0, command::READ, 2, 0, 8192));
    bytes.extend(request(flag::FUA, command::WRITE_ZEROES, 3, 50, 9000));
    bytes.extend(request(0, command::TRIM, 4, 0, 1 << 20));
    bytes.extend(request(0, command::BLOCK_STATUS, 5, 0, 1 << 20));
    bytes.extend(write(6, u64::MAX, &[0; 64]));
    bytes.extend(request(0, command::READ, 7, 0, 3 << 20));
    bytes.extend(request(0, command::FLUSH, 8, 0, 0));
    bytes.extend(request(0, command::DISC, 0, 0, 0));
    bytes
}

/// Plays bytes in portions until the server closes or wants no more; memory stays bounded all the while.
fn play(client: &mut Client, bytes: &[u8], portion: usize) {
    let limits = Limits::default();
    let bound = limits.read_bytes + limits.write_bytes + limits.stream_bytes + (1 << 20);
    let mut rest = bytes;
    while !rest.is_empty() && client.closed.is_none() && client.front.wants_input() {
        let count = client.receive(&rest[..rest.len().min(portion)]);
        rest = &rest[count..];
        assert!(client.held_bytes() <= bound, "{} bytes are held", client.held_bytes());
        client.settle();
        client.output.clear();
    }
}

#[test]
fn a_session_may_be_cut_at_every_byte() {
    for structured in [false, true] {
        let bytes = session(structured);
        for cut in 0..=bytes.len() {
            let mut client = Client::new();
            play(&mut client, &bytes[..cut], 4096);
            client.front.closed(&mut client.service);
            assert_eq!(client.service.open_count, 0, "cut at {cut}: what was opened is closed");
            if cut == bytes.len() {
                assert_eq!(client.closed, Some(CloseReason::Goodbye));
            }
        }
    }
}

#[test]
fn a_session_may_come_a_byte_at_a_time() {
    for structured in [false, true] {
        let mut client = Client::new();
        play(&mut client, &session(structured), 1);
        assert_eq!(client.closed, Some(CloseReason::Goodbye));
    }
}

#[test]
fn a_refused_write_of_any_length_is_skipped() {
    let mut client = Client::started(false);
    client.send(&request(0, command::WRITE, 1, 0, u32::MAX));
    assert_eq!(client.simple(), (1, 22), "answered at once");
    let zeros = vec![0; 64 << 20];
    let mut left = u32::MAX as usize;
    while left > 0 {
        let count = client.receive(&zeros[..left.min(zeros.len())]);
        client.end_pass();
        left -= count;
    }
    client.send(&request(0, command::READ, 2, 0, 1));
    assert_eq!(client.simple(), (2, 0), "and what follows is understood");
}

#[test]
fn a_request_without_magic_ends_the_connection() {
    let mut client = Client::started(false);
    let mut bytes = request(0, command::FLUSH, 1, 0, 0);
    bytes[0] ^= 1;
    client.send(&bytes);
    assert!(matches!(client.closed, Some(CloseReason::Protocol(_))));
}

#[derive(Clone, Debug)]
struct Wild {
    flags: u16,
    command: u16,
    offset: u64,
    length: u32,
}

fn wild() -> impl Strategy<Value = Wild> {
    let offset = prop_oneof![0u64..16 << 20, (15u64 << 20)..(17 << 20), any::<u64>()];
    let length = prop_oneof![0u32..8192, 0u32..4 << 20, any::<u32>()];
    let flags = prop_oneof![Just(0u16), 0u16..32, any::<u16>()];
    (flags, 0u16..10, offset, length).prop_map(|(flags, command, offset, length)| Wild {
        flags,
        command,
        offset,
        length,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..2000), portion in 1usize..3000) {
        let mut client = Client::new();
        play(&mut client, &bytes, portion);
        let mut client = Client::greeted();
        play(&mut client, &bytes, portion);
        let mut client = Client::started(true);
        play(&mut client, &bytes, portion);
    }

    #[test]
    fn mutated_sessions_do_no_harm(
        structured: bool,
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        portion in 1usize..9000,
    ) {
        let mut bytes = session(structured);
        for (place, value) in mutations {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let mut client = Client::new();
        play(&mut client, &bytes, portion);
        client.front.closed(&mut client.service);
        prop_assert_eq!(client.service.open_count, 0);
    }

    /// Any requests, completed in any order, each answered once: checked where the answer can be told apart, which is
    /// with structured replies.
    #[test]
    fn every_request_is_answered_once(
        requests in prop::collection::vec(wild(), 1..30),
        order in prop::collection::vec(any::<prop::sample::Index>(), 4000),
    ) {
        let mut client = Client::started(true);
        client.runs = false;
        let mut expected = Vec::new();
        let mut order = order.into_iter();
        for (number, wild) in requests.into_iter().enumerate() {
            // Payloads are sent for writes, and only short ones; 2 is the disconnect.
            let length = if wild.command == command::WRITE { wild.length % 300_000 } else { wild.length };
            if wild.command == command::DISC {
                continue;
            }
            let cookie = number as u64;
            expected.push(cookie);
            let mut bytes = request(wild.flags, wild.command, cookie, wild.offset, length);
            if wild.command == command::WRITE {
                bytes.extend(pattern(cookie, length as usize));
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                if client.front.wants_input() {
                    let count = client.receive(rest);
                    rest = &rest[count..];
                }
                let queued = client.service.queue.len();
                if queued > 0 && let Some(index) = order.next() {
                    client.service.run_one(index.index(queued));
                } else {
                    client.service.run();
                }
                client.deliver();
                client.end_pass();
                while client.fetch() {}
                client.end_pass();
            }
        }
        client.runs = true;
        client.settle();
        prop_assert_eq!(&client.closed, &None);
        let mut answered = Vec::new();
        while !client.output.is_empty() {
            if client.output.starts_with(&crate::wire::SIMPLE_REPLY_MAGIC.to_be_bytes()) {
                answered.push(client.simple().0);
            } else {
                let header = client.take(20);
                let length = u32::from_be_bytes(header[16..].try_into().unwrap());
                client.take(length as usize);
                if header[5] & 1 == 1 {
                    answered.push(u64::from_be_bytes(header[8..16].try_into().unwrap()));
                }
            }
        }
        answered.sort_unstable();
        prop_assert_eq!(answered, expected);
    }

    /// Reads in flight together, pieces completing in any order, a client that fetches now and then: the data is right.
    #[test]
    fn reads_bring_the_right_data_in_any_order(
        structured: bool,
        reads in prop::collection::vec((0u64..12 << 20, 1u32..3 << 20), 1..8),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 500),
    ) {
        let mut client = Client::started(structured);
        let data = pattern(0, 16 << 20);
        client.send(&write(0, 0, &data));
        client.output.clear();
        client.runs = false;
        client.fetches = false;
        let bytes: Vec<u8> = reads
            .iter()
            .enumerate()
            .flat_map(|(number, (offset, length))| request(0, command::READ, number as u64, *offset, *length))
            .collect();
        client.receive(&bytes);
        client.end_pass();
        for (index, fetch) in order {
            if !client.service.queue.is_empty() {
                let index = index.index(client.service.queue.len());
                client.service.run_one(index);
                client.deliver();
            }
            if fetch {
                client.fetch();
            }
            client.end_pass();
        }
        client.runs = true;
        client.fetches = true;
        client.settle();
        let mut covered = vec![0u64; reads.len()];
        while !client.output.is_empty() {
            if structured {
                let header = client.take(20);
                let cookie = u64::from_be_bytes(header[8..16].try_into().unwrap()) as usize;
                let payload = client.take(u32::from_be_bytes(header[16..].try_into().unwrap()) as usize);
                prop_assert_eq!(u16::from_be_bytes([header[6], header[7]]), crate::wire::chunk::OFFSET_DATA);
                let at = u64::from_be_bytes(payload[..8].try_into().unwrap()) as usize;
                prop_assert!(payload[8..] == data[at..at + payload.len() - 8]);
                covered[cookie] += payload.len() as u64 - 8;
            } else {
                let (cookie, error) = client.simple();
                prop_assert_eq!(error, 0);
                let (offset, length) = reads[cookie as usize];
                let got = client.take(length as usize);
                prop_assert!(got == data[offset as usize..offset as usize + length as usize]);
                covered[cookie as usize] += u64::from(length);
            }
        }
        for (covered, (_, length)) in covered.iter().zip(&reads) {
            prop_assert_eq!(*covered, u64::from(*length));
        }
    }
}
