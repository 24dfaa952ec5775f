//! What a mounted store is, for people and scripts.

use super::{LeafFault, Offline, ReadAt};
use crate::format::{PAGE_BYTES, Place, Slot};
use crate::index::{ChunkKey, Entry, LEAF_ENTRIES, Leaf, Location, PARTS, Seen as Kept, View};
use crate::store::Store;
use amita_types::{BlockIndex, ChunkId, Epoch, Generation, GroupId, NodeId, SnapshotId, StoreId, Version, VolumeId};

/// The entries of the blocks of a part that were ever written, or why they are not known.
pub type PartEntries = Result<Vec<(BlockIndex, Entry)>, LeafFault>;

/// How much there is of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Chunks, those included of which only snapshots are left.
    pub chunks: u64,
    /// Chunks that are clones.
    pub clones: u64,
    /// Chunks that lack changes.
    pub incomplete: u64,
    /// States of chunks: what they were for snapshots.
    pub states: u64,
    /// Slots that hold leaves, and pages of states.
    pub leaf_pages: u64,
    /// Slots that hold data; one that several use counts once.
    pub blocks: u64,
    /// Slots with several users.
    pub shared: u64,
    /// Slots that are free.
    pub free: u64,
}

/// The log and its marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLook {
    /// The first page that replay reads.
    pub tail: u64,
    /// Pages below this one were verified by the last mount.
    pub mount_start: u64,
    /// The page behind the last whole one.
    pub end: u64,
    /// How many there are at most.
    pub pages: u64,
}

/// A volume's fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeLook {
    pub volume: VolumeId,
    /// The generation that the store knows.
    pub generation: Generation,
    pub owner: NodeId,
}

/// A group's fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLook {
    pub group: GroupId,
    pub epoch: Epoch,
    /// Blocks of a chunk.
    pub blocks_per_chunk: u16,
    pub in_sync: Vec<StoreId>,
    /// The stores that are being brought up to date.
    pub syncing: Vec<StoreId>,
}

/// A part of a chunk, or of a state of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLook {
    /// Which part: its blocks are `128 * part` to `128 * part + 127`.
    pub part: u8,
    /// Its leaf's page and that page's checksum; `None`: it has none (yet).
    pub page: Option<(Slot, u32)>,
    /// Where that lies, in bytes.
    pub offset: Option<u64>,
    /// Does the log change it, so that the page is not the last word?
    pub changed: bool,
    /// Is what it held not known any more?
    pub lost: bool,
}

/// A chunk as it was for some snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateLook {
    /// For the snapshots above this one
    pub above: SnapshotId,
    /// up to this one.
    pub to: SnapshotId,
    /// Its version then.
    pub version: Version,
    /// It is being brought, and serves nothing.
    pub open: bool,
    /// The parts that have changed since.
    pub parts: Vec<PartLook>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLook {
    pub chunk: ChunkId,
    pub version: Version,
    /// The volume's newest snapshot when it was made.
    pub born: SnapshotId,
    /// The newest snapshot that a change of it has named.
    pub snapshot: SnapshotId,
    /// Where it is incomplete: the version at which it was last whole.
    pub incomplete: Option<Version>,
    /// Is only what it was for its snapshots left?
    pub deleted: bool,
    /// Where its blocks were first written: itself, or what it is a clone of.
    pub origin: ChunkId,
    /// Its parts that were ever written.
    pub parts: Vec<PartLook>,
    /// Its states, oldest first.
    pub states: Vec<StateLook>,
}

/// The volumes whose owners a store knows.
pub(crate) fn volumes_of(store: &Store) -> Vec<VolumeLook> {
    let volumes = store.look_fences().volumes().iter();
    let volumes = volumes.filter(|volume| volume.generation < Generation::DELETED);
    let mut list: Vec<VolumeLook> = volumes
        .map(|volume| VolumeLook {
            volume: volume.id,
            generation: volume.generation,
            owner: volume.owner,
        })
        .collect();
    list.sort_unstable_by_key(|look| look.volume);
    list
}

/// The volumes that a store knows to be deleted, as ranges.
pub(crate) fn deleted_of(store: &Store) -> Vec<(VolumeId, VolumeId)> {
    let deleted = store.look_fences().deleted().iter();
    deleted.map(|(&first, &last)| (first, last)).collect()
}

/// The groups that a store knows.
pub(crate) fn groups_of(store: &Store) -> Vec<GroupLook> {
    let groups = store.look_fences().groups().iter();
    let mut list: Vec<GroupLook> = groups
        .map(|group| GroupLook {
            group: group.id,
            epoch: group.epoch,
            blocks_per_chunk: group.blocks_per_chunk,
            in_sync: group.in_sync.iter().copied().collect(),
            syncing: group.syncing.iter().copied().collect(),
        })
        .collect();
    list.sort_unstable_by_key(|look| look.group);
    list
}

impl<R: ReadAt> Offline<R> {
    /// How much there is of everything.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (index, held) = (self.store.look_index(), self.store.look_slot_map());
        Counts {
            chunks: index.len() as u64,
            clones: index.origins() as u64,
            incomplete: index.keys().filter(|&key| index.chunk(key).incomplete).count() as u64,
            states: index.look_state_count(),
            leaf_pages: index.pages(),
            blocks: held.count() - index.pages(),
            shared: held.shared(),
            free: u64::from(self.store.look_allocator().free()),
        }
    }

    /// The log and its marks.
    #[must_use]
    pub fn log(&self) -> LogLook {
        let superblock = self.superblock();
        LogLook {
            tail: superblock.checkpoint.tail,
            mount_start: superblock.mount_start,
            end: self.store.look_log_end().0,
            pages: superblock.geometry.log_pages,
        }
    }

    /// The volumes whose owners the store knows.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeLook> {
        volumes_of(&self.store)
    }

    /// The volumes that the store knows to be deleted: the first and the last number of each range, ascending.
    #[must_use]
    pub fn deleted(&self) -> Vec<(VolumeId, VolumeId)> {
        deleted_of(&self.store)
    }

    /// The groups that the store knows.
    #[must_use]
    pub fn groups(&self) -> Vec<GroupLook> {
        groups_of(&self.store)
    }

    /// All chunks, in no order.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkLook> + '_ {
        let keys = self.store.look_index().keys();
        keys.map(|key| self.look(key))
    }

    #[must_use]
    pub fn chunk(&self, id: ChunkId) -> Option<ChunkLook> {
        self.store.look_index().find(id).map(|key| self.look(key))
    }

    fn look(&self, key: ChunkKey) -> ChunkLook {
        let index = self.store.look_index();
        let chunk = index.chunk(key);
        let leaves = index.all_leaves(key);
        let (head, own) = leaves.split_at(PARTS);
        let mut own = own.chunk_by(|one, next| one.to == next.to).peekable();
        let states = chunk.states_above(SnapshotId::HEAD).map(|state| StateLook {
            above: state.above,
            to: state.to,
            version: state.version,
            open: state.open,
            parts: match own.next_if(|leaves| leaves[0].to == state.to) {
                Some(leaves) => leaves.iter().map(|&at| self.part(at)).collect(),
                None => Vec::new(),
            },
        });
        let states = states.collect();
        let head = head.iter().filter(|at| !index.look_is_never(**at));
        ChunkLook {
            chunk: chunk.id,
            version: chunk.durable,
            born: chunk.born,
            snapshot: chunk.snapshot,
            incomplete: index.incomplete(key),
            deleted: chunk.deleted,
            origin: index.origin(key),
            parts: head.map(|&at| self.part(at)).collect(),
            states,
        }
    }

    fn part(&self, at: Location) -> PartLook {
        let index = self.store.look_index();
        let page = index.look_page(at);
        PartLook {
            part: at.part,
            page,
            offset: page.map(|(slot, _)| self.slot_offset(slot)),
            changed: index.look_is_changed(at),
            lost: index.leaf(at) == Leaf::Lost,
        }
    }

    /// Where the blocks of a chunk are, part by part, as it is ([`SnapshotId::HEAD`]) or as it was for a snapshot. Blocks
    /// that were never written are left out. `None`: there is no such chunk, or it does not keep that snapshot.
    #[must_use]
    pub fn entries(&self, id: ChunkId, snapshot: SnapshotId) -> Option<Vec<PartEntries>> {
        let index = self.store.look_index();
        let key = index.find(id)?;
        let view = match index.chunk(key).seen(snapshot) {
            Kept::As(view) => view,
            Kept::Unborn => return Some(Vec::new()),
            Kept::NotKept => return None,
        };
        Some((0..PARTS).map(|part| self.part_entries(key, view, part)).collect())
    }

    fn part_entries(&self, key: ChunkKey, view: View, part: usize) -> PartEntries {
        let entries = self.leaf(self.store.look_index().location(key, view, part))?;
        let blocks = (part * LEAF_ENTRIES..).zip(entries.iter());
        let written = blocks.filter(|(_, entry)| entry.version > Version::NONE || entry.has_data());
        Ok(written
            .map(|(block, entry)| (BlockIndex(block as u16), *entry))
            .collect())
    }

    /// What a block holds; `None`: nothing, or it cannot be read, or is not what the entry binds. `origin` is that of its chunk
    /// ([`ChunkLook::origin`]).
    #[must_use]
    pub fn content(&self, origin: ChunkId, block: BlockIndex, entry: Entry) -> Option<Vec<u8>> {
        if !entry.has_data() {
            return None;
        }
        let mut content = vec![0; PAGE_BYTES];
        self.reader.read_at(self.slot_offset(entry.slot), &mut content).ok()?;
        let sum = Place::of(origin).bind(block, amita_types::crc32c(&content));
        (sum == entry.sum).then_some(content)
    }

    /// Where a slot lies, in bytes.
    #[must_use]
    pub fn offset_of(&self, slot: Slot) -> u64 {
        self.slot_offset(slot)
    }
}
