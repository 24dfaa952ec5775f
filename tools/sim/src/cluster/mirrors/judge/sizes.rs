//! What volumes have, and had at each point: a point has each volume as large as it was at some moment while the point was cut, at the other end it has
//! the same, and so has whoever is promoted at it. What is cleared by whoever makes a volume smaller are writes of zeros of no number.

use super::{Base, Judge, Write};
use amita_reactor::Time;
use amita_types::map::{Mirror, PointName};
use std::collections::BTreeMap;

/// By volume, in blocks.
pub(super) struct Sizes {
    /// What a volume of an end had, and from when on.
    had: [Vec<Vec<(Time, u64)>>; 2],
    pub of_points: BTreeMap<PointName, Vec<u64>>,
}

impl Sizes {
    pub fn new(volumes: usize, blocks: u64) -> Sizes {
        let had = vec![vec![(Time(0), blocks)]; volumes];
        Sizes {
            had: [had.clone(), had],
            of_points: BTreeMap::new(),
        }
    }

    /// Had it so many at some moment from then on?
    fn had_since(&self, end: usize, volume: usize, began: Time, blocks: u64) -> bool {
        let all = &self.had[end][volume];
        let until = all.iter().skip(1).map(|(at, _)| *at).chain([Time(u64::MAX)]);
        // What was seen in one moment has an order that nobody knows.
        let mut since = all.iter().zip(until).filter(|(_, until)| *until >= began);
        since.any(|((_, had), _)| *had == blocks)
    }
}

impl Judge {
    pub fn sized(&mut self, now: Time, end: usize, volume: usize, blocks: u64) {
        self.sizes.had[end][volume].push((now, blocks));
    }

    /// A point's snapshots, of this name, are of so many blocks of each volume at an end.
    pub fn sized_point(&mut self, end: usize, record: &Mirror, (name, snapshots): (PointName, &str), sizes: Vec<u64>) {
        if let Some(known) = self.sizes.of_points.get(&name) {
            self.coverage.hit("mirror.judged_size");
            let first = self.sizes.of_points.values().next();
            self.coverage
                .add("mirror.judged_size_changed", u64::from(first != Some(known)));
            if *known != sizes {
                let why = format!(
                    "point {name} ({snapshots}) has {sizes:?} blocks at end {end}, and {known:?} where it was cut"
                );
                self.violation.get_or_insert(why);
            }
            return;
        }
        let is_own = (name.epoch.0 % 2 == 1) == record.odd;
        if !is_own {
            return self.coverage.hit("mirror.size_unjudged");
        }
        let began = self.cut_began.get(&name).copied().unwrap_or_default();
        for (volume, blocks) in sizes.iter().enumerate() {
            if !self.sizes.had_since(end, volume, began, *blocks) {
                let had = self.sizes.had[end][volume].iter().rev().take(4).collect::<Vec<_>>();
                let why = format!(
                    "point {name} has {blocks} blocks of volume {volume}, which had none such since {} us, when it began to be cut: {had:?}",
                    began.0 / 1000
                );
                self.violation.get_or_insert(why);
            }
        }
        self.coverage.hit("mirror.judged_size_cut");
        self.sizes.of_points.insert(name, sizes);
    }

    /// An end serves hosts, with volumes of so many blocks.
    pub fn serves(&mut self, end: usize, sizes: &[u64]) {
        let life = &self.lives[self.life_of(end)];
        let Base::Point(point) = life.base else { return };
        // It goes on with what it was, and did since.
        if !life.kept.is_empty() || !life.writes.is_empty() {
            return;
        }
        let Some(known) = self.sizes.of_points.get(&point) else {
            return self.coverage.hit("mirror.size_unjudged");
        };
        self.coverage.hit("mirror.judged_size_promoted");
        if known != sizes {
            let why = format!("end {end} is promoted at point {point} with {sizes:?} blocks, and that has {known:?}");
            self.violation.get_or_insert(why);
        }
    }

    /// Blocks are to be cleared by whoever makes a volume smaller: the last one by the operation of this number.
    pub fn clears(&mut self, now: Time, end: usize, volume: usize, blocks: std::ops::Range<u64>, last: u64) {
        let life = self.life_of(end);
        for block in blocks.clone() {
            let value = last + 1 + block - blocks.end;
            self.by_value.insert(value, (life, self.lives[life].writes.len()));
            self.lives[life].writes.push(Write {
                volume,
                block,
                value,
                is_clear: true,
                began: now,
                acknowledged: None,
                seen: false,
                as_secondary: None,
            });
        }
    }

    /// Blocks hold zeros, which are of no operation that can be told by them: with which are they what they were when so many had been done? None: with
    /// none.
    pub(super) fn zeros_by(&self, life: usize, (volume, block): (usize, u64), done: usize) -> Option<usize> {
        let own = &self.lives[life];
        let clears = own.of(volume, block).rev().filter(|(_, write)| write.is_clear);
        let mut places = clears.map(|(index, _)| index + 1);
        if let Some(place) = places.find(|place| *place <= done) {
            return Some(place);
        }
        let base = match own.base {
            Base::Zeros => Some(0),
            Base::Point(point) => self.contents.get(&point).map(|base| held(base, volume, block)),
        };
        // Of a point that nobody has looked into nothing is known.
        (base.unwrap_or(0) == 0).then_some(0)
    }

    /// When clears were done of a life, behind so many operations: those that a moment may be behind which nothing else tells.
    pub(super) fn clears_behind(&self, life: usize, done: usize) -> Vec<usize> {
        let all = self.lives[life].writes.iter().enumerate();
        all.filter(|(index, write)| write.is_clear && *index >= done)
            .map(|(index, _)| index + 1)
            .collect()
    }
}

/// What a point's content has in a block: behind its end zeros.
pub(super) fn held(content: &[Vec<u64>], volume: usize, block: u64) -> u64 {
    content[volume].get(block as usize).copied().unwrap_or(0)
}
