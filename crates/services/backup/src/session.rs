//! A session: a running backup, restore or check. While it is open, nothing is swept that it may need.
//!
//! One that is dropped without [`Session::end`] stays open, as after a crash, until somebody fences it; what it has put is found by the next
//! one.

use crate::entry::{Entry, Packs, Point, VolumePoint};
use crate::error::Error;
use crate::journal::Landed;
use crate::pack::{Builder, MAX_PACK_BYTES, Pack, PackName};
use crate::piece::{Class, PieceId};
use crate::read::Reader;
use crate::state::{SessionId, State};
use crate::vault::Vault;
use std::collections::HashSet;

/// What a session has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Pieces that were put.
    pub pieces: u64,
    /// Their bytes before compression.
    pub raw_bytes: u64,
    /// Pieces that were there.
    pub found: u64,
    /// Bytes of packs that were put.
    pub pack_bytes: u64,
}

/// An open session.
pub struct Session<'a> {
    pub(crate) vault: &'a mut Vault,
    id: SessionId,
    next: u32,
    /// Data, and leaves with branches: what is read together lies together.
    builders: [Option<Builder>; 2],
    /// Put, and not in the journal.
    unrecorded: Vec<(u32, Pack)>,
    /// Pieces that are in no pack that the journal has.
    mine: HashSet<PieceId>,
    sent: Sent,
    /// A pack could not be put: what was in it is nowhere.
    broken: bool,
}

impl Vault {
    /// Begins a session.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn begin(&mut self, label: &str) -> Result<Session<'_>, Error> {
        let label = match self.whence.is_empty() {
            true => label.to_owned(),
            false => format!("{label} at {}", self.whence),
        };
        if label.len() > crate::entry::MAX_NAME_BYTES {
            return Err(Error::Limit {
                what: "a session's label",
                most: crate::entry::MAX_NAME_BYTES as u64,
            });
        }
        let number = self.append(&Entry::Begin { label })?;
        Ok(Session {
            vault: self,
            id: SessionId(number),
            next: 0,
            builders: [None, None],
            unrecorded: Vec::new(),
            mine: HashSet::new(),
            sent: Sent::default(),
            broken: false,
        })
    }
}

impl Session<'_> {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// What it has done so far.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// The vault.
    #[must_use]
    pub fn vault(&self) -> &Vault {
        self.vault
    }

    /// Has a piece put, unless it is there.
    pub(crate) fn piece(&mut self, class: Class, raw: &[u8]) -> Result<PieceId, Error> {
        let id = self.vault.keys.name(class, raw);
        if self.mine.contains(&id) || self.vault.state.has(&id) {
            self.sent.found += 1;
            return Ok(id);
        }
        self.copy(id, class, raw)?;
        Ok(id)
    }

    /// Is there a copy of this piece of so many blocks, all of which it has, on which a session may build?
    pub(crate) fn has_whole(&self, id: &PieceId, blocks: u32) -> bool {
        let bytes = blocks as usize * crate::piece::BLOCK_BYTES;
        // What this session has put itself cannot be in its parent's tree, nor be found wanting.
        self.vault.state.has(id) && self.vault.state.raw_bytes(id) == Some(bytes)
    }

    /// Has a piece put, also when there is a copy.
    pub(crate) fn copy(&mut self, id: PieceId, class: Class, raw: &[u8]) -> Result<(), Error> {
        self.whole()?;
        let at = usize::from(class != Class::Data);
        let builder = match &mut self.builders[at] {
            Some(builder) => builder,
            empty => {
                let name = PackName {
                    session: self.id,
                    count: self.next,
                };
                self.next += 1;
                let object = self.vault.id.pack(name);
                empty.insert(Builder::new(&self.vault.keys, name, object)?)
            }
        };
        builder.push(&self.vault.keys, id, class, raw)?;
        self.mine.insert(id);
        self.sent.pieces += 1;
        self.sent.raw_bytes += raw.len() as u64;
        if builder.is_full(self.vault.options.pack_bytes.min(MAX_PACK_BYTES / 2)) {
            self.put(at)?;
        }
        if self.unrecorded.len() >= self.vault.options.packs_per_entry.max(1) {
            self.record()?;
        }
        Ok(())
    }

    fn whole(&self) -> Result<(), Error> {
        (!self.broken).then_some(()).ok_or(Error::Broken)
    }

    fn put(&mut self, at: usize) -> Result<(), Error> {
        self.whole()?;
        let Some(mut builder) = self.builders[at].take() else {
            return Ok(());
        };
        // Until it is there.
        self.broken = true;
        let (bytes, pack) = builder.finish(&self.vault.keys)?;
        match self.vault.put(builder.object(), &bytes)? {
            Landed::Ours => {
                self.sent.pack_bytes += pack.bytes;
                self.unrecorded.push((builder.name.count, pack));
                self.broken = false;
                Ok(())
            }
            // Nobody else puts packs of this session.
            Landed::Another => Err(Error::Damaged {
                object: builder.object().to_owned(),
                why: "it is there, and is not what was put",
            }),
        }
    }

    fn record(&mut self) -> Result<(), Error> {
        if self.unrecorded.is_empty() {
            return Ok(());
        }
        let packs = self.unrecorded.clone();
        let entry = Entry::Packs(Packs {
            session: self.id,
            packs,
        });
        self.vault.append(&entry)?;
        for record in self.unrecorded.iter().flat_map(|(_, pack)| &pack.directory.records) {
            self.mine.remove(&record.id);
        }
        self.unrecorded.clear();
        Ok(())
    }

    /// Puts all that was handed over so far: a crash after this loses none of it.
    ///
    /// # Errors
    /// When it cannot be put, or the session is over.
    pub fn flush(&mut self) -> Result<(), Error> {
        let put = self.put(0).and_then(|()| self.put(1));
        // Also where one could not be put: those before it are there.
        let recorded = self.record();
        put.and(recorded)
    }

    /// Makes a point of volumes that this session has backed up. Returns its number.
    ///
    /// After an error it may be there nevertheless, or be there twice if it is made again: each is whole.
    ///
    /// # Errors
    /// When it cannot be put, or the session is over.
    pub fn publish(&mut self, name: &str, time: i64, volumes: Vec<VolumePoint>) -> Result<u64, Error> {
        self.publish_if(name, time, volumes, &|_| Ok(()))
    }

    /// The same, unless there is a point of this name that has one of these volumes: whoever else is about to make it, one alone does. The
    /// journal's order decides, and no clock.
    ///
    /// # Errors
    /// As [`Session::publish`]; or it is made ([`Error::Made`]).
    pub fn publish_once(&mut self, name: &str, time: i64, volumes: Vec<VolumePoint>) -> Result<u64, Error> {
        let known = |found: &VolumePoint| (found.identity.cluster, found.identity.volume);
        let own: HashSet<([u8; 16], [u8; 16])> = volumes.iter().map(known).collect();
        let guard = |state: &State| {
            #[cfg(test)]
            if state.switches.makes_twice {
                return Ok(());
            }
            let has_own = |point: &Point| point.volumes.iter().any(|found| own.contains(&known(found)));
            let mut points = state.points().iter();
            match points.find(|(_, point)| point.name == name && has_own(point)) {
                None => Ok(()),
                Some((number, _)) => Err(Error::Made {
                    name: name.to_owned(),
                    point: *number,
                }),
            }
        };
        self.publish_if(name, time, volumes, &guard)
    }

    fn publish_if(
        &mut self,
        name: &str,
        time: i64,
        volumes: Vec<VolumePoint>,
        guard: &dyn Fn(&State) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let limits = [
            ("a point's name", name.len(), crate::entry::MAX_NAME_BYTES),
            (
                "the number of a point's volumes",
                volumes.len(),
                crate::entry::MAX_VOLUMES,
            ),
        ];
        if let Some((what, _, most)) = limits.into_iter().find(|(_, is, most)| is > most) {
            return Err(Error::Limit {
                what,
                most: most as u64,
            });
        }
        self.flush()?;
        let point = Point {
            name: name.to_owned(),
            time,
            volumes,
        };
        let entry = Entry::Point {
            session: self.id,
            point,
        };
        self.vault.append_if(&entry, guard)
    }

    /// Reads what others have added to the journal.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.vault.refresh()
    }

    /// Says that it is not dead, though it has nothing to say.
    ///
    /// # Errors
    /// When the journal cannot be written, or the session is over.
    pub fn alive(&mut self) -> Result<(), Error> {
        self.vault.append(&Entry::Alive(self.id)).map(drop)
    }

    /// Reads a volume of a point, which stays as long as the session is open.
    ///
    /// # Errors
    /// When there is no such point or volume.
    pub fn reader(&self, point: u64, volume: usize) -> Result<Reader<'_>, Error> {
        self.vault.reader(point, volume)
    }

    /// Ends it. Packs that no point needs are condemned by the next pruning.
    ///
    /// # Errors
    /// When the journal cannot be written. That it was fenced is none.
    pub fn end(self) -> Result<(), Error> {
        match self.end_held() {
            Err(Error::Refused(crate::state::Refusal::Over(_))) => Ok(()),
            ended => ended,
        }
    }

    /// Ends it where what was read counts only if the session was open all that time: a sweep has waited for it then, and what was found missing is.
    ///
    /// # Errors
    /// As [`Session::end`]; or it was fenced before: what was read meanwhile may have been swept.
    pub fn end_held(self) -> Result<(), Error> {
        self.vault.append(&Entry::End(self.id)).map(drop)
    }
}
