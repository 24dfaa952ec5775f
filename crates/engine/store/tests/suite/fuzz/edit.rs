//! An input as edits of an image. Any bytes are some edits:
//!
//! ```text
//! flags        bits 0-1 the base, and the flags below
//! then for each edit:
//! what         bits 0-2 kind, bits 3-4 region, bit 5: seal the page afterwards
//! page         which page of the region
//! then by kind: offset (u16), and a byte of length and the bytes; or a bit; or width and number; or a page
//! ```

use crate::common::BLOCK;
use amita_store::format::superblock::{OFFSETS, Superblock};
use amita_store::format::{checkpoint, page, seal};

/// After all edits, the chain of log pages, the checkpoint's last page and the superblocks are made to fit together
/// again: what was edited in them looks as if a program had written it so.
pub const RELINK: u8 = 1 << 2;
/// The device has a volatile cache.
pub const VOLATILE: u8 = 1 << 3;
/// After the mount enough is written for a checkpoint.
pub const FILL: u8 = 1 << 4;
/// Both superblocks are edited alike.
pub const BOTH: u8 = 1 << 5;

/// Seal the edited page.
pub const SEAL: u8 = 1 << 5;

/// Kinds of edits.
pub mod kind {
    /// Bytes are overwritten.
    pub const SET: u8 = 0;
    /// A bit is flipped.
    pub const FLIP: u8 = 1;
    /// A number is replaced by another that is interesting there.
    pub const NUMBER: u8 = 2;
    /// The page becomes a copy of another one.
    pub const COPY: u8 = 3;
    /// The page becomes zeros.
    pub const ZERO: u8 = 4;
    /// The file ends with this page.
    pub const TRUNCATE: u8 = 5;
}

/// Regions, as the bits of an edit have them.
pub mod region {
    /// The two superblocks.
    pub const SUPERBLOCK: u8 = 0;
    /// The pages of the log from the tail on.
    pub const LOG: u8 = 1 << 3;
    /// The pages of the checkpoint.
    pub const CHECKPOINT: u8 = 2 << 3;
    /// Any page.
    pub const ANY: u8 = 3 << 3;
}

/// What a number becomes, from what it is.
const NUMBERS: [fn(u64) -> u64; 12] = [
    |_| 0,
    |_| u64::MAX,
    |old| old.wrapping_add(1),
    |old| old.wrapping_sub(1),
    |old| old.wrapping_mul(2),
    |_| 1 << 63,
    |_| u64::from(u32::MAX),
    |_| 0xff_ffff << 40,
    |old| old ^ 1 << 40,
    |_| u64::MAX - 63,
    |_| 4096,
    |old| old.wrapping_add(64),
];

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn offset(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes([self.byte()?, self.byte()?])) % BLOCK)
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

/// The image's edits end here, however long the input is: one run stays short.
const MAX_EDITS: usize = 64;

/// Applies the edits of an input (without its flags) to an image. Returns whether a superblock, a page of the log or one
/// of the checkpoint says something else now and has the right checksum: such a page may name a mount that is still to
/// come, a mark that was never reached, or slots as free that are in use, and only some of that is noticed, some late.
pub fn apply(image: &mut Vec<u8>, flags: u8, edits: &[u8]) -> bool {
    let regions = Regions::of(image);
    let mut forged = false;
    let mut input = Input(edits);
    for _ in 0..MAX_EDITS {
        let Some(what) = input.byte() else { break };
        let Some(place) = edit(image, &regions, flags, what, &mut input) else {
            break;
        };
        forged |= place < regions.structures_end && (what & SEAL != 0 || flags & RELINK != 0);
    }
    if flags & RELINK != 0 {
        relink(image);
    }
    forged
}

/// Where the pages of each region are, before anything is edited.
struct Regions {
    places: [Vec<usize>; 4],
    structures_end: usize,
}

impl Regions {
    fn of(image: &[u8]) -> Regions {
        let found = superblock(image).expect("a base is valid");
        let geometry = found.geometry;
        let start = geometry.checkpoint_offsets[found.checkpoint.area as usize] as usize;
        let log = (found.checkpoint.tail..found.checkpoint.tail + geometry.log_pages)
            .map(|sequence| geometry.log_page_offset(sequence) as usize)
            .take_while(|&place| image[place..].starts_with(&page::MAGIC.to_le_bytes()))
            .chain([geometry.log_offset as usize]);
        let pages = found.checkpoint.pages.max(1) as usize;
        let places = [
            OFFSETS.map(|offset| offset as usize).to_vec(),
            log.collect(),
            (0..pages).map(|page| start + page * BLOCK).collect(),
            (0..image.len() / BLOCK).map(|page| page * BLOCK).collect(),
        ];
        let structures_end = geometry.slots_offset as usize;
        Regions { places, structures_end }
    }

    fn place(&self, what: u8, page: u8) -> usize {
        let pages = &self.places[usize::from(what >> 3 & 3)];
        pages[usize::from(page) % pages.len()]
    }
}

fn edit(image: &mut Vec<u8>, regions: &Regions, flags: u8, what: u8, input: &mut Input<'_>) -> Option<usize> {
    let place = regions.place(what, input.byte()?);
    if place + BLOCK > image.len() {
        return Some(place);
    }
    match what & 7 {
        kind::SET => {
            let at = place + input.offset()?;
            let count = 1 + usize::from(input.byte()? % 32);
            let bytes = input.bytes(count.min(place + BLOCK - at));
            image[at..at + bytes.len()].copy_from_slice(bytes);
        }
        kind::FLIP => image[place + input.offset()?] ^= 1 << (input.byte()? & 7),
        kind::NUMBER => {
            let at = place + input.offset()?;
            let width = [1, 2, 4, 8][usize::from(input.byte()? & 3)].min(place + BLOCK - at);
            let number = NUMBERS[usize::from(input.byte()?) % NUMBERS.len()];
            let mut old = [0; 8];
            old[..width].copy_from_slice(&image[at..at + width]);
            let new = number(u64::from_le_bytes(old)).to_le_bytes();
            image[at..at + width].copy_from_slice(&new[..width]);
        }
        kind::COPY => {
            let from = regions.place(what, input.byte()?);
            if from + BLOCK <= image.len() {
                image.copy_within(from..from + BLOCK, place);
            }
        }
        kind::ZERO => image[place..place + BLOCK].fill(0),
        kind::TRUNCATE => image.truncate(place + usize::from(input.byte()?) * 16),
        _ => {}
    }
    if place + BLOCK > image.len() {
        return Some(place);
    }
    if what & SEAL != 0 {
        seal(&mut image[place..place + BLOCK]);
    }
    let [first, second] = OFFSETS.map(|offset| offset as usize);
    if flags & BOTH != 0 && what & region::ANY == region::SUPERBLOCK {
        let other = if place == first { second } else { first };
        if other + BLOCK <= image.len() {
            image.copy_within(place..place + BLOCK, other);
        }
    }
    Some(place)
}

fn superblock(image: &[u8]) -> Option<Superblock> {
    let pages = OFFSETS
        .iter()
        .filter_map(|&at| image.get(at as usize..at as usize + BLOCK));
    pages
        .filter_map(|page| Superblock::decode(page).ok())
        .max_by_key(|s| s.generation)
}

/// Makes checksums that name each other right again.
fn relink(image: &mut [u8]) {
    let Some(mut found) = superblock(image) else { return };
    let geometry = found.geometry;
    if geometry.size_bytes > image.len() as u64 {
        return;
    }
    let start = geometry.checkpoint_offsets[found.checkpoint.area as usize] as usize;
    for index in 0..found.checkpoint.pages as usize {
        let page = &mut image[start + index * BLOCK..][..BLOCK];
        if page.starts_with(&checkpoint::MAGIC.to_le_bytes()) {
            found.checkpoint.last_sum = seal(page);
        }
    }
    let mut sum = found.checkpoint.tail_sum;
    for count in 0..geometry.log_pages {
        let sequence = found.checkpoint.tail.wrapping_add(count);
        let at = geometry.log_page_offset(sequence) as usize;
        let bytes = &mut image[at..at + BLOCK];
        let Some(mut header) = page::Header::get(bytes) else {
            break;
        };
        if header.magic != page::MAGIC || header.sequence != sequence {
            break;
        }
        header.previous_sum = sum;
        header.put(bytes);
        sum = seal(bytes);
    }
    let page = found.encode();
    for offset in OFFSETS {
        image[offset as usize..][..BLOCK].copy_from_slice(&page);
    }
}
