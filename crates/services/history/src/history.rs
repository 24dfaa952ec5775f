//! A node's history: one thread hands over figures, others ask.

use crate::answer::{Part, Parts, Row, TopPart};
use crate::frame::Frame;
use crate::layout::{Layout, STEPS_S};
use crate::metric::{Asked, Metric};
use crate::object::{Object, Subject};
use crate::question::Plan;
use crate::recorder::{Counts, Recorder};
use crate::ring::{Opened, Ring, RingError};
use crate::value::{Figures, Value};
use amita_types::ClusterId;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Rows that a node tells of, where the most active are asked for: the others join the rest.
const MAX_ROWS: usize = 1000;

/// Where a history is kept, and whose it is.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder. The file in it has the node's name, so that nodes may share one.
    pub folder: PathBuf,
    /// The most bytes that the file may have.
    pub bytes: u64,
    /// The cluster.
    pub cluster: ClusterId,
    /// The node's name.
    pub node: String,
}

impl Place {
    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new(&self.folder).join(format!("history.{}", self.node))
    }
}

/// What a node remembers.
#[derive(Debug)]
pub struct History {
    ring: Ring,
    node: String,
    cluster: String,
    writing: Mutex<Writing>,
}

#[derive(Debug)]
struct Writing {
    recorder: Recorder,
    /// Does the file take nothing? It is said once.
    fails: bool,
}

impl History {
    /// Opens it, `now` seconds after 1970, or makes it.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn open(place: &Place, layout: Layout, now: u64) -> Result<(History, Opened), RingError> {
        let (ring, opened) = Ring::open(&place.path(), layout, place.cluster, &place.node)?;
        let recorder = Recorder::new(&ring, now);
        let history = History {
            ring,
            node: place.node.clone(),
            cluster: place.cluster.to_string(),
            writing: Mutex::new(Writing { recorder, fails: false }),
        };
        Ok((history, opened))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.ring.path()
    }

    /// The node's name.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Takes what the node has counted, `now` seconds after 1970. A file that cannot be written is told of in the log once, and is tried
    /// again each time; what is lost is the history of that time.
    pub fn take(&self, counts: Counts, now: u64) {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = writing.recorder.frame(counts, now) {
            let wrote = writing.recorder.write(&self.ring, &frame);
            self.tell(&mut writing, wrote);
        }
    }

    /// Writes what is under way.
    pub fn end(&self) {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let wrote = writing.recorder.end(&self.ring);
        self.tell(&mut writing, wrote);
    }

    fn tell(&self, writing: &mut Writing, wrote: std::io::Result<()>) {
        let path = self.ring.path().display();
        match wrote {
            Err(why) if !writing.fails => {
                log::warn!(
                    "the history of figures is not kept: {path}: {why}. Nothing else is hurt; it goes on when the file can be written"
                );
                writing.fails = true;
            }
            Ok(()) if writing.fails => {
                log::info!("the history of figures is kept again: {path}");
                writing.fails = false;
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// What this node knows, for who puts the answers of all nodes together.
    #[must_use]
    pub fn part(&self, subject: &Subject, asked: Asked, plan: &Plan) -> Parts {
        let mut parts: Vec<Part> = Vec::new();
        let mut is_known = false;
        let wanted = |object: &Object| subject.is(object, &self.node);
        self.each(plan, &wanted, |point, frame| {
            let new = parts.last().is_none_or(|part| part.at != point);
            if new {
                parts.push(Part::new(point));
            }
            let Some(part) = parts.last_mut() else { return };
            part.covered_ms += frame.covered_ms;
            for (_, figures) in frame.objects {
                is_known = true;
                for metric in asked.of {
                    if let Some(value) = figures.0.get(metric) {
                        part.add(value);
                    }
                }
            }
        });
        if !is_known {
            // A volume that was never seen here is no volume that rested.
            parts.clear();
        }
        Parts {
            points: parts,
            ..self.nothing()
        }
    }

    /// What was most active here: volumes, or stores.
    #[must_use]
    pub fn top(&self, of_stores: bool, plan: &Plan) -> TopPart {
        let wanted = |object: &Object| match object {
            Object::Store(_) => of_stores,
            Object::Volume(_) | Object::Rest => !of_stores,
            Object::Node | Object::Core(_) => false,
        };
        let mut rows: HashMap<Object, Row> = HashMap::new();
        let mut covered_ms = 0_u64;
        self.each(plan, &wanted, |_, frame| {
            covered_ms = covered_ms.saturating_add(frame.covered_ms);
            for (object, figures) in frame.objects {
                let row = rows.entry(object).or_insert_with_key(|object| Row::new(&name(object)));
                add(row, &figures);
            }
        });
        let rest = rows.remove(&Object::Rest);
        let mut rows: Vec<Row> = rows.into_values().collect();
        rows.sort_by(|one, other| (other.weight(), &one.name).cmp(&(one.weight(), &other.name)));
        let mut rest = rest.unwrap_or_else(|| Row::new(""));
        for row in rows.drain(MAX_ROWS.min(rows.len())..) {
            rest.add(&row);
        }
        TopPart {
            node: self.node.clone(),
            cluster: self.cluster.clone(),
            keeps: true,
            covered_ms,
            rows,
            rest,
        }
    }

    fn nothing(&self) -> Parts {
        Parts {
            node: self.node.clone(),
            cluster: self.cluster.clone(),
            keeps: true,
            points: Vec::new(),
        }
    }

    /// Each interval of a plan that is there, with the point that it belongs to.
    fn each(&self, plan: &Plan, wanted: &dyn Fn(&Object) -> bool, mut take: impl FnMut(u64, Frame)) {
        let step = STEPS_S[plan.part];
        let mut at = plan.from;
        while at < plan.to {
            if let Some(frame) = self.ring.get(plan.part, at, wanted) {
                take(at / plan.step_s * plan.step_s, frame);
            }
            at += step;
        }
    }
}

fn name(object: &Object) -> String {
    match object {
        Object::Store(id) => id.to_string(),
        Object::Volume(name) => name.clone(),
        _ => String::new(),
    }
}

fn add(row: &mut Row, figures: &Figures) {
    let sum = |metric| match figures.0.get(&metric) {
        Some(Value::Rate { sum, .. }) => *sum,
        _ => 0,
    };
    row.ios = row.ios.saturating_add(sum(Metric::Iops));
    row.bytes = row.bytes.saturating_add(sum(Metric::Bytes));
    for metric in Asked::LATENCY.of {
        if let Some(Value::Latency(buckets)) = figures.0.get(metric) {
            row.latency.add(buckets);
        }
    }
}
