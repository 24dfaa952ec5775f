use super::*;

fn judged(status: &Status) -> Verdict {
    judge(status, Context::default())
}

/// etcd applies a transaction for which there is no space any more, and then says that there is none (`quotaApplierV3`): who
/// takes that for "not done" builds on what is not so.
#[test]
fn no_space_leaves_the_outcome_open() {
    assert_eq!(
        judged(&Status::resource_exhausted(words::NO_SPACE)),
        Verdict::PerhapsDone
    );
    assert!(matches!(told_no_space("e"), Error::Unknown { .. }));
    // An answer that is too large for us is told by the same code.
    assert_eq!(
        judged(&Status::resource_exhausted("message length too large")),
        Verdict::PerhapsDone
    );
    assert_eq!(
        judged(&Status::data_loss("etcdserver: corrupt cluster")),
        Verdict::PerhapsDone
    );
    // This is said before anything is proposed.
    assert_eq!(
        judged(&Status::resource_exhausted(words::TOO_MANY_REQUESTS)),
        Verdict::NotDone
    );
    assert!(matches!(
        judged(&Status::invalid_argument(words::TOO_LARGE)),
        Verdict::Refused(_)
    ));
}
