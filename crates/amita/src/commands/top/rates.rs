//! Two looks at the counts of nodes make rates.

use crate::nodes::Asked;
use amita_node::observe::{CorePage, Latency, NodePage, OpPage, StorePage};
use amita_reactor::histogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a cluster did between two looks.
#[derive(Debug, Serialize)]
pub struct Top {
    /// The time between them, in seconds.
    pub interval_s: f64,
    /// Nodes that answered both times.
    pub nodes: usize,
    /// Volumes, by the node that owns them and the kind of I/O; kinds of which there was none are left out, but for reads and
    /// writes.
    pub volumes: Vec<VolumeRate>,
    pub stores: Vec<StoreRate>,
    pub cores: Vec<CoreRate>,
    /// Nodes that did not answer.
    pub silent: Vec<Silent>,
}

/// What hosts did with a volume.
#[derive(Debug, Serialize)]
pub struct VolumeRate {
    /// Its name.
    pub volume: String,
    /// The node where it is open.
    pub node: String,
    /// `read`, `write`, `clear`, `allocation`.
    pub op: String,
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Failures a second.
    pub errors_per_s: f64,
    /// How long they took, in microseconds.
    pub mean_us: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// I/Os of all kinds that are under way.
    pub in_flight: usize,
}

/// What a store did.
#[derive(Debug, Serialize)]
pub struct StoreRate {
    /// Its UUID.
    pub store: String,
    pub node: String,
    /// Its path there.
    pub path: String,
    pub serves: bool,
    /// Reads a second.
    pub reads_per_s: f64,
    /// How long they took in the store, in microseconds.
    pub read_p50_us: f64,
    /// The same.
    pub read_p99_us: f64,
    /// Writes a second.
    pub writes_per_s: f64,
    /// How long they took in the store, in microseconds.
    pub write_p50_us: f64,
    /// The same.
    pub write_p99_us: f64,
    /// Bytes a second that were written to its device.
    pub written_bytes_per_s: f64,
    /// How much of its capacity is in use.
    pub used_percent: f64,
}

/// What a core did.
#[derive(Debug, Serialize)]
pub struct CoreRate {
    pub node: String,
    /// Its number there.
    pub core: usize,
    /// Its share of a processor.
    pub cpu_percent: f64,
    /// Passes of its loop a second.
    pub passes_per_s: f64,
    /// I/Os of hosts a second.
    pub ios_per_s: f64,
    /// Requests that its stores answered a second.
    pub requests_per_s: f64,
    /// System calls a second.
    pub calls_per_s: f64,
    /// System calls for each I/O or request; none where there was neither.
    pub calls_per_op: Option<f64>,
    /// How often it slept, a second.
    pub blocks_per_s: f64,
}

/// A node that did not answer.
#[derive(Debug, Serialize)]
pub struct Silent {
    /// Its name.
    pub node: String,
    /// Why, as far as it is known.
    pub why: String,
}

impl Top {
    /// What happened between two looks. A node that has started anew meanwhile counts from its start.
    pub fn between(before: &[Asked<NodePage>], now: &[Asked<NodePage>], stores: &BTreeMap<String, String>) -> Top {
        let mut top = Top {
            interval_s: 0.0,
            nodes: 0,
            volumes: Vec::new(),
            stores: Vec::new(),
            cores: Vec::new(),
            silent: Vec::new(),
        };
        for asked in now {
            let earlier = before
                .iter()
                .find(|earlier| earlier.node == asked.node)
                .and_then(|earlier| earlier.answer.as_ref().ok());
            match (&asked.answer, earlier) {
                (Ok(page), Some(earlier)) if page.now_ns > earlier.now_ns => top.add(earlier, page, stores),
                (Ok(_), _) => top.quiet(&asked.node, "it has only just started, or come back"),
                (Err(why), _) => top.quiet(&asked.node, why),
            }
        }
        top
    }

    fn quiet(&mut self, node: &str, why: &str) {
        self.silent.push(Silent {
            node: node.to_owned(),
            why: why.to_owned(),
        });
    }

    fn add(&mut self, earlier: &NodePage, page: &NodePage, stores: &BTreeMap<String, String>) {
        let seconds = (page.now_ns - earlier.now_ns) as f64 / 1e9;
        self.nodes += 1;
        self.interval_s = self.interval_s.max(seconds);
        for volume in &page.volumes {
            let old = earlier.volumes.iter().find(|old| old.name == volume.name);
            for op in &volume.ops {
                let old = old.and_then(|old| old.ops.iter().find(|old| old.op == op.op));
                let rate = VolumeRate::between(old, op, seconds);
                if rate.iops > 0.0 || rate.op == "read" || rate.op == "write" {
                    self.volumes.push(VolumeRate {
                        volume: volume.name.clone(),
                        node: page.name.clone(),
                        in_flight: volume.in_flight,
                        ..rate
                    });
                }
            }
        }
        for store in &page.stores {
            let old = earlier.stores.iter().find(|old| old.id == store.id);
            let node = stores.get(&store.id).unwrap_or(&page.name);
            self.stores.push(StoreRate::between(old, store, node, seconds));
        }
        for core in &page.cores {
            let old = earlier.cores.iter().find(|old| old.core == core.core);
            if let Some(old) = old {
                self.cores.push(CoreRate::between(old, core, &page.name, seconds));
            }
        }
    }
}

/// What came since `old`; all of it, where that is from an earlier life.
fn grown(old: Option<u64>, new: u64) -> u64 {
    old.and_then(|old| new.checked_sub(old)).unwrap_or(new)
}

fn rate(old: Option<u64>, new: u64, seconds: f64) -> f64 {
    grown(old, new) as f64 / seconds
}

fn recent(old: Option<&Latency>, new: &Latency) -> Histogram {
    let new = new.histogram();
    match old {
        Some(old) => new.since(&old.histogram()),
        None => new,
    }
}

fn permille_us(histogram: &Histogram, permille: u64) -> f64 {
    histogram.permille(permille).as_secs_f64() * 1e6
}

impl VolumeRate {
    fn between(old: Option<&OpPage>, new: &OpPage, seconds: f64) -> VolumeRate {
        let latency = recent(old.map(|old| &old.latency), &new.latency);
        VolumeRate {
            volume: String::new(),
            node: String::new(),
            op: new.op.clone(),
            iops: latency.count() as f64 / seconds,
            bytes_per_s: rate(old.map(|old| old.bytes), new.bytes, seconds),
            errors_per_s: rate(old.map(|old| old.errors), new.errors, seconds),
            mean_us: latency.mean().as_secs_f64() * 1e6,
            p50_us: permille_us(&latency, 500),
            p99_us: permille_us(&latency, 990),
            in_flight: 0,
        }
    }
}

impl StoreRate {
    fn between(old: Option<&StorePage>, new: &StorePage, node: &str, seconds: f64) -> StoreRate {
        let reads = recent(old.map(|old| &old.reads), &new.reads);
        let writes = recent(old.map(|old| &old.writes), &new.writes);
        let used = new.capacity_bytes.saturating_sub(new.free_bytes);
        StoreRate {
            store: new.id.clone(),
            node: node.to_owned(),
            path: new.path.clone(),
            serves: new.serves,
            reads_per_s: reads.count() as f64 / seconds,
            read_p50_us: permille_us(&reads, 500),
            read_p99_us: permille_us(&reads, 990),
            writes_per_s: writes.count() as f64 / seconds,
            write_p50_us: permille_us(&writes, 500),
            write_p99_us: permille_us(&writes, 990),
            written_bytes_per_s: rate(old.map(|old| old.written_bytes), new.written_bytes, seconds),
            used_percent: used as f64 * 100.0 / new.capacity_bytes.max(1) as f64,
        }
    }
}

impl CoreRate {
    fn between(old: &CorePage, new: &CorePage, node: &str, seconds: f64) -> CoreRate {
        let rate = |of: fn(&CorePage) -> u64| rate(Some(of(old)), of(new), seconds);
        let calls_per_s = rate(|core| core.enters + core.file_calls + core.yields);
        let (ios_per_s, requests_per_s) = (rate(|core| core.ios), rate(|core| core.requests));
        let ops_per_s = ios_per_s + requests_per_s;
        CoreRate {
            node: node.to_owned(),
            core: new.core,
            cpu_percent: rate(|core| core.cpu_ns) / 1e7,
            passes_per_s: rate(|core| core.passes),
            ios_per_s,
            requests_per_s,
            calls_per_s,
            calls_per_op: (ops_per_s > 0.0).then(|| calls_per_s / ops_per_s),
            blocks_per_s: rate(|core| core.blocks),
        }
    }
}

#[cfg(test)]
mod tests;
