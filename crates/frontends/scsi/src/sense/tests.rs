use super::*;
use proptest::prelude::*;

#[test]
fn fixed_format() {
    let sense = Sense::new(Key::IllegalRequest, code::LBA_OUT_OF_RANGE).with_information(0x0102_0304);
    let bytes = sense.encode(Format::Fixed);
    assert_eq!(bytes, [0xf0, 0, 5, 1, 2, 3, 4, 10, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0]);
    let beyond = sense.with_information(1 << 32).encode(Format::Fixed);
    assert_eq!(beyond[..7], [0x70, 0, 5, 0, 0, 0, 0], "no room in 32 bits: not valid");
}

#[test]
fn a_pointer_to_a_field() {
    // SPC-4: SKSV, C/D, BPV and the bit in the first byte, then the field.
    let of_cdb = Sense::in_cdb(1, Some(4)).encode(Format::Fixed);
    assert_eq!(of_cdb[12..18], [0x24, 0, 0, 0xcc, 0, 1]);
    let of_list = Sense::in_list(0x0102, None).encode(Format::Fixed);
    assert_eq!(of_list[12..18], [0x26, 0, 0, 0x80, 1, 2]);
    let segment = Specific::Segment(SegmentPointer {
        in_segment: true,
        byte: 6,
        bit: Some(0),
    });
    assert_eq!(segment.encode(), Some([0xa8, 0, 6]));
    assert_eq!(Specific::Progress(0x8000).encode(), Some([0x80, 0x80, 0]));
}

#[test]
fn descriptor_format() {
    let mut sense = Sense::in_cdb(2, None).with_information(1 << 40);
    sense.command_specific = Some(7);
    let bytes = sense.encode(Format::Descriptor);
    assert_eq!(bytes.len(), MAX_SENSE_BYTES);
    assert_eq!(bytes[..8], [0x72, 5, 0x24, 0, 0, 0, 0, 32]);
    assert_eq!(bytes[8..20], [0, 0x0a, 0x80, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[20..32], [1, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(bytes[32..], [2, 6, 0, 0, 0xc0, 0, 2, 0]);
    assert_eq!(Sense::NONE.encode(Format::Descriptor), [0x72, 0, 0, 0, 0, 0, 0, 0]);
}

proptest! {
    #[test]
    fn lengths_are_told(information: Option<u64>, specific: Option<u64>, byte: u16, bit in 0..8_u8) {
        let mut sense = Sense::in_cdb(byte, Some(bit));
        sense.information = information;
        sense.command_specific = specific;
        let fixed = sense.encode(Format::Fixed);
        prop_assert_eq!(fixed.len(), usize::from(fixed[7]) + 8);
        prop_assert_eq!(fixed[0] >> 7 == 1, information.is_some_and(|number| number <= u64::from(u32::MAX)));
        let descriptors = sense.encode(Format::Descriptor);
        prop_assert_eq!(descriptors.len(), usize::from(descriptors[7]) + 8);
        prop_assert!(descriptors.len() <= MAX_SENSE_BYTES);
    }
}
