//! Snapshots (S1 to S3, S7): the number that writes carry, and what is held until all cores carry it.
//!
//! A snapshot is a number in the volume's record. When it is there every core *adopts* it: from then on the writes that get their
//! version here carry it. What carries it is not acknowledged, and its version not committed, so that no read shows it (R3),
//! until all cores have adopted it and it is *released*: else a host could see it, and write by a core that has not adopted it yet
//! what the snapshot then has. The snapshot is *settled* here when no write with a smaller number is without its
//! acknowledgement; when it is on all cores, the owner seals it.
//!
//! Before a number is taken, every in-sync store must have durably adopted our generation: an older owner, who knows nothing of
//! the number, can then write nothing more.

use super::context::Context;
use super::{group, write};
use crate::faults::Fault;
use crate::io::Effect;
use amita_reactor::Time;
use amita_types::{SnapshotId, StoreId};

/// The snapshots of the volume, as far as its writes go.
#[derive(Debug)]
pub(super) struct Cut {
    /// The number that writes carry which get their version now.
    pub number: SnapshotId,
    /// The one that they carried when the volume was opened.
    opened_at: SnapshotId,
    /// What carries this one or a smaller one may be acknowledged.
    released: SnapshotId,
    /// Writes with a version and a number below `number` that are not acknowledged; nobody waits for them: none.
    older: Option<u32>,
    /// Somebody waits until all in-sync stores have adopted our generation.
    requiring: bool,
    /// Which have may have changed.
    look: bool,
}

impl Cut {
    /// As the volume's record has it: all of it was released by earlier owners, or is void.
    pub fn new(number: SnapshotId) -> Cut {
        Cut {
            number,
            opened_at: number,
            released: number,
            older: None,
            requiring: false,
            look: false,
        }
    }

    /// The newest number that may have been taken before the volume was opened here.
    pub fn opened_at(&self) -> SnapshotId {
        self.opened_at
    }

    /// May a write that carries this number be acknowledged?
    #[inline]
    pub fn is_released(&self, number: SnapshotId) -> bool {
        number <= self.released
    }

    /// A store has adopted our generation, or who is in sync has changed.
    pub fn stores_changed(&mut self) {
        self.look = true;
    }
}

/// [`Effect::GenerationAdopted`] is to come when all in-sync stores have durably adopted our generation.
pub(super) fn require_generation(cx: &mut Context) {
    (cx.cut.requiring, cx.cut.look) = (true, true);
}

/// Have all in-sync stores adopted our generation? One fence a store is enough: it keeps generations by the volume. Those
/// that were not asked yet are asked, in one of their groups.
pub(super) fn look_at_generation(cx: &mut Context, now: Time) {
    if !cx.cut.requiring || !std::mem::take(&mut cx.cut.look) {
        return;
    }
    let lazy = cx.config.faults.has(Fault::LazyFences);
    let mut is_everywhere = true;
    for slot in cx.groups.keys() {
        let state = &cx.groups[slot];
        let mut current = state.members.current.iter();
        if !lazy && current.any(|position| !cx.stores[state.members[position]].adopted) {
            is_everywhere = false;
            group::touch(cx, now, slot);
        }
    }
    if is_everywhere {
        cx.cut.requiring = false;
        cx.effects.push_back(Effect::GenerationAdopted);
    }
}

/// The stores in sync that have not adopted our generation.
pub(super) fn lacking_generation(cx: &Context) -> Vec<StoreId> {
    let stores = cx.groups.keys().flat_map(|slot| {
        let members = &cx.groups[slot].members;
        members.current.iter().map(move |position| members[position])
    });
    let lacking = stores.filter(|store| !cx.stores[*store].adopted);
    let mut ids: Vec<StoreId> = lacking.map(|store| cx.stores[store].id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// From now on writes carry `number`, which is in the volume's record (S1).
pub(super) fn adopt(cx: &mut Context, number: SnapshotId) {
    if number <= cx.cut.number {
        return;
    }
    cx.cut.number = number;
    let mut older = 0;
    for slot in cx.groups.keys() {
        let chunks = cx.groups[slot].busy.iter();
        older += chunks.map(|chunk| cx.chunks[chunk].log.count).sum::<u32>();
    }
    cx.cut.older = Some(older);
}

/// All cores carry `number`: what carries it may be acknowledged.
pub(super) fn release(cx: &mut Context, number: SnapshotId) {
    if number <= cx.cut.released || number > cx.cut.number {
        return;
    }
    cx.cut.released = number;
    for slot in cx.groups.keys() {
        write::commit_group(cx, slot);
    }
    tell_if_settled(cx);
}

/// A write that carries this number was acknowledged.
pub(super) fn acknowledged(cx: &mut Context, number: SnapshotId) {
    if number < cx.cut.number
        && let Some(older) = &mut cx.cut.older
    {
        *older -= 1;
        tell_if_settled(cx);
    }
}

/// Is no write of a smaller number without its acknowledgement, and the number released?
fn tell_if_settled(cx: &mut Context) {
    let number = cx.cut.number;
    let settled = cx.cut.older == Some(0) || (cx.cut.older.is_some() && cx.config.faults.has(Fault::SealUnsettled));
    if settled && cx.cut.is_released(number) {
        cx.cut.older = None;
        cx.effects.push_back(Effect::Settled { number });
    }
}
