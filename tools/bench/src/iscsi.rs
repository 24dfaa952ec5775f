//! What iSCSI adds to an I/O, beside NVMe/TCP in the same run, and what a target does in a host's place.
//!
//! The hosts are of user space, one thread each whose CPU is not counted; what is on their core else, and who is measured in turns, is as in
//! [`crate::nvme`].

mod bulk;
mod load;
mod session;

use crate::case::Mix;
use crate::nvme::added::{Sample, Turn};
use crate::nvme::gateways::{FIRST, Gateways, REGION_BYTES};
use crate::nvme::{DEEP, DEEP_TIME, SHALLOW_TIME, TURNS, trip};
use crate::report::Figures;
use crate::testbed::Product;
use crate::units::pin;
use crate::usage::Window;
use crate::{median, nvme};
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use load::{BLOCK_BYTES, Load};
use session::{Command, Session};
use std::net::SocketAddr;
use std::time::Duration;

/// What iSCSI may add, in terms of what NVMe/TCP does.
const RATIO: f64 = 1.25;
const INITIATOR: &str = "iqn.2026-11.io.amita:bench";
const LUN: u16 = 0;
const SEED: u64 = 0xA117A;
const PATIENCE: Duration = Duration::from_secs(20);
/// A header, which a command and a response are (RFC 7143, 11.2).
const HEADER_BYTES: usize = 48;
/// Of a ratio, so that nothing is divided by what is none.
const LEAST_US: f64 = 0.1;

/// Measures and judges all of it, on clusters of its own.
///
/// # Errors
/// When something does not start, or an I/O fails. Never for a figure.
pub fn measure(steps: &mut Steps, product: &Product, figures: &mut Figures) -> Result<()> {
    let mut gateways = steps.step("starting three nodes and two gateways with portals", || {
        Gateways::with_portals(product)
    })?;
    for mix in [Mix::Write, Mix::Read] {
        for (depth, time) in [(DEEP, DEEP_TIME), (1, SHALLOW_TIME)] {
            let turns = steps.step(&format!("iscsi, nvme and libamita, 4k {mix} at depth {depth}"), || {
                take_turns(&mut gateways, mix, depth, time)
            })?;
            judge(mix, depth, &turns, figures);
        }
    }
    drop(gateways);
    bulk::measure(steps, product, figures)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

/// The two, each beside the client library.
struct Both {
    nvme: Turn,
    iscsi: Turn,
}

fn take_turns(gateways: &mut Gateways, mix: Mix, depth: u16, time: Duration) -> Result<Vec<Both>> {
    gateways.own(FIRST)?;
    let core = gateways.core();
    (0..TURNS)
        .map(|_| {
            interrupt::check()?;
            let local = gateways.by_library(mix, depth, time)?;
            let by_nvme = gateways.by_nvme(FIRST, mix, depth, time)?;
            let by_iscsi = by_iscsi(gateways, mix, depth, time)?;
            let turn = |remote: Sample, (request, answer): (usize, usize)| -> Result<Turn> {
                let trip = trip::latency(request, answer, core)?;
                Ok(Turn { local, remote, trip })
            };
            gateways.expect_owner(FIRST)?;
            Ok(Both {
                nvme: turn(by_nvme, trip::sizes(mix))?,
                iscsi: turn(by_iscsi, sizes(mix))?,
            })
        })
        .collect()
}

/// Bytes to the target and bytes back, of 4 KiB: a write's data come with it, the status with what is read.
fn sizes(mix: Mix) -> (usize, usize) {
    match mix {
        Mix::Read => (HEADER_BYTES, HEADER_BYTES + BLOCK_BYTES),
        _ => (HEADER_BYTES + BLOCK_BYTES, HEADER_BYTES),
    }
}

/// The host's I/O. Its login is within the window: that counts against iSCSI, as connecting does against NVMe.
fn by_iscsi(gateways: &Gateways, mix: Mix, depth: u16, time: Duration) -> Result<Sample> {
    let (portal, iqn) = gateways.portal(FIRST)?;
    let job = Load {
        lun: LUN,
        mix,
        depth: usize::from(depth),
        blocks: REGION_BYTES / BLOCK_BYTES as u64,
        duration: time,
        seed: SEED,
    };
    let core = gateways.core();
    let window = Window::open(&gateways.watched())?;
    let loading = std::thread::spawn(move || {
        pin(core)?;
        load::run(&mut Session::login(portal, &iqn, INITIATOR)?, &job)
    });
    let loaded = loading
        .join()
        .map_err(|_| Failure::new("the loading thread panicked"))?;
    let usage = window.close()?;
    let loaded = loaded?;
    if loaded.errors > 0 || loaded.operations == 0 {
        let (good, bad) = (loaded.operations, loaded.errors);
        return Err(Failure::new(format!("by iSCSI {good} I/Os succeeded and {bad} failed")));
    }
    let latency = loaded.latency.mean().as_secs_f64() * 1e6;
    let operations = loaded.operations as f64;
    Ok(nvme::sample(
        operations,
        usage.cpu(),
        loaded.elapsed,
        latency,
        usage.foreign,
    ))
}

/// Logs in as soon as a target is served that was just made, and waits until the unit is ready.
fn await_login(portal: SocketAddr, iqn: &str, lun: u16, patience: Duration) -> Result<Session> {
    let mut last = String::new();
    let ready = Command {
        lun,
        cdb: [0; 16],
        out: &[],
        takes: 0,
    };
    let session = interrupt::poll(patience, Duration::from_millis(20), || {
        let session = Session::login(portal, iqn, INITIATOR).and_then(|mut session| {
            session.run(&[ready])?;
            Ok(session)
        });
        Ok(session.map_err(|failure| last = failure.to_string()).ok())
    })?;
    session.ok_or_else(|| Failure::new(format!("{portal} does not serve {iqn}: {last}")))
}

/// Waits until a gateway serves its target.
///
/// # Errors
/// When it does not.
pub fn await_portal(portal: SocketAddr, iqn: &str) -> Result<()> {
    await_login(portal, iqn, LUN, PATIENCE).map(drop)
}

fn judge(mix: Mix, depth: u16, turns: &[Both], figures: &mut Figures) {
    if depth == 1 {
        judge_latency(mix, turns, figures);
    } else {
        judge_cpu(mix, turns, figures);
    }
}

/// In whole, not of what is added: the library's own work may be more than what a protocol adds, and then a ratio says nothing.
fn judge_cpu(mix: Mix, turns: &[Both], figures: &mut Figures) {
    let of = |value: fn(&Both) -> f64| median(turns.iter().map(value));
    let name = |rest: &str| format!("iscsi.{mix}.4k.qd{DEEP}.{rest}");
    let label = |rest: &str| format!("{mix} 4k qd{DEEP} by iscsi, one core: {rest}");
    let (iscsi, nvme) = (of(|both| both.iscsi.remote.cpu_us), of(|both| both.nvme.remote.cpu_us));
    figures.at_most(
        &name("cpu_times"),
        &label("CPU of all but the host, in terms of that by nvme in the same turns"),
        iscsi / nvme.max(LEAST_US),
        "times",
        RATIO,
    );
    figures.note(&name("cpu_us"), &label("CPU of all but the host"), iscsi, "us");
    figures.note(&name("nvme_cpu_us"), &label("the same I/O by nvme"), nvme, "us");
    let added = "CPU of all but the host, less CPU of all by libamita";
    let value = of(|both| both.iscsi.added_cpu_us());
    figures.note(&name("added_cpu_us"), &label(added), value, "us");
    let value = of(|both| both.nvme.added_cpu_us());
    figures.note(&name("nvme_added_cpu_us"), &label("the same by nvme"), value, "us");
    let rate = label("rate, the host on the same core");
    figures.note(&name("iops"), &rate, of(|both| both.iscsi.remote.iops), "IOPS");
}

fn judge_latency(mix: Mix, turns: &[Both], figures: &mut Figures) {
    let of = |value: fn(&Both) -> f64| median(turns.iter().map(value));
    let name = |rest: &str| format!("iscsi.{mix}.4k.qd1.{rest}");
    let label = |rest: &str| format!("{mix} 4k qd1 by iscsi, one core: {rest}");
    let (iscsi, nvme) = (
        of(|both| both.iscsi.added_latency_us()),
        of(|both| both.nvme.added_latency_us()),
    );
    figures.at_most(
        &name("added_latency_times"),
        &label("latency added, in terms of what nvme adds in the same turns"),
        iscsi.max(0.0) / nvme.max(LEAST_US),
        "times",
        RATIO,
    );
    let added = "latency, less that by libamita, less a loopback round trip of the same sizes";
    figures.note(&name("added_latency_us"), &label(added), iscsi, "us");
    figures.note(&name("nvme_added_latency_us"), &label("the same by nvme"), nvme, "us");
    let latency = of(|both| both.iscsi.remote.latency_us);
    figures.note(&name("latency_us"), &label("latency"), latency, "us");
}

#[cfg(test)]
mod tests {
    use super::sizes;
    use crate::case::Mix;

    #[test]
    fn sizes_are_those_of_the_pdus() {
        assert_eq!(sizes(Mix::Write), (4144, 48));
        assert_eq!(sizes(Mix::Read), (48, 4144));
    }
}
