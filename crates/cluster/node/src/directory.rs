//! The directory of open volumes of a node: on core 0 only, off the path of an I/O.
//!
//! It runs an opener for a volume that a host asks for, has every core make its sequencer, counts who uses the volume,
//! and gives it away when another gateway asks and nobody uses it here ("take over only from an owner that consents or
//! whose leases ran out", R10).

mod closings;
mod migrations;
mod moves;
mod openers;
mod openings;

use crate::claims::Claims;
use crate::faults::{Fault, Faults};
use crate::mail::{Origin, VolumeRoute};
use crate::orphans::{Held, OrphanedVolumes};
use crate::scrubs::{Order, Scrubs};
use crate::shards::DIRECTORY;
use crate::token;
use crate::view::View;
use amita_crypt::NotNow;
use amita_fabric::{Link, Message, ReleaseOutcome};
use amita_frontend as frontend;
use amita_metadata as meta;
use amita_reactor::driver::Time;
use amita_sequencer::{CallId, Consent, NO_KEYS, OpenError, Opened, Opener, OpenerConfig, OpenerEffect, OwnerReply};
use amita_types::condition::Failing;
use amita_types::map::{self, Closed, ScrubReport, WholeMember, is_hidden};
use amita_types::{Generation, GroupIndex, MirrorId, NodeId, SnapshotId, VolumeId};
pub use closings::ClosingId;
use openers::{MAX_OPENERS, Openers};
pub use openings::OpeningId;
use openings::{Openings, Users};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The numbers in the ids of calls that are not an opener's.
const CLAIMS: u32 = 0xf_ffff;
const SCRUBS: u32 = 0xf_fffe;
const MOVES: u32 = 0xf_fffd;
const RESERVATIONS: u32 = 0xf_fffc;
const CLOSINGS: u32 = 0xf_fffb;
const SNAPSHOTS: u32 = 0xf_fffa;
const SETS: u32 = 0xf_fff9;
const FLATTENS: u32 = 0xf_fff8;
const WISHES: u32 = 0xf_fff7;

/// What stands above the count in the ids of calls about reservations.
#[must_use]
pub fn reservation_calls() -> u64 {
    token::id_base(0, DIRECTORY) | u64::from(RESERVATIONS) << 20
}

/// What stands above the count in the ids of calls about snapshots.
#[must_use]
pub fn snapshot_calls() -> u64 {
    token::id_base(0, DIRECTORY) | u64::from(SNAPSHOTS) << 20
}

/// What stands above the count in the ids of calls about sets of snapshots.
#[must_use]
pub fn set_calls() -> u64 {
    token::id_base(0, DIRECTORY) | u64::from(SETS) << 20
}

/// What stands above the count in the ids of calls about clones that are being flattened.
#[must_use]
pub fn flatten_calls() -> u64 {
    token::id_base(0, DIRECTORY) | u64::from(FLATTENS) << 20
}

/// What stands above the count in the ids of calls about moves that hosts ask for.
#[must_use]
pub fn wish_calls() -> u64 {
    token::id_base(0, DIRECTORY) | u64::from(WISHES) << 20
}

/// What the directory wants done.
#[derive(Debug)]
pub enum Effect {
    /// A metadata call.
    Call { call: CallId, request: meta::Call },
    /// Ask a volume's owner to release it.
    Ask {
        node: NodeId,
        tag: u64,
        volume: VolumeId,
        generation: Generation,
        hand_over: bool,
    },
    /// Every core makes its sequencer.
    MakeShards { opened: Box<Opened> },
    /// Every core looks at all copies of its chunks, or does so no longer.
    Scrub {
        volume: VolumeId,
        generation: Generation,
        order: Order,
    },
    /// Every core drops it.
    DropShards {
        volume: VolumeId,
        generation: Generation,
        why: String,
        handed_over: bool,
    },
    /// Nobody is counted as using it any more: front ends that have it open are told, those too whose open ended just before.
    Lost {
        volume: VolumeId,
        /// Its sequencers end, of that generation; `None`: it was not open.
        generation: Option<Generation>,
        why: String,
        /// By which numbers they knew it when it was lost.
        known: Vec<VolumeId>,
    },
    /// Every core ends its sequencer of it, whatever its generation, and says so.
    EndShards {
        volume: VolumeId,
        /// Which closing it is: they say it again.
        closing: ClosingId,
        why: String,
        /// By which numbers front ends knew it then.
        known: Vec<VolumeId>,
    },
    /// Every core ends what is under way, and holds back what comes.
    Leave {
        volume: VolumeId,
        generation: Generation,
        attempt: u64,
    },
    /// It stays after all.
    Stay { volume: VolumeId },
    /// A core has asked where a volume's I/O goes.
    VolumeRoute {
        core: usize,
        volume: VolumeId,
        way: VolumeRoute,
    },
    /// A front end's open has ended.
    Opened {
        origin: Origin,
        result: Result<(OpeningId, frontend::VolumeInfo), frontend::OpenError>,
    },
    /// An answer to another gateway.
    Reply { core: usize, link: Link, message: Message },
}

/// Another gateway that asks for a volume.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    pub node: NodeId,
    /// The core that holds the link by which it asks.
    pub core: usize,
    pub link: Link,
    pub tag: u64,
}

/// Who waits for a volume to be opened.
#[derive(Default)]
struct Waiting {
    /// Front ends that have asked for it.
    fronts: Vec<Origin>,
    /// Cores with I/O of hosts for it.
    cores: Vec<(usize, VolumeId)>,
}

impl Waiting {
    fn is_anybody(&self) -> bool {
        !self.fronts.is_empty() || !self.cores.is_empty()
    }
}

enum State {
    /// An opener runs.
    Opening { waiting: Waiting },
    /// The cores make their sequencers.
    Making {
        opened: Box<Opened>,
        missing: usize,
        waiting: Waiting,
    },
    /// To be handed over to another gateway, once these cores have nothing under way.
    Leaving {
        info: frontend::VolumeInfo,
        generation: Generation,
        /// Which attempt it is.
        attempt: u64,
        missing: BTreeSet<usize>,
        asker: Requester,
        until: Time,
        closed: Option<Box<Closed>>,
    },
    /// Open, with these users.
    Open {
        info: frontend::VolumeInfo,
        generation: Generation,
        users: Users,
        /// What closes it to hosts: of this generation.
        closed: Option<Box<Closed>>,
    },
}

impl State {
    /// Is it of this volume? Of which one an opener asks is not known before it has read that.
    fn is_of(&self, volume: VolumeId) -> bool {
        match self {
            State::Opening { .. } => false,
            State::Making { opened, .. } => opened.volume.id == volume,
            State::Open { info, .. } | State::Leaving { info, .. } => info.id == volume,
        }
    }
}

/// What is done for open volumes in the background, and volumes that are opened for that.
struct Upkeep {
    claims: Claims,
    scrubs: Scrubs,
    /// A look at a volume's copies may have to begin.
    look: bool,
    orphans: OrphanedVolumes,
}

pub struct Directory {
    node: NodeId,
    cores: usize,
    config: OpenerConfig,
    volumes: BTreeMap<String, State>,
    openers: Openers,
    upkeep: Upkeep,
    moves: moves::Moves,
    closings: closings::Closings,
    migrations: migrations::Migrations,
    openings: Openings,
    /// Calls to the metadata, counted.
    calls: u64,
    /// Volumes were opened or given up since this was last asked.
    changed: bool,
    /// Volumes that could not be opened for a host, or for want of keys, and why.
    unopened: Vec<(String, Failing, String)>,
    effects: VecDeque<Effect>,
    /// Rules that are switched off to show that the simulator notices.
    pub faults: Faults,
}

impl Directory {
    /// Volumes that could not be opened for a host, or for want of keys, since this was last asked, and why.
    pub fn take_unopened(&mut self) -> Vec<(String, Failing, String)> {
        std::mem::take(&mut self.unopened)
    }

    /// Nothing is open.
    #[must_use]
    pub fn new(node: NodeId, cores: usize, config: OpenerConfig) -> Directory {
        Directory {
            node,
            cores,
            config,
            volumes: BTreeMap::new(),
            openers: Openers::default(),
            upkeep: Upkeep {
                claims: Claims::new(cores, token::id_base(0, DIRECTORY) | u64::from(CLAIMS) << 20),
                scrubs: Scrubs::new(cores, token::id_base(0, DIRECTORY) | u64::from(SCRUBS) << 20),
                look: false,
                orphans: OrphanedVolumes::default(),
            },
            moves: moves::Moves::default(),
            closings: closings::Closings::default(),
            migrations: migrations::Migrations::default(),
            openings: Openings::default(),
            calls: 0,
            changed: false,
            unopened: Vec::new(),
            effects: VecDeque::new(),
            faults: Faults::NONE,
        }
    }

    /// A front end asks for a volume by name.
    pub fn open(&mut self, now: Time, origin: Origin, name: &str) {
        let full = self.openers.is_full();
        let runs = self.config.mirror;
        match self.volumes.get_mut(name) {
            Some(State::Open {
                info, users, closed, ..
            }) => {
                let result = match refusal(name, closed.as_deref(), runs) {
                    None => Ok((self.openings.add_to(users), info.clone())),
                    Some(why) => Err(why),
                };
                self.effects.push_back(Effect::Opened { origin, result });
            }
            Some(State::Opening { waiting } | State::Making { waiting, .. }) => waiting.fronts.push(origin),
            Some(State::Leaving { .. }) => {
                let result = Err(frontend::OpenError::Unavailable("the volume is being moved".to_owned()));
                self.effects.push_back(Effect::Opened { origin, result });
            }
            None if full => {
                let result = Err(frontend::OpenError::Unavailable(format!(
                    "{MAX_OPENERS} volumes are being opened here"
                )));
                self.effects.push_back(Effect::Opened { origin, result });
            }
            None => {
                let waiting = Waiting {
                    fronts: vec![origin],
                    cores: Vec::new(),
                };
                self.begin(now, name, waiting, (Consent::Asked, true));
            }
        }
    }

    /// A core has I/O of hosts for a volume, and asks where it goes; or (`for_clones`) a chunk of it is to be opened for what was cloned
    /// from it. `lost`: owners that it cannot reach any more, and whether their ports refuse.
    pub fn seek(
        &mut self,
        now: Time,
        core: usize,
        (volume, for_clones): (VolumeId, bool),
        lost: &[(NodeId, bool)],
        view: &View,
    ) {
        let way = self.find(now, core, (volume, for_clones), lost, view);
        if let Some(way) = way {
            self.effects.push_back(Effect::VolumeRoute { core, volume, way });
        }
    }

    fn find(
        &mut self,
        now: Time,
        core: usize,
        (volume, for_clones): (VolumeId, bool),
        lost: &[(NodeId, bool)],
        view: &View,
    ) -> Option<VolumeRoute> {
        // Of a deleted volume nothing is served, but for the clones that it has.
        let found = view.volume_of(volume);
        let found = found.filter(|record| for_clones || !is_hidden(&record.name));
        let Some(record) = found else {
            return Some(VolumeRoute::Nowhere);
        };
        match self.volumes.get_mut(&record.name) {
            Some(State::Open { info, .. }) if info.id == volume && self.migrations.holds(volume) => {
                return Some(VolumeRoute::Later);
            }
            Some(State::Open { info, .. }) if info.id == volume => return Some(VolumeRoute::Here),
            // Another one has the name by now, which the watch is about to tell: it was reverted, or made anew.
            Some(State::Open { .. }) => return Some(VolumeRoute::Later),
            Some(State::Opening { waiting } | State::Making { waiting, .. }) => {
                waiting.cores.push((core, volume));
                return None;
            }
            Some(State::Leaving { .. }) => return Some(VolumeRoute::Later),
            None => {}
        }
        // Its new owner is on its way; once the record names it, it is an owner like any other, and may die like one.
        let is_on_its_way = record.owner.is_none_or(|owner| owner == self.node);
        if is_on_its_way && self.moves.was_handed_over(now, volume) {
            return Some(VolumeRoute::Later);
        }
        // As far as is known here, hosts are refused, and who brings it what the mirror's other end has is not asked for it: an opener reads what is
        // so now, and takes it from nobody.
        let is_closed = !for_clones && record.closed_to(self.config.mirror).is_some();
        if let Some(owner) = record.owner
            && !is_closed
            && owner != self.node
            && view.lives(owner)
            && match lost.iter().find(|(node, _)| *node == owner) {
                None => true,
                Some((_, refused)) => {
                    let is_patient = self.config.owner_patience.is_some();
                    let was_taken = self.moves.was_taken(now, volume) && !self.faults.has(Fault::DeposeAlone);
                    !refused && (is_patient || was_taken)
                }
            }
        {
            return Some(VolumeRoute::There(owner));
        }
        if self.openers.is_full() {
            return Some(VolumeRoute::Later);
        }
        if !is_closed && self.is_locked(record) {
            return Some(VolumeRoute::Locked);
        }
        let waiting = Waiting {
            fronts: Vec::new(),
            cores: vec![(core, volume)],
        };
        let name = record.name.clone();
        let over = record.owner.filter(|_| !is_closed);
        self.begin(now, &name, waiting, (Consent::Over(over), is_closed));
        None
    }

    /// Is it known that keys of the volume are not to be had here? Then nothing is begun for those who come again by themselves: an opener would
    /// read the metadata each time, to end for the same reason. (It is looked for the keys meanwhile.)
    fn is_locked(&mut self, record: &map::Volume) -> bool {
        let Some(ring) = &record.keys else {
            return false;
        };
        let missing = match &self.config.keys {
            Some(keys) => keys.missing(ring),
            None => Some(NO_KEYS.to_owned()),
        };
        let Some(why) = missing else {
            return false;
        };
        self.unopened.push((record.name.clone(), Failing::Locked, why));
        true
    }

    /// Could what this is the record of be opened here, as far as its keys go? `false`: they are on their way.
    ///
    /// # Errors
    /// They are not to be had: why.
    pub fn has_keys(&self, record: &map::Volume) -> Result<bool, String> {
        let Some(ring) = &record.keys else {
            return Ok(true);
        };
        let keys = self.config.keys.as_ref().ok_or_else(|| NO_KEYS.to_owned())?;
        match keys.keychain(ring) {
            Ok(_) => Ok(true),
            Err(NotNow::Coming) => Ok(false),
            Err(NotNow::Missing(why)) => Err(why),
        }
    }

    /// Runs an opener; is it a host that the volume is opened for?
    fn begin(&mut self, now: Time, name: &str, waiting: Waiting, (consent, for_host): (Consent, bool)) {
        let number = self.openers.take_number();
        // The opener's number is part of its ids, between the directory's mark and its own count.
        let base = token::id_base(0, DIRECTORY) | u64::from(number) << 20;
        let mut config = self.config.clone();
        config.node = self.node;
        config.volume = name.to_owned();
        config.consent = consent;
        config.for_host = for_host;
        let opener = Opener::new(config, base, now);
        self.openers.running.insert(number, (name.to_owned(), opener));
        self.volumes.insert(name.to_owned(), State::Opening { waiting });
        self.drain(number);
    }

    /// Something has changed that may call for opening volumes that nobody uses.
    pub fn stir(&mut self, now: Time) {
        self.upkeep.orphans.stir(now);
        self.upkeep.look = true;
    }

    /// A core's sequencer says that a syncing store holds everything of its chunks in a group.
    pub fn whole(&mut self, volume: VolumeId, generation: Generation, core: usize, member: WholeMember) {
        let WholeMember { group, store, since } = member;
        self.upkeep.claims.said(volume, generation, core, (group, store, since));
    }

    /// A core's sequencer has looked at all copies of its chunks in a group, which may be the last.
    pub fn scrubbed(
        &mut self,
        now: Time,
        of: (VolumeId, Generation),
        core: usize,
        place: (u64, GroupIndex, bool),
        report: ScrubReport,
    ) {
        self.upkeep.scrubs.looked(now, of, core, place, report);
    }

    /// The end of a metadata call of an opener.
    pub fn metadata(&mut self, now: Time, call: CallId, result: Result<meta::Reply, meta::Error>) {
        if self.upkeep.claims.ended(now, call, &result) || self.upkeep.scrubs.answered(call, &result) {
            return;
        }
        let number = (call.0 >> 20) as u32 & 0xf_ffff;
        if let Some(opener) = self.openers.get_mut(number) {
            opener.meta(now, call, result);
            self.drain(number);
        }
    }

    /// The owner of a volume answered: to what it was asked last, and nobody else's word counts for it. An owner that says that
    /// it has given the volume up has given its leases back (R4).
    pub fn released(&mut self, tag: u64, from: NodeId, outcome: ReleaseOutcome) {
        let number = tag as u32;
        if let Some(opener) = self.openers.get_mut(number) {
            let is_its_answer = opener.asked() == Some((from, (tag >> 32) as u32));
            if !is_its_answer && !self.faults.has(Fault::AnyRelease) {
                return;
            }
            opener.owner(match outcome {
                ReleaseOutcome::Released => OwnerReply::Released,
                ReleaseOutcome::NotOwner => OwnerReply::NotOwner,
                _ => OwnerReply::Busy,
            });
            self.drain(number);
        }
    }

    /// The owner of a volume cannot be asked; `gone`: nobody is there.
    pub fn unreachable(&mut self, tag: u64, gone: bool) {
        let number = tag as u32;
        if let Some(opener) = self.openers.get_mut(number) {
            opener.owner(match gone {
                true => OwnerReply::Gone,
                false => OwnerReply::Unreachable,
            });
            self.drain(number);
        }
    }

    /// Were volumes opened or given up since this was last asked?
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// A volume has grown: whoever opens it later is told. A record from before our ownership may have its size from before it was made
    /// smaller; within one ownership sizes only grow, but for the end of it.
    pub fn resized(&mut self, volume: VolumeId, generation: Generation, size_bytes: u64) {
        for state in self.volumes.values_mut() {
            let (size, ours) = match state {
                State::Open { info, generation, .. } | State::Leaving { info, generation, .. } if info.id == volume => {
                    (&mut info.size_bytes, *generation)
                }
                State::Making { opened, .. } if opened.volume.id == volume => {
                    let ours = opened.volume.generation;
                    (&mut opened.volume.size_bytes, ours)
                }
                _ => continue,
            };
            if generation >= ours {
                *size = size_bytes.max(*size);
            }
        }
    }

    /// Is the volume open on every core?
    #[must_use]
    pub fn is_open(&self, volume: VolumeId) -> bool {
        let mut states = self.volumes.values();
        states.any(|state| matches!(state, State::Open { info, .. } if info.id == volume))
    }

    /// The generation under which a volume is open on every core, and is to stay.
    #[must_use]
    pub fn open_generation(&self, volume: VolumeId) -> Option<Generation> {
        self.volumes.values().find_map(|state| match state {
            State::Open { info, generation, .. } if info.id == volume => Some(*generation),
            _ => None,
        })
    }

    /// The volumes that are open on every core, and are to stay, with their generation.
    pub fn open_volumes(&self) -> impl Iterator<Item = (VolumeId, Generation)> + '_ {
        self.volumes.values().filter_map(|state| match state {
            State::Open { info, generation, .. } => Some((info.id, *generation)),
            _ => None,
        })
    }

    /// A core has made its sequencer.
    pub fn shard_made(&mut self, volume: VolumeId, generation: Generation) {
        let Some((name, state)) = self.volumes.iter_mut().find(
            |(_, state)| matches!(state, State::Making { opened, .. } if opened.volume.id == volume && opened.generation == generation),
        ) else {
            return;
        };
        let State::Making {
            opened,
            missing,
            waiting,
        } = state
        else {
            return;
        };
        *missing -= 1;
        if *missing > 0 {
            return;
        }
        let info = frontend::VolumeInfo {
            id: volume,
            snapshot: SnapshotId::HEAD,
            name: name.clone(),
            size_bytes: opened.volume.size_bytes,
            chunk_bytes: opened.pool.chunk_bytes,
            read_only: false,
        };
        let closed = opened.volume.closed.take();
        let refused = refusal(name, closed.as_deref(), self.config.mirror);
        let mut users = match refused {
            None => self.migrations.take_users(volume),
            Some(_) => Users::new(),
        };
        for (core, volume) in waiting.cores.drain(..) {
            let way = VolumeRoute::Here;
            self.effects.push_back(Effect::VolumeRoute { core, volume, way });
        }
        for origin in waiting.fronts.drain(..) {
            let result = match &refused {
                None => Ok((self.openings.add_to(&mut users), info.clone())),
                Some(why) => Err(why.clone()),
            };
            self.effects.push_back(Effect::Opened { origin, result });
        }
        self.upkeep.look = true;
        self.changed = true;
        *state = State::Open {
            info,
            generation,
            users,
            closed,
        };
        if refused.is_some() {
            self.lose_carried(volume, "it is closed to hosts");
        }
    }

    /// A sequencer has found that the volume is no longer ours. Was it, as far as was known here? Then nobody is counted as using it any more.
    pub fn lost(&mut self, now: Time, volume: VolumeId, generation: Generation) -> bool {
        self.upkeep.claims.lost(volume, generation);
        if self.open_generation(volume).is_none_or(|ours| ours <= generation) {
            self.migrations.hold(volume, false);
        }
        let name = self.volumes.iter().find_map(|(name, state)| match state {
            State::Open {
                info, generation: ours, ..
            } if info.id == volume && *ours == generation => Some(name.clone()),
            State::Making { opened, .. } if opened.volume.id == volume && opened.generation == generation => {
                Some(name.clone())
            }
            State::Leaving {
                info, generation: ours, ..
            } if info.id == volume && *ours == generation => Some(name.clone()),
            _ => None,
        });
        let Some(name) = name else { return false };
        self.upkeep.orphans.lost(now);
        self.moves.note_taken(now, volume);
        // They are told with all others.
        self.migrations.take_users(volume);
        let removed = self.volumes.remove(&name);
        if let Some(State::Leaving { asker, .. }) = removed {
            self.reply(asker, ReleaseOutcome::NotOwner);
            return true;
        }
        if let Some(State::Making { waiting, .. }) = removed {
            for (core, volume) in waiting.cores {
                let way = VolumeRoute::Later;
                self.effects.push_back(Effect::VolumeRoute { core, volume, way });
            }
            for origin in waiting.fronts {
                let why = "another gateway took the volume over while it was being opened".to_owned();
                self.effects.push_back(Effect::Opened {
                    origin,
                    result: Err(frontend::OpenError::Unavailable(why)),
                });
            }
        }
        true
    }

    /// Has everybody told who has the volume open that it was lost, by the numbers by which they know it now: behind what they have yet to hear of its
    /// opening.
    pub fn tell_of_loss(&mut self, volume: VolumeId, generation: Generation, why: &str, known: Vec<VolumeId>) {
        let (why, generation) = (why.to_owned(), Some(generation));
        self.effects.push_back(Effect::Lost {
            volume,
            generation,
            why,
            known,
        });
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Time, view: &View) {
        let (volumes, moves) = (&self.volumes, &self.moves);
        for name in self
            .upkeep
            .orphans
            .look(now, self.node, view, |volume| match volumes.get(&volume.name) {
                None if moves.was_handed_over(now, volume.id) => Held::Perhaps,
                None => Held::No,
                Some(State::Open { .. }) => Held::Open,
                Some(_) => Held::Perhaps,
            })
        {
            let is_locked = view.volume_named(&name).is_some_and(|record| self.is_locked(record));
            if !is_locked && !self.openers.is_full() {
                self.begin(now, &name, Waiting::default(), (Consent::Asked, false));
            }
        }
        self.end_late_leaves(now);
        self.carry_out_moves(now, view);
        self.carry_out_closings(now, view);
        self.end_doubts(now, view);
        self.open_what_has_moved(now);
        let looks = std::mem::take(&mut self.upkeep.look);
        for state in self.volumes.values().take_while(|_| looks) {
            let State::Open { info, generation, .. } = state else {
                continue;
            };
            let (volume, generation) = (info.id, *generation);
            while let Some(order) = self.upkeep.scrubs.order(view, volume, generation) {
                self.effects.push_back(Effect::Scrub {
                    volume,
                    generation,
                    order,
                });
            }
        }
        for (call, request) in self.upkeep.scrubs.calls(now, view) {
            self.effects.push_back(Effect::Call { call, request });
        }
        for (call, request) in self.upkeep.claims.calls(now, view) {
            self.effects.push_back(Effect::Call { call, request });
        }
        for number in self.openers.due(now) {
            if let Some(opener) = self.openers.at(number) {
                opener.tick(now);
                self.drain(number);
            }
        }
    }

    /// When [`Directory::tick`] is next wanted.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        [
            self.openers.deadline(),
            self.moves.deadline(),
            self.closings.deadline(),
            self.migrations.deadline(),
            self.volumes
                .values()
                .filter_map(|state| match state {
                    State::Leaving { until, .. } => Some(*until),
                    _ => None,
                })
                .min(),
            self.upkeep.orphans.deadline(),
            self.upkeep.scrubs.deadline(),
            self.upkeep.claims.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next thing to do.
    pub fn next(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        self.changed |= matches!(
            effect,
            Some(Effect::DropShards { .. } | Effect::Leave { .. } | Effect::Stay { .. })
        );
        effect
    }

    /// What an opener has others do; and its end.
    fn drain(&mut self, number: u32) {
        self.openers.sort(number);
        let Some((name, opener)) = self.openers.running.get_mut(&number) else {
            return;
        };
        let mut end = None;
        let round = opener.asked().map_or(0, |(_, round)| round);
        for effect in opener.effects() {
            match effect {
                OpenerEffect::Meta { call, request } => self.effects.push_back(Effect::Call { call, request }),
                OpenerEffect::AskOwner {
                    node,
                    volume,
                    generation,
                    hand_over,
                } => {
                    self.effects.push_back(Effect::Ask {
                        node,
                        tag: u64::from(round) << 32 | u64::from(number),
                        volume,
                        generation,
                        hand_over,
                    });
                }
                OpenerEffect::Opened(result) => end = Some(result),
            }
        }
        let Some(result) = end else { return };
        let name = name.clone();
        self.openers.remove(number);
        let Some(State::Opening { waiting }) = self.volumes.remove(&name) else {
            return;
        };
        let result = match *result {
            Ok(opened) if self.closings.is_gone(opened.volume.id) => {
                let name = name.clone();
                Err(OpenError::NoSuchVolume { name })
            }
            result => result,
        };
        match result {
            Ok(opened) => self.on_opened(name, opened, waiting),
            Err(why) => self.on_unopened(name, &why, waiting),
        }
    }

    /// A volume is ours: each core makes a sequencer for it.
    fn on_opened(&mut self, name: String, opened: Opened, waiting: Waiting) {
        let opened = Box::new(opened);
        self.upkeep.claims.opened(&opened);
        self.effects.push_back(Effect::MakeShards { opened: opened.clone() });
        let missing = self.cores;
        let making = State::Making {
            opened,
            missing,
            waiting,
        };
        self.volumes.insert(name, making);
    }

    /// A volume could not be opened: whoever waits for it is told.
    fn on_unopened(&mut self, name: String, why: &OpenError, waiting: Waiting) {
        self.lose_carried_to(&name, why);
        // That another gateway has it is no trouble, and what speaks against the metadata says so itself.
        let is_none = matches!(
            why,
            OpenError::NoSuchVolume { .. }
                | OpenError::Busy { .. }
                | OpenError::Suspect { .. }
                | OpenError::Closed { .. }
        );
        match why {
            // Whoever wants it: while it waits for its keys, no store is taken back into its pool's groups either.
            OpenError::Locked { why, .. } => self.unopened.push((name, Failing::Locked, why.clone())),
            _ if !is_none && !waiting.fronts.is_empty() => {
                self.unopened.push((name, Failing::Opening, why.to_string()));
            }
            _ => {}
        }
        for (core, volume) in waiting.cores {
            let way = match why {
                OpenError::Busy { owner } => VolumeRoute::There(*owner),
                OpenError::NoSuchVolume { .. } => VolumeRoute::Nowhere,
                OpenError::Locked { .. } => VolumeRoute::Locked,
                OpenError::Closed { .. } => VolumeRoute::Closed,
                _ => VolumeRoute::Later,
            };
            self.effects.push_back(Effect::VolumeRoute { core, volume, way });
        }
        for origin in waiting.fronts {
            let result = Err(refuse(why));
            self.effects.push_back(Effect::Opened { origin, result });
        }
    }
}

/// Why a volume that is open here is not for a front of this program, if it is not.
fn refusal(name: &str, closed: Option<&Closed>, runs: Option<MirrorId>) -> Option<frontend::OpenError> {
    let closed = closed.filter(|closed| Some(closed.mirror) != runs)?;
    Some(refuse(&OpenError::Closed {
        volume: name.to_owned(),
        mirror: closed.name.clone(),
    }))
}

/// What a host is told of a volume that could not be opened.
fn refuse(why: &OpenError) -> frontend::OpenError {
    match why {
        OpenError::NoSuchVolume { .. } => frontend::OpenError::NotFound,
        OpenError::Busy { .. } | OpenError::Closed { .. } => frontend::OpenError::Refused(why.to_string()),
        _ => frontend::OpenError::Unavailable(why.to_string()),
    }
}

#[cfg(test)]
mod tests;
