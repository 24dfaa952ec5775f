//! One table each.

use super::{DEPTH, MIXES, Options, Report, SESSIONS, SLICE, VOLUMES, WHOLE, bottleneck};
use crate::scale::calibrate;
use crate::scale::costs::{Costs, Family, PARTS, ROWS};
use crate::scale::machine::{Fronts, Holders, Machine, Placement};
use crate::scale::memory;
use crate::scale::path::{Asking, Load};
use crate::scale::run::Outcome;
use std::fmt::Write;

/// A table in Markdown.
struct Table(String);

impl Table {
    fn new(title: &str, text: &str, head: &[&str]) -> Table {
        let mut table = format!("### {title}\n\n{text}\n\n| {} |\n|", head.join(" | "));
        for _ in head {
            table.push_str(" --- |");
        }
        table.push('\n');
        Table(table)
    }

    fn row(&mut self, cells: &[String]) {
        let _ = writeln!(self.0, "| {} |", cells.join(" | "));
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn millions(value: f64) -> String {
    format!("{:.2} M", value / 1e6)
}

fn us(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn percent(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// What nodes hold, and what the cluster asks of the metadata.
pub(super) fn budgets(options: &Options) -> String {
    let mut nodes = options.nodes.clone();
    if options.nodes.len() > 1 {
        nodes.push(10_000);
    }
    let mut head = vec!["of a node".to_owned()];
    head.extend(nodes.iter().map(|nodes| format!("{nodes} nodes")));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let text = "Counted from the constants and types of the product; a sequencer's memory by making some and looking how much the \
                process grew (good to a third).";
    let mut table = Table::new("Connections, memory, metadata", text, &head);
    let machines: Vec<Machine> = nodes
        .iter()
        .map(|&nodes| Machine::servers(nodes, options.cores))
        .collect();
    let budgets: Vec<memory::Budget> = machines.iter().map(memory::budget).collect();
    let sizes: Vec<memory::Sizes> = machines.iter().map(memory::measure).collect();
    let mut line = |what: &str, cell: &dyn Fn(usize) -> String| {
        let mut cells = vec![what.to_owned()];
        cells.extend((0..nodes.len()).map(cell));
        table.row(&cells);
    };
    let whole = |value: f64| format!("{value:.0}");
    line("links to each peer", &|at| machines[at].links.to_string());
    line("connections, both directions", &|at| whole(budgets[at].connections));
    line("of them on a core", &|at| whole(budgets[at].connections_of_core));
    line("were there one for each pair of cores", &|at| {
        whole(budgets[at].connections_squared)
    });
    line("memory of idle connections", &|at| bytes(budgets[at].idle_bytes));
    line("the kernel's", &|at| bytes(budgets[at].kernel_bytes));
    line("what peers may send by their windows", &|at| {
        bytes(budgets[at].window_bytes)
    });
    line("what is taken in of it", &|at| bytes(budgets[at].unanswered_bytes));
    line("pings a second, idle", &|at| whole(budgets[at].pings));
    line("rings between cores", &|at| bytes(budgets[at].rings_bytes));
    line("a volume's sequencers, all cores", &|at| {
        bytes(sizes[at].sequencer * machines[at].cores as f64)
    });
    line("how long each store takes, all cores", &|at| {
        bytes(sizes[at].watch * machines[at].cores as f64)
    });
    line("records in the metadata", &|at| whole(budgets[at].records));
    line("their size", &|at| bytes(budgets[at].record_bytes));
    line("renewals of leases a second, all nodes", &|at| {
        whole(budgets[at].renewals)
    });
    line("events that one change becomes", &|at| whole(budgets[at].watchers));
    line("groups that change with a node's failure", &|at| {
        whole(budgets[at].groups_of_node)
    });
    line("events of that, all nodes", &|at| {
        whole(budgets[at].groups_of_node * budgets[at].watchers)
    });
    line("leases to renew a second for an owner that reads everywhere", &|at| {
        whole(budgets[at].leases)
    });
    table.0
}

impl Report<'_> {
    fn of(&self, nodes: usize) -> (&Machine, &Placement) {
        let cluster = &self.clusters[&nodes];
        (&cluster.machine, &cluster.placement)
    }

    /// The cluster that the comparisons are made on: of 10 nodes, else of the fewest.
    fn small(&self) -> usize {
        let nodes = &self.options.nodes;
        if nodes.contains(&10) {
            10
        } else {
            nodes.iter().copied().min().unwrap_or(3)
        }
    }

    /// What the rate of the whole cluster is.
    fn whole(machine: &Machine, outcome: &Outcome) -> f64 {
        outcome.iops * machine.nodes as f64 / machine.slice as f64
    }

    pub(super) fn bench(&self) -> String {
        let measured = &self.options.measured;
        let (fitted, factors) = calibrate::fit(measured);
        let factors: Vec<String> = factors
            .iter()
            .map(|(family, by)| format!("{family:?} {by:.2}"))
            .collect();
        let text = format!(
            "The bench's cluster in the model. \"By P\": the costs of the crates' own benches, moved to this run by P alone. \
             \"Fitted\": each family of costs times one factor ({}), chosen by the figures marked; the others say whether \
             the model is any good.",
            factors.join(", ")
        );
        let head = ["figure", "measured", "by P", "off", "fitted", "off", "fitted to it"];
        let mut table = Table::new("The model beside `amita-bench`", &text, &head);
        let plain = calibrate::compare(&calibrate::by_p(measured), measured);
        for (plain, fitted) in plain.iter().zip(calibrate::compare(&fitted, measured)) {
            let off = |off: f64| format!("{:+.1} %", off * 100.0);
            table.row(&[
                format!("`{}`", plain.figure.name),
                us(plain.measured),
                us(plain.predicted),
                off(plain.off()),
                us(fitted.predicted),
                off(fitted.off()),
                if plain.figure.fitted { "yes" } else { "" }.to_owned(),
            ]);
        }
        table.0
    }

    pub(super) fn servers(&self) -> String {
        let text = format!(
            "4 KiB at random, {VOLUMES} volumes of 1 TiB and {SESSIONS} sessions at each node's gateway, {DEPTH} I/Os under way \
             in each: as much as can be had. *Work* is CPU without what idle cores yield away. More than {WHOLE} nodes: a \
             slice of {SLICE}.",
        );
        let head = [
            "nodes",
            "load",
            "IOPS",
            "IOPS a node",
            "work, us an I/O",
            "cores at work, mean",
            "network out / in",
            "disks",
            "messages a send",
            "writes a commit",
            "used most",
        ];
        let mut table = Table::new("How much", &text, &head);
        for &nodes in &self.options.nodes {
            let (machine, _) = self.of(nodes);
            for (writes, name) in MIXES {
                let (outcome, load) = self.most(nodes, writes);
                let (what, used) = bottleneck(machine, &load, &outcome);
                let counts = &outcome.counts;
                let commits = counts.writes as f64 / counts.commits.max(1) as f64;
                table.row(&[
                    nodes.to_string(),
                    name.to_owned(),
                    millions(Self::whole(machine, &outcome)),
                    millions(outcome.iops / machine.slice as f64),
                    us(outcome.work_us),
                    percent(mean(&outcome.usage.work)),
                    format!(
                        "{} / {}",
                        percent(mean(&outcome.usage.cards_out)),
                        percent(mean(&outcome.usage.cards_in))
                    ),
                    percent(mean(&outcome.usage.drives)),
                    format!("{:.1}", counts.messages as f64 / counts.sends.max(1) as f64),
                    if counts.commits == 0 {
                        String::new()
                    } else {
                        format!("{commits:.1}")
                    },
                    format!("{what}: {}", percent(used)),
                ]);
            }
        }
        table.0
    }

    pub(super) fn latency(&self) -> String {
        let text = "Arrivals at random, at parts of what can be had. \"Bare metal\": waking a core costs 1.5 us on either side \
                    and takes 3 us, an assumption; the rest of the table has what this virtual machine takes (`costs`, below).";
        let head = [
            "nodes",
            "load",
            "at 30 %: p50 / p99",
            "at 70 %: p50 / p99",
            "work at 70 %, us an I/O",
            "bare metal, at 70 %: p50 / p99",
        ];
        let mut table = Table::new("How fast", text, &head);
        let mut bare = self.costs.clone();
        (bare.wake_other, bare.woken_other, bare.wake_delay) = (1500.0, 1500.0, 3000.0);
        for &nodes in &self.options.nodes {
            let (machine, placement) = self.of(nodes);
            for (writes, name) in MIXES {
                (self.tell)(&format!("{nodes} nodes, {name}, latency"));
                let most = self.most(nodes, writes);
                let run = |costs: &Costs, part| self.run_open(machine, placement, costs, &most, part);
                let (low, high, metal) = (run(&self.costs, 0.3), run(&self.costs, 0.7), run(&bare, 0.7));
                let both = |outcome: &Outcome| format!("{} / {} us", us(outcome.p50_us), us(outcome.p99_us));
                table.row(&[
                    nodes.to_string(),
                    name.to_owned(),
                    both(&low),
                    both(&high),
                    us(high.work_us),
                    both(&metal),
                ]);
            }
        }
        table.0
    }

    pub(super) fn parts(&self) -> String {
        let mut head = vec!["nodes".to_owned(), "load".to_owned()];
        head.extend(PARTS.iter().map(ToString::to_string));
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let text = "Microseconds of CPU an I/O, under the load of \"How much\". *Wait* has what idle cores yield away; *mail* has \
                    what it takes to read what another core has in its cache.";
        let mut table = Table::new("Where it goes", text, &head);
        for (machine_name, writes, outcome) in self.parts_of() {
            let mut cells = vec![machine_name, writes];
            cells.extend(outcome.parts_us.iter().map(|&part| us(part)));
            table.row(&cells);
        }
        table.0
    }

    fn parts_of(&self) -> Vec<(String, String, Outcome)> {
        let mut found = Vec::new();
        for (writes, name) in &MIXES[..2] {
            let processors = crate::scale::machine::Processors::One;
            let outcome = calibrate::bench(&self.costs, *writes, 32, processors);
            found.push(("the bench, on one core".to_owned(), (*name).to_owned(), outcome));
        }
        for &nodes in &self.options.nodes {
            for (writes, name) in &MIXES[..2] {
                let (outcome, _) = self.most(nodes, *writes);
                found.push((nodes.to_string(), (*name).to_owned(), outcome));
            }
        }
        found
    }

    pub(super) fn holders(&self) -> String {
        let nodes = self.small();
        let text = format!("{nodes} nodes; who holds the links to a peer, and who serves hosts.");
        let head = [
            "links to a peer",
            "held by",
            "sessions on",
            "load",
            "IOPS a node",
            "used most",
        ];
        let mut table = Table::new("Which cores", &text, &head);
        let (base, placement) = self.of(nodes);
        for (links, holders, fronts) in [
            (4, Holders::First, Fronts::First),
            (4, Holders::First, Fronts::Spread),
            (4, Holders::Spread, Fronts::First),
            (4, Holders::Spread, Fronts::Spread),
            (16, Holders::Spread, Fronts::Spread),
        ] {
            let machine = Machine {
                links,
                holders,
                fronts,
                ..base.clone()
            };
            for (writes, name) in &MIXES[..2] {
                (self.tell)(&format!("{links} links, {holders:?}, {fronts:?}, {name}"));
                let (outcome, load) = self.run(&machine, placement, &self.costs, Self::load(&machine, *writes));
                let (what, used) = bottleneck(&machine, &load, &outcome);
                table.row(&[
                    links.to_string(),
                    match holders {
                        Holders::First => "the first cores",
                        Holders::Spread => "other cores for each peer",
                    }
                    .to_owned(),
                    match fronts {
                        Fronts::First => "core 0",
                        Fronts::Spread => "all cores",
                    }
                    .to_owned(),
                    (*name).to_owned(),
                    millions(outcome.iops / machine.slice as f64),
                    format!("{what}: {}", percent(used)),
                ]);
            }
        }
        table.0
    }

    pub(super) fn links(&self) -> String {
        let text = "Writes, as many as can be had, by the links that a node keeps to each peer; \"connections\" are a node's, \
                    those that come in included.";
        let head = [
            "nodes",
            "links",
            "connections",
            "IOPS a node",
            "work, us an I/O",
            "messages a send",
        ];
        let mut table = Table::new("How many links", text, &head);
        for &nodes in &self.options.nodes {
            let (base, placement) = self.of(nodes);
            for links in [1, 2, 4, 8, 16].into_iter().filter(|&links| links <= base.cores) {
                (self.tell)(&format!("{nodes} nodes, {links} links"));
                let machine = Machine { links, ..base.clone() };
                let (outcome, _) = self.run(&machine, placement, &self.costs, Self::load(&machine, 100));
                let counts = &outcome.counts;
                table.row(&[
                    nodes.to_string(),
                    links.to_string(),
                    format!("{}", 2 * (nodes - 1) * links),
                    millions(outcome.iops / machine.slice as f64),
                    us(outcome.work_us),
                    format!("{:.1}", counts.messages as f64 / counts.sends.max(1) as f64),
                ]);
            }
        }
        table.0
    }

    pub(super) fn hot(&self) -> String {
        let text =
            "One volume of 1 TiB, which one gateway owns, and nothing else; then the same load over more owners.";
        let head = ["nodes", "owners", "sessions", "load", "IOPS", "p50", "used most"];
        let mut table = Table::new("One hot volume", text, &head);
        let nodes = self.small();
        let (machine, placement) = self.of(nodes);
        for (gateways, sessions, depth) in [(1, 1, 128), (1, 16, 128), (1, 128, 16), (2, 128, 16), (nodes, 128, 16)] {
            for (writes, name) in &MIXES[..2] {
                (self.tell)(&format!("{gateways} owners, {sessions} sessions, {name}"));
                let load = Load {
                    asking: Asking::Closed { sessions, depth },
                    gateways,
                    volumes: 1,
                    ..Self::load(machine, *writes)
                };
                let (outcome, load) = self.run(machine, placement, &self.costs, load);
                let (what, used) = bottleneck(machine, &load, &outcome);
                table.row(&[
                    nodes.to_string(),
                    gateways.to_string(),
                    format!("{sessions} of depth {depth}"),
                    (*name).to_owned(),
                    millions(outcome.iops),
                    format!("{} us", us(outcome.p50_us)),
                    format!("{what}: {}", percent(used)),
                ]);
            }
        }
        table.0
    }

    pub(super) fn halves(&self) -> String {
        let nodes = self.small();
        let text = format!(
            "{nodes} nodes, as much as can be had: how a node's IOPS and the work of an I/O move when one cost is halved. Costs \
             that move neither by 1 % are left out."
        );
        let head = ["halved", "write: IOPS", "write: work", "read: IOPS", "read: work"];
        let mut table = Table::new("What is worth lowering", &text, &head);
        let (machine, placement) = self.of(nodes);
        let base: Vec<(Outcome, Load)> = MIXES[..2].iter().map(|(writes, _)| self.most(nodes, *writes)).collect();
        for row in ROWS.iter().filter(|row| row.family != Family::Fixed) {
            (self.tell)(&format!("half of {}", row.name));
            let mut costs = self.costs.clone();
            if let Some(cost) = costs.get_mut(row.name) {
                *cost /= 2.0;
            }
            let moves: Vec<f64> = base
                .iter()
                .flat_map(|(base, load)| {
                    let outcome = self.run_once(machine, placement, &costs, *load);
                    [outcome.iops / base.iops - 1.0, outcome.work_us / base.work_us - 1.0]
                })
                .collect();
            if moves.iter().any(|moved| moved.abs() >= 0.01) {
                let mut cells = vec![row.what.trim().to_owned()];
                cells.extend(moves.iter().map(|moved| format!("{:+.1} %", moved * 100.0)));
                table.row(&cells);
            }
        }
        table.0
    }

    pub(super) fn slices(&self) -> String {
        let text = "A slice simulates some nodes; what they send to the others comes in again at one of them, over connections of \
                    its own. Here the whole and slices of it, writes.";
        let head = [
            "nodes",
            "of them simulated",
            "IOPS a node",
            "work, us an I/O",
            "at 70 %: p50 / p99",
        ];
        let mut table = Table::new("A slice beside the whole", text, &head);
        for &nodes in self.options.nodes.iter().filter(|&&nodes| nodes > 3 && nodes <= WHOLE) {
            let (base, placement) = self.of(nodes);
            for slice in [nodes, nodes / 2, nodes / 5] {
                (self.tell)(&format!("{slice} of {nodes} nodes"));
                let machine = Machine { slice, ..base.clone() };
                let most = self.run(&machine, placement, &self.costs, Self::load(&machine, 100));
                let open = self.run_open(&machine, placement, &self.costs, &most, 0.7);
                let outcome = &most.0;
                table.row(&[
                    nodes.to_string(),
                    slice.to_string(),
                    millions(outcome.iops / slice as f64),
                    us(outcome.work_us),
                    format!("{} / {} us", us(open.p50_us), us(open.p99_us)),
                ]);
            }
        }
        table.0
    }

    /// How evenly the plan spreads the copies of groups.
    pub(super) fn balance(&self) -> String {
        let head = [
            "nodes",
            "groups",
            "copies of them on a store",
            "store with most, of the mean",
            "node with most",
        ];
        let text = "The coordinator's plan of one pool over all stores.";
        let mut table = Table::new("How evenly", text, &head);
        for &nodes in &self.options.nodes {
            let (machine, placement) = self.of(nodes);
            let (store, node) = placement.imbalance(machine);
            let copies = f64::from(machine.groups) * machine.copies as f64 / (machine.nodes * machine.stores) as f64;
            table.row(&[
                nodes.to_string(),
                machine.groups.to_string(),
                format!("{copies:.1}"),
                format!("{store:.2}"),
                format!("{node:.2}"),
            ]);
        }
        table.0
    }

    pub(super) fn costs(&self) -> String {
        let text = "Nanoseconds of CPU. Fitted costs are those of all tables above.";
        let head = ["cost", "is", "measured", "fitted", "where from"];
        let mut table = Table::new("Costs", text, &head);
        let measured = Costs::measured();
        for row in ROWS {
            let of = |costs: &Costs| format!("{:.0}", costs.get(row.name).unwrap_or_default());
            let fitted = if row.family == Family::Fixed {
                String::new()
            } else {
                of(&self.costs)
            };
            table.row(&[
                format!("`{}`", row.name),
                row.what.trim().to_owned(),
                of(&measured),
                fitted,
                row.source.to_owned(),
            ]);
        }
        table.0
    }
}
