use super::*;
use proptest::prelude::*;

#[test]
fn numbers_of_logical_units_by_both_methods() {
    assert_eq!(Lun([0, 5, 0, 0, 0, 0, 0, 0]).number(), Some(5));
    assert_eq!(Lun([0x40, 5, 0, 0, 0, 0, 0, 0]).number(), Some(5));
    assert_eq!(Lun([0x41, 0x02, 0, 0, 0, 0, 0, 0]).number(), Some(0x102));
    assert_eq!(Lun([0x7f, 0xff, 0, 0, 0, 0, 0, 0]).number(), Some(MAX_LUN));
    assert_eq!(Lun([0x01, 5, 0, 0, 0, 0, 0, 0]).number(), None, "another bus");
    assert_eq!(
        Lun([0x80, 5, 0, 0, 0, 0, 0, 0]).number(),
        None,
        "logical unit addressing"
    );
    assert_eq!(Lun([0, 5, 0, 1, 0, 0, 0, 0]).number(), None, "a second level");
    assert_eq!(Lun::REPORT_LUNS.number(), None);
    assert_eq!(Lun::of(255).0, [0, 255, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Lun::of(256).0, [0x41, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Lun::of(7).to_string(), "7");
    assert_eq!(Lun::REPORT_LUNS.to_string(), "c101000000000000");
}

#[test]
fn a_short_block_reads_as_zeros() {
    let cdb = Cdb::new(&[0x28, 0x0a, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((cdb.opcode(), cdb.service_action()), (0x28, 0x0a));
    assert_eq!((cdb.u32(2), cdb.u16(7), cdb.u64(24)), (0x0102_0304, 0x0607, 0));
    assert!(cdb.bit(1, 1) && cdb.bit(1, 3) && !cdb.bit(1, 0));
    assert_eq!((cdb.len(), format!("{cdb:?}").as_str()), (10, "280a0102030405060708"));
    assert!(Cdb::new(&[]).is_empty());
    assert_eq!(Cdb::new(&[7; 260]).len(), Cdb::MAX_BYTES);
}

proptest! {
    #[test]
    fn every_number_survives_the_way(number in 0..=MAX_LUN) {
        prop_assert_eq!(Lun::of(number).number(), Some(number));
    }
}
