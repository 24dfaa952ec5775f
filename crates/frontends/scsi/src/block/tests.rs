use super::*;
use crate::sense::Status;
use crate::testing::{Host, SIZE_BYTES, answer, sense, sixteen, ten, unit};
use amita_types::SnapshotId;
use proptest::prelude::*;

const BLOCKS: u64 = SIZE_BYTES / 512;

fn extent_of(lba: u64, count: u64) -> Extent {
    Extent {
        offset: lba * 512,
        length: count * 512,
    }
}

fn work(plan: Plan) -> Work {
    match plan {
        Plan::Io(io) => io.work,
        other => panic!("no I/O: {other:?}"),
    }
}

fn twelve(opcode: u8, flags: u8, lba: u32, count: u32) -> [u8; 12] {
    let mut cdb = [0; 12];
    cdb[..2].copy_from_slice(&[opcode, flags]);
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[6..10].copy_from_slice(&count.to_be_bytes());
    cdb
}

#[test]
fn reads_of_every_length_of_block() {
    let mut host = Host::one();
    let expected = Work::Read(extent_of(0x1234, 9));
    assert_eq!(work(host.send(0, &[0x08, 0x00, 0x12, 0x34, 9, 0])), expected);
    assert_eq!(work(host.send(0, &ten(0x28, 0x18, 0x1234, 9))), expected, "DPO and FUA");
    assert_eq!(work(host.send(0, &twelve(0xa8, 0x06, 0x1234, 9))), expected);
    assert_eq!(work(host.send(0, &sixteen(0x88, 0, 0x1234, 9))), expected);
    assert_eq!(
        work(host.send(0, &[0x08, 0x01, 0, 0, 0, 0])),
        Work::Read(extent_of(0x1_0000, 256))
    );
    let Plan::Io(io) = host.send(0, &ten(0x28, 0, 0, 1)) else {
        panic!("a read is I/O");
    };
    assert_eq!(
        (io.place, io.lengths().into, io.lengths().out),
        (Place::of(&unit(0)), 512, 0)
    );
}

#[test]
fn what_lies_beyond_the_end() {
    let mut host = Host::one();
    let outside = |lba: u64| Sense::new(Key::IllegalRequest, code::LBA_OUT_OF_RANGE).with_information(lba);
    for (lba, count, first) in [
        (BLOCKS, 1, BLOCKS),
        (BLOCKS - 1, 2, BLOCKS),
        (BLOCKS + 7, 0, BLOCKS + 7),
        (u64::MAX, 1, u64::MAX),
        (u64::MAX - 3, u32::MAX, u64::MAX - 3),
    ] {
        for opcode in [0x88, 0x8a, 0x8b, 0x8e, 0x8f, 0x90, 0x91] {
            assert_eq!(
                host.sense(0, &sixteen(opcode, 0, lba, count)),
                outside(first),
                "{opcode:x}"
            );
        }
    }
    assert_eq!(
        work(host.send(0, &sixteen(0x88, 0, BLOCKS, 0))),
        Work::Read(extent_of(BLOCKS, 0))
    );
    assert_eq!(
        work(host.send(0, &sixteen(0x8a, 0, BLOCKS - 1, 1))),
        Work::Write(extent_of(BLOCKS - 1, 1))
    );
    // The length is looked at after the place.
    assert_eq!(host.sense(0, &sixteen(0x88, 0, 0, 65537)), Sense::in_cdb(10, None));
    assert_eq!(host.sense(0, &twelve(0xaa, 0, 0, 65537)), Sense::in_cdb(6, None));
    assert_eq!(host.sense(0, &sixteen(0x8f, 0, 0, 65537)), Sense::in_cdb(10, None));
    assert!(matches!(host.send(0, &sixteen(0x88, 0, 0, 65536)), Plan::Io(_)));
    // What is held as a whole has its own.
    assert_eq!(host.sense(0, &sixteen(0x8b, 0, 0, 4097)), Sense::in_cdb(10, None));
    assert!(matches!(host.send(0, &sixteen(0x8b, 0, 0, 4096)), Plan::Io(_)));
}

#[test]
fn verify_and_write_and_verify() {
    let mut host = Host::one();
    let at = extent_of(8, 4);
    for (flags, check, out) in [
        (0, Check::Readable, 0),
        (2, Check::Same, 2048),
        (6, Check::SameBlock, 512),
    ] {
        for cdb in [
            &ten(0x2f, flags, 8, 4)[..],
            &twelve(0xaf, flags, 8, 4)[..],
            &sixteen(0x8f, flags, 8, 4)[..],
        ] {
            let plan = host.send(0, cdb);
            assert_eq!(plan.lengths().out, out);
            assert_eq!(work(plan), Work::Check(at, check));
        }
    }
    assert_eq!(
        host.send(0, &ten(0x2f, 6, 8, 0)).lengths().out,
        0,
        "no block to compare with none"
    );
    assert_eq!(
        host.sense(0, &ten(0x2f, 4, 8, 4)),
        Sense::in_cdb(1, Some(2)),
        "BYTCHK 2 is reserved"
    );
    assert_eq!(
        work(host.send(0, &ten(0x2e, 2, 8, 4))),
        Work::WriteAndCheck(at, Check::Same)
    );
    assert_eq!(
        work(host.send(0, &sixteen(0x8e, 0x10, 8, 4))),
        Work::WriteAndCheck(at, Check::Readable)
    );
    assert_eq!(host.sense(0, &twelve(0xae, 6, 8, 4)), Sense::in_cdb(1, Some(2)));
}

#[test]
fn what_needs_no_data() {
    let mut host = Host::one();
    assert_eq!(
        answer(host.send(0, &ten(0x34, 2, 0, 0))),
        Answer::good(),
        "PRE-FETCH of all"
    );
    assert_eq!(work(host.send(0, &ten(0x35, 2, 0, 0))), Work::Touch);
    assert_eq!(work(host.send(0, &sixteen(0x91, 4, 5, 5))), Work::Touch);
    assert_eq!(work(host.send(0, &sixteen(0x8b, 0, 1, 2))), Work::Or(extent_of(1, 2)));
}

#[test]
fn compare_and_write_is_one_piece() {
    let mut host = Host::one();
    let cdb = |lba: u64, count: u8| {
        let mut cdb = sixteen(0x89, 0x18, lba, 0);
        cdb[13] = count;
        cdb
    };
    let plan = host.send_expecting(0, &cdb(3, 128), 2 * 128 * 512);
    assert_eq!(work(plan), Work::CompareAndWrite(extent_of(3, 128)));
    assert_eq!(
        host.sense(0, &cdb(0, 129)),
        Sense::in_cdb(13, None),
        "longer than the page says"
    );
    assert_eq!(
        host.sense(0, &cdb(8192 - 1, 2)),
        Sense::in_cdb(13, None),
        "from one chunk into the next"
    );
    assert!(matches!(host.send_expecting(0, &cdb(0, 0), 0), Plan::Io(_)));
    assert_eq!(host.sense(0, &cdb(BLOCKS, 1)).code, code::LBA_OUT_OF_RANGE);
}

#[test]
fn atomic_writes_and_their_boundary() {
    let mut host = Host::one();
    let cdb = |lba: u64, boundary: u16, count: u16| {
        let mut cdb = sixteen(0x9c, 0, lba, 0);
        cdb[10..12].copy_from_slice(&boundary.to_be_bytes());
        cdb[12..14].copy_from_slice(&count.to_be_bytes());
        cdb
    };
    let mut plan = |lba, boundary, count| host.send(0, &cdb(lba, boundary, count));
    let expected = |lba, count, boundary_bytes| Work::WriteAtomic {
        extent: extent_of(lba, count),
        boundary_bytes,
    };
    assert_eq!(work(plan(64, 0, 32)), expected(64, 32, 0));
    assert_eq!(
        work(plan(0, 0, 256)),
        expected(0, 256, 0),
        "longer than is promised, in one chunk"
    );
    assert_eq!(
        work(plan(8192 - 32, 256, 64)),
        expected(8192 - 32, 64, 131_072),
        "cut at the boundary"
    );
    assert_eq!(work(plan(32, 32, 0)), expected(32, 0, 16384));
    assert_eq!(
        sense(plan(8192 - 32, 0, 64)),
        Sense::in_cdb(12, None),
        "crosses into the next chunk"
    );
    assert_eq!(
        sense(plan(256 - 32, 0, 64)),
        Sense::in_cdb(12, None),
        "a read of both halves, which is cut between them, could see one of them"
    );
    assert_eq!(work(plan(256 - 32, 256, 64)), expected(256 - 32, 64, 131_072));
    assert_eq!(sense(plan(0, 0, 288)), Sense::in_cdb(12, None));
    assert_eq!(sense(plan(0, 0, 8)), Sense::in_cdb(12, None), "no multiple of the unit");
    assert_eq!(sense(plan(8, 0, 32)), Sense::in_cdb(2, None), "not aligned");
    assert_eq!(
        sense(plan(0, 96, 32)),
        Sense::in_cdb(10, None),
        "holds not at every place"
    );
    assert_eq!(
        sense(plan(0, 512, 32)),
        Sense::in_cdb(10, None),
        "larger than the page says"
    );
    assert_eq!(sense(plan(0, 8, 32)), Sense::in_cdb(10, None));
    assert_eq!(
        sense(plan(BLOCKS + 1, 0, 8)).code,
        code::LBA_OUT_OF_RANGE,
        "first of all"
    );
}

#[test]
fn write_same() {
    let mut host = Host::one();
    let at = extent_of(1, 100_000);
    let cdb = sixteen(0x93, 0, 1, 100_000);
    assert_eq!(work(host.send_with(0, &cdb, &[0; 512])), Work::Zero(vec![at]));
    let mut block = [0; 512];
    block[511] = 1;
    assert_eq!(work(host.send_with(0, &cdb, &block)), Work::Fill(at, block.to_vec()));
    assert_eq!(
        work(host.send_with(0, &sixteen(0x93, 8, 1, 100_000), &block)),
        Work::Fill(at, block.to_vec()),
        "UNMAP"
    );
    // NDOB: no block comes.
    for flags in [1, 9] {
        assert_eq!(
            work(host.send_expecting(0, &sixteen(0x93, flags, 1, 100_000), 0)),
            Work::Zero(vec![at])
        );
    }
    assert_eq!(
        host.sense(0, &sixteen(0x93, 0x10, 1, 1)),
        Sense::in_cdb(1, Some(4)),
        "ANCHOR"
    );
    assert_eq!(
        host.sense(0, &ten(0x41, 1, 1, 1)),
        Sense::in_cdb(1, Some(0)),
        "NDOB has but 16 bytes"
    );
    assert_eq!(host.sense(0, &ten(0x41, 0, 1, 0)), Sense::in_cdb(7, None), "WSNZ");
    assert_eq!(host.sense(0, &sixteen(0x93, 0, BLOCKS, 1)).code, code::LBA_OUT_OF_RANGE);
    assert_eq!(
        work(host.send_with(0, &ten(0x41, 8, 0, 9), &[0; 512])),
        Work::Zero(vec![extent_of(0, 9)])
    );
}

fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let length = 16 * ranges.len() as u16;
    let mut list = (length + 6).to_be_bytes().to_vec();
    list.extend(length.to_be_bytes());
    list.extend([0; 4]);
    for (lba, count) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn unmap_of(host: &mut Host, list: &[u8]) -> Plan {
    host.send_with(0, &ten(0x42, 0, 0, list.len() as u16), list)
}

#[test]
fn unmaps() {
    let mut host = Host::one();
    let list = unmap_list(&[(8, 16), (5, 0), (1, 3)]);
    let expected = Work::Zero(vec![extent_of(8, 16), extent_of(1, 3)]);
    assert_eq!(work(unmap_of(&mut host, &list)), expected);
    assert_eq!(answer(unmap_of(&mut host, &unmap_list(&[]))), Answer::good());
    assert_eq!(answer(host.send(0, &ten(0x42, 0, 0, 0))), Answer::good());
    let short = Sense::new(Key::IllegalRequest, code::PARAMETER_LIST_LENGTH);
    assert_eq!(host.sense(0, &ten(0x42, 0, 0, 7)), short);
    assert_eq!(
        sense(unmap_of(&mut host, &unmap_list(&[(BLOCKS, 1)]))).code,
        code::LBA_OUT_OF_RANGE
    );
    let too_many: Vec<(u64, u32)> = (0..257).map(|lba| (lba, 1)).collect();
    assert_eq!(
        sense(unmap_of(&mut host, &unmap_list(&too_many))),
        Sense::in_list(2, None)
    );
    assert!(matches!(unmap_of(&mut host, &unmap_list(&too_many[1..])), Plan::Io(_)));
    assert_eq!(host.sense(0, &ten(0x42, 1, 0, 24)), Sense::in_cdb(1, Some(0)), "ANCHOR");
    // The last descriptor is cut off: it is as if it were not there.
    assert_eq!(
        work(unmap_of(&mut host, &list[..list.len() - 1])),
        Work::Zero(vec![extent_of(8, 16)])
    );
}

#[test]
fn what_cannot_be_written() {
    let mut host = Host::one();
    host.change(|unit| unit.snapshot = SnapshotId(3));
    let protected = Sense::new(Key::DataProtect, code::WRITE_PROTECTED);
    let mut compare = sixteen(0x89, 0, 0, 0);
    compare[13] = 1;
    for cdb in [
        &[0x0a, 0, 0, 0, 1, 0][..],
        &ten(0x2a, 0, 0, 1)[..],
        &ten(0x2e, 0, 0, 1)[..],
        &ten(0x41, 0, 0, 1)[..],
        &ten(0x42, 0, 0, 24)[..],
        &twelve(0xaa, 0, 0, 1)[..],
        &sixteen(0x8a, 0, 0, 1)[..],
        &sixteen(0x8b, 0, 0, 1)[..],
        &sixteen(0x93, 1, 0, 1)[..],
        &sixteen(0x9c, 0, 0, 1)[..],
        &compare[..],
    ] {
        assert_eq!(host.sense(0, cdb), protected, "{cdb:02x?}");
    }
    assert!(matches!(host.send(0, &ten(0x28, 0, 0, 1)), Plan::Io(_)));
    assert_eq!(answer(host.send(0, &ten(0x35, 0, 0, 0))).status, Status::Good);
    let Plan::Io(io) = host.send(0, &ten(0x2f, 0, 0, 1)) else {
        panic!("a verify is I/O");
    };
    assert_eq!(io.place.source.snapshot, SnapshotId(3));
}

#[test]
fn blocks_of_4096_bytes() {
    let mut host = Host::one();
    host.change(|unit| unit.block_bytes = 4096);
    host.settle();
    let expected = Extent {
        offset: 4096 * 3,
        length: 4096 * 2,
    };
    assert_eq!(work(host.send(0, &ten(0x28, 0, 3, 2))), Work::Read(expected));
    assert_eq!(host.sense(0, &ten(0x28, 0, 16384, 1)).code, code::LBA_OUT_OF_RANGE);
    let plan = host.send_expecting(0, &ten(0x41, 0, 0, 1), 4096);
    assert_eq!(plan.lengths().out, 4096);
}

proptest! {
    #[test]
    fn atoms_cover_their_extent_and_cross_no_boundary(
        offset in 0..1_u64 << 40, length in 0..1_u64 << 20, boundary in 0..1_u64 << 20,
    ) {
        let extent = Extent { offset, length };
        let boundary = boundary & !0xfff;
        let mut next = offset;
        for atom in atoms(extent, boundary) {
            prop_assert_eq!(atom.offset, next);
            prop_assert!(atom.length > 0);
            prop_assert_eq!(atom.offset.checked_div(boundary), (atom.end() - 1).checked_div(boundary));
            next = atom.end();
        }
        prop_assert_eq!(next, extent.end());
    }

    #[test]
    fn lists_of_unmaps_are_what_they_say_or_are_refused(list in proptest::collection::vec(any::<u8>(), 8..400)) {
        let mut host = Host::one();
        if let Plan::Io(io) = unmap_of(&mut host, &list) {
            let Work::Zero(extents) = io.work else {
                return Err(TestCaseError::fail("an unmap zeroes"));
            };
            prop_assert!(extents.iter().all(|extent| extent.end() <= SIZE_BYTES && extent.length > 0));
        }
    }
}
