//! How the file is laid out: three parts, each a ring of pages of one size.

/// The unit of a page: what a disk is written by, so that a page that is torn tears no other.
pub(crate) const UNIT_BYTES: u64 = 4096;
/// How long the intervals of each part are, in seconds.
pub const STEPS_S: [u64; 3] = [10, 60, 600];
/// How many of them are kept: five hours, two days, 30 days.
pub(crate) const SLOTS: [u64; 3] = [1800, 2880, 4320];
/// How large the file is where nobody says otherwise.
pub const USUAL_BYTES: u64 = 64 << 20;
/// The least that it can be.
pub const LEAST_BYTES: u64 = (1 + SLOTS[0] + SLOTS[1] + SLOTS[2]) * UNIT_BYTES;
/// The largest page: more objects than fill it are not told apart.
const MAX_PAGE_BYTES: u64 = 64 << 10;
/// In which order the pages of the parts grow while there is room.
const GROWING: [usize; 3] = [2, 1, 0];

/// Where pages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How large the pages of each part are, in bytes.
    pub page_bytes: [u64; 3],
}

impl Layout {
    /// The one that uses the most of so many bytes; none: they are too few ([`LEAST_BYTES`]).
    #[must_use]
    pub fn within(bytes: u64) -> Option<Layout> {
        let mut layout = Layout {
            page_bytes: [UNIT_BYTES; 3],
        };
        if layout.file_bytes() > bytes {
            return None;
        }
        loop {
            let mut grown = false;
            for part in GROWING {
                let mut larger = layout;
                larger.page_bytes[part] += UNIT_BYTES;
                if larger.page_bytes[part] <= MAX_PAGE_BYTES && larger.file_bytes() <= bytes {
                    layout = larger;
                    grown = true;
                }
            }
            if !grown {
                return Some(layout);
            }
        }
    }

    /// Can it be?
    pub(crate) fn is_possible(&self) -> bool {
        let possible = |bytes: &u64| (UNIT_BYTES..=MAX_PAGE_BYTES).contains(bytes) && bytes.is_multiple_of(UNIT_BYTES);
        self.page_bytes.iter().all(possible)
    }

    /// How large the file is.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.start(STEPS_S.len())
    }

    /// Where a part begins.
    fn start(&self, part: usize) -> u64 {
        let before = self.page_bytes.iter().zip(SLOTS).take(part);
        UNIT_BYTES + before.map(|(bytes, slots)| bytes * slots).sum::<u64>()
    }

    /// Where the page of an interval lies that begins so many seconds after 1970.
    pub(crate) fn offset(&self, part: usize, at: u64) -> u64 {
        let slot = at / STEPS_S[part] % SLOTS[part];
        self.start(part) + slot * self.page_bytes[part]
    }

    /// For how long a part reaches back, in seconds.
    #[must_use]
    pub fn reach_s(part: usize) -> u64 {
        STEPS_S[part] * SLOTS[part]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_size_keeps_larger_pages_of_longer_intervals() {
        let usual = Layout::within(USUAL_BYTES).unwrap();
        assert_eq!(usual.page_bytes, [4096, 8192, 8192]);
        assert!(usual.file_bytes() <= USUAL_BYTES && usual.file_bytes() > 60 << 20);
        assert_eq!(Layout::within(LEAST_BYTES).unwrap().page_bytes, [4096; 3]);
        assert_eq!(Layout::within(LEAST_BYTES - 1), None);
        let most = Layout::within(u64::MAX).unwrap();
        assert_eq!(most.page_bytes, [MAX_PAGE_BYTES; 3]);
        assert!([usual, most].iter().all(Layout::is_possible));
    }

    #[test]
    fn pages_lie_beside_each_other_and_come_round() {
        let layout = Layout::within(USUAL_BYTES).unwrap();
        for part in 0..3 {
            let mut offsets: Vec<u64> = (0..SLOTS[part])
                .map(|n| layout.offset(part, n * STEPS_S[part]))
                .collect();
            offsets.sort_unstable();
            assert!(offsets.windows(2).all(|two| two[1] - two[0] == layout.page_bytes[part]));
            assert_eq!(offsets[0], layout.start(part));
            assert_eq!(
                offsets.last().unwrap() + layout.page_bytes[part],
                layout.start(part + 1)
            );
            assert_eq!(layout.offset(part, Layout::reach_s(part)), layout.offset(part, 0));
        }
        assert_eq!(Layout::reach_s(2), 30 * 24 * 3600);
    }
}
