//! One run: a machine, its costs, a load; what came of it.

use super::costs::{Costs, PARTS};
use super::engine::{Counts, Engine, Use};
use super::machine::{Machine, Nanos, Placement, Processors};
use super::path::{Asking, Load, Path};
use std::time::Duration;

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Not measured: queues fill.
    pub warm_ns: Nanos,
    pub measured_ns: Nanos,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// I/Os in a second, of all that was simulated.
    pub iops: f64,
    /// CPU of an I/O, hosts outside not included.
    pub cpu_us: f64,
    /// Of it, without what was yielded away while there was nothing to do.
    pub work_us: f64,
    /// Of it, the host's program, where it is simulated.
    pub host_us: f64,
    /// CPU of an I/O by part.
    pub parts_us: [f64; PARTS.len()],
    /// The mean latency.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// Of a hundred, one takes longer.
    pub p99_us: f64,
    /// I/Os in flight, on average.
    pub in_flight: f64,
    /// How much everything was used.
    pub usage: Use,
    pub counts: Counts,
    /// I/Os that ended in the window.
    pub ios: u64,
}

/// Simulates a load. The same arguments give the same outcome.
#[must_use]
pub fn run(machine: &Machine, placement: &Placement, costs: &Costs, load: Load, span: Span, seed: u64) -> Outcome {
    let window = (span.warm_ns, span.warm_ns + span.measured_ns);
    let has_host = machine.processors != Processors::Own;
    let mut engine = Engine::new(machine, costs, usize::from(has_host));
    engine.measure(window.0, window.1);
    let mut path = Path::new(machine, placement, load, seed, window);
    let first = path.first();
    let count = first.len() as u64;
    for (index, request) in first.into_iter().enumerate() {
        if has_host {
            engine.seed(request.to, request.msg);
        } else {
            // Spread over the first stretch of time, so that nobody begins in step with the others.
            engine.begin(index as u64 * (span.warm_ns / 8) / count, Some(request), 0);
        }
    }
    if matches!(load.asking, Asking::Open { .. }) {
        for node in 0..load.gateways as u32 {
            engine.begin(u64::from(node), None, node);
        }
    }
    engine.run(&mut path, window.1);
    let usage = engine.usage();
    let ios = path.latency.count();
    let per_io = |ns: f64| ns / 1000.0 / ios.max(1) as f64;
    let services = machine.slice * machine.cores + usize::from(has_host);
    let busy: u64 = (0..services).map(|service| engine.busy(service)).sum();
    let host = if has_host { engine.busy(services - 1) } else { 0 };
    let us = |latency: Duration| latency.as_nanos() as f64 / 1000.0;
    Outcome {
        iops: ios as f64 * 1e9 / span.measured_ns as f64,
        cpu_us: per_io(busy as f64),
        work_us: usage.work.iter().sum::<f64>() * span.measured_ns as f64 / 1000.0 / ios.max(1) as f64,
        host_us: per_io(host as f64),
        parts_us: engine.spent().map(per_io),
        mean_us: path.latency.mean_ns() / 1000.0,
        p50_us: us(path.latency.quantile(0.5)),
        p99_us: us(path.latency.quantile(0.99)),
        in_flight: path.mean_in_flight(),
        counts: engine.counts,
        usage,
        ios,
    }
}
