use super::rest::paired;
use super::sealed::Contents;
use super::*;
use crate::copy::CopyRest;
use crate::sense::Status;
use crate::testing::{Host, SIZE_BYTES, UUID, answer, sense, unit};
use crate::unit::Target;
use amita_types::SnapshotId;
use amita_types::io::IoError;
use proptest::prelude::*;
use std::sync::Arc;

fn ranges_of(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (lba, count) in ranges {
        bytes.extend(lba.to_be_bytes());
        bytes.extend(count.to_be_bytes());
        bytes.extend([0; 4]);
    }
    bytes
}

fn populate_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let ranges = ranges_of(ranges);
    let mut list = vec![0; 16];
    list[..2].copy_from_slice(&(14 + ranges.len() as u16).to_be_bytes());
    list[14..].copy_from_slice(&(ranges.len() as u16).to_be_bytes());
    list.extend(ranges);
    list
}

fn write_list(token: &[u8; TOKEN_BYTES], skip: u64, ranges: &[(u64, u32)]) -> Vec<u8> {
    let ranges = ranges_of(ranges);
    let mut list = vec![0; 536];
    list[..2].copy_from_slice(&(534 + ranges.len() as u16).to_be_bytes());
    list[8..16].copy_from_slice(&skip.to_be_bytes());
    list[16..528].copy_from_slice(token);
    list[534..].copy_from_slice(&(ranges.len() as u16).to_be_bytes());
    list.extend(ranges);
    list
}

fn send(host: &mut Host, action: u8, list: &[u8]) -> Plan {
    send_to(host, 0, action, list)
}

/// With the list identifier 0x01020304.
fn send_to(host: &mut Host, lun: u16, action: u8, list: &[u8]) -> Plan {
    let mut cdb = [0x83, action, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0];
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    host.send_with(lun, &cdb, list)
}

fn information_of(host: &mut Host) -> Vec<u8> {
    host.data(0, &[0x84, 0x07, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0])
}

/// Seconds since 1970.
const NOW: u64 = 1_800_000_000;

fn random(bytes: &mut [u8]) {
    bytes.iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
}

/// Begins with the token of a plan.
fn begin(host: &mut Host, plan: Plan, now: u64) -> Plan {
    match plan {
        Plan::Token(work) => begun(*work, &host.catalog, now, &mut random, &mut host.nexus),
        other => other,
    }
}

/// What a segment's bytes sum up to, where byte `n` of the source is this.
fn sums_of(plan: &Plan, byte: impl Fn(u64) -> u8) -> Vec<Sum> {
    let Plan::Copy { segments, then } = plan else {
        panic!("no copy: {plan:?}");
    };
    let summer = then.summer().expect("it is summed");
    let mut sums = vec![Sum::default(); MAX_SECTIONS];
    for segment in segments {
        let Some(at) = segment.summed_at else { continue };
        let data: Vec<u8> = (segment.from_offset..segment.from_offset + segment.length)
            .map(&byte)
            .collect();
        sums[CopyRest::section(at)].add(summer.sum(at, &data));
    }
    sums
}

fn rest_of(plan: Plan) -> CopyRest {
    match plan {
        Plan::Copy { then, .. } => then,
        other => panic!("no copy: {other:?}"),
    }
}

fn content(at: u64) -> u8 {
    (at ^ at >> 9 ^ at >> 17) as u8
}

/// A token of these ranges of logical unit 0, as they are told by RECEIVE ROD TOKEN INFORMATION.
fn token_of(host: &mut Host, ranges: &[(u64, u32)]) -> [u8; TOKEN_BYTES] {
    let plan = send(host, 0x10, &populate_list(ranges));
    let plan = begin(host, plan, NOW);
    let sums = sums_of(&plan, content);
    let then = rest_of(plan);
    assert_eq!(crate::copied(&then, 0, &sums, Ok(()), &mut host.nexus), Answer::good());
    *information_of(host)[38..].first_chunk().expect("a token")
}

/// A host of two logical units, of whose target the catalog knows.
fn two_units() -> Host {
    let mut host = Host::new(vec![unit(0), unit(1)]);
    host.catalog.targets = vec![Arc::new(host.target.clone())];
    host
}

fn extent_of(lba: u64, count: u64) -> Extent {
    Extent {
        offset: lba * 512,
        length: count * 512,
    }
}

fn zero_token() -> [u8; TOKEN_BYTES] {
    let mut bytes = [0; TOKEN_BYTES];
    bytes[..8].copy_from_slice(&[0xff, 0xff, 0, 1, 0, 0, 1, 0xf8]);
    bytes
}

#[test]
fn a_token_is_made_and_told() {
    let mut host = two_units();
    let plan = send(&mut host, 0x10, &populate_list(&[(8, 16), (100, 8)]));
    let plan = begin(&mut host, plan, NOW);
    let Plan::Copy { segments, then } = plan else {
        panic!("it is read");
    };
    let read: Vec<_> = segments
        .iter()
        .map(|part| {
            (
                part.from_offset / 512,
                part.length / 512,
                part.summed_at,
                part.is_written,
            )
        })
        .collect();
    assert_eq!(read, [(8, 16, Some(0), false), (100, 8, Some(16 * 512), false)]);
    let sums = [Sum::default(); MAX_SECTIONS];
    assert_eq!(
        crate::copied(&then, 24 * 512, &sums, Ok(()), &mut host.nexus),
        Answer::good()
    );
    let data = information_of(&mut host);
    assert_eq!(data.len(), 32 + 4 + 2 + 512);
    assert_eq!(data[..8], [0, 0, 2, 0x22, 0x10, 1, 0, 1]);
    assert_eq!(data[15..26], [0xf1, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0]);
    assert_eq!(data[32..38], [0, 0, 2, 2, 0, 0]);
    // SPC-4, "ROD token format": the type, the length, the identifier, the logical unit, what is represented.
    let token = &data[38..];
    assert_eq!(token[..16], [0, 0x80, 0, 1, 0, 0, 1, 0xf8, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(token[16..26], [0xe4, 0, 0, 0, 1, 0x0a, 0, 18, 0x10, 0]);
    assert_eq!(token[26..42], UUID);
    assert_eq!(token[48..64], (24 * 512_u128).to_be_bytes());
    assert_eq!(token[96..104], [0, 0, 2, 0, 0, 3, 0xc0, 0]);
    let unknown = host.sense(0, &[0x84, 0x07, 9, 2, 3, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(unknown, Sense::in_cdb(2, None));
}

#[test]
fn a_token_that_cannot_be_made() {
    let mut host = two_units();
    for (error, status, code) in [
        (IoError::Damaged, Status::CheckCondition, code::UNRECOVERED_READ_ERROR),
        (
            IoError::Reserved,
            Status::ReservationConflict,
            code::THIRD_PARTY_DEVICE_FAILURE,
        ),
    ] {
        let plan = send(&mut host, 0x10, &populate_list(&[(8, 16)]));
        let then = rest_of(begin(&mut host, plan, NOW));
        assert_eq!(crate::copied(&then, 0, &[], Err(error), &mut host.nexus).status, status);
        let data = information_of(&mut host);
        assert_eq!((data[4], data[5], data[12], data[13], data[14]), (0x10, 2, 2, 18, 18));
        assert_eq!((data[44], data[45]), (code.0, code.1));
        assert_eq!(data[50..], [0; 4], "no token");
    }
    // Between the command and its list the keys may have gone.
    let plan = send(&mut host, 0x10, &populate_list(&[(8, 16)]));
    host.catalog.tokens = None;
    assert_eq!(sense(begin(&mut host, plan, NOW)).code, code::TOKEN_UNKNOWN);
}

#[test]
fn a_token_is_handed_in() {
    let mut host = two_units();
    let token = token_of(&mut host, &[(8, 16), (100, 8)]);
    let plan = send_to(&mut host, 1, 0x11, &write_list(&token, 4, &[(1000, 10), (2000, 30)]));
    let plan = begin(&mut host, plan, NOW + 59);
    let sums = sums_of(&plan, content);
    let Plan::Copy { segments, then } = plan else {
        panic!("a copy");
    };
    let parts: Vec<_> = segments
        .iter()
        .filter(|part| part.is_written)
        .map(|part| (part.from_offset / 512, part.to_offset / 512, part.length / 512))
        .collect();
    // Of 24 blocks 4 are left out: 10 go to the first range, 10 to the second, which has room for more.
    assert_eq!(parts, [(12, 1000, 10), (22, 2000, 2), (100, 2002, 8)]);
    // Those are read as well, for the sum.
    let only_read: u64 = segments
        .iter()
        .filter(|part| !part.is_written)
        .map(|part| part.length / 512)
        .sum();
    assert_eq!(only_read, 4);
    assert!(
        segments
            .iter()
            .filter(|part| part.is_written)
            .all(|part| part.from == Place::of(&unit(0)) && part.to == Place::of(&unit(1)))
    );
    assert_eq!(
        crate::copied(&then, 24 * 512, &sums, Ok(()), &mut host.nexus),
        Answer::good()
    );
    let data = information_of(&mut host);
    assert_eq!((data[4], data[5], data[23], data[25]), (0x11, 1, 20, 0));
    assert_eq!(data[32..], [0; 4]);
}

#[test]
fn what_has_changed_since_is_not_what_the_token_represents() {
    // SPC-4, "ROD types": a point in time copy that is change vulnerable.
    let mut host = two_units();
    // 16 MiB: four sections.
    let token = token_of(&mut host, &[(0, 16 << 11), (40 << 11, 16 << 11)]);
    let list = write_list(&token, 0, &[(0, 32 << 11)]);
    for (changed, whole_mib) in [(0, 0), ((8 << 20) + 77, 8), ((43 << 20) + 5, 16), ((56 << 20) - 1, 28)] {
        let plan = send_to(&mut host, 1, 0x11, &list);
        let plan = begin(&mut host, plan, NOW);
        let sums = sums_of(&plan, |at| content(at) ^ u8::from(at == changed));
        let then = rest_of(plan);
        let answer = crate::copied(&then, 32 << 20, &sums, Ok(()), &mut host.nexus);
        assert_eq!(
            answer.sense.map(|sense| sense.code),
            Some(code::TOKEN_REVOKED),
            "{changed}"
        );
        let data = information_of(&mut host);
        assert_eq!(data[5], 2);
        // So much is there as it was.
        assert_eq!(data[16..24], u64::to_be_bytes(whole_mib << 11), "{changed}");
    }
    // What has failed has not been read to its end.
    let plan = send_to(&mut host, 1, 0x11, &list);
    let plan = begin(&mut host, plan, NOW);
    let (sums, then) = (sums_of(&plan, content), rest_of(plan));
    let answer = crate::copied(&then, 20 << 20, &sums, Err(IoError::NoSpace), &mut host.nexus);
    assert_eq!(
        answer.sense.map(|sense| sense.code),
        Some(code::SPACE_ALLOCATION_FAILED)
    );
    assert_eq!(information_of(&mut host)[16..24], [0; 8]);
}

#[test]
fn tokens_that_stand_for_nothing_any_more() {
    let mut host = two_units();
    let token = token_of(&mut host, &[(8, 16)]);
    let list = write_list(&token, 0, &[(1000, 16)]);
    let refused = |host: &mut Host, lun: u16, list: &[u8], now: u64| {
        let plan = send_to(host, lun, 0x11, list);
        let code = sense(begin(host, plan, now)).code;
        assert_eq!(information_of(host)[5], 2);
        code
    };
    assert_eq!(refused(&mut host, 1, &list, NOW + 60), code::TOKEN_EXPIRED);
    // What is written would be what is read.
    let onto_itself = write_list(&token, 0, &[(20, 16)]);
    assert_eq!(refused(&mut host, 0, &onto_itself, NOW), code::TOKEN_REVOKED);
    // Its logical unit is gone, or smaller.
    let targets = std::mem::take(&mut host.catalog.targets);
    assert_eq!(refused(&mut host, 1, &list, NOW), code::TOKEN_REVOKED);
    let mut smaller = Target::clone(&targets[0]);
    Arc::make_mut(&mut smaller.units[0]).size_bytes = 8192;
    host.catalog.targets = vec![Arc::new(smaller)];
    assert_eq!(refused(&mut host, 1, &list, NOW), code::TOKEN_REVOKED);
    host.catalog.targets = targets;
    // The cluster has another key; the old one opens, where it is still there.
    host.catalog.tokens = TokenKeys::new(&[[8; 32]]).map(Arc::new);
    assert_eq!(refused(&mut host, 1, &list, NOW), code::TOKEN_UNKNOWN);
    host.catalog.tokens = TokenKeys::new(&[[8; 32], [7; 32]]).map(Arc::new);
    let plan = send_to(&mut host, 1, 0x11, &list);
    assert!(matches!(begin(&mut host, plan, NOW), Plan::Copy { .. }));
    // More is left out than it represents: nothing is written, and that is no error.
    let plan = send_to(&mut host, 1, 0x11, &write_list(&token, 16, &[(1000, 16)]));
    assert_eq!(answer(begin(&mut host, plan, NOW)), Answer::good());
}

#[test]
fn a_snapshot_is_not_read_for_its_token() {
    let mut host = two_units();
    host.change(|unit| unit.snapshot = SnapshotId(3));
    host.catalog.targets = vec![Arc::new(host.target.clone())];
    host.settle();
    let plan = send(&mut host, 0x10, &populate_list(&[(8, 16)]));
    assert_eq!(answer(begin(&mut host, plan, NOW)), Answer::good());
    let token = *information_of(&mut host)[38..].first_chunk().expect("a token");
    let plan = send_to(&mut host, 1, 0x11, &write_list(&token, 4, &[(1000, 8)]));
    let Plan::Copy { segments, then } = begin(&mut host, plan, NOW) else {
        panic!("a copy");
    };
    assert_eq!(segments.len(), 1);
    assert_eq!((segments[0].from_offset, segments[0].summed_at), (12 * 512, None));
    assert_eq!(segments[0].from.source.snapshot, SnapshotId(3));
    assert_eq!(
        crate::copied(&then, 8 * 512, &[], Ok(()), &mut host.nexus),
        Answer::good()
    );
    assert_eq!(information_of(&mut host)[23], 8);
}

#[test]
fn zeros_need_no_register() {
    let mut host = Host::one();
    let list = write_list(&zero_token(), 77, &[(0, 8), (64, 8)]);
    let Plan::Copy { segments, then } = send(&mut host, 0x11, &list) else {
        panic!("zeros are written");
    };
    let written: Vec<_> = segments
        .iter()
        .map(|segment| (segment.to_offset, segment.length))
        .collect();
    assert_eq!(written, [(0, 4096), (64 * 512, 4096)]);
    assert!(segments.iter().all(|segment| segment.is_zero && segment.is_written));
    // It is told to be done when it is (SPC-4, table 249).
    let information = information_of(&mut host);
    assert_eq!((information.len(), information[3]), (36, 32));
    assert_eq!((information[4], information[5], information[23]), (0x11, 0x11, 0));
    assert_eq!(crate::copied(&then, 8192, &[], Ok(()), &mut host.nexus), Answer::good());
    assert_eq!((information_of(&mut host)[5], information_of(&mut host)[23]), (1, 16));
    // And what was not is not.
    let Plan::Copy { then, .. } = send(&mut host, 0x11, &list) else {
        panic!("zeros are written");
    };
    let refused = crate::copied(&then, 4096, &[], Err(IoError::Reserved), &mut host.nexus);
    assert_eq!(refused.status, Status::ReservationConflict);
    assert_eq!((information_of(&mut host)[5], information_of(&mut host)[23]), (2, 0));
    // There is one logical unit, and no token that could be worth nothing any more.
    let Plan::Copy { then, .. } = send(&mut host, 0x11, &list) else {
        panic!("zeros are written");
    };
    let shrunk = crate::copied(&then, 0, &[], Err(IoError::OutOfRange), &mut host.nexus);
    assert_eq!(shrunk.sense.map(|sense| sense.code), Some(code::LBA_OUT_OF_RANGE));
    let nothing = send(&mut host, 0x11, &write_list(&zero_token(), 0, &[]));
    assert_eq!(answer(nothing), Answer::good());
    assert_eq!(information_of(&mut host)[5], 1);
}

#[test]
fn a_name_is_of_one_copy_at_a_time() {
    let mut host = two_units();
    let token = token_of(&mut host, &[(8, 16)]);
    let plan = send_to(&mut host, 1, 0x11, &write_list(&token, 0, &[(1000, 16)]));
    let under_way = begin(&mut host, plan, NOW);
    for plan in [
        send(&mut host, 0x10, &populate_list(&[(8, 16)])),
        send_to(&mut host, 1, 0x11, &write_list(&token, 0, &[(2000, 16)])),
        send(&mut host, 0x11, &write_list(&zero_token(), 0, &[(0, 8)])),
    ] {
        assert_eq!(
            sense(plan),
            Sense::new(Key::IllegalRequest, code::OPERATION_IN_PROGRESS)
        );
    }
    // The token of the same name was told before.
    assert_eq!(information_of(&mut host)[5], 0x11);
    // It was aborted: nothing is known of it, and its name is free.
    drop(under_way);
    let unknown = host.sense(0, &[0x84, 0x07, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(unknown, Sense::in_cdb(2, None));
    let plan = send(&mut host, 0x10, &populate_list(&[(8, 16)]));
    assert!(matches!(begin(&mut host, plan, NOW), Plan::Copy { .. }));
}

#[test]
fn tokens_of_others() {
    let mut host = two_units();
    let token = token_of(&mut host, &[(8, 16)]);
    let mut refused = |spoil: &dyn Fn(&mut [u8; TOKEN_BYTES])| {
        let mut bytes = token;
        spoil(&mut bytes);
        let plan = send_to(&mut host, 1, 0x11, &write_list(&bytes, 0, &[(0, 8)]));
        sense(begin(&mut host, plan, NOW)).code
    };
    assert_eq!(refused(&|bytes| bytes[0] = 1), code::UNSUPPORTED_TOKEN_TYPE);
    assert_eq!(refused(&|bytes| bytes[7] = 0), code::INVALID_TOKEN_LENGTH);
    assert_eq!(refused(&|bytes| bytes[511] = 1), code::TOKEN_UNKNOWN);
    assert_eq!(refused(&|bytes| bytes[16] = 0xe5), code::TOKEN_UNKNOWN);
    // Whatever bit is another, before the seal or in it.
    for at in (8..508).step_by(3) {
        assert_eq!(
            refused(&|bytes| bytes[at] ^= 1 << (at % 8)),
            code::TOKEN_UNKNOWN,
            "{at}"
        );
    }
}

#[test]
fn lists_that_are_wrong() {
    let mut host = Host::one();
    let mut refused = |list: &[u8]| sense(send(&mut host, 0x10, list));
    assert_eq!(
        refused(&populate_list(&[(8, 16), (20, 1)])),
        Sense::in_list(32, None),
        "twice"
    );
    assert_eq!(
        refused(&populate_list(&[(SIZE_BYTES / 512, 1)])).code,
        code::LBA_OUT_OF_RANGE
    );
    let ranges: Vec<(u64, u32)> = (0..u64::from(MAX_RANGES) + 1).map(|lba| (lba, 1)).collect();
    assert_eq!(
        refused(&populate_list(&ranges)).code,
        code::TOO_MANY_SEGMENT_DESCRIPTORS
    );
    let mut list = populate_list(&[(8, 16)]);
    list[15] = 15;
    assert_eq!(refused(&list), Sense::in_list(14, None));
    list[15] = 16;
    list[1] = 20;
    assert_eq!(refused(&list), Sense::in_list(14, None));
    let mut list = populate_list(&[(8, 16)]);
    list[4] = 1;
    assert_eq!(refused(&list), Sense::in_list(4, None), "kept too long");
    let mut list = populate_list(&[(8, 16)]);
    list[2] = 2;
    assert_eq!(refused(&list).code, code::UNSUPPORTED_TOKEN_TYPE);
    assert_eq!(refused(&[0; 15]).code, code::PARAMETER_LIST_LENGTH);
    host.catalog.tokens = None;
    assert_eq!(
        host.sense(0, &[0x83, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Sense::in_cdb(1, Some(4))
    );
}

#[test]
fn the_page_of_copies() {
    let page = third_party_copy_page(&unit(0));
    let (mut kinds, mut at) = (Vec::new(), 0);
    while at < page.len() {
        kinds.push(u16::from_be_bytes([page[at], page[at + 1]]));
        at += 4 + usize::from(u16::from_be_bytes([page[at + 2], page[at + 3]]));
    }
    assert_eq!(at, page.len());
    assert_eq!(kinds, [0x0000, 0x0001, 0x0004, 0x0008, 0x0106, 0x0108, 0x8001]);
    // Limits of tokens: 32 bytes behind the header.
    assert_eq!(page[..12], [0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 8]);
    assert_eq!(page[20..28], (64_u64 << 11).to_be_bytes(), "64 MiB");
    // Commands, each with its service actions.
    assert_eq!(
        page[36..52],
        [0, 1, 0, 16, 12, 0x83, 3, 0, 0x10, 0x11, 0x84, 5, 0, 1, 3, 4]
    );
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_represented(
        sources in proptest::collection::vec((0..1000_u64, 1..50_u64), 0..6),
        targets in proptest::collection::vec(1..50_u64, 0..6),
        skip in 0..100_u64,
    ) {
        let place = Place::of(&unit(0));
        let contents = Contents {
            place,
            extents: sources.iter().map(|(lba, count)| extent_of(*lba, *count)).collect(),
            until: 0,
            seed: [0; 16],
            sums: Vec::new(),
        };
        let mut next = 0;
        let to: Vec<Extent> = targets
            .iter()
            .map(|count| {
                let extent = extent_of(next, *count);
                next += count + 1;
                extent
            })
            .collect();
        let parts = paired(&contents, skip * 512, place, &to);
        // Byte by byte (block by block): the same pairs.
        let flat = |extents: &[Extent]| -> Vec<u64> {
            extents.iter().flat_map(|extent| (extent.offset / 512)..(extent.end() / 512)).collect()
        };
        let represented: Vec<u64> = flat(&contents.extents).into_iter().skip(skip as usize).collect();
        let expected: Vec<(u64, u64)> = represented.into_iter().zip(flat(&to)).collect();
        let mut found = Vec::new();
        for part in parts {
            for block in 0..part.length / 512 {
                found.push((part.from_offset / 512 + block, part.to_offset / 512 + block));
            }
        }
        prop_assert_eq!(found, expected);
    }

    /// In whatever parts and order, and zeros or not.
    #[test]
    fn a_sum_is_that_of_its_parts(words in proptest::collection::vec(any::<u64>(), 1..200), cuts in proptest::collection::vec(0..200_usize, 0..6), seed: [u8; 16]) {
        let summer = Summer::new(seed);
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % words.len() * 8).collect();
        cuts.extend([0, data.len()]);
        cuts.sort_unstable();
        let mut sum = Sum::default();
        for part in cuts.windows(2).rev() {
            sum.add(summer.sum(4096 + part[0] as u64, &data[part[0]..part[1]]));
        }
        prop_assert_eq!(sum, summer.sum(4096, &data));
        prop_assert_eq!(summer.sum(0, &vec![0; data.len()]), Sum::default());
        let mut changed = data.clone();
        changed[cuts[1].min(data.len() - 1)] ^= 0x40;
        prop_assert_ne!(summer.sum(4096, &changed).encode(), sum.encode());
        prop_assert_eq!(summer.sum(4096, &data), summer.sum(4088, &[&[0; 8], &data[..]].concat()));
    }

    /// What was sealed is opened as it was.
    #[test]
    fn what_a_token_stands_for(
        ranges in proptest::collection::vec((0..1_u64 << 40, 1..1_u64 << 20), 1..=8),
        until: u64, seed: [u8; 16], sums in proptest::collection::vec(any::<[u8; 12]>(), 0..=16),
    ) {
        let contents = Contents {
            // Whose it is the settings tell when it is used.
            place: Place {
                uuid: [0; 16],
                ..Place::of(&unit(0))
            },
            extents: ranges.iter().map(|(lba, count)| extent_of(*lba, *count)).collect(),
            until,
            seed,
            sums,
        };
        let keys = TokenKeys::new(&[[1; 32], [2; 32]]).expect("keys");
        let token = keys.seal(UUID, &contents, &[9; 36]).encode();
        prop_assert_eq!(keys.open(&token), Ok(contents));
    }
}
