//! What a sequencer does wrong where a rule is switched off, as far as it is more than leaving something out. Nothing of this
//! is part of a build without the feature `planted`: every question for a switch is answered `false` there.

use super::context::Context;
use super::resync::Resync;
use super::{at_rest, group, resend, silence, write};
use crate::members::Members;
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::Write;
use amita_crypt::Keychain;
use amita_reactor::{Slice, Time};
use amita_types::io::Payload;
use amita_types::map;
use amita_types::message::{Expect, Run};
use amita_types::{BLOCK_BYTES, ChunkIndex, Version};

/// `Fault::AcknowledgeEarly`: the client is told before the write is committed.
pub(super) fn tell_early(cx: &mut Context, slot: TaskSlot) {
    let write = cx.tasks[slot].write();
    if std::mem::replace(&mut write.told, true) {
        return;
    }
    let io = write.io;
    let course = cx.course(slot);
    cx.done(io, Ok(()), Payload::None, course);
}

/// `Fault::AcknowledgeByMajority`: the same, once more than half of the members have answered.
pub(super) fn tell_by_majority(cx: &mut Context, slot: TaskSlot) {
    let current = cx.groups[cx.tasks[slot].group].members.current.count();
    let left = cx.tasks[slot].waiting.count();
    if 2 * (current - left) > current {
        tell_early(cx, slot);
    }
}

/// `Fault::ForgetClaimed`: who is claimed to be whole is not waited for.
pub(super) fn forget_claimed(cx: &mut Context, chunk: ChunkSlot) {
    let whole = cx.groups[cx.chunks[chunk].group].members.whole;
    let slots: Vec<TaskSlot> = resend::awaited_writes(cx, chunk).collect();
    for slot in slots {
        let task = &cx.tasks[slot];
        await_no_more(cx, slot, task.waiting.and(whole).and(task.sent));
    }
}

/// `Fault::SkipSyncing`: syncing members are not awaited once the others have answered.
pub(super) fn forget_syncing(cx: &mut Context, slot: TaskSlot) {
    let (group, waiting) = (cx.tasks[slot].group, cx.tasks[slot].waiting);
    if waiting.without(cx.groups[group].members.syncing).is_empty() {
        await_no_more(cx, slot, waiting);
    }
}

/// `Fault::IgnoreLost`: a lost member is awaited no more.
pub(super) fn forget_lost(cx: &mut Context, slot: TaskSlot) {
    let members = &cx.groups[cx.tasks[slot].group].members;
    let mut lost = Members::NONE;
    for position in cx.tasks[slot].waiting.iter() {
        if cx.stores[members[position]].lost {
            lost.add(position);
        }
    }
    await_no_more(cx, slot, lost);
}

fn await_no_more(cx: &mut Context, slot: TaskSlot, members: Members) {
    for position in members.iter() {
        cx.settle(slot, position);
    }
}

/// `Fault::MergeCiphertext`: a write that is not whole is encrypted as if zeros were around it.
pub(super) fn seal_part(keys: &Keychain, chunk: ChunkIndex, write: &mut Write) {
    let blocks = usize::from(write.range.count) * BLOCK_BYTES as usize;
    let at = (write.offset_bytes % BLOCK_BYTES) as usize;
    let (mut plain, mut sealed) = (vec![0; blocks], vec![0; blocks]);
    plain[at..at + write.payload.len()].copy_from_slice(&write.payload);
    keys.seal((chunk, write.range), write.version, &plain, &mut sealed)
        .expect("whole blocks");
    write.payload = Slice::copy_from(&sealed[at..at + write.payload.len()]);
}

/// `Fault::SealAgain`: what is sent again is encrypted once more, with checksums of that.
pub(super) fn seal_again(cx: &mut Context, slot: TaskSlot) {
    at_rest::seal(cx, slot);
    let write = cx.tasks[slot].write();
    write.sums = write::sums(write);
}

/// `Fault::MendUnderOwn`: the version of what is replaced.
pub(super) fn version_of_replaced(expect: Expect, version: Version) -> Version {
    match expect {
        Expect::Entry { version: had, .. } | Expect::Upto { version: had } if had != Version::NONE => had,
        _ => version,
    }
}

/// `Fault::DecryptHoles`: blocks without data are taken for data of the newest version.
pub(super) fn fill_holes(runs: &[Run], newest: Version) -> Vec<Run> {
    let filled = |run: &Run| Run {
        blocks: run.blocks,
        version: if run.version == Version::NONE {
            newest
        } else {
            run.version
        },
    };
    runs.iter().map(filled).collect()
}

/// `Fault::ServeHalfFenced`: those of the members that can be reached are enough.
pub(super) fn only_reachable(cx: &Context, group: GroupSlot, members: Members) -> Members {
    let seats = &cx.groups[group].members;
    let mut reachable = Members::NONE;
    for position in members.iter() {
        if cx.stores[seats[position]].link.up {
            reachable.add(position);
        }
    }
    reachable
}

/// `Fault::ServeHalfFenced`: every touched group is taken for one with chunks to be opened.
pub(super) fn note_all_openings(cx: &mut Context) {
    for index in 0..cx.groups.touched.len() {
        silence::note_opening(cx, cx.groups.touched[index]);
    }
}

/// `Fault::TrustUnknown`: an eviction of unknown outcome is taken for done.
pub(super) fn take_for_done(
    cx: &mut Context,
    resync: &mut Resync,
    now: Time,
    groups: Vec<(GroupSlot, Option<map::Group>)>,
) {
    for (group, record) in groups {
        let revision = cx.groups[group].revision + 1;
        group::adopt(
            cx,
            resync,
            now,
            group,
            record.expect("an eviction's groups all have one"),
            revision,
        );
    }
}
