//! A chunk is compared with a member's copy, and what differs is replaced: nothing else, and exactly what was seen.

use super::rig::{Rig, old, store, version};
use crate::io::Warning;
use amita_reactor::Slice;
use amita_types::message::{
    AnswerBody, Change, ChangesAnswer, ChunkState, DataAnswer, Expect, JoinRequest, JoinedAnswer, Mend, MendRequest,
    MendedAnswer, OpenedAnswer, Purpose, Refusal, Request, RequestBody, WholeRequest,
};
use amita_types::{BLOCK_BYTES, BlockIndex, ChunkIndex, StoreId, Version};

fn change(block: u16, version: Version, sum: Option<u32>) -> Change {
    let block = BlockIndex(block);
    Change { block, version, sum }
}

/// What [`Rig::answer_read`] sends for a block.
fn sum(block: u16) -> u32 {
    amita_types::crc32c(&[block as u8; BLOCK_BYTES as usize])
}

/// Store 3 is syncing and its copy of the chunk incomplete since 2:3; the entries are being listed.
fn listing() -> Rig {
    let mut rig = Rig::open(2, 1);
    rig.up(3);
    rig.list_syncing(3);
    rig.answer_fences();
    rig.answer_chunks(|id: StoreId| {
        vec![ChunkState {
            chunk: ChunkIndex(0),
            version: if id == store(3) { old(3) } else { old(5) },
            incomplete: None,
        }]
    });
    let sent = rig.sent_to(3);
    assert!(matches!(sent[0].body, RequestBody::Join(JoinRequest { at, .. }) if at == old(5)));
    let incomplete = Some(old(3));
    rig.accept(&sent[0], AnswerBody::Joined(JoinedAnswer { incomplete }));
    let sent = rig.sent_to(3);
    assert!(matches!(sent[0].body, RequestBody::Open(_)));
    rig.accept(
        &sent[0],
        AnswerBody::Opened(OpenedAnswer {
            version: old(5),
            incomplete,
            ..OpenedAnswer::NOTHING
        }),
    );
    rig
}

/// (The source says that it has all that was acknowledged.)
fn answer_changes(rig: &mut Rig, source: &[Change], target: &[Change]) -> StoreId {
    rig.answer_opens(|_| old(5));
    let mut from = store(0);
    for request in rig.take(|_, body| matches!(body, RequestBody::Changes(_))) {
        let entries = if request.store == store(3) {
            target.to_vec()
        } else {
            from = request.store;
            source.to_vec()
        };
        rig.accept(&request, AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    }
    from
}

fn mends(rig: &mut Rig) -> (Request, Vec<Mend>) {
    let mut sent = rig.take(|_, body| matches!(body, RequestBody::Mend(_)));
    assert_eq!(sent.len(), 1);
    let request = sent.remove(0);
    assert_eq!(request.store, store(3));
    let RequestBody::Mend(MendRequest { entries, .. }) = request.body.clone() else {
        unreachable!()
    };
    (request, entries)
}

fn finish(rig: &mut Rig) {
    let whole = rig.take(|_, body| matches!(body, RequestBody::Whole(_)));
    assert!(
        matches!(whole[..], [ref one] if matches!(one.body, RequestBody::Whole(WholeRequest { version, .. }) if version == old(5)))
    );
    assert!(rig.wholes.is_empty());
    rig.done(&whole);
    assert_eq!(rig.wholes.len(), 1);
}

#[test]
fn only_what_differs_travels_and_replaces_exactly_what_was_listed() {
    let mut rig = listing();
    let source = [
        change(1, old(4), Some(sum(1))),
        change(2, old(5), Some(sum(2))),
        change(3, old(5), None),
        change(4, old(2), Some(sum(4))),
    ];
    let target = [
        // A write of a part of a block, merged with old data: the version is the same and the content is not.
        change(2, old(5), Some(77)),
        change(4, old(2), Some(sum(4))),
    ];
    answer_changes(&mut rig, &source, &target);
    // The source has said that it has this, and may have ended since.
    let least = |(_, request, _): &(StoreId, Request, Slice)| match &request.body {
        RequestBody::Read(read) => Some(read.least),
        _ => None,
    };
    let least: Vec<Version> = rig.sent.iter().filter_map(least).collect();
    assert!(
        !least.is_empty() && least.iter().all(|least| *least == old(5)),
        "{least:?}"
    );
    rig.answer_reads(old(5));
    let (request, entries) = mends(&mut rig);
    let since = Version::new(old(3).generation(), 0).unwrap();
    let upto = Expect::Upto { version: since };
    let (block, expect) = (
        BlockIndex,
        Expect::Entry {
            version: old(5),
            sum: Some(77),
        },
    );
    let right = [
        Mend {
            block: block(1),
            expect: upto,
            version: old(4),
            sum: Some(sum(1)),
        },
        Mend {
            block: block(2),
            expect,
            version: old(5),
            sum: Some(sum(2)),
        },
        Mend {
            block: block(3),
            expect: upto,
            version: old(5),
            sum: None,
        },
    ];
    assert_eq!(entries, right);
    rig.accept(&request, AnswerBody::Mended(MendedAnswer { skipped: Vec::new() }));
    finish(&mut rig);
    assert_eq!(rig.sequencer.counters().mended_blocks, 3);
}

#[test]
fn an_entry_that_nobody_else_has_is_put_back_to_what_the_source_holds() {
    let mut rig = listing();
    // Written by an owner that died, and never acknowledged; the source has something older there.
    answer_changes(&mut rig, &[], &[change(6, old(9), Some(99))]);
    rig.answer_reads(old(1));
    let (request, entries) = mends(&mut rig);
    assert_eq!((entries[0].version, entries[0].sum), (old(1), Some(sum(6))));
    rig.accept(&request, AnswerBody::Mended(MendedAnswer { skipped: Vec::new() }));
    finish(&mut rig);
}

#[test]
fn what_was_skipped_is_compared_again() {
    let mut rig = listing();
    answer_changes(&mut rig, &[change(1, old(4), Some(sum(1)))], &[]);
    rig.answer_reads(old(4));
    let (request, _) = mends(&mut rig);
    let skipped = vec![BlockIndex(1)];
    rig.accept(&request, AnswerBody::Mended(MendedAnswer { skipped }));
    assert!(rig.take(|_, body| matches!(body, RequestBody::Whole(_))).is_empty());
    let same = [change(1, old(4), Some(sum(1)))];
    answer_changes(&mut rig, &same, &same);
    finish(&mut rig);
    assert_eq!(rig.sequencer.counters().mended_blocks, 0);
}

#[test]
fn a_source_with_a_damaged_block_gives_way_to_another() {
    let mut rig = listing();
    let source = [change(1, old(4), Some(sum(1)))];
    let first = answer_changes(&mut rig, &source, &[]);
    let reads = rig.reads();
    let block = BlockIndex(1);
    rig.refuse(&reads[0], Refusal::Damaged { block });
    assert!(matches!(rig.warnings[..], [Warning::Damaged { .. }]));
    rig.answer_asks();
    let second = answer_changes(&mut rig, &source, &[]);
    assert_ne!(first, second);
    rig.answer_reads(old(4));
    let (request, _) = mends(&mut rig);
    rig.accept(&request, AnswerBody::Mended(MendedAnswer { skipped: Vec::new() }));
    finish(&mut rig);
}

/// A store in sync has lost what it had acknowledged (its log's end has rotted), and nobody has written there since. Who is compared
/// with it would lose that, too: what the source lacks is taken from the member, and it is called whole.
#[test]
fn a_source_that_lacks_what_was_acknowledged_is_compared_with_nobody() {
    let mut rig = listing();
    let lists = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    let source = lists.iter().map(|request| request.store).find(|of| *of != store(3));
    let source = source.expect("one in sync is asked");
    let held = [change(1, old(5), Some(sum(1)))];
    rig.answer_opens(|_| old(4));
    for request in lists {
        let entries = if request.store == store(3) {
            held.to_vec()
        } else {
            Vec::new()
        };
        rig.accept(&request, AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    }
    assert!(rig.reads().is_empty() && rig.take(|_, body| matches!(body, RequestBody::Mend(_))).is_empty());
    assert!(matches!(rig.warnings[..], [Warning::Refused { store, .. }] if store == source));
    rig.do_call();
    assert!(!rig.group(0).in_sync.contains(&source), "R8: it has lost something");
    rig.answer_fences();
    rig.pass_ms(30);
    rig.answer_asks();
    let second = answer_changes(&mut rig, &held, &held);
    assert_ne!(source, second);
    finish(&mut rig);
    assert_eq!(rig.sequencer.counters().mended_blocks, 0);
}

/// One in sync was brought up to date a moment before it lost the end of its log, and with that the last of what it was brought, and that it
/// is whole. Its version says nothing of that.
#[test]
fn a_source_that_is_not_whole_is_compared_with_nobody() {
    let mut rig = listing();
    let lists = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    let source = lists.iter().map(|request| request.store).find(|of| *of != store(3));
    let source = source.expect("one in sync is asked");
    for request in rig.take(|_, body| matches!(body, RequestBody::Open(_))) {
        let opened = OpenedAnswer {
            version: old(5),
            incomplete: Some(old(3)),
            ..OpenedAnswer::NOTHING
        };
        rig.accept(&request, AnswerBody::Opened(opened));
    }
    for request in lists {
        // Without data, so that no block is asked for, which it would refuse.
        let entry = match request.store == source {
            true => change(1, old(4), None),
            false => change(1, old(5), Some(sum(1))),
        };
        let entries = vec![entry];
        rig.accept(&request, AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    }
    assert!(rig.take(|_, body| matches!(body, RequestBody::Mend(_))).is_empty());
    assert!(matches!(rig.warnings[..], [Warning::Refused { store, .. }] if store == source));
    rig.do_call();
    assert!(
        !rig.group(0).in_sync.contains(&source),
        "R5: it is not in sync, whatever the record says"
    );
}

#[test]
fn what_is_spoiled_on_the_way_gets_no_fresh_checksum() {
    let mut rig = listing();
    // The source does not list the block, so that only the answer itself tells its checksum.
    let target = [change(6, old(9), Some(99))];
    answer_changes(&mut rig, &[], &target);
    let reads = rig.reads();
    let sums = [sum(6)].into_iter().collect();
    let spoiled = Slice::copy_from(&[9; BLOCK_BYTES as usize]);
    rig.answer(
        &reads[0],
        Ok(AnswerBody::Data(DataAnswer {
            version: old(1),
            sums,
            runs: Box::default(),
        })),
        spoiled,
    );
    assert!(rig.take(|_, body| matches!(body, RequestBody::Mend(_))).is_empty());
    assert!(matches!(rig.warnings[..], [Warning::Damaged { .. }]));
}

#[test]
fn a_source_whose_link_has_ended_is_not_read() {
    let mut rig = listing();
    rig.answer_opens(|_| old(5));
    let lists = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    let (target, source): (Vec<_>, Vec<_>) = lists.into_iter().partition(|request| request.store == store(3));
    let entries = vec![change(1, old(4), Some(sum(1)))];
    rig.accept(&source[0], AnswerBody::Changes(ChangesAnswer { entries, more: None }));
    let number = source[0].store.0;
    rig.down(number);
    rig.accept(
        &target[0],
        AnswerBody::Changes(ChangesAnswer {
            entries: Vec::new(),
            more: None,
        }),
    );
    assert!(rig.reads().is_empty());
}

#[test]
fn a_write_that_the_source_has_not_carried_out_is_left_alone() {
    let mut rig = listing();
    rig.write(4096, &[5; BLOCK_BYTES as usize]);
    // The member has it already, the source has not.
    answer_changes(&mut rig, &[], &[change(1, version(6), Some(55))]);
    assert!(rig.reads().is_empty(), "R1: neither compared nor pulled");
    assert!(rig.take(|_, body| matches!(body, RequestBody::Changes(_))).is_empty());
    for number in [1, 2, 3] {
        let writes = rig.writes(number);
        rig.done(&writes);
    }
    assert_eq!(rig.take(|_, body| matches!(body, RequestBody::Changes(_))).len(), 2);
}

/// It may be one that refuses the write for as long as it cannot be spared: it would keep out who is to take its place.
#[test]
fn a_write_that_another_member_has_not_carried_out_is_not_waited_for() {
    let mut rig = listing();
    let io = rig.write(4096, &[5; BLOCK_BYTES as usize]);
    let source = answer_changes(&mut rig, &[], &[change(1, version(6), Some(55))]);
    assert!(rig.take(|_, body| matches!(body, RequestBody::Changes(_))).is_empty());
    let writes = rig.writes(source.0);
    rig.done(&writes);
    let lists = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    let asked: Vec<StoreId> = lists.iter().map(|request| request.store).collect();
    assert_eq!(asked, [source, store(3)], "the source has it");
    assert_eq!(rig.result(io), None, "and others have not");
}

#[test]
fn what_moves_a_copy_says_so_and_what_hosts_do_says_nothing() {
    // All copies are there: a third member is to have one of them.
    let mut rig = listing();
    let asked = rig.take(|_, body| matches!(body, RequestBody::Changes(_)));
    assert!(!asked.is_empty() && asked.iter().all(|request| request.purpose == Purpose::Move));
    let mut rig = Rig::open(2, 1);
    rig.write(0, &[1; 4096]);
    assert_eq!(rig.writes(1)[0].purpose, Purpose::Unsaid);
}
