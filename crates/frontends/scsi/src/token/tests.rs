use super::*;
use crate::testing::{Host, SIZE_BYTES, UUID, answer, sense, unit};
use amita_types::VolumeId;
use proptest::prelude::*;

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

/// With the list identifier 0x01020304.
fn send(host: &mut Host, action: u8, list: &[u8]) -> Plan {
    let mut cdb = [0x83, action, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0];
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    host.send_with(0, &cdb, list)
}

fn information_of(host: &mut Host) -> Vec<u8> {
    host.data(0, &[0x84, 0x07, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0])
}

fn token() -> Token {
    Token {
        identifier: 0x0102_0304_0506_0708,
        unit: UUID,
        bytes: 24 * 512,
        block_bytes: 512,
        seal: [0xa5; 32],
    }
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

fn work_of(plan: Plan) -> TokenWork {
    match plan {
        Plan::Token(work) => *work,
        other => panic!("no token: {other:?}"),
    }
}

#[test]
fn a_token_is_made_and_told() {
    let mut host = Host::one();
    let work = work_of(send(&mut host, 0x10, &populate_list(&[(8, 16), (100, 8)])));
    let expected = TokenWork::Create {
        list: 0x0102_0304,
        place: Place::of(&unit(0)),
        extents: vec![extent_of(8, 16), extent_of(100, 8)],
        inactivity_seconds: DEFAULT_INACTIVITY_SECONDS,
    };
    assert_eq!(work, expected);
    assert_eq!(populated(&work, Ok(&token()), &mut host.nexus), Answer::good());
    let data = information_of(&mut host);
    assert_eq!(data.len(), 32 + 4 + 2 + 512);
    assert_eq!(data[..8], [0, 0, 2, 0x22, 0x10, 1, 0, 1]);
    assert_eq!(data[15..26], [0xf1, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0]);
    assert_eq!(data[32..38], [0, 0, 2, 2, 0, 0]);
    assert_eq!(data[38..], token().encode());
    let unknown = host.sense(0, &[0x84, 0x07, 9, 2, 3, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(unknown, Sense::in_cdb(2, None));
}

#[test]
fn the_form_of_a_token() {
    let bytes = token().encode();
    assert_eq!(bytes[..16], [0, 0x80, 0, 1, 0, 0, 1, 0xf8, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[16..26], [0xe4, 0, 0, 0, 1, 0x0a, 0, 18, 0x10, 0]);
    assert_eq!(bytes[26..42], UUID);
    assert_eq!(bytes[48..64], (24 * 512_u128).to_be_bytes());
    assert_eq!(bytes[96..104], [0, 0, 2, 0, 0, 3, 0xc0, 0]);
    assert_eq!(Token::parse(&bytes), Ok(token()));
}

#[test]
fn a_token_that_cannot_be_made() {
    let mut host = Host::one();
    let work = work_of(send(&mut host, 0x10, &populate_list(&[(8, 16)])));
    let why = Sense::new(Key::IllegalRequest, code::INSUFFICIENT_TOKEN_RESOURCES);
    assert_eq!(populated(&work, Err(why), &mut host.nexus), Answer::check(why));
    let data = information_of(&mut host);
    assert_eq!((data[4], data[5], data[12], data[13], data[14]), (0x10, 2, 2, 18, 18));
    assert_eq!((data[34], data[44], data[45]), (5, 0x55, 0x0d));
    assert_eq!(data[50..], [0; 4], "no token");
}

#[test]
fn a_token_is_handed_in() {
    let mut host = Host::one();
    let work = work_of(send(
        &mut host,
        0x11,
        &write_list(&token().encode(), 4, &[(1000, 10), (2000, 30)]),
    ));
    let TokenWork::Redeem {
        token: ref handed,
        skip_bytes,
        delete,
        ..
    } = work
    else {
        panic!("{work:?}");
    };
    assert_eq!((Token::parse(handed), skip_bytes, delete), (Ok(token()), 2048, false));
    let source = Place::of(&unit(3));
    let sources = [(source, extent_of(8, 16)), (source, extent_of(100, 8))];
    let Plan::Copy { segments, then } = redeemed(&work, Ok(&sources), &mut host.nexus) else {
        panic!("a copy");
    };
    let parts: Vec<_> = segments
        .iter()
        .map(|part| (part.from_offset / 512, part.to_offset / 512, part.length / 512))
        .collect();
    // Of 24 blocks 4 are left out: 10 go to the first range, 10 to the second, which has room for more.
    assert_eq!(parts, [(12, 1000, 10), (22, 2000, 2), (100, 2002, 8)]);
    assert!(
        segments
            .iter()
            .all(|part| part.from == source && part.to.source.volume == VolumeId(1))
    );
    assert_eq!(crate::copied(&then, 20 * 512, Ok(()), &mut host.nexus), Answer::good());
    let data = information_of(&mut host);
    assert_eq!((data[4], data[5], data[23], data[25]), (0x11, 1, 20, 0));
    assert_eq!(data[32..], [0; 4]);
}

#[test]
fn a_token_that_nobody_knows() {
    let mut host = Host::one();
    let work = work_of(send(&mut host, 0x11, &write_list(&token().encode(), 0, &[(0, 8)])));
    let why = Sense::new(Key::IllegalRequest, code::TOKEN_EXPIRED);
    assert_eq!(sense(redeemed(&work, Err(why), &mut host.nexus)), why);
    assert_eq!(information_of(&mut host)[5], 2);
    assert_eq!(
        answer(redeemed(&work, Ok(&[]), &mut host.nexus)),
        Answer::good(),
        "it represents nothing"
    );
}

#[test]
fn zeros_need_no_register() {
    let mut host = Host::one();
    let plan = send(&mut host, 0x11, &write_list(&zero_token(), 77, &[(0, 8), (64, 8)]));
    let Plan::Io(io) = plan else {
        panic!("zeros are written");
    };
    assert_eq!(io.work, Work::Zero(vec![extent_of(0, 8), extent_of(64, 8)]));
    assert_eq!(information_of(&mut host)[23], 16);
}

#[test]
fn tokens_of_others() {
    let mut host = Host::one();
    let mut refused = |spoil: &dyn Fn(&mut [u8; TOKEN_BYTES])| {
        let mut bytes = token().encode();
        spoil(&mut bytes);
        match send(&mut host, 0x11, &write_list(&bytes, 0, &[(0, 8)])) {
            Plan::Token(work) => match *work {
                TokenWork::Redeem { token, .. } => Token::parse(&token).expect_err("it is spoilt"),
                TokenWork::Create { .. } => panic!("none is made"),
            },
            plan => sense(plan),
        }
        .code
    };
    assert_eq!(refused(&|bytes| bytes[0] = 1), code::UNSUPPORTED_TOKEN_TYPE);
    assert_eq!(refused(&|bytes| bytes[7] = 0), code::INVALID_TOKEN_LENGTH);
    assert_eq!(refused(&|bytes| bytes[511] = 1), code::TOKEN_UNKNOWN);
    assert_eq!(refused(&|bytes| bytes[16] = 0xe5), code::TOKEN_UNKNOWN);
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
    let ranges: Vec<(u64, u32)> = (0..65).map(|lba| (lba, 1)).collect();
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
    host.catalog.tokens = false;
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
    assert_eq!(page[..12], [0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 64]);
    assert_eq!(page[20..28], (2_u64 << 20).to_be_bytes(), "1 GiB");
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
        let from: Vec<_> = sources.iter().map(|(lba, count)| (place, extent_of(*lba, *count))).collect();
        let mut next = 0;
        let to: Vec<Extent> = targets
            .iter()
            .map(|count| {
                let extent = extent_of(next, *count);
                next += count + 1;
                extent
            })
            .collect();
        let parts = segments(&from, skip * 512, place, &to);
        // Byte by byte (block by block): the same pairs.
        let flat = |extents: &[Extent]| -> Vec<u64> {
            extents.iter().flat_map(|extent| (extent.offset / 512)..(extent.end() / 512)).collect()
        };
        let from: Vec<Extent> = from.iter().map(|source| source.1).collect();
        let represented: Vec<u64> = flat(&from).into_iter().skip(skip as usize).collect();
        let expected: Vec<(u64, u64)> = represented.into_iter().zip(flat(&to)).collect();
        let mut found = Vec::new();
        for part in parts {
            for block in 0..part.length / 512 {
                found.push((part.from_offset / 512 + block, part.to_offset / 512 + block));
            }
        }
        prop_assert_eq!(found, expected);
    }
}
