//! What must hold of leaves in memory. Nothing here counts as a use: a check that made leaves stay would change what it looks
//! at.

use super::{Data, LeafCache};
use crate::index::leaves::NO_MEM;
use crate::index::{Entry, LEAF_ENTRIES, Location};

impl LeafCache {
    /// Looks at a leaf's place in memory; `false`: it is being read.
    pub(in crate::index) fn check_one(&self, mem: u32, at: Location, no_page: bool) -> bool {
        let place = &self.mems[mem];
        assert_eq!(place.at, at, "a leaf in memory knows whose it is");
        match &place.data {
            Data::Free => panic!("a leaf of {at:?} is not there"),
            Data::Loading => {
                assert!(!no_page && !place.dirty, "what is read has a page, and has not changed");
                return false;
            }
            Data::Cleared(_) => assert!(no_page || place.dirty, "what was cleared whole needs no page"),
            Data::Flat(_) => assert!(!no_page || place.dirty, "what the disk has not is to be written"),
            Data::Packed(_) => assert!(!place.dirty && !no_page, "what is packed is as the disk has it"),
        }
        true
    }

    /// The entries of a leaf in memory.
    pub(in crate::index) fn look_entries(&self, mem: u32) -> impl Iterator<Item = Entry> + '_ {
        let data = &self.mems[mem].data;
        (0..LEAF_ENTRIES).map(move |at| match data {
            Data::Flat(flat) => self.arena.get(*flat)[at],
            Data::Packed(packed) => packed.entry(at),
            Data::Cleared(version) => Entry::cleared(*version),
            Data::Free | Data::Loading => unreachable!("looked at before"),
        })
    }

    /// The memory of all leaves, of which `referred` were met.
    pub(in crate::index) fn check(&self, referred: u32) {
        let (mut used, mut dirty, mut flat_bytes, mut packed_bytes) = (0, 0, 0, 0);
        for mem in 0..self.mems.len() {
            let place = &self.mems[mem];
            used += u32::from(!matches!(place.data, Data::Free));
            dirty += u32::from(place.dirty);
            match &place.data {
                Data::Flat(_) => flat_bytes += super::LEAF_BYTES,
                Data::Packed(packed) => packed_bytes += packed.bytes(),
                Data::Free => assert!(!place.dirty, "nobody's leaf is written"),
                Data::Loading | Data::Cleared(_) => {}
            }
        }
        assert_ne!(referred, NO_MEM, "fewer leaves than there are numbers");
        assert_eq!(used, referred, "every leaf in memory is somebody's");
        assert_eq!(used + self.free.len() as u32, self.mems.len(), "places for leaves");
        assert_eq!(dirty, self.dirty, "leaves that the disk has otherwise");
        assert_eq!(packed_bytes, self.packed_bytes, "bytes of packed leaves");
        assert_eq!(flat_bytes, self.arena.used_bytes(), "bytes of flat leaves");
    }
}
