//! Reads that go by a copy: EXTENDED COPY copies the range to a volume that hosts have for that, where it is read. What is read there was in
//! the range at some time between the two, so that it is judged as any other read; what a copy has left out, or brought late, shows.
//!
//! Each host has places of its own there. One is used again when its copy has ended well, or the target has said that it is over: of any
//! other one something may still be under way.

use super::super::linux::HostEffect;
use super::commands::PAUSE;
use super::wire::{Command, Verdict, u32_at};
use super::{Bio, Initiator};
use crate::cluster::node::CLUSTER;
use crate::stamp::SECTORS_PER_BLOCK;
use amita_reactor::Time;
use amita_types::VolumeId;
use amita_types::map::{Namespace, naa};

/// Places of each host.
const PLACES: u64 = 4;
/// Eight blocks, and one more for what begins inside a block.
const PLACE_SECTORS: u64 = 9 * SECTORS_PER_BLOCK as u64;
/// One read of so many goes by a copy, if it is short enough.
const ONE_IN: u32 = 4;

const READ: u8 = 0x88;
const EXTENDED_COPY: u8 = 0x83;

/// Blocks of the volume to which so many hosts copy.
pub fn scratch_blocks(hosts: u32) -> u64 {
    u64::from(hosts) * PLACES * PLACE_SECTORS / SECTORS_PER_BLOCK as u64
}

/// Where a host copies to.
#[derive(Clone, Debug)]
pub struct Scratch {
    pub lun: u16,
    /// The first sector that is its own.
    first: u64,
    /// The names of the host's volume, and of that one.
    names: [[u8; 16]; 2],
}

impl Scratch {
    /// The host of that number copies from the one volume to the other.
    pub fn new(number: u32, from: VolumeId, to: VolumeId, lun: u16) -> Scratch {
        Scratch {
            lun,
            first: u64::from(number) * PLACES * PLACE_SECTORS,
            names: [from, to].map(|volume| naa(&Namespace::uuid_of(CLUSTER, volume))),
        }
    }
}

/// A read that goes by a copy.
#[derive(Clone, Debug)]
pub(super) struct ByCopy {
    place: u64,
    /// The same without one.
    plain: Command,
    /// What is read when the range is copied.
    read: Option<Command>,
}

/// All places, of a host that has begun.
pub(super) fn places() -> Vec<u64> {
    (0..PLACES).collect()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

/// The list of a copy (SPC-3, "EXTENDED COPY command"), without an identifier. Each segment: how many blocks, from where and to where.
fn list(names: &[[u8; 16]; 2], segments: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut list = vec![0; 16];
    (list[1], list[3], list[11]) = (3 << 3, 64, 28 * segments.len() as u8);
    for name in names {
        // An identification descriptor, of a disk: binary, NAA.
        list.extend([0xe4, 0, 0, 0, 1, 3, 0, 16]);
        list.extend(name);
        list.extend([0; 8]);
    }
    for (blocks, from, to) in segments {
        list.extend([0x02, 0, 0, 0x18, 0, 0, 0, 1, 0, 0]);
        list.extend((*blocks as u16).to_be_bytes());
        list.extend(from.to_be_bytes());
        list.extend(to.to_be_bytes());
    }
    list
}

impl Initiator {
    /// Has a read go by a copy, now and then.
    pub(super) fn copy_perhaps(&mut self, mut bio: Bio) -> Bio {
        let Some(scratch) = &self.settings.scratch else {
            return bio;
        };
        let (first, sectors) = (u64_at(&bio.command.cdb, 2), u64::from(u32_at(&bio.command.cdb, 10)));
        // Begun in the same place of a block, so that it is cut where blocks end, here as there.
        let block = SECTORS_PER_BLOCK as u64;
        let skip = first % block;
        let is_meant = bio.command.cdb[0] == READ && bio.id.0 % ONE_IN == 1;
        if !is_meant || skip + sectors > PLACE_SECTORS {
            return bio;
        }
        let Some(place) = self.places.pop() else { return bio };
        let at = scratch.first + place * PLACE_SECTORS + skip;
        let mut read = bio.command.clone();
        read.lun = scratch.lun;
        read.cdb[2..10].copy_from_slice(&at.to_be_bytes());
        // In two segments, where there are two blocks.
        let half = ((skip + sectors).div_ceil(2).next_multiple_of(block) - skip).min(sectors);
        let segments = [(half, first, at), (sectors - half, first + half, at + half)];
        let count = if half < sectors { 2 } else { 1 };
        let write = list(&scratch.names, &segments[..count]);
        let mut cdb = [0; 16];
        cdb[0] = EXTENDED_COPY;
        cdb[10..14].copy_from_slice(&(write.len() as u32).to_be_bytes());
        let copy = Command {
            lun: bio.command.lun,
            cdb,
            write,
            read: 0,
        };
        let plain = std::mem::replace(&mut bio.command, copy);
        let read = Some(read);
        bio.by_copy = Some(Box::new(ByCopy { place, plain, read }));
        bio
    }

    /// A command has been answered: what becomes of it, if it goes by a copy and not as others do from here on.
    pub(super) fn copied(&mut self, now: Time, path: usize, mut bio: Bio, verdict: Verdict) -> Option<Bio> {
        let Some(by_copy) = &mut bio.by_copy else {
            return Some(bio);
        };
        match (verdict.status, verdict.sense) {
            // Not begun; or over, which is told by itself.
            (2, [6, ..]) | (0x40, _) => return Some(bio),
            (0, _) => {
                if let Some(read) = by_copy.read.take() {
                    bio.command = read;
                    self.send(now, path, bio);
                    return None;
                }
                self.places.push(by_copy.place);
                bio.by_copy = None;
                self.taken.push("iscsi.read_by_copy");
                return Some(bio);
            }
            // COPY ABORTED, or no intact copy where it was copied to: hosts do it themselves then.
            (2, [0xa | 3, ..]) => {
                bio.without_copy();
                self.acts.push_back(HostEffect::Again {
                    id: bio.id,
                    lost: false,
                });
                self.later.push((now.plus(PAUSE), bio));
                return None;
            }
            _ => {}
        }
        bio.without_copy();
        Some(bio)
    }

    /// The target has said that a command is over.
    pub(super) fn copy_over(&mut self, bio: &mut Bio) {
        if let Some(by_copy) = bio.by_copy.take() {
            self.places.push(by_copy.place);
        }
    }
}

impl Bio {
    /// It goes on as others do. Its place is not used again: of the copy something may be under way.
    pub(super) fn without_copy(&mut self) {
        if let Some(by_copy) = self.by_copy.take() {
            self.command = by_copy.plain;
        }
    }
}
