//! What a cluster costs while nobody asks anything of it, and what the first I/O after that finds.

use crate::case::{Case, Front, Mix};
use crate::client::job;
use crate::measure::SystemUnderTest;
use crate::report::Figures;
use crate::site::Site;
use crate::usage::Window;
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::time::Duration;

/// How long nobody asks anything, before the first write and before the first read.
const BEFORE_WRITE: Duration = Duration::from_secs(60);
const BEFORE_READ: Duration = Duration::from_secs(10);
/// What the whole cluster may use of one core meanwhile.
const IDLE_PERCENT: f64 = 1.0;

/// Measures with a client that has a volume open.
///
/// # Errors
/// When an I/O fails, or this process is told to end.
pub fn measure(steps: &mut Steps, site: &mut Site, figures: &mut Figures) -> Result<()> {
    let case = Case::new(Front::Libamita, Mix::Write, 1);
    steps.step("idle for a minute", || {
        site.ready(&case)?;
        // What the last workload left to do is not idleness.
        interrupt::sleep(Duration::from_secs(1))?;
        let client = site.clients().drivers()[0].watched();
        let watched: Vec<_> = site.testbed.watched().into_iter().chain([client]).collect();
        let window = Window::open(&watched)?;
        interrupt::sleep(BEFORE_WRITE)?;
        let usage = window.close()?;
        let percent = |cpu: Duration| 100.0 * cpu.as_secs_f64() / usage.length.as_secs_f64();
        let client = usage.by_name.get("client").copied().unwrap_or_default().cpu;
        figures.at_most(
            "idle.cpu_percent",
            "idle cluster, of one core (Vitastor 0.1, Ceph 1.4)",
            percent(usage.cpu() - client),
            "%",
            IDLE_PERCENT,
        );
        figures.note(
            "idle.client_percent",
            "idle client that has a volume open, of one core",
            percent(client),
            "%",
        );
        Ok(())
    })?;
    let first = first(site, &case)?;
    figures.note(
        "idle.first_write_us",
        "first write after a minute of idleness",
        first,
        "us",
    );
    interrupt::sleep(BEFORE_READ)?;
    let first = self::first(site, &Case::new(Front::Libamita, Mix::Read, 1))?;
    figures.note(
        "idle.first_read_us",
        "first read after ten seconds of idleness",
        first,
        "us",
    );
    Ok(())
}

/// One I/O, in microseconds.
fn first(site: &mut Site, case: &Case) -> Result<f64> {
    let mut job = job(case, site.region_bytes(case), Duration::from_secs(30));
    (job.ramp_seconds, job.ios) = (0.0, Some(1));
    let driver = &mut site.clients().drivers()[0];
    driver.run(&job)?;
    driver.begun(Duration::ZERO)?;
    driver.ended(Duration::from_secs(30))?;
    let outcome = driver.outcome()?;
    Ok(outcome.read.max().max(outcome.write.max()).as_secs_f64() * 1e6)
}
