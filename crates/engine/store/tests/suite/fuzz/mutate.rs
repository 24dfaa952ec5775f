//! Inputs for a run without coverage: seeds, and a small mutator over them. Everything follows from one number.

use super::base::{self, base};
use super::edit::{self, kind, region};
use super::pages;
use crate::common::{BLOCK, Rng};
use amita_store::format::superblock::{OFFSETS, Superblock};
use amita_store::format::{checkpoint, leaf, page};

/// The seeds of a target: what it is meant to read, whole.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "superblock" => bases(|image| OFFSETS.iter().map(|&at| page_at(image, at as usize)).collect()),
        "log" => bases(|image| with_magic(image, page::MAGIC)),
        "checkpoint" => bases(|image| with_magic(image, checkpoint::MAGIC)),
        "leaf" => bases(|image| with_magic(image, leaf::MAGIC)),
        _ => (0..64).map(|seed| edits(&mut Rng(seed))).collect(),
    }
}

fn bases(pages_of: impl Fn(&[u8]) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    (0..base::COUNT)
        .flat_map(|which| pages_of(&base(which).image))
        .map(|page| pages::input(0, &page))
        .collect()
}

/// A page without the zeros at its end, and without its checksum: it gets a new one.
fn page_at(image: &[u8], at: usize) -> Vec<u8> {
    let body = &image[at..at + BLOCK - 4];
    let used = body.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    body[..used].to_vec()
}

fn with_magic(image: &[u8], magic: u32) -> Vec<Vec<u8>> {
    let places = (0..image.len()).step_by(BLOCK);
    let places = places.filter(|&at| image[at..].starts_with(&magic.to_le_bytes()));
    places.map(|at| page_at(image, at)).collect()
}

/// Where the fields of the structures are, more or less: edits there do more than edits of zeros.
fn offset(rng: &mut Rng, what: u8) -> u16 {
    let used = match what & region::ANY {
        region::SUPERBLOCK => 176,
        region::LOG => 200,
        region::CHECKPOINT => 600,
        _ => BLOCK,
    };
    let aligned = if rng.chance(2) { 8 } else { 1 };
    (rng.below(used) / aligned * aligned) as u16
}

/// A few edits of an image, most of them where the checksum does not stop them.
pub fn edits(rng: &mut Rng) -> Vec<u8> {
    let mut flags = rng.below(base::COUNT) as u8;
    for flag in [edit::RELINK, edit::RELINK, edit::VOLATILE, edit::BOTH, edit::BOTH] {
        flags |= if rng.chance(2) { flag } else { 0 };
    }
    flags |= if rng.chance(8) { edit::FILL } else { 0 };
    let mut out = vec![flags];
    for _ in 0..1 + rng.below(4) {
        let regions = [
            region::SUPERBLOCK,
            region::LOG,
            region::LOG,
            region::CHECKPOINT,
            region::ANY,
        ];
        let mut what = regions[rng.below(regions.len())];
        what |= if rng.chance(5) { 0 } else { edit::SEAL };
        let kind = match rng.below(20) {
            0..5 => kind::SET,
            5..9 => kind::FLIP,
            9..16 => kind::NUMBER,
            16..18 => kind::COPY,
            18 => kind::ZERO,
            _ => kind::TRUNCATE,
        };
        out.extend([what | kind, rng.next() as u8]);
        match kind {
            kind::SET => {
                out.extend(offset(rng, what).to_le_bytes());
                let count = 1 + rng.below(12);
                out.push(count as u8 - 1);
                out.extend(rng.bytes(count));
            }
            kind::FLIP => {
                out.extend(offset(rng, what).to_le_bytes());
                out.push(rng.next() as u8);
            }
            kind::NUMBER => {
                out.extend(offset(rng, what).to_le_bytes());
                out.extend([rng.next() as u8, rng.next() as u8]);
            }
            kind::COPY | kind::TRUNCATE => out.push(rng.next() as u8),
            _ => {}
        }
    }
    out
}

/// Numbers that programs stumble over.
const INTERESTING: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x100,
    0x3ff,
    0x400,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    u64::MAX,
];

/// One input made of others.
pub fn mutate(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = seeds[rng.below(seeds.len())].clone();
    for _ in 0..1 + rng.below(5) {
        if input.is_empty() {
            return input;
        }
        let at = rng.below(input.len());
        match rng.below(12) {
            0..3 => input[at] ^= 1 << rng.below(8),
            3..5 => input[at] = rng.next() as u8,
            5..9 => {
                let number = INTERESTING[rng.below(INTERESTING.len())].to_le_bytes();
                let width = [1, 2, 4, 8][rng.below(4)].min(input.len() - at);
                input[at..at + width].copy_from_slice(&number[..width]);
            }
            9 => {
                let other = &seeds[rng.below(seeds.len())];
                let from = rng.below(other.len().max(1));
                input.truncate(at);
                input.extend(&other[from.min(other.len())..]);
            }
            10 => input.truncate(at),
            _ => {
                // A piece of itself, somewhere else: an item or a record once more.
                let count = (1 + rng.below(48)).min(input.len() - at);
                let piece = input[at..at + count].to_vec();
                let to = rng.below(input.len());
                input.splice(to..to, piece);
            }
        }
    }
    input
}

/// A superblock's fields, one after the other, with each interesting number, as seeds of their own: there are few.
pub fn superblock_fields() -> Vec<Vec<u8>> {
    let fields = [(8, 4), (12, 4), (120, 4), (124, 4), (144, 4), (148, 4)].into_iter();
    let wide = [
        16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 136, 152, 160, 168,
    ];
    let fields: Vec<(u16, u8)> = fields.chain(wide.map(|at| (at, 8))).collect();
    let mut out = Vec::new();
    for base in 0..base::COUNT as u8 {
        for &(at, width) in &fields {
            for number in 0..12 {
                let what = kind::NUMBER | region::SUPERBLOCK | edit::SEAL;
                let [low, high] = at.to_le_bytes();
                let width = if width == 8 { 3 } else { 2 };
                out.push(vec![base | edit::BOTH, what, 0, low, high, width, number]);
            }
        }
    }
    out
}

/// Does the image of a base say what [`superblock_fields`] thinks?
pub fn fields_are_where_they_were() -> bool {
    let page = page_at(&base(2).image, 0);
    let mut whole = [0; BLOCK];
    whole[..page.len()].copy_from_slice(&page);
    amita_store::format::seal(&mut whole);
    let at = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("8 bytes"));
    Superblock::decode(&whole)
        .is_ok_and(|s| (at(24), at(152), at(160), at(168)) == (s.generation, s.checkpoint.tail, s.mount, s.mount_start))
}
