use super::calibrate::{self, Measured};
use super::costs::{Costs, Family, PARTS, ROWS};
use super::machine::{Backing, Fronts, Holders, Machine, Placement, Processors};
use super::memory;
use super::path::{Asking, Load, Stale};
use super::report::{Options, Report, insert};
use super::run::{Outcome, Span, run};

const SPAN: Span = Span {
    warm_ns: 3_000_000,
    measured_ns: 4_000_000,
};

/// A few small servers.
fn servers() -> (Machine, Placement) {
    let machine = Machine {
        stores: 4,
        groups: 256,
        ..Machine::servers(4, 8)
    };
    let placement = Placement::plan(&machine).expect("four nodes for three copies");
    (machine, placement)
}

fn closed(writes: u64, sessions: usize, depth: usize) -> Load {
    Load {
        writes,
        asking: Asking::Closed { sessions, depth },
        gateways: 4,
        volumes: 4,
        stale: Stale { due: 0.5, ended: 0.25 },
    }
}

fn open(writes: u64, rate: f64) -> Load {
    Load {
        asking: Asking::Open { sessions: 8, rate },
        ..closed(writes, 8, 1)
    }
}

fn go(load: Load, seed: u64) -> Outcome {
    let (machine, placement) = servers();
    run(&machine, &placement, &Costs::measured(), load, SPAN, seed)
}

#[test]
fn a_seed_gives_the_same_again() {
    for load in [closed(100, 8, 8), closed(0, 8, 8), open(30, 50_000.0)] {
        let (one, two, other) = (go(load, 5), go(load, 5), go(load, 6));
        assert!(one.ios > 100);
        assert_eq!(one, two);
        assert_ne!(one, other);
    }
}

#[test]
fn nothing_is_used_more_than_wholly_and_a_full_load_uses_something_so() {
    for writes in [100, 30, 0] {
        let outcome = go(closed(writes, 8, 32), 1);
        let usage = &outcome.usage;
        let mut most: f64 = 0.0;
        let all = usage.services.iter().chain(&usage.cards_out).chain(&usage.cards_in);
        for used in all.chain(&usage.drives) {
            assert!((0.0..=1.0 + 1e-9).contains(used), "{used}");
        }
        for (used, work) in usage.services.iter().zip(&usage.work) {
            assert!(work <= used);
            most = most.max(*work);
        }
        assert!(most > 0.95, "with {writes} % writes the busiest core works {most}");
    }
}

#[test]
fn what_is_spent_is_what_cores_were_busy_for() {
    for load in [closed(100, 8, 8), closed(0, 8, 8), open(30, 50_000.0)] {
        let outcome = go(load, 1);
        // A pass may reach over the window's ends, by which the two are counted differently.
        let parts: f64 = outcome.parts_us.iter().sum();
        assert!(
            (parts / outcome.cpu_us - 1.0).abs() < 0.02,
            "{parts} of {}",
            outcome.cpu_us
        );
        let cores: f64 = outcome.usage.services.iter().sum();
        let busy = outcome.iops * outcome.cpu_us / 1e6;
        assert!((busy / cores - 1.0).abs() < 1e-6, "{busy} of {cores} cores");
    }
}

#[test]
fn as_many_are_in_flight_as_rate_and_latency_say() {
    // Little's law; it holds exactly only over times that are long beside the latency.
    for load in [
        closed(100, 4, 4),
        closed(0, 4, 4),
        open(100, 50_000.0),
        open(0, 100_000.0),
    ] {
        let outcome = go(load, 1);
        let by_law = outcome.iops * outcome.mean_us / 1e6;
        assert!(
            (by_law / outcome.in_flight - 1.0).abs() < 0.05,
            "{by_law} and {}",
            outcome.in_flight
        );
    }
    let outcome = go(closed(100, 4, 4), 1);
    assert!(
        (outcome.in_flight - 64.0).abs() < 1e-6,
        "a closed load keeps its depth: {}",
        outcome.in_flight
    );
}

#[test]
fn an_open_load_gets_what_it_asks_for() {
    for (writes, rate) in [(100, 50_000.0), (0, 100_000.0)] {
        let outcome = go(open(writes, rate), 1);
        assert!((outcome.iops / (4.0 * rate) - 1.0).abs() < 0.1, "{}", outcome.iops);
    }
}

#[test]
fn a_single_core_queues_as_theory_says() {
    // One core that does nothing but a fixed amount of work for each arrival is M/D/1: it waits rho / 2 (1 - rho)
    // service times on average. A pass takes in all that waits, and ends for all at once, so latency is between that
    // and one pass more.
    let mut costs = Costs::measured();
    for row in ROWS {
        *costs.get_mut(row.name).expect("its own name") = 0.0;
    }
    costs.front = 10_000.0;
    let machine = Machine {
        nodes: 1,
        slice: 1,
        cores: 1,
        stores: 1,
        copies: 1,
        groups: 1,
        backing: Backing::Memory,
        network: None,
        ..Machine::servers(3, 1)
    };
    let placement = Placement::plan(&machine).expect("one copy");
    for load in [0.3, 0.6, 0.8] {
        let asked = Load {
            writes: 0,
            asking: Asking::Open {
                sessions: 1,
                rate: load * 100_000.0,
            },
            gateways: 1,
            volumes: 1,
            stale: Stale::default(),
        };
        let span = Span {
            warm_ns: 20_000_000,
            measured_ns: 2_000_000_000,
        };
        let outcome = run_to_outside(&machine, &placement, &costs, asked, span);
        let used = outcome.usage.services[0];
        assert!((used - load).abs() < 0.02, "{used} of {load}");
        let theory = 10.0 * (1.0 + load / (2.0 * (1.0 - load)));
        let batch = 10.0 / (1.0 - load);
        assert!(
            outcome.mean_us > theory * 0.97 && outcome.mean_us < theory + batch,
            "load {load}: {} us, M/D/1 {theory}",
            outcome.mean_us
        );
    }
}

/// With a network that takes no time, so that answers reach hosts outside.
fn run_to_outside(machine: &Machine, placement: &Placement, costs: &Costs, load: Load, span: Span) -> Outcome {
    let machine = Machine {
        network: Some(super::machine::Network {
            bits_per_ns: 1e9,
            delay_ns: 0,
        }),
        ..machine.clone()
    };
    run(&machine, placement, costs, load, span, 1)
}

#[test]
fn batches_grow_with_load() {
    let bench = |depth| calibrate::bench(&Costs::measured(), 100, depth, Processors::One);
    let (one, many) = (bench(1), bench(32));
    let a_commit = |outcome: &Outcome| outcome.counts.writes as f64 / outcome.counts.commits as f64;
    let a_send = |outcome: &Outcome| outcome.counts.messages as f64 / outcome.counts.sends as f64;
    // What a pass does and what it sends are counted at its two ends, so one at the window's edge may be counted half.
    assert!((a_commit(&one) - 1.0).abs() < 0.01 && (a_send(&one) - 1.0).abs() < 0.01);
    assert!(a_commit(&many) > 8.0 && a_send(&many) > 8.0);
    assert!(many.cpu_us < one.cpu_us / 2.0, "{} and {}", many.cpu_us, one.cpu_us);
}

#[test]
fn the_model_is_near_what_was_measured() {
    let measured = Measured::stored();
    let costs = calibrate::by_p(&measured);
    let compared = calibrate::compare(&costs, &measured);
    assert_eq!(
        compared.len(),
        calibrate::FIGURES.len(),
        "the stored bench has all of them"
    );
    for compared in compared {
        let off = compared.off();
        assert!(
            off.abs() < 0.2,
            "{}: {:+.1} % without any fitting",
            compared.figure.name,
            off * 100.0
        );
    }
    let (costs, factors) = calibrate::fit(&measured);
    for compared in calibrate::compare(&costs, &measured) {
        let off = compared.off();
        assert!(
            off.abs() < calibrate::TOLERANCE,
            "{}: {:+.1} %",
            compared.figure.name,
            off * 100.0
        );
    }
    assert!(factors.iter().all(|(_, by)| (0.5..=2.0).contains(by)), "{factors:?}");
}

#[test]
fn links_on_the_first_cores_limit_and_spread_ones_do_not() {
    let (base, placement) = servers();
    let with = |holders, fronts| {
        let machine = Machine {
            links: 2,
            holders,
            fronts,
            ..base.clone()
        };
        run(&machine, &placement, &Costs::measured(), closed(100, 8, 32), SPAN, 1).iops
    };
    let spread = with(Holders::Spread, Fronts::Spread);
    assert!(spread > 1.2 * with(Holders::First, Fronts::Spread));
    assert!(spread > with(Holders::Spread, Fronts::First));
}

#[test]
fn a_slice_stands_for_the_whole() {
    let machine = Machine {
        stores: 4,
        groups: 1024,
        ..Machine::servers(12, 8)
    };
    let placement = Placement::plan(&machine).expect("enough nodes");
    let of = |slice| {
        let machine = Machine {
            slice,
            ..machine.clone()
        };
        let load = Load {
            gateways: slice,
            ..closed(100, 8, 16)
        };
        run(&machine, &placement, &Costs::measured(), load, SPAN, 1)
    };
    let (whole, slice) = (of(12), of(4));
    let rate = slice.iops / 4.0 / (whole.iops / 12.0);
    assert!((rate - 1.0).abs() < 0.08, "{rate}");
    assert!((slice.work_us / whole.work_us - 1.0).abs() < 0.08);
}

#[test]
fn reads_whose_leases_are_stale_cost_more() {
    let with = |stale| {
        go(
            Load {
                stale,
                ..closed(0, 8, 8)
            },
            1,
        )
    };
    let fresh = with(Stale::default());
    let stale = with(Stale { due: 1.0, ended: 1.0 });
    assert!(
        stale.work_us > 1.2 * fresh.work_us,
        "{} and {}",
        stale.work_us,
        fresh.work_us
    );
}

#[test]
fn leases_are_stale_where_owners_use_many_stores_seldom() {
    let load = closed(0, 8, 8);
    let small = Stale::at(&Machine::servers(3, 8), &load, 1e6);
    let large = Stale::at(&Machine::servers(1000, 128), &load, 1e6);
    assert!(small.ended <= small.due && small.due < 0.01, "{small:?}");
    assert!(large.ended > 0.9, "{large:?}");
}

#[test]
fn every_cost_has_a_name_and_a_source() {
    let mut costs = Costs::measured();
    for row in ROWS {
        assert!(costs.get(row.name).is_some_and(|cost| cost > 0.0), "{}", row.name);
        assert!(!row.source.is_empty());
        *costs.get_mut(row.name).expect("found above") *= 2.0;
    }
    let mut scaled = Costs::measured();
    for family in [
        Family::Code,
        Family::Kernel,
        Family::Wake,
        Family::Cross,
        Family::Host,
        Family::Fixed,
    ] {
        scaled.scale(family, 2.0);
    }
    assert_eq!(costs, scaled, "each row is of one family");
    assert_eq!(costs.get("nothing"), None);
    assert_eq!(PARTS.len(), 9);
}

#[test]
fn connections_grow_with_nodes_and_not_with_cores_squared() {
    let of = |nodes, cores| memory::budget(&Machine::servers(nodes, cores));
    let (ten, thousand, wide) = (of(10, 128), of(1000, 128), of(10, 256));
    assert!(thousand.connections < ten.connections_squared);
    assert!(wide.connections <= 2.0 * ten.connections);
    assert!(thousand.connections_of_core < 64.0);
    assert!(thousand.rings_bytes < 2e9);
}

#[test]
fn the_tables_go_between_their_marks() {
    let document = "a\n<!-- scale: begin -->\nold\n<!-- scale: end -->\nb\n";
    let done = insert(document, "new\n").expect("marks");
    assert_eq!(done, "a\n<!-- scale: begin -->\n\nnew\n\n<!-- scale: end -->\nb\n");
    assert_eq!(insert(&done, "new\n").as_ref(), Ok(&done));
    assert!(insert("nothing", "new").is_err());
}

#[test]
fn a_small_report_has_its_tables() {
    let options = Options {
        nodes: vec![3],
        cores: 4,
        span: Span {
            warm_ns: 1_000_000,
            measured_ns: 1_000_000,
        },
        ..Options::usual()
    };
    let report = Report::new(&options, &|_| {});
    // Which costs are worth lowering takes a run for each: too long for a test.
    let titles = [
        "How much",
        "How fast",
        "Where it goes",
        "One hot volume",
        "Connections",
        "How evenly",
        "Costs",
    ];
    let report: String = titles.iter().map(|title| report.tables(title)).collect();
    for title in titles {
        assert!(report.contains(&format!("### {title}")), "{title}");
    }
    assert!(!report.contains("NaN") && !report.contains("inf"), "{report}");
}
