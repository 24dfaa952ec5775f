use crate::sense::{Sense, code};
use crate::testing::{Host, answer, unit};

#[test]
fn standard_data() {
    let mut host = Host::one();
    let data = host.data(0, &[0x12, 0, 0, 0, 96, 0]);
    assert_eq!(data.len(), 96);
    assert_eq!(data[..5], [0x00, 0x00, 0x06, 0x12, 91]);
    assert_eq!(data[5], 0x38, "TPGS: implicit and explicit; 3PC");
    assert_eq!((data[6], data[7]), (0x10, 0x02));
    assert_eq!(&data[8..32], b"AMITA   VOLUME          ");
    assert_eq!(data[58..66], [0x00, 0xa0, 0x09, 0x60, 0x04, 0x60, 0x04, 0xc0]);
    host.target.explicit_access = false;
    assert_eq!(host.data(0, &[0x12, 0, 0, 0, 36, 0])[5], 0x18, "implicit only");
}

/// The first command of Linux where it looks for LUN 1 alone: it does not know yet that the target is none of SCSI-2.
#[test]
fn a_host_that_has_not_seen_the_version_yet_names_the_lun_twice() {
    let mut host = Host::new(vec![unit(1)]);
    for length in [36, 96] {
        let data = host.data(1, &[0x12, 1 << 5, 0, 0, length, 0]);
        assert_eq!(data[..3], [0x00, 0x00, 0x06], "a disk, of SPC-4");
    }
    assert_eq!(host.data(1, &[0x12, 1 << 5 | 1, 0x83, 0, 96, 0])[1], 0x83, "a page");
    assert_eq!(
        host.data(2, &[0x12, 2 << 5, 0, 0, 36, 0])[0],
        0x7f,
        "where there is none"
    );
    // By whichever number: the transport's is the one that counts.
    assert_eq!(host.data(1, &[0x12, 7 << 5, 0, 0, 36, 0])[0], 0x00);
}

#[test]
fn the_allocation_length_cuts() {
    let mut host = Host::one();
    for length in [0, 1, 5, 36, 95] {
        assert_eq!(host.data(0, &[0x12, 0, 0, 0, length, 0]).len(), usize::from(length));
    }
    assert_eq!(host.data(0, &[0x12, 0, 0, 1, 0, 0]).len(), 96, "two bytes long");
}

#[test]
fn a_page_code_without_a_page_is_refused() {
    let mut host = Host::one();
    assert_eq!(host.sense(0, &[0x12, 0, 0x83, 0, 96, 0]), Sense::in_cdb(2, None));
    assert_eq!(
        host.sense(0, &[0x12, 2, 0, 0, 96, 0]),
        Sense::in_cdb(1, Some(1)),
        "CMDDT"
    );
}

#[test]
fn what_is_not_there_says_so() {
    let mut host = Host::one();
    let data = host.data(9, &[0x12, 0, 0, 0, 96, 0]);
    assert_eq!(data[0], 0x7f, "PERIPHERAL QUALIFIER 3, no known type");
    assert_eq!(data[5] & 0x30, 0);
    assert_eq!(host.sense(9, &[0x12, 1, 0, 0, 96, 0]), Sense::in_cdb(1, Some(0)));
    assert_eq!(host.sense(9, &[0; 6]).code, code::UNIT_NOT_SUPPORTED);
    let sense = host.data(9, &[0x03, 0, 0, 0, 252, 0]);
    assert_eq!((sense[2], sense[12], sense[13]), (5, 0x25, 0));
    // It is hidden from who may not see it as if it were not there.
    host.target.any_initiator = false;
    assert_eq!(host.data(0, &[0x12, 0, 0, 0, 96, 0])[0], 0x7f);
    assert!(answer(host.send(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0])).sense.is_some());
}
