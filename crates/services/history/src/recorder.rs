//! From what a node has counted since its start to intervals, and from short intervals to longer ones.
//!
//! Rates are by the process's clock, which never steps; where a frame lies is by the wall clock. When that is set back, a time comes a
//! second time, and what was counted in both is there together, over as long as both took; when it is set forward, there is a gap.

use crate::buckets::Buckets;
use crate::frame::Frame;
use crate::layout::STEPS_S;
use crate::metric::Metric;
use crate::object::Object;
use crate::ring::Ring;
use crate::value::{Figures, Value};
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Volumes that an interval of ten seconds tells apart.
const MAX_NAMED: usize = 512;
/// Volumes that a longer one does.
const MAX_KEPT: usize = 2048;

/// What an object has counted since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What only grows.
    pub rates: Vec<(Metric, u64)>,
    /// What there is now.
    pub gauges: Vec<(Metric, u64)>,
    /// How long each took.
    pub latencies: Vec<(Metric, Buckets)>,
}

/// What a node has counted at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The moment, in nanoseconds of a clock that never steps.
    pub now_ns: u64,
    /// Its objects, each once. What volumes count is added to the node's figures here.
    pub objects: Vec<(Object, Totals)>,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    before: Option<(u64, HashMap<Object, Totals>)>,
    /// The intervals of the longer parts that are not over.
    open: [Option<Frame>; 2],
}

/// An interval of which nothing is known yet.
fn empty(at: u64) -> Frame {
    Frame { at, ..Frame::default() }
}

fn of<T>(all: &[(Metric, T)], metric: Metric) -> Option<&T> {
    all.iter().find(|(known, _)| *known == metric).map(|(_, value)| value)
}

/// What came between two moments. Where something was forgotten meanwhile, because it began anew, all of it came.
fn between(before: &Totals, now: &Totals, ms: u64) -> Figures {
    let mut figures = Figures::default();
    for (metric, count) in &now.rates {
        let sum = of(&before.rates, *metric)
            .and_then(|old| count.checked_sub(*old))
            .unwrap_or(*count);
        if sum > 0 {
            figures.0.insert(*metric, Value::Rate { sum, max_milli: 0 });
        }
    }
    for (metric, value) in &now.gauges {
        let gauge = Value::Gauge {
            mean: *value,
            ms,
            max: *value,
        };
        figures.0.insert(*metric, gauge);
    }
    for (metric, buckets) in &now.latencies {
        let came = match of(&before.latencies, *metric) {
            Some(old) => buckets.since(old),
            None => buckets.clone(),
        };
        if !came.is_empty() {
            figures.0.insert(*metric, Value::Latency(came));
        }
    }
    figures
}

impl Recorder {
    /// Goes on where an earlier process has ended, `now` seconds after 1970.
    pub(crate) fn new(ring: &Ring, now: u64) -> Recorder {
        let open = |part: usize| {
            let at = now / STEPS_S[part] * STEPS_S[part];
            // It ended in good order, or it did not: then what it was made of is there.
            ring.get(part, at, &|_| true).or_else(|| {
                let mut whole: Option<Frame> = None;
                let mut next = at;
                while next < now {
                    if let Some(frame) = ring.get(part - 1, next, &|_| true) {
                        whole
                            .get_or_insert_with(|| Frame { at, ..Frame::default() })
                            .follow(&frame);
                    }
                    next += STEPS_S[part - 1];
                }
                whole
            })
        };
        Recorder {
            before: None,
            open: [open(1), open(2)],
        }
    }

    /// What came since the time before, as an interval that ends `now` seconds after 1970; none: it is the first time.
    pub(crate) fn frame(&mut self, counts: Counts, now: u64) -> Option<Frame> {
        let fresh: HashMap<Object, Totals> = counts.objects.into_iter().collect();
        let (then_ns, before) = self.before.replace((counts.now_ns, fresh))?;
        let (now_ns, fresh) = self.before.as_ref()?;
        let ms = now_ns.checked_sub(then_ns)? / 1_000_000;
        if ms == 0 {
            return None;
        }
        let nothing = Totals::default();
        let mut node = Figures::default();
        let mut objects: BTreeMap<Object, Figures> = BTreeMap::new();
        for (object, totals) in fresh {
            let figures = between(before.get(object).unwrap_or(&nothing), totals, ms);
            match object {
                Object::Node => node.join(&figures),
                Object::Volume(_) | Object::Rest if figures.0.is_empty() => {}
                Object::Volume(_) | Object::Rest => {
                    node.join(&figures);
                    objects.insert(object.clone(), figures);
                }
                Object::Store(_) | Object::Core(_) => drop(objects.insert(object.clone(), figures)),
            }
        }
        objects.insert(Object::Node, node);
        let mut frame = Frame {
            // The interval that is now over, whether we come a little early or late.
            at: now.saturating_sub(STEPS_S[0] / 2) / STEPS_S[0] * STEPS_S[0],
            covered_ms: ms,
            objects: objects.into_iter().collect(),
        };
        frame.keep(MAX_NAMED);
        for (_, figures) in &mut frame.objects {
            figures.settle(ms);
        }
        Some(frame)
    }

    /// Writes a frame, and what it makes whole.
    pub(crate) fn write(&mut self, ring: &Ring, frame: &Frame) -> io::Result<()> {
        let mut result = match ring.get(0, frame.at, &|_| true) {
            None => ring.put(0, frame),
            Some(mut again) => {
                again.follow(frame);
                ring.put(0, &again)
            }
        };
        for (open, part) in self.open.iter_mut().zip(1..) {
            let at = frame.at / STEPS_S[part] * STEPS_S[part];
            if let Some(over) = open.take_if(|open| open.at != at) {
                result = result.and(ring.put(part, &over));
            }
            let whole = open.get_or_insert_with(|| ring.get(part, at, &|_| true).unwrap_or_else(|| empty(at)));
            whole.follow(frame);
            whole.keep(MAX_KEPT);
            // Its last interval.
            if frame.at + STEPS_S[0] == at + STEPS_S[part]
                && let Some(over) = open.take()
            {
                result = result.and(ring.put(part, &over));
            }
        }
        result
    }

    /// Writes what is not over yet: the process ends.
    pub(crate) fn end(&mut self, ring: &Ring) -> io::Result<()> {
        let mut result = Ok(());
        for (open, part) in self.open.iter_mut().zip(1..) {
            if let Some(open) = open.take() {
                result = result.and(ring.put(part, &open));
            }
        }
        result
    }
}

#[cfg(test)]
mod tests;
