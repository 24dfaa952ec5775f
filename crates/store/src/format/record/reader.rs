//! Reading records that came from a disk: everything is checked.

use super::{Blocks, FLAG_LAST, Head, RawEntry, RawRun, Record, Roll, RollEntry, Run, get_fence, kind};
use crate::format::Slot;
use amita_cluster::message::MAX_PIECES;
use amita_cluster::{BlockIndex, BlockRange, ChunkId, ChunkIndex, Version, VolumeId};
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
            kind::WRITE => Self::write(body),
            kind::CLEAR => {
                let (raw, chunk, range) = Self::blocks(body)?;
                Ok(Record::Clear {
                    chunk,
                    version: Version(raw.version),
                    previous: Version(raw.previous),
                    range,
                })
            }
            kind::ROLL => Self::roll(body, head.flags & FLAG_LAST != 0),
            kind::FENCE => get_fence(body).map(Record::Fence),
            _ => Err("a record is of an unknown kind"),
        }
    }

    fn blocks(body: &[u8]) -> Result<(Blocks, ChunkId, BlockRange), &'static str> {
        let raw = Blocks::get(body).ok_or("a record is cut off")?;
        let range = BlockRange::new(raw.first, raw.count);
        if !range.is_inside(amita_cluster::MAX_BLOCKS_PER_CHUNK) {
            return Err("a record names blocks outside a chunk");
        }
        let chunk = ChunkId {
            volume: VolumeId(raw.volume),
            index: ChunkIndex(raw.chunk),
        };
        Ok((raw, chunk, range))
    }

    fn write(body: &[u8]) -> Result<Record, &'static str> {
        let (raw, chunk, range) = Self::blocks(body)?;
        let count = usize::from(raw.count);
        let runs = usize::from(raw.runs);
        let lists = body.get(Blocks::BYTES..).unwrap_or_default();
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
            chunk,
            version: Version(raw.version),
            previous: Version(raw.previous),
            range,
            runs,
            sums: raw_sums.chunks_exact(4).map(sum).collect(),
        })
    }

    fn roll(body: &[u8], last: bool) -> Result<Record, &'static str> {
        let raw = Roll::get(body).ok_or("a roll-forward is cut off")?;
        let list = body.get(Roll::BYTES..).unwrap_or_default();
        if list.len() != usize::from(raw.count) * RawEntry::BYTES {
            return Err("a roll-forward's list has the wrong length");
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
            .any(|entry| u32::from(entry.block.0) >= amita_cluster::MAX_BLOCKS_PER_CHUNK)
        {
            return Err("a roll-forward names a block outside a chunk");
        }
        Ok(Record::Roll {
            chunk: ChunkId {
                volume: VolumeId(raw.volume),
                index: ChunkIndex(raw.chunk),
            },
            version: Version(raw.version),
            previous: Version(raw.previous),
            entries,
            last,
        })
    }
}

impl Iterator for RecordReader<'_> {
    type Item = Result<Record, &'static str>;

    fn next(&mut self) -> Option<Result<Record, &'static str>> {
        (!self.rest.is_empty()).then(|| self.read())
    }
}
