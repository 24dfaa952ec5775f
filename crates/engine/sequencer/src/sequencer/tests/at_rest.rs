//! Encrypted volumes (S14, S15).

use super::rig::{Rig, old, store, version};
use crate::Config;
use crate::io::IoId;
use amita_crypt::{DataKey, Keychain};
use amita_reactor::Slice;
use amita_types::io::{IoError, Op, Payload};
use amita_types::map::{KeyName, KeyNumber, KeyRing};
use amita_types::message::{AnswerBody, DataAnswer, ReadRequest, Request, RequestBody, Run, Sums};
use amita_types::{BLOCK_BYTES, BlockRange, ChunkIndex, Version, VolumeId};
use std::sync::Arc;

const BLOCK: usize = BLOCK_BYTES as usize;

/// Each key follows from its name.
pub fn keychain(ring: &KeyRing) -> Arc<Keychain> {
    let key = |name: KeyName| {
        let mut next = name.number.0 as u8;
        let key = DataKey::generate(&mut |bytes| {
            for byte in bytes {
                *byte = next;
                next = next.wrapping_mul(5).wrapping_add(1);
            }
        });
        (name, key)
    };
    let keys = ring.eras().iter().map(|era| key(era.key)).collect();
    Arc::new(Keychain::new(ring, keys).unwrap())
}

fn ring() -> KeyRing {
    KeyRing::new(KeyName {
        volume: VolumeId(9),
        image: VolumeId(9),
        number: KeyNumber(1),
    })
}

/// Two stores; the chunk is open at 2:5.
fn open() -> Rig {
    let mut rig = Rig::encrypted(2, 1, &ring(), Config::default());
    let io = rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    let sent = rig.reads();
    answer(&mut rig, &sent[0], |_| None);
    assert_eq!(rig.result(io), Some(Ok(())));
    rig.ended.clear();
    rig
}

/// What a store has that holds these bytes in each block, written as 2:4; none: a hole.
fn stored(range: BlockRange, byte: impl Fn(u16) -> Option<u8>) -> (Vec<u8>, Sums, Vec<Run>) {
    let keys = keychain(&ring());
    let (mut bytes, mut sums, mut runs) = (Vec::new(), Sums::new(), Vec::new());
    for block in range.iter() {
        let mut content = vec![0; BLOCK];
        let version = match byte(block.0) {
            Some(byte) => {
                let place = (ChunkIndex(0), BlockRange::new(block.0, 1));
                keys.seal(place, old(4), &vec![byte; BLOCK], &mut content).unwrap();
                old(4)
            }
            None => Version::NONE,
        };
        sums.push(amita_types::crc32c(&content));
        runs.push(Run { blocks: 1, version });
        bytes.extend(content);
    }
    (bytes, sums, runs)
}

fn range_of(request: &Request) -> BlockRange {
    let RequestBody::Read(ReadRequest { range, versions, .. }) = request.body else {
        panic!("a read was expected")
    };
    assert!(versions, "without versions nothing can be decrypted");
    range
}

fn answer(rig: &mut Rig, request: &Request, byte: impl Fn(u16) -> Option<u8>) {
    let (bytes, sums, runs) = stored(range_of(request), byte);
    tell(rig, request, (old(4), sums, runs), &bytes);
    rig.answer_renewals();
}

fn tell(rig: &mut Rig, request: &Request, (version, sums, runs): (Version, Sums, Vec<Run>), bytes: &[u8]) {
    let runs = runs.into();
    let body = AnswerBody::Data(DataAnswer { version, sums, runs });
    rig.answer(request, Ok(body), Slice::copy_from(bytes));
}

/// What was sent to a store as writes: the requests, and what they bring.
fn written(rig: &mut Rig, number: u128) -> Vec<(Request, Slice)> {
    let is_write = |body: &RequestBody| matches!(body, RequestBody::Write(_));
    let (writes, others) = std::mem::take(&mut rig.sent)
        .into_iter()
        .partition(|(to, request, _)| *to == store(number) && is_write(&request.body));
    rig.sent = others;
    let writes: Vec<_> = writes;
    writes
        .into_iter()
        .map(|(_, request, payload)| (request, payload))
        .collect()
}

/// A write's offset and what it brings, decrypted.
fn plain((request, payload): &(Request, Slice)) -> (u32, Vec<u8>) {
    let RequestBody::Write(write) = &request.body else {
        panic!("a write was expected")
    };
    let range = BlockRange::of_bytes(write.offset_bytes, write.length_bytes);
    assert_eq!(payload.len(), usize::from(range.count) * BLOCK, "whole blocks");
    let sums: Sums = payload.chunks(BLOCK).map(amita_types::crc32c).collect();
    assert_eq!(write.sums, sums, "checksums are the ciphertext's");
    let run = Run {
        blocks: range.count,
        version: write.version,
    };
    let mut plain = vec![0; payload.len()];
    let keys = keychain(&ring());
    keys.open((write.chunk, range), &[run], payload, &mut plain).unwrap();
    (write.offset_bytes, plain)
}

fn acknowledge(rig: &mut Rig, io: IoId, writes: Vec<(Request, Slice)>) {
    let others = written(rig, 2);
    for (request, _) in writes.into_iter().chain(others) {
        rig.done(&[request]);
    }
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn what_goes_out_is_encrypted_once() {
    let mut rig = open();
    let io = rig.write(4096, &[7; 8192]);
    let (one, two) = (written(&mut rig, 1), written(&mut rig, 2));
    let sent = |(request, payload): &(Request, Slice)| (request.body.clone(), payload.clone());
    assert_eq!(sent(&one[0]), sent(&two[0]), "every member gets the same");
    assert_eq!(plain(&one[0]), (4096, vec![7; 8192]));
    assert!(one[0].1.chunks(BLOCK).all(|block| block != vec![7; BLOCK]));
    assert_ne!(
        one[0].1[..BLOCK],
        one[0].1[BLOCK..],
        "equal blocks are not seen to be equal"
    );
    // A link ends; what is sent again by the next one is the same.
    rig.down(2);
    rig.up(2);
    rig.answer_fences();
    assert_eq!(
        written(&mut rig, 2).last().map(|sent| sent.1.clone()),
        Some(two[0].1.clone())
    );
    rig.done(&[one[0].0.clone(), two[0].0.clone()]);
    assert_eq!(rig.result(io), Some(Ok(())));
}

#[test]
fn what_is_read_is_decrypted_and_holes_are_zeros() {
    let mut rig = open();
    let io = rig.read(3 * 4096 + 100, 3 * 4096 - 200);
    let sent = rig.reads();
    answer(&mut rig, &sent[0], |block| (block != 4).then_some(block as u8));
    let right = [vec![3; BLOCK - 100], vec![0; BLOCK], vec![5; BLOCK - 100]].concat();
    assert_eq!(rig.payload(io), Payload::Data(Slice::copy_from(&right)));
    // Nothing of it is there.
    let io = rig.read(0, 8192);
    let sent = rig.reads();
    tell(&mut rig, &sent[0], (Version::NONE, Sums::new(), Vec::new()), &[]);
    assert_eq!(rig.payload(io), Payload::Zeros(8192));
}

#[test]
fn a_part_of_a_block_is_made_whole_before_it_has_a_version() {
    let mut rig = open();
    // The block before is read alone, and then the one behind.
    let io = rig.write(2 * 4096 + 512, &[9; 2 * BLOCK]);
    let behind = rig.write(0, &[1; BLOCK]);
    assert!(written(&mut rig, 1).is_empty(), "nothing of the chunk passes it");
    let sent = rig.reads();
    assert_eq!(range_of(&sent[0]), BlockRange::new(2, 1));
    answer(&mut rig, &sent[0], |_| Some(2));
    let sent = rig.reads();
    assert_eq!(range_of(&sent[0]), BlockRange::new(4, 1));
    answer(&mut rig, &sent[0], |_| None);
    let writes = written(&mut rig, 1);
    let right = [vec![2; 512], vec![9; 2 * BLOCK], vec![0; BLOCK - 512]].concat();
    assert_eq!(plain(&writes[0]), (2 * BLOCK_BYTES, right));
    assert_eq!(plain(&writes[1]), (0, vec![1; BLOCK]), "then others go on");
    acknowledge(&mut rig, io, writes);
    assert_eq!(rig.result(behind), Some(Ok(())));
}

#[test]
fn two_blocks_are_read_at_once() {
    for (offset, length, right) in [
        (4096 + 512, 512, vec![1; BLOCK]),
        (4096 + 512, BLOCK, [vec![1; BLOCK], vec![2; BLOCK]].concat()),
        (4096, BLOCK + 512, [vec![1; BLOCK], vec![2; BLOCK]].concat()),
    ] {
        let mut rig = open();
        let io = rig.write(offset, &vec![9; length]);
        let sent = rig.reads();
        assert_eq!(sent.len(), 1);
        answer(&mut rig, &sent[0], |block| Some(block as u8));
        let writes = written(&mut rig, 1);
        let mut right = right;
        let at = offset as usize - BLOCK;
        right[at..at + length].fill(9);
        assert_eq!(plain(&writes[0]), (BLOCK_BYTES, right));
        acknowledge(&mut rig, io, writes);
    }
}

#[test]
fn a_compare_and_write_of_a_part_writes_what_is_around_it() {
    let mut rig = open();
    let op = Op::CompareAndWrite {
        offset: 4096 + 1024,
        length: 512,
    };
    let data = [vec![1; 512], vec![9; 512]].concat();
    let io = rig.submit(op, &data);
    let sent = rig.reads();
    answer(&mut rig, &sent[0], |block| Some(block as u8));
    let writes = written(&mut rig, 1);
    let mut right = vec![1; BLOCK];
    right[1024..1536].fill(9);
    assert_eq!(plain(&writes[0]), (BLOCK_BYTES, right));
    acknowledge(&mut rig, io, writes);
    // What is compared is the text.
    let data = [vec![2; 512], vec![9; 512]].concat();
    let io = rig.submit(op, &data);
    let sent = rig.reads();
    answer(&mut rig, &sent[0], |block| Some(block as u8));
    assert_eq!(rig.result(io), Some(Err(IoError::Miscompare)));
}

#[test]
fn a_part_that_touches_more_blocks_than_can_be_written_is_cut_by_the_front() {
    let mut rig = open();
    let io = rig.write(512, &vec![1; 32 * BLOCK]);
    assert_eq!(rig.result(io), Some(Err(IoError::Invalid)));
}

/// What no store says costs it the read, and its place.
#[test]
fn versions_that_no_store_gives_are_another_answer() {
    type Change = fn(&mut Vec<u8>, &mut Sums, &mut Vec<Run>);
    let changes: [Change; 4] = [
        // A hole that is none.
        |_, _, runs| runs[0].version = Version::NONE,
        // None at all.
        |_, _, runs| runs.clear(),
        // Of more blocks than were asked for.
        |_, _, runs| runs[0].blocks = 2,
        // Newer than the answer says.
        |_, _, runs| runs[0].version = version(1),
    ];
    for change in changes {
        let mut rig = open();
        let io = rig.read(4096, 4096);
        let sent = rig.reads();
        let (mut bytes, mut sums, mut runs) = stored(range_of(&sent[0]), |_| Some(1));
        change(&mut bytes, &mut sums, &mut runs);
        tell(&mut rig, &sent[0], (old(4), sums, runs), &bytes);
        assert_eq!(rig.result(io), None);
        let other = rig.reads();
        assert_ne!(other[0].store, sent[0].store, "another one is asked");
        answer(&mut rig, &other[0], |_| Some(1));
        assert_eq!(rig.payload(io), Payload::Data(Slice::copy_from(&[1; BLOCK])));
        assert!(!rig.calls.is_empty(), "and it is evicted");
    }
}

/// Of a volume that is not encrypted nobody asks for versions, and nobody takes them.
#[test]
fn what_is_not_encrypted_knows_no_versions() {
    let mut rig = Rig::open(2, 1);
    let io = rig.read(4096, 4096);
    let sent = rig.reads();
    assert!(matches!(
        sent[0].body,
        RequestBody::Read(ReadRequest { versions: false, .. })
    ));
    let bytes = vec![1; BLOCK];
    let sums: Sums = [amita_types::crc32c(&bytes)].into_iter().collect();
    let runs = vec![Run {
        blocks: 1,
        version: old(4),
    }];
    tell(&mut rig, &sent[0], (old(4), sums, runs), &bytes);
    assert_eq!(rig.result(io), None);
    // A part of a block goes to the stores as it is.
    let mut rig = Rig::open(2, 1);
    rig.write(512, &[1; 512]);
    assert_eq!(rig.writes(1).len(), 1);
}

/// Clones read what they have from their parents by the parents' keys, and write by their own.
#[test]
fn each_version_has_its_key() {
    let own = KeyName {
        volume: VolumeId(10),
        image: VolumeId(10),
        number: KeyNumber(2),
    };
    let ring = ring()
        .cloned(old(0).generation(), version(0).generation(), own)
        .unwrap();
    let mut rig = Rig::encrypted(1, 1, &ring, Config::default());
    let io = rig.read(0, 4096);
    rig.answer_fences();
    rig.answer_opens(|_| old(5));
    let sent = rig.reads();
    // By the parent's.
    answer(&mut rig, &sent[0], |_| Some(8));
    assert_eq!(rig.payload(io), Payload::Data(Slice::copy_from(&[8; BLOCK])));
    rig.write(0, &[7; BLOCK]);
    let writes = written(&mut rig, 1);
    let run = Run {
        blocks: 1,
        version: version(6),
    };
    let mut opened = vec![0; BLOCK];
    let place = (ChunkIndex(0), BlockRange::new(0, 1));
    keychain(&ring).open(place, &[run], &writes[0].1, &mut opened).unwrap();
    assert_eq!(opened, [7; BLOCK]);
}
