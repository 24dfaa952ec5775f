//! What a vault is after an entry of its journal. Pure: the entries decide, and nothing else.
//!
//! **Why nothing is swept that is needed.** Let packs be condemned by entry c: no point that there is needs them. A later need of one can
//! come only from a session that looked for pieces before c: one that begins after c does not find pieces in condemned packs. So
//! (a) a sweep waits until all sessions that began before c have ended or are fenced; what a fenced session says later is refused, for it
//! would stand behind the fence. What those have put in the meantime, and what others have derived from that, stands in points later than c:
//! (b) they are looked through once more, and what they need is kept; and
//! (c) none of them is gone before that: a point later than c that is forgotten stays as a *ghost* until the sweep. Without (c) a session that
//! began after c could have a ghost's pieces from its parent, and publish them after the sweep.
//! Sessions that read hold up sweeps in the same way: what they have begun to read stays until they end.

use crate::codec::{Cursor, Malformed, Writer};
use crate::entry::{Entry, MAX_NAME_BYTES, Packs, Point, read_names, write_names};
use crate::pack::{Pack, PackName};
use crate::piece::PieceId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// A session: the number of the entry that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a vault's state does not allow an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Somebody took the session for dead, or it has ended.
    #[error("session {0} is over: it has ended, or was fenced because it was taken for dead; begin another one")]
    Over(SessionId),
    /// Packs are condemned already.
    #[error("packs are condemned already: they are to be swept first")]
    Pending,
    /// Nothing is condemned.
    #[error("nothing is condemned: there is nothing to sweep")]
    NothingPending,
    /// A sweep waits for sessions.
    #[error("session {0} began before packs were condemned, and is still open")]
    Open(SessionId),
    /// There is no such point.
    #[error("there is no point {0}")]
    NoPoint(u64),
    /// There is no such pack, or it is not in the state that the entry speaks of.
    #[error("pack {0} is not what the entry takes it for")]
    NoPack(PackName),
    /// A pack has another content than the one of its name that is known.
    #[error("pack {0} is put a second time, as another one")]
    OtherPack(PackName),
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// What people know it by.
    pub label: String,
    /// Its last entry.
    pub last: u64,
}

/// Where a copy of a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub pack: PackName,
    pub slot: u32,
}

/// Packs that no point needed when they were condemned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condemned {
    /// The entry that condemned them.
    pub at: u64,
    pub packs: BTreeSet<PackName>,
}

/// What a vault is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) number: u64,
    pub(crate) sessions: BTreeMap<SessionId, OpenSession>,
    pub(crate) packs: BTreeMap<PackName, Pack>,
    /// Follows from `packs`. Nearly all pieces have one copy.
    pub(crate) index: HashMap<PieceId, Vec<Place>>,
    pub(crate) points: BTreeMap<u64, Point>,
    pub(crate) ghosts: BTreeMap<u64, Point>,
    pub(crate) condemned: Option<Condemned>,
    /// Swept, and not known to be deleted.
    pub(crate) garbage: BTreeSet<PackName>,
    pub(crate) lost: BTreeSet<PackName>,
    #[cfg(test)]
    pub(crate) switches: crate::tests::Switches,
}

impl State {
    /// The number of the last entry.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The points, by their numbers.
    #[must_use]
    pub fn points(&self) -> &BTreeMap<u64, Point> {
        &self.points
    }

    /// The sessions that are open.
    #[must_use]
    pub fn sessions(&self) -> &BTreeMap<SessionId, OpenSession> {
        &self.sessions
    }

    /// How many packs there are, and their bytes.
    #[must_use]
    pub fn packs(&self) -> (usize, u64) {
        (self.packs.len(), self.packs.values().map(|pack| pack.bytes).sum())
    }

    /// How many packs are condemned, how many swept and not known to be deleted, how many lost.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize, usize) {
        let condemned = self.condemned.as_ref().map_or(0, |condemned| condemned.packs.len());
        (condemned, self.garbage.len(), self.lost.len())
    }

    pub(crate) fn is_condemned(&self, pack: &PackName) -> bool {
        self.condemned
            .as_ref()
            .is_some_and(|condemned| condemned.packs.contains(pack))
    }

    /// May a session build on this piece?
    pub(crate) fn has(&self, piece: &PieceId) -> bool {
        let good = |place: &Place| {
            #[cfg(test)]
            if self.switches.builds_on_condemned {
                return true;
            }
            !self.is_condemned(&place.pack) && !self.lost.contains(&place.pack)
        };
        self.index.get(piece).is_some_and(|places| places.iter().any(good))
    }

    /// The length of a piece before compression.
    pub(crate) fn raw_bytes(&self, piece: &PieceId) -> Option<usize> {
        let place = self.index.get(piece)?.first()?;
        let records = &self.packs.get(&place.pack)?.directory.records;
        records.get(place.slot as usize).map(|record| record.raw as usize)
    }

    /// The copies of a piece, those first that are not known to be damaged, then those that stay.
    pub(crate) fn places(&self, piece: &PieceId) -> Vec<Place> {
        let mut places = self.index.get(piece).cloned().unwrap_or_default();
        places.sort_by_key(|place| (self.lost.contains(&place.pack), self.is_condemned(&place.pack), *place));
        places
    }

    /// The sessions that a sweep waits for.
    pub(crate) fn held_up_by(&self) -> Vec<SessionId> {
        #[cfg(test)]
        if self.switches.sweeps_at_once {
            return Vec::new();
        }
        let at = self.condemned.as_ref().map_or(0, |condemned| condemned.at);
        self.sessions
            .range(..SessionId(at))
            .map(|(session, _)| *session)
            .collect()
    }

    fn open(&self, session: SessionId) -> Result<(), Refusal> {
        #[cfg(test)]
        if self.switches.fences_do_not_hold {
            return Ok(());
        }
        let open = self.sessions.contains_key(&session);
        open.then_some(()).ok_or(Refusal::Over(session))
    }

    /// Whether this may be the next entry.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, entry: &Entry) -> Result<(), Refusal> {
        let known = |packs: &[PackName], known: &dyn Fn(&PackName) -> bool| {
            let other = packs.iter().find(|pack| !known(pack));
            other.map_or(Ok(()), |pack| Err(Refusal::NoPack(*pack)))
        };
        match entry {
            Entry::Begin { .. } => Ok(()),
            Entry::Packs(Packs { session, packs }) => {
                self.open(*session)?;
                for (count, pack) in packs {
                    let name = PackName {
                        session: *session,
                        count: *count,
                    };
                    if self.garbage.contains(&name) || self.packs.get(&name).is_some_and(|known| known != pack) {
                        return Err(Refusal::OtherPack(name));
                    }
                }
                Ok(())
            }
            Entry::Point { session, .. } | Entry::Alive(session) | Entry::End(session) | Entry::Fence(session) => {
                self.open(*session)
            }
            Entry::Forget(points) => {
                let other = points.iter().find(|point| !self.points.contains_key(*point));
                other.map_or(Ok(()), |point| Err(Refusal::NoPoint(*point)))
            }
            Entry::Condemn(packs) => {
                if self.condemned.is_some() {
                    return Err(Refusal::Pending);
                }
                known(packs, &|pack| self.packs.contains_key(pack))
            }
            Entry::Sweep { kept } => {
                if self.condemned.is_none() {
                    return Err(Refusal::NothingPending);
                }
                if let Some(session) = self.held_up_by().first() {
                    return Err(Refusal::Open(*session));
                }
                known(kept, &|pack| self.is_condemned(pack))
            }
            Entry::Deleted(packs) => known(packs, &|pack| self.garbage.contains(pack)),
            Entry::Lost(packs) => known(packs, &|pack| self.packs.contains_key(pack)),
        }
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// When it may not be it; nothing has changed then.
    pub fn apply(&mut self, entry: Entry) -> Result<(), Refusal> {
        self.check(&entry)?;
        self.number += 1;
        let number = self.number;
        let by = match &entry {
            Entry::Packs(Packs { session, .. }) | Entry::Point { session, .. } | Entry::Alive(session) => {
                Some(*session)
            }
            _ => None,
        };
        if let Some(open) = by.and_then(|session| self.sessions.get_mut(&session)) {
            open.last = number;
        }
        match entry {
            Entry::Begin { label } => {
                self.sessions
                    .insert(SessionId(number), OpenSession { label, last: number });
            }
            Entry::Packs(Packs { session, packs }) => {
                for (count, pack) in packs {
                    self.add(PackName { session, count }, pack);
                }
            }
            Entry::Point { point, .. } => {
                self.points.insert(number, point);
            }
            Entry::Alive(_) => {}
            Entry::End(session) | Entry::Fence(session) => {
                self.sessions.remove(&session);
            }
            Entry::Forget(points) => points.iter().for_each(|point| self.forget(*point)),
            Entry::Condemn(packs) => {
                self.condemned = Some(Condemned {
                    at: number,
                    packs: packs.into_iter().collect(),
                });
            }
            Entry::Sweep { kept } => {
                let condemned = self
                    .condemned
                    .take()
                    .map(|condemned| condemned.packs)
                    .unwrap_or_default();
                let kept: BTreeSet<PackName> = kept.into_iter().collect();
                for pack in condemned.difference(&kept) {
                    self.remove(pack);
                    self.garbage.insert(*pack);
                }
                self.ghosts.clear();
            }
            Entry::Deleted(packs) => packs.iter().for_each(|pack| {
                self.garbage.remove(pack);
            }),
            Entry::Lost(packs) => self.lost.extend(packs),
        }
        Ok(())
    }

    fn add(&mut self, name: PackName, pack: Pack) {
        if self.packs.contains_key(&name) {
            return;
        }
        for (slot, record) in (0_u32..).zip(&pack.directory.records) {
            let places = self.index.entry(record.id).or_default();
            places.push(Place { pack: name, slot });
            // However it came to be known, a state is the same.
            places.sort_unstable();
        }
        self.packs.insert(name, pack);
    }

    fn remove(&mut self, name: &PackName) {
        self.lost.remove(name);
        for record in self.packs.remove(name).iter().flat_map(|pack| &pack.directory.records) {
            if let Some(places) = self.index.get_mut(&record.id) {
                places.retain(|place| place.pack != *name);
                if places.is_empty() {
                    self.index.remove(&record.id);
                }
            }
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(point) = self.points.remove(&number) else {
            return;
        };
        #[cfg(test)]
        if self.switches.has_no_ghosts {
            return;
        }
        if self.condemned.as_ref().is_some_and(|condemned| number > condemned.at) {
            self.ghosts.insert(number, point);
        }
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.number(self.number);
        writer.number(self.sessions.len() as u64);
        for (session, open) in &self.sessions {
            writer.number(session.0);
            writer.bytes(open.label.as_bytes());
            writer.number(open.last);
        }
        writer.number(self.packs.len() as u64);
        for (name, pack) in &self.packs {
            name.encode(writer);
            pack.encode(writer);
        }
        for points in [&self.points, &self.ghosts] {
            writer.number(points.len() as u64);
            for (number, point) in points {
                writer.number(*number);
                point.encode(writer);
            }
        }
        writer.number(self.condemned.as_ref().map_or(0, |condemned| condemned.at));
        let condemned = self.condemned.iter().flat_map(|condemned| &condemned.packs);
        for packs in [
            condemned.copied().collect(),
            self.garbage.iter().copied().collect(),
            self.lost.iter().copied().collect::<Vec<_>>(),
        ] {
            write_names(&packs, writer);
        }
    }

    pub(crate) fn decode(cursor: &mut Cursor) -> Result<State, Malformed> {
        let mut state = State {
            number: cursor.number()?,
            ..State::default()
        };
        for _ in 0..cursor.count(3)? {
            let session = SessionId(cursor.number()?);
            let label = cursor.text(MAX_NAME_BYTES)?;
            let last = cursor.number()?;
            state.sessions.insert(session, OpenSession { label, last });
        }
        for _ in 0..cursor.count(32)? {
            let name = PackName::decode(cursor)?;
            let pack = Pack::decode(cursor)?;
            state.add(name, pack);
        }
        for at in 0..2 {
            for _ in 0..cursor.count(2)? {
                let number = cursor.number()?;
                let points = if at == 0 { &mut state.points } else { &mut state.ghosts };
                points.insert(number, Point::decode(cursor)?);
            }
        }
        let at = cursor.number()?;
        let packs: BTreeSet<PackName> = read_names(cursor)?;
        state.condemned = (at != 0).then_some(Condemned { at, packs });
        state.garbage = read_names(cursor)?;
        state.lost = read_names(cursor)?;
        Ok(state)
    }
}
