//! A store looked at from outside: a file or a device that nobody may serve, or that somebody is serving. Nothing is ever
//! written.
//!
//! [`Offline::open`] mounts it: the very same [`Store`](crate::Store) reads superblocks, checkpoint and log; what it would
//! write stays in memory. Then everything can be asked what it is ([`Offline::chunks`], [`Offline::chunk`],
//! [`Offline::entries`]) and [checked](check()). [`log_pages`] and [`checkpoint_items`] read the pages themselves.

mod check;
mod look;
mod memo;
mod pages;
mod problem;

pub use check::{CheckOptions, Progress, check};
pub use look::{ChunkLook, Counts, GroupLook, LogLook, PartEntries, PartLook, StateLook, VolumeLook};
pub(crate) use look::{deleted_of, groups_of, volumes_of};
pub use memo::MemoCopy;
pub use pages::{AnyPage, CheckpointItem, LogPlace, checkpoint_items, log_pages, page_at};
pub use problem::{DataFault, LeafFault, Problem, Report, Seen, User};

use crate::config::Config;
use crate::error::MountError;
use crate::format::checkpoint::{Cleared, StateItem};
use crate::format::page::LogPage;
use crate::format::superblock::{Fault, OFFSETS, Superblock};
use crate::format::{PAGE_BYTES, Slot, leaf, states};
use crate::index::{Entry, LEAF_ENTRIES, Leaf, Location};
use crate::status::{State, Status};
use crate::store::{Effect, Store};
use amita_reactor::{FileInfo, Pool, Time};
use amita_types::{ChunkId, ChunkIndex, VolumeId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// Bytes that can be read anywhere.
pub trait ReadAt {
    /// How many there are.
    ///
    /// # Errors
    /// When the device does not say.
    fn size_bytes(&self) -> io::Result<u64>;

    /// Fills the buffer from `offset` on.
    ///
    /// # Errors
    /// When the device cannot read all of it, or the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for File {
    fn size_bytes(&self) -> io::Result<u64> {
        // The length of a block device is nowhere else.
        let mut file = self;
        file.seek(SeekFrom::End(0))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }
}

impl ReadAt for [u8] {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let found = start.and_then(|start| self.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn size_bytes(&self) -> io::Result<u64> {
        (**self).size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        (**self).read_at(offset, buffer)
    }
}

/// Both superblocks, as they are; see [`OFFSETS`].
pub fn superblocks(reader: &impl ReadAt) -> [Result<Superblock, Fault>; 2] {
    OFFSETS.map(|offset| {
        let mut page = [0; PAGE_BYTES];
        match reader.read_at(offset, &mut page) {
            Ok(()) => Superblock::decode(&page),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Fault::Magic),
            Err(_) => Err(Fault::Unreadable),
        }
    })
}

/// The newer valid one.
#[must_use]
pub fn newest(superblocks: &[Result<Superblock, Fault>; 2]) -> Option<Superblock> {
    let valid = superblocks.iter().filter_map(|found| found.as_ref().ok());
    valid.max_by_key(|found| found.generation).copied()
}

/// A mounted store that is never written.
#[derive(Debug)]
pub struct Offline<R> {
    reader: R,
    store: Store,
    /// Both superblocks as they were before the mount.
    copies: [Result<Superblock, Fault>; 2],
}

impl<R: ReadAt> Offline<R> {
    /// Mounts it as the program would that serves it. `config.index_bytes` bounds the memory; the cluster does not matter
    /// unless the settings name one.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub fn open(reader: R, config: Config) -> Result<Offline<R>, MountError> {
        let failed = |error: io::Error| MountError::Device {
            offset: 0,
            error: error.to_string(),
        };
        let file = FileInfo {
            size_bytes: reader.size_bytes().map_err(failed)?,
            alignment: 1,
            volatile_cache: false,
            inline: true,
            discard: false,
            discard_makes_holes: false,
            holes: false,
        };
        let copies = superblocks(&reader);
        let mut mounted = mount(&reader, &config, file.clone());
        // Somebody may be writing the log: a page that was not there when it was read can be there when a later one says so.
        // That one is read first, then.
        for _ in 0..ATTEMPTS {
            let (Err(MountError::LogDamaged { sequence, .. }), Some(superblock)) =
                (&mounted, newest(&superblocks(&reader)))
            else {
                break;
            };
            let patched = Patched {
                pages: log_backwards(&reader, &superblock, *sequence),
                reader: &reader,
            };
            mounted = mount(&patched, &config, file.clone());
        }
        Ok(Offline {
            store: mounted?,
            reader,
            copies,
        })
    }

    /// Both superblocks, as they were found.
    pub fn superblocks(&self) -> &[Result<Superblock, Fault>; 2] {
        &self.copies
    }

    /// The one that the mount went by.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        newest(&self.copies).unwrap_or(*self.store.look_superblock())
    }

    /// The figures of the store, right after the mount.
    #[must_use]
    pub fn status(&self) -> Status {
        self.store.status()
    }

    fn slot_offset(&self, slot: Slot) -> u64 {
        self.store.look_superblock().geometry.slot_offset(slot)
    }

    /// The entries of a leaf, from memory or from its page.
    fn leaf(&self, at: Location) -> Result<Box<[Entry; LEAF_ENTRIES]>, LeafFault> {
        let index = self.store.look_index();
        match index.leaf(at) {
            Leaf::Here => {
                let mut entries = Box::new([Entry::NEVER; LEAF_ENTRIES]);
                for (place, entry) in entries.iter_mut().zip(index.entries_of(at)) {
                    *place = entry;
                }
                Ok(entries)
            }
            Leaf::Lost | Leaf::Loading => Err(LeafFault::Lost),
            Leaf::Away(slot) => {
                let sum = index.look_page(at).map_or(0, |(_, sum)| sum);
                self.leaf_page(slot, sum, index.chunk(at.chunk).id, usize::from(at.part))
            }
        }
    }

    /// What a page of states has, if it is this one.
    fn states_page(&self, slot: Slot, sum: u32, chunk: ChunkId) -> Vec<(StateItem, Cleared)> {
        let superblock = self.store.look_superblock();
        let mut page = [0; PAGE_BYTES];
        let read = self.reader.read_at(self.slot_offset(slot), &mut page);
        let slots = superblock.geometry.slots;
        let decoded = read
            .ok()
            .and_then(|()| states::decode(&page, superblock.store, chunk, sum, slots).ok());
        decoded.map_or_else(Vec::new, |decoded| decoded.states)
    }

    /// A leaf's page, that must be this one.
    fn leaf_page(
        &self,
        slot: Slot,
        sum: u32,
        chunk: ChunkId,
        part: usize,
    ) -> Result<Box<[Entry; LEAF_ENTRIES]>, LeafFault> {
        let superblock = self.store.look_superblock();
        let mut page = [0; PAGE_BYTES];
        self.reader
            .read_at(self.slot_offset(slot), &mut page)
            .map_err(|error| LeafFault::Device(error.to_string()))?;
        leaf::decode(&page, superblock.store, chunk, part, sum, superblock.geometry.slots)
            .map_err(|_| leaf_fault(&page, superblock, chunk, part))
    }
}

/// What is wrong with a leaf's page?
fn leaf_fault(page: &[u8], superblock: &Superblock, chunk: ChunkId, part: usize) -> LeafFault {
    let Some(sealed) = crate::format::sealed(page) else {
        return LeafFault::Checksum;
    };
    let header = leaf::Header::get(sealed.body).unwrap_or_default();
    if header.magic != leaf::MAGIC || header.store != crate::format::page::tag(superblock.store) {
        return LeafFault::NoLeaf;
    }
    let found = ChunkId {
        volume: VolumeId(header.volume),
        index: ChunkIndex(header.chunk),
    };
    let (found_part, checkpoint) = (header.part, header.checkpoint);
    if (found, usize::from(found_part)) != (chunk, part) {
        return LeafFault::Foreign {
            chunk: found,
            part: found_part,
        };
    }
    match leaf::decode(
        page,
        superblock.store,
        chunk,
        part,
        sealed.sum,
        superblock.geometry.slots,
    ) {
        Ok(_) => LeafFault::Stale { checkpoint },
        Err(_) => LeafFault::Impossible,
    }
}

/// How often the log is read backwards.
const ATTEMPTS: usize = 3;
/// Pages beyond the end of the log that are read first: as many as a mount looks at, and those that come meanwhile.
const BEYOND_PAGES: u64 = 4096;

fn mount(reader: &impl ReadAt, config: &Config, file: FileInfo) -> Result<Store, MountError> {
    let mut store = Store::open(config.clone(), file, Pool::heap());
    carry_out(&mut store, reader);
    match store.state() {
        State::Serving => Ok(store),
        State::Refused(error) => Err(error.clone()),
        State::Mounting | State::Poisoned(_) => Err(MountError::Inconsistent {
            what: "the mount never ended".to_owned(),
        }),
    }
}

/// Some pages as they were when they were read.
struct Patched<'a, R> {
    reader: &'a R,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl<R: ReadAt> ReadAt for Patched<'_, R> {
    fn size_bytes(&self) -> io::Result<u64> {
        self.reader.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.reader.read_at(offset, buffer)?;
        patch(&self.pages, offset, buffer);
        Ok(())
    }
}

/// Puts pages where they belong in what was read at `offset`.
fn patch(pages: &BTreeMap<u64, Vec<u8>>, offset: u64, buffer: &mut [u8]) {
    for (&at, page) in pages.range(offset..offset + buffer.len() as u64) {
        let start = (at - offset) as usize;
        let bytes = page.len().min(buffer.len() - start);
        buffer[start..start + bytes].copy_from_slice(&page[..bytes]);
    }
}

/// The pages of the log from `first` on, the last one read first: what one of them says of those before it was so when they
/// are read.
fn log_backwards(reader: &impl ReadAt, superblock: &Superblock, first: u64) -> BTreeMap<u64, Vec<u8>> {
    let geometry = &superblock.geometry;
    let limit = superblock.checkpoint.tail + geometry.log_pages;
    let read = |sequence| {
        let mut page = vec![0; PAGE_BYTES];
        let offset = geometry.log_page_offset(sequence);
        reader.read_at(offset, &mut page).ok().map(|()| (offset, page))
    };
    let follows = |&sequence: &u64| {
        let page = read(sequence);
        let page = page
            .as_ref()
            .and_then(|(_, page)| LogPage::decode(page, superblock.store));
        page.is_some_and(|page| page.header.sequence == sequence)
    };
    let end = (first..limit).find(|sequence| !follows(sequence)).unwrap_or(limit);
    let last = limit.min(end + BEYOND_PAGES);
    (first..last).rev().filter_map(read).collect()
}

/// Does what the mount asks for: reads from the reader, writes into memory.
fn carry_out(store: &mut Store, reader: &impl ReadAt) {
    let mut now = Time::default();
    let mut written: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    loop {
        let effects: Vec<Effect> = store.effects().collect();
        if effects.is_empty() {
            let Some(due) = store.deadline().filter(|_| *store.state() == State::Mounting) else {
                return;
            };
            // Something could not be read, and is read again.
            std::thread::sleep(due.since(now));
            now = due;
            store.tick(now);
            continue;
        }
        for effect in effects {
            match effect {
                Effect::Read { io, offset, mut buffer } => {
                    let result = reader.read_at(offset, &mut buffer);
                    patch(&written, offset, &mut buffer);
                    store.read_done(now, io, buffer, result);
                }
                Effect::Write { io, offset, data } => {
                    let mut at = offset;
                    for slice in &data {
                        for page in slice.chunks(PAGE_BYTES) {
                            written.insert(at, page.to_vec());
                            at += page.len() as u64;
                        }
                    }
                    store.write_done(now, io, data, Ok(()));
                }
                Effect::Flush { io } => store.flush_done(now, io, Ok(())),
                // The file is said to know no discards, so that none comes.
                Effect::Discard { io, .. } => store.discard_done(now, io, &Ok(())),
                Effect::Answer { .. } => {}
            }
        }
    }
}
