//! MD5 (RFC 1321), for initiators that know no other hash: the cryptography of the tree has none, and it is used for
//! nothing else. What is broken of it (collisions) is not what CHAP rests on.

/// The rotations of the four rounds.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
const BLOCK_BYTES: usize = 64;

/// The integer part of 2^32 times the sine of each number from 1 on (RFC 1321, 3.4).
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

/// The digest of all parts, one behind the other.
pub(super) fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut message = parts.concat();
    let bits = (message.len() as u64).wrapping_mul(8);
    // A one, zeros, and the length: whole blocks (3.1, 3.2).
    message.push(0x80);
    let whole = (message.len() + 8).next_multiple_of(BLOCK_BYTES);
    message.resize(whole - 8, 0);
    message.extend_from_slice(&bits.to_le_bytes());
    let mut state = START;
    for block in message.chunks_exact(BLOCK_BYTES) {
        step(&mut state, block);
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// Takes one block (3.4).
fn step(state: &mut [u32; 4], block: &[u8]) {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for (index, sine) in SINES.iter().enumerate() {
        let round = index / 16;
        let (mixed, place) = match round {
            0 => ((b & c) | (!b & d), index),
            1 => ((d & b) | (!d & c), 5 * index + 1),
            2 => (b ^ c ^ d, 3 * index + 5),
            _ => (c ^ (b | !d), 7 * index),
        };
        let sum = a
            .wrapping_add(mixed)
            .wrapping_add(words[place % 16])
            .wrapping_add(*sine);
        let turned = b.wrapping_add(sum.rotate_left(ROTATIONS[round][index % 4]));
        (a, d, c, b) = (d, c, b, turned);
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(added);
    }
}

#[cfg(test)]
mod tests {
    use super::md5;

    fn hex(text: &str) -> String {
        md5(&[text.as_bytes()])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// RFC 1321, A.5.
    #[test]
    fn the_examples_of_the_specification() {
        assert_eq!(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex("a"), "0cc175b9c0f1b6a831c399e269772661");
        assert_eq!(hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(hex("abcdefghijklmnopqrstuvwxyz"), "c3fcd3d76192e4007dfb496cca67e13b");
        assert_eq!(
            hex("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
            "d174ab98d277d9f5a5611c2c9f419d9f"
        );
        let digits = "1234567890".repeat(8);
        assert_eq!(hex(&digits), "57edf4a22be3c955ac49da2e2107b67a");
    }

    #[test]
    fn parts_are_one_message() {
        assert_eq!(md5(&[b"ab", b"", b"c"]), md5(&[b"abc"]));
    }
}
