//! The tables of `docs/benchmarks/scale.md`, by one command.

mod tables;

use super::calibrate::{self, Measured};
use super::costs::Costs;
use super::machine::{Machine, Placement};
use super::path::{Asking, Load, Stale};
use super::run::{Outcome, Span, run};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Where the tables begin in a document, and where they end.
const MARKS: (&str, &str) = ("<!-- scale: begin -->", "<!-- scale: end -->");

/// Volumes of each gateway, of 1 TiB each: what 24 disks of 3.84 TB hold, three times.
const VOLUMES: usize = 28;
/// Sessions of hosts at each gateway, and the I/Os that each keeps under way, when as much is asked as can be.
const SESSIONS: usize = 128;
const DEPTH: usize = 16;
/// Nodes of a slice.
const SLICE: usize = 20;
/// The largest cluster that is simulated whole.
const WHOLE: usize = 100;

/// What the report is of.
#[derive(Clone, Debug)]
pub struct Options {
    pub nodes: Vec<usize>,
    pub cores: usize,
    pub measured: Measured,
    /// Of each run.
    pub span: Span,
}

impl Options {
    /// 3, 10, 100 and 1,000 nodes of 128 cores, by the stored bench.
    #[must_use]
    pub fn usual() -> Options {
        Options {
            nodes: vec![3, 10, 100, 1000],
            cores: 128,
            measured: Measured::stored(),
            span: Span {
                warm_ns: 5_000_000,
                measured_ns: 5_000_000,
            },
        }
    }
}

/// A cluster that is ready to be run.
struct Cluster {
    machine: Machine,
    placement: Placement,
}

/// Makes the report.
pub struct Report<'a> {
    options: &'a Options,
    costs: Costs,
    clusters: BTreeMap<usize, Cluster>,
    /// What was run already, by nodes and writes of a hundred.
    known: RefCell<BTreeMap<(usize, u64), (Outcome, Load)>>,
    budgets: String,
    tell: &'a dyn Fn(&str),
}

/// The mixes that are run: writes of a hundred, and what to call them.
const MIXES: [(u64, &str); 3] = [(100, "write"), (0, "read"), (30, "70/30")];

impl<'a> Report<'a> {
    /// Calibrates and plans; `tell` hears how it goes.
    #[must_use]
    pub fn new(options: &'a Options, tell: &'a dyn Fn(&str)) -> Report<'a> {
        // First of all: it looks how much the process grows, which memory that was used before would hide.
        tell("memory");
        let budgets = tables::budgets(options);
        tell("calibrating");
        let (costs, _) = calibrate::fit(&options.measured);
        let mut clusters = BTreeMap::new();
        for &nodes in &options.nodes {
            tell(&format!("planning {nodes} nodes"));
            let mut machine = Machine::servers(nodes, options.cores);
            if nodes > WHOLE {
                machine.slice = SLICE;
            }
            let placement = Placement::plan(&machine).expect("as many nodes as copies");
            clusters.insert(nodes, Cluster { machine, placement });
        }
        Report {
            options,
            costs,
            clusters,
            known: RefCell::default(),
            budgets,
            tell,
        }
    }

    /// The tables whose title contains `only`, as Markdown.
    #[must_use]
    pub fn tables(&self, only: &str) -> String {
        type Make<'a> = (&'a str, &'a dyn Fn() -> String);
        let all: [Make<'_>; 12] = [
            ("The model beside `amita-bench`", &|| self.bench()),
            ("How much", &|| self.servers()),
            ("How fast", &|| self.latency()),
            ("Where it goes", &|| self.parts()),
            ("Which cores", &|| self.holders()),
            ("How many links", &|| self.links()),
            ("One hot volume", &|| self.hot()),
            ("What is worth lowering", &|| self.halves()),
            ("A slice beside the whole", &|| self.slices()),
            ("Connections, memory, metadata", &|| self.budgets.clone()),
            ("How evenly", &|| self.balance()),
            ("Costs", &|| self.costs()),
        ];
        let wanted = all.iter().filter(|(title, _)| title.contains(only));
        wanted.map(|(_, make)| make()).collect::<Vec<_>>().join("\n")
    }

    /// A load that asks for as much as can be had.
    fn load(machine: &Machine, writes: u64) -> Load {
        Load {
            writes,
            asking: Asking::Closed {
                sessions: SESSIONS,
                depth: DEPTH,
            },
            gateways: machine.slice,
            volumes: VOLUMES,
            stale: Stale::default(),
        }
    }

    /// How long a run of this machine is: large ones are steady sooner, for more of them is counted.
    fn span(&self, machine: &Machine) -> Span {
        let span = self.options.span;
        if machine.slice <= SLICE {
            return span;
        }
        Span {
            warm_ns: span.warm_ns * 3 / 4,
            measured_ns: span.measured_ns / 2,
        }
    }

    fn run_once(&self, machine: &Machine, placement: &Placement, costs: &Costs, load: Load) -> Outcome {
        run(machine, placement, costs, load, self.span(machine), 1)
    }

    /// Runs a load; what a read finds of leases is that of the rate that comes out. Also the load as it was run.
    fn run(&self, machine: &Machine, placement: &Placement, costs: &Costs, load: Load) -> (Outcome, Load) {
        // First with leases that are always stale, then with those of the rate that this gave: it hardly hangs on them.
        let stale = Stale { due: 1.0, ended: 1.0 };
        let load = Load { stale, ..load };
        let outcome = self.run_once(machine, placement, costs, load);
        if load.writes == 100 {
            return (outcome, load);
        }
        let stale = Stale::at(machine, &load, outcome.iops / load.gateways as f64);
        let load = Load { stale, ..load };
        (self.run_once(machine, placement, costs, load), load)
    }

    /// As much as can be had from a cluster; each is run once.
    fn most(&self, nodes: usize, writes: u64) -> (Outcome, Load) {
        if let Some(known) = self.known.borrow().get(&(nodes, writes)) {
            return known.clone();
        }
        (self.tell)(&format!("{nodes} nodes, {writes} % writes"));
        let Cluster { machine, placement } = &self.clusters[&nodes];
        let found = self.run(machine, placement, &self.costs, Self::load(machine, writes));
        self.known.borrow_mut().insert((nodes, writes), found.clone());
        found
    }

    /// Arrivals at a part of what can be had.
    fn run_open(
        &self,
        machine: &Machine,
        placement: &Placement,
        costs: &Costs,
        most: &(Outcome, Load),
        part: f64,
    ) -> Outcome {
        let (outcome, load) = most;
        let rate = outcome.iops / load.gateways as f64 * part;
        let asking = Asking::Open {
            sessions: SESSIONS,
            rate,
        };
        let stale = Stale::at(machine, load, rate);
        self.run_once(machine, placement, costs, Load { asking, stale, ..*load })
    }
}

/// What is used most, and how much of it; it is what limits when it is near 1.
fn bottleneck(machine: &Machine, load: &Load, outcome: &Outcome) -> (String, f64) {
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let usage = &outcome.usage;
    let hottest = (0..usage.work.len())
        .max_by(|&a, &b| usage.work[a].total_cmp(&usage.work[b]))
        .unwrap_or(0);
    let core = hottest % machine.cores;
    let (Asking::Closed { sessions: session, .. } | Asking::Open { sessions: session, .. }) = load.asking;
    let role = if machine.fronts == super::machine::Fronts::First && core == 0 {
        "the core with all sessions"
    } else if machine.holders == super::machine::Holders::First && core < machine.links {
        "the cores with all links"
    } else if session < machine.cores && core < session {
        "the cores with sessions"
    } else if core < machine.stores {
        "the cores with stores"
    } else {
        "cores"
    };
    let found = [
        (role, usage.work[hottest]),
        ("the network card, out", most(&usage.cards_out)),
        ("the network card, in", most(&usage.cards_in)),
        ("disks", most(&usage.drives)),
    ];
    let (what, used) = found
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .expect("there are some");
    (what.to_owned(), used)
}

/// The document with its tables replaced.
///
/// # Errors
/// The document has no marks.
pub fn insert(document: &str, tables: &str) -> Result<String, String> {
    let missing = || format!("the document has no lines {} and {}", MARKS.0, MARKS.1);
    let (before, rest) = document.split_once(MARKS.0).ok_or_else(missing)?;
    let (_, after) = rest.split_once(MARKS.1).ok_or_else(missing)?;
    Ok(format!(
        "{before}{}\n\n{}\n\n{}{after}",
        MARKS.0,
        tables.trim_end(),
        MARKS.1
    ))
}
