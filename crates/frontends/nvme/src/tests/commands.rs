//! Each I/O command: what it does, and what it refuses.

use super::*;
use amita_types::io::{IoError, Op};

/// An I/O queue of a new controller.
fn start() -> (World, Host) {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let io = Host::io(&mut world, &admin);
    (world, io)
}

const INVALID_FIELD: (u8, u8) = (0, 2);
const OUT_OF_RANGE: (u8, u8) = (0, 0x80);

#[test]
fn what_is_written_is_read_in_both_formats() {
    let (mut world, mut host) = start();
    for nsid in [1, 2] {
        let block = if nsid == 1 { 4096 } else { 512 };
        for (first, count) in [(0, 1u32), (3, 4), (250, 8), (1, 1 << 20 >> 12), (255, 33)] {
            let bytes = pattern(first * 7, count as usize * block);
            assert_eq!(host.run(&mut world, write(1, nsid, first, count), &bytes).0, (0, 0));
            let (status, seen) = host.run(&mut world, read(2, nsid, first, count), &[]);
            assert_eq!(status, (0, 0));
            assert!(seen == bytes, "namespace {nsid}, {first}+{count}");
            let in_volume = world
                .volumes
                .read(volume(&world, nsid), first * block as u64, bytes.len());
            assert!(in_volume == bytes);
        }
    }
    // In capsules.
    for (first, count) in [(9, 1u32), (254, 4)] {
        let bytes = pattern(first + 99, count as usize * 4096);
        let command = write(1, 1, first, count).capsule(bytes.len());
        assert_eq!(host.run(&mut world, command, &bytes).0, (0, 0));
        assert_eq!(host.run(&mut world, read(1, 1, first, count), &[]), ((0, 0), bytes));
    }
    // What was never written is zeros, also in part.
    assert_eq!(
        host.run(&mut world, read(1, 1, 2000, 3), &[]),
        ((0, 0), vec![0; 3 * 4096])
    );
}

#[test]
fn ranges_are_checked() {
    let (mut world, mut host) = start();
    let last = 16 * MIB / 4096;
    let cases = [
        (read(1, 1, last - 1, 1), (0, 0)),
        (read(1, 1, last, 1), OUT_OF_RANGE),
        (read(1, 1, last - 1, 2), OUT_OF_RANGE),
        (read(1, 1, u64::MAX, 1), OUT_OF_RANGE),
        (read(1, 1, u64::MAX / 4096, 2), OUT_OF_RANGE),
        (write(1, 2, 16 * MIB / 512, 1), OUT_OF_RANGE),
        (read(1, 1, 0, 257), INVALID_FIELD),
        (read(1, 3, 0, 1), (0, 0x0b)),
        (read(1, 0, 0, 1), (0, 0x0b)),
        (read(1, u32::MAX, 0, 1), (0, 0x0b)),
        (write(1, 1, last, 1).opcode(8), OUT_OF_RANGE),
        (write(1, 1, last, 1).opcode(12), OUT_OF_RANGE),
        (write(1, 1, last, 1).opcode(5), OUT_OF_RANGE),
    ];
    for (index, (command, status)) in cases.into_iter().enumerate() {
        assert_eq!(host.run(&mut world, command, &[]).0, status, "case {index}");
    }
    assert_eq!(host.closed, None);
}

#[test]
fn data_pointers_are_checked() {
    let (mut world, mut host) = start();
    let mut prp = read(1, 1, 0, 1);
    prp.0[1] = 0;
    let mut no_data = Sqe::new(8, 1, 1).blocks(0, 1);
    no_data.0[1] = 0xc0;
    let mut segment = read(1, 1, 0, 1);
    segment.0[39] = 0x30;
    let mut far = write(1, 1, 0, 1).capsule(4096);
    far.0[24] = 4;
    let mut endless = write(1, 1, 0, 1).capsule(4096);
    endless.0[24..32].fill(0xff);
    let cases = [
        (prp, INVALID_FIELD),
        (no_data, INVALID_FIELD),
        (segment, (0, 0x11)),
        (read(1, 1, 0, 1).capsule(4096), (0, 0x11)),
        (read(1, 1, 0, 1).transport(4095), (0, 0x0f)),
        (write(1, 1, 0, 1).transport(8192), (0, 0x0f)),
        (write(1, 1, 0, 1).capsule(8192), (0, 0x0f)),
        (far, (0, 0x16)),
        (endless, (0, 0x16)),
    ];
    for (index, (command, status)) in cases.into_iter().enumerate() {
        let data = vec![0; 4096];
        assert_eq!(host.run(&mut world, command, &data).0, status, "case {index}");
    }
    let mut offset = write(1, 1, 0, 1).capsule(4096);
    offset.0[24..26].copy_from_slice(&512u16.to_le_bytes());
    let data = pattern(0, 512 + 4096);
    assert_eq!(host.run(&mut world, offset, &data).0, (0, 0));
    assert_eq!(host.run(&mut world, read(1, 1, 0, 1), &[]).1, pattern(512, 4096));
}

#[test]
fn unknown_commands_are_refused() {
    let (mut world, mut host) = start();
    for opcode in [0x03, 0x04, 0x0d + 0x40, 0x12, 0x20, 0x7e, 0x80, 0xff] {
        let status = host.run(&mut world, Sqe::new(opcode, 1, 1), &[]).0;
        assert_eq!(status, (0, 1), "opcode {opcode:#x}");
    }
    // Write Uncorrectable is one of them.
    assert_eq!(host.run(&mut world, write(1, 1, 0, 1).opcode(4), &[]).0, (0, 1));
    assert_eq!(
        host.run(&mut world, write(1, 1, 0, 1).dword(12, 1 << 20), &[]).0,
        INVALID_FIELD
    );
}

#[test]
fn flush_and_fua_and_what_is_ignored() {
    let (mut world, mut host) = start();
    assert_eq!(host.run(&mut world, Sqe::new(0, 1, 1), &[]).0, (0, 0));
    assert_eq!(host.run(&mut world, Sqe::new(0, 1, u32::MAX), &[]).0, (0, 0));
    assert_eq!(host.run(&mut world, Sqe::new(0, 1, 9), &[]).0, (0, 0x0b));
    // FUA, limited retry, PRINFO.
    let flags = 1 << 31 | 1 << 30 | 0xf << 26;
    assert_eq!(
        host.run(&mut world, write(1, 1, 0, 1).dword(12, flags), &pattern(0, 4096))
            .0,
        (0, 0)
    );
    assert_eq!(
        host.run(&mut world, read(1, 1, 0, 1).dword(12, flags), &[]).1,
        pattern(0, 4096)
    );
}

/// A Write Zeroes within an atom is one step, whatever it frees; NVM Command Set 1.1, 2.1.4.
#[test]
fn zeroes_within_an_atom_are_one_step() {
    let (mut world, mut host) = start();
    world.runs = false;
    let zero = |first, count: u32, flags: u32| Sqe::new(8, 1, 2).blocks(first, count).dword(12, (count - 1) | flags);
    let deallocate = 1 << 25;
    let mut steps = |command| {
        host.command(&mut world, command);
        let ops: Vec<_> = world.service.queue.iter().map(|submitted| submitted.op).collect();
        world.service.run();
        host.settle(&mut world);
        assert_eq!(host.one().status(), (0, 0));
        ops
    };
    let write = |offset, length| Op::Write { offset, length };
    assert_eq!(steps(zero(3, 250, 0)), [write(3 * 512, 250 * 512)]);
    assert_eq!(steps(zero(3, 250, deallocate)), [write(3 * 512, 250 * 512)]);
    let clear = Op::Clear {
        offset: 4096,
        length: 4096,
    };
    assert_eq!(steps(zero(8, 8, deallocate)), [clear]);
    assert_eq!(
        steps(zero(250, 12, 0)),
        [write(250 * 512, 6 * 512), write(128 << 10, 6 * 512)]
    );
}

#[test]
fn compare() {
    let (mut world, mut host) = start();
    let bytes = pattern(3, 64 * 4096);
    let compare = |first, count| write(1, 1, first, count).opcode(5);
    assert_eq!(host.run(&mut world, write(1, 1, 240, 64), &bytes).0, (0, 0));
    assert_eq!(host.run(&mut world, compare(240, 64), &bytes).0, (0, 0));
    let mut other = bytes.clone();
    other[63 * 4096 + 17] ^= 1;
    assert_eq!(host.run(&mut world, compare(240, 64), &other).0, (2, 0x85));
    assert_eq!(host.run(&mut world, compare(1000, 1), &[0; 4096]).0, (0, 0), "zeros");
    assert_eq!(host.run(&mut world, compare(1000, 1), &bytes[..4096]).0, (2, 0x85));
    let capsule = compare(240, 1).capsule(4096);
    assert_eq!(host.run(&mut world, capsule, &bytes[..4096]).0, (0, 0));
}

#[test]
fn write_zeroes_and_deallocate() {
    let (mut world, mut host) = start();
    let all = pattern(0, 1 << 20);
    for nsid in [1, 2] {
        let block = if nsid == 1 { 4096u64 } else { 512 };
        for deallocate in [false, true] {
            let count = (1 << 20) / block as u32;
            assert_eq!(host.run(&mut world, write(1, nsid, 0, count), &all).0, (0, 0));
            let before = world.volumes.allocated_bytes(volume(&world, nsid));
            let flags = if deallocate { 1 << 25 } else { 0 };
            let command = Sqe::new(8, 1, nsid).blocks(5, 100);
            let command = command.dword(12, 99 | flags);
            assert_eq!(host.run(&mut world, command, &[]).0, (0, 0));
            let mut expected = all.clone();
            expected[5 * block as usize..105 * block as usize].fill(0);
            assert!(host.run(&mut world, read(1, nsid, 0, count), &[]).1 == expected);
            let after = world.volumes.allocated_bytes(volume(&world, nsid));
            // In namespace 2 the range begins and ends within 4 KiB, and is short enough to be one step: it is written.
            let freed = if deallocate && nsid == 1 { 100 * 4096 } else { 0 };
            assert_eq!(before - after, freed, "namespace {nsid}");
        }
    }
    // A whole namespace at once, as blkdiscard -z does.
    assert_eq!(host.run(&mut world, Sqe::new(8, 1, 1).blocks(0, 4096), &[]).0, (0, 0));
}

fn ranges(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (first, count) in ranges {
        bytes.extend([0; 4]);
        bytes.extend(count.to_le_bytes());
        bytes.extend(first.to_le_bytes());
    }
    bytes
}

#[test]
fn dataset_management() {
    let (mut world, mut host) = start();
    let all = pattern(0, 1 << 20);
    assert_eq!(host.run(&mut world, write(1, 1, 0, 256), &all).0, (0, 0));
    let command = |count: u32, attributes| Sqe::new(9, 1, 1).dword(10, count - 1).dword(11, attributes);
    let two = ranges(&[(1, 2), (200, 56)]);
    // A hint only.
    assert_eq!(host.run(&mut world, command(2, 1).transport(32), &two).0, (0, 0));
    assert!(host.run(&mut world, read(1, 1, 0, 256), &[]).1 == all);
    // One range that is wrong: nothing is done.
    let wrong = ranges(&[(1, 2), (4096, 1)]);
    assert_eq!(
        host.run(&mut world, command(2, 4).transport(32), &wrong).0,
        OUT_OF_RANGE
    );
    assert!(host.run(&mut world, read(1, 1, 0, 256), &[]).1 == all);
    assert_eq!(host.run(&mut world, command(2, 4).transport(32), &two).0, (0, 0));
    let mut expected = all.clone();
    expected[4096..3 * 4096].fill(0);
    expected[200 * 4096..].fill(0);
    assert!(host.run(&mut world, read(1, 1, 0, 256), &[]).1 == expected);
    assert_eq!(world.volumes.allocated_bytes(volume(&world, 1)), (256 - 58) * 4096);
    // As Linux has it: a page in the capsule, of which the first ranges count; and all 256.
    let mut page = ranges(&[(3, 1)]);
    page.resize(4096, 0xee);
    assert_eq!(host.run(&mut world, command(1, 4).capsule(4096), &page).0, (0, 0));
    let many: Vec<_> = (0..256).map(|index| (index * 2, 1)).collect();
    assert_eq!(
        host.run(&mut world, command(256, 4).transport(4096), &ranges(&many)).0,
        (0, 0)
    );
    assert_eq!(host.run(&mut world, command(2, 4).transport(16), &two).0, (0, 0x0f));
    assert_eq!(
        host.run(&mut world, command(1, 4).transport(16), &ranges(&[(0, 0)])).0,
        (0, 0)
    );
}

#[test]
fn copy() {
    let (mut world, mut host) = start();
    let all = pattern(0, 1 << 20);
    assert_eq!(host.run(&mut world, write(1, 1, 0, 256), &all).0, (0, 0));
    let descriptors = |ranges: &[(u64, u16)]| {
        let mut bytes = vec![0; 32 * ranges.len()];
        for ((first, count), bytes) in ranges.iter().zip(bytes.chunks_exact_mut(32)) {
            bytes[8..16].copy_from_slice(&first.to_le_bytes());
            bytes[16..18].copy_from_slice(&(count - 1).to_le_bytes());
        }
        bytes
    };
    let command = |to: u64, count: u32| {
        let command = Sqe::new(0x19, 1, 1).blocks(to, 1).dword(12, count - 1);
        command.transport(32 * count as usize)
    };
    // Over the border of a chunk, where it goes.
    let list = descriptors(&[(10, 20), (100, 1), (2000, 3)]);
    assert_eq!(host.run(&mut world, command(1010, 3), &list).0, (0, 0));
    let mut expected = all[10 * 4096..30 * 4096].to_vec();
    expected.extend(&all[100 * 4096..101 * 4096]);
    expected.extend(vec![0; 3 * 4096]);
    assert!(host.run(&mut world, read(1, 1, 1010, 24), &[]).1 == expected);
    let cases = [
        (command(0, 1), vec![(4096, 1)], OUT_OF_RANGE),
        (command(4095, 1), vec![(0, 2)], OUT_OF_RANGE),
        (command(512, 1), vec![(0, 257)], (1, 0x83)),
        (command(512, 2), vec![(0, 256), (0, 1)], (1, 0x83)),
        (command(512, 129), vec![(0, 1); 129], (1, 0x83)),
        (command(512, 1).dword(12, 1 << 8), vec![(0, 1)], INVALID_FIELD),
        (command(512, 2), vec![(0, 10), (521, 1)], (1, 0x87)),
        (command(512, 2), vec![(0, 10), (523, 1)], (0, 0)),
    ];
    for (index, (command, list, status)) in cases.into_iter().enumerate() {
        assert_eq!(
            host.run(&mut world, command, &descriptors(&list)).0,
            status,
            "case {index}"
        );
    }
}

#[test]
fn verify() {
    let (mut world, mut host) = start();
    assert_eq!(
        host.run(&mut world, Sqe::new(12, 1, 1).blocks(0, 256), &[]),
        ((0, 0), vec![])
    );
    assert_eq!(
        host.run(&mut world, Sqe::new(12, 1, 1).blocks(0, 257), &[]).0,
        INVALID_FIELD
    );
    world.service.fault = Some((5 * 4096, IoError::Damaged));
    assert_eq!(host.run(&mut world, Sqe::new(12, 1, 1).blocks(0, 8), &[]).0, (2, 0x81));
}

#[test]
fn errors_of_the_volume_have_their_statuses() {
    let (mut world, mut host) = start();
    let cases = [
        (IoError::Lost, (3, 0)),
        (IoError::Unavailable, (3, 0)),
        (IoError::NoSpace, (0, 0x81)),
        (IoError::Damaged, (2, 0x81)),
        (IoError::Reserved, (0, 0x83)),
        (IoError::Closed, (0, 0x82)),
        (IoError::ReadOnly, (1, 0x82)),
        (IoError::OutOfRange, (0, 0x80)),
        (IoError::Invalid, (0, 6)),
    ];
    for (error, status) in cases {
        // In the third piece of four.
        world.service.fault = Some((300 << 10, error));
        assert_eq!(
            host.run(&mut world, write(1, 1, 0, 128), &pattern(0, 512 << 10)).0,
            status
        );
        let (seen, data) = host.run(&mut world, read(1, 1, 0, 128), &[]);
        assert_eq!(seen, status);
        assert!(data.len() <= 256 << 10, "nothing behind the failure");
        assert_eq!(host.run(&mut world, Sqe::new(8, 1, 1).blocks(0, 128), &[]).0, status);
        world.service.fault = None;
        assert_eq!(host.run(&mut world, read(1, 1, 0, 1), &[]).0, (0, 0));
    }
}

#[test]
fn a_busy_volume_is_asked_again() {
    let (mut world, mut host) = start();
    world.service.fault = Some((0, IoError::Busy));
    host.command(&mut world, read(1, 1, 0, 1));
    assert_eq!(host.pdus(), []);
    let at = host.front.deadline().expect("a time for another try");
    world.service.fault = None;
    host.tick(&mut world);
    assert_eq!(host.pdus(), [], "not yet");
    world.now = at;
    host.tick(&mut world);
    let answers = host.pdus();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1].status(), (0, 0));
}

#[test]
fn namespaces_that_cannot_be_reached_say_so() {
    let (mut world, mut host) = start();
    for (ana, status) in [
        (Ana::NonOptimized, (0, 0)),
        (Ana::Inaccessible, (3, 2)),
        (Ana::Change, (3, 3)),
        (Ana::Optimized, (0, 0)),
    ] {
        world.change(&mut [&mut host], |subsystem| {
            Arc::make_mut(&mut subsystem.namespaces[0]).ana = ana;
        });
        assert_eq!(host.run(&mut world, read(1, 1, 0, 1), &[]).0, status, "{ana:?}");
    }
}

#[test]
fn without_flow_control_reads_end_with_their_data() {
    let mut world = World::new();
    let admin = Host::admin(&mut world);
    let mut host = Host::greeted(&mut world, 0, 0, 1);
    let data = connect_data(NQN, HOST, 1, admin.controller);
    host.command_with(&mut world, connect_command(1, 128, 4), &data);
    let answer = host.one();
    assert_eq!(u16_at(&answer.header, 8), 0xffff, "flow control is off");
    host.command(&mut world, read(1, 1, 0, 64));
    let answers = host.pdus();
    let flags: Vec<u8> = answers.iter().map(|pdu| pdu.flags).collect();
    assert_eq!(flags, [0, 4 | 8], "two pieces; the last one ends the command");
    // An error still needs its response.
    world.service.fault = Some((0, IoError::Damaged));
    host.command(&mut world, read(2, 1, 0, 1));
    assert_eq!(host.one().status(), (2, 0x81));
}

#[test]
fn the_head_of_the_queue_is_told() {
    let (mut world, mut host) = start();
    // Connect was the first.
    for index in 1..300u16 {
        host.command(&mut world, Sqe::new(0, index, 1));
        assert_eq!(u16_at(&host.one().header, 8), (index + 1) % 128);
    }
}

#[test]
fn reads_leave_in_order() {
    let (mut world, mut host) = start();
    let bytes = pattern(0, 1 << 19);
    assert_eq!(host.run(&mut world, write(1, 1, 0, 128), &bytes).0, (0, 0));
    world.runs = false;
    host.command(&mut world, read(1, 1, 0, 128));
    assert_eq!(world.service.queue.len(), 4);
    for place in [3, 1, 1] {
        world.service.run_one(place);
        host.settle(&mut world);
        assert_eq!(host.output.len(), 0, "the first piece is still to come");
    }
    world.service.run_one(0);
    host.settle(&mut world);
    let answers = host.pdus();
    assert_eq!(answers.len(), 5);
    let read: Vec<u8> = answers.iter().flat_map(|pdu| pdu.data.clone()).collect();
    assert!(read == bytes);
    assert_eq!(answers[3].flags, 4, "LAST");
    assert_eq!(answers[4].status(), (0, 0));
}

#[test]
fn a_write_reaches_the_volume_as_one_piece() {
    let (mut world, mut host) = start();
    world.runs = false;
    for cut in [4096, 32 << 10] {
        host.command(&mut world, write(1, 1, 0, 32));
        let tag = u16_at(&host.one().header, 2);
        let bytes = pattern(0, 128 << 10);
        // However the host cuts it.
        for (index, piece) in bytes.chunks(cut).enumerate() {
            assert!(world.service.queue.is_empty());
            let last = (index + 1) * cut == bytes.len();
            let pdu = host.data_pdu(1, tag, (index * cut) as u32, piece, last);
            host.send(&mut world, &pdu);
        }
        assert_eq!(world.service.queue.len(), 1);
        let op = world.service.queue[0].op;
        assert_eq!(
            op,
            Op::Write {
                offset: 0,
                length: 128 << 10
            }
        );
        world.runs = true;
        host.settle(&mut world);
        assert_eq!(host.one().status(), (0, 0));
        assert!(world.volumes.read(volume(&world, 1), 0, bytes.len()) == bytes);
        world.runs = false;
    }
}
