use super::calibrate::*;
use super::costs::*;
use super::machine::*;
use super::path::*;
use super::run::*;
#[test]
fn probe() {
    let m = Measured::stored();
    for c in compare(&by_p(&m), &m) {
        println!(
            "by_p {} {:.2} {:.2} {:+.1}%",
            c.figure.name,
            c.measured,
            c.predicted,
            c.off() * 100.0
        );
    }
    let (costs, f) = fit(&m);
    println!("{f:?}");
    for c in compare(&costs, &m) {
        println!(
            "fit {} {:.2} {:.2} {:+.1}%",
            c.figure.name,
            c.measured,
            c.predicted,
            c.off() * 100.0
        );
    }
}
#[test]
fn servers() {
    let n: usize = std::env::var("N").map_or(10, |v| v.parse().unwrap());
    let mut costs = Costs::measured();
    if std::env::var("BARE").is_ok() {
        costs.wake_other = 1500.0;
        costs.woken_other = 1500.0;
        costs.wake_delay = 3000.0;
    }
    let base = Machine::servers(n, 128);
    let t = std::time::Instant::now();
    let placement = Placement::plan(&base).unwrap();
    println!(
        "plan {:?} imbalance {:?} links {} groups {}",
        t.elapsed(),
        placement.imbalance(&base),
        base.links,
        base.groups
    );
    let max = |v: &[f64]| v.iter().cloned().fold(0.0, f64::max);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    for writes in [100, 0] {
        for (links, holders, fronts) in [
            (base.links, Holders::Spread, Fronts::Spread),
            (16, Holders::Spread, Fronts::Spread),
            (4, Holders::Spread, Fronts::Spread),
            (4, Holders::First, Fronts::Spread),
            (4, Holders::First, Fronts::First),
        ] {
            for asking in [Asking::Closed {
                sessions: 128,
                depth: 16,
            }] {
                let t = std::time::Instant::now();
                let machine = Machine {
                    links,
                    holders,
                    fronts,
                    ..base.clone()
                };
                let load = Load {
                    writes,
                    asking,
                    gateways: n,
                    volumes: 32,
                    stale: Stale::default(),
                };
                let o = run(
                    &machine,
                    &placement,
                    &costs,
                    load,
                    Span {
                        warm_ns: 3_000_000,
                        measured_ns: 3_000_000,
                    },
                    1,
                );
                println!(
                    "{writes} {links} {holders:?} {fronts:?} iops/node {:.0} cpu {:.2} work {:.2} mean {:.1} p50 {:.1} p99 {:.1} cores {:.2} work {:.2}/{:.2} out {:.2}/{:.2} in {:.2}/{:.2} drives {:.2}/{:.2} parts {:?} m/s {:.2} w/c {:.2} wakes {:.2} took {:?}",
                    o.iops / n as f64,
                    o.cpu_us,
                    o.work_us,
                    o.mean_us,
                    o.p50_us,
                    o.p99_us,
                    mean(&o.usage.services),
                    mean(&o.usage.work),
                    max(&o.usage.work),
                    mean(&o.usage.cards_out),
                    max(&o.usage.cards_out),
                    mean(&o.usage.cards_in),
                    max(&o.usage.cards_in),
                    mean(&o.usage.drives),
                    max(&o.usage.drives),
                    o.parts_us.map(|p| (p * 100.0).round() / 100.0),
                    o.counts.messages as f64 / o.counts.sends as f64,
                    o.counts.writes as f64 / o.counts.commits as f64,
                    o.counts.wakes as f64 / o.ios as f64,
                    t.elapsed()
                );
            }
        }
    }
}
