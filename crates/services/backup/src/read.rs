//! Reading: pieces, random ranges of a volume at a point, and all of it.

use crate::codec::Malformed;
use crate::entry::{Identity, VolumePoint};
use crate::error::{Error, of};
use crate::pack::PackName;
use crate::piece::{BLOCK_BYTES, Class, PieceId};
use crate::state::Place;
use crate::tree::{BRANCH_LEAVES, Branch, Extent, LEAF_BYTES, Leaf};
use crate::vault::Vault;
use std::io;
use std::rc::Rc;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Pieces, leaves and branches that a reader keeps: 4 MiB of data, and what a run over a volume needs of the tree.
const PIECES_KEPT: usize = 16;
const LEAVES_KEPT: usize = 8;
const BRANCHES_KEPT: usize = 2;

/// Where a volume is restored to.
pub trait Sink {
    /// These bytes, at most 256 KiB, from `offset` on.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// `length` zeros from `offset` on.
    ///
    /// # Errors
    /// When they cannot be written.
    fn zeros(&mut self, offset: u64, length: u64) -> io::Result<()>;
}

impl Vault {
    /// The volume of this identity at a point; its name may have changed.
    pub(crate) fn volume(&self, point: u64, identity: &Identity) -> Result<&VolumePoint, Error> {
        let found = self.state.points.get(&point).ok_or(Error::NoPoint(point))?;
        let same = |volume: &&VolumePoint| {
            volume.identity.cluster == identity.cluster && volume.identity.volume == identity.volume
        };
        found.volumes.iter().find(same).ok_or(Error::NoVolume { point })
    }

    /// Reads a volume of a point. Nothing keeps it from being pruned meanwhile, which would end in an error:
    /// [`Session::reader`](crate::Session::reader) does.
    ///
    /// # Errors
    /// When there is no such point or volume.
    pub fn reader(&self, point: u64, volume: usize) -> Result<Reader<'_>, Error> {
        let found = self.state.points.get(&point).ok_or(Error::NoPoint(point))?;
        let volume = found.volumes.get(volume).ok_or(Error::NoVolume { point })?;
        Ok(Reader {
            vault: self,
            volume: volume.clone(),
            pieces: Kept::new(PIECES_KEPT),
            leaves: Kept::new(LEAVES_KEPT),
            branches: Kept::new(BRANCHES_KEPT),
        })
    }

    /// A piece, from the first copy that is whole. Where none is, an error by which one may be is told before damage.
    pub(crate) fn read_piece(&self, id: PieceId, class: Class) -> Result<Vec<u8>, Error> {
        let mut failed = None;
        for place in self.state.places(&id) {
            match self.read_place(place, class) {
                Ok(raw) => return Ok(raw),
                Err(error) if failed.as_ref().is_none_or(Error::is_damage) => failed = Some(error),
                Err(_) => {}
            }
        }
        #[cfg(test)]
        if self.state.switches.reads_what_is_missing_as_zeros && class == Class::Data {
            return Ok(vec![0; crate::piece::MAX_PIECE_BYTES]);
        }
        Err(failed.unwrap_or(Error::NoPiece(id)))
    }

    fn read_place(&self, place: Place, class: Class) -> Result<Vec<u8>, Error> {
        let Place { pack: name, slot } = place;
        let object = self.id.pack(name);
        let known = self.state.packs.get(&name);
        let pack = known.ok_or_else(|| Error::Missing { object: object.clone() })?;
        let record = pack.directory.records[slot as usize];
        let read = self
            .store
            .get_range(&object, record.offset.into(), record.stored as usize);
        let Some(stored) = read.map_err(of(&object, "read it"))? else {
            return Err(Error::Missing { object });
        };
        let damaged = |why: Malformed| Error::Damaged {
            object: object.clone(),
            why: why.0,
        };
        if record.class != class {
            return Err(damaged(Malformed(
                "a piece in it is of another class than it is used for",
            )));
        }
        pack.open(&self.keys, &object, slot, stored).map_err(damaged)
    }

    /// Who says what a piece has that does not follow the format: it was sealed so.
    fn wrong(&self, id: PieceId) -> impl FnOnce(Malformed) -> Error {
        let pack = self.state.places(&id).first().map(|place| place.pack);
        let object = pack.map_or_else(|| id.to_string(), |pack: PackName| self.id.pack(pack));
        move |why| Error::Damaged { object, why: why.0 }
    }

    pub(crate) fn leaf(&self, id: PieceId) -> Result<Leaf, Error> {
        let raw = self.read_piece(id, Class::Leaf)?;
        Leaf::parse(&raw).map_err(self.wrong(id))
    }

    pub(crate) fn branch(&self, id: PieceId) -> Result<Branch, Error> {
        let raw = self.read_piece(id, Class::Branch)?;
        Branch::parse(&raw).map_err(self.wrong(id))
    }
}

/// What was read last.
struct Kept<T> {
    most: usize,
    items: Vec<(PieceId, Rc<T>)>,
}

impl<T> Kept<T> {
    fn new(most: usize) -> Kept<T> {
        Kept {
            most,
            items: Vec::with_capacity(most),
        }
    }

    fn get(&mut self, id: PieceId, read: impl FnOnce() -> Result<T, Error>) -> Result<Rc<T>, Error> {
        let item = match self.items.iter().position(|(kept, _)| *kept == id) {
            Some(at) => self.items.remove(at).1,
            None => Rc::new(read()?),
        };
        if self.items.len() >= self.most {
            self.items.remove(0);
        }
        self.items.push((id, Rc::clone(&item)));
        Ok(item)
    }
}

/// A part of what is read.
enum Part<'a> {
    Bytes(&'a [u8]),
    Zeros(u64),
}

/// Reads a volume at a point.
pub struct Reader<'a> {
    vault: &'a Vault,
    volume: VolumePoint,
    pieces: Kept<Vec<u8>>,
    leaves: Kept<Leaf>,
    branches: Kept<Branch>,
}

impl Reader<'_> {
    /// The volume.
    #[must_use]
    pub fn volume(&self) -> &VolumePoint {
        &self.volume
    }

    /// The 64 MiB of this number; `None` is zeros.
    fn leaf(&mut self, number: u64) -> Result<Option<Rc<Leaf>>, Error> {
        let vault = self.vault;
        let at = (number / BRANCH_LEAVES as u64) as usize;
        let Some(Some(id)) = self.volume.branches.get(at).copied() else {
            return Ok(None);
        };
        let branch = self.branches.get(id, || vault.branch(id))?;
        let Some(id) = branch.leaves()[number as usize % BRANCH_LEAVES] else {
            return Ok(None);
        };
        self.leaves.get(id, || vault.leaf(id)).map(Some)
    }

    /// Hands over `length` bytes from `offset` on, in order and without a gap: bytes, or so many zeros.
    fn each(
        &mut self,
        offset: u64,
        length: u64,
        take: &mut dyn FnMut(u64, Part) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if offset > self.volume.bytes || length > self.volume.bytes - offset {
            return Err(Error::Range {
                offset,
                length,
                why: "ends behind the volume's end",
            });
        }
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let number = at / LEAF_BYTES;
            let first = number * LEAF_BYTES;
            let leaf_end = (first + LEAF_BYTES).min(end);
            let leaf = self.leaf(number)?;
            let extents = leaf.as_ref().map_or(&[][..], |leaf| leaf.extents());
            let from = extents.partition_point(|extent| first + u64::from(extent.end()) * BLOCK <= at);
            for extent in &extents[from..] {
                let start = first + u64::from(extent.start) * BLOCK;
                if start >= leaf_end {
                    break;
                }
                if start > at {
                    take(at, Part::Zeros(start - at))?;
                    at = start;
                }
                let stop = (first + u64::from(extent.end()) * BLOCK).min(leaf_end);
                let piece = self.piece(extent)?;
                let skip = u64::from(extent.skip) * BLOCK + (at - start);
                let bytes = piece.get(skip as usize..(skip + (stop - at)) as usize);
                let short = Malformed("a piece is shorter than the part of it that is used");
                let bytes = bytes.ok_or_else(|| self.vault.wrong(extent.piece)(short))?;
                take(at, Part::Bytes(bytes))?;
                at = stop;
            }
            if at < leaf_end {
                take(at, Part::Zeros(leaf_end - at))?;
                at = leaf_end;
            }
        }
        Ok(())
    }

    fn piece(&mut self, extent: &Extent) -> Result<Rc<Vec<u8>>, Error> {
        let vault = self.vault;
        self.pieces
            .get(extent.piece, || vault.read_piece(extent.piece, Class::Data))
    }

    /// How many bytes of the volume are no zeros, or were not found to be: what a restore reads.
    ///
    /// # Errors
    /// When a part of the tree is missing or damaged.
    pub fn data_bytes(&mut self) -> Result<u64, Error> {
        let mut blocks = 0;
        for number in 0..self.volume.bytes.div_ceil(LEAF_BYTES) {
            let leaf = self.leaf(number)?;
            let extents = leaf.iter().flat_map(|leaf| leaf.extents());
            blocks += extents.map(|extent| u64::from(extent.blocks)).sum::<u64>();
        }
        Ok(blocks * BLOCK)
    }

    /// Fills `buffer` from any byte of the volume on.
    ///
    /// # Errors
    /// When something of it is missing or damaged: the buffer then has nothing to be used.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len() as u64;
        self.each(offset, length, &mut |at, what| {
            let rest = &mut buffer[(at - offset) as usize..];
            match what {
                Part::Bytes(bytes) => rest[..bytes.len()].copy_from_slice(bytes),
                Part::Zeros(zeros) => rest[..zeros as usize].fill(0),
            }
            Ok(())
        })
    }

    /// Writes a range of the volume to a sink; the whole volume is `0` and its size.
    ///
    /// # Errors
    /// When something of it is missing or damaged, which is named, or the sink cannot take it. What came before was handed over.
    pub fn restore(&mut self, offset: u64, length: u64, sink: &mut dyn Sink) -> Result<(), Error> {
        self.each(offset, length, &mut |at, what| {
            let written = match what {
                Part::Bytes(bytes) => sink.write(at, bytes),
                Part::Zeros(zeros) => sink.zeros(at, zeros),
            };
            written.map_err(Error::Sink)
        })
    }
}
