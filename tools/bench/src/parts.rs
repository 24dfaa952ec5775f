//! The parts of a run, one after the other: what they share is started once.

use crate::case::{Front, matrix};
use crate::client::Clients;
use crate::load::driver::Driver;
use crate::machine::Machine;
use crate::measure::{Measure, Patience};
use crate::peers::Peer;
use crate::record::{RESULTS, Run};
use crate::report::Figures;
use crate::site::Site;
use crate::testbed::{Backing, NODES, Product, Testbed, store_bytes};
use crate::{
    Arguments, Part, backup, care, curve, hostile, idle, iscsi, links, micros, moving, neighbours, nvme, path, pause,
    peers, raw, rebuild, row, scaling, snapshots, units,
};
use amita_harness::scratch::Scratch;
use amita_terminal::error::Result;
use amita_terminal::progress::Steps;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A probe's block behind the region.
const BEHIND: u64 = 4 << 20;

/// Bytes of the region where several clusters stand side by side, or nothing depends on it.
const SMALL_BYTES: u64 = 32 << 20;

/// What goes through a run.
struct Bench<'a> {
    arguments: &'a Arguments,
    product: Product,
    backing: Backing,
    steps: Steps,
    figures: Figures,
}

/// Runs the parts that are asked for, prints what they came to, and writes it.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let backing = Backing {
        devices: arguments.device.clone(),
    };
    backing.check(arguments.yes_destroy)?;
    let mut bench = Bench {
        arguments,
        product: Product::find(arguments.amita.as_deref(), &arguments.serve_argument, arguments.links)?,
        backing,
        steps: Steps::new(),
        figures: Figures::default(),
    };
    let units = bench.steps.step("measuring P and R", units::measure)?;
    let (p_us, r_us) = (micros(units.p), micros(units.r));
    let note = &mut bench.figures;
    note.note("unit.p_us", "P: CPU of a loopback round trip, one core", p_us, "us");
    note.note(
        "unit.r_us",
        "R: latency of a loopback round trip, two cores",
        r_us,
        "us",
    );

    let mut done = Run {
        machine: Machine::here(),
        p_us,
        r_us,
        ..Run::default()
    };
    if let Err(failure) = bench.measure(units, &mut done) {
        // What was measured before it is as true as ever, and took its time.
        println!("{}", bench.figures.markdown());
        return Err(failure);
    }
    done.figures = bench.figures.all().to_vec();
    bench.print_and_write(&done)
}

/// Is a part asked for? Peers must be started, so that one is never taken for granted.
fn wants(only: &[Part], part: Part) -> bool {
    only.contains(&part) || (only.is_empty() && part != Part::Peers)
}

fn scratch(arguments: &Arguments) -> Result<Scratch> {
    let size = arguments.size;
    // Files of stores take no room on devices.
    let stores = if arguments.device.is_empty() {
        store_bytes(2 * size + BEHIND) * NODES as u64
    } else {
        0
    };
    Scratch::make("bench", None, arguments.store_dir.as_deref(), stores + size)
}

fn testbed(arguments: &Arguments, backing: &Backing, volumes: u32, product: &Product) -> Result<Testbed> {
    let bytes = arguments.size + BEHIND;
    Testbed::start(scratch(arguments)?, backing, bytes, volumes, product)
}

/// On files, whatever the rest is measured on: what is compared there is what stands above the stores.
fn small_testbed(arguments: &Arguments, product: &Product) -> Result<Testbed> {
    small_testbed_of(arguments, 1, product)
}

/// With so many volumes.
fn small_testbed_of(arguments: &Arguments, volumes: u32, product: &Product) -> Result<Testbed> {
    let bytes = SMALL_BYTES + BEHIND;
    let room = store_bytes(bytes) * NODES as u64;
    let scratch = Scratch::make("bench", None, arguments.store_dir.as_deref(), room)?;
    Testbed::start(scratch, &Backing::default(), bytes, volumes, product)
}

/// On files of so many bytes, with a volume of so many.
fn roomy_testbed(arguments: &Arguments, store_bytes: u64, volume_bytes: u64, product: &Product) -> Result<Testbed> {
    let room = store_bytes * NODES as u64;
    let scratch = Scratch::make("bench", None, arguments.store_dir.as_deref(), room)?;
    Testbed::with_room(scratch, store_bytes, volume_bytes, product)
}

impl Bench<'_> {
    fn wants(&self, part: Part) -> bool {
        wants(&self.arguments.only, part)
    }

    fn needs_site(&self) -> bool {
        use Part::{Curve, Idle, Matrix, Path, Pauses, Peers, Scaling};
        [Path, Matrix, Curve, Idle, Scaling, Pauses, Peers]
            .into_iter()
            .any(|part| self.wants(part))
    }

    /// All that is measured on the shared cluster, and on those that begin as it does.
    fn io(&mut self, units: units::Units) -> Result<(String, Vec<row::Row>)> {
        let arguments = self.arguments;
        let time = Duration::from_secs(arguments.seconds);
        let patience = Patience {
            quiet_percent: arguments.quiet,
            repeats: arguments.repeats,
        };
        let points = if self.wants(Part::Matrix) {
            matrix(arguments.matrix, &arguments.filter)
        } else {
            Vec::new()
        };
        let volumes = points.iter().map(|case| case.volumes).max().unwrap_or(1);
        let product = self.product.clone();
        if self.wants(Part::Path) && self.backing.devices.is_empty() {
            let scratch = scratch(self.arguments)?;
            let (figures, size) = (&mut self.figures, arguments.size);
            self.steps
                .step("the raw backing", || raw::measure(&scratch, size, time, figures))?;
        }
        let mut measure = Measure::new(units, time, patience, !arguments.no_counts);
        if self.wants(Part::Peers) {
            self.peers(&mut measure)?;
        }
        let backing = self.backing.clone();
        let start = |product: &Product, volumes| testbed(arguments, &backing, volumes, product);
        let testbed = self.steps.step("starting three nodes", || start(&product, volumes))?;
        let lies_on = testbed.backing().to_owned();
        let mut site = Site::new(testbed, Clients::default(), arguments.size);
        let (steps, figures) = (&mut self.steps, &mut self.figures);
        let (only, filter) = (&arguments.only, &arguments.filter);
        let wants = |part| wants(only, part);

        // One client after the other: a volume has one owner.
        for front in filter.fronts() {
            if wants(Part::Path) && front != Front::Local {
                path::measure(steps, &mut measure, &mut site, front, filter, figures)?;
            }
            if wants(Part::Peers) && front != Front::Local {
                for case in peers::cases(front, None) {
                    measure.case(steps, &mut site, &case, true)?;
                }
            }
            measure.time = time / 3;
            for case in points.iter().filter(|case| case.front == front) {
                measure.case(steps, &mut site, case, false)?;
            }
            measure.time = time;
        }
        if wants(Part::Curve) {
            let folder = arguments.output.parent().unwrap_or(Path::new("."));
            curve::measure(steps, &mut measure, &mut site, folder, figures)?;
        }
        if wants(Part::Idle) {
            idle::measure(steps, &mut site, figures)?;
        }
        let mut one_core = Vec::new();
        if wants(Part::Scaling) && units.cores > 1 {
            one_core = scaling::one_core(steps, &mut measure, &mut site)?;
        }
        let mut testbed = site.into_testbed();
        if wants(Part::Pauses) {
            let volume = testbed.volumes[0].clone();
            let offset = arguments.size;
            testbed.place(crate::case::Placement::Free)?;
            let cluster = &mut testbed.cluster;
            steps.step("killing the owner's gateway", || {
                pause::takeover(cluster, &volume, offset, figures)
            })?;
            steps.step("killing a node", || pause::kill(cluster, &volume, offset, figures))?;
        }
        drop(testbed);
        if !one_core.is_empty() {
            let (steps, figures) = (&mut self.steps, &mut self.figures);
            let testbed = steps.step("starting three nodes of two cores", || {
                start(&scaling::with_two_cores(product), 2)
            })?;
            scaling::two_cores(steps, &mut measure, testbed, arguments.size, &one_core, figures)?;
        }
        if self.wants(Part::Path) && filter.fronts().iter().any(|front| *front != Front::Nbd) {
            self.copy_in_process(&mut measure)?;
        }
        Ok((lies_on, measure.rows().to_vec()))
    }

    /// The modes of links, each on a cluster of its own.
    fn links(&mut self, units: units::Units) -> Result<()> {
        let mut measuring = self.uncounted(units);
        let start = |product: &Product| small_testbed(self.arguments, product);
        links::measure(
            &mut self.steps,
            &mut measuring,
            &self.product,
            SMALL_BYTES,
            start,
            &mut self.figures,
        )
    }

    /// What is done for a volume, each on a cluster of its own.
    fn care(&mut self, units: units::Units) -> Result<()> {
        let mut measuring = self.uncounted(units);
        let start = |product: &Product| small_testbed(self.arguments, product);
        care::measure(
            &mut self.steps,
            &mut measuring,
            &self.product,
            SMALL_BYTES,
            start,
            &mut self.figures,
        )
    }

    fn hostile(&mut self, units: units::Units) -> Result<()> {
        let mut measuring = self.uncounted(units);
        let start = |product: &Product| small_testbed(self.arguments, product);
        hostile::measure(
            &mut self.steps,
            &mut measuring,
            &self.product,
            SMALL_BYTES,
            start,
            &mut self.figures,
        )
    }

    fn snapshots(&mut self, units: units::Units) -> Result<()> {
        let mut measuring = self.uncounted(units);
        let start = |product: &Product, room: snapshots::Room| {
            roomy_testbed(self.arguments, room.store_bytes, room.volume_bytes, product)
        };
        snapshots::measure(&mut self.steps, &mut measuring, &self.product, start, &mut self.figures)
    }

    fn moving(&mut self) -> Result<()> {
        let size = self.arguments.size;
        let start = || roomy_testbed(self.arguments, moving::store_bytes(size), size, &self.product);
        moving::measure(&mut self.steps, size, start, &mut self.figures)
    }

    fn neighbours(&mut self) -> Result<()> {
        let start = || small_testbed_of(self.arguments, 2, &self.product);
        neighbours::measure(&mut self.steps, 2 * SMALL_BYTES, start, &mut self.figures)
    }

    /// With the run's patience; neither system calls nor allocations are counted.
    fn uncounted(&self, units: units::Units) -> Measure {
        let patience = Patience {
            quiet_percent: self.arguments.quiet,
            repeats: self.arguments.repeats,
        };
        Measure::new(units, Duration::from_secs(self.arguments.seconds), patience, false)
    }

    /// The peers come first: they run already, and are put on their cores one after the other.
    fn peers(&mut self, measure: &mut Measure) -> Result<()> {
        let (scratch, size) = (scratch(self.arguments)?, self.arguments.size);
        let device = self.backing.devices.first().map(PathBuf::as_path);
        peers::raw(&mut self.steps, measure, &scratch, device, size)?;
        for path in &self.arguments.peer {
            peers::measure(&mut self.steps, measure, Peer::read(path)?, size, scratch.folder())?;
        }
        Ok(())
    }

    /// The rows of a client that holds a copy itself, in place of the third node.
    fn copy_in_process(&mut self, measure: &mut Measure) -> Result<()> {
        if !self.backing.devices.is_empty() {
            eprintln!("  a copy in the client's process is not measured on devices");
            return Ok(());
        }
        let (scratch, arguments) = (scratch(self.arguments)?, self.arguments);
        let bytes = arguments.size + BEHIND;
        let (testbed, driver) = self.steps.step("two nodes, and a client with the third copy", || {
            Testbed::with_copy_elsewhere(scratch, bytes, &self.product, |cluster, store| {
                Driver::start("client", cluster, &[store.to_owned()])
            })
        })?;
        let mut site = Site::new(testbed, Clients::of(driver), arguments.size);
        let filter = crate::case::Filter {
            front: vec![Front::Local],
            ..arguments.filter.clone()
        };
        let (steps, figures) = (&mut self.steps, &mut self.figures);
        path::measure(steps, measure, &mut site, Front::Local, &filter, figures)
    }

    /// The parts that are asked for, one after the other.
    fn measure(&mut self, units: units::Units, done: &mut Run) -> Result<()> {
        if self.needs_site() {
            (done.backing, done.rows) = self.io(units)?;
        }
        if self.wants(Part::Pauses) {
            pause::table(&mut self.steps, &self.product, &mut self.figures)?;
        }
        if self.wants(Part::Rebuild) {
            rebuild::measure(&mut self.steps, self.arguments.size, &self.product, &mut self.figures)?;
        }
        if self.wants(Part::Nvme) {
            nvme::measure(&mut self.steps, &self.product, &mut self.figures)?;
        }
        if self.wants(Part::Iscsi) {
            iscsi::measure(&mut self.steps, &self.product, &mut self.figures)?;
        }
        if self.wants(Part::Links) {
            self.links(units)?;
        }
        if self.wants(Part::Backup) {
            backup::measure(&mut self.steps, self.arguments.size, &self.product, &mut self.figures)?;
        }
        if self.wants(Part::Care) {
            self.care(units)?;
        }
        if self.wants(Part::Moving) {
            self.moving()?;
        }
        if self.wants(Part::Neighbours) {
            self.neighbours()?;
        }
        if self.wants(Part::Hostile) {
            self.hostile(units)?;
        }
        if self.wants(Part::Snapshots) {
            self.snapshots(units)?;
        }
        Ok(())
    }

    fn print_and_write(&self, run: &Run) -> Result<()> {
        if !run.rows.is_empty() {
            println!("{}", row::markdown(&run.rows));
        }
        if self.wants(Part::Peers) {
            println!("{}", peers::markdown(&run.rows));
        }
        println!("{}", self.figures.markdown());
        println!("{}.", run.machine.describe());
        if !run.backing.is_empty() {
            println!(
                "Stores: {}. All processes together, the client's share included.",
                run.backing
            );
        }
        let disturbed = run.rows.iter().filter(|row| row.disturbed).count();
        if disturbed > 0 {
            println!(
                "{disturbed} of {} rows were disturbed: others used more than {} % of a core in each of {} attempts.",
                run.rows.len(),
                self.arguments.quiet,
                self.arguments.repeats + 1
            );
        }
        self.figures.write(&self.arguments.output)?;
        let full = self.arguments.output.with_file_name("full.json");
        run.write(&full)?;
        println!("Written to {} and {}.", self.arguments.output.display(), full.display());
        if self.arguments.record {
            let path = run.append(Path::new(RESULTS))?;
            println!("Recorded in {}.", path.display());
        }
        Ok(())
    }
}
