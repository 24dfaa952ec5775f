use super::*;
use crate::testing::unit;
use amita_types::io::IoError;

fn io(work: Work) -> Io {
    let place = Place::of(&unit(0));
    Io { place, work }
}

fn extent() -> Extent {
    Extent {
        offset: 4096,
        length: 8192,
    }
}

#[test]
fn residuals() {
    assert_eq!(Residual::of(512, 512), Residual::None);
    assert_eq!(Residual::of(1000, 512), Residual::Underflow(488));
    assert_eq!(Residual::of(200, 512), Residual::Overflow(312));
    assert_eq!(Residual::of(0, 0), Residual::None);
}

#[test]
fn what_is_taken_and_sent() {
    let (at, mut found) = (extent(), Vec::new());
    for work in [
        Work::Read(at),
        Work::Write(at),
        Work::WriteAndCheck(at, Check::Readable),
        Work::Check(at, Check::Readable),
        Work::Check(at, Check::Same),
        Work::Check(at, Check::SameBlock),
        Work::CompareAndWrite(at),
        Work::Or(at),
        Work::Zero(vec![at]),
        Work::Fill(at, vec![1; 512]),
        Work::Touch,
    ] {
        let lengths = Plan::Io(io(work)).lengths();
        found.push((lengths.out, lengths.into));
    }
    let expected = [
        (0, 8192),
        (8192, 0),
        (8192, 0),
        (0, 0),
        (8192, 0),
        (512, 0),
        (16384, 0),
        (8192, 0),
        (0, 0),
        (0, 0),
        (0, 0),
    ];
    assert_eq!(found, expected);
    let answer = Answer::with_data(vec![1, 2, 3], 2);
    assert_eq!(answer.data, [1, 2]);
    assert_eq!(Plan::Answer(answer).lengths().into, 2);
}

#[test]
fn failures() {
    let place = Place::of(&unit(0));
    let sense = |error, at| failed(&place, error, at).sense.expect("sense data");
    let damaged = sense(IoError::Damaged, Some(8192));
    let expected = Sense::new(Key::MediumError, code::UNRECOVERED_READ_ERROR).with_information(16);
    assert_eq!(damaged, expected);
    // What ESXi pauses a virtual machine for.
    let full = sense(IoError::NoSpace, None);
    assert_eq!((full.key, full.code), (Key::DataProtect, code::SPACE_ALLOCATION_FAILED));
    // By another path it may work. HARDWARE ERROR would be the disk's own: Linux hands that up to the file system, whatever paths there are.
    for of_path in [IoError::Lost, IoError::Unavailable] {
        let expected = Sense::new(Key::NotReady, code::ASYMMETRIC_ACCESS_TRANSITION);
        assert_eq!(sense(of_path, None), expected, "{of_path}");
    }
    // By no path does it work, and it is not to be tried when it does again: neither NOT READY nor UNIT ATTENTION nor ABORTED COMMAND, which are.
    let expected = Sense::new(Key::DataProtect, code::ACCESS_DENIED_NO_RIGHTS);
    assert_eq!(sense(IoError::Closed, Some(8192)), expected);
    assert_eq!(sense(IoError::Invalid, None).key, Key::HardwareError);
    assert_eq!(
        failed(&place, IoError::Reserved, None),
        Answer::of(Status::ReservationConflict)
    );
    assert_eq!(failed(&place, IoError::Busy, Some(1)), Answer::of(Status::Busy));
    assert_eq!(failed(&place, IoError::Miscompare, Some(1)), miscompare(None));
}

#[test]
fn miscompares_say_where() {
    let expected = Sense::new(Key::Miscompare, code::MISCOMPARE_DURING_VERIFY);
    assert_eq!(miscompare(Some(513)).sense, Some(expected.with_information(513)));
    assert_eq!(miscompare(None), Answer::check(expected));
}
