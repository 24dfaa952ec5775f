use super::timestamp;

#[test]
fn moments_are_written_as_dates() {
    assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000Z");
    assert_eq!(timestamp(951_827_696, 7), "2000-02-29T12:34:56.007Z");
    assert_eq!(timestamp(1_795_168_511, 123), "2026-11-20T09:55:11.123Z");
    assert_eq!(timestamp(4_107_542_399, 999), "2100-02-28T23:59:59.999Z");
}
