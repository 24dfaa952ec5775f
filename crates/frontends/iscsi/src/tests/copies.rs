//! EXTENDED COPY: what is moved, and in which order; what it meets on its way.

use super::commands::designator;
use super::*;
use amita_frontend::service::Source;
use amita_scsi::Lun;
use amita_types::io::{IoError, Op};

/// From which logical unit to which, how many blocks of 4 KiB, and from which of them to which.
pub(super) type Part = (u16, u16, u16, u64, u64);

/// An EXTENDED COPY of such parts, and its parameter list. Logical unit 0 has blocks of 512 bytes.
pub(super) fn copy(host: &mut Host, world: &mut World, parts: &[Part]) -> (Header, Vec<u8>) {
    let mut list = vec![0; 16];
    list[3] = 64;
    list[10..12].copy_from_slice(&(28 * parts.len() as u16).to_be_bytes());
    for lun in 0..2 {
        let designator = designator(host, world, lun);
        let mut descriptor = [0; 32];
        descriptor[0] = 0xe4;
        descriptor[4..4 + designator.len()].copy_from_slice(&designator);
        descriptor[28..].copy_from_slice(&BLOCKS[usize::from(lun)].to_be_bytes());
        list.extend(descriptor);
    }
    for &(from, to, count, from_block, to_block) in parts {
        let blocks = |lun: u16| u64::from(4096 / BLOCKS[usize::from(lun)]);
        let mut segment = [0; 28];
        (segment[0], segment[3], segment[5], segment[7]) = (0x02, 0x18, from as u8, to as u8);
        segment[10..12].copy_from_slice(&(count * blocks(from) as u16).to_be_bytes());
        segment[12..20].copy_from_slice(&(from_block * blocks(from)).to_be_bytes());
        segment[20..28].copy_from_slice(&(to_block * blocks(to)).to_be_bytes());
        list.extend(segment);
    }
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[12..14].copy_from_slice(&(list.len() as u16).to_be_bytes());
    (command(1, 0xa0, list.len() as u32, cdb), list)
}

/// What was submitted, round by round.
type Rounds = Vec<Vec<(Source, Op)>>;

/// Carries out a copy round by round. Returns what was submitted, and the answer.
fn rounds(
    host: &mut Host,
    world: &mut World,
    parts: &[Part],
    mut between: impl FnMut(usize, &mut Host, &mut World),
) -> (Rounds, (u8, [u8; 3])) {
    let (header, list) = copy(host, world, parts);
    world.runs = false;
    host.give(world, header, &list);
    let mut rounds = Rounds::new();
    while !world.service.queue.is_empty() {
        let queue = world.service.queue.iter();
        rounds.push(queue.map(|piece| (piece.source(), piece.op)).collect());
        world.service.run();
        host.settle(world);
        between(rounds.len(), host, world);
    }
    world.runs = true;
    (rounds, host.one().status())
}

fn put(host: &mut Host, world: &mut World, lun: u16, block: u64, data: &[u8]) {
    let blocks = 4096 / BLOCKS[usize::from(lun)];
    for (index, part) in data.chunks(1 << 20).enumerate() {
        let lba = (block + 256 * index as u64) as u32 * blocks;
        let count = (part.len() / 4096) as u16 * blocks as u16;
        assert_eq!(host.run(world, write(lun, lba, count), part).told(), GOOD);
    }
}

fn held(world: &World, lun: u16, block: u64, blocks: usize) -> Vec<u8> {
    world.volumes.read(world.volume(lun), block * 4096, blocks * 4096)
}

/// SBC-3, "GET LBA STATUS command" knows what was never written: that is not read, nor written as zeros.
#[test]
fn what_was_never_written_is_not_moved() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    // Of 12 MiB in chunks of 1 MiB: 4 KiB, 200 KiB, and all of one chunk.
    put(&mut host, &mut world, 1, 20, &pattern(1, 4096));
    put(&mut host, &mut world, 1, 1000, &pattern(2, 50 * 4096));
    put(&mut host, &mut world, 1, 2048, &pattern(3, 1 << 20));
    let before = world.volumes.allocated_bytes(world.volume(1));
    // What is there has to go, and it lies otherwise in its chunks.
    put(&mut host, &mut world, 0, 0, &pattern(4, 13 << 20));
    let (rounds, told) = rounds(&mut host, &mut world, &[(1, 0, 3072, 0, 7)], |_, _, _| {});
    assert_eq!(told, GOOD);
    assert!(held(&world, 0, 7, 3072) == held(&world, 1, 0, 3072));
    assert!(
        held(&world, 0, 0, 7) == pattern(4, 13 << 20)[..7 * 4096],
        "nothing else"
    );
    assert!(held(&world, 0, 3079, 200)[..] == pattern(4, 13 << 20)[3079 * 4096..3279 * 4096]);
    let ops: Vec<Op> = rounds.concat().iter().map(|(_, op)| *op).collect();
    let bytes = |is_meant: fn(&Op) -> bool| ops.iter().filter(|op| is_meant(op)).map(Op::length).sum::<u64>();
    assert_eq!(
        bytes(|op| matches!(op, Op::Read { .. })),
        before,
        "each block that is there, once"
    );
    assert_eq!(bytes(|op| matches!(op, Op::Write { .. })), before);
    assert_eq!(bytes(|op| matches!(op, Op::Clear { .. })), (12 << 20) - before);
    let asked = ops.iter().filter(|op| matches!(op, Op::Allocation { .. })).count();
    assert_eq!(asked, 12, "each chunk once");
    assert!(ops.len() < 150, "{} pieces; reading all of it takes 384", ops.len());
    assert_eq!(
        world.volumes.allocated_bytes(world.volume(0)),
        before + (13 << 20) - (12 << 20)
    );
}

/// Blocks of 512 bytes: a hole that begins and ends inside a physical block is zeros there, and nothing beside it is touched.
#[test]
fn a_hole_at_parts_of_blocks() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let old = pattern(9, 2 << 20);
    put(&mut host, &mut world, 0, 0, &old);
    let (header, mut list) = copy(&mut host, &mut world, &[(0, 0, 256, 2048, 0)]);
    // To LBA 3: 1.5 KiB into a block.
    let at = list.len() - 8;
    list[at..].copy_from_slice(&3u64.to_be_bytes());
    assert_eq!(host.run(&mut world, header, &list).told(), GOOD);
    let mut expected = old.clone();
    expected[1536..1536 + (1 << 20)].fill(0);
    assert!(held(&world, 0, 0, 512) == expected);
}

/// Several pieces are under way at once, of one segment and of the next one, but no more than are allowed.
#[test]
fn segments_that_have_nothing_to_do_with_one_another_are_copied_together() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let data = pattern(6, 4 << 20);
    put(&mut host, &mut world, 1, 0, &data);
    let parts: Vec<Part> = (0..16).map(|index| (1, 0, 32, 32 * index, 32 * (15 - index))).collect();
    let (found, told) = rounds(&mut host, &mut world, &parts, |_, _, _| {});
    assert_eq!(told, GOOD);
    assert_eq!(found.iter().map(Vec::len).max(), Some(8), "pieces at once");
    assert_eq!(found.len(), 4, "read and written, eight at once: {found:?}");
    for index in 0..16 {
        let from = 32 * index * 4096;
        assert!(held(&world, 0, 32 * (15 - index as u64), 32) == data[from..from + 32 * 4096]);
    }
    let (found, _) = rounds(&mut host, &mut world, &[(1, 0, 1024, 0, 1024)], |_, _, _| {});
    let asks = |op: &Op| matches!(op, Op::Allocation { .. });
    assert!(
        found[0].iter().all(|(_, op)| asks(op)) && found[0].len() == 4,
        "{:?}",
        found[0]
    );
    assert_eq!(found.iter().map(Vec::len).max(), Some(8));
    // Of a volume without anything: questions and clears, eight at once.
    let (found, told) = rounds(&mut host, &mut world, &[(1, 0, 2048, 2048, 0)], |_, _, _| {});
    assert_eq!(told, GOOD);
    let ops: Vec<Op> = found.concat().iter().map(|(_, op)| *op).collect();
    assert_eq!((ops.len(), ops.iter().filter(|op| asks(op)).count()), (16, 8));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(world.volumes.allocated_bytes(world.volume(0)), 0);
}

/// SPC-4, "EXTENDED COPY": "[...] in the order in which they are in the list".
#[test]
fn segments_that_rest_on_one_another_are_copied_one_after_the_other() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let [one, other] = [pattern(1, 64 * 4096), pattern(2, 64 * 4096)];
    put(&mut host, &mut world, 1, 0, &one);
    put(&mut host, &mut world, 1, 100, &other);
    // What the first has written the second one reads; the third writes over what the second has read, the fourth over what it has written.
    let parts = [
        (1, 0, 64, 0, 0),
        (0, 0, 64, 0, 300),
        (1, 0, 64, 100, 0),
        (1, 0, 32, 100, 300),
    ];
    let (_, told) = rounds(&mut host, &mut world, &parts, |_, _, _| {});
    assert_eq!(told, GOOD);
    assert!(held(&world, 0, 0, 64) == other);
    assert!(held(&world, 0, 300, 32) == other[..32 * 4096] && held(&world, 0, 332, 32) == one[32 * 4096..]);
    // What one has made, the next one finds, though the chunk was a hole before.
    let parts = [(1, 0, 64, 0, 2048), (0, 1, 256, 2048, 3000)];
    let (_, told) = rounds(&mut host, &mut world, &parts, |_, _, _| {});
    assert_eq!(told, GOOD);
    assert!(held(&world, 1, 3000, 64) == one && held(&world, 1, 3064, 192).iter().all(|byte| *byte == 0));
}

/// A logical unit that is taken away from an initiator in the middle of a copy may be another host's a moment later.
#[test]
fn a_copy_ends_when_what_it_copies_is_not_for_its_initiator_any_more() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    put(&mut host, &mut world, 1, 0, &pattern(6, 4 << 20));
    let lost = world.volume(0);
    let mask = |target: &mut Target, luns: Option<&[u16]>| {
        let mut access = Access::clone(&target.initiators[0]);
        access.mask = luns.map(<[u16]>::to_vec);
        target.initiators[0] = Arc::new(access);
    };
    let (found, told) = rounds(&mut host, &mut world, &[(1, 0, 1024, 0, 0)], |round, host, world| {
        if round == 4 {
            world.change(&mut [host], |_, target| mask(target, Some(&[1])));
        }
    });
    // COPY ABORTED, copy target device not reachable: the logical unit by which it was asked for is as it was.
    assert_eq!(told, (2, [0xa, 0x0d, 0x02]));
    let after = found[5..].iter().flatten().filter(|(source, _)| source.volume == lost);
    assert_eq!(after.count(), 0, "{found:?}");
    assert_eq!(found.len(), 5, "nine it would take");
    let outcome = host.run(&mut world, command(1, 0x80, 0, TEST_UNIT_READY), &[]);
    assert_eq!(outcome.told(), (2, [6, 0x3f, 0x0e]), "other logical units");
    assert_eq!(
        host.run(&mut world, command(1, 0x80, 0, TEST_UNIT_READY), &[]).told(),
        GOOD
    );
    // Where all of it may be used, other settings are nothing to it.
    world.change(&mut [&mut host], |_, target| mask(target, None));
    for lun in [0, 1] {
        while host.run(&mut world, command(lun, 0x80, 0, TEST_UNIT_READY), &[]).told() != GOOD {}
    }
    let (_, told) = rounds(&mut host, &mut world, &[(1, 0, 1024, 0, 0)], |round, host, world| {
        if round == 4 {
            world.change(&mut [host], |_, target| mask(target, Some(&[0, 1])));
        }
    });
    assert_eq!(told, GOOD);
    assert!(held(&world, 0, 0, 1024) == pattern(6, 4 << 20));
}

/// An aborted copy begins nothing more, and its LUN is there.
#[test]
fn a_copy_can_be_aborted() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    put(&mut host, &mut world, 1, 0, &pattern(6, 4 << 20));
    let (header, list) = copy(&mut host, &mut world, &[(1, 0, 1024, 0, 0)]);
    world.runs = false;
    let tag = host.give(&mut world, header, &list);
    for _ in 0..3 {
        world.service.run();
        host.settle(&mut world);
    }
    let mut abort = Header::new(0x40 | opcode::TASK_MANAGEMENT, 0x81)
        .with_lun(Lun::of(1).0)
        .with_target_tag(tag);
    abort.0[9] = 1;
    host.give(&mut world, abort, &[]);
    assert!(host.pdus().is_empty(), "what is under way lands first");
    world.service.run();
    host.settle(&mut world);
    let answer = host.one();
    assert_eq!(
        (answer.kind(), answer.header.0[2]),
        (opcode::TASK_MANAGEMENT_RESPONSE, 0)
    );
    assert!(world.service.queue.is_empty(), "nothing more is begun");
}

/// At a full pool all that writes says so by what ESXi pauses machines for, and what reads goes on.
#[test]
fn a_full_pool_is_told_as_such_by_everything_that_writes() {
    const PAUSES: (u8, [u8; 3]) = (2, [7, 0x27, 0x07]);
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let block = pattern(1, 4096);
    put(&mut host, &mut world, 1, 0, &block);
    // What is asked of this block fails so; it was never written.
    world.service.fault = Some((9 * 4096, IoError::NoSpace));
    let long = |operation: u8, count: u8| {
        let mut cdb = [0; 16];
        (cdb[0], cdb[9], cdb[13]) = (operation, 9, count);
        cdb
    };
    let compare = [vec![0; 4096], block.clone()].concat();
    for (operation, data) in [
        (0x8a, &block),
        (0x8e, &block),
        (0x8b, &block),
        (0x93, &block),
        (0x89, &compare),
    ] {
        let outcome = host.run(
            &mut world,
            command(1, 0xa0, data.len() as u32, long(operation, 1)),
            data,
        );
        assert_eq!(outcome.told(), PAUSES, "{operation:#04x}");
    }
    // In the middle of a long one, too.
    assert_eq!(
        host.run(&mut world, write(1, 0, 256), &pattern(1, 1 << 20)).told(),
        PAUSES
    );
    // A copy is ended; the host copies by itself then, and hears it of its own writes.
    let (header, list) = copy(&mut host, &mut world, &[(1, 1, 16, 1024, 0)]);
    put(&mut host, &mut world, 1, 1024, &pattern(2, 16 * 4096));
    assert_eq!(host.run(&mut world, header, &list).told(), (2, [0xa, 0x27, 0x07]));
    assert_eq!(host.run(&mut world, read(1, 0, 1), &[]).data, block);
    // There is room again.
    world.service.fault = None;
    assert_eq!(host.run(&mut world, write(1, 9, 1), &block).told(), GOOD);
    assert_eq!(host.run(&mut world, header, &list).told(), GOOD);
}

/// Owners that are not found in time are a fault of the path: initiators with several try another one.
#[test]
fn a_volume_that_cannot_be_reached_is_not_ready() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    for error in [IoError::Unavailable, IoError::Lost] {
        world.service.fault = Some((0, error));
        for header in [read(1, 0, 1), read(0, 0, 8)] {
            assert_eq!(host.run(&mut world, header, &[]).told(), (2, [2, 4, 0x0a]), "{error}");
        }
        let outcome = host.run(&mut world, write(1, 0, 1), &pattern(1, 4096));
        assert_eq!(outcome.told(), (2, [2, 4, 0x0a]), "{error}");
    }
}
