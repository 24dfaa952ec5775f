//! What a point has of a volume is read, and sent to the other end in frames: all of it, or what differs from another point by the versions of its
//! blocks (decisions 045 and 081).

use super::wire::{self, Frame, MAX_DATA_BYTES};
use crate::admin::Described;
use crate::commands::pace::{self, Pace, Rate};
use crate::commands::volume::data::{BLOCK_BYTES, Content, Data, Way, runs};
use crate::commands::volume::diff;
use crate::commands::volume::gateway::problem;
use amita_api::{Going, MirrorRead, Problem, Sink};
use amita_client::Extent;
use amita_control::admin;
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Kind, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// It is said where it is so often, and once a second at a lower rate: what the other end loses when it goes on elsewhere.
const REACHED_EVERY: u64 = 4 << 20;
/// How often it is looked whether it is wanted still, while the rate says no.
const LOOK: Duration = Duration::from_millis(100);

/// Sends it. The sink is told the point's size of the volume before the first frame.
///
/// # Errors
/// It is not to be had, cannot be read or compared; or what the sink says, or who says that it is not wanted.
pub(crate) fn send(
    (way, meta): (&Way, &dyn Transact),
    read: &MirrorRead<'_>,
    sink: &mut dyn Sink,
    going: &Going,
) -> std::result::Result<(), Problem> {
    let (mut data, how) = open(way, meta, read).map_err(problem)?;
    let mut sender = Sender {
        sink,
        going,
        out: Vec::new(),
        reached: read.after,
        refused: None,
        rate: read.limit_bytes_per_s.filter(|limit| *limit > 0),
        pace: Pace::new(),
    };
    let sent = sender.all(&mut data, read.after, how);
    let refused = sender.refused.take();
    data.close();
    match refused {
        // What the sink says is told as it is.
        Some(why) => Err(why),
        None => sent.map_err(|failure| going.check().err().unwrap_or_else(|| problem(failure))),
    }
}

/// How it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct How {
    /// The volume's size at the point.
    size_bytes: u64,
    /// Only what differs from the base.
    differs: bool,
    /// That was asked for, and is not known.
    whole: bool,
}

/// Behind a revert versions say nothing of what was before (decision 056): the base is of other data than the point, and all of the point is sent.
/// So it is where the volume became smaller in between: what a smaller one has is not compared with a larger one.
/// That is asked before they are compared, for who is refused that would ask the same again for ever.
fn base_of<'a>(meta: &dyn Transact, read: &MirrorRead<'a>) -> Result<Option<&'a str>> {
    let Some(base) = read.base else { return Ok(None) };
    let all = admin::snapshots(meta, read.volume).described()?;
    let named = |name: &str| all.iter().find(|found| found.name == name);
    let can_be_compared = match (named(base), named(read.snapshot)) {
        (Some(base), Some(point)) => base.volume == point.volume && base.size_bytes <= point.size_bytes,
        // What is not there is told by who looks for it.
        _ => true,
    };
    Ok(Some(base).filter(|_| can_be_compared))
}

/// The point's snapshot, and how it is sent.
fn open(way: &Way, meta: &dyn Transact, read: &MirrorRead<'_>) -> Result<(Data, How)> {
    let base = base_of(meta, read)?;
    let (data, size_bytes) = match base {
        Some(base) => {
            let sides = diff::sides(meta, read.volume, base, Some(read.snapshot))?;
            (sides.open(way)?, sides.size_bytes)
        }
        None => {
            let found = admin::snapshot(meta, read.volume, read.snapshot).described()?;
            (
                way.open(&format!("{}@{}", read.volume, read.snapshot))?,
                found.size_bytes,
            )
        }
    };
    let how = How {
        size_bytes,
        differs: base.is_some(),
        whole: base.is_none() && read.base.is_some(),
    };
    if data.size_bytes() < size_bytes {
        data.close();
        let what = format!("{}@{} was changed meanwhile", read.volume, read.snapshot);
        return Err(Failure::new(what).kind(Kind::Conflict));
    }
    Ok((data, how))
}

/// On the way to the other end.
struct Sender<'a> {
    sink: &'a mut dyn Sink,
    going: &'a Going,
    /// Frames that are not handed on yet.
    out: Vec<u8>,
    /// Where it was said last that everything before was sent.
    reached: u64,
    /// Why the sink takes no more.
    refused: Option<Problem>,
    rate: Rate,
    pace: Pace,
}

impl Sender<'_> {
    fn all(&mut self, data: &mut Data, after: u64, how: How) -> Result<()> {
        let How {
            size_bytes,
            differs,
            whole,
        } = how;
        if let Err(why) = self.sink.begin(size_bytes) {
            return Err(self.refuse(why));
        }
        self.frame(&Frame::Begin { size_bytes, whole })?;
        let block = BLOCK_BYTES as u64;
        let mut at = (after - after % block).min(size_bytes);
        while at < size_bytes {
            let (extents, until) = diff::next(data, (at, size_bytes), differs)?;
            self.extents(data, extents.into())?;
            self.said(until)?;
            at = until;
        }
        self.frame(&Frame::End(size_bytes))?;
        self.flush()
    }

    /// In parts that keep to the rate. Of a part all is asked for at once: hosts change blocks here and there.
    fn extents(&mut self, data: &mut Data, mut extents: VecDeque<Extent>) -> Result<()> {
        loop {
            let part = pace::part(&mut extents, pace::window(self.rate));
            if part.is_empty() {
                return Ok(());
            }
            self.take(pace::data_bytes(&part))?;
            data.each_extent(&part, |offset, content| match content {
                Content::Zeros(length) => self.frame(&Frame::Zeros { offset, length }),
                Content::Bytes(bytes) => self.piece(offset, bytes),
            })?;
        }
    }

    fn take(&mut self, bytes: u64) -> Result<()> {
        let (rate, going) = (self.rate, self.going);
        let goes = || going.check().map_err(|why| Failure::new(why.detail));
        goes()?;
        self.pace.take(
            bytes,
            || rate,
            |time| {
                std::thread::sleep(time.min(LOOK));
                goes()
            },
        )
    }

    fn reached_every(&self) -> u64 {
        self.rate.map_or(REACHED_EVERY, |rate| rate.min(REACHED_EVERY))
    }

    /// Runs of blocks that are zeros, or are not.
    fn piece(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.going.check().map_err(|why| Failure::new(why.detail))?;
        let mut done = 0;
        for (start, stop) in runs(bytes, BLOCK_BYTES) {
            self.zeros(offset, done, start)?;
            for (index, part) in bytes[start..stop].chunks(MAX_DATA_BYTES as usize).enumerate() {
                self.frame(&Frame::Data {
                    offset: offset + start as u64 + index as u64 * MAX_DATA_BYTES,
                    bytes: part,
                })?;
            }
            done = stop;
        }
        self.zeros(offset, done, bytes.len())?;
        let end = offset + bytes.len() as u64;
        match end.saturating_sub(self.reached) >= self.reached_every() {
            true => self.said(end),
            false => Ok(()),
        }
    }

    fn zeros(&mut self, offset: u64, start: usize, stop: usize) -> Result<()> {
        match start < stop {
            true => self.frame(&Frame::Zeros {
                offset: offset + start as u64,
                length: (stop - start) as u64,
            }),
            false => Ok(()),
        }
    }

    /// Everything before was sent: what is not handed on yet is. It is said once.
    fn said(&mut self, at: u64) -> Result<()> {
        if at > self.reached {
            self.reached = at;
            self.frame(&Frame::Reached(at))?;
        }
        self.flush()
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Result<()> {
        wire::write(&mut self.out, frame);
        match self.out.len() as u64 >= MAX_DATA_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.out);
        match self.sink.write(bytes) {
            Ok(()) => Ok(()),
            Err(why) => Err(self.refuse(why)),
        }
    }

    fn refuse(&mut self, why: Problem) -> Failure {
        let failure = Failure::new(why.detail.clone());
        self.refused = Some(why);
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{OwnedFrame, Reader};
    use super::*;

    #[derive(Default)]
    struct Taken {
        bytes: Vec<u8>,
        pieces: usize,
        most: Option<usize>,
    }

    impl Sink for Taken {
        fn begin(&mut self, _: u64) -> std::result::Result<(), Problem> {
            Ok(())
        }

        fn write(&mut self, bytes: Vec<u8>) -> std::result::Result<(), Problem> {
            if self.most.is_some_and(|most| self.pieces >= most) {
                return Err(Problem::new(amita_api::Code::Incomplete, "nobody takes it"));
            }
            self.pieces += 1;
            self.bytes.extend(bytes);
            Ok(())
        }
    }

    fn sender<'a>(sink: &'a mut Taken, going: &'a Going) -> Sender<'a> {
        Sender {
            sink,
            going,
            out: Vec::new(),
            reached: 0,
            refused: None,
            rate: None,
            pace: Pace::new(),
        }
    }

    /// An operator reverted the volume between the two: what differs is not known, and the mirror goes on all the same.
    #[test]
    fn behind_a_revert_all_is_sent_whatever_was_asked_for() {
        use amita_metadata::Call;
        use amita_metadata::model::State;
        use amita_types::map::{self, Snapshot, SnapshotState};
        use amita_types::{Generation, SnapshotId, VolumeId};

        let meta = std::sync::Mutex::new(State::default());
        let put = |key: String, value: &serde_json::Value| {
            let bytes = serde_json::to_vec(value).unwrap();
            meta.txn(&Call::put(key, bytes)).unwrap();
        };
        let (before, now) = (VolumeId(5), VolumeId(6));
        let volume = map::Volume {
            generation: Generation(9),
            former: vec![before],
            ..map::Volume::new(now, "db", "main", 1 << 30)
        };
        put(map::volume_key("db"), &serde_json::to_value(&volume).unwrap());
        let mib = 1 << 20;
        for (data, number, name, size_bytes) in [
            (before, 1, "p1", mib),
            (now, 2, "p2", mib),
            (now, 3, "p3", mib),
            (now, 4, "small", mib / 2),
            (now, 5, "p5", 2 * mib),
        ] {
            let snapshot = Snapshot {
                volume: data,
                number: SnapshotId(number),
                name: name.to_owned(),
                size_bytes,
                taken_at: 1,
                labels: std::collections::BTreeMap::new(),
                protected: true,
                clones: 0,
                set: None,
                mark: false,
                hidden: false,
                state: SnapshotState::Sealed(Generation(9)),
            };
            put(
                map::snapshot_key(data, snapshot.number),
                &serde_json::to_value(&snapshot).unwrap(),
            );
        }
        let base = |base, snapshot| {
            let read = MirrorRead {
                volume: "db",
                snapshot,
                base,
                after: 0,
                limit_bytes_per_s: None,
            };
            base_of(&meta, &read).unwrap().map(str::to_owned)
        };
        assert_eq!(base(Some("p1"), "p2"), None);
        assert_eq!(base(Some("p2"), "p3"), Some("p2".to_owned()));
        // Nor where it became smaller in between, whatever it was later.
        assert_eq!(base(Some("p3"), "small"), None);
        assert_eq!(base(Some("p3"), "p5"), Some("p3".to_owned()));
        assert_eq!(base(None, "p3"), None);
        // It is told that it is not there, and not taken for a revert.
        assert_eq!(base(Some("p0"), "p3"), Some("p0".to_owned()));
    }

    #[test]
    fn a_piece_is_told_as_runs_of_data_and_of_zeros() {
        let (mut taken, going) = (Taken::default(), Going::default());
        let mut sender = sender(&mut taken, &going);
        let mut bytes = vec![0; 4 * BLOCK_BYTES];
        bytes[BLOCK_BYTES] = 1;
        let begin = Frame::Begin {
            size_bytes: 1 << 30,
            whole: false,
        };
        sender.frame(&begin).unwrap();
        let offset = REACHED_EVERY - bytes.len() as u64;
        sender.piece(offset, &bytes).unwrap();
        assert!(sender.out.is_empty(), "where it is was said, and handed on");
        // A window ends where that was: it is not said again, for the other end refuses what leads nowhere.
        sender.said(REACHED_EVERY).unwrap();
        let mut reader = Reader::new(taken.bytes.as_slice());
        let mut told = Vec::new();
        while let Some(frame) = reader.next().unwrap() {
            told.push(frame);
        }
        let block = BLOCK_BYTES as u64;
        let data = OwnedFrame::Data {
            offset: offset + block,
            bytes: bytes[BLOCK_BYTES..2 * BLOCK_BYTES].to_vec(),
        };
        let zeros = |offset, length| OwnedFrame::Zeros { offset, length };
        assert_eq!(
            told,
            [
                OwnedFrame::Begin {
                    size_bytes: 1 << 30,
                    whole: false,
                },
                zeros(offset, block),
                data,
                zeros(offset + 2 * block, 2 * block),
                OwnedFrame::Reached(REACHED_EVERY),
            ]
        );
    }

    #[test]
    fn what_the_sink_says_is_kept() {
        let (going, full) = (Going::default(), vec![1; MAX_DATA_BYTES as usize]);
        let mut taken = Taken {
            most: Some(1),
            ..Taken::default()
        };
        let mut sender = sender(&mut taken, &going);
        sender.piece(0, &full).unwrap();
        assert!(sender.piece(MAX_DATA_BYTES, &full).is_err());
        assert_eq!(sender.refused.map(|why| why.code).as_deref(), Some("incomplete"));
        assert_eq!(taken.pieces, 1);
    }
}
