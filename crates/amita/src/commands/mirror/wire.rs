//! What a point has of a volume, on its way to the other end: frames (decision 081).
//!
//! ```text
//! kind u8 | offset u64 | length u64 | crc32c u32 | payload, of `Data` alone
//! ```
//!
//! All integers are big-endian. The checksum is over all of the frame but itself. The first frame is `Begin`, the last one `End`, and in between
//! extents ascend, each of which has bytes: what ends without `End` was cut short. The offset of `Begin` is 0, or 1 where a difference was asked for
//! and all of the volume comes, for what differs is not known; whoever does not know that refuses it.

#[cfg(test)]
mod tests;

use amita_terminal::error::{Failure, Result};
use amita_types::crc32c;
use std::io::{ErrorKind, Read};

/// The longest payload.
pub const MAX_DATA_BYTES: u64 = 1 << 20;
/// What a checksum is over, of a frame's head.
const SUMMED_BYTES: usize = 17;
/// A frame's head.
const HEAD_BYTES: usize = 21;

const BEGIN: u8 = 0;
const DATA: u8 = 1;
const ZEROS: u8 = 2;
const REACHED: u8 = 3;
const END: u8 = 4;
/// What stands as the offset of a [`BEGIN`] where all of the volume comes, whatever was asked for.
const WHOLE: u64 = 1;

/// A frame that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// What comes is of a volume of this size.
    Begin {
        /// As the point has it.
        size_bytes: u64,
        /// A difference was asked for, which is not known: all of it comes, and what is not sent as data is zeros.
        whole: bool,
    },
    /// Bytes.
    Data {
        /// Where they are.
        offset: u64,
        /// At most [`MAX_DATA_BYTES`].
        bytes: &'a [u8],
    },
    /// Zeros.
    Zeros {
        /// Where they are.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Everything before was sent.
    Reached(u64),
    /// All of it was: the volume's size.
    End(u64),
}

/// A frame that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedFrame {
    /// See [`Frame::Begin`].
    Begin {
        /// As the point has it.
        size_bytes: u64,
        /// See there.
        whole: bool,
    },
    /// See [`Frame::Data`].
    Data {
        /// Where they are.
        offset: u64,
        /// At least one, and at most [`MAX_DATA_BYTES`].
        bytes: Vec<u8>,
    },
    /// See [`Frame::Zeros`].
    Zeros {
        /// Where they are.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// See [`Frame::Reached`].
    Reached(u64),
    /// See [`Frame::End`].
    End(u64),
}

/// Puts a frame behind what is there.
///
/// # Panics
/// Where there are more bytes than one frame has.
pub fn write(out: &mut Vec<u8>, frame: &Frame<'_>) {
    let (kind, offset, length, payload): (u8, u64, u64, &[u8]) = match *frame {
        Frame::Begin { size_bytes, whole } => (BEGIN, if whole { WHOLE } else { 0 }, size_bytes, &[]),
        Frame::Data { offset, bytes } => (DATA, offset, bytes.len() as u64, bytes),
        Frame::Zeros { offset, length } => (ZEROS, offset, length, &[]),
        Frame::Reached(offset) => (REACHED, offset, 0, &[]),
        Frame::End(offset) => (END, offset, 0, &[]),
    };
    assert!(
        payload.len() as u64 <= MAX_DATA_BYTES,
        "{} bytes in one frame",
        payload.len()
    );
    let begin = out.len();
    out.reserve(HEAD_BYTES + payload.len());
    out.push(kind);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(payload);
    let sum = crc32c(&out[begin..]).to_be_bytes();
    // It stands before the payload.
    let at = begin + SUMMED_BYTES;
    drop(out.splice(at..at, sum));
}

/// Reads frames, and believes none that cannot be.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    /// Bytes that were read.
    read: u64,
    /// The volume's size, when it was said.
    size_bytes: Option<u64>,
    /// Where the last extent has ended.
    place: u64,
    /// Where it was said last that everything before was sent.
    reached: u64,
    is_over: bool,
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl<R: Read> Reader<R> {
    /// Of what comes from there.
    pub fn new(from: R) -> Reader<R> {
        Reader {
            from,
            read: 0,
            size_bytes: None,
            place: 0,
            reached: 0,
            is_over: false,
        }
    }

    /// The next one; none: behind the last one, or where what came ends between two frames.
    ///
    /// # Errors
    /// What comes is no frame, or none that can be here, or ends in the middle of one; it cannot be read. Nothing more is read then.
    #[allow(clippy::should_implement_trait, reason = "it fails, and ends with that")]
    pub fn next(&mut self) -> Result<Option<OwnedFrame>> {
        if self.is_over {
            return Ok(None);
        }
        let (begin, next) = (self.read, self.read_frame());
        // Behind what is no frame nobody knows where one begins.
        self.is_over = !matches!(next, Ok(Some(ref frame)) if !matches!(frame, OwnedFrame::End(_)));
        next.map_err(|why| Failure::new(format!("the frame at byte {begin}: {why}")))
    }

    fn read_frame(&mut self) -> std::result::Result<Option<OwnedFrame>, String> {
        let mut head = [0; HEAD_BYTES];
        match self.fill(&mut head)? {
            0 => return Ok(None),
            HEAD_BYTES => {}
            some => return Err(format!("it was cut short: {some} bytes of its head came")),
        }
        let (kind, offset, length) = (head[0], number(&head[1..9]), number(&head[9..SUMMED_BYTES]));
        let mut summed = head[..SUMMED_BYTES].to_vec();
        if kind == DATA {
            // Before room is made for it.
            if !(1..=MAX_DATA_BYTES).contains(&length) {
                return Err(format!("it has {length} bytes; 1 to {MAX_DATA_BYTES} can be"));
            }
            summed.resize(SUMMED_BYTES + length as usize, 0);
            let came = self.fill(&mut summed[SUMMED_BYTES..])?;
            if came as u64 != length {
                return Err(format!("it was cut short: {came} of its {length} bytes came"));
            }
        }
        if u64::from(crc32c(&summed)) != number(&head[SUMMED_BYTES..]) {
            return Err("its checksum is another one: it was changed on its way".to_owned());
        }
        summed.drain(..SUMMED_BYTES);
        self.take(kind, offset, length, summed).map(Some)
    }

    /// Reads until there is no more, or it is full: so many bytes.
    fn fill(&mut self, into: &mut [u8]) -> std::result::Result<usize, String> {
        let mut filled = 0;
        while filled < into.len() {
            match self.from.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(format!("it cannot be read: {why}")),
            }
        }
        self.read += filled as u64;
        Ok(filled)
    }

    /// Can it be here?
    fn take(&mut self, kind: u8, offset: u64, length: u64, bytes: Vec<u8>) -> std::result::Result<OwnedFrame, String> {
        let Some(size_bytes) = self.size_bytes else {
            return match (kind, offset) {
                (BEGIN, 0 | WHOLE) => {
                    self.size_bytes = Some(length);
                    Ok(OwnedFrame::Begin {
                        size_bytes: length,
                        whole: offset == WHOLE,
                    })
                }
                _ => Err(format!(
                    "it is of kind {kind}, at {offset}; the first one says the size, at 0"
                )),
            };
        };
        let end = offset.checked_add(length).filter(|end| *end <= size_bytes);
        let end = end.ok_or_else(|| format!("{length} bytes at {offset} are not in a volume of {size_bytes}"))?;
        if offset < self.place {
            return Err(format!("it is of byte {offset}, and {} is reached", self.place));
        }
        let frame = match (kind, length) {
            (DATA, _) => OwnedFrame::Data { offset, bytes },
            // Each frame leads on: else one answer would have no end.
            (ZEROS, 0) => return Err("it is of no bytes".to_owned()),
            (REACHED, 0) if offset <= self.reached => {
                return Err(format!(
                    "{offset} is reached, which was said of {} before",
                    self.reached
                ));
            }
            (ZEROS, _) => OwnedFrame::Zeros { offset, length },
            (REACHED, 0) => {
                self.reached = offset;
                OwnedFrame::Reached(offset)
            }
            (END, 0) if offset == size_bytes => OwnedFrame::End(offset),
            (END, _) => return Err(format!("the end is at {offset}, of {size_bytes} bytes")),
            (BEGIN, _) => return Err("it says the size, which was said".to_owned()),
            _ => return Err(format!("it is of kind {kind}, with a length of {length}")),
        };
        self.place = end;
        Ok(frame)
    }
}
