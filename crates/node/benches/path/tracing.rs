//! What tracing costs: the same load with no I/O traced, with the usual share, and with every one, in turns.

use super::{Bench, Round};
use amita_node::trace::TraceConfig;
use std::time::Duration;

/// Rounds of each setting.
const ROUNDS: u32 = 60;

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
            let Round { gateway, stores, .. } = self.round(depth, write, length / ROUNDS);
            rounds[which].push(gateway + stores);
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
