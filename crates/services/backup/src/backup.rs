//! A volume is backed up: what changed since an earlier point is laid over that point's tree.
//!
//! A run of changed blocks becomes one piece in each window of 256 KiB; so one changed block of 4 KiB is a piece of 4 KiB. What a run of
//! zeros covers needs no piece, and a window of zeros is found to be one.
//!
//! Where nobody knows what changed, all of the volume is compared with the earlier point, by the names of its pieces: of its data
//! nothing is read.

use crate::entry::{Identity, MAX_NAME_BYTES, VolumePoint};
use crate::error::Error;
use crate::piece::{BLOCK_BYTES, Class, MAX_PIECE_BYTES, PieceId};
use crate::session::Session;
use crate::tree::{BRANCH_BYTES, BRANCH_LEAVES, Branch, LEAF_BLOCKS, LEAF_BYTES, Leaf, MAX_VOLUME_BYTES};
use std::io;
use std::ops::Range;

const BLOCK: u64 = BLOCK_BYTES as u64;
const WINDOW: u64 = MAX_PIECE_BYTES as u64;

/// What a range of a volume is now. Offsets and lengths are multiples of 4096 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These bytes.
    Bytes {
        /// From here on.
        offset: u64,
        /// What they are.
        bytes: Vec<u8>,
    },
    /// Zeros, or nothing that was ever written.
    Zeros {
        /// From here on.
        offset: u64,
        /// So many bytes.
        length: u64,
    },
}

/// Where the ranges that changed come from, in the order of their offsets, none over another.
pub trait Source {
    /// The next range; `None` is the end.
    ///
    /// # Errors
    /// What cannot be read.
    fn next(&mut self) -> io::Result<Option<Change>>;

    /// Is the session to say that it goes on ([`Session::alive`])? Asked before each range; a range of no bytes is as good as none. Whoever
    /// has a clock knows.
    fn wants_sign(&mut self) -> bool {
        false
    }
}

impl<I: Iterator<Item = io::Result<Change>>> Source for I {
    fn next(&mut self) -> io::Result<Option<Change>> {
        Iterator::next(self).transpose()
    }
}

/// A volume to be backed up.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Whose bytes they are.
    pub identity: Identity,
    /// Its size: a multiple of 4096, at most 1 PiB.
    pub bytes: u64,
    /// It is encrypted at rest where it is read.
    pub encrypted: bool,
    /// The snapshot that is read: the volume's generation, and the snapshot's number.
    pub snapshot: (u64, u64),
    /// The point whose volume of the same identity the changes are counted from; without one they are counted from zeros.
    pub parent: Option<u64>,
    /// The source has all of the volume, and not what changed since the parent: what that has already is found, and left as it is.
    pub compares: bool,
}

/// A tree that is made, from its first byte to its last.
struct Growing<'a, 'b> {
    session: &'a mut Session<'b>,
    branches: Vec<Option<PieceId>>,
    branch: Option<(u64, Branch)>,
    leaf: Option<(u64, Leaf)>,
    /// A run of bytes within a window, which is not a piece yet.
    run: Vec<u8>,
    run_at: u64,
    compares: bool,
}

impl Session<'_> {
    /// Backs up a volume. It is part of no point before [`Session::publish`].
    ///
    /// # Errors
    /// When something cannot be read or put; when a range is not where it may be.
    pub fn backup(&mut self, volume: &Volume, source: &mut dyn Source) -> Result<VolumePoint, Error> {
        if volume.bytes > MAX_VOLUME_BYTES || !volume.bytes.is_multiple_of(BLOCK) {
            return Err(range(
                0,
                volume.bytes,
                "is no volume: sizes are multiples of 4096, and 1 PiB at most",
            ));
        }
        if volume.identity.name.len() > MAX_NAME_BYTES {
            return Err(Error::Limit {
                what: "a volume's name",
                most: MAX_NAME_BYTES as u64,
            });
        }
        let parent = match volume.parent {
            None => None,
            Some(point) => Some(self.vault.volume(point, &volume.identity)?.clone()),
        };
        let (was_bytes, mut branches) = parent.map_or((0, Vec::new()), |parent| (parent.bytes, parent.branches));
        branches.resize(volume.bytes.div_ceil(BRANCH_BYTES) as usize, None);
        let mut growing = Growing {
            session: self,
            branches,
            branch: None,
            leaf: None,
            run: Vec::new(),
            run_at: 0,
            compares: volume.compares && volume.parent.is_some(),
        };
        let mut end = 0;
        loop {
            if source.wants_sign() {
                growing.session.alive()?;
            }
            let Some(change) = source.next().map_err(Error::Source)? else {
                break;
            };
            let (offset, length) = match &change {
                Change::Bytes { offset, bytes } => (*offset, bytes.len() as u64),
                Change::Zeros { offset, length } => (*offset, *length),
            };
            if !offset.is_multiple_of(BLOCK) || !length.is_multiple_of(BLOCK) {
                return Err(range(offset, length, "is not of whole blocks of 4096 bytes"));
            }
            if offset < end {
                return Err(range(offset, length, "begins before the end of the one before"));
            }
            if offset > volume.bytes || length > volume.bytes - offset {
                return Err(range(offset, length, "ends behind the volume's end"));
            }
            end = offset + length;
            match change {
                Change::Bytes { bytes, .. } => growing.bytes(offset, &bytes)?,
                Change::Zeros { .. } => growing.zeros(offset, length)?,
            }
        }
        growing.close_run()?;
        // What lay behind the end of a volume that has become smaller must not come back when it grows.
        let last = volume.bytes.next_multiple_of(BRANCH_BYTES).min(was_bytes);
        if last > volume.bytes {
            growing.zeros(volume.bytes, last - volume.bytes)?;
        }
        growing.close_branch()?;
        Ok(VolumePoint {
            identity: volume.identity.clone(),
            bytes: volume.bytes,
            encrypted: volume.encrypted,
            snapshot: volume.snapshot,
            parent: volume.parent,
            branches: growing.branches,
        })
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn range(offset: u64, length: u64, why: &'static str) -> Error {
    Error::Range { offset, length, why }
}

impl Growing<'_, '_> {
    fn bytes(&mut self, mut offset: u64, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let run_end = self.run_at + self.run.len() as u64;
            if self.run.is_empty() || run_end != offset || offset.is_multiple_of(WINDOW) {
                self.close_run()?;
                self.run_at = offset;
            }
            let room = WINDOW - offset % WINDOW;
            let (front, rest) = bytes.split_at(room.min(bytes.len() as u64) as usize);
            self.run.extend_from_slice(front);
            offset += front.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    fn close_run(&mut self) -> Result<(), Error> {
        if self.run.is_empty() {
            return Ok(());
        }
        let run = std::mem::take(&mut self.run);
        if !self.compares {
            return self.put_run(self.run_at, &run);
        }
        for part in self.differing(self.run_at, &run)? {
            self.put_run(self.run_at + part.start as u64, &run[part])?;
        }
        Ok(())
    }

    fn put_run(&mut self, at: u64, run: &[u8]) -> Result<(), Error> {
        let piece = if is_zero(run) {
            None
        } else {
            Some(self.session.piece(Class::Data, run)?)
        };
        self.lay(at, run.len() as u64, piece)
    }

    /// The parts of a run within a window that the tree does not have so already. Of a piece that it uses a part of, that part cannot be told by
    /// the piece's name: it counts as another one.
    fn differing(&mut self, at: u64, run: &[u8]) -> Result<Vec<Range<usize>>, Error> {
        let first = (at / BLOCK % u64::from(LEAF_BLOCKS)) as u32;
        let last = first + (run.len() / BLOCK_BYTES) as u32;
        let mut same = Vec::new();
        let mut end = first;
        let extents = self.leaf(at / LEAF_BYTES)?.extents();
        let from = extents.partition_point(|extent| extent.end() <= first);
        let to = extents.partition_point(|extent| extent.start < last);
        let extents = extents[from..to].to_vec();
        let (session, keys) = (&*self.session, &self.session.vault.keys);
        for extent in &extents {
            same.extend((end..extent.start).map(|block| (block, block + 1, None)));
            let whole = extent.start >= first && extent.end() <= last && extent.skip == 0;
            if whole && session.has_whole(&extent.piece, extent.blocks) {
                same.push((extent.start, extent.end(), Some(extent.piece)));
            }
            end = extent.end();
        }
        same.extend((end..last).map(|block| (block, block + 1, None)));
        let bytes = |from: u32, to: u32| (from - first) as usize * BLOCK_BYTES..(to - first) as usize * BLOCK_BYTES;
        let mut differing: Vec<Range<usize>> = Vec::new();
        let mut from = 0;
        for (start, stop, piece) in same {
            let range = bytes(start, stop);
            let is_same = match piece {
                None => is_zero(&run[range.clone()]),
                Some(piece) => keys.name(Class::Data, &run[range.clone()]) == piece,
            };
            if is_same {
                differing.extend((from < range.start).then_some(from..range.start));
                from = range.end;
            }
        }
        differing.extend((from < run.len()).then_some(from..run.len()));
        Ok(differing)
    }

    fn zeros(&mut self, offset: u64, length: u64) -> Result<(), Error> {
        self.close_run()?;
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let next = if at.is_multiple_of(BRANCH_BYTES) && end - at >= BRANCH_BYTES {
                self.close_branch()?;
                self.branches[(at / BRANCH_BYTES) as usize] = None;
                at + BRANCH_BYTES
            } else if at.is_multiple_of(LEAF_BYTES) && end - at >= LEAF_BYTES {
                self.close_leaf()?;
                self.branch(at / LEAF_BYTES)?
                    .set((at / LEAF_BYTES) as usize % BRANCH_LEAVES, None);
                at + LEAF_BYTES
            } else {
                let next = ((at / LEAF_BYTES + 1) * LEAF_BYTES).min(end);
                self.lay(at, next - at, None)?;
                next
            };
            at = next;
        }
        Ok(())
    }

    /// Lays blocks of one leaf.
    fn lay(&mut self, offset: u64, length: u64, piece: Option<PieceId>) -> Result<(), Error> {
        let start = (offset / BLOCK % u64::from(LEAF_BLOCKS)) as u32;
        let leaf = self.leaf(offset / LEAF_BYTES)?;
        leaf.lay(start, (length / BLOCK) as u32, piece);
        Ok(())
    }

    /// The leaf of this number.
    fn leaf(&mut self, number: u64) -> Result<&mut Leaf, Error> {
        let open = match self.leaf.take() {
            Some(open) if open.0 == number => open,
            other => {
                self.leaf = other;
                self.close_leaf()?;
                let known = self.branch(number)?.leaves()[number as usize % BRANCH_LEAVES];
                let leaf = match known {
                    Some(id) => self.session.vault.leaf(id)?,
                    None => Leaf::default(),
                };
                (number, leaf)
            }
        };
        Ok(&mut self.leaf.insert(open).1)
    }

    fn close_leaf(&mut self) -> Result<(), Error> {
        let Some((number, leaf)) = self.leaf.take() else {
            return Ok(());
        };
        let empty = leaf.extents().is_empty();
        let id = if empty {
            None
        } else {
            Some(self.session.piece(Class::Leaf, &leaf.encode())?)
        };
        self.branch(number)?.set(number as usize % BRANCH_LEAVES, id);
        Ok(())
    }

    /// The branch that has this leaf.
    fn branch(&mut self, leaf: u64) -> Result<&mut Branch, Error> {
        let number = leaf / BRANCH_LEAVES as u64;
        let open = match self.branch.take() {
            Some(open) if open.0 == number => open,
            other => {
                self.branch = other;
                self.put_branch()?;
                let branch = match self.branches[number as usize] {
                    Some(id) => self.session.vault.branch(id)?,
                    None => Branch::default(),
                };
                (number, branch)
            }
        };
        Ok(&mut self.branch.insert(open).1)
    }

    fn put_branch(&mut self) -> Result<(), Error> {
        if let Some((number, branch)) = self.branch.take() {
            let empty = branch.is_empty();
            let id = if empty {
                None
            } else {
                Some(self.session.piece(Class::Branch, &branch.encode())?)
            };
            self.branches[number as usize] = id;
        }
        Ok(())
    }

    fn close_branch(&mut self) -> Result<(), Error> {
        self.close_leaf()?;
        self.put_branch()
    }
}
