//! Forwarded requests and their answers, as the fabric carries them (docs/protocol-wire.md) and as a core has them.

use crate::forwarder::Work;
use crate::limits::{Answer, read_answer};
use amita_fabric::limits::{LIST_CHARGE_BYTES, OF_CHUNKS};
use amita_fabric::{Forward, ForwardOp, Forwarded};
use amita_frontend::reservation::{self, Refusal};
use amita_reactor::Slice;
use amita_types::io::{CHANGED_CHUNKS_BYTES, Differs, IoError, Op, Payload};
use amita_types::{MAX_BLOCKS_PER_CHUNK, SnapshotId, crc32c};

/// The numbers of outcomes in [`Forwarded::code`]: part of the protocol (docs/protocol-wire.md).
pub(super) mod code {
    pub const DONE: u8 = 0;
    pub const OUT_OF_RANGE: u8 = 1;
    pub const INVALID: u8 = 2;
    pub const NO_SPACE: u8 = 3;
    pub const READ_ONLY: u8 = 4;
    pub const LOST: u8 = 5;
    pub const UNAVAILABLE: u8 = 6;
    pub const DAMAGED: u8 = 7;
    pub const BUSY: u8 = 8;
    pub const MISCOMPARE: u8 = 9;
    pub const RESERVED: u8 = 10;
    /// The volume is not open there.
    pub const NOT_OWNER: u8 = 11;
    /// The owner does not know the sender as living.
    pub const NOT_LIVING: u8 = 12;
    /// The payload's checksum is wrong.
    pub const CHECKSUM: u8 = 13;
    /// It was on the way for too long, or does not say for how long.
    pub const STALE: u8 = 14;
    /// The volume is closed to hosts.
    pub const CLOSED: u8 = 15;
}

/// The numbers of forms in [`Forwarded::form`].
pub(super) mod form {
    pub const NONE: u8 = 0;
    pub const DATA: u8 = 1;
    pub const ZEROS: u8 = 2;
    pub const ALLOCATION: u8 = 3;
    pub const RESERVATION: u8 = 4;
    pub const DIFFERS: u8 = 5;
    pub const TOKENS: u8 = 6;
}

pub(super) fn checksum(payload: &Slice) -> u32 {
    if payload.is_empty() { 0 } else { crc32c(payload) }
}

pub(super) fn work_to_wire(work: Work) -> ForwardOp {
    match work {
        Work::Io(Op::Read { .. }) => ForwardOp::Read,
        Work::Io(Op::Write { .. }) => ForwardOp::Write,
        Work::Io(Op::Clear { .. }) => ForwardOp::Clear,
        Work::Io(Op::CompareAndWrite { .. }) => ForwardOp::CompareAndWrite,
        Work::Io(Op::Allocation { .. }) => ForwardOp::Allocation,
        Work::Io(Op::Differ { .. } | Op::ChangedChunks { .. }) => ForwardOp::Differ,
        Work::Reserve => ForwardOp::Reserve,
        Work::Lend | Work::GiveBack => ForwardOp::Lend,
    }
}

/// How many bytes, or what stands in their place.
pub(super) fn length_to_wire(work: Work) -> u64 {
    match work {
        Work::Io(Op::Differ { since, .. }) => since.0.into(),
        Work::Io(Op::ChangedChunks { since, .. }) => OF_CHUNKS | u64::from(since.0),
        work => work.range().1,
    }
}

pub(super) fn work_from_wire(request: &Forward) -> Option<Work> {
    let offset = request.offset;
    let length = u32::try_from(request.length);
    Some(Work::Io(match request.op {
        ForwardOp::Read => Op::Read {
            offset,
            length: length.ok()?,
        },
        ForwardOp::Write => Op::Write {
            offset,
            length: length.ok()?,
        },
        ForwardOp::CompareAndWrite => Op::CompareAndWrite {
            offset,
            length: length.ok()?,
        },
        ForwardOp::Clear => Op::Clear {
            offset,
            length: request.length,
        },
        ForwardOp::Allocation => Op::Allocation { offset },
        // Of which chunks is beyond any snapshot's number: whoever knows no such question refuses it as one that is not valid.
        ForwardOp::Differ => match u32::try_from(request.length ^ OF_CHUNKS) {
            Ok(since) => Op::ChangedChunks {
                offset,
                since: SnapshotId(since),
            },
            Err(_) => Op::Differ {
                offset,
                since: SnapshotId(length.ok()?),
            },
        },
        ForwardOp::Reserve => return Some(Work::Reserve),
        ForwardOp::Lend => return Some(Work::Lend),
    }))
}

pub(super) fn reservation_from_wire(
    answer: &Forwarded,
    payload: &Slice,
) -> Result<Result<reservation::State, Refusal>, &'static str> {
    let wrong = "the answer to a forwarded command about a reservation cannot be read";
    if answer.form != form::RESERVATION || checksum(payload) != answer.crc {
        return Err(wrong);
    }
    serde_json::from_slice(payload).map_err(|_| wrong)
}

pub(super) fn tokens_from_wire(answer: &Forwarded, payload: &Slice) -> Result<Answer, &'static str> {
    let wrong = "the answer to forwarded asks for tokens cannot be read";
    if answer.form != form::TOKENS || checksum(payload) != answer.crc {
        return Err(wrong);
    }
    read_answer(payload).ok_or(wrong)
}

pub(super) fn payload_from_wire(work: Work, answer: &Forwarded, payload: Slice) -> Result<Payload, &'static str> {
    let Work::Io(op) = work else {
        unreachable!("it has an answer of its own")
    };
    if checksum(&payload) != answer.crc {
        return Err("the answer to a forwarded request was changed on the way");
    }
    let wrong = "the answer to a forwarded request does not fit what was asked";
    match (op, answer.form) {
        (Op::Read { length, .. }, form::DATA) if payload.len() == length as usize => Ok(Payload::Data(payload)),
        (Op::Read { length, .. }, form::ZEROS) if answer.value == length => Ok(Payload::Zeros(length)),
        (Op::ChangedChunks { .. }, form::DATA) if payload.len() == CHANGED_CHUNKS_BYTES => Ok(Payload::Data(payload)),
        (Op::Allocation { .. }, form::ALLOCATION) if payload.len() == MAX_BLOCKS_PER_CHUNK as usize / 8 => {
            let mut words = Box::new([0; 16]);
            words_from_wire(words.iter_mut(), &payload);
            Ok(Payload::Allocation(words))
        }
        (Op::Differ { .. }, form::DIFFERS) if payload.len() == MAX_BLOCKS_PER_CHUNK as usize / 4 => {
            let mut differs = Box::new(Differs::default());
            let Differs { changed, allocated } = &mut *differs;
            words_from_wire(changed.iter_mut().chain(allocated), &payload);
            Ok(Payload::Differs(differs))
        }
        (Op::Write { .. } | Op::Clear { .. } | Op::CompareAndWrite { .. }, form::NONE) => Ok(Payload::None),
        _ => Err(wrong),
    }
}

fn words_from_wire<'a>(words: impl Iterator<Item = &'a mut u64>, payload: &Slice) {
    let (bytes, _) = payload.as_chunks();
    for (word, bytes) in words.zip(bytes) {
        *word = u64::from_le_bytes(*bytes);
    }
}

/// As `Payload` has them: 64 blocks a word.
pub(super) fn words_to_wire<'a>(words: impl Iterator<Item = &'a u64>) -> Slice {
    let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    Slice::copy_from(&bytes)
}

const ERRORS: [(IoError, u8); 11] = [
    (IoError::OutOfRange, code::OUT_OF_RANGE),
    (IoError::Invalid, code::INVALID),
    (IoError::NoSpace, code::NO_SPACE),
    (IoError::ReadOnly, code::READ_ONLY),
    (IoError::Lost, code::LOST),
    (IoError::Unavailable, code::UNAVAILABLE),
    (IoError::Damaged, code::DAMAGED),
    (IoError::Busy, code::BUSY),
    (IoError::Miscompare, code::MISCOMPARE),
    (IoError::Reserved, code::RESERVED),
    (IoError::Closed, code::CLOSED),
];

pub(super) fn error_to_wire(error: IoError) -> u8 {
    let found = ERRORS.iter().find(|(known, _)| *known == error);
    found.map_or(code::UNAVAILABLE, |(_, code)| *code)
}

/// A number of a later version is none of ours: the host may try another path.
pub(super) fn error_from_wire(code: u8) -> IoError {
    let found = ERRORS.iter().find(|(_, known)| *known == code);
    found.map_or(IoError::Unavailable, |(error, _)| *error)
}

const _: () = assert!(MAX_BLOCKS_PER_CHUNK == 1024, "an allocation bitmap is sixteen words");
const _: () = assert!(
    CHANGED_CHUNKS_BYTES <= LIST_CHARGE_BYTES as usize,
    "what is told of chunks is charged as a list"
);

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::Generation;
    use amita_types::io::ChangedChunks;

    #[test]
    fn the_owner_hears_what_was_asked() {
        let (offset, length) = (4096, 8192);
        let since = SnapshotId(u32::MAX);
        let asked = [
            Op::Read { offset, length },
            Op::Write { offset, length },
            Op::CompareAndWrite { offset, length },
            Op::Clear {
                offset,
                length: 1 << 40,
            },
            Op::Allocation { offset },
            Op::Differ { offset, since },
            Op::ChangedChunks { offset, since },
        ];
        for work in asked.map(Work::Io) {
            let request = Forward {
                tag: 1,
                session: 1,
                host: [0; 16],
                volume: amita_types::VolumeId(1),
                generation: Generation(1),
                op: work_to_wire(work),
                offset,
                length: length_to_wire(work),
                crc: 0,
                as_of: 1,
                snapshot: SnapshotId::HEAD,
            };
            assert_eq!(work_from_wire(&request), Some(work));
        }
        let too_large = Forward {
            tag: 1,
            session: 1,
            host: [0; 16],
            volume: amita_types::VolumeId(1),
            generation: Generation(1),
            op: ForwardOp::Differ,
            offset,
            length: 2 << 32,
            crc: 0,
            as_of: 1,
            snapshot: SnapshotId::HEAD,
        };
        assert_eq!(work_from_wire(&too_large), None, "no snapshot has that number");
    }

    /// To whoever does not know the number it is a matter of the way, as any that it does not know.
    #[test]
    fn why_it_was_not_done_comes_back_as_it_was() {
        let all = [
            (IoError::Unavailable, 6),
            (IoError::Reserved, 10),
            (IoError::Closed, 15),
        ];
        for (error, number) in all {
            assert_eq!(error_to_wire(error), number);
            assert_eq!(error_from_wire(number), error);
        }
        assert_eq!(error_from_wire(200), IoError::Unavailable);
    }

    #[test]
    fn what_was_changed_comes_back_as_it_was() {
        let differs = Box::new(Differs {
            changed: std::array::from_fn(|word| word as u64 + 1),
            allocated: std::array::from_fn(|word| u64::MAX - word as u64),
        });
        let payload = words_to_wire(differs.changed.iter().chain(&differs.allocated));
        let answer = Forwarded {
            tag: 1,
            code: code::DONE,
            form: form::DIFFERS,
            value: 0,
            crc: checksum(&payload),
            clock: 1,
        };
        let since = SnapshotId(1);
        let work = Work::Io(Op::Differ { offset: 0, since });
        let read = payload_from_wire(work, &answer, payload.clone());
        assert_eq!(read, Ok(Payload::Differs(differs)));
        let wrong = [
            (Work::Io(Op::Allocation { offset: 0 }), payload.clone()),
            (work, payload.slice(..128)),
        ];
        for (work, payload) in wrong {
            let answer = Forwarded {
                crc: checksum(&payload),
                ..answer
            };
            assert!(payload_from_wire(work, &answer, payload).is_err());
        }
    }

    #[test]
    fn which_chunks_were_changed_comes_back_as_it_was() {
        let mut changed = ChangedChunks::default();
        let window = ChangedChunks::window_of(0).step_by(3);
        window.for_each(|chunk| changed.answer(chunk, chunk % 2 == 0));
        let Payload::Data(payload) = changed.to_payload() else {
            panic!("it is data");
        };
        let answer = Forwarded {
            tag: 1,
            code: code::DONE,
            form: form::DATA,
            value: 0,
            crc: checksum(&payload),
            clock: 1,
        };
        let since = SnapshotId(1);
        let work = Work::Io(Op::ChangedChunks { offset: 0, since });
        let Ok(Payload::Data(read)) = payload_from_wire(work, &answer, payload.clone()) else {
            panic!("it is what was sent");
        };
        let read = ChangedChunks::read(&read).expect("it has that length");
        assert_eq!(read, changed);
        assert_eq!([0, 1, 3].map(|chunk| read.of(chunk)), [Some(true), None, Some(false)]);
        let short = payload.slice(..128);
        let answer = Forwarded {
            crc: checksum(&short),
            ..answer
        };
        assert!(payload_from_wire(work, &answer, short).is_err());
    }
}
