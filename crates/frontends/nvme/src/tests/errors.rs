//! Commands of I/O queues that fail, and what the admin queue tells of them (NVM Express Base 2.1, 5.1.12.1.2).

use super::*;
use crate::failure::MAX_FAILURES;
use crate::wire::u64_at;
use amita_types::io::IoError;

/// An entry of the log: count, queue, command, status field, location, block, namespace, opcode.
type Entry = (u64, u16, u16, u16, u16, u64, u32, u8);

fn log(world: &mut World, admin: &mut Host, page: u32, length: usize) -> Vec<u8> {
    let dwords = length as u32 / 4 - 1;
    let command = Sqe::new(2, 99, u32::MAX).dword(10, page | dwords << 16);
    let (status, data) = admin.run(world, command.transport(length), &[]);
    assert_eq!((status, data.len()), ((0, 0), length));
    data
}

/// What the page holds, newest first.
fn errors(world: &mut World, admin: &mut Host) -> Vec<Entry> {
    let page = log(world, admin, 1, 64 * MAX_FAILURES);
    let entries = page.chunks_exact(64).take_while(|entry| u64_at(entry, 0) > 0);
    entries
        .map(|entry| {
            assert_eq!(
                (entry[29], entry[63]),
                (0, 1),
                "no error of the transport, and the opcode is told"
            );
            (
                u64_at(entry, 0),
                u16_at(entry, 8),
                u16_at(entry, 10),
                u16_at(entry, 12),
                u16_at(entry, 14),
                u64_at(entry, 16),
                u32_at(entry, 24),
                entry[31],
            )
        })
        .collect()
}

/// How many the health log has counted.
fn counted(world: &mut World, admin: &mut Host) -> u64 {
    u64_at(&log(world, admin, 2, 512), 176)
}

const fn field(kind: u16, code: u16, is_final: bool) -> u16 {
    code << 1 | kind << 9 | 1 << 14 | (is_final as u16) << 15
}

#[test]
fn what_fails_on_io_queues_is_told() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let mut one = Host::io_with(&mut world, &admin, 1, 0, 1, 0);
    let mut two = Host::io_with(&mut world, &admin, 2, 0, 1, 4);
    assert_eq!(errors(&mut world, &mut admin), []);
    assert_eq!(counted(&mut world, &mut admin), 0);

    let last = 16 * MIB / 512;
    assert_eq!(one.run(&mut world, read(7, 2, last, 1), &[]).0, (0, 0x80));
    assert_eq!(two.run(&mut world, read(8, 9, 0, 1), &[]).0, (0, 0x0b));
    assert_eq!(two.run(&mut world, Sqe::new(0x7e, 9, 1), &[]).0, (0, 1));
    assert_eq!(one.run(&mut world, read(10, 1, 0, 1).transport(512), &[]).0, (0, 0x0f));
    let expected: [Entry; 4] = [
        (4, 1, 10, field(0, 0x0f, true), 32, 0, 1, 2),
        (3, 2, 9, field(0, 1, true), 0, 0, 1, 0x7e),
        (2, 2, 8, field(0, 0x0b, true), 4, 0, 9, 2),
        (1, 1, 7, field(0, 0x80, true), 40, last, 2, 2),
    ];
    assert_eq!(errors(&mut world, &mut admin), expected);
    assert_eq!(errors(&mut world, &mut admin), expected, "they stay");
    assert_eq!(counted(&mut world, &mut admin), 4);

    // What ends well leaves nothing.
    assert_eq!(one.run(&mut world, read(1, 1, 0, 1), &[]).0, (0, 0));
    assert_eq!(counted(&mut world, &mut admin), 4);
    // The admin queue's are among them.
    assert_eq!(admin.run(&mut world, Sqe::new(0x7e, 11, 0), &[]).0, (0, 1));
    assert_eq!(
        errors(&mut world, &mut admin)[0],
        (5, 0, 11, field(0, 1, true), 0, 0, 0, 0x7e)
    );
    // A queue that is gone has told what it had to.
    assert_eq!(one.run(&mut world, read(12, 9, 0, 1), &[]).0, (0, 0x0b));
    one.close(&mut world);
    assert_eq!(errors(&mut world, &mut admin)[0].2, 12);
}

/// "LBA": the first block that the error is of.
#[test]
fn the_block_at_which_it_failed_is_told() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let mut io = Host::io(&mut world, &admin);
    world.service.fault = Some((300 * 4096, IoError::Damaged));
    assert_eq!(io.run(&mut world, read(1, 1, 256, 64), &[]).0, (2, 0x81));
    let newest = errors(&mut world, &mut admin)[0];
    assert_eq!(
        (newest.3, newest.5),
        (field(2, 0x81, true), 288),
        "the piece in which it is"
    );
    world.service.fault = None;

    let bytes = pattern(0, 600 * 512);
    assert_eq!(io.run(&mut world, write(1, 2, 3, 600), &bytes).0, (0, 0));
    let mut other = bytes.clone();
    other[517 * 512 + 3] ^= 1;
    let compare = write(1, 2, 3, 600).opcode(5);
    assert_eq!(io.run(&mut world, compare, &other).0, (2, 0x85));
    let newest = errors(&mut world, &mut admin)[0];
    assert_eq!((newest.3, newest.5), (field(2, 0x85, true), 520));
    assert_eq!((newest.4, newest.6, newest.7), (0xffff, 2, 5));
}

/// Both of a pair have failed, and both are told.
#[test]
fn a_fused_pair_that_fails_is_told() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let mut io = Host::io(&mut world, &admin);
    let bytes = pattern(9, 4096);
    io.command_with(&mut world, write(1, 1, 5, 1).opcode(5).fuse(1).capsule(4096), &bytes);
    io.command_with(&mut world, write(2, 1, 5, 1).fuse(2).capsule(4096), &bytes);
    assert_eq!(io.pdus().len(), 2);
    let told: Vec<_> = errors(&mut world, &mut admin)
        .into_iter()
        .map(|entry| (entry.2, entry.3, entry.5))
        .collect();
    assert_eq!(told, [(2, field(0, 0x09, false), 0), (1, field(2, 0x85, true), 5)]);
}

/// A host that does nothing but wrong costs two messages a pass, and what has no room is counted.
#[test]
fn more_errors_than_there_is_room_for() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let mut io = Host::io_with(&mut world, &admin, 1, 0, 1, 4);
    let commands: Vec<u8> = (0..100).flat_map(|id| io.capsule(Sqe::new(0x7e, id, 1), &[])).collect();
    // All of them come before the register has answered the first time.
    assert_eq!(io.receive(&mut world, &commands), commands.len());
    let words = world.service.events.len();
    assert_eq!(words, 1, "the register is told of one at a time");
    io.settle(&mut world);
    assert_eq!(io.pdus().len(), 100);
    let told = errors(&mut world, &mut admin);
    let ids: Vec<_> = told.iter().map(|entry| entry.2).collect();
    assert_eq!(ids, (36..100).rev().collect::<Vec<_>>(), "the newest");
    assert_eq!((told[0].0, told[63].0), (100, 37));
    assert_eq!(counted(&mut world, &mut admin), 100);
}

/// NVM Express Base 2.1, 4.2.3: "More" is said of what the log has an entry of, and of nothing else.
#[test]
fn the_completion_says_that_the_log_has_more() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let mut io = Host::io(&mut world, &admin);
    let more = |host: &mut Host, world: &mut World, command: Sqe| {
        host.command(world, command);
        u16_at(&host.one().header, 14) >> 14 & 1 == 1
    };
    assert!(more(&mut io, &mut world, Sqe::new(0x7e, 1, 1)));
    assert!(!more(&mut io, &mut world, Sqe::new(0, 1, 1)));
    assert!(more(&mut admin, &mut world, Sqe::new(0x7e, 2, 1)));
    assert!(!more(&mut admin, &mut world, Sqe::new(0x18, 2, 0)), "keep alive");
    // What the transport refuses is logged as well: an Identify without room for its data.
    assert!(more(
        &mut admin,
        &mut world,
        Sqe::new(6, 3, 0).dword(10, 1).transport(512)
    ));
    let told: Vec<_> = errors(&mut world, &mut admin)
        .into_iter()
        .map(|entry| (entry.1, entry.2, entry.7))
        .collect();
    // Those of I/O queues are numbered when the page is read.
    assert_eq!(told, [(1, 1, 0x7e), (0, 3, 6), (0, 2, 0x7e)]);
    // Who is not connected has no controller, and no log.
    let mut stranger = Host::greeted(&mut world, 0, 0, 1);
    assert!(!more(&mut stranger, &mut world, Sqe::new(6, 1, 0)));
}

#[test]
fn errors_outlive_a_reset() {
    let mut world = World::new();
    let mut admin = Host::admin(&mut world);
    let mut io = Host::io(&mut world, &admin);
    assert_eq!(io.run(&mut world, Sqe::new(0x7e, 1, 1), &[]).0, (0, 1));
    admin.property_set(&mut world, 0x14, 0);
    admin.property_set(&mut world, 0x14, 0x0046_0001);
    assert_eq!(errors(&mut world, &mut admin).len(), 1);
}
