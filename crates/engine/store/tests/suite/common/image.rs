//! The bytes of a disk in pages that its copies share: a copy costs a few hundred counts, not a megabyte.

use super::{BLOCK, Fate};
use std::rc::Rc;

/// The bytes of a disk.
#[derive(Clone, Debug)]
pub struct Image {
    pages: Vec<Rc<[u8; BLOCK]>>,
}

impl Image {
    pub fn new(bytes: &[u8]) -> Image {
        let (pages, rest) = bytes.as_chunks::<BLOCK>();
        assert!(rest.is_empty(), "a disk consists of whole blocks");
        Image {
            pages: pages.iter().map(|page| Rc::new(*page)).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.pages.len() * BLOCK
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.pages.iter().for_each(|page| bytes.extend_from_slice(&page[..]));
        bytes
    }

    /// The pieces of a range, each in one page: (page, first byte in it, bytes).
    fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let (mut at, end) = (offset as usize, offset as usize + bytes);
        std::iter::from_fn(move || {
            let bytes = (BLOCK - at % BLOCK).min(end - at);
            let piece = (at / BLOCK, at % BLOCK, bytes);
            at += bytes;
            (bytes > 0).then_some(piece)
        })
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) {
        let mut rest = out;
        for (page, first, bytes) in Image::pieces(offset, rest.len()) {
            let (now, later) = rest.split_at_mut(bytes);
            now.copy_from_slice(&self.pages[page][first..first + bytes]);
            rest = later;
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (page, first, bytes) in Image::pieces(offset, rest.len()) {
            let (now, later) = rest.split_at(bytes);
            if bytes == BLOCK {
                self.pages[page] = Rc::new(now.try_into().expect("a whole page"));
            } else {
                Rc::make_mut(&mut self.pages[page])[first..first + bytes].copy_from_slice(now);
            }
            rest = later;
        }
    }

    /// A write meets its fate.
    pub fn strike(&mut self, fate: Fate, offset: u64, bytes: &[u8]) {
        match fate {
            Fate::Lost => {}
            Fate::Kept => self.write(offset, bytes),
            _ => {
                let mut place = vec![0; bytes.len()];
                self.read(offset, &mut place);
                fate.strike(&mut place, bytes);
                self.write(offset, &place);
            }
        }
    }
}
