//! The first page of a place.
//!
//! ```text
//!  0        8         12        16         24     32         40        48       52       56
//! ┌────────┬─────────┬─────────┬──────────┬──────┬──────────┬─────────┬────────┬────────┬─────────┐
//! │"AmitaMe│ version │ CRC-32C │ number   │ life │ revision │ length  │ CRC of │ zero   │ zeros … │
//! │ m"     │ 1       │ of the  │          │      │          │ content │ content│        │         │
//! └────────┴─────────┴─page────┴──────────┴──────┴──────────┴─────────┴────────┴────────┴─────────┘
//! ```

use crate::format::PAGE_BYTES;

/// The version of the page's form that this build writes, and the only one that it reads.
pub const PAGE_VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"AmitaMem";

/// What the first page of a place says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Counts the copies on this store: the larger is the newer.
    pub number: u64,
    /// Which life of the metadata the copy is of: counts its recoveries. Revisions of different lives do not compare.
    pub life: u64,
    /// The metadata's revision that the copy is of.
    pub revision: u64,
    /// Bytes of the content.
    pub length_bytes: u64,
    /// CRC-32C of the content.
    pub sum: u32,
}

impl Head {
    /// The page.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        page[0..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&PAGE_VERSION.to_le_bytes());
        page[16..24].copy_from_slice(&self.number.to_le_bytes());
        page[24..32].copy_from_slice(&self.life.to_le_bytes());
        page[32..40].copy_from_slice(&self.revision.to_le_bytes());
        page[40..48].copy_from_slice(&self.length_bytes.to_le_bytes());
        page[48..52].copy_from_slice(&self.sum.to_le_bytes());
        let sum = amita_types::crc32c(&page);
        page[12..16].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// What a page says; `None`: it is no such page, or of a form that this build does not know, or damaged.
    pub(crate) fn decode(page: &[u8]) -> Option<Head> {
        let mut page: Vec<u8> = page.get(..PAGE_BYTES)?.to_vec();
        let u32_at = |page: &[u8], at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        let u64_at = |page: &[u8], at: usize| u64::from(u32_at(page, at)) | u64::from(u32_at(page, at + 4)) << 32;
        let sum = u32_at(&page, 12);
        page[12..16].fill(0);
        let fits = page[0..8] == MAGIC && u32_at(&page, 8) == PAGE_VERSION && amita_types::crc32c(&page) == sum;
        let head = Head {
            number: u64_at(&page, 16),
            life: u64_at(&page, 24),
            revision: u64_at(&page, 32),
            length_bytes: u64_at(&page, 40),
            sum: u32_at(&page, 48),
        };
        (fits && head.length_bytes <= super::MAX_CONTENT_BYTES).then_some(head)
    }
}
