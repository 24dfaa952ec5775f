//! What a second core is worth: the same load on one processor, then twice of it on two, where every node has a core on
//! each of them and so have the clients.

use crate::case::{Case, Front, Mix, Placement};
use crate::client::{Running, job};
use crate::load::driver::Driver;
use crate::measure::{Measure, SystemUnderTest};
use crate::report::Figures;
use crate::testbed::{Product, Stores, Testbed};
use crate::usage::Watched;
use amita_terminal::error::Result;
use amita_terminal::progress::Steps;
use std::time::Duration;

/// What each of two cores must bring of what one brings alone.
const EFFICIENCY: f64 = 0.65;
const DEPTH: u32 = 32;
const MIXES: [Mix; 2] = [Mix::Write, Mix::Read];

/// I/Os a second on one core, by the order of the mixes.
///
/// # Errors
/// When an I/O fails.
pub fn one_core(steps: &mut Steps, measure: &mut Measure, system: &mut dyn SystemUnderTest) -> Result<Vec<f64>> {
    let each = MIXES.into_iter().map(|mix| {
        let mut case = Case::new(Front::Libamita, mix, DEPTH);
        case.placement = Placement::OneCore;
        measure.case(steps, system, &case, false).map(|row| row.iops)
    });
    each.collect()
}

/// What a cluster is told whose nodes have two cores.
#[must_use]
pub fn with_two_cores(mut product: Product) -> Product {
    let two = ["--cores", "2", "--pin", "true"].map(str::to_owned);
    product.serve_arguments.extend(two);
    product
}

/// The same on two, on a cluster of its own with a volume for each client; and what that is of twice as much.
///
/// # Errors
/// When a client does not start, or an I/O fails.
pub fn two_cores(
    steps: &mut Steps,
    measure: &mut Measure,
    testbed: Testbed,
    size_bytes: u64,
    one: &[f64],
    figures: &mut Figures,
) -> Result<()> {
    let mut system = steps.step("a client on each core", || Spread::start(testbed, size_bytes))?;
    for (mix, &one) in MIXES.into_iter().zip(one) {
        let mut case = Case::new(Front::Libamita, mix, DEPTH);
        (case.placement, case.volumes) = (Placement::Spread, system.drivers.len() as u32);
        let row = measure.case(steps, &mut system, &case, false)?;
        let label = format!("4K random {mix}, libamita, depth {DEPTH} a client");
        figures.note(
            &format!("scaling.{mix}.one_core_iops"),
            &format!("{label}: one core"),
            one,
            "IOPS",
        );
        figures.note(
            &format!("scaling.{mix}.two_cores_iops"),
            &format!("{label}: two cores"),
            row.iops,
            "IOPS",
        );
        figures.at_least(
            &format!("scaling.{mix}.efficiency"),
            &format!("{label}: each of two cores, of one alone"),
            row.iops / (2.0 * one.max(1e-9)),
            "",
            EFFICIENCY,
        );
    }
    Ok(())
}

/// A cluster whose nodes have a core on each processor, with a client on each.
struct Spread {
    // The clients end first.
    drivers: Vec<Driver>,
    testbed: Testbed,
    region_bytes: u64,
}

impl Spread {
    fn start(testbed: Testbed, size_bytes: u64) -> Result<Spread> {
        let region_bytes = size_bytes / 2 / (1 << 20) * (1 << 20);
        let mut drivers = Vec::new();
        for (number, (cpu, volume)) in testbed.cpus().iter().zip(&testbed.volumes).enumerate() {
            let name = format!("spread-{}", number + 1);
            let mut driver = Driver::start(&name, &testbed.cluster, &[])?;
            driver.keep_on(&[*cpu])?;
            driver.open(std::slice::from_ref(volume))?;
            driver.fill(region_bytes)?;
            drivers.push(driver);
        }
        Ok(Spread {
            drivers,
            testbed,
            region_bytes,
        })
    }
}

impl SystemUnderTest for Spread {
    fn watched(&self) -> Vec<Watched> {
        self.testbed.watched()
    }

    fn stores(&self) -> Option<Stores> {
        self.testbed.stores().ok()
    }

    fn ready(&mut self, _: &Case) -> Result<()> {
        Ok(())
    }

    fn start(&mut self, case: &Case, time: Duration) -> Result<Running<'_>> {
        Running::library(&mut self.drivers, &job(case, self.region_bytes, time))
    }
}
