//! What a neighbour costs a volume that keeps to its limit: two limited volumes of one cluster, and hosts by NBD.
//!
//! A host does half of what its volume may, by the clock: its p99 alone, beside a neighbour at full load whose volume is limited, and beside the
//! same neighbour without limits. They take turns, so that a minute of the machine that is unlike the one before is so for all. All share
//! the machine's processors as the scheduler likes.
//!
//! * `limited.p99_times`: of its p99 alone; `unlimited.p99_times` says what the neighbour's limit is good for;
//! * `limit.passed`: of what the neighbour's limit lets pass, while it has more to do all the time;
//! * `limit.most`: of rate x T + burst, in the turn that had most: what `docs/operating/qos.md` says is never passed.

use crate::case::{Case, Front, Mix, Placement};
use crate::client::{self, Clients, FIO_START};
use crate::measure::SystemUnderTest;
use crate::median;
use crate::report::Figures;
use crate::site::Site;
use crate::testbed::Testbed;
use amita_harness::fio::{self, Direction, Job};
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use std::fmt;
use std::time::Duration;

/// What a limited neighbour may add to a p99.
const P99_TIMES: f64 = 1.2;
/// What must pass of a limit, of what it lets pass.
const PASSED: f64 = 0.95;
/// Operations a second of the volume whose latency counts, and of its neighbour where that is limited. Both together are no load for this machine:
/// what the one feels of the other is no lack of processors then.
const OWN_IOPS: u32 = 2000;
const NEIGHBOUR_IOPS: u32 = 4000;
/// What may pass at once where nothing is said of it: a tenth of a second, and two pieces.
const BURST: f64 = NEIGHBOUR_IOPS as f64 / 10.0 + 2.0;
/// What the host may have under way, which it mostly has not, and what its neighbour has.
const OWN_DEPTH: u32 = 8;
const NEIGHBOUR_DEPTH: u32 = 32;
/// How often each of the three has its turn. The middle one counts.
const TURNS: usize = 7;
const TURN: Duration = Duration::from_secs(3);
/// What a host does before it counts.
const RAMP: Duration = Duration::from_millis(500);
/// The same of the neighbour: what it may do at once is spent then, and it is at work before the host begins.
const NEIGHBOUR_RAMP: Duration = Duration::from_millis(1500);
/// From the begin of the neighbour's measured time to its end: behind the host's.
const NEIGHBOUR_TURN: Duration = Duration::from_millis(5000);
/// How long fio may take beyond its own time.
const LIMIT: Duration = Duration::from_secs(60);
/// Gateways have heard of a limit by then.
const HEARD: Duration = Duration::from_millis(200);

/// Who works on the other volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbour {
    Nobody,
    Limited,
    Unlimited,
}

/// The first is what the others are compared with.
const NEIGHBOURS: [Neighbour; 3] = [Neighbour::Nobody, Neighbour::Limited, Neighbour::Unlimited];

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Neighbour::Nobody => "nobody",
            Neighbour::Limited => "limited",
            Neighbour::Unlimited => "unlimited",
        })
    }
}

/// What one turn beside somebody came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    p99_us: f64,
    /// The host's rate: what it asked for, where nothing holds it up.
    iops: f64,
    /// The neighbour's; none: there is nobody.
    neighbour_iops: f64,
}

/// By [`NEIGHBOURS`].
type Turn = [Sample; 3];

/// Measures and judges, on a cluster that `start` makes: with two volumes, of which so many bytes together are worked on.
///
/// # Errors
/// When something does not start, or an I/O fails. Never for a figure.
pub fn measure(
    steps: &mut Steps,
    size_bytes: u64,
    start: impl FnOnce() -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    let testbed = steps.step("three nodes, and two volumes with limits", start)?;
    set_limit(&testbed, 0, Some(OWN_IOPS))?;
    let mut site = Site::new(testbed, Clients::default(), size_bytes);
    for mix in [Mix::Write, Mix::Read] {
        let case = Case {
            placement: Placement::Free,
            volumes: 2,
            ..Case::new(Front::Nbd, mix, OWN_DEPTH)
        };
        let turns = steps.step(&format!("a limited volume and its neighbour, 4K random {mix}"), || {
            site.ready(&case)?;
            let region_bytes = site.region_bytes(&case);
            (0..TURNS)
                .map(|_| turn(&site.testbed, &case, region_bytes))
                .collect::<Result<Vec<_>>>()
        })?;
        judge(mix, &turns, figures);
    }
    Ok(())
}

/// What a volume may do from now on; none: all.
fn set_limit(testbed: &Testbed, volume: usize, iops: Option<u32>) -> Result<()> {
    let name = testbed.volumes[volume].as_str();
    let iops = iops.map(|iops| iops.to_string());
    let words = match &iops {
        Some(iops) => vec!["volume", "limit", "set", name, "--iops", iops],
        None => vec!["volume", "limit", "clear", name],
    };
    testbed.cluster.amita(words)?.success()?;
    interrupt::sleep(HEARD)
}

fn turn(testbed: &Testbed, case: &Case, region_bytes: u64) -> Result<Turn> {
    let mut turn = Turn::default();
    for (sample, neighbour) in turn.iter_mut().zip(NEIGHBOURS) {
        interrupt::check()?;
        *sample = beside(testbed, case, region_bytes, neighbour)?;
    }
    Ok(turn)
}

fn beside(testbed: &Testbed, case: &Case, region_bytes: u64, neighbour: Neighbour) -> Result<Sample> {
    let folder = testbed.scratch.folder();
    let direction = |report: fio::Report| -> Direction {
        if case.mix == Mix::Read {
            report.read
        } else {
            report.write
        }
    };
    match neighbour {
        Neighbour::Nobody => {}
        Neighbour::Limited => set_limit(testbed, 1, Some(NEIGHBOUR_IOPS))?,
        Neighbour::Unlimited => set_limit(testbed, 1, None)?,
    }
    let working = match neighbour {
        Neighbour::Nobody => None,
        _ => Some(neighbour_job(testbed, case, region_bytes).start(folder)?),
    };
    interrupt::sleep(FIO_START + NEIGHBOUR_RAMP)?;
    let own = direction(own_job(testbed, case, region_bytes).run(folder, TURN + LIMIT)?);
    let neighbours = working
        .map(|working| working.finish(NEIGHBOUR_TURN + LIMIT))
        .transpose()?;
    Ok(Sample {
        p99_us: own.latency.p99.as_secs_f64() * 1e6,
        iops: own.iops,
        neighbour_iops: neighbours.map_or(0.0, |report| direction(report).iops),
    })
}

/// Half of the limit, by the clock.
fn own_job(testbed: &Testbed, case: &Case, region_bytes: u64) -> Job {
    let mut job = job(testbed, case, region_bytes, 0);
    job.name = "own".to_owned();
    job.run = Some(TURN);
    job.more.push(format!("--ramp_time={}ms", RAMP.as_millis()));
    job.more.push(format!("--rate_iops={}", OWN_IOPS / 2));
    job
}

/// As much as there is.
fn neighbour_job(testbed: &Testbed, case: &Case, region_bytes: u64) -> Job {
    let mut job = job(testbed, case, region_bytes, 1);
    job.name = "neighbour".to_owned();
    job.depth = NEIGHBOUR_DEPTH;
    job.run = Some(NEIGHBOUR_TURN);
    job.more.push(format!("--ramp_time={}ms", NEIGHBOUR_RAMP.as_millis()));
    job
}

fn job(testbed: &Testbed, case: &Case, region_bytes: u64, volume: usize) -> Job {
    let target = fio::nbd(&testbed.cluster.uri(0, &testbed.volumes[volume]));
    let cpus = client::client_cpus(testbed.cpus(), case.placement);
    client::fio_job(case, &[target], region_bytes, TURN, &cpus)
}

fn judge(mix: Mix, turns: &[Turn], figures: &mut Figures) {
    let name = format!("neighbours.{mix}.4k");
    let half = format!("4K random {mix}, nbd, at half of the volume's limit");
    for (of, neighbour) in NEIGHBOURS.into_iter().enumerate() {
        let label = match neighbour {
            Neighbour::Nobody => format!("{half}, alone"),
            Neighbour::Limited => format!("{half}, beside a limited neighbour at full load"),
            Neighbour::Unlimited => format!("{half}, beside a neighbour without limits at full load"),
        };
        let middle = |value: &dyn Fn(&Turn) -> f64| median(turns.iter().map(value));
        let (p99, iops) = (middle(&|turn| turn[of].p99_us), middle(&|turn| turn[of].iops));
        figures.note(
            &format!("{name}.{neighbour}.p99_us"),
            &format!("{label}: p99"),
            p99,
            "us",
        );
        figures.note(
            &format!("{name}.{neighbour}.iops"),
            &format!("{label}: rate"),
            iops,
            "IOPS",
        );
        let times = middle(&|turn| turn[of].p99_us / turn[0].p99_us.max(1e-9));
        let (times_name, times_label) = (
            format!("{name}.{neighbour}.p99_times"),
            format!("{label}: p99, of that alone"),
        );
        match neighbour {
            Neighbour::Nobody => continue,
            Neighbour::Limited => figures.at_most(&times_name, &times_label, times, "", P99_TIMES),
            Neighbour::Unlimited => figures.note(&times_name, &times_label, times, ""),
        }
        figures.note(
            &format!("{name}.{neighbour}.neighbour_iops"),
            &format!("{label}: the neighbour's rate"),
            middle(&|turn| turn[of].neighbour_iops),
            "IOPS",
        );
    }
    judge_limit(&name, mix, turns, figures);
}

/// The neighbour's own: does it get what it may, and no more?
fn judge_limit(name: &str, mix: Mix, turns: &[Turn], figures: &mut Figures) {
    let label = format!("4K random {mix}, nbd, depth {NEIGHBOUR_DEPTH}, at a limit of {NEIGHBOUR_IOPS} IOPS");
    let rate = f64::from(NEIGHBOUR_IOPS);
    let passed = || turns.iter().map(|turn| turn[1].neighbour_iops);
    figures.at_least(
        &format!("{name}.limit.passed"),
        &format!("{label}: what passes, of the limit"),
        median(passed()) / rate,
        "",
        PASSED,
    );
    let seconds = NEIGHBOUR_TURN.as_secs_f64();
    figures.at_most(
        &format!("{name}.limit.most"),
        &format!("{label}: what passes at most, of rate x T + burst"),
        passed().fold(0.0, f64::max) * seconds / (rate * seconds + BURST),
        "",
        1.0,
    );
}

#[cfg(test)]
mod tests;
