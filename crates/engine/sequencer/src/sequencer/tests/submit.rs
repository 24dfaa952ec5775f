use super::rig::{CHUNK_BYTES, Rig};
use amita_types::io::{IoError, Op};

#[test]
fn what_does_not_fit_is_refused() {
    let mut rig = Rig::new(2, 1);
    let end = 200 * CHUNK_BYTES;
    let wrong = [
        (Op::Read { offset: end, length: 1 }, 0, IoError::OutOfRange),
        (
            Op::Read {
                offset: end - 100,
                length: 101,
            },
            0,
            IoError::OutOfRange,
        ),
        (
            Op::Read {
                offset: u64::MAX,
                length: 2,
            },
            0,
            IoError::OutOfRange,
        ),
        (
            Op::Read {
                offset: CHUNK_BYTES - 1,
                length: 2,
            },
            0,
            IoError::OutOfRange,
        ),
        (Op::Read { offset: 0, length: 0 }, 0, IoError::Invalid),
        (
            Op::Read {
                offset: 0,
                length: (128 << 10) + 1,
            },
            0,
            IoError::Invalid,
        ),
        (
            Op::Read {
                offset: 1,
                length: 128 << 10,
            },
            0,
            IoError::Invalid,
        ),
        (Op::Read { offset: 0, length: 512 }, 512, IoError::Invalid),
        (Op::Write { offset: 0, length: 512 }, 511, IoError::Invalid),
        (Op::Write { offset: 0, length: 0 }, 0, IoError::Invalid),
        (
            Op::Write {
                offset: 0,
                length: (128 << 10) + 1,
            },
            (128 << 10) + 1,
            IoError::Invalid,
        ),
        (Op::Clear { offset: 0, length: 512 }, 0, IoError::Invalid),
        (
            Op::Clear {
                offset: 512,
                length: 4096,
            },
            0,
            IoError::Invalid,
        ),
        (Op::Clear { offset: 0, length: 0 }, 4096, IoError::Invalid),
        (
            Op::Clear {
                offset: 4096,
                length: CHUNK_BYTES,
            },
            0,
            IoError::OutOfRange,
        ),
        (Op::Allocation { offset: end }, 0, IoError::OutOfRange),
    ];
    for (op, bytes, error) in wrong {
        let io = rig.submit(op, &vec![0; bytes]);
        assert_eq!(rig.result(io), Some(Err(error)), "{op:?}");
    }
    assert!(rig.sent.is_empty() && rig.sequencer.is_idle());
}

/// It asks whether the volume would be written to, and nothing else.
#[test]
fn a_clear_of_nothing_is_done_at_once() {
    let mut rig = Rig::new(1, 1);
    let io = rig.submit(Op::Clear { offset: 0, length: 0 }, &[]);
    assert_eq!(rig.result(io), Some(Ok(())));
    assert!(rig.sent.is_empty() && rig.sequencer.is_idle());
}

#[test]
fn what_just_fits_is_taken() {
    let mut rig = Rig::new(1, 1);
    let end = 200 * CHUNK_BYTES;
    for op in [
        Op::Read {
            offset: end - 1,
            length: 1,
        },
        Op::Read {
            offset: 0,
            length: 128 << 10,
        },
        Op::Clear {
            offset: CHUNK_BYTES,
            length: CHUNK_BYTES,
        },
        Op::Allocation { offset: end - 1 },
    ] {
        let io = rig.submit(op, &[]);
        assert_eq!(rig.result(io), None, "{op:?}");
    }
    let io = rig.submit(
        Op::Write {
            offset: 1,
            length: 128 << 10,
        },
        &vec![0; 128 << 10],
    );
    assert_eq!(rig.result(io), None);
}

#[test]
fn the_queue_has_an_end() {
    let mut rig = Rig::new(1, 1);
    rig.down(1);
    for index in 0..crate::MAX_IOS as u64 + 10 {
        rig.sequencer.submit(
            rig.now,
            crate::IoId(1_000_000 + index),
            Op::Clear {
                offset: 0,
                length: 4096,
            },
            Default::default(),
        );
    }
    rig.collect();
    let busy = rig.ended.iter().filter(|ended| ended.1 == Err(IoError::Busy)).count();
    assert!((10..=12).contains(&busy), "{busy}");
}
