//! Frames come back as they were, and nothing else does.

use super::*;

const SIZE: u64 = 1 << 30;
const BEGINS: Frame<'static> = Frame::Begin {
    size_bytes: SIZE,
    whole: false,
};

fn frames() -> Vec<Frame<'static>> {
    vec![
        BEGINS,
        Frame::Data {
            offset: 4096,
            bytes: &[7; 8192],
        },
        Frame::Zeros {
            offset: 12288,
            length: 1 << 20,
        },
        Frame::Reached(2 << 20),
        Frame::Data {
            offset: 2 << 20,
            bytes: &[1],
        },
        Frame::End(SIZE),
    ]
}

fn owned(frame: &Frame<'_>) -> OwnedFrame {
    match *frame {
        Frame::Begin { size_bytes, whole } => OwnedFrame::Begin { size_bytes, whole },
        Frame::Data { offset, bytes } => OwnedFrame::Data {
            offset,
            bytes: bytes.to_vec(),
        },
        Frame::Zeros { offset, length } => OwnedFrame::Zeros { offset, length },
        Frame::Reached(offset) => OwnedFrame::Reached(offset),
        Frame::End(offset) => OwnedFrame::End(offset),
    }
}

fn text(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|frame| write(&mut out, frame));
    out
}

/// All frames up to what ends it: none is an end without an error.
fn read(bytes: &[u8]) -> (Vec<OwnedFrame>, Option<String>) {
    let mut reader = Reader::new(bytes);
    let mut all = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(frame)) => all.push(frame),
            Ok(None) => return (all, None),
            Err(why) => {
                assert!(reader.next().unwrap().is_none(), "nothing comes behind a fault");
                return (all, Some(why.what));
            }
        }
    }
}

/// Why the last of these is refused.
fn refused(frames: &[Frame<'_>]) -> String {
    let (all, why) = read(&text(frames));
    assert_eq!(all.len(), frames.len() - 1, "{frames:?}: {why:?}");
    why.unwrap_or_else(|| panic!("{frames:?} is taken"))
}

#[test]
fn each_kind_comes_back_as_it_was() {
    let sent = frames();
    let (all, why) = read(&text(&sent));
    assert_eq!(why, None);
    assert_eq!(all, sent.iter().map(owned).collect::<Vec<_>>());
    // It is what decision 081 says.
    let begins = |whole| {
        text(&[Frame::Begin {
            size_bytes: 0x0102,
            whole,
        }])
    };
    let (begin, whole) = (begins(false), begins(true));
    assert_eq!(begin[..17], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    // Who knows of no flag finds another offset than 0, and refuses it: what it does not clear would stay.
    assert_eq!(whole[..17], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
    let told = OwnedFrame::Begin {
        size_bytes: 0x0102,
        whole: true,
    };
    assert_eq!(read(&whole), (vec![told], None));
    assert_eq!(begin[17..], crc32c(&begin[..17]).to_be_bytes());
    let data = text(&[Frame::Data {
        offset: 1,
        bytes: b"ab",
    }]);
    assert_eq!((data[0], &data[21..]), (1, &b"ab"[..]));
    assert_eq!(data[17..21], crc32c(&[&data[..17], &data[21..]].concat()).to_be_bytes());
    // Behind the last one nothing is read.
    let mut more = text(&sent);
    more.extend_from_slice(b"surplus");
    assert_eq!(read(&more), (all, None));
}

#[test]
fn cut_anywhere_it_has_no_end() {
    let sent = frames();
    let whole = text(&sent);
    let mut ends = vec![0];
    for frame in &sent {
        ends.push(ends[ends.len() - 1] + text(&[*frame]).len());
    }
    for cut in 0..whole.len() {
        let (all, why) = read(&whole[..cut]);
        assert_eq!(why.is_none(), ends.contains(&cut), "at {cut}: {why:?}");
        assert!(!all.iter().any(|frame| matches!(frame, OwnedFrame::End(_))), "at {cut}");
        assert_eq!(all.len(), ends.iter().filter(|end| **end <= cut && **end > 0).count());
    }
}

#[test]
fn a_flipped_bit_is_seen() {
    let sent = [
        BEGINS,
        Frame::Data {
            offset: 4096,
            bytes: &[5; 40],
        },
        Frame::End(SIZE),
    ];
    let whole = text(&sent);
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (all, why) = read(&bytes);
        let why = why.unwrap_or_else(|| panic!("bit {bit} is not seen: {all:?}"));
        assert!(why.contains("at byte"), "{why}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_where() {
    let begin = Frame::Begin {
        size_bytes: 8192,
        whole: false,
    };
    let zeros = |offset, length| Frame::Zeros { offset, length };
    for (frames, why) in [
        (vec![zeros(0, 1)], "the first one"),
        (vec![begin, begin], "which was said"),
        (vec![begin, zeros(4096, 4097)], "not in a volume"),
        (vec![begin, zeros(u64::MAX, 2)], "not in a volume"),
        (vec![begin, zeros(4096, 4096), zeros(0, 4096)], "is reached"),
        (vec![begin, Frame::Reached(4096), zeros(0, 1)], "is reached"),
        (vec![begin, Frame::End(4096)], "the end is at 4096"),
        (vec![begin, zeros(4096, 0)], "no bytes"),
        (vec![begin, Frame::Reached(0)], "said of 0 before"),
        (
            vec![begin, Frame::Reached(4096), Frame::Reached(4096)],
            "said of 4096 before",
        ),
        (
            vec![
                begin,
                Frame::Data {
                    offset: 8192,
                    bytes: b"a",
                },
            ],
            "not in a volume",
        ),
        (vec![begin, Frame::Data { offset: 0, bytes: b"" }], "0 bytes"),
    ] {
        let said = refused(&frames);
        assert!(said.contains(why) && said.contains("at byte"), "{frames:?}: {said}");
    }
    let raw = |kind: u8, offset: u64, length: u64| {
        let mut frame = vec![kind];
        frame.extend_from_slice(&offset.to_be_bytes());
        frame.extend_from_slice(&length.to_be_bytes());
        let sum = crc32c(&frame);
        frame.extend_from_slice(&sum.to_be_bytes());
        [text(&[begin]), frame].concat()
    };
    for (kind, offset, length, why) in [
        // No room is made for it.
        (DATA, 0, u64::MAX, "can be"),
        (DATA, 0, MAX_DATA_BYTES + 1, "can be"),
        (REACHED, 4096, 1, "kind 3"),
        (9, 0, 0, "kind 9"),
    ] {
        let (all, said) = read(&raw(kind, offset, length));
        assert_eq!(all.len(), 1);
        assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{kind}: {said:?}");
    }
    let most = vec![1; MAX_DATA_BYTES as usize];
    let (all, why) = read(&text(&[
        Frame::Begin {
            size_bytes: MAX_DATA_BYTES,
            whole: false,
        },
        Frame::Data {
            offset: 0,
            bytes: &most,
        },
        Frame::End(MAX_DATA_BYTES),
    ]));
    assert_eq!((all.len(), why), (3, None));
}
