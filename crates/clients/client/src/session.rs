//! The session of a client: its open volumes and its requests under way, as a state machine over the storage service.
//!
//! The [request engine](amita_frontend::engine) cuts requests into pieces and ends them when the last piece has. What bounds
//! them: the slots for requests, the pieces under way (below what a sequencer queues, so that it never answers `Busy`),
//! and the bytes that reads may bring at one time (they take the pool's memory). What does not fit waits in order.
//! Discards and zeroings of any length go by windows, so that they hold up nobody.

mod answer;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::payload::{Done, Payload};
use amita_frontend::engine::{Delivery, Engine, Limits, Plan, Protocol, Submission};
use amita_frontend::slots::MAX_SLOTS;
use amita_frontend::{
    Bases, Event, FrontId, OpenError, Source, StorageService, VolumeInfo, Who, clears, pieces, zeroes,
};
use amita_reactor::{Pool, Slice};
use amita_sequencer::MAX_IOS;
use amita_types::io::{Differs, Op};
use amita_types::{BLOCK_BYTES, MAX_BLOCKS_PER_CHUNK, MAX_IO_BYTES, SnapshotId};
use answer::Asks;

/// The most requests of one client under way.
pub const MAX_REQUESTS: usize = MAX_SLOTS;
/// The longest read or write, in bytes: as long as the largest buffer of a pool.
pub const MAX_READ_WRITE_BYTES: u32 = 1 << 20;

/// Pieces of one client under way: far below what one sequencer queues, and far above what saturates anything.
const MAX_PIECES: usize = MAX_IOS / 4;
/// Pieces of one discard or zeroing under way.
const WINDOW: u32 = 16;
/// The most pieces of one request under way: a read or write of full length that begins inside a block, and crosses
/// chunks of one block each, has one for each block and one more.
const MOST_AT_ONCE: usize = (MAX_READ_WRITE_BYTES / amita_types::BLOCK_BYTES) as usize + 2;
/// Spare vectors for the parts of long reads.
const MAX_SPARE: usize = 64;

const _: () = assert!(MOST_AT_ONCE < MAX_PIECES && MAX_IO_BYTES < MAX_READ_WRITE_BYTES);

/// An open volume of a [`Local`](crate::Local): a handle to be copied as you like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    index: u32,
    /// Never given twice by one process.
    serial: u64,
    size_bytes: u64,
    chunk_bytes: u32,
}

impl Volume {
    /// Its size in bytes: a multiple of 4096.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of its chunks: requests that stay inside one, and are at most 128 KiB long, are never cut.
    #[must_use]
    pub fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// What the answer to [`Queue::changed`](crate::Queue::changed) or [`Queue::allocated`](crate::Queue::allocated) says: the extents of the chunk that holds the byte, ascending;
    /// extents that touch each other differ.
    pub fn extents(&self, offset: u64, answer: &Payload) -> impl Iterator<Item = Extent> + use<> {
        let start = offset - offset % u64::from(self.chunk_bytes);
        let end = self.size_bytes.min(start + u64::from(self.chunk_bytes));
        let differs = answer.differs().unwrap_or_default();
        extents(&differs, start, end)
    }

    /// Does the range lie in it?
    pub(crate) fn check(&self, offset: u64, bytes: u64) -> Result<(), Error> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.size_bytes) {
            return Ok(());
        }
        Err(Error::OutOfRange {
            offset,
            bytes,
            size_bytes: self.size_bytes,
        })
    }
}

/// May a read or write have so many bytes?
pub(crate) fn check_length(bytes: u64) -> Result<(), Error> {
    if (1..=u64::from(MAX_READ_WRITE_BYTES)).contains(&bytes) {
        return Ok(());
    }
    Err(Error::Length {
        bytes,
        most: MAX_READ_WRITE_BYTES.into(),
    })
}

fn extents(differs: &Differs, start: u64, end: u64) -> impl Iterator<Item = Extent> + use<> {
    let Differs { changed, allocated } = *differs;
    let block = u64::from(BLOCK_BYTES);
    let kind = move |at: u64| {
        let (word, bit) = (at as usize / 64, at % 64);
        let is = |words: &[u64; 16]| words[word] >> bit & 1 == 1;
        is(&changed).then(|| !is(&allocated))
    };
    let blocks = (end - start).div_ceil(block).min(u64::from(MAX_BLOCKS_PER_CHUNK));
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = (at..blocks).find(|at| kind(*at).is_some())?;
        at = (first..blocks).find(|at| kind(*at) != kind(first)).unwrap_or(blocks);
        Some(Extent {
            offset: start + first * block,
            length: (start + at * block).min(end) - (start + first * block),
            is_zero: kind(first) == Some(true),
        })
    })
}

struct OpenVolume {
    serial: u64,
    info: VolumeInfo,
    /// The snapshot that it is compared with.
    since: Option<SnapshotId>,
    /// Why it is no longer served here.
    lost: Option<String>,
}

/// The session: see the module.
pub(crate) struct Session {
    volumes: Vec<Option<OpenVolume>>,
    engine: Engine<Session>,
    /// What has ended, for the caller to take.
    pub(crate) ended: Vec<Done>,
    spare: Vec<Vec<Slice>>,
    /// The opening that is waited for.
    opening: u64,
    /// What it is to be compared with: the volume's name and the snapshot's, and then what the service knows of that.
    comparing: Option<(String, String, Option<Bases>)>,
    pub(crate) opened: Option<Result<VolumeInfo, OpenError>>,
}

/// Blocks that follow each other and were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// They are zeros now, and take no space.
    pub is_zero: bool,
}

impl Session {
    /// Nothing is open. `most_reading_bytes`: what reads may bring at one time.
    pub(crate) fn new(front: FrontId, pool: Pool, most_reading_bytes: usize) -> Session {
        let limits = Limits {
            requests: MAX_REQUESTS,
            read_bytes: most_reading_bytes,
            // The caller has the data already.
            write_bytes: usize::MAX,
            pieces: MAX_PIECES,
            window: WINDOW,
        };
        Session {
            volumes: Vec::new(),
            engine: Engine::new(front, pool, limits),
            ended: Vec::new(),
            spare: Vec::new(),
            opening: 0,
            comparing: None,
            opened: None,
        }
    }

    /// Requests under way, ended ones that were not taken included.
    pub(crate) fn under_way(&self) -> usize {
        self.engine.len() + self.ended.len()
    }

    /// Asks for a volume; [`Session::opened`] tells the end.
    /// `since`: it is to be compared with that snapshot of it.
    pub(crate) fn open(&mut self, service: &mut dyn StorageService, name: &str, since: Option<&str>) {
        self.opening += 1;
        self.opened = None;
        let (front, tag) = (self.engine.front(), self.opening);
        self.comparing = since.map(|since| (name.to_owned(), since.to_owned(), None));
        match since {
            Some(since) => service.bases(front, tag, name, vec![since.to_owned()], &Who::Program),
            None => service.open(front, tag, name, &Who::Program),
        }
    }

    /// The service knows what the volume that is being opened can be compared with.
    fn can_compare(&mut self, service: &mut dyn StorageService, result: Result<Bases, OpenError>) {
        let Some((name, _, known)) = &mut self.comparing else {
            return;
        };
        match result {
            Ok(bases) => {
                match bases.snapshots.is_empty() {
                    // Which is not found is told by `lacks_base`.
                    true => self.opened = Some(Err(OpenError::NotFound)),
                    false => service.open(self.engine.front(), self.opening, name, &Who::Program),
                }
                *known = Some(bases);
            }
            Err(why) => self.opened = Some(Err(why)),
        }
    }

    /// Is the volume that is being opened to be compared with a snapshot?
    pub(crate) fn is_to_compare(&self) -> bool {
        self.comparing.is_some()
    }

    /// The snapshot with which the volume was to be compared, and which it does not have.
    pub(crate) fn lacks_base(&self) -> Option<&str> {
        let (_, since, known) = self.comparing.as_ref()?;
        let known = known.as_ref()?;
        known.snapshots.is_empty().then_some(since)
    }

    /// The opening is waited for no longer: should it succeed after all, the volume is closed again.
    pub(crate) fn give_up_opening(&mut self) {
        self.opening += 1;
    }

    /// Takes an opened volume in.
    pub(crate) fn add(&mut self, info: VolumeInfo, serial: u64) -> Volume {
        let volume = Volume {
            index: self
                .volumes
                .iter()
                .position(Option::is_none)
                .unwrap_or(self.volumes.len()) as u32,
            serial,
            size_bytes: info.size_bytes,
            chunk_bytes: info.chunk_bytes,
        };
        let known = self.comparing.take().and_then(|(_, _, known)| known);
        let since = known.filter(|known| known.volume == info.id);
        let open = Some(OpenVolume {
            serial,
            info,
            since: since.and_then(|known| known.snapshots.first().map(|(_, number)| *number)),
            lost: None,
        });
        match self.volumes.get_mut(volume.index as usize) {
            Some(free) => *free = open,
            None => self.volumes.push(open),
        }
        volume
    }

    /// Uses a volume no longer. What is under way on it still ends.
    pub(crate) fn close(&mut self, service: &mut dyn StorageService, volume: &Volume) -> Result<(), Error> {
        let place = self.volumes.get_mut(volume.index as usize);
        let open = place.and_then(|place| place.take_if(|open| open.serial == volume.serial));
        let open = open.ok_or(Error::NotOpen)?;
        if open.lost.is_none() {
            service.close(self.engine.front(), open.info.source());
        }
        Ok(())
    }

    fn check(&self, volume: &Volume, offset: u64, bytes: u64) -> Result<Source, Error> {
        let place = self.volumes.get(volume.index as usize).and_then(Option::as_ref);
        let open = place
            .filter(|open| open.serial == volume.serial)
            .ok_or(Error::NotOpen)?;
        if let Some(why) = &open.lost {
            let (volume, why) = (open.info.name.clone(), why.clone());
            return Err(Error::Lost { volume, why });
        }
        volume.check(offset, bytes)?;
        if self.under_way() >= MAX_REQUESTS {
            return Err(Error::Full { most: MAX_REQUESTS });
        }
        Ok(open.info.source())
    }

    /// Starts a read.
    pub(crate) fn read(
        &mut self,
        service: &mut dyn StorageService,
        volume: &Volume,
        offset: u64,
        bytes: u32,
        tag: u64,
    ) -> Result<(), Error> {
        check_length(bytes.into())?;
        let source = self.check(volume, offset, bytes.into())?;
        let cut = pieces(offset, bytes.into(), volume.chunk_bytes);
        self.run(service, source, tag, offset, Plan::ReadWhole(cut), Slice::default());
        Ok(())
    }

    /// Asks what was changed in the chunk that holds the byte.
    pub(crate) fn changed(
        &mut self,
        service: &mut dyn StorageService,
        volume: &Volume,
        offset: u64,
        tag: u64,
    ) -> Result<(), Error> {
        self.compare(service, volume, offset, tag, |since| Op::Differ { offset, since })
    }

    /// Asks which blocks of the chunk that holds the byte have data.
    pub(crate) fn allocated(
        &mut self,
        service: &mut dyn StorageService,
        volume: &Volume,
        offset: u64,
        tag: u64,
    ) -> Result<(), Error> {
        let id = self.check(volume, offset, 1)?;
        self.look(service, id, offset, tag, Op::Allocation { offset });
        Ok(())
    }

    /// Asks which chunks may have been changed, of those in one window with the one that holds the byte.
    pub(crate) fn changed_chunks(
        &mut self,
        service: &mut dyn StorageService,
        volume: &Volume,
        offset: u64,
        tag: u64,
    ) -> Result<(), Error> {
        self.compare(service, volume, offset, tag, |since| Op::ChangedChunks {
            offset,
            since,
        })
    }

    fn compare(
        &mut self,
        service: &mut dyn StorageService,
        volume: &Volume,
        offset: u64,
        tag: u64,
        op: impl FnOnce(SnapshotId) -> Op,
    ) -> Result<(), Error> {
        let id = self.check(volume, offset, 1)?;
        let open = self.volumes.get(volume.index as usize).and_then(Option::as_ref);
        let since = open.and_then(|open| open.since).ok_or(Error::NotCompared)?;
        self.look(service, id, offset, tag, op(since));
        Ok(())
    }

    fn look(&mut self, service: &mut dyn StorageService, id: Source, offset: u64, tag: u64, op: Op) {
        // There is room: `check` has looked.
        if let Some((slot, request)) = self.engine.begin(id, offset, Plan::Hold, Delivery::Whole) {
            request.own = tag;
            self.engine.submit(slot, Submission::of(op), service);
            self.engine.request(slot).issued = true;
        }
    }

    /// Starts a write.
    pub(crate) fn write(
        &mut self,
        service: &mut dyn StorageService,
        volume: &Volume,
        offset: u64,
        data: Slice,
        tag: u64,
    ) -> Result<(), Error> {
        let bytes = data.len() as u64;
        check_length(bytes)?;
        let source = self.check(volume, offset, bytes)?;
        let cut = pieces(offset, bytes, volume.chunk_bytes);
        self.run(service, source, tag, offset, Plan::Write(cut), data);
        Ok(())
    }

    /// Has whole blocks of a range read as zeros and take no space; parts of blocks are left alone.
    pub(crate) fn discard(
        &mut self,
        service: &mut dyn StorageService,
        volume: &Volume,
        offset: u64,
        bytes: u64,
        tag: u64,
    ) -> Result<(), Error> {
        let source = self.check(volume, offset, bytes)?;
        let cut = clears(offset, bytes, volume.chunk_bytes);
        self.run(service, source, tag, offset, Plan::Clear(cut), Slice::default());
        Ok(())
    }

    /// Has a range read as zeros.
    pub(crate) fn write_zeroes(
        &mut self,
        service: &mut dyn StorageService,
        volume: &Volume,
        offset: u64,
        bytes: u64,
        tag: u64,
    ) -> Result<(), Error> {
        let source = self.check(volume, offset, bytes)?;
        let cut = zeroes(offset, bytes, volume.chunk_bytes, true);
        self.run(service, source, tag, offset, Plan::Zero(cut), Slice::default());
        Ok(())
    }

    /// Writes that have ended are durable, so that there is nothing to be done for them.
    pub(crate) fn flush(&mut self, volume: &Volume, tag: u64) -> Result<(), Error> {
        self.check(volume, 0, 0)?;
        self.ended.push(Done {
            tag,
            result: Ok(()),
            payload: Payload::default(),
        });
        Ok(())
    }

    fn run(
        &mut self,
        service: &mut dyn StorageService,
        source: Source,
        tag: u64,
        offset: u64,
        plan: Plan,
        data: Slice,
    ) {
        let delivery = match plan {
            Plan::ReadWhole(_) => Delivery::Whole,
            _ => Delivery::Verdict,
        };
        // There is room: `check` has looked.
        let Some((slot, request)) = self.engine.begin(source, offset, plan, delivery) else {
            return;
        };
        request.own = tag;
        request.data = data;
        let Ok(()) = self.start(slot, &mut Asks(service));
    }

    /// Something came back from the service.
    pub(crate) fn event(&mut self, service: &mut dyn StorageService, event: Event) {
        match event {
            Event::Done { tag, result, payload } => {
                let Ok(()) = self.done(tag, result, payload, &mut Asks(service));
            }
            Event::Opened { tag, result } if tag == self.opening => self.opened = Some(result),
            Event::Bases { tag, result } if tag == self.opening => self.can_compare(service, result),
            Event::Opened { result: Ok(info), .. } => service.close(self.engine.front(), info.source()),
            Event::Opened { .. }
            | Event::Listed { .. }
            | Event::Bases { .. }
            | Event::Reserved { .. }
            | Event::Register { .. }
            | Event::Computed { .. }
            | Event::Settings
            | Event::Trust => {}
            Event::Lost { source, why } => {
                for open in self
                    .volumes
                    .iter_mut()
                    .flatten()
                    .filter(|open| open.info.source() == source)
                {
                    open.lost.get_or_insert_with(|| why.clone());
                }
            }
        }
    }

    /// Takes the memory of a payload back for the next long read.
    pub(crate) fn recycle(&mut self, payload: Payload) {
        let mut rest = payload.rest;
        if rest.capacity() > 0 && self.spare.len() < MAX_SPARE {
            rest.clear();
            self.spare.push(rest);
        }
    }
}
