//! What a disk holds that is none of ours, as far as its two ends tell.
//!
//! Most formats have their mark in front. Some have it at the end alone: Linux' RAID of metadata 0.90 and 1.0, the
//! RAIDs of firmware (DDF, Intel's), a partition table whose front was overwritten; and ZFS has two labels at each end.
//! A mark that is known is named, so that whoever took the wrong disk sees whose it is; any other byte counts as data,
//! too.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// How much of each end is looked at: both superblocks of a store, partition tables and the superblocks of common file
/// systems lie there. The marks that are farthest from the end are those of ZFS, two labels at a multiple of their size.
const LOOKED_AT: u64 = 1 << 20;

const RAID_MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
const RAID_MAGIC_BIG_ENDIAN: [u8; 4] = 0xa92b_4efc_u32.to_be_bytes();
const DDF_MAGIC: &[u8] = b"\xde\x11\xde\x11";
const INTEL_SIGNATURE: &[u8] = b"Intel Raid ISM Cfg Sig. ";
const GPT_SIGNATURE: &[u8] = b"EFI PART";
const BCACHE_MAGIC: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf7\x7f\x48\xba\x6d\x81";
const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;
const UBERBLOCK_BYTES: u64 = 1024;
const ZFS_LABEL_BYTES: u64 = 256 << 10;

/// What it is, where its mark may be, and the mark.
type Mark = (&'static str, &'static [u64], &'static [u8]);

/// Places from the front.
const IN_FRONT: &[Mark] = &[
    ("an encrypted disk (LUKS)", &[0], b"LUKS\xba\xbe"),
    ("an encrypted disk (LUKS)", &[16 << 10], b"SKUL\xba\xbe"),
    ("a store of Ceph (BlueStore)", &[0], b"bluestore block device\n"),
    ("a physical volume of LVM", &[0, 512, 1024, 1536], b"LABELONE"),
    ("a member of a Linux RAID (md, metadata 1.1)", &[0], &RAID_MAGIC),
    ("a member of a Linux RAID (md, metadata 1.2)", &[4096], &RAID_MAGIC),
    ("a device of bcache", &[4096 + 24], BCACHE_MAGIC),
    ("an XFS", &[0], b"XFSB"),
    ("a Btrfs", &[(64 << 10) + 64], b"_BHRfS_M"),
    ("an ext2, ext3 or ext4", &[1024 + 56], b"\x53\xef"),
    // At the end of the first page, of whatever size that was.
    ("swap space", &[4086, 16374, 65526], b"SWAPSPACE2"),
    // The second sector.
    ("a partition table (GPT)", &[512, 4096], GPT_SIGNATURE),
];
/// Places from the end: the last sector and the last but one, of 512 bytes or of 4 KiB.
const AT_THE_END: &[Mark] = &[
    ("a member of a RAID (DDF)", &[512, 4096], DDF_MAGIC),
    ("a member of a RAID (Intel)", &[1024, 8192], INTEL_SIGNATURE),
    (
        "the second half of a partition table (GPT)",
        &[512, 4096],
        GPT_SIGNATURE,
    ),
];

/// Both ends of a disk.
pub(super) struct Ends {
    size_bytes: u64,
    pub(super) front: Vec<u8>,
    back: Vec<u8>,
}

impl Ends {
    pub(super) fn read(mut file: &File) -> std::io::Result<Ends> {
        let size_bytes = file.seek(SeekFrom::End(0))?;
        let mut front = vec![0; size_bytes.min(LOOKED_AT) as usize];
        file.read_exact_at(&mut front, 0)?;
        let back_bytes = (size_bytes - front.len() as u64).min(LOOKED_AT);
        let mut back = vec![0; back_bytes as usize];
        file.read_exact_at(&mut back, size_bytes - back_bytes)?;
        Ok(Ends {
            size_bytes,
            front,
            back,
        })
    }

    /// What is there, and at which byte; nothing where both ends are all zeros.
    pub(super) fn what(&self) -> Option<String> {
        // A member of a RAID has in front what the whole of it has, and many things a boot sector.
        let known = self
            .linux_raid()
            .or_else(|| self.zfs())
            .or_else(|| self.first_of(IN_FRONT, Some))
            .or_else(|| self.first_of(AT_THE_END, |place| self.size_bytes.checked_sub(place)))
            .or_else(|| self.boot_sector());
        if let Some((what, offset)) = known {
            return Some(format!("it holds {what}, by its mark at byte {offset}"));
        }
        let first = |bytes: &[u8]| bytes.iter().position(|&byte| byte != 0).map(|place| place as u64);
        let offset = first(&self.front).or_else(|| Some(self.back_begins() + first(&self.back)?))?;
        Some(format!("byte {offset} of it is not zero"))
    }

    fn first_of(&self, marks: &[Mark], offset: impl Fn(u64) -> Option<u64>) -> Option<(&'static str, u64)> {
        marks.iter().find_map(|&(what, places, mark)| {
            let mut offsets = places.iter().filter_map(|&place| offset(place));
            Some((what, offsets.find(|&offset| self.is_at(offset, mark))?))
        })
    }

    /// Those whose superblock is at the end: 8 to 12 KiB before it, at a multiple of 4 KiB; or in the last whole 64 KiB
    /// but one, by the byte order of the machine that made it.
    fn linux_raid(&self) -> Option<(&'static str, u64)> {
        let newer = (self.size_bytes / 512).checked_sub(16).map(|sector| sector / 8 * 4096);
        let older = (self.size_bytes >> 16).checked_sub(1).map(|unit| unit << 16);
        [
            ("a member of a Linux RAID (md, metadata 1.0)", newer, RAID_MAGIC),
            ("a member of a Linux RAID (md, metadata 0.90)", older, RAID_MAGIC),
            (
                "a member of a Linux RAID (md, metadata 0.90)",
                older,
                RAID_MAGIC_BIG_ENDIAN,
            ),
        ]
        .into_iter()
        .find_map(|(what, offset, magic)| Some((what, offset.filter(|&offset| self.is_at(offset, &magic))?)))
    }

    /// Each of the four labels has a ring of uberblocks in its second half; a young pool has not written all of it.
    fn zfs(&self) -> Option<(&'static str, u64)> {
        let labels = self.size_bytes / ZFS_LABEL_BYTES;
        let labels = [Some(0), Some(1), labels.checked_sub(2), labels.checked_sub(1)];
        let ring = ZFS_LABEL_BYTES / 2 / UBERBLOCK_BYTES..ZFS_LABEL_BYTES / UBERBLOCK_BYTES;
        labels
            .into_iter()
            .flatten()
            .flat_map(|label| {
                ring.clone()
                    .map(move |place| label * ZFS_LABEL_BYTES + place * UBERBLOCK_BYTES)
            })
            .find(|&offset| {
                let magics = [UBERBLOCK_MAGIC.to_le_bytes(), UBERBLOCK_MAGIC.to_be_bytes()];
                magics.iter().any(|magic| self.is_at(offset, magic))
            })
            .map(|offset| ("a member of a pool of ZFS", offset))
    }

    fn boot_sector(&self) -> Option<(&'static str, u64)> {
        let what = "a partition table (MBR) or another boot sector";
        self.is_at(510, b"\x55\xaa").then_some((what, 510))
    }

    fn back_begins(&self) -> u64 {
        self.size_bytes - self.back.len() as u64
    }

    fn is_at(&self, offset: u64, mark: &[u8]) -> bool {
        let (bytes, place) = match offset.checked_sub(self.back_begins()) {
            Some(place) if offset >= self.front.len() as u64 => (&self.back, place),
            _ => (&self.front, offset),
        };
        bytes.get(place as usize..).is_some_and(|bytes| bytes.starts_with(mark))
    }
}
