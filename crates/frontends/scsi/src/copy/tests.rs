use super::*;
use crate::plan::{Place, Segment};
use crate::sense::{SegmentPointer, Specific};
use crate::testing::{Host, SIZE_BYTES, answer, sense, target, unit};
use crate::unit::{Access, Unit};
use crate::vpd::designator::names;
use amita_types::SnapshotId;
use proptest::prelude::*;
use std::sync::Arc;

/// An identification descriptor, by the NAA designator.
fn described(unit: &Unit) -> Vec<u8> {
    let (code_set, kind, name) = &names(unit)[0];
    let mut bytes = vec![0xe4, 0, 0, 0, *code_set, *kind, 0, name.len() as u8];
    bytes.extend(name);
    bytes.resize(32, 0);
    bytes[28..].copy_from_slice(&unit.block_bytes.to_be_bytes());
    bytes
}

/// Block device to block device.
fn segment(from: u16, to: u16, count: u16, from_lba: u64, to_lba: u64) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0x18];
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(count.to_be_bytes());
    bytes.extend(from_lba.to_be_bytes());
    bytes.extend(to_lba.to_be_bytes());
    bytes
}

fn list(id: u8, targets: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (targets, segments) = (targets.concat(), segments.concat());
    let mut list = vec![id, 0];
    list.extend((targets.len() as u16).to_be_bytes());
    list.extend([0; 4]);
    list.extend((segments.len() as u32).to_be_bytes());
    list.extend([0; 4]);
    [list, targets, segments].concat()
}

fn send(host: &mut Host, list: &[u8]) -> Plan {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    host.send_with(0, &cdb, list)
}

fn results(host: &mut Host, action: u8, id: u8) -> Vec<u8> {
    host.data(0, &[0x84, action, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0])
}

fn two_units() -> Host {
    Host::new(vec![unit(0), unit(1)])
}

fn copy_of(plan: Plan) -> (Vec<Segment>, CopyRest) {
    match plan {
        Plan::Copy { segments, then } => (segments, then),
        other => panic!("no copy: {other:?}"),
    }
}

#[test]
fn from_one_unit_to_another() {
    let mut host = two_units();
    let targets = [described(&unit(0)), described(&unit(1))];
    let segments = [segment(0, 1, 8, 16, 32), segment(1, 0, 1, 0, 1), segment(0, 0, 0, 0, 0)];
    let (found, then) = copy_of(send(&mut host, &list(7, &targets, &segments)));
    let expected = [
        Segment {
            from: Place::of(&unit(0)),
            from_offset: 16 * 512,
            to: Place::of(&unit(1)),
            to_offset: 32 * 512,
            length: 8 * 512,
            summed_at: None,
            is_zero: false,
            is_written: true,
        },
        Segment {
            from: Place::of(&unit(1)),
            from_offset: 0,
            to: Place::of(&unit(0)),
            to_offset: 512,
            length: 512,
            summed_at: None,
            is_zero: false,
            is_written: true,
        },
    ];
    assert_eq!(found, expected);
    assert_eq!(copied(&then, 9 * 512, &[], Ok(()), &mut host.nexus), Answer::good());
    // The segment of no blocks is one of three (SPC-4, "RECEIVE COPY STATUS": SEGMENTS PROCESSED).
    assert_eq!(results(&mut host, 0, 7), [0, 0, 0, 8, 1, 0, 3, 0, 0, 0, 0x12, 0]);
    assert_eq!(results(&mut host, 1, 7), [0; 4]);
    assert_eq!(results(&mut host, 4, 7), [0; 4], "nothing has failed");
    let unknown = host.sense(0, &[0x84, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(unknown, Sense::in_cdb(2, None));
}

#[test]
fn a_copy_that_fails_says_where() {
    let mut host = two_units();
    let targets = [described(&unit(0)), described(&unit(1))];
    let segments = [segment(0, 1, 8, 16, 32), segment(1, 0, 4, 0, 4)];
    let (_, then) = copy_of(send(&mut host, &list(1, &targets, &segments)));
    let failed = copied(&then, 9 * 512, &[], Err(IoError::NoSpace), &mut host.nexus);
    let mut expected = Sense::new(Key::CopyAborted, code::SPACE_ALLOCATION_FAILED).with_information(3);
    expected.command_specific = Some(1);
    assert_eq!(failed, Answer::check(expected));
    assert_eq!(results(&mut host, 0, 1), [0, 0, 0, 8, 2, 0, 1, 0, 0, 0, 0x12, 0]);
    let details = results(&mut host, 4, 1);
    assert_eq!((details.len(), details[3], details[56], details[59]), (78, 74, 2, 18));
    assert_eq!(details[60..63], [0xf0, 0, 0x0a]);
    let (_, then) = copy_of(send(&mut host, &list(1, &targets, &segments)));
    let conflict = copied(&then, 0, &[], Err(IoError::Reserved), &mut host.nexus);
    assert_eq!(conflict.status, Status::ReservationConflict);
    // It is not told to have gone well, and blocks that it has not copied are not counted.
    assert_eq!(results(&mut host, 0, 1), [0, 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_list_identifier_is_of_one_copy_at_a_time() {
    let mut host = two_units();
    let targets = [described(&unit(0)), described(&unit(1))];
    let segments = [segment(0, 1, 8, 16, 32)];
    let (_, first) = copy_of(send(&mut host, &list(7, &targets, &segments)));
    assert_eq!(copied(&first, 8 * 512, &[], Ok(()), &mut host.nexus), Answer::good());
    let (_, then) = copy_of(send(&mut host, &list(7, &targets, &segments)));
    // SPC-3, "RECEIVE COPY RESULTS": COPY STATUS 00h. The other one of that name had ended.
    assert_eq!(results(&mut host, 0, 7), [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    for action in [1, 4] {
        let refused = host.sense(0, &[0x84, action, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(refused, Sense::in_cdb(2, None), "{action}");
    }
    let in_progress = Sense::new(Key::IllegalRequest, code::OPERATION_IN_PROGRESS);
    assert_eq!(sense(send(&mut host, &list(7, &targets, &segments))), in_progress);
    assert_eq!(sense(send(&mut host, &list(7, &targets, &[]))), in_progress);
    // Others go on beside it, and those without a name.
    let (_, other) = copy_of(send(&mut host, &list(8, &targets, &segments)));
    let mut unnamed = list(0, &targets, &segments);
    unnamed[1] = 3 << 3;
    let nameless = [copy_of(send(&mut host, &unnamed)), copy_of(send(&mut host, &unnamed))];
    drop((other, nameless));
    assert_eq!(copied(&then, 8 * 512, &[], Ok(()), &mut host.nexus), Answer::good());
    assert_eq!(results(&mut host, 0, 7)[4..7], [1, 0, 1]);
    // What was aborted has no outcome, and its name is free.
    drop(copy_of(send(&mut host, &list(7, &targets, &segments))));
    let unknown = host.sense(0, &[0x84, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(unknown, Sense::in_cdb(2, None));
    copy_of(send(&mut host, &list(7, &targets, &segments)));
}

#[test]
fn segments_of_no_blocks_count_among_the_others() {
    let mut host = two_units();
    let targets = [described(&unit(0)), described(&unit(1))];
    // Of no blocks, and onto itself.
    let nothing = [segment(0, 1, 0, 16, 32), segment(0, 0, 8, 16, 16)];
    let [first, second] = nothing.clone();
    let segments = [first, second, segment(0, 1, 8, 16, 32)];
    let (found, then) = copy_of(send(&mut host, &list(1, &targets, &segments)));
    assert_eq!(found.len(), 1);
    let failed = copied(&then, 512, &[], Err(IoError::Damaged), &mut host.nexus);
    let sense = failed.sense.expect("sense data");
    assert_eq!((sense.command_specific, sense.information), (Some(2), Some(7)));
    // What a list did is told of the last one of that name (SPC-4, "RECEIVE COPY STATUS"), also where there was nothing to do.
    assert_eq!(answer(send(&mut host, &list(1, &targets, &nothing))), Answer::good());
    assert_eq!(results(&mut host, 0, 1), [0, 0, 0, 8, 1, 0, 2, 0, 0, 0, 0, 0]);
}

#[test]
fn units_of_other_targets_that_the_initiator_may_use() {
    let mut host = Host::one();
    let mut elsewhere = target(vec![unit(4)]);
    elsewhere.name = "iqn.2026-01.test:zz".to_owned();
    host.catalog.targets = vec![Arc::new(elsewhere.clone())];
    let targets = [described(&unit(0)), described(&unit(4))];
    let list = list(0, &targets, &[segment(0, 1, 8, 0, 0)]);
    assert_eq!(copy_of(send(&mut host, &list)).0[0].to, Place::of(&unit(4)));
    // It could not log in there.
    host.nexus.barred = vec![elsewhere.name.clone()];
    assert_eq!(sense(send(&mut host, &list)).code, code::COPY_TARGET_NOT_REACHABLE);
    host.nexus.barred.clear();
    elsewhere.initiators = vec![Arc::new(Access {
        name: host.nexus.initiator().name.to_string(),
        mask: Some(Vec::new()),
    })];
    host.catalog.targets = vec![Arc::new(elsewhere)];
    assert_eq!(sense(send(&mut host, &list)).code, code::COPY_TARGET_NOT_REACHABLE);
}

/// What was allowed when a copy began may not be any more: then nothing more of it is read, or written.
#[test]
fn a_copy_goes_on_as_long_as_all_that_is_left_of_it_may_be_used() {
    let mut host = Host::new(vec![unit(0), unit(1), unit(2)]);
    let targets = [0, 1, 2].map(|number| described(&unit(number)));
    let segments = [segment(0, 1, 8, 0, 0), segment(1, 2, 8, 0, 0)];
    let (found, then) = copy_of(send(&mut host, &list(1, &targets, &segments)));
    let name = host.nexus.initiator().name.to_string();
    let mut may = |left: &[Segment], change: &dyn Fn(&mut crate::unit::Target)| {
        let mut target = host.target.clone();
        change(&mut target);
        host.catalog.targets = vec![Arc::new(target)];
        may_go_on(left, &then, &host.catalog, &host.nexus)
    };
    assert!(may(&found, &|_| {}));
    let sees = |luns: &'static [u16]| {
        let name = name.clone();
        move |target: &mut crate::unit::Target| {
            let (name, mask) = (name.clone(), Some(luns.to_vec()));
            target.initiators = vec![Arc::new(Access { name, mask })];
        }
    };
    assert!(may(&found, &sees(&[0, 1, 2])));
    assert!(!may(&found, &sees(&[0, 1])), "where it goes");
    assert!(!may(&found, &sees(&[1, 2])), "where it comes from");
    assert!(may(&found[1..], &sees(&[1, 2])), "what is copied already");
    assert!(!may(&found, &|target| target.any_initiator = false));
    assert!(!may(&found, &|target| drop(target.units.remove(1))));
    // Its volume has moved, to a pool with larger chunks: it has another number, and is the same disk.
    fn becomes(target: &mut crate::unit::Target, change: impl Fn(&mut crate::unit::Unit)) {
        let unit = Arc::make_mut(&mut target.units[2]);
        unit.volume = amita_types::VolumeId(77);
        change(unit);
    }
    assert!(may(&found, &|target| becomes(target, |unit| unit.chunk_bytes *= 2)));
    // Another volume under the same number of a logical unit is another one, and so is one that is told in other blocks.
    assert!(!may(&found, &|target| becomes(target, |unit| unit.uuid[0] ^= 1)));
    assert!(!may(&found, &|target| becomes(target, |unit| unit.block_bytes = 4096)));
}

/// COPY ABORTED of the first segment.
fn aborted(code: crate::sense::Code, byte: u16) -> Sense {
    let mut sense = Sense::new(Key::CopyAborted, code);
    sense.command_specific = Some(0);
    sense.specific = Specific::Segment(SegmentPointer {
        in_segment: true,
        byte,
        bit: None,
    });
    sense
}

#[test]
fn segments_that_cannot_be_copied() {
    let mut host = two_units();
    let targets = [described(&unit(0)), described(&unit(1))];
    let blocks = SIZE_BYTES / 512;
    let mut refused = |segment: Vec<u8>| sense(send(&mut host, &list(1, &targets, &[segment])));
    assert_eq!(
        refused(segment(0, 2, 8, 0, 0)),
        aborted(code::COPY_TARGET_NOT_REACHABLE, 6)
    );
    assert_eq!(
        refused(segment(9, 1, 8, 0, 0)),
        aborted(code::COPY_TARGET_NOT_REACHABLE, 4)
    );
    assert_eq!(
        refused(segment(0, 1, 2, 0, blocks - 1)),
        aborted(code::NO_ADDITIONAL_SENSE, 20)
    );
    assert_eq!(
        refused(segment(0, 1, 1, u64::MAX, 0)),
        aborted(code::NO_ADDITIONAL_SENSE, 12)
    );
    assert_eq!(
        refused(segment(0, 0, 8, 0, 7)),
        aborted(code::NO_ADDITIONAL_SENSE, 20),
        "onto itself"
    );
    let mut other = segment(0, 1, 8, 0, 0);
    other[0] = 0x03;
    assert_eq!(refused(other).code, code::UNSUPPORTED_SEGMENT_DESCRIPTOR);
    let mut other = segment(0, 1, 8, 0, 0);
    other[3] = 0x14;
    assert_eq!(refused(other), Sense::in_list(16 + 64 + 2, None));
    let same = list(1, &targets, &[segment(0, 0, 8, 5, 5)]);
    assert_eq!(answer(send(&mut host, &same)), Answer::good(), "nothing to copy");
    host.change(|unit| unit.snapshot = SnapshotId(1));
    let into = list(1, &targets, &[segment(1, 0, 8, 0, 0)]);
    assert_eq!(sense(send(&mut host, &into)), aborted(code::WRITE_PROTECTED, 6));
}

#[test]
fn descriptors_that_are_not_known() {
    let mut host = two_units();
    let segments = [segment(0, 0, 8, 0, 8)];
    let mut refused = |target: Vec<u8>| sense(send(&mut host, &list(1, &[target], &segments)));
    let with = |at: usize, value: u8| {
        let mut target = described(&unit(0));
        target[at] = value;
        target
    };
    let unsupported = Sense::new(Key::IllegalRequest, code::UNSUPPORTED_TARGET_DESCRIPTOR);
    assert_eq!(refused(with(0, 0xe0)), unsupported.at(false, 16, None));
    assert_eq!(refused(with(1, 0x01)), Sense::in_list(17, Some(4)), "a tape");
    assert_eq!(refused(with(7, 21)), Sense::in_list(23, None));
    assert_eq!(refused(with(5, 0x13)), Sense::in_list(21, Some(5)), "a port");
    assert_eq!(refused(with(9, 0x55)).code, code::COPY_TARGET_NOT_REACHABLE, "nobody's");
    // LU ID TYPE is not looked at.
    let plan = send(&mut host, &list(1, &[with(1, 0xc0)], &segments));
    assert!(matches!(plan, Plan::Copy { .. }));
}

#[test]
fn limits() {
    let mut host = two_units();
    let parameters = host.data(0, &[0x84, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(parameters[..12], [0, 0, 0, 42, 1, 0, 0, 0, 0, 16, 0, 64]);
    assert_eq!(parameters[43..], [2, 0x02, 0xe4]);
    let (one, part) = (described(&unit(0)), segment(0, 0, 8, 0, 8));
    let targets = |count: u16| vec![one.clone(); usize::from(count)];
    let segments = |count: u16| vec![part.clone(); usize::from(count)];
    let mut code_of = |list: &[u8]| sense(send(&mut host, list)).code;
    assert_eq!(
        code_of(&list(1, &targets(MAX_TARGETS + 1), &segments(1))),
        code::TOO_MANY_TARGET_DESCRIPTORS
    );
    assert_eq!(
        code_of(&list(1, &targets(1), &segments(MAX_SEGMENTS + 1))),
        code::TOO_MANY_SEGMENT_DESCRIPTORS
    );
    let both = list(1, &targets(MAX_TARGETS + 1), &segments(MAX_SEGMENTS + 1));
    assert_eq!(code_of(&both), code::PARAMETER_LIST_LENGTH);
    let most = list(1, &targets(MAX_TARGETS), &segments(MAX_SEGMENTS));
    assert_eq!(code_of(&most[..most.len() - 1]), code::PARAMETER_LIST_LENGTH);
    assert_eq!(code_of(&most[..15]), code::PARAMETER_LIST_LENGTH);
    let mut inline = list(1, &targets(1), &segments(1));
    inline[15] = 1;
    assert_eq!(code_of(&inline), code::INLINE_DATA_LENGTH_EXCEEDED);
    assert_eq!(copy_of(send(&mut host, &most)).0.len(), usize::from(MAX_SEGMENTS));
    assert_eq!(answer(send(&mut host, &list(1, &[], &[]))), Answer::good());
    assert_eq!(
        answer(host.send(0, &[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        Answer::good()
    );
}

#[test]
fn lists_without_an_identifier_keep_nothing() {
    let mut host = two_units();
    let (targets, segments) = ([described(&unit(0))], [segment(0, 0, 8, 0, 8)]);
    let mut list = list(0, &targets, &segments);
    list[1] = 0x18;
    let (_, then) = copy_of(send(&mut host, &list));
    assert_eq!(copied(&then, 8 * 512, &[], Ok(()), &mut host.nexus), Answer::good());
    assert!(host.nexus.copies.find(ListId(0)).is_none());
    list[0] = 1;
    assert_eq!(sense(send(&mut host, &list)), Sense::in_list(0, None));
    list[1] = 0x08;
    assert_eq!(sense(send(&mut host, &list)), Sense::in_list(1, Some(4)));
}

#[test]
fn the_last_copies_are_kept() {
    let mut copies = Copies::default();
    let outcome = |bytes| Outcome {
        action: 0,
        segments: 1,
        bytes,
        failure: None,
        block_bytes: 512,
        token: None,
    };
    for id in 0..40_u32 {
        copies.keep(ListId(id), outcome(u64::from(id)));
    }
    copies.keep(ListId(39), outcome(99));
    assert!(copies.find(ListId(23)).is_none());
    assert_eq!(copies.find(ListId(24)), Some(Known::Ended(&outcome(24))));
    assert_eq!(copies.find(ListId(39)), Some(Known::Ended(&outcome(99))));
}

proptest! {
    #[test]
    fn lists_that_are_nearly_right(
        at in 0..108_usize, value: u8, count: u16, from in 0..200_000_u64, to in 0..200_000_u64,
    ) {
        let mut host = two_units();
        let targets = [described(&unit(0)), described(&unit(1))];
        let mut list = list(1, &targets, &[segment(0, 1, count, from, to)]);
        list[at] = value;
        if let Plan::Copy { segments, .. } = send(&mut host, &list) {
            for segment in segments {
                prop_assert!(segment.from_offset + segment.length <= SIZE_BYTES);
                prop_assert!(segment.to_offset + segment.length <= SIZE_BYTES);
            }
        }
    }
}
