//! A clone's chunks that it has from the volumes that it was cloned from (S6 to S8).
//!
//! Where members say that they have no such chunk, it is the parents': each of them is asked, under our right and epoch, what the parents
//! have there. Equal versions are final, for the snapshot is sealed (S7); else the nearest parent's owner is asked to open its
//! chunk, which is what a read of the snapshot through it does, and then all are asked again. Then each member makes the chunk: at that
//! version, with all the parent's entries (S8). All of that is a part of the chunk's opening, before anything is read or written.
//!
//! A member that comes back is looked at only when the parent's owner has claimed it, for the same *since* (S6): until then what
//! it would make may lack something. From then on it makes chunks before all others do, so that no chunk that they have of us is
//! not there when it is called whole. Until it is, one that cannot is passed over: the chunk is compared with the others' later.

use super::agenda::NEVER;
use super::answer::Misbehaved;
use super::context::Context;
use super::open::{self, Phase};
use crate::faults::Fault;
use crate::io::{CallId, Effect, Warning};
use crate::members::{Members, Position};
use crate::table::{ChunkSlot, GroupSlot, TaskSlot};
use crate::task::{Kind, Step};
use amita_metadata::{Call, Error, Reply};
use amita_reactor::{Slice, Time};
use amita_types::io::IoError;
use amita_types::layout::mix;
use amita_types::map;
use amita_types::message::{InheritRequest, OpenedAnswer, Problem, Refusal, RequestBody};
use amita_types::{ChunkIndex, Epoch, GroupIndex, StoreId, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the parent's owner claims is read again so long after it was read, while somebody waits for it; twice as long after each time
/// that brought nothing, up to [`LOOK_AT_MOST`]. A parent may take hours, and each of its open clones asks from each core.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
const LOOK_AT_MOST: Duration = Duration::from_secs(10);
/// How long a chunk's I/O waits for the parent's owner to have opened its own. Longer than a read of it takes that was forgotten
/// because its gateway stood still; shorter than hosts wait (Linux: 30 s), for whom no answer at all is the worst one.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where nobody has opened it the members are asked again so long after that was heard; twice as long after each time, up to
/// [`ASK_AT_MOST`].
const ASK_AGAIN: Duration = Duration::from_millis(20);
const ASK_AT_MOST: Duration = Duration::from_millis(320);

/// What is known of the parents.
#[derive(Debug, Default)]
pub(super) struct Parents {
    /// Members that the nearest parent's owner has claimed: group, store and since when it is syncing.
    claimed: BTreeSet<(GroupIndex, StoreId, Epoch)>,
    call: Option<CallId>,
    not_before: Time,
    /// How often that was read since it last brought something.
    tries: u32,
    /// Chunks of which members do not inherit the same.
    unsettled: BTreeMap<ChunkIndex, Unsettled>,
    /// What members that come back did not make before the others: it is compared before they are called whole.
    passed_over: Vec<PassedOver>,
}

/// A member that comes back, and what it did not make.
pub(super) type PassedOver = (GroupSlot, Position, ChunkIndex);

#[derive(Clone, Copy, Debug)]
struct Unsettled {
    since: Time,
    /// What the parent's hosts are told who touch its chunk: where that is so, to wait does not help.
    ails: Option<IoError>,
    /// Its owner has said that it is open.
    opened: bool,
    /// How often nobody has opened it, or that it is open has not helped.
    tries: u32,
    /// When the members are asked again; [`NEVER`]: the parent's owner is asked.
    again: Time,
}

impl Unsettled {
    fn new(now: Time) -> Unsettled {
        Unsettled {
            since: now,
            ails: None,
            opened: false,
            tries: 0,
            again: NEVER,
        }
    }
}

impl Parents {
    /// How much is known of what the nearest parent's owner has claimed.
    pub fn known(&self) -> usize {
        self.claimed.len()
    }

    /// What was passed over since this was last asked.
    pub fn take_passed_over(&mut self) -> Vec<PassedOver> {
        std::mem::take(&mut self.passed_over)
    }

    /// They were read, and brought something new or not.
    fn looked(&mut self, now: Time, is_new: bool, spread: u64) {
        let pause = match is_new {
            true => LOOK_AGAIN,
            false => (LOOK_AGAIN * (1 << self.tries.min(8))).min(LOOK_AT_MOST),
        };
        self.tries = if is_new { 0 } else { self.tries.saturating_add(1) };
        // Clones that began to wait at one moment do not all ask at one moment.
        self.not_before = now.plus(pause - pause / 1024 * (spread % 256) as u32);
    }
}

/// Is the volume a clone?
pub(super) fn has_any(cx: &Context) -> bool {
    !cx.owned.volume.parents.is_empty()
}

/// May a syncing member be brought up to date? Of a clone only when its parents are whole there (S6).
pub(super) fn allows(cx: &Context, group: GroupSlot, position: Position) -> bool {
    let state = &cx.groups[group];
    let claim = || {
        let store = cx.id_of(group, position);
        (state.id.index, store, state.members.since[position])
    };
    !has_any(cx) || cx.parents.claimed.contains(&claim()) || cx.config.faults.has(Fault::ParentsLast)
}

/// The syncing members that make what the others inherit, before these do.
pub(super) fn heirs(cx: &Context, group: GroupSlot) -> Members {
    let mut heirs = Members::NONE;
    let makes = |fault| !cx.config.faults.has(fault);
    if has_any(cx) && makes(Fault::ParentsLast) && makes(Fault::MakeWithoutComing) {
        let entered = cx.groups[group].members.entered.iter();
        entered
            .filter(|&position| allows(cx, group, position))
            .for_each(|position| heirs.add(position));
    }
    heirs
}

/// Of those, the ones that are called whole. Nobody brings them anything any more, so they must have made a chunk when the others have it.
pub(super) fn bound(cx: &Context, group: GroupSlot) -> Members {
    heirs(cx, group).and(cx.groups[group].members.whole)
}

/// Somebody waits for what the nearest parent's owner claims: it is read, now or after a moment.
pub(super) fn look_at_claims(cx: &mut Context, now: Time) {
    let Some(parent) = cx.owned.volume.parents.first().filter(|_| cx.parents.call.is_none()) else {
        return;
    };
    if now < cx.parents.not_before {
        return cx.agenda.put_off(cx.parents.not_before);
    }
    let request = Call::get(map::whole_key(cx.owned.pool.id, parent.volume));
    if now >= cx.parents.not_before.plus(LOOK_AT_MOST) {
        // Nobody has waited for a while.
        cx.parents.tries = 0;
    }
    let call = cx.metadata.next_call(cx.owned.id_base);
    cx.parents.call = Some(call);
    cx.effects.push_back(Effect::Meta { call, request });
}

/// The metadata has answered; `false`: that was not asked here.
pub(super) fn claims_read(cx: &mut Context, now: Time, call: CallId, result: &Result<Reply, Error>) -> bool {
    if cx.parents.call.take_if(|asked| *asked == call).is_none() {
        return false;
    }
    let found = result.as_ref().ok().and_then(|reply| reply.value(0));
    let whole = found.and_then(|value| value.json::<map::Whole>().ok());
    let parent = cx.owned.volume.parents.first();
    // What was said before the snapshot was sealed says nothing of it.
    let whole = whole.filter(|whole| {
        parent.is_some_and(|parent| parent.volume == whole.volume && parent.generation <= whole.generation)
    });
    let members = whole.into_iter().flat_map(|whole| whole.members);
    let claims = members.map(|member| (member.group, member.store, member.since));
    let known = cx.parents.claimed.len();
    cx.parents.claimed.extend(claims);
    let spread = mix(cx.owned.id_base ^ mix(cx.owned.volume.id.0 ^ u64::from(cx.parents.tries)));
    cx.parents.looked(now, cx.parents.claimed.len() > known, spread);
    true
}

/// Parents have left the record: all that was made of them is made. What is under way may name them still, or wait for one of their
/// owners: it begins anew.
pub(super) fn shed(cx: &mut Context, now: Time) {
    if !has_any(cx) {
        cx.parents = Parents::default();
    }
    let groups: Vec<GroupSlot> = cx.groups.keys().collect();
    for group in groups {
        open::reset(cx, group);
        open::advance(cx, now, group);
    }
}

/// A syncing member that is about to join the chunk's history has first what its parents have there, so that it need not be
/// brought; where that comes to nothing, it is.
pub(super) fn make_before_join(cx: &mut Context, now: Time, chunk: ChunkSlot, position: Position) {
    let group = cx.chunks[chunk].group;
    if !heirs(cx, group).has(position) {
        return;
    }
    let body = request(cx, chunk, InheritRequest::ANY);
    let slot = cx.tasks.add(Kind::Orphan, group, Some(chunk));
    cx.expect(now, slot, position);
    cx.send(now, slot, position, body, Slice::default());
}

fn request(cx: &Context, chunk: ChunkSlot, version: Version) -> RequestBody {
    let parents = cx.owned.volume.parents.iter();
    RequestBody::Inherit(InheritRequest {
        chunk: cx.chunks[chunk].index,
        version,
        parents: parents.map(|parent| (parent.volume, parent.number)).collect(),
    })
}

/// Members that have no such chunk are asked what they have from the parents; `false`: there is nothing to ask.
pub(super) fn ask(cx: &mut Context, now: Time, chunk: ChunkSlot, members: Members) -> bool {
    if !has_any(cx) || cx.config.faults.has(Fault::InheritNothing) {
        return false;
    }
    let opening = cx.chunks.opening(chunk);
    let without = |position: &Position| opening.versions[*position] == Version::NONE;
    let heirs: Vec<Position> = members.iter().filter(without).collect();
    if heirs.is_empty() || std::mem::replace(&mut opening.inherits, true) {
        return false;
    }
    opening.phase = Phase::Inheriting;
    for position in heirs {
        cx.chunks.opening(chunk).heirs.add(position);
        let body = request(cx, chunk, Version::NONE);
        open::send(cx, now, chunk, position, Step::Inherit, body, Slice::default());
    }
    true
}

/// A member says what it has from the parents.
pub(super) fn told(
    cx: &mut Context,
    now: Time,
    chunk: ChunkSlot,
    position: Position,
    opened: OpenedAnswer,
) -> Result<(), Misbehaved> {
    let OpenedAnswer {
        version, incomplete, ..
    } = opened;
    if incomplete.is_some() || (version > Version::NONE && version.generation() >= cx.owned.generation) {
        return Err(Misbehaved(format!(
            "a clone that is as old as what it comes from: {version}"
        )));
    }
    let opening = cx.chunks.opening(chunk);
    opening.versions[position] = version;
    if opening.tasks.is_empty() {
        judge(cx, now, chunk);
    }
    Ok(())
}

/// All have said it.
fn judge(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let opening = cx.chunks.opening(chunk);
    let mut versions = opening.heirs.iter().map(|position| opening.versions[position]);
    let first = versions.next().unwrap_or_default();
    if !versions.all(|version| version == first) && !cx.config.faults.has(Fault::InheritUnequal) {
        return ask_owner(cx, now, chunk);
    }
    // Those that come back make it first.
    let group = cx.chunks[chunk].group;
    let mut coming = heirs(cx, group);
    for position in coming.iter() {
        if cx.can_send(group, position) {
            continue;
        }
        if bound(cx, group).has(position) {
            // Begins again when it is fenced.
            return open::restart(cx, now, chunk);
        }
        coming.remove(position);
        pass_over(cx, chunk, position);
    }
    make(cx, now, chunk, coming);
}

/// A member that comes back does not make the chunk before the others.
fn pass_over(cx: &mut Context, chunk: ChunkSlot, position: Position) {
    let (group, index) = (cx.chunks[chunk].group, cx.chunks[chunk].index);
    cx.parents.passed_over.push((group, position, index));
}

/// Members make the chunk; those in sync, when the others have.
fn make(cx: &mut Context, now: Time, chunk: ChunkSlot, coming: Members) {
    let opening = cx.chunks.opening(chunk);
    let versions = opening.versions;
    let inherited = opening
        .heirs
        .iter()
        .map(|position| versions[position])
        .max()
        .unwrap_or_default();
    let all = if coming.is_empty() { opening.heirs } else { coming };
    for position in all.iter() {
        let version = if coming.is_empty() {
            versions[position]
        } else {
            inherited
        };
        if version > Version::NONE {
            let body = request(cx, chunk, version);
            let step = Step::Make(coming.is_empty());
            open::send(cx, now, chunk, position, step, body, Slice::default());
        }
    }
    if cx.chunks.opening(chunk).tasks.is_empty() {
        open::compare(cx, now, chunk);
    }
}

/// A member has made it.
pub(super) fn made(cx: &mut Context, now: Time, chunk: ChunkSlot, in_sync: bool) {
    if !cx.chunks.opening(chunk).tasks.is_empty() {
        return;
    }
    match in_sync {
        true => {
            cx.counters.inherited += 1;
            open::compare(cx, now, chunk);
        }
        false => make(cx, now, chunk, Members::NONE),
    }
}

/// The parent's owner is to open its chunk: the members do not have the same there. Where it cannot, or that has come to nothing for
/// long, the I/O that waits ends, and the next touch tries again.
fn ask_owner(cx: &mut Context, now: Time, chunk: ChunkSlot) {
    let index = cx.chunks[chunk].index;
    let unsettled = cx.parents.unsettled.entry(index).or_insert(Unsettled::new(now));
    unsettled.again = NEVER;
    let Unsettled { since, ails, .. } = *unsettled;
    if ails.is_some() || now >= since.plus(PATIENCE) {
        return open::fail(cx, now, chunk, ails.unwrap_or(IoError::Unavailable));
    }
    open::rest(cx, chunk);
    let Some(parent) = cx.owned.volume.parents.first() else {
        return;
    };
    cx.counters.unsettled_parents += 1;
    cx.effects.push_back(Effect::OpenParent {
        volume: parent.volume,
        snapshot: parent.number,
        chunk: cx.chunks[chunk].index,
        chunk_bytes: cx.owned.chunk_bytes,
    });
}

/// The chunk is open, or could not be opened: whatever its members inherit is waited for no longer.
pub(super) fn settled(cx: &mut Context, chunk: ChunkSlot) {
    if !cx.parents.unsettled.is_empty() {
        cx.parents.unsettled.remove(&cx.chunks[chunk].index);
    }
}

/// The parent's owner has opened its chunk; or nobody has, and why.
pub(super) fn opened(cx: &mut Context, now: Time, index: ChunkIndex, result: Result<(), IoError>) {
    let Some(chunk) = cx.chunks.slot_of(index) else {
        return;
    };
    if !open::is_unsettled(cx, chunk) {
        return;
    }
    let unsettled = cx.parents.unsettled.get_mut(&index).expect("it is asked for");
    let Err(error) = result else {
        if std::mem::replace(&mut unsettled.opened, true) {
            // It was open all the while, and the members still do not have the same.
            return ask_later(cx, now, index);
        }
        return open::restart(cx, now, chunk);
    };
    if matches!(error, IoError::Damaged | IoError::NoSpace) {
        // It may be open all the same, with a block that cannot be read: the members are asked once more.
        unsettled.ails = Some(error);
    }
    ask_later(cx, now, index);
}

/// The members are asked again after a moment.
fn ask_later(cx: &mut Context, now: Time, index: ChunkIndex) {
    let Some(unsettled) = cx.parents.unsettled.get_mut(&index) else {
        return;
    };
    let pause = (ASK_AGAIN * (1 << unsettled.tries.min(8))).min(ASK_AT_MOST);
    unsettled.tries = unsettled.tries.saturating_add(1);
    unsettled.again = now.plus(pause);
    cx.agenda.inherit_again = cx.agenda.inherit_again.min(unsettled.again);
    cx.agenda.arm(unsettled.again);
}

/// A store does not have the snapshot any more: its number is not among the live ones (S9). Either the parents have left the record, which is
/// heard of in a moment; or the record is of an older copy of the metadata, and the snapshot stands again in it. Then the data is
/// gone, for this clone alone: the store has done as it was told, and keeps its place.
fn not_kept(cx: &mut Context, now: Time, chunk: ChunkSlot, store: StoreId) {
    let index = cx.chunks[chunk].index;
    let since = cx.parents.unsettled.entry(index).or_insert(Unsettled::new(now)).since;
    if now >= since.plus(PATIENCE) {
        let parents = cx.owned.volume.parents.iter();
        let parents = parents.map(|parent| format!("{} of volume {}", parent.number, parent.volume));
        cx.effects.push_back(Effect::Warn(Warning::NotKept {
            chunk: cx.chunk_id(chunk),
            store,
            parents: parents.collect::<Vec<_>>().join(", "),
        }));
        return open::fail(cx, now, chunk, IoError::Damaged);
    }
    open::rest(cx, chunk);
    ask_later(cx, now, index);
}

/// Members are asked again what they inherit, where that is due.
pub(super) fn ask_again(cx: &mut Context, now: Time) {
    if now < cx.agenda.inherit_again {
        return;
    }
    let due = |unsettled: &Unsettled| unsettled.again <= now;
    let unsettled = cx.parents.unsettled.iter();
    let indices: Vec<ChunkIndex> = unsettled.filter(|(_, one)| due(one)).map(|(index, _)| *index).collect();
    for index in indices {
        if let Some(one) = cx.parents.unsettled.get_mut(&index) {
            one.again = NEVER;
        }
        if let Some(chunk) = cx.chunks.slot_of(index)
            && open::is_unsettled(cx, chunk)
        {
            open::restart(cx, now, chunk);
        }
    }
    let next = cx.parents.unsettled.values().map(|one| one.again).min();
    cx.agenda.inherit_again = next.unwrap_or(NEVER);
}

/// A member did not say, or make, what it inherits. `true`: that has been dealt with.
pub(super) fn refused(cx: &mut Context, now: Time, slot: TaskSlot, position: Position, refusal: &Refusal) -> bool {
    let (chunk, group) = (cx.tasks[slot].chunk(), cx.tasks[slot].group);
    let is_in_sync = cx.groups[group].members.current.has(position);
    let may_pass = matches!(cx.tasks[slot].kind, Kind::Open(Step::Make(false))) && !bound(cx, group).has(position);
    match refusal {
        // Whatever it lacks is brought. That it was claimed for the parent does not say that it has what the parent's next owner has rolled
        // forward since.
        _ if may_pass => {
            cx.settle(slot, position);
            open::end_task(cx, slot, chunk);
            pass_over(cx, chunk, position);
            made(cx, now, chunk, false);
        }
        // What makes a chunk is not worth the place of a good store (R7).
        Refusal::NoSpace if is_in_sync => open::fail(cx, now, chunk, IoError::NoSpace),
        // The parent's owner knows what to do.
        Refusal::Incomplete if is_in_sync => {
            open::drop_tasks(cx, chunk);
            ask_owner(cx, now, chunk);
        }
        Refusal::Invalid {
            what: Problem::Snapshot,
        } => {
            let store = cx.id_of(group, position);
            open::drop_tasks(cx, chunk);
            not_kept(cx, now, chunk, store);
        }
        _ => return false,
    }
    true
}
