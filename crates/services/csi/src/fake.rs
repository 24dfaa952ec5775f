//! A cluster made up, as units ask it: what the API does, as far as the driver asks for it, with its refusals; and a place where an answer is lost.

mod hosts;
mod targets;
mod volumes;

use crate::Driver;
use crate::api::{Answer, Api, Ask, Boxed, Way};
use crate::controller::Controller;
use crate::id;
use http::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

/// The driver's name.
pub const DRIVER: &str = crate::USUAL_NAME;

/// Where a request is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It comes to no node.
    Before(usize),
    /// It is carried out, and the answer is lost.
    After(usize),
}

#[derive(Clone, Debug)]
pub struct Volume {
    pub id: u64,
    pub pool: String,
    pub size_bytes: u64,
    pub labels: BTreeMap<String, String>,
    pub encrypted: bool,
    pub tenant: Option<String>,
    pub parent: Option<String>,
    pub limits: Value,
}

#[derive(Clone, Debug)]
pub struct Snapshot {
    pub of: u64,
    pub name: String,
    pub size_bytes: u64,
    pub set: Option<u64>,
    /// It was deleted but for its mark.
    pub mark: bool,
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub struct Subsystem {
    pub gateways: Vec<String>,
    pub tls_required: bool,
    pub hosts: Vec<String>,
    pub namespaces: Vec<String>,
}

/// What the cluster has.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub volumes: BTreeMap<String, Volume>,
    pub snapshots: Vec<Snapshot>,
    pub subsystems: BTreeMap<String, Subsystem>,
    pub targets: BTreeMap<String, targets::Target>,
    pub hosts: Vec<String>,
    pub pools: BTreeMap<String, (u8, u64, Option<u64>)>,
    /// By pool: the site and rack of the nodes of its stores.
    pub places: BTreeMap<String, Vec<(String, String)>>,
    pub jobs: Vec<(String, String)>,
    /// By volume: the holder's host and key.
    pub reservations: BTreeMap<String, (String, String)>,
    /// By volume: who is registered beside the holder, as the API tells it.
    pub registrants: BTreeMap<String, Vec<Value>>,
    /// By snapshot pair: the extents.
    pub diffs: BTreeMap<(String, String), Vec<(u64, u64)>>,
    /// By volume: how it stands among others.
    pub priorities: BTreeMap<String, Value>,
    /// So often a change of a volume finds another owner than who has looked.
    pub owner_changes: usize,
    /// A volume is deleted just when a snapshot of it was taken, with these labels.
    pub late_snapshot: Option<Value>,
    /// The same just when it is marked as deleted.
    pub snapshot_at_mark: Option<Value>,
    /// Another controller marks a volume as deleted just when a snapshot of it is taken.
    pub marked_at_snapshot: bool,
    /// Deleted volumes are gone at once where nothing else is said.
    pub keeps_nothing: bool,
    /// Just when a volume or a snapshot is made, another controller has made the same.
    pub is_late: bool,
    /// How requests with this beginning (`GET /volumes`) are refused: the status, and the code.
    pub refuses: Option<(&'static str, u16, &'static str)>,
    /// What others do meanwhile leaves no room to grow, or for a clone.
    pub grows_no_more: bool,
    pub clones_nothing: bool,
    /// How deleted volumes were deleted.
    pub deleted: Vec<String>,
    /// By subsystem: its qualified name, and its number.
    pub nqns: BTreeMap<String, String>,
    pub numbers: BTreeMap<String, u32>,
    /// What each namespace's UUID is, where it is not made of its name.
    pub uuid: Option<String>,
    /// The same of the disk's name by iSCSI.
    pub naa: Option<String>,
    /// The qualified name and the number of each subsystem that was ever made.
    pub made: BTreeSet<(String, u32)>,
    last_number: u32,
    /// Just when the next host is let in somewhere, the others there have gone.
    pub others_go: bool,
    /// Qualified names of subsystems by which a host was let in while no other was.
    pub used_nqns: BTreeSet<String>,
    last_id: u64,
    last_set: u64,
    pub asked: Vec<String>,
    cut: Option<Cut>,
}

/// It, for those who ask.
#[derive(Clone, Default)]
pub struct Fake {
    cluster: Arc<Mutex<Cluster>>,
    /// Of one of several who are at work at one time: each of its requests waits until it is polled once more. The number of the request whose answer is lost,
    /// counted down; 0: none is.
    turns: Option<Arc<AtomicUsize>>,
}

/// What an operation answers: a status, and a body.
type Said = Result<(u16, Value), (u16, &'static str, String)>;

impl Fake {
    /// One with a pool.
    pub fn new() -> Fake {
        let fake = Fake::default();
        fake.cluster().pools.insert("fast".to_owned(), (3, 300 << 30, None));
        fake
    }

    pub fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().expect("nobody has panicked")
    }

    /// The same cluster for one of several who are at work at one time; of all its requests the answer of this one is lost (0: of none).
    pub fn in_turns(&self, lost: usize) -> Fake {
        Fake {
            turns: Some(Arc::new(AtomicUsize::new(lost))),
            ..self.clone()
        }
    }

    fn carry_out(&self, ask: &Ask) -> Result<Answer, String> {
        let mut cluster = self.cluster();
        let path = ask.path.trim_start_matches("/api/v1");
        cluster.asked.push(format!("{} {path}", ask.method));
        let number = cluster.asked.len();
        if let Some((beginning, status, code)) = cluster.refuses
            && cluster.asked[number - 1].starts_with(beginning)
        {
            let body = json!({"code": code, "detail": "it is refused", "status": status});
            return Ok(Answer {
                status,
                tag: None,
                body: body.to_string().into_bytes(),
            });
        }
        let lost = || Err("the connection is lost".to_owned());
        match cluster.cut {
            Some(Cut::Before(at)) if at == number => lost(),
            Some(Cut::After(at)) if at == number => {
                cluster.answer(ask);
                lost()
            }
            _ => Ok(cluster.answer(ask)),
        }
    }

    /// A controller on it; each has nothing of the one before.
    pub fn controller(&self) -> Controller {
        let driver = Driver::new(DRIVER).expect("a name");
        Controller::new(driver, Api::new(Arc::new(self.clone()))).at_once()
    }

    pub fn cut(&self, cut: Option<Cut>) {
        let mut cluster = self.cluster();
        cluster.cut = cut;
        cluster.asked.clear();
    }

    /// What it was asked since it was last told where to cut.
    pub fn asked(&self) -> Vec<String> {
        self.cluster().asked.clone()
    }

    /// All that it has, for a comparison.
    pub fn shape(&self) -> String {
        let cluster = self.cluster();
        let Cluster {
            volumes,
            snapshots,
            subsystems,
            targets,
            hosts,
            deleted,
            ..
        } = &*cluster;
        // Their iSCSI names are used once.
        let targets: Vec<_> = targets
            .iter()
            .map(|(name, found)| (name, &found.initiators, &found.luns))
            .collect();
        format!("{volumes:#?} {snapshots:#?} {subsystems:#?} {targets:#?} {hosts:?} {deleted:?}")
    }
}

impl Way for Fake {
    fn ask(&self, ask: Ask) -> Boxed<'_, Result<Answer, String>> {
        let Some(turns) = &self.turns else {
            return Box::pin(std::future::ready(self.carry_out(&ask)));
        };
        Box::pin(async move {
            let mut is_its_turn = false;
            poll_fn(|_| match std::mem::replace(&mut is_its_turn, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            let answer = self.carry_out(&ask);
            let left = turns.load(Ordering::Relaxed);
            turns.store(left.saturating_sub(1), Ordering::Relaxed);
            match left {
                1 => Err("the connection is lost".to_owned()),
                _ => answer,
            }
        })
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                let digits = std::str::from_utf8(&digits).expect("digits");
                bytes.push(u8::from_str_radix(digits, 16).expect("digits"));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).expect("text")
}

pub(super) fn refuse<T>(
    status: u16,
    code: &'static str,
    detail: impl Into<String>,
) -> Result<T, (u16, &'static str, String)> {
    Err((status, code, detail.into()))
}

fn no_such<T>(what: &str) -> Result<T, (u16, &'static str, String)> {
    refuse(404, "not-found", format!("there is no {what}"))
}

fn tag(thing: &Value) -> String {
    format!("\"{}\"", id::sum(&thing.to_string(), 8))
}

fn text(body: &Value, key: &str) -> String {
    body[key].as_str().unwrap_or_default().to_owned()
}

fn labels_of(body: &Value) -> BTreeMap<String, String> {
    let labels = body["labels"].as_object().cloned().unwrap_or_default();
    let labels: BTreeMap<String, String> = labels
        .into_iter()
        .map(|(key, value)| (key, value.as_str().expect("a label").to_owned()))
        .collect();
    assert!(labels.len() <= 32 && labels.iter().all(|(key, value)| key.len() <= 256 && value.len() <= 256));
    labels
}

/// A request, taken apart.
struct Parts<'a> {
    ask: &'a Ask,
    parameters: BTreeMap<String, String>,
}

impl Parts<'_> {
    fn parameter(&self, key: &str) -> &str {
        self.parameters.get(key).map_or("", String::as_str)
    }

    fn body(&self) -> Value {
        self.ask.body.clone().unwrap_or_else(|| json!({}))
    }

    /// What is destroyed has to be named as it was looked at.
    fn matches(&self, thing: &Value, is_demanded: bool) -> Result<(), (u16, &'static str, String)> {
        match self.ask.if_match.as_deref() {
            None if is_demanded => refuse(428, "needs-if-match", "what destroys needs If-Match"),
            Some(wanted) if wanted != "*" && wanted != tag(thing) => refuse(412, "changed", "it was changed"),
            _ => Ok(()),
        }
    }
}

impl Cluster {
    fn answer(&mut self, ask: &Ask) -> Answer {
        let (path, query) = ask.path.split_once('?').unwrap_or((&ask.path, ""));
        let path = path.strip_prefix("/api/v1/").expect("a path of the API");
        let segments: Vec<String> = path.split('/').map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').expect("a parameter"));
        let parts = Parts {
            ask,
            parameters: pairs.map(|(key, value)| (key.to_owned(), decode(value))).collect(),
        };
        let said = match segments.first() {
            Some(&("volumes" | "snapshots" | "snapshot-sets" | "jobs" | "pools" | "nodes" | "stores")) => {
                self.of_volumes(&segments, &parts)
            }
            Some(&("subsystems" | "hosts")) => self.of_hosts(&segments, &parts),
            Some(&"targets") => self.of_targets(&segments, &parts),
            Some(&"self") => Ok((200, json!({"name": "csi"}))),
            _ => panic!("nobody is asked for {}", ask.path),
        };
        match said {
            Ok((status, body)) => Answer {
                status,
                tag: Some(tag(&body)),
                body: body.to_string().into_bytes(),
            },
            Err((status, code, detail)) => Answer {
                status,
                tag: None,
                body: json!({"code": code, "detail": detail, "status": status})
                    .to_string()
                    .into_bytes(),
            },
        }
    }
}

/// A list, of few enough things.
fn list(items: Vec<Value>) -> Said {
    Ok((200, json!({"items": items, "next": null})))
}

fn is(parts: &Parts<'_>, method: &Method) -> bool {
    parts.ask.method == *method
}
