//! The pages themselves: of the log, of the checkpoint, and any one.

use super::ReadAt;
use crate::format::checkpoint::{self, Item, PageReader};
use crate::format::page::{self, LogPage};
use crate::format::superblock::{self, Fault, Superblock};
use crate::format::{PAGE_BYTES, leaf, sealed, states};
use std::io;

/// Pages that are read at once.
const STEP: u64 = 32;

/// A page of the log, and where it lies.
#[derive(Clone, Copy, Debug)]
pub struct LogPlace<'a> {
    /// In bytes.
    pub offset: u64,
    pub page: LogPage<'a>,
}

/// Hands out the pages of the log that a mount would read, from the tail on, as long as each follows the one before it.
/// Returns the number of the first that does not.
///
/// # Errors
/// When the device cannot read one; where it lies comes with it.
pub fn log_pages(
    reader: &impl ReadAt,
    superblock: &Superblock,
    each: &mut dyn FnMut(LogPlace<'_>),
) -> Result<u64, (u64, io::Error)> {
    let geometry = &superblock.geometry;
    let mut sequence = superblock.checkpoint.tail;
    let mut sum = superblock.checkpoint.tail_sum;
    let end = sequence + geometry.log_pages;
    let mut bytes = [0; PAGE_BYTES];
    while sequence < end {
        let offset = geometry.log_page_offset(sequence);
        reader.read_at(offset, &mut bytes).map_err(|error| (offset, error))?;
        let Some(page) = LogPage::decode(&bytes, superblock.store) else {
            break;
        };
        let of_mount = if sequence >= superblock.mount_start {
            page.header.mount == superblock.mount
        } else {
            page.header.mount < superblock.mount
        };
        if page.header.sequence != sequence || page.header.previous_sum != sum || !of_mount {
            break;
        }
        each(LogPlace { offset, page });
        sum = page.sum;
        sequence += 1;
    }
    Ok(sequence)
}

/// Where an item of the checkpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointItem {
    /// The page, in bytes.
    pub offset: u64,
    /// Its number in the checkpoint.
    pub page: u64,
}

/// Hands out the items of the checkpoint that a superblock names. What is wrong with a page or an item comes in its place,
/// and the rest of that page is left out.
pub fn checkpoint_items(
    reader: &impl ReadAt,
    superblock: &Superblock,
    each: &mut dyn FnMut(CheckpointItem, Result<Item<'_>, String>),
) {
    let checkpoint = &superblock.checkpoint;
    let start = superblock.geometry.checkpoint_offsets[checkpoint.area as usize];
    let mut buffer = vec![0; STEP as usize * PAGE_BYTES];
    for first in (0..checkpoint.pages).step_by(STEP as usize) {
        let pages = STEP.min(checkpoint.pages - first);
        let bytes = &mut buffer[..pages as usize * PAGE_BYTES];
        let offset = start + first * PAGE_BYTES as u64;
        if let Err(error) = reader.read_at(offset, bytes) {
            each(
                CheckpointItem { offset, page: first },
                Err(format!("the device cannot read it: {error}")),
            );
            continue;
        }
        for (page, bytes) in (first..).zip(bytes.chunks_exact(PAGE_BYTES)) {
            let place = CheckpointItem {
                offset: start + page * PAGE_BYTES as u64,
                page,
            };
            match PageReader::new(bytes, superblock.store, checkpoint.id, page) {
                Ok(items) => {
                    for item in items {
                        let wrong = item.is_err();
                        each(place, item.map_err(str::to_owned));
                        if wrong {
                            break;
                        }
                    }
                }
                Err(what) => each(place, Err(what.to_owned())),
            }
        }
    }
}

/// What a page says that it is. Only its own checksum was looked at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyPage {
    /// A superblock, or why it is none.
    Superblock(Result<Superblock, Fault>),
    /// A page of the log.
    Log(page::Header),
    /// A page of a checkpoint.
    Checkpoint(checkpoint::Header),
    /// A leaf, with its entries.
    Leaf(leaf::Header, Vec<leaf::RawEntry>),
    /// A page of states.
    States(states::Header),
    /// It begins like one of these, but its checksum is wrong.
    Damaged(&'static str),
    Zeros,
    /// Data, or anything else; its CRC-32C.
    Other(u32),
}

/// Looks at the page at `offset`, in bytes.
///
/// # Errors
/// When the device cannot read it, or the file ends before.
pub fn page_at(reader: &impl ReadAt, offset: u64) -> io::Result<(AnyPage, Vec<u8>)> {
    let mut page = vec![0; PAGE_BYTES];
    reader.read_at(offset, &mut page)?;
    Ok((any_page(&page), page))
}

fn any_page(page: &[u8]) -> AnyPage {
    let (magic, _) = page.split_first_chunk().expect("a whole page");
    let long = page.split_first_chunk().map(|(magic, _)| u64::from_le_bytes(*magic));
    if long == Some(superblock::MAGIC) {
        return AnyPage::Superblock(Superblock::decode(page));
    }
    let body = sealed(page).map(|sealed| sealed.body);
    match (u32::from_le_bytes(*magic), body) {
        (page::MAGIC, Some(body)) => AnyPage::Log(page::Header::get(body).unwrap_or_default()),
        (page::MAGIC, None) => AnyPage::Damaged("a page of the log"),
        (checkpoint::MAGIC, Some(body)) => AnyPage::Checkpoint(checkpoint::Header::get(body).unwrap_or_default()),
        (checkpoint::MAGIC, None) => AnyPage::Damaged("a page of a checkpoint"),
        (leaf::MAGIC, Some(body)) => {
            let header = leaf::Header::get(body).unwrap_or_default();
            let raw = body[leaf::Header::BYTES..].chunks_exact(leaf::RawEntry::BYTES);
            let entries = raw.filter_map(leaf::RawEntry::get).take(usize::from(header.entries));
            AnyPage::Leaf(header, entries.collect())
        }
        (leaf::MAGIC, None) => AnyPage::Damaged("a leaf"),
        (states::MAGIC, Some(body)) => AnyPage::States(states::Header::get(body).unwrap_or_default()),
        (states::MAGIC, None) => AnyPage::Damaged("a page of states"),
        _ if page.iter().all(|&byte| byte == 0) => AnyPage::Zeros,
        _ => AnyPage::Other(amita_types::crc32c(page)),
    }
}
