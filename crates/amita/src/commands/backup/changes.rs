//! What a snapshot has, as a backup wants it: the ranges that changed since another one, or all of it.

use super::failure::carried;
use crate::commands::volume::data::{BLOCK_BYTES, Data, PIECE_BYTES, runs};
use crate::commands::volume::diff;
use amita_backup::{Change, Source};
use amita_client::Extent;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::ProgressBar;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

/// So many chunks are asked for what changed before anything of that is read: at most some thousand extents are remembered.
const CHUNKS: u64 = 64;
/// A session that has nothing to say says that it goes on.
const SIGN_EVERY: Duration = Duration::from_secs(300);

/// Ranges of an open snapshot, in order.
pub struct Changes {
    data: Data,
    size_bytes: u64,
    /// Where it is to be asked next what changed; none: nowhere.
    asks: Option<u64>,
    /// What is known to have changed and is not asked for yet.
    extents: VecDeque<Extent>,
    /// Reads under way.
    reading: usize,
    /// Up to here all is handed over.
    place: u64,
    signed: Instant,
    bar: ProgressBar,
    pub read_bytes: u64,
}

impl Changes {
    /// All of it.
    pub fn whole(data: Data, size_bytes: u64, bar: ProgressBar) -> Changes {
        let all = Extent {
            offset: 0,
            length: size_bytes,
            is_zero: false,
        };
        Changes {
            extents: VecDeque::from([all]),
            asks: None,
            ..Changes::since(data, size_bytes, bar)
        }
    }

    /// What changed since the snapshot that it was opened to be compared with.
    pub fn since(data: Data, size_bytes: u64, bar: ProgressBar) -> Changes {
        Changes {
            data,
            size_bytes,
            asks: Some(0),
            extents: VecDeque::new(),
            reading: 0,
            place: 0,
            signed: Instant::now(),
            bar,
            read_bytes: 0,
        }
    }

    /// Leaves the cluster.
    pub fn close(self) {
        self.bar.finish_and_clear();
        self.data.close();
    }

    /// Begins reads as long as there is room; a range of zeros waits until what lies before it has come.
    fn read(&mut self) -> Result<()> {
        while self.data.has_room() {
            let Some(front) = self.extents.front_mut().filter(|front| !front.is_zero) else {
                return Ok(());
            };
            let bytes = PIECE_BYTES.min(front.length);
            self.data.read(front.offset, bytes)?;
            self.reading += 1;
            front.offset += bytes;
            front.length -= bytes;
            if front.length == 0 {
                self.extents.pop_front();
            }
        }
        Ok(())
    }

    fn next_change(&mut self) -> Result<Option<Change>> {
        interrupt::check()?;
        self.read()?;
        if self.reading > 0 {
            let Some((offset, done)) = self.data.next()? else {
                return Err(Failure::new("a read of the volume was lost"));
            };
            self.reading -= 1;
            let mut bytes = vec![0; done.payload.len()];
            done.payload.copy_to(&mut bytes);
            let length = bytes.len() as u64;
            self.place = offset + length;
            self.read_bytes += length;
            let change = match runs(&bytes, BLOCK_BYTES).is_empty() {
                true => Change::Zeros { offset, length },
                false => Change::Bytes { offset, bytes },
            };
            return Ok(Some(change));
        }
        if let Some(Extent { offset, length, .. }) = self.extents.pop_front() {
            self.place = offset + length;
            return Ok(Some(Change::Zeros { offset, length }));
        }
        let Some(from) = self.asks else { return Ok(None) };
        let extents = &mut self.extents;
        self.asks = diff::each(from, self.size_bytes, CHUNKS, &mut self.data, |extent| {
            extents.push_back(extent);
            Ok(true)
        })?;
        // Where nothing changed for long this is asked for all the same: a range of no bytes.
        self.place = self
            .asks
            .unwrap_or(self.size_bytes)
            .min(self.extents.front().map_or(u64::MAX, |front| front.offset));
        Ok(Some(Change::Zeros {
            offset: self.place,
            length: 0,
        }))
    }
}

impl Source for Changes {
    fn next(&mut self) -> io::Result<Option<Change>> {
        let change = self.next_change().map_err(carried)?;
        self.bar.set_position(self.place);
        Ok(change)
    }

    fn wants_sign(&mut self) -> bool {
        let wants = self.signed.elapsed() > SIGN_EVERY;
        if wants {
            self.signed = Instant::now();
        }
        wants
    }
}
