use super::*;

#[test]
fn a_status_is_read_from_its_field() {
    let read = Status::of_field(0x83 << 1 | 1 << 15);
    assert_eq!(read.number(), status::RESERVATION_CONFLICT);
    assert!(read.final_ && !read.more && !read.is_success());
    assert_eq!(read.to_string(), "Reservation Conflict (0h/83h), do not retry");
    assert_eq!(Status::of_field(0x81 << 1 | 2 << 9).number(), status::READ_ERROR);
}

#[test]
fn fields_of_a_command_stand_where_the_specification_has_them() {
    let command = Command::new(io::READ)
        .id(0x1234)
        .namespace(7)
        .qword(10, 0x1122_3344_5566_7788)
        .dword(12, 31);
    assert_eq!(&command.0[..8], &[2, 0x40, 0x34, 0x12, 7, 0, 0, 0]);
    assert_eq!(
        &command.0[40..52],
        &[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 31, 0, 0, 0]
    );
    let described = command.described(Descriptor::in_capsule(0, 0x1000));
    assert_eq!(
        &described.0[24..40],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 1]
    );
    assert_eq!(described.length(), 0x1000);
}

#[test]
fn an_icreq_has_128_bytes_and_no_digest() {
    let bytes = icreq(0, 3, 3, 7).encode(Digests::BOTH, 4);
    assert_eq!(bytes.len(), 128);
    assert_eq!(&bytes[..16], &[0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 3, 3, 7, 0, 0, 0]);
}

#[test]
fn a_capsule_with_data_is_laid_out_with_digests_and_padding() {
    let command = Command::new(io::WRITE);
    let plain = Pdu::command(&command).with_data(&[7; 512]).encode(Digests::NONE, 4);
    assert_eq!(&plain[..8], &[4, 0, 72, 72, 72, 2, 0, 0]);
    assert_eq!(plain.len(), 72 + 512);
    let both = Pdu::command(&command).with_data(&[7; 512]).encode(Digests::BOTH, 64);
    assert_eq!(&both[..8], &[4, 3, 72, 128, 0x84, 2, 0, 0]);
    assert_eq!(u32_at(&both, 72), crc_of(&both[..72]));
    assert!(both[76..128].iter().all(|&byte| byte == 0));
    assert_eq!(u32_at(&both, 640), crc_of(&[7; 512]));
}

#[test]
fn what_a_target_may_not_send_is_told() {
    let capsule = Pdu::new(kind::CAPSULE_RESP, vec![0; 16]);
    let good = capsule.encode(
        Digests {
            header: true,
            data: false,
        },
        4,
    );
    assert_eq!(Pdu::length(&good).unwrap(), Some(28));
    assert_eq!(
        Pdu::decode(
            &good,
            Digests {
                header: true,
                data: false
            },
            4
        )
        .unwrap(),
        capsule
    );
    assert!(Pdu::decode(&good, Digests::NONE, 4).is_err());
    let mut bad = good.clone();
    bad[9] ^= 1;
    assert!(
        Pdu::decode(
            &bad,
            Digests {
                header: true,
                data: false
            },
            4
        )
        .is_err()
    );
    assert!(Pdu::length(&Pdu::command(&Command::new(0)).encode(Digests::NONE, 4)).is_err());
    assert_eq!(Pdu::length(&good[..7]).unwrap(), None);
}

/// CRC-32C bit by bit, as its definition has it.
fn crc_of(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
