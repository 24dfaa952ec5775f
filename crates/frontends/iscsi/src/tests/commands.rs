//! Commands that read and write, and what is said of their lengths.

use super::*;

#[test]
fn what_is_written_is_read() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    for (lun, lba, count) in [(0u16, 3u32, 1u16), (0, 100, 700), (1, 5, 1), (1, 30, 70)] {
        let data = pattern(u64::from(lba), usize::from(count) * BLOCKS[usize::from(lun)] as usize);
        assert_eq!(host.run(&mut world, write(lun, lba, count), &data).told(), GOOD);
        let outcome = host.run(&mut world, read(lun, lba, count), &[]);
        assert_eq!((outcome.told(), outcome.residual), (GOOD, (0, 0)));
        assert!(outcome.data == data, "LUN {lun}, {count} blocks at {lba}");
    }
}

#[test]
fn the_last_data_has_the_status() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    host.give(&mut world, read(1, 0, 1), &[]);
    let answer = host.one();
    assert_eq!(answer.header.0[..2], [opcode::DATA_IN, 0x80 | 1]);
    assert_eq!((answer.data.len(), answer.header.u32_at(36)), (4096, 0));
    // INQUIRY's data is answered so, too.
    let mut cdb = [0; 16];
    (cdb[0], cdb[4]) = (0x12, 96);
    let outcome = host.run(&mut world, command(0, 0xc0, 96, cdb), &[]);
    assert_eq!((outcome.told(), outcome.data[0]), (GOOD, 0));
}

#[test]
fn data_goes_in_pdus_and_sequences_as_was_agreed() {
    let mut world = World::new();
    let keys = [("MaxRecvDataSegmentLength", "65536"), ("MaxBurstLength", "262144")];
    let mut host = Host::session_of(&mut world, 1, &keys);
    let tag = host.give(&mut world, read(1, 0, 160), &[]);
    let pdus = host.pdus();
    let (mut offset, mut burst) = (0, 0);
    for (number, pdu) in pdus.iter().enumerate() {
        assert_eq!((pdu.kind(), pdu.header.task_tag()), (opcode::DATA_IN, tag));
        assert_eq!(pdu.header.u32_at(36), number as u32, "DataSN");
        assert_eq!(pdu.header.u32_at(40), offset);
        assert!(pdu.data.len() <= 65_536);
        offset += pdu.data.len() as u32;
        burst += pdu.data.len();
        let is_last = offset == 160 * 4096;
        assert!(burst <= 262_144);
        assert_eq!(
            pdu.header.flags() & 0x80 != 0,
            burst == 262_144 || is_last,
            "F at {offset}"
        );
        assert_eq!(pdu.header.flags() & 1 != 0, is_last);
        if burst == 262_144 {
            burst = 0;
        }
    }
    assert_eq!(offset, 160 * 4096);
}

/// RFC 7143, 11.4.5: exact residuals, in both directions.
#[test]
fn residuals_are_exact() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let data = pattern(9, 1024);
    assert_eq!(host.run(&mut world, write(0, 0, 2), &data).told(), GOOD);
    let mut reads = |expected: u32| host.run(&mut world, command(0, 0xc0, expected, cdb10(READ, 0, 2)), &[]);
    let more = reads(10_000);
    assert_eq!((more.told(), more.residual), (GOOD, (2, 10_000 - 1024)));
    assert_eq!(more.data, data);
    let less = reads(600);
    assert_eq!((less.told(), less.residual), (GOOD, (4, 1024 - 600)));
    assert_eq!(less.data, data[..600]);
    let none = reads(0);
    assert_eq!((none.told(), none.residual, none.data.len()), (GOOD, (4, 1024), 0));
    let just = reads(1024);
    assert_eq!((just.told(), just.residual), (GOOD, (0, 0)));
    // A write of more than the initiator wants to send: of that, whole blocks (libiscsi's suite has all of these).
    let two = pattern(5, 1024);
    for (expected, status, residual) in [
        (0u32, GOOD, (4, 1024)),
        (512, GOOD, (4, 512)),
        (200, (2, [5, 0x0e, 3]), (4, 1024 - 200)),
    ] {
        let outcome = host.run(
            &mut world,
            command(0, 0xa0, expected, cdb10(WRITE, 0, 2)),
            &two[..expected as usize],
        );
        assert_eq!((outcome.told(), outcome.residual), (status, residual), "{expected}");
    }
    assert_eq!(world.volumes.read(world.volume(0), 0, 512), two[..512]);
    assert_eq!(world.volumes.read(world.volume(0), 512, 512), data[512..]);
    // A read that is flagged as a write.
    let outcome = host.run(&mut world, command(0, 0xa0, 512, cdb10(READ, 0, 1)), &[]);
    assert_eq!((outcome.told(), outcome.residual), (GOOD, (2, 512)));
    // A write of less than the initiator wants to send.
    let long = pattern(1, 4096);
    let outcome = host.run(&mut world, command(0, 0xa0, 4096, cdb10(WRITE, 0, 2)), &long);
    assert_eq!((outcome.told(), outcome.residual), (GOOD, (2, 4096 - 1024)));
    assert_eq!(world.volumes.read(world.volume(0), 0, 1024), long[..1024]);
}

#[test]
fn what_has_failed_says_so() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    // Beyond the end: ILLEGAL REQUEST, logical block address out of range.
    let outcome = host.run(&mut world, read(1, 16 * 256, 1), &[]);
    assert_eq!(outcome.told(), (2, [5, 0x21, 0]));
    assert_eq!(outcome.residual, (2, 4096), "nothing was moved");
    // No logical unit.
    let outcome = host.run(&mut world, command(7, 0x80, 0, TEST_UNIT_READY), &[]);
    assert_eq!(outcome.told(), (2, [5, 0x25, 0]));
    // An operation that is none.
    let mut cdb = [0; 16];
    cdb[0] = 0xff;
    let outcome = host.run(&mut world, command(0, 0x80, 0, cdb), &[]);
    assert_eq!(outcome.told(), (2, [5, 0x20, 0]));
}

#[test]
fn a_read_that_fails_on_its_way() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let data = pattern(0, 1 << 20);
    assert_eq!(host.run(&mut world, write(1, 0, 256), &data).told(), GOOD);
    world.service.fault = Some((300 << 10, amita_types::io::IoError::Damaged));
    let outcome = host.run(&mut world, read(1, 0, 256), &[]);
    assert_eq!((outcome.status, outcome.sense[0]), (2, 3), "MEDIUM ERROR");
    let sent = outcome.data.len();
    assert!(sent <= 300 << 10 && outcome.data == data[..sent]);
    assert_eq!(outcome.residual, (2, (1 << 20) - sent as u32));
}

#[test]
fn compare_and_write() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let (old, new) = (pattern(1, 4096), pattern(2, 4096));
    assert_eq!(host.run(&mut world, write(1, 9, 1), &old).told(), GOOD);
    let mut cdb = [0; 16];
    cdb[0] = 0x89;
    cdb[9] = 9;
    cdb[13] = 1;
    let both = [old.clone(), new.clone()].concat();
    let compare = command(1, 0xa0, 8192, cdb);
    for immediate in [0, 4096, 8192] {
        assert_eq!(host.run(&mut world, write(1, 9, 1), &old).told(), GOOD);
        assert_eq!(host.run_with(&mut world, compare, &both, immediate).told(), GOOD);
        assert_eq!(world.volumes.read(world.volume(1), 9 * 4096, 4096), new);
    }
    // What is different is told by its place (SBC-3, COMPARE AND WRITE: INFORMATION).
    let mut other = new.clone();
    other[77] ^= 1;
    let both = [other, old].concat();
    let tag = host.give(&mut world, compare, &both);
    let answer = host.one();
    assert_eq!((answer.header.task_tag(), answer.status()), (tag, (2, [0xe, 0x1d, 0])));
    assert_eq!(answer.data[5..9], [0, 0, 0, 77]);
    assert_eq!(world.volumes.read(world.volume(1), 9 * 4096, 4096), new);
}

#[test]
fn zeros_and_unmapping() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let data = pattern(3, 1 << 20);
    assert_eq!(host.run(&mut world, write(1, 0, 256), &data).told(), GOOD);
    // UNMAP of blocks 10 to 19 and 100 to 109.
    let mut list = vec![0, 38, 0, 32, 0, 0, 0, 0];
    for lba in [10u64, 100] {
        list.extend(lba.to_be_bytes());
        list.extend([0, 0, 0, 10, 0, 0, 0, 0]);
    }
    let mut cdb = [0; 16];
    cdb[0] = 0x42;
    cdb[8] = list.len() as u8;
    assert_eq!(
        host.run(&mut world, command(1, 0xa0, list.len() as u32, cdb), &list)
            .told(),
        GOOD
    );
    let mut expected = data;
    for first in [10, 100] {
        expected[first * 4096..(first + 10) * 4096].fill(0);
    }
    assert!(world.volumes.read(world.volume(1), 0, 1 << 20) == expected);
    assert_eq!(world.volumes.allocated_bytes(world.volume(1)), (256 - 20) * 4096);
    // WRITE SAME (16) of a block.
    let block = pattern(5, 4096);
    let mut cdb = [0; 16];
    (cdb[0], cdb[9], cdb[13]) = (0x93, 40, 90);
    assert_eq!(host.run(&mut world, command(1, 0xa0, 4096, cdb), &block).told(), GOOD);
    for index in 40..130 {
        expected[index * 4096..(index + 1) * 4096].copy_from_slice(&block);
    }
    assert!(world.volumes.read(world.volume(1), 0, 1 << 20) == expected);
    // SYNCHRONIZE CACHE has nothing to do, and succeeds.
    let mut cdb = [0; 16];
    cdb[0] = 0x35;
    assert_eq!(host.run(&mut world, command(1, 0x80, 0, cdb), &[]).told(), GOOD);
}

#[test]
fn digests_cover_everything() {
    let mut world = World::new();
    let keys = [
        ("HeaderDigest", "CRC32C"),
        ("DataDigest", "CRC32C"),
        ("MaxRecvDataSegmentLength", "262144"),
    ];
    let mut host = Host::session_of(&mut world, 1, &keys);
    assert_eq!(host.digests, (true, true));
    let data = pattern(4, 40 * 4096);
    assert_eq!(host.run_with(&mut world, write(1, 0, 40), &data, 65_536).told(), GOOD);
    assert!(host.run(&mut world, read(1, 0, 40), &[]).data == data);
    // Lengths that are no words are padded.
    let outcome = host.run(&mut world, command(0, 0xc0, 333, cdb10(READ, 0, 1)), &[]);
    assert_eq!(
        (outcome.told(), outcome.residual, outcome.data.len()),
        (GOOD, (4, 512 - 333), 333)
    );
}

/// SAM-5, "Task attributes": an ordered task waits for all older ones, and all later ones wait for it.
#[test]
fn ordered_tasks_are_carried_out_in_order() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let with = |header: Header, attribute: u8| header.with_byte(1, header.flags() & !7 | attribute);
    world.runs = false;
    let data: Vec<Vec<u8>> = (0..3).map(|seed| pattern(seed * 77, 4096)).collect();
    let first = host.give(&mut world, with(write(1, 0, 1), 1), &data[0]);
    let ordered = host.give(&mut world, with(write(1, 0, 1), 2), &data[1]);
    let later = host.give(&mut world, with(write(1, 0, 1), 1), &data[2]);
    let head = host.give(&mut world, with(read(1, 0, 1), 3), &[]);
    let other = host.give(&mut world, with(read(0, 0, 1), 1), &[]);
    assert_eq!(
        world.service.queue.len(),
        3,
        "the first, the head of the queue, another logical unit"
    );
    world.runs = true;
    host.settle(&mut world);
    let order: Vec<u32> = host.pdus().iter().map(|pdu| pdu.header.task_tag()).collect();
    assert_eq!(order, [first, head, other, ordered, later]);
    assert_eq!(world.volumes.read(world.volume(1), 0, 4096), data[2]);
    // One that waits can be aborted.
    world.runs = false;
    host.give(&mut world, with(read(1, 0, 1), 1), &[]);
    let waits = host.give(&mut world, with(read(1, 0, 1), 2), &[]);
    let mut abort = Header::new(0x40 | opcode::TASK_MANAGEMENT, 0x81).with_target_tag(waits);
    abort.0[9] = 1;
    host.give(&mut world, abort, &[]);
    let answer = host.one();
    assert_eq!(
        (answer.kind(), answer.header.0[2]),
        (opcode::TASK_MANAGEMENT_RESPONSE, 0)
    );
    world.runs = true;
    host.settle(&mut world);
    assert_eq!(host.pdus().len(), 1);
    assert_eq!(host.run(&mut world, with(read(1, 0, 1), 1), &[]).told(), GOOD);
}

/// What names a logical unit: its designator of type NAA, from page 83h.
pub(super) fn designator(host: &mut Host, world: &mut World, lun: u16) -> Vec<u8> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[2], cdb[4]) = (0x12, 1, 0x83, 252);
    let page = host.run(world, command(lun, 0xc0, 252, cdb), &[]).data;
    let mut rest = &page[4..];
    loop {
        let length = 4 + usize::from(rest[3]);
        if rest[1] & 0x3f == 3 {
            return rest[..length].to_vec();
        }
        rest = &rest[length..];
    }
}

/// EXTENDED COPY with the descriptors that VMware sends: so many blocks of 4 KiB, from one logical unit and block to another. Its CDB and its list.
fn copying(host: &mut Host, world: &mut World, units: [u16; 2], count: u16, blocks: [u64; 2]) -> ([u8; 16], Vec<u8>) {
    let mut list = vec![0; 16];
    list[3] = 64;
    list[11] = 28;
    for lun in units {
        let designator = designator(host, world, lun);
        let mut descriptor = [0; 32];
        descriptor[0] = 0xe4;
        descriptor[4..4 + designator.len()].copy_from_slice(&designator);
        descriptor[29..32].copy_from_slice(&[0, 0x10, 0]);
        list.extend(descriptor);
    }
    // Block to block.
    let mut segment = [0; 28];
    (segment[0], segment[3], segment[7]) = (0x02, 0x18, 1);
    segment[10..12].copy_from_slice(&count.to_be_bytes());
    segment[12..20].copy_from_slice(&blocks[0].to_be_bytes());
    segment[20..28].copy_from_slice(&blocks[1].to_be_bytes());
    list.extend(segment);
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x83, list.len() as u8);
    (cdb, list)
}

/// SPC-4, EXTENDED COPY with the descriptors that VMware sends: from one logical unit to another, and within one.
#[test]
fn extended_copy() {
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let data = pattern(11, 1 << 20);
    assert_eq!(host.run(&mut world, write(1, 256, 256), &data).told(), GOOD);
    // 200 blocks from LBA 256 to LBA 2001, which lie otherwise in their chunks.
    let (cdb, mut list) = copying(&mut host, &mut world, [1, 1], 200, [256, 2001]);
    let outcome = host.run(&mut world, command(1, 0xa0, list.len() as u32, cdb), &list);
    assert_eq!(outcome.told(), GOOD);
    assert!(world.volumes.read(world.volume(1), 2001 * 4096, 200 * 4096) == data[..200 * 4096]);
    // What takes no space takes none behind it either.
    let used = world.volumes.allocated_bytes(world.volume(1));
    let at = list.len() - 16;
    list[at..at + 8].copy_from_slice(&3000u64.to_be_bytes());
    list[at + 8..].copy_from_slice(&3500u64.to_be_bytes());
    assert_eq!(
        host.run(&mut world, command(1, 0xa0, list.len() as u32, cdb), &list)
            .told(),
        GOOD
    );
    assert_eq!(world.volumes.allocated_bytes(world.volume(1)), used);
}

/// SBC-3, "GET LBA STATUS command": what the volume says of it is told as of a read. It was BUSY, which hosts try for ever.
#[test]
fn what_is_mapped_and_cannot_be_told() {
    use amita_types::io::IoError;
    let mut world = World::new();
    let mut host = Host::session(&mut world);
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[12]) = (0x9e, 0x12, 4);
    for (error, told) in [
        (IoError::Damaged, (2, [3, 0x11, 0])),
        (IoError::Reserved, (0x18, [0; 3])),
        (IoError::Lost, (2, [2, 4, 0x0a])),
    ] {
        world.service.fault = Some((0, error));
        let outcome = host.run(&mut world, command(0, 0xc0, 1024, cdb), &[]);
        assert_eq!(outcome.told(), told, "{error}");
    }
    world.service.fault = None;
    assert_eq!(host.run(&mut world, command(0, 0xc0, 1024, cdb), &[]).told(), GOOD);
}
