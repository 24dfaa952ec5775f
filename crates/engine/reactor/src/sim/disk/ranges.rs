//! A set of bytes, as ranges that neither touch nor overlap.

use std::collections::BTreeMap;
use std::ops::Range;

/// Which bytes of a disk have some property.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    /// End by start.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.first_within(range).is_some()
    }

    pub fn insert(&mut self, range: Range<u64>) {
        let mut whole = range;
        if whole.is_empty() {
            return;
        }
        // Neighbours become one with it.
        while let Some((&start, &end)) = self.ranges.range(..=whole.end).next_back()
            && end >= whole.start
        {
            self.ranges.remove(&start);
            whole = whole.start.min(start)..whole.end.max(end);
        }
        self.ranges.insert(whole.start, whole.end);
    }

    pub fn remove(&mut self, range: Range<u64>) {
        while let Some(part) = self.first_within(&range) {
            let (&start, &end) = self.ranges.range(..=part.start).next_back().expect("it is in one");
            self.ranges.remove(&start);
            if start < part.start {
                self.ranges.insert(start, part.start);
            }
            if part.end < end {
                self.ranges.insert(part.end, end);
            }
        }
    }

    /// Cuts a range into parts that are wholly inside (true) or outside.
    pub fn cut(&self, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while let Some(inside) = self.first_within(&(at..range.end)) {
            if at < inside.start {
                parts.push((at..inside.start, false));
            }
            at = inside.end;
            parts.push((inside, true));
        }
        if at < range.end {
            parts.push((at..range.end, false));
        }
        parts
    }

    /// The first part of a range that is in the set.
    fn first_within(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let before = self.ranges.range(..=range.start).next_back();
        let (&start, &end) = before
            .filter(|(_, end)| **end > range.start)
            .or_else(|| self.ranges.range(range.start..range.end).next())?;
        let part = start.max(range.start)..end.min(range.end);
        (!part.is_empty()).then_some(part)
    }
}

#[cfg(test)]
mod tests;
