//! Reading records that came from a disk: everything is checked.

use super::{
    Blocks, ENTRY_OWN, FLAG_LAST, Head, Mark, RawClone, RawClose, RawDrop, RawEntry, RawFrame, RawJoin, RawMark,
    RawMend, RawPut, RawRun, RawWhole, Record, Roll, RollEntry, Run, get_fence, kind,
};
use crate::format::Slot;
use amita_types::message::MAX_PIECES;
use amita_types::{BlockIndex, BlockRange, ChunkId, ChunkIndex, SnapshotId, Version, VolumeId};
use arrayvec::ArrayVec;

/// Reads the records of a page. An error says what is wrong: the checksum was right, so a program wrote it so; what
/// follows it means nothing.
#[derive(Clone, Debug)]
pub struct RecordReader<'a> {
    rest: &'a [u8],
}

impl<'a> RecordReader<'a> {
    /// The records in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> RecordReader<'a> {
        RecordReader { rest: bytes }
    }

    fn read(&mut self) -> Result<Record, &'static str> {
        let head = Head::get(self.rest).ok_or("a record is cut off")?;
        let bytes = self.rest.get(..usize::from(head.bytes)).ok_or("a record is cut off")?;
        let body = bytes.get(Head::BYTES..).ok_or("a record is too short")?;
        self.rest = &self.rest[bytes.len()..];
        match head.kind {
            kind::WRITE => Self::write(Self::blocks(body)?),
            kind::CLEAR => Self::clear(Self::blocks(body)?),
            kind::ROLL => Self::roll(Roll::get(body), body.get(Roll::BYTES..), head.flags & FLAG_LAST != 0),
            kind::FENCE => get_fence(body).map(Record::Fence),
            kind::CLONE => Self::clone(body, head.flags & FLAG_LAST != 0),
            kind::DROP => {
                let raw = RawDrop::get(body).ok_or("a drop is cut off")?;
                if raw.snapshot != SnapshotId::HEAD.0 && raw.kept_for != SnapshotId::HEAD.0 {
                    return Err("a drop of a snapshot keeps the chunk for another one");
                }
                Ok(Record::Drop {
                    chunk: id(raw.volume, raw.chunk),
                    snapshot: SnapshotId(raw.snapshot),
                    kept_for: SnapshotId(raw.kept_for),
                })
            }
            kind::JOIN => {
                let raw = RawJoin::get(body).ok_or("a join is cut off")?;
                Ok(Record::Join {
                    chunk: id(raw.volume, raw.chunk),
                    version: Version(raw.version),
                    previous: Version(raw.previous),
                    base: Version(raw.base),
                    snapshot: SnapshotId(raw.snapshot),
                })
            }
            kind::MEND => {
                let raw = RawMend::get(body).ok_or("a mend is cut off")?;
                Ok(Record::Mend {
                    chunk: id(raw.volume, raw.chunk),
                    version: Version(raw.version),
                    entries: entries(body.get(RawMend::BYTES..), raw.count)?,
                })
            }
            kind::WHOLE => {
                let raw = RawWhole::get(body).ok_or("what says that a chunk is whole is cut off")?;
                Ok(Record::Whole {
                    chunk: id(raw.volume, raw.chunk),
                    version: Version(raw.version),
                    born: None,
                })
            }
            kind::FRAME => {
                let raw = RawFrame::get(body).ok_or("a frame is cut off")?;
                if raw.above >= raw.to {
                    return Err("a frame stands for no snapshot");
                }
                Ok(Record::Frame {
                    chunk: id(raw.volume, raw.chunk),
                    version: Version(raw.version),
                    above: SnapshotId(raw.above),
                    to: SnapshotId(raw.to),
                    state: Version(raw.state),
                })
            }
            kind::PUT => Self::put(body),
            kind::CLOSE => {
                let raw = RawClose::get(body).ok_or("what says that a state is closed is cut off")?;
                let (chunk, version) = (id(raw.volume, raw.chunk), Version(raw.version));
                Ok(match SnapshotId(raw.to) {
                    SnapshotId::HEAD => Record::Whole {
                        chunk,
                        version,
                        born: Some(SnapshotId(raw.born)),
                    },
                    to => Record::Close { chunk, version, to },
                })
            }
            kind::MARK => {
                let raw = RawMark::get(body).ok_or("a mark is cut off")?;
                if raw.above >= raw.to {
                    return Err("a mark stands for no snapshot");
                }
                Ok(Record::Mark {
                    chunk: id(raw.volume, raw.chunk),
                    mark: Mark {
                        above: SnapshotId(raw.above),
                        to: SnapshotId(raw.to),
                        version: Version(raw.version),
                    },
                })
            }
            _ => Err("a record is of an unknown kind"),
        }
    }

    fn blocks(body: &'a [u8]) -> Result<(Blocks, &'a [u8]), &'static str> {
        let raw = Blocks::get(body).ok_or("a record is cut off")?;
        Ok((raw, body.get(Blocks::BYTES..).unwrap_or_default()))
    }

    fn range(raw: &Blocks) -> Result<BlockRange, &'static str> {
        let range = BlockRange::new(raw.first, raw.count);
        if !range.is_inside(amita_types::MAX_BLOCKS_PER_CHUNK) {
            return Err("a record names blocks outside a chunk");
        }
        Ok(range)
    }

    fn clear((raw, _): (Blocks, &[u8])) -> Result<Record, &'static str> {
        Ok(Record::Clear {
            chunk: id(raw.volume, raw.chunk),
            version: Version(raw.version),
            previous: Version(raw.previous),
            snapshot: SnapshotId(raw.snapshot),
            range: Self::range(&raw)?,
        })
    }

    fn write((raw, lists): (Blocks, &[u8])) -> Result<Record, &'static str> {
        let range = Self::range(&raw)?;
        let count = usize::from(raw.count);
        let runs = usize::from(raw.runs);
        if count > MAX_PIECES || runs > count || lists.len() != runs * RawRun::BYTES + count * 4 {
            return Err("a write's lists have the wrong length");
        }
        let (raw_runs, raw_sums) = lists.split_at(runs * RawRun::BYTES);
        let runs: ArrayVec<Run, MAX_PIECES> = raw_runs
            .chunks_exact(RawRun::BYTES)
            .filter_map(RawRun::get)
            .map(|run| Run {
                slot: Slot(run.slot),
                count: run.count,
            })
            .collect();
        if runs.iter().map(|run| u64::from(run.count)).sum::<u64>() != count as u64
            || runs.iter().any(|run| run.slot.0.checked_add(run.count).is_none())
        {
            return Err("a write has not as many slots as blocks");
        }
        let sum = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("cut into 4"));
        Ok(Record::Write {
            chunk: id(raw.volume, raw.chunk),
            version: Version(raw.version),
            previous: Version(raw.previous),
            snapshot: SnapshotId(raw.snapshot),
            range,
            runs,
            sums: raw_sums.chunks_exact(4).map(sum).collect(),
        })
    }

    fn roll(raw: Option<Roll>, list: Option<&[u8]>, last: bool) -> Result<Record, &'static str> {
        let raw = raw.ok_or("a roll-forward is cut off")?;
        Ok(Record::Roll {
            chunk: id(raw.volume, raw.chunk),
            version: Version(raw.version),
            previous: Version(raw.previous),
            snapshot: SnapshotId(raw.snapshot),
            entries: entries(list, raw.count)?,
            last,
        })
    }

    fn put(body: &[u8]) -> Result<Record, &'static str> {
        let raw = RawPut::get(body).ok_or("what a state gets is cut off")?;
        let list = body.get(RawPut::BYTES..);
        let entries = entries(list, raw.count)?;
        if !entries.windows(2).all(|pair| pair[0].block < pair[1].block) {
            return Err("a state gets entries in disorder");
        }
        let raws = list
            .unwrap_or_default()
            .chunks_exact(RawEntry::BYTES)
            .filter_map(RawEntry::get);
        let own: Vec<bool> = raws.map(|entry| entry.flags & ENTRY_OWN != 0).collect();
        let nothing = |(entry, own): (&RollEntry, &bool)| *own && entry.slot == Slot::NONE;
        if entries.iter().zip(&own).any(nothing) {
            return Err("a state gets a slot that there is not");
        }
        Ok(Record::Put {
            chunk: id(raw.volume, raw.chunk),
            version: Version(raw.version),
            to: SnapshotId(raw.to),
            entries,
            own,
        })
    }

    fn clone(body: &[u8], last: bool) -> Result<Record, &'static str> {
        let raw = RawClone::get(body).ok_or("a clone is cut off")?;
        Ok(Record::Clone {
            chunk: id(raw.volume, raw.chunk),
            origin: id(raw.origin_volume, raw.origin_chunk),
            version: Version(raw.version),
            entries: entries(body.get(RawClone::BYTES..), raw.count)?,
            last,
        })
    }
}

fn id(volume: u64, chunk: u64) -> ChunkId {
    ChunkId {
        volume: VolumeId(volume),
        index: ChunkIndex(chunk),
    }
}

fn entries(list: Option<&[u8]>, count: u16) -> Result<Vec<RollEntry>, &'static str> {
    let list = list.unwrap_or_default();
    if list.len() != usize::from(count) * RawEntry::BYTES {
        return Err("a list of entries has the wrong length");
    }
    let entries: Vec<RollEntry> = list
        .chunks_exact(RawEntry::BYTES)
        .filter_map(RawEntry::get)
        .map(|entry| RollEntry {
            block: BlockIndex(entry.block),
            version: Version(entry.version),
            slot: Slot(entry.slot),
            sum: entry.sum,
        })
        .collect();
    if entries
        .iter()
        .any(|entry| u32::from(entry.block.0) >= amita_types::MAX_BLOCKS_PER_CHUNK)
    {
        return Err("an entry names a block outside a chunk");
    }
    Ok(entries)
}

impl Iterator for RecordReader<'_> {
    type Item = Result<Record, &'static str>;

    fn next(&mut self) -> Option<Result<Record, &'static str>> {
        (!self.rest.is_empty()).then(|| self.read())
    }
}
