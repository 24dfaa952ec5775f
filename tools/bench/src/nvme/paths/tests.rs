//! What the host makes of statuses, paths and gaps.

use super::{Then, gaps, next, then};
use amita_nvme_host::wire::Status;
use std::time::{Duration, Instant};

fn status(kind: u8, code: u8, final_: bool) -> Status {
    Status {
        kind,
        code,
        final_,
        more: false,
    }
}

#[test]
fn statuses_of_the_path_go_elsewhere_and_final_ones_fail() {
    // Even with "do not retry": that is not by the same path.
    assert_eq!(then(status(3, 2, true)), Then::Elsewhere);
    assert_eq!(then(status(3, 3, false)), Then::Elsewhere);
    assert_eq!(then(status(0, 0x82, false)), Then::Again);
    assert_eq!(then(status(2, 0x81, true)), Then::Fail);
}

#[test]
fn broken_paths_are_passed_over() {
    assert_eq!(next(0, &[Some(()), Some(())]), 1);
    assert_eq!(next(1, &[Some(()), None, Some(())]), 2);
    assert_eq!(next(2, &[Some(()), None, Some(())]), 0);
    assert_eq!(next(0, &[Some(()), None]), 0);
    assert_eq!(next::<()>(0, &[None, None]), 0);
}

#[test]
fn a_gap_counts_by_the_acknowledgement_that_ends_it() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let ms = Duration::from_millis;
    let acks = [at(0), at(1), at(3), at(503), at(504)];
    assert_eq!(gaps(&acks, at(4)), (Some(ms(500)), ms(2)));
    assert_eq!(gaps(&acks, at(504)), (Some(ms(1)), ms(500)));
    assert_eq!(gaps(&acks, at(505)).0, None);
    assert_eq!(gaps(&[], at(0)), (None, ms(0)));
}
