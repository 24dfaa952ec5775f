use super::*;
use crate::buf::PoolConfig;
use proptest::prelude::*;

const CLASS: usize = 16 << 10;

fn pool() -> Pool {
    Pool::new(PoolConfig {
        classes: vec![(CLASS, 4), (128 << 10, 2)],
        hosts: Vec::new(),
        huge_pages: false,
    })
    .unwrap()
}

/// Receives bytes as a driver would, as many as there is room for; returns how many.
fn receive(inbox: &mut Inbox, pool: &Pool, bytes: &[u8]) -> usize {
    let mut buffer = inbox.start_receive(pool, CLASS).unwrap();
    let count = buffer.len().min(bytes.len());
    buffer[..count].copy_from_slice(&bytes[..count]);
    inbox.received(buffer, count);
    count
}

proptest! {
    /// Frames of any size, received in any pieces, with payloads kept or dropped, come out as they went in.
    #[test]
    fn frames_come_out_as_they_went_in(
        frames in proptest::collection::vec(1..40_000usize, 1..30),
        pieces in proptest::collection::vec(1..9000usize, 1..20),
        keep in proptest::collection::vec(any::<bool>(), 1..10),
    ) {
        let pool = Pool::heap();
        let mut stream = Vec::new();
        for (number, length) in frames.iter().enumerate() {
            stream.extend((*length as u32).to_le_bytes());
            stream.extend((0..*length).map(|at| (at * 7 + number) as u8));
        }
        let mut inbox = Inbox::new();
        let mut kept = Vec::new();
        let (mut fed, mut parsed, mut step) = (0, 0, 0);
        while parsed < frames.len() {
            let piece = pieces[step % pieces.len()].min(stream.len() - fed);
            step += 1;
            fed += receive(&mut inbox, &pool, &stream[fed..fed + piece]);
            while let Some(header) = inbox.data().first_chunk::<4>() {
                let length = u32::from_le_bytes(*header) as usize;
                if inbox.len() < 4 + length {
                    inbox.need(4 + length);
                    break;
                }
                inbox.skip(4);
                let payload = inbox.take(length);
                prop_assert_eq!(length, frames[parsed]);
                if keep[parsed % keep.len()] {
                    kept.push((parsed, payload));
                }
                parsed += 1;
            }
        }
        prop_assert!(inbox.is_empty());
        for (number, payload) in kept {
            prop_assert!(payload.iter().enumerate().all(|(at, byte)| *byte == (at * 7 + number) as u8));
        }
    }

    /// What is queued, by copy or by reference, is sent in order, in sends within their bounds.
    #[test]
    fn what_is_queued_is_sent_in_order(pieces in proptest::collection::vec((1..200_000usize, any::<bool>()), 1..40)) {
        let pool = Pool::heap();
        let mut outbox = Outbox::new();
        let mut expected: Vec<u8> = Vec::new();
        let mut sent = Vec::new();
        for (number, (length, copied)) in pieces.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|at| (at + number) as u8).collect();
            match copied {
                true => outbox.append(&pool, &bytes[..length.min(3000)]),
                false => outbox.push(Slice::copy_from(&bytes)),
            }
            expected.extend(if copied { &bytes[..length.min(3000)] } else { &bytes[..] });
            prop_assert_eq!(outbox.queued_bytes() + sent.len(), expected.len());
            if number % 3 == 0 && let Some(send) = outbox.next_send() {
                prop_assert!(outbox.next_send().is_none() && outbox.is_sending());
                let bytes: usize = send.iter().map(|piece| piece.len()).sum();
                prop_assert!(send.len() == 1 || bytes <= MAX_SEND_BYTES);
                send.iter().for_each(|piece| sent.extend_from_slice(piece));
                outbox.sent(send);
            }
        }
        while let Some(send) = outbox.next_send() {
            send.iter().for_each(|piece| sent.extend_from_slice(piece));
            outbox.sent(send);
        }
        prop_assert_eq!(outbox.queued_bytes(), 0);
        prop_assert!(sent == expected);
    }
}

#[test]
fn a_stream_of_small_frames_stays_in_one_block() {
    let pool = pool();
    let mut inbox = Inbox::new();
    receive(&mut inbox, &pool, &[1; 64]);
    let block = inbox.data().as_ptr();
    for round in 0..1000 {
        inbox.skip(64);
        receive(&mut inbox, &pool, &[round as u8; 64]);
        assert_eq!(inbox.data().as_ptr(), block, "rewound, as nobody looks at it");
    }
}

#[test]
fn a_kept_payload_is_not_overwritten() {
    let pool = pool();
    let mut inbox = Inbox::new();
    let mut kept = Vec::new();
    for round in 0..7u8 {
        assert_eq!(receive(&mut inbox, &pool, &[round; 8000]), 8000);
        kept.push(inbox.take(8000));
    }
    for (round, payload) in kept.iter().enumerate() {
        assert!(payload.iter().all(|byte| *byte == round as u8));
    }
}

#[test]
fn a_needed_frame_is_contiguous_and_an_exhausted_pool_means_later() {
    let pool = pool();
    let mut inbox = Inbox::new();
    receive(&mut inbox, &pool, &[5; 100]);
    inbox.need(100_000);
    let all: Vec<BufMut> = std::iter::from_fn(|| pool.take(1)).collect();
    assert!(
        inbox.start_receive(&pool, CLASS).is_none(),
        "no block is large enough now"
    );
    assert_eq!(inbox.len(), 100, "and nothing is lost");
    drop(all);
    let mut buffer = inbox.start_receive(&pool, CLASS).unwrap();
    assert!(buffer.len() >= 99_900);
    buffer[..99_900].fill(5);
    inbox.received(buffer, 99_900);
    assert!(inbox.take(100_000).iter().all(|byte| *byte == 5));
}

#[test]
fn an_exhausted_pool_does_not_stop_a_stream_that_has_room_left() {
    let pool = pool();
    let mut inbox = Inbox::new();
    receive(&mut inbox, &pool, &[1; 10_000]);
    let _payload = inbox.take(10_000);
    let _all: Vec<BufMut> = std::iter::from_fn(|| pool.take(1)).collect();
    let rest = inbox.start_receive(&pool, CLASS * 8).unwrap();
    assert_eq!(rest.len(), CLASS - 10_000);
}

#[test]
fn small_pieces_go_out_as_one_segment_from_one_warm_block() {
    let pool = pool();
    let mut outbox = Outbox::new();
    let mut block = None;
    for _ in 0..1000 {
        for _ in 0..32 {
            outbox.append(&pool, &[3; 64]);
        }
        let send = outbox.next_send().unwrap();
        assert_eq!((send.len(), send[0].len()), (1, 2048));
        let here = *block.get_or_insert(send[0].as_ptr());
        assert_eq!(send[0].as_ptr(), here, "reclaimed, not taken anew");
        outbox.sent(send);
    }
    let _all: Vec<BufMut> = std::iter::from_fn(|| pool.take(1)).collect();
    outbox.append(&pool, &[4; 10_000]);
    outbox.append(&pool, &[4; 10_000]);
    assert_eq!(
        outbox.queued_bytes(),
        20_000,
        "an answer goes out even when the pool is exhausted"
    );
}

#[test]
fn a_send_has_no_more_segments_than_one_call_takes() {
    let mut outbox = Outbox::new();
    for _ in 0..MAX_SEND_SEGMENTS + 10 {
        outbox.push(Slice::copy_from(&[1; 8]));
    }
    let first = outbox.next_send().unwrap();
    assert_eq!(first.len(), MAX_SEND_SEGMENTS);
    outbox.sent(first);
    assert_eq!(outbox.next_send().unwrap().len(), 10);
}

#[test]
fn without_memory_small_pieces_share_a_block_of_the_heap() {
    let pool = pool();
    let _all: Vec<BufMut> = std::iter::from_fn(|| pool.take(1)).collect();
    let mut outbox = Outbox::new();
    for _ in 0..CLASS / 32 {
        outbox.append(&pool, &[3; 32]);
    }
    let send = outbox.next_send().unwrap();
    assert_eq!((send.len(), send[0].len()), (1, CLASS));
}
