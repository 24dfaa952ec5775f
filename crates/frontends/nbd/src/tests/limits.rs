//! What one connection may hold.

use super::*;
use crate::Limits;
use crate::wire::command_flag as flag;
use amita_types::io::Op;

/// A receive block, and a piece or two that are on their way between the counters.
const SLACK: usize = 640 << 10;

fn bound(limits: &Limits) -> usize {
    limits.read_bytes + limits.write_bytes + limits.stream_bytes + SLACK
}

/// Offers input, over and over, for as long as it is wanted, up to `most` in all.
fn pour(client: &mut Client, bytes: &[u8], taken: &mut usize, most: usize) {
    while *taken < most && client.front.wants_input() && client.closed.is_none() {
        let from = *taken % bytes.len();
        *taken += client.receive(&bytes[from..]);
        client.end_pass();
    }
}

#[test]
fn a_client_that_only_sends_is_stopped() {
    let flood = [
        ("reads", request(0, command::READ, 1, 0, 1 << 20)),
        ("long reads", request(0, command::READ, 1, 0, 16 << 20)),
        ("small reads", request(0, command::READ, 1, 0, 512)),
        ("writes", write(1, 4096, &[1; 4096])),
        ("long writes", write(1, 0, &vec![1; 16 << 20])),
        ("flushes", request(0, command::FLUSH, 1, 0, 0)),
        ("errors", request(0, 99, 1, 0, 0)),
        ("zeroes", request(flag::NO_HOLE, command::WRITE_ZEROES, 1, 0, 16 << 20)),
        ("trims", request(0, command::TRIM, 1, 0, 16 << 20)),
        ("status", request(0, command::BLOCK_STATUS, 1, 0, 16 << 20)),
    ];
    let most = 64 << 20;
    for structured in [false, true] {
        for (what, bytes) in &flood {
            // The volume does nothing: requests pile up.
            let mut client = Client::started(structured);
            client.runs = false;
            client.fetches = false;
            let limits = Limits::default();
            let mut taken = 0;
            pour(&mut client, bytes, &mut taken, most);
            assert!(taken < most, "{what}: {taken} bytes were taken");
            assert!(
                client.held_bytes() <= bound(&limits),
                "{what}: {} bytes are held",
                client.held_bytes()
            );
            // The volume works, and the client does not fetch: answers pile up.
            for _ in 0..20 {
                client.service.run();
                client.deliver();
                client.end_pass();
                pour(&mut client, bytes, &mut taken, 2 * most);
                assert!(
                    client.held_bytes() <= bound(&limits),
                    "{what}: {} bytes are held",
                    client.held_bytes()
                );
            }
            // (Long writes have so few answers that none pile up.)
            assert!(
                !client.front.wants_input() || *what == "long writes",
                "{what}, structured: {structured}"
            );
            // The client fetches, and everything goes on.
            client.runs = true;
            client.fetches = true;
            client.settle();
            assert!(client.front.wants_input(), "{what}, structured: {structured}");
            assert_eq!(client.closed, None);
        }
    }
}

#[test]
fn no_more_requests_than_the_limit_are_under_way() {
    let mut client = Client::started(true);
    client.runs = false;
    let reads: Vec<u8> = (0..1000)
        .flat_map(|i| request(0, command::READ, i, i * 512, 512))
        .collect();
    client.receive(&reads);
    client.end_pass();
    assert_eq!(client.service.queue.len(), Limits::default().requests);
    assert!(!client.front.wants_input());
    // Each one that ends makes room for one.
    client.service.run_one(0);
    client.deliver();
    client.end_pass();
    assert_eq!(client.service.queue.len(), Limits::default().requests);
}

#[test]
fn zeroing_goes_a_few_pieces_at_a_time() {
    let mut client = Client::started(true);
    client.runs = false;
    client.send(&request(flag::NO_HOLE, command::WRITE_ZEROES, 1, 0, 16 << 20));
    assert_eq!(client.service.queue.len(), 8);
    client.service.run();
    client.deliver();
    client.end_pass();
    assert_eq!(client.service.queue.len(), 8, "the next ones follow");
    client.runs = true;
    client.settle();
    assert_eq!(client.simple(), (1, 0));
    assert_eq!(client.volumes.allocated_bytes(client.volume), 16 << 20);
}

#[test]
fn a_long_simple_read_streams_through_its_window_and_others_wait_for_it() {
    let mut client = Client::started(false);
    client.send(&write(1, 0, &pattern(0, 16 << 20)));
    client.output.clear();
    client.runs = false;
    client.fetches = false;
    client.send(&request(0, command::READ, 2, 0, 8 << 20));
    assert_eq!(client.service.queue.len(), 4, "half a mebibyte is under way");
    // Out of order: nothing can leave before the first piece.
    client.service.run_one(3);
    client.deliver();
    client.end_pass();
    assert_eq!(client.outbox.queued_bytes(), 0);
    client.service.run_one(0);
    client.deliver();
    client.end_pass();
    assert_eq!(client.outbox.queued_bytes(), 16 + (128 << 10), "header and first piece");
    // Replies to others wait until the stream is through, also those that need no I/O.
    client.send(
        &[
            request(0, command::FLUSH, 3, 0, 0),
            request(0, command::READ, 4, 5000, 100),
            request(0, 99, 5, 0, 0),
            request(0, command::READ, 6, 0, 2 << 20),
        ]
        .concat(),
    );
    client.runs = true;
    client.fetches = true;
    client.settle();
    assert_eq!(client.simple(), (2, 0));
    assert!(client.take(8 << 20) == pattern(0, 8 << 20));
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (cookie, error) = client.simple();
        match cookie {
            4 => assert_eq!(client.take(100), pattern(5000, 100)),
            6 => assert!(client.take(2 << 20) == pattern(0, 2 << 20)),
            _ => {}
        }
        seen.push((cookie, error));
    }
    seen.sort_unstable();
    assert_eq!(seen, [(3, 0), (4, 0), (5, 22), (6, 0)]);
    assert!(client.output.is_empty());
}

#[test]
fn a_write_is_submitted_while_it_arrives() {
    let mut client = Client::started(false);
    client.runs = false;
    let bytes = write(1, 0, &pattern(0, 1 << 20));
    let mut sent = 0;
    while sent < 300_000 {
        sent += client.receive(&bytes[sent..(sent + 50_000).min(bytes.len())]);
    }
    assert_eq!(client.service.queue.len(), 2, "two pieces of 128 KiB have come so far");
    assert!(
        client
            .service
            .queue
            .iter()
            .all(|piece| matches!(piece.op, Op::Write { length: 131_072, .. }))
    );
    client.runs = true;
    while sent < bytes.len() {
        sent += client.receive(&bytes[sent..]);
        client.settle();
    }
    assert_eq!(client.simple(), (1, 0));
    assert!(client.volumes.read(client.volume, 0, 1 << 20) == pattern(0, 1 << 20));
}

#[test]
fn half_open_connections_take_no_memory_of_the_pool() {
    // Of a pool of 8 MiB, a thousand connections that have shown nothing take what their receives hold.
    let mut fronts = Vec::new();
    for _ in 0..1000 {
        let client = Client::new();
        assert!(client.outbox.queued_bytes() == 18);
        assert_eq!(client.front.receive_bytes(), 4096);
        fronts.push(client.front);
    }
    assert!(size_of::<NbdFront>() <= 512, "{} bytes", size_of::<NbdFront>());
}

#[test]
fn who_does_not_fetch_the_answers_of_the_handshake_is_not_listened_to() {
    const BOUND: usize = 32 << 10;
    let options = option(99, &[]).repeat(1024);
    let mut client = Client::greeted();
    client.fetches = false;
    let mut taken = 0;
    pour(&mut client, &options, &mut taken, options.len());
    assert!(client.held_bytes() <= BOUND, "{} bytes are held", client.held_bytes());
    assert!(taken < options.len() && !client.front.wants_input());
    // It fetches, and everything goes on.
    client.fetches = true;
    client.settle();
    client.send(&options[taken..]);
    let replies = client.option_replies();
    assert!(replies.len() == 1024 && replies.iter().all(|answer| answer.kind == reply::ERR_UNSUP));
}

#[test]
fn a_stranger_keeps_no_long_option_in_memory() {
    let long = option(99, &[0; 20_000]);
    let mut stranger = Client::greeted();
    stranger.send(&long);
    assert_eq!(stranger.option_reply().kind, reply::ERR_TOO_BIG);
    let mut known = Client::greeted_as(Who::Local);
    known.send(&long);
    assert_eq!(known.option_reply().kind, reply::ERR_UNSUP);
}

#[test]
fn what_is_told_of_allocation_is_bounded_and_not_kept() {
    const STATUS: usize = 256;
    let mut client = Client::started(true);
    for block in 0..2048 {
        client.send(&write(1, block * 8192, &[1; 4096]));
    }
    client.output.clear();
    client.runs = false;
    client.fetches = false;
    let limits = Limits::default();
    let asked = request(0, command::BLOCK_STATUS, 1, 0, 16 << 20).repeat(STATUS);
    let mut taken = client.receive(&asked);
    client.end_pass();
    // The volume works, and the client does not fetch.
    while !client.service.queue.is_empty() {
        client.service.run();
        client.deliver();
        client.end_pass();
        let held = client.held_bytes();
        assert!(held <= limits.read_bytes + SLACK, "{held} bytes are held");
    }
    client.runs = true;
    client.fetches = true;
    while taken < asked.len() {
        client.settle();
        taken += client.receive(&asked[taken..]);
    }
    client.settle();
    let chunks = client.chunks();
    assert_eq!(chunks.len(), STATUS);
    assert!(chunks.iter().all(|chunk| chunk.payload.len() == 4 + 8 * 4096));
    assert_eq!(client.held_bytes(), 0, "nothing is kept");
}
