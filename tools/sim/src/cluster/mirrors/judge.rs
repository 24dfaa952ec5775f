//! What must be true of a mirror, whatever happens to its two ends:
//!
//! * the snapshots of a point are of one moment of what hosts wrote at the end that cut it, and at the other end they hold the same;
//! * whoever is promoted has what its point says, and what was written there since;
//! * of an end that was demoted in order nothing that was acknowledged is missing in its last point;
//! * no two ends acknowledge writes, but behind a promotion by force;
//! * an end that is a secondary acknowledges nothing;
//! * a point has each volume as large as it was when it was cut, at both ends, and so has who is promoted at it ([`sizes`]).
//!
//! The hosts of an end ask for one thing after another, so the writes of one *life*, from a promotion to the next, have an order. What a point holds
//! must be what all writes up to one of them had left, but for those of which nobody knows what came of them.

mod sizes;

use super::wire::Content;
use crate::coverage::Coverage;
use amita_reactor::Time;
use amita_types::map::{Mirror, MirrorRole, PointName};
use sizes::{Sizes, held};
use std::collections::{BTreeMap, BTreeSet};

/// What a volume held when a life of an end began.
#[derive(Clone, Copy, Debug)]
enum Base {
    Zeros,
    Point(PointName),
}

#[derive(Debug)]
struct Write {
    volume: usize,
    block: u64,
    /// What tells it from all others: what the block holds then, but for a clear.
    value: u64,
    /// It leaves zeros.
    is_clear: bool,
    began: Time,
    acknowledged: Option<Time>,
    /// It was read.
    seen: bool,
    /// It began where the end was a secondary, in that epoch.
    as_secondary: Option<u64>,
}

/// An end from a promotion on.
#[derive(Debug)]
struct Life {
    end: usize,
    base: Base,
    /// The last epoch of it.
    epoch: u64,
    writes: Vec<Write>,
    first_acknowledged: Option<Time>,
    /// Of its last point, by block: how many of the writes it has at least, where it was judged.
    last: Option<Vec<Vec<usize>>>,
    /// When it went on, though it had ended: the end was promoted again, with all that it had.
    kept: Vec<Time>,
}

impl Write {
    fn leaves(&self) -> u64 {
        if self.is_clear { 0 } else { self.value }
    }
}

impl Life {
    fn of(&self, volume: usize, block: u64) -> impl DoubleEndedIterator<Item = (usize, &Write)> {
        let all = self.writes.iter().enumerate();
        all.filter(move |(_, write)| (write.volume, write.block) == (volume, block))
    }
}

/// What is known of all that happened.
pub(super) struct Judge {
    volumes: usize,
    /// The most that a volume has.
    blocks: u64,
    sizes: Sizes,
    lives: Vec<Life>,
    /// The life in which an epoch was.
    epochs: BTreeMap<u64, usize>,
    forced: BTreeSet<u64>,
    /// Which life each end has had since when.
    current: [Vec<(Time, usize)>; 2],
    contents: BTreeMap<PointName, Content>,
    cut_began: BTreeMap<PointName, Time>,
    listed: BTreeMap<PointName, Time>,
    last: BTreeSet<PointName>,
    /// Snapshots of points that were looked into, by end.
    checked: BTreeSet<(usize, PointName, String)>,
    by_value: BTreeMap<u64, (usize, usize)>,
    pub violation: Option<String>,
    pub coverage: Coverage,
}

impl Judge {
    /// The first end has the volumes, with nothing in them; `most`: blocks that they have at some time.
    pub fn new(volumes: usize, blocks: u64, most: u64) -> Judge {
        let life = |end| Life {
            end,
            base: Base::Zeros,
            epoch: 0,
            writes: Vec::new(),
            first_acknowledged: None,
            last: None,
            kept: Vec::new(),
        };
        Judge {
            volumes,
            blocks: most,
            sizes: Sizes::new(volumes, blocks),
            lives: vec![life(0), life(1)],
            epochs: BTreeMap::from([(0, 0)]),
            forced: BTreeSet::new(),
            current: [vec![(Time(0), 0)], vec![(Time(0), 1)]],
            contents: BTreeMap::new(),
            cut_began: BTreeMap::new(),
            listed: BTreeMap::new(),
            last: BTreeSet::new(),
            checked: BTreeSet::new(),
            by_value: BTreeMap::new(),
            violation: None,
            coverage: Coverage::new(),
        }
    }

    fn life_of(&self, end: usize) -> usize {
        self.current[end].last().map_or(end, |(_, life)| *life)
    }

    /// The life of an end at that time; none: it was another one since.
    fn life_since(&self, end: usize, asked: Time) -> Option<usize> {
        let (since, life) = self.current[end].last()?;
        (*since <= asked).then_some(*life)
    }

    /// The record of an end is another than before.
    pub fn record(&mut self, now: Time, end: usize, old: Option<&Mirror>, new: &Mirror) {
        if let Some(cutting) = &new.cutting {
            self.cut_began.entry(cutting.name).or_insert(now);
        }
        for point in &new.standing.points {
            self.listed.entry(point.name).or_insert(now);
        }
        let Some(old) = old else { return };
        let (before, after) = (&old.standing, &new.standing);
        if after.handed && !before.handed {
            self.last.extend(after.point);
        }
        let is_own = (after.epoch.0 % 2 == 1) == new.odd;
        if before.epoch == after.epoch || !is_own {
            return;
        }
        let was_own = (before.epoch.0 % 2 == 1) == old.odd;
        let goes_on = before.role == MirrorRole::Deposed && old.begun.is_none() && was_own;
        let life = match before.point {
            Some(point) if !goes_on => {
                self.lives.push(Life {
                    end,
                    base: Base::Point(point),
                    epoch: after.epoch.0,
                    writes: Vec::new(),
                    first_acknowledged: None,
                    last: None,
                    kept: Vec::new(),
                });
                self.lives.len() - 1
            }
            // What it handed over in the end is no end any more.
            _ => {
                let life = self.life_of(end);
                self.lives[life].last = None;
                self.lives[life].kept.push(now);
                life
            }
        };
        self.lives[life].epoch = after.epoch.0;
        self.epochs.insert(after.epoch.0, life);
        self.current[end].push((now, life));
        if new.split {
            self.forced.insert(after.epoch.0);
        }
        self.coverage.hit(match (goes_on, new.split) {
            (true, _) => "mirror.life_kept",
            (false, true) => "mirror.life_by_force",
            (false, false) => "mirror.life_in_order",
        });
    }

    /// An end says that it is at a point: is it there (T1), taken by stores that have adopted the generation (T4)?
    pub fn arrived(&mut self, end: usize, record: &Mirror, sealed: Result<(), String>) {
        self.coverage.hit("mirror.judged_set");
        if let Err(why) = sealed {
            let at = record.standing.point;
            self.violation
                .get_or_insert(format!("end {end} says that it is at point {at:?}: {why}"));
        }
    }

    pub fn began(&mut self, now: Time, end: usize, (volume, block, value): (usize, u64, u64), record: Option<&Mirror>) {
        let life = self.life_of(end);
        let secondary = record.filter(|record| record.standing.role == MirrorRole::Secondary);
        self.by_value.insert(value, (life, self.lives[life].writes.len()));
        self.lives[life].writes.push(Write {
            volume,
            block,
            value,
            is_clear: false,
            began: now,
            acknowledged: None,
            seen: false,
            as_secondary: secondary.map(|record| record.standing.epoch.0),
        });
    }

    pub fn acknowledged(&mut self, now: Time, value: u64, record: Option<&Mirror>) -> Result<(), String> {
        let Some(&(life, index)) = self.by_value.get(&value) else {
            return Err(format!("a write of {value} that never began is acknowledged"));
        };
        let own = &mut self.lives[life];
        let write = &mut own.writes[index];
        write.acknowledged = Some(now);
        let (began, volume, block) = (write.began, write.volume, write.block);
        let as_secondary = write.as_secondary;
        own.first_acknowledged.get_or_insert(now);
        self.coverage.hit("mirror.judged_acknowledged");
        let is = record.map(|record| (record.standing.role, record.standing.epoch.0));
        if let Some((MirrorRole::Secondary, epoch)) = is
            && as_secondary == Some(epoch)
        {
            return Err(format!(
                "end {}, a secondary of epoch {epoch}, has acknowledged {value} to block {block} of volume {volume}",
                self.lives[life].end
            ));
        }
        let own = &self.lives[life];
        if let Some(last) = &own.last
            && last[volume][block as usize] <= index
        {
            return Err(format!(
                "{value}, in block {block} of volume {volume}, is acknowledged behind the last point of epoch {}",
                own.epoch
            ));
        }
        let later = self
            .lives
            .iter()
            .filter(|other| other.end != own.end && other.epoch > own.epoch);
        for other in later {
            let both = other.first_acknowledged.is_some_and(|first| first < began);
            let is_forced = self.forced.range(own.epoch + 1..=other.epoch).next().is_some();
            if both && !is_forced {
                return Err(format!(
                    "both ends acknowledge writes, in epochs {} and {}, and none was promoted by force",
                    own.epoch, other.epoch
                ));
            }
            self.coverage.add("mirror.judged_split", u64::from(both));
        }
        Ok(())
    }

    /// What a block may hold; none: that is not known yet.
    fn possible(&self, life: usize, volume: usize, block: u64) -> Option<Vec<u64>> {
        let mut values = Vec::new();
        for (_, write) in self.lives[life].of(volume, block).rev() {
            values.push(write.leaves());
            if write.acknowledged.is_some() || write.seen {
                return Some(values);
            }
        }
        values.push(match self.lives[life].base {
            Base::Zeros => 0,
            Base::Point(point) => held(self.contents.get(&point)?, volume, block),
        });
        Some(values)
    }

    /// A host of an end has read these blocks, and asked for them then.
    pub fn read(
        &mut self,
        asked: Time,
        end: usize,
        (volume, first): (usize, u64),
        values: &[u64],
    ) -> Result<(), String> {
        let Some(life) = self.life_since(end, asked) else {
            self.coverage.hit("mirror.read_of_before");
            return Ok(());
        };
        for (block, value) in (first..).zip(values) {
            let Some(possible) = self.possible(life, volume, block) else {
                self.coverage.hit("mirror.read_unjudged");
                continue;
            };
            if !possible.contains(value) {
                return Err(format!(
                    "end {end} has {value} in block {block} of volume {volume}, in epoch {}, where it may have {possible:?}, from {:?}",
                    self.lives[life].epoch, self.lives[life].base
                ));
            }
            let is_point = matches!(self.lives[life].base, Base::Point(_));
            self.coverage.hit("mirror.judged_read");
            let last = self.lives[life].of(volume, block).next_back();
            let is_cleared = last.is_some_and(|(_, write)| write.is_clear && write.acknowledged.is_some());
            self.coverage.add("mirror.judged_read_regrown", u64::from(is_cleared));
            self.coverage.add("mirror.judged_read_promoted", u64::from(is_point));
            if let Some(&(of, index)) = self.by_value.get(value)
                && of == life
            {
                self.lives[life].writes[index].seen = true;
            }
        }
        Ok(())
    }

    /// Points of an end whose snapshots nobody has looked into.
    pub fn unread(&self, end: usize, record: &Mirror) -> Vec<(PointName, String)> {
        let all = record.standing.points.iter();
        let all = all.map(|point| (point.name, point.snapshots.clone()));
        all.filter(|(name, snapshots)| !self.checked.contains(&(end, *name, snapshots.clone())))
            .collect()
    }

    /// The snapshots of a point hold this, at an end.
    pub fn point(&mut self, end: usize, name: PointName, snapshots: &str, content: Content) -> Result<(), String> {
        if !self.checked.insert((end, name, snapshots.to_owned())) {
            return Ok(());
        }
        let lengths: Vec<u64> = content.iter().map(|held| held.len() as u64).collect();
        let known = self.sizes.of_points.get(&name);
        if lengths.len() != self.volumes || known.is_some_and(|known| *known != lengths) {
            return Err(format!(
                "point {name} has {lengths:?} blocks at end {end}, where it has {known:?}"
            ));
        }
        let is_short = lengths.iter().any(|blocks| *blocks < self.blocks);
        self.coverage.add("mirror.judged_short", u64::from(is_short));
        if let Some(known) = self.contents.get(&name) {
            self.coverage.hit("mirror.judged_equal");
            let all = known.iter().flatten().zip(content.iter().flatten());
            let differing: Vec<(usize, u64, u64)> = all
                .enumerate()
                .filter(|(_, (known, found))| known != found)
                .map(|(place, (known, found))| (place, *known, *found))
                .collect();
            return match differing.is_empty() {
                true => Ok(()),
                false => Err(format!(
                    "point {name} ({snapshots}) is another at end {end} than where it was read before: {} blocks of {}: place, then, now: {:?}",
                    differing.len(),
                    lengths.iter().sum::<u64>(),
                    differing.iter().take(6).collect::<Vec<_>>()
                )),
            };
        }
        self.judge_moment(end, name, &content)?;
        self.contents.insert(name, content);
        Ok(())
    }

    /// Is that what the life had at one moment, when the point was cut?
    fn judge_moment(&mut self, end: usize, name: PointName, content: &Content) -> Result<(), String> {
        let Some(&life) = self.epochs.get(&name.epoch.0) else {
            return Err(format!("point {name} is of an epoch that nobody was primary in"));
        };
        let own = &self.lives[life];
        // How many writes each block has at least; none: zeros, and behind the end of a volume as well.
        let mut at: Vec<Vec<Option<usize>>> = vec![vec![None; self.blocks as usize]; self.volumes];
        let mut newest = 0;
        for (volume, content) in content.iter().enumerate() {
            for (block, value) in (0..).zip(content) {
                if *value == 0 {
                    let may_be = self.zeros_by(life, (volume, block), own.writes.len());
                    if may_be.is_some() {
                        continue;
                    }
                }
                let place = match self.by_value.get(value) {
                    Some((of, index)) if *of == life => {
                        let write = &own.writes[*index];
                        if (write.volume, write.block) != (volume, block) {
                            return Err(format!(
                                "point {name} has {value} in block {block} of volume {volume}, not its own"
                            ));
                        }
                        index + 1
                    }
                    _ => {
                        let base = match own.base {
                            Base::Zeros => Some(0),
                            Base::Point(point) => self.contents.get(&point).map(|base| held(base, volume, block)),
                        };
                        if base.is_some_and(|base| base != *value) {
                            return Err(format!(
                                "point {name} has {value} in block {block} of volume {volume}, which is nothing of epoch {}, at end {end}",
                                name.epoch
                            ));
                        }
                        0
                    }
                };
                at[volume][block as usize] = Some(place);
                newest = newest.max(place);
            }
        }
        // Behind which of those that leave zeros it is, nothing tells: one moment is enough.
        let later = self.clears_behind(life, newest);
        let mut judged = self.judge_cut(life, name, &at, newest);
        for done in later {
            if judged.is_ok() {
                break;
            }
            judged = self.judge_cut(life, name, &at, done);
        }
        let at = judged?;
        let is_last = self.last.contains(&name);
        let own = &self.lives[life];
        let listed = self.listed.get(&name).copied().unwrap_or(Time(u64::MAX));
        let cleared = at.iter().flatten().filter(|place| {
            let last = place.checked_sub(1).and_then(|index| own.writes.get(index));
            last.is_some_and(|write| write.is_clear)
        });
        self.coverage.add("mirror.judged_cleared", cleared.count() as u64);
        self.coverage.hit("mirror.judged_moment");
        self.coverage.add("mirror.judged_last", u64::from(is_last));
        if is_last && own.kept.iter().all(|kept| *kept < listed) {
            self.lives[life].last = Some(at);
        }
        Ok(())
    }

    /// Is that what it had when so many writes had been done? How many each block has, then.
    fn judge_cut(
        &self,
        life: usize,
        name: PointName,
        at: &[Vec<Option<usize>>],
        newest: usize,
    ) -> Result<Vec<Vec<usize>>, String> {
        let own = &self.lives[life];
        let is_last = self.last.contains(&name);
        let mut all: Vec<Vec<usize>> = Vec::new();
        for (volume, blocks) in at.iter().enumerate() {
            let mut places = Vec::new();
            for (block, place) in (0..).zip(blocks) {
                let place = place.or_else(|| self.zeros_by(life, (volume, block), newest));
                places.push(place.ok_or_else(|| {
                    format!("point {name} has zeros in block {block} of volume {volume}, which it had not yet")
                })?);
            }
            all.push(places);
        }
        let began = self.cut_began.get(&name).copied().unwrap_or_default();
        let listed = self.listed.get(&name).copied().unwrap_or(Time(u64::MAX));
        // Until when it was the life's end; none: it is.
        let went_on = own.kept.iter().find(|kept| **kept >= listed).copied();
        for (index, write) in own.writes.iter().enumerate() {
            let has = all[write.volume][write.block as usize] > index;
            let Some(acknowledged) = write.acknowledged else {
                continue;
            };
            if has {
                continue;
            }
            let what = format!(
                "{}{} in block {} of volume {}, acknowledged at {} us",
                if write.is_clear { "zeros by " } else { "" },
                write.value,
                write.block,
                write.volume,
                acknowledged.0 / 1000
            );
            if is_last && went_on.is_none_or(|went_on| acknowledged < went_on) {
                return Err(format!("the last point, {name}, has not {what}"));
            }
            if acknowledged <= began {
                return Err(format!(
                    "point {name}, cut from {} us on, has not {what}",
                    began.0 / 1000
                ));
            }
            if index < newest {
                return Err(format!(
                    "point {name} is of no one moment: it has {}, and not what was there before: {what}",
                    own.writes[newest - 1].value
                ));
            }
        }
        if newest > 0 && own.writes[newest - 1].began > listed {
            return Err(format!("point {name} has what was written when it was there already"));
        }
        Ok(all)
    }

    /// Was it cut behind that time?
    pub fn is_cut_behind(&self, name: PointName, time: Time) -> bool {
        self.cut_began.get(&name).is_some_and(|began| *began > time)
    }
}
