//! All that a power cut may leave, along a whole trace.

use super::image::Image;
use super::trace::{Cut, EXTENT, LooseWrite, Medium, News, Replay, Trace, part_in};
use super::{Fate, Rng, SECTOR};
use std::collections::{BTreeSet, HashSet};

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Up to so many loose writes, every subset is tried.
    pub all_subsets: usize,
    /// With more, so many random ones.
    pub random_subsets: usize,
    /// Each write up to so many sectors is torn at every sector; a larger one at so many places.
    pub tears: usize,
    /// For each loose write, so many random choices of its sectors.
    pub random_tears: usize,
    /// Torn are all loose writes after one event in so many that brings something new, and otherwise only the new one.
    pub tear_all_one_in: usize,
    /// The most states of one trace.
    pub most_states: usize,
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Moments at which the power failed.
    pub moments: usize,
    /// States that differ in what is on the disk or in what must be held.
    pub states: usize,
    /// States that had been tried before.
    pub repeats: usize,
    /// Of the states: subsets of whole writes, ...
    pub subsets: usize,
    /// ... with torn writes, ...
    pub torn: usize,
    /// ... with extents that read as zeros.
    pub holes: usize,
    /// The most writes that were loose at a moment.
    pub most_loose: usize,
    /// Moments at which every subset was tried.
    pub exhausted: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.moments += other.moments;
        self.states += other.states;
        self.repeats += other.repeats;
        self.subsets += other.subsets;
        self.torn += other.torn;
        self.holes += other.holes;
        self.most_loose = self.most_loose.max(other.most_loose);
        self.exhausted += other.exhausted;
    }
}

/// Cuts the power after every event of a trace; `see` gets each image that can be left, once.
pub fn cut_everywhere(
    trace: &Trace,
    effort: Effort,
    rng: &mut Rng,
    mut see: impl FnMut(&Replay<'_>, &Cut, Image, &mut Rng),
) -> Tally {
    let mut tally = Tally::default();
    let mut seen = HashSet::new();
    let mut replay = trace.replay();
    let mut news = Some(News::Held);
    while let Some(now) = news
        && tally.states < effort.most_states
    {
        tally.moments += 1;
        tally.most_loose = tally.most_loose.max(replay.loose.len());
        let mut cuts = Vec::new();
        if replay.loose.len() <= effort.all_subsets {
            tally.exhausted += 1;
            all_subsets(replay.loose.len(), &mut cuts);
        } else if now != News::Less {
            for _ in 0..effort.random_subsets {
                cuts.push(whole(random_fates(replay.loose.len(), rng)));
            }
        }
        let whole_cuts = cuts.len();
        if now != News::Less {
            tears(&replay, effort, now, rng, &mut cuts);
        }
        let torn_cuts = cuts.len();
        if trace.medium == Medium::Holes && now != News::Less {
            holes(&replay, rng, &mut cuts);
        }
        for (at, cut) in cuts.iter().enumerate() {
            if !seen.insert(replay.key(cut)) {
                tally.repeats += 1;
                continue;
            }
            tally.states += 1;
            match at {
                _ if at < whole_cuts => tally.subsets += 1,
                _ if at < torn_cuts => tally.torn += 1,
                _ => tally.holes += 1,
            }
            let guard = Place { replay: &replay, cut };
            see(&replay, cut, replay.image(cut), rng);
            drop(guard);
        }
        news = replay.step();
    }
    tally
}

/// Says, when something goes wrong, at which state it was.
struct Place<'a> {
    replay: &'a Replay<'a>,
    cut: &'a Cut,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        eprintln!("the power failed after event {} of the trace:", self.replay.at());
        for (loose, fate) in self.replay.loose.iter().zip(&self.cut.fates) {
            let write = loose.write;
            let (id, offset, bytes) = (loose.id, write.offset, write.bytes.len());
            eprintln!("  write {id} of {bytes} bytes at {offset}: {fate:?}");
        }
        if let Some(extent) = self.cut.extent {
            eprintln!("  what arrived from {extent} on for {EXTENT} bytes reads as zeros");
        }
    }
}

fn whole(fates: Vec<Fate>) -> Cut {
    Cut { fates, extent: None }
}

fn all_subsets(loose: usize, cuts: &mut Vec<Cut>) {
    for subset in 0..1usize << loose {
        let fate = |at: usize| if subset >> at & 1 == 1 { Fate::Kept } else { Fate::Lost };
        cuts.push(whole((0..loose).map(fate).collect()));
    }
}

/// Some are there, mostly or hardly.
fn random_fates(loose: usize, rng: &mut Rng) -> Vec<Fate> {
    let kept_in_8 = 1 + rng.below(7);
    let fate = |_| {
        if rng.below(8) < kept_in_8 {
            Fate::Kept
        } else {
            Fate::Lost
        }
    };
    (0..loose).map(fate).collect()
}

/// One write is torn; the others are all there, all lost, or some of both.
fn tears(replay: &Replay<'_>, effort: Effort, now: News, rng: &mut Rng, cuts: &mut Vec<Cut>) {
    let loose = replay.loose.len();
    let all = now == News::Held && rng.chance(effort.tear_all_one_in);
    for (at, LooseWrite { write, .. }) in replay.loose.iter().enumerate() {
        if !all && (now == News::Held || at + 1 < loose) {
            continue;
        }
        let sectors = write.bytes.len() / SECTOR;
        let mut torn = Vec::new();
        if sectors <= effort.tears {
            for place in 1..sectors as u16 {
                torn.push(Fate::First(place));
                torn.push(Fate::Last(place));
            }
        } else {
            for _ in 0..effort.tears {
                let place = 1 + rng.below(sectors - 1) as u16;
                torn.push(Fate::First(place));
                torn.push(Fate::Last(place));
            }
        }
        torn.extend((0..effort.random_tears).map(|_| Fate::Torn(rng.next())));
        for fate in torn {
            let mut rest = match rng.below(3) {
                _ if loose == 1 => vec![Fate::Lost],
                0 => vec![Fate::Kept; loose],
                1 => vec![Fate::Lost; loose],
                _ => random_fates(loose, rng),
            };
            rest[at] = fate;
            cuts.push(whole(rest));
        }
    }
}

/// Each extent in which something is loose reads as zeros, and each loose write does.
fn holes(replay: &Replay<'_>, rng: &mut Rng, cuts: &mut Vec<Cut>) {
    let loose = replay.loose.len();
    let mut extents = BTreeSet::new();
    for LooseWrite { write, .. } in &replay.loose {
        let (first, last) = (
            write.offset / EXTENT,
            (write.offset + write.bytes.len() as u64 - 1) / EXTENT,
        );
        extents.extend((first..=last).map(|extent| extent * EXTENT));
    }
    for extent in extents {
        for fates in [vec![Fate::Kept; loose], random_fates(loose, rng)] {
            let touched = |(at, loose): (usize, &LooseWrite<'_>)| {
                fates[at] != Fate::Lost && part_in(loose.write, extent).is_some()
            };
            if replay.loose.iter().enumerate().any(touched) {
                cuts.push(Cut {
                    fates,
                    extent: Some(extent),
                });
            }
        }
    }
    for at in 0..loose {
        for mut fates in [vec![Fate::Kept; loose], random_fates(loose, rng)] {
            fates[at] = Fate::Zeros;
            cuts.push(whole(fates));
        }
    }
}
