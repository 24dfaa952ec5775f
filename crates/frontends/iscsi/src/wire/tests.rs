use super::*;
use amita_reactor::{Inbox, Outbox, Pool, Slice};
use proptest::prelude::*;

fn filled(bytes: &[u8]) -> Inbox {
    let pool = Pool::heap();
    let mut inbox = Inbox::new();
    let mut buffer = inbox.start_receive(&pool, bytes.len().max(4096)).expect("memory");
    buffer[..bytes.len()].copy_from_slice(bytes);
    inbox.received(buffer, bytes.len());
    inbox
}

fn link(header_digest: bool, data_digest: bool) -> Link {
    Link {
        header_digest,
        data_digest,
        ..Link::LOGIN
    }
}

fn sent(link: Link, header: Header, data: &[u8], by_reference: bool) -> Vec<u8> {
    let (pool, mut outbox) = (Pool::heap(), Outbox::new());
    match by_reference {
        true => link.send_slice(header, Slice::copy_from(data), &mut outbox, &pool),
        false => link.send_bytes(header, data, &mut outbox, &pool),
    }
    let segments = outbox.next_send().expect("something to send");
    segments.iter().flat_map(|segment| segment.to_vec()).collect()
}

#[test]
fn fields_of_a_command_lie_where_the_specification_has_them() {
    // 11.3: a SCSI READ(10) of 8 blocks from LBA 0x01020304, of LUN 5.
    let mut bytes = [0u8; 48];
    bytes[0] = 0x01;
    bytes[1] = 0x80 | 0x40 | 0x01;
    bytes[9] = 5;
    bytes[16..20].copy_from_slice(&[0xaa, 0xbb, 0xcc, 0xdd]);
    bytes[20..24].copy_from_slice(&4096u32.to_be_bytes());
    bytes[24..28].copy_from_slice(&7u32.to_be_bytes());
    bytes[28..32].copy_from_slice(&9u32.to_be_bytes());
    let header = Header(bytes);
    assert_eq!(header.opcode(), opcode::SCSI_COMMAND);
    assert!(!header.is_immediate() && header.has(flag::FINAL) && header.has(flag::READ) && !header.has(flag::WRITE));
    assert_eq!(header.lun(), [0, 5, 0, 0, 0, 0, 0, 0]);
    assert_eq!(header.task_tag(), 0xaabb_ccdd);
    assert_eq!((header.target_tag(), header.cmd_sn(), header.u32_at(28)), (4096, 7, 9));
    let long = Header::new(0x25, 0).with_data_bytes(0x01_0203).with_byte(4, 2);
    assert_eq!(long.data_bytes(), 0x01_0203);
    assert_eq!(long.ahs_bytes(), 8);
}

#[test]
fn serial_numbers_go_round() {
    assert!(is_before(1, 2) && !is_before(2, 1) && !is_before(5, 5));
    assert!(is_before(u32::MAX, 0) && is_before(u32::MAX - 3, 4) && !is_before(4, u32::MAX - 3));
}

/// RFC 7143, appendix A.4 (and RFC 3720, B.4): the CRC of a READ(10) command's header, and the order of its bytes.
#[test]
fn the_digest_of_the_specification() {
    let mut bytes = [0u8; 48];
    bytes[0] = 0x01;
    bytes[1] = 0xc0;
    bytes[16] = 0x14;
    bytes[22] = 0x04;
    bytes[27] = 0x14;
    bytes[31] = 0x18;
    bytes[32] = 0x28;
    bytes[40] = 0x02;
    assert_eq!(amita_types::crc32c(&bytes).to_le_bytes(), [0x56, 0x3a, 0x96, 0xd9]);
}

#[test]
fn additional_headers_are_read_and_checked() {
    // A CDB of 32 bytes: AHSLength = CDB length - 15.
    let mut bytes = vec![0, 17, 1, 0];
    bytes.extend(16..32u8);
    assert_eq!(Ahs::parse(&bytes).expect("right").cdb_rest, &bytes[4..20]);
    bytes.extend([0, 5, 2, 0, 0, 0, 2, 0]);
    let both = Ahs::parse(&bytes).expect("right");
    assert_eq!((both.cdb_rest.len(), both.read_bytes), (16, Some(512)));
    assert_eq!(Ahs::parse(&[]), Ok(Ahs::default()));
    for wrong in [
        &[0, 5, 2][..],
        &[0, 0, 1, 0],
        &[0, 9, 1, 0, 1, 2, 3, 4],
        &[0, 4, 2, 0, 0, 0, 2, 0],
        &[0, 1, 9, 0],
        &[0, 1, 1, 0],
        &[0, 5, 2, 0, 0, 0, 2, 0, 0, 5, 2, 0, 0, 0, 2, 0],
    ] {
        assert!(Ahs::parse(wrong).is_err(), "{wrong:?}");
    }
    assert!(Ahs::parse(&[0; MAX_AHS_BYTES + 4]).is_err());
}

#[test]
fn what_is_too_long_is_told_before_it_comes() {
    let header = Header::new(opcode::TEXT, 0).with_data_bytes(8193);
    assert_eq!(Link::LOGIN.frame(&mut filled(&header.0)), Ok(Incoming::TooLong(header)));
    let header = Header::new(opcode::TEXT, 0).with_byte(4, 1);
    assert!(Link::LOGIN.frame(&mut filled(&header.0)).is_err(), "text has no AHS");
    let header = Header::new(opcode::SCSI_COMMAND, 0).with_byte(4, 255);
    assert!(Link::LOGIN.frame(&mut filled(&header.0)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_is_read_back(
        data in prop::collection::vec(any::<u8>(), 0..600),
        digests in any::<(bool, bool)>(),
        by_reference in any::<bool>(),
        cut in any::<usize>(),
    ) {
        let link = link(digests.0, digests.1);
        let header = Header::new(opcode::DATA_OUT, flag::FINAL).with_task_tag(3);
        let bytes = sent(link, header, &data, by_reference);
        let (seen, back, rest) = split(&bytes, digests.0, digests.1);
        prop_assert_eq!((seen.task_tag(), &back, rest.len()), (3, &data, 0));
        // Every cut is less than a PDU; the whole is one.
        let cut = cut % bytes.len();
        prop_assert_eq!(link.frame(&mut filled(&bytes[..cut])), Ok(Incoming::Nothing));
        let mut inbox = filled(&bytes);
        let Ok(Incoming::Whole(frame)) = link.frame(&mut inbox) else {
            return Err(TestCaseError::fail("not a PDU"));
        };
        let taken = Link::take(&frame, &mut inbox);
        prop_assert_eq!(taken.data.as_deref(), Some(&data[..]));
        prop_assert!(inbox.is_empty());
    }

    #[test]
    fn a_changed_bit_is_noticed(data in prop::collection::vec(any::<u8>(), 1..200), at in any::<usize>(), bit in 0u8..8) {
        let link = link(true, true);
        let mut bytes = sent(link, Header::new(opcode::DATA_OUT, flag::FINAL), &data, false);
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let mut inbox = filled(&bytes);
        match link.frame(&mut inbox) {
            Err(_) | Ok(Incoming::Nothing | Incoming::TooLong(_)) => prop_assert!(at < BHS_BYTES + DIGEST_BYTES),
            Ok(Incoming::Whole(frame)) => {
                prop_assert!(at >= BHS_BYTES + DIGEST_BYTES);
                prop_assert!(Link::take(&frame, &mut inbox).data.is_none());
            }
        }
    }

    #[test]
    fn any_bytes_are_a_frame_or_not(bytes in prop::collection::vec(any::<u8>(), 0..400), digests in any::<(bool, bool)>()) {
        let link = link(digests.0, digests.1);
        let mut inbox = filled(&bytes);
        if let Ok(Incoming::Whole(frame)) = link.frame(&mut inbox) {
            let taken = Link::take(&frame, &mut inbox);
            let _ = Ahs::parse(&taken.ahs);
        }
    }
}
