//! What tracing costs: the same load with no I/O traced, with the usual share, and with every one, in short turns, so that what
//! disturbs the machine disturbs all of them. Processor time of this thread, the load's own included.

use super::Bench;
use amita_frontend::FrontId;
use amita_node::mail::Origin;
use amita_node::trace::{Ended, TraceConfig, Traces};
use amita_node::usage::Usage;
use amita_reactor::Time;
use amita_sequencer::Course;
use amita_types::io::Op;
use amita_types::{TraceId, VolumeId};
use std::hint::black_box;
use std::time::Duration;

/// Rounds of each setting.
const ROUNDS: u32 = 200;

/// Processor time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let first = told.split(' ').next().and_then(|word| word.parse().ok());
    first.expect("a number")
}

impl Bench {
    /// Prints the best round of each setting, and what it costs above the first one.
    pub fn compare_tracing(&mut self, what: &str, depth: u32, write: bool, length: Duration) {
        let settings = [("off", 0), ("1 in 1000", 1000), ("every one", 1)];
        let mut rounds: [Vec<f64>; 3] = Default::default();
        self.run(depth, write, 1, length / 5);
        for round in 0..ROUNDS as usize * settings.len() {
            let which = round % settings.len();
            for node in &mut self.nodes {
                node.core.set_trace(TraceConfig {
                    one_in: settings[which].1,
                    ..TraceConfig::default()
                });
            }
            let before = cpu_ns();
            let done = self.run(depth, write, 1, length / ROUNDS);
            rounds[which].push((cpu_ns() - before) as f64 / done as f64);
        }
        let best = |rounds: &[f64]| rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let median = |rounds: &mut Vec<f64>| {
            rounds.sort_by(f64::total_cmp);
            rounds[rounds.len() / 2]
        };
        let off = (best(&rounds[0]), median(&mut rounds[0].clone()));
        for ((name, _), rounds) in settings.into_iter().zip(&mut rounds) {
            let (best, median) = (best(rounds), median(rounds));
            println!(
                "node.trace.{what}.4k.qd{depth:<3} {name:<9} {best:6.0} ns ({:+.1} %); median {median:6.0} ns ({:+.1} %)",
                (best / off.0 - 1.0) * 100.0,
                (median / off.1 - 1.0) * 100.0,
            );
        }
    }
}

/// What every I/O pays at its gateway, traced or not: the count that samples, the look at how long it took, and the figures of its
/// volume.
pub fn always() {
    const IOS: u64 = 4_000_000;
    let mut traces = Traces::new(TraceConfig::default(), 0);
    let mut usage = Usage::default();
    let op = Op::Write {
        offset: 4096,
        length: 4096,
    };
    let before = cpu_ns();
    for n in 0..IOS {
        // 200,000 I/Os a second, each of 100 to 356 us.
        let arrived = Time(1_000_000_000 + n * 5000);
        let now = Time(arrived.0 + 100_000 + n % 256 * 1000);
        let trace = traces.sample(black_box(arrived));
        let origin = Origin {
            core: 0,
            front: FrontId(1),
            tag: n,
            arrived,
            parsed: arrived,
            kept: arrived,
            trace: TraceId::NONE,
            host: amita_frontend::HostKey::NONE,
            generation: amita_types::Generation(0),
            snapshot: amita_types::SnapshotId::HEAD,
        };
        black_box(trace);
        let course = Course::default();
        usage.count(black_box(&op), now.since(arrived), true);
        let ended = Ended {
            origin: &origin,
            began: arrived,
            volume: VolumeId(1),
            op,
            error: None,
            course: &course,
        };
        traces.ended(black_box(now), black_box(&ended));
    }
    println!("node.trace.always {:.1} ns", (cpu_ns() - before) as f64 / IOS as f64);
    black_box((&traces, &usage));
}
