//! One request, and its pieces under way.

use super::{MOST_AT_ONCE, WINDOW};
use crate::payload::{Done, Payload};
use amita_frontend::{Pieces, ZeroStep, Zeroes};
use amita_reactor::{Pool, Slice};
use amita_types::VolumeId;
use amita_types::io::{IoError, Op, Payload as Found};

/// What is to be done, with what of it has not been submitted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Read { bytes: u32, cut: Pieces },
    Write { cut: Pieces },
    Discard { cut: Pieces },
    Zero { cut: Zeroes },
}

/// A piece: on its way, or landed.
#[derive(Debug)]
struct Flight {
    op: Op,
    landed: bool,
    /// What a read has brought.
    part: Slice,
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) volume: VolumeId,
    tag: u64,
    offset: u64,
    pub(super) work: Work,
    data: Slice,
    /// By their numbers. A window's numbers are used again.
    flights: Vec<Flight>,
    flying: usize,
    failure: Option<IoError>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            volume: VolumeId::default(),
            tag: 0,
            offset: 0,
            work: Work::Write { cut: Pieces::default() },
            data: Slice::default(),
            flights: Vec::new(),
            flying: 0,
            failure: None,
        }
    }
}

impl Request {
    /// Makes a freed one (or a fresh one) this.
    pub(super) fn begin(&mut self, volume: VolumeId, tag: u64, offset: u64, work: Work, data: Slice) {
        self.volume = volume;
        self.tag = tag;
        self.offset = offset;
        self.work = work;
        self.data = data;
        self.flights.clear();
        self.flying = 0;
        self.failure = None;
    }

    /// Does it go by a window (or all at once)?
    pub(super) fn is_windowed(&self) -> bool {
        matches!(self.work, Work::Discard { .. } | Work::Zero { .. })
    }

    /// The room that it needs to begin.
    pub(super) fn pieces_at_once(&self) -> usize {
        if self.is_windowed() { WINDOW } else { MOST_AT_ONCE }
    }

    /// What to submit next; None: nothing now. After a failure nothing more is begun.
    pub(super) fn next_op(&mut self) -> Option<Op> {
        if self.is_windowed() && (self.flying >= WINDOW || self.failure.is_some()) {
            return None;
        }
        match &mut self.work {
            Work::Read { cut, .. } => cut.next().map(|piece| Op::Read {
                offset: piece.offset,
                length: piece.length,
            }),
            Work::Write { cut } => cut.next().map(|piece| Op::Write {
                offset: piece.offset,
                length: piece.length,
            }),
            Work::Discard { cut } => cut.next().map(|piece| Op::Clear {
                offset: piece.offset,
                length: piece.length.into(),
            }),
            Work::Zero { cut } => cut.next().map(|step| match step {
                ZeroStep::Write(piece) => Op::Write {
                    offset: piece.offset,
                    length: piece.length,
                },
                ZeroStep::Clear(piece) => Op::Clear {
                    offset: piece.offset,
                    length: piece.length.into(),
                },
            }),
        }
    }

    /// A piece is submitted; its number.
    pub(super) fn take_off(&mut self, op: Op) -> u32 {
        self.flying += 1;
        let flight = Flight {
            op,
            landed: false,
            part: Slice::default(),
        };
        let free = match self.is_windowed() {
            true => self.flights.iter().position(|flight| flight.landed),
            false => None,
        };
        match free {
            Some(number) => {
                self.flights[number] = flight;
                number as u32
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        }
    }

    /// The bytes that a piece of a write writes.
    pub(super) fn data_of(&mut self, offset: u64, length: u32) -> Slice {
        let (start, length) = ((offset - self.offset) as usize, length as usize);
        if start + length == self.data.len() {
            // The last one: nobody asks for the rest any more.
            self.data.skip(start);
            return std::mem::take(&mut self.data);
        }
        self.data.slice(start..start + length)
    }

    /// A piece has ended.
    pub(super) fn land(&mut self, number: u32, result: Result<(), IoError>, found: Found, pool: &Pool) {
        let Some(flight) = self.flights.get_mut(number as usize).filter(|flight| !flight.landed) else {
            return;
        };
        flight.landed = true;
        self.flying -= 1;
        let result = result.and_then(|()| match (flight.op, found) {
            (Op::Read { length, .. }, Found::Data(data)) if data.len() == length as usize => {
                flight.part = data;
                Ok(())
            }
            (Op::Read { length, .. }, Found::Zeros(zeros)) if zeros == length => {
                flight.part = pool.zeros(length as usize);
                Ok(())
            }
            // What is shorter or longer would shift all that follows.
            (Op::Read { .. }, _) => Err(IoError::Damaged),
            _ => Ok(()),
        });
        if let Err(why) = result {
            // Of a write that may have been done in part nobody knows more than of one that was lost.
            let graver = why == IoError::Lost || self.failure.is_none();
            self.failure = if graver { Some(why) } else { self.failure };
        }
    }

    /// Has all of it been submitted, and has all of that ended?
    pub(super) fn is_complete(&self) -> bool {
        let submitted = match &self.work {
            Work::Read { cut, .. } | Work::Write { cut } => cut.is_empty(),
            Work::Discard { cut } => cut.is_empty() || self.failure.is_some(),
            Work::Zero { cut } => cut.is_empty() || self.failure.is_some(),
        };
        submitted && self.flying == 0
    }

    /// What the caller is told.
    pub(super) fn end(&mut self, spare: &mut Vec<Vec<Slice>>) -> Done {
        self.data = Slice::default();
        let mut payload = Payload::default();
        if self.failure.is_none() && matches!(self.work, Work::Read { .. }) {
            let mut parts = self.flights.iter_mut().map(|flight| std::mem::take(&mut flight.part));
            payload.first = parts.next().unwrap_or_default();
            if parts.len() > 0 {
                payload.rest = spare.pop().unwrap_or_default();
                payload.rest.extend(parts);
            }
        }
        // What was read in vain lets its memory go.
        self.flights.clear();
        Done {
            tag: self.tag,
            result: self.failure.map_or(Ok(()), Err),
            payload,
        }
    }
}
