//! What is left to a host while its volume moves to another pool, or is copied into one: blocks of 4 KiB at random, by NBD and by NVMe/TCP.
//!
//! A turn is one session of a host. At first nothing else goes on; then the volume is moved (as `amita volume migrate` asks for it), and the
//! host goes on until that is done. So the two rates that are compared are of the same seconds of the machine. The middle turn counts; from one
//! to the next the stores get back what the move has left behind.
//!
//! A host works on an eighth of its volume: what it writes during one pass is what the next one brings, and a volume of which all is written
//! all the time is no usual one. Nodes, host and mover share all processors as the scheduler likes: who of them gets less is what is measured. The
//! host is a thread of this process, whose CPU is in no figure.
//!
//! The rows of a host:
//!
//! * `iops_left`: of its rate just before, while the volume was on its way;
//! * `pause_ms`: the longest time meanwhile in which none of its I/Os was answered, the switch of a move among it; `usual_gap_ms`: the same just before;
//! * `mb_s`, `took_s`: of the volume's size, from the wish until nothing is left to do, for whoever waits for it. What hosts have written is brought by further passes,
//!   which take their time and count as no bytes;
//! * `cpu_ms_per_mb`: CPU of nodes and metadata beyond what the host's I/Os took just before, for each MB of the volume.
//!
//! And `moving.migrate.idle.*`, with no host at all.

mod host;

use crate::case::{Case, Front, Mix, Placement};
use crate::client::Clients;
use crate::measure::SystemUnderTest;
use crate::median;
use crate::nvme::gateways::await_namespace;
use crate::report::Figures;
use crate::site::Site;
use crate::testbed::{self, POOL, Stores, Testbed};
use amita_control::admin::{self, AtRest, CopyWish, MigrateWish};
use amita_harness::cpu::Meter;
use amita_metadata::Client;
use amita_nvme_host::Settings;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use amita_types::VolumeId;
use host::{BLOCK_BYTES, Connection, Host, Seen, Way};
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a host must keep of its rate.
const IOPS_LEFT: f64 = 0.7;
/// How long it may wait when its volume has moved.
const PAUSE_MS: f64 = 50.0;
const DEPTHS: [u16; 2] = [32, 1];
/// How often each is done. The middle one counts.
const TURNS: usize = 3;
/// What a host does before it counts, and how long it is measured with nothing else going on.
const WARM_UP: Duration = Duration::from_millis(500);
const BEFORE: Duration = Duration::from_millis(1500);
/// For so long a host goes on beside one move at most.
const BESIDE: Duration = Duration::from_secs(60);
/// How long one may take when nobody works any more.
const LIMIT: Duration = Duration::from_secs(300);
/// Between two looks whether it is done.
const LOOK: Duration = Duration::from_millis(10);
/// For so long it is waited that stores get back what was left behind: the node that leads looks for that each five seconds.
const BACK: Duration = Duration::from_secs(10);
/// The pool that volumes are moved to from the one of this benchmark, and back from.
const OTHER: &str = "other";
const COPY: &str = "bench-copy";
/// The part of the volume that a host works on.
const PART: u64 = 8;

/// Of each store: what the volume takes in both pools, and what is written meanwhile.
#[must_use]
pub fn store_bytes(size_bytes: u64) -> u64 {
    testbed::store_bytes(3 * size_bytes)
}

/// What is done with the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Migrate,
    Copy,
}

impl Work {
    /// By which protocols hosts work meanwhile: what is copied is no other disk for them, so that one says enough.
    fn ways(self) -> &'static [Way] {
        match self {
            Work::Migrate => &[Way::Nbd, Way::Nvme],
            Work::Copy => &[Way::Nbd],
        }
    }

    fn label(self) -> &'static str {
        match self {
            Work::Migrate => "a volume moves to another pool",
            Work::Copy => "a volume is copied into another pool",
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Migrate => "migrate",
            Work::Copy => "copy",
        })
    }
}

/// What was seen within a part of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stretch {
    length: Duration,
    /// I/Os that were answered.
    ios: usize,
    /// The longest time without an answer.
    gap: Duration,
    /// CPU of nodes and metadata.
    cpu: Duration,
}

impl Stretch {
    fn iops(&self) -> f64 {
        self.ios as f64 / self.length.as_secs_f64().max(1e-9)
    }
}

/// One session of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    before: Stretch,
    beside: Stretch,
    /// Until it was done: longer than the host was beside it, where that had to end.
    took: Duration,
    /// I/Os that the host had to repeat.
    retries: u32,
}

impl Turn {
    fn iops_left(&self) -> f64 {
        self.beside.iops() / self.before.iops().max(1e-9)
    }

    /// CPU that is not explained by the host's I/Os, as they were before, in milliseconds.
    fn added_cpu_ms(&self) -> f64 {
        let each = self.before.cpu.as_secs_f64() / self.before.ios.max(1) as f64;
        (self.beside.cpu.as_secs_f64() - each * self.beside.ios as f64) * 1e3
    }
}

/// Measures and judges all of it, on a cluster that `start` makes: with a volume of so many bytes, and [`store_bytes`] in each store.
///
/// # Errors
/// When something does not start, an I/O fails, or what was asked for does not come to its end. Never for a figure.
pub fn measure(
    steps: &mut Steps,
    size_bytes: u64,
    start: impl FnOnce() -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    let bed = steps.step("three nodes with two pools", || Bed::start(start()?, size_bytes))?;
    for work in [Work::Migrate, Work::Copy] {
        let turns = steps.step(&format!("{}, nobody works", work.label()), || {
            (0..TURNS).map(|_| bed.idle(work)).collect::<Result<Vec<_>>>()
        })?;
        note_idle(work, size_bytes, &turns, figures);
        for &way in work.ways() {
            for mix in [Mix::Write, Mix::Read] {
                for depth in DEPTHS {
                    let label = format!("{} beside 4K random {mix}, {way}, depth {depth}", work.label());
                    let turns = steps.step(&label, || {
                        (0..TURNS)
                            .map(|_| bed.turn(work, way, mix, depth))
                            .collect::<Result<Vec<_>>>()
                    })?;
                    let name = format!("moving.{work}.{way}.{mix}.4k.qd{depth}");
                    judge(work, (&name, &label), size_bytes, &turns, figures);
                }
            }
        }
    }
    Ok(())
}

fn note_idle(work: Work, size_bytes: u64, turns: &[(Duration, Duration)], figures: &mut Figures) {
    let (name, label) = (format!("moving.{work}.idle"), format!("{}, nobody works", work.label()));
    let megabytes = size_bytes as f64 / 1e6;
    let took = median(turns.iter().map(|(took, _)| took.as_secs_f64()));
    let cpu_ms = median(turns.iter().map(|(_, cpu)| cpu.as_secs_f64() * 1e3));
    note_rate((&name, &label), megabytes, took, figures);
    figures.note(
        &format!("{name}.cpu_ms_per_mb"),
        &format!("{label}: CPU of all"),
        cpu_ms / megabytes,
        "ms/MB",
    );
}

fn note_rate((name, label): (&str, &str), megabytes: f64, took_s: f64, figures: &mut Figures) {
    figures.note(
        &format!("{name}.mb_s"),
        &format!("{label}: of the volume's size"),
        megabytes / took_s.max(1e-9),
        "MB/s",
    );
    figures.note(&format!("{name}.took_s"), &format!("{label}: how long"), took_s, "s");
}

fn judge(work: Work, (name, label): (&str, &str), size_bytes: u64, turns: &[Turn], figures: &mut Figures) {
    let megabytes = size_bytes as f64 / 1e6;
    let middle = |of: &dyn Fn(&Turn) -> f64| median(turns.iter().map(of));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    figures.at_least(
        &format!("{name}.iops_left"),
        &format!("{label}: of the host's rate just before"),
        middle(&Turn::iops_left),
        "",
        IOPS_LEFT,
    );
    let (pause_name, pause_label) = (
        format!("{name}.pause_ms"),
        format!("{label}: longest time without an answer"),
    );
    let pause = middle(&|turn| ms(turn.beside.gap));
    match work {
        Work::Migrate => figures.at_most(&pause_name, &pause_label, pause, "ms", PAUSE_MS),
        Work::Copy => figures.note(&pause_name, &pause_label, pause, "ms"),
    }
    figures.note(
        &format!("{name}.usual_gap_ms"),
        &format!("{label}: longest time without an answer just before"),
        middle(&|turn| ms(turn.before.gap)),
        "ms",
    );
    figures.note(
        &format!("{name}.iops_before"),
        &format!("{label}: the host's rate just before"),
        middle(&|turn| turn.before.iops()),
        "IOPS",
    );
    note_rate(
        (name, label),
        megabytes,
        middle(&|turn| turn.took.as_secs_f64()),
        figures,
    );
    figures.note(
        &format!("{name}.cpu_ms_per_mb"),
        &format!("{label}: CPU of nodes and metadata beyond the host's I/Os"),
        middle(&|turn| turn.added_cpu_ms() / megabytes),
        "ms/MB",
    );
    let retries = turns.iter().map(|turn| turn.retries).sum::<u32>();
    if retries > 0 {
        figures.note(
            &format!("{name}.retries"),
            &format!("{label}: I/Os that the host had to repeat, in all turns"),
            f64::from(retries),
            "",
        );
    }
}

/// What was asked for.
struct Begun {
    work: Work,
    target: VolumeId,
    /// The pool that it is to be in.
    pool: &'static str,
}

/// The cluster, and who works on it.
struct Bed {
    meta: Client,
    stores: Stores,
    site: Site,
    /// Where a host finds the volume by NVMe/TCP.
    nvme: Settings,
    size_bytes: u64,
    /// What is free in the stores when nothing is left of a move.
    free_bytes: Option<u64>,
}

impl Bed {
    /// With a volume that is full.
    fn start(testbed: Testbed, size_bytes: u64) -> Result<Bed> {
        testbed.make_pool(OTHER)?;
        let nqn = testbed.cluster.offer_by_nvme(&testbed.volumes[0])?;
        let nvme = Settings::new(testbed.cluster.nodes()[0].nvme, &nqn);
        await_namespace(&nvme)?;
        let (meta, stores) = (testbed.cluster.metadata_client()?, testbed.stores()?);
        let mut site = Site::new(testbed, Clients::default(), size_bytes);
        site.ready(&Case {
            placement: Placement::Free,
            ..Case::new(Front::Nbd, Mix::Write, 1)
        })?;
        Ok(Bed {
            free_bytes: stores.free(),
            meta,
            stores,
            site,
            nvme,
            size_bytes,
        })
    }

    fn volume(&self) -> &str {
        &self.site.testbed.volumes[0]
    }

    fn connect(&self, way: Way, depth: u16) -> Result<Connection> {
        match way {
            Way::Nbd => Connection::nbd(self.site.testbed.cluster.nodes()[0].nbd, self.volume()),
            Way::Nvme => Connection::nvme(&self.nvme, depth),
        }
    }

    fn meter(&self) -> Meter {
        Meter::start(self.site.testbed.cluster.pids())
    }

    /// How long it took, and the CPU of all processes meanwhile.
    fn idle(&self, work: Work) -> Result<(Duration, Duration)> {
        let (began, cpu) = (Instant::now(), self.meter());
        let begun = self.begin(work)?;
        self.await_end(&begun)?;
        let came = (began.elapsed(), cpu.used());
        self.tidy(&begun)?;
        Ok(came)
    }

    fn turn(&self, work: Work, way: Way, mix: Mix, depth: u16) -> Result<Turn> {
        let blocks = (self.size_bytes / PART / BLOCK_BYTES as u64).max(1);
        let host = Host::start(self.connect(way, depth)?, mix, depth, blocks)?;
        interrupt::sleep(WARM_UP)?;
        let (began, cpu) = (Instant::now(), self.meter());
        interrupt::sleep(BEFORE)?;
        let (asked, cpu_before, cpu) = (Instant::now(), cpu.used(), self.meter());
        let begun = self.begin(work)?;
        let done = interrupt::poll(BESIDE, LOOK, || self.is_done(&begun))?;
        let (ended, cpu_beside) = (Instant::now(), cpu.used());
        let seen = host.finish()?;
        if done.is_none() {
            eprintln!(
                "  {work} was not done after {} s: the host ends, and it goes on",
                BESIDE.as_secs()
            );
            self.await_end(&begun)?;
        }
        let took = if done.is_some() { ended - asked } else { asked.elapsed() };
        self.tidy(&begun)?;
        Ok(Turn {
            before: seen.within(began, asked, cpu_before),
            beside: seen.within(asked, ended, cpu_beside),
            took,
            retries: seen.retries,
        })
    }

    /// What the command does, without a process of its own.
    fn begin(&self, work: Work) -> Result<Begun> {
        let (meta, volume) = (&self.meta, self.volume());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let is_away = admin::volume(meta, volume).map_err(failed)?.pool == OTHER;
        let pool = if is_away { POOL } else { OTHER };
        let asked = match work {
            Work::Migrate => admin::migrate_volume(
                meta,
                &MigrateWish {
                    volume,
                    pool: Some(pool),
                    at_rest: AtRest::AsItIs,
                    limit_bytes_per_s: None,
                    keys: None,
                    now,
                },
            ),
            Work::Copy => admin::copy_volume(
                meta,
                &CopyWish {
                    of: volume,
                    name: COPY,
                    pool,
                    snapshots: false,
                    limit_bytes_per_s: None,
                    encrypted: false,
                    keys: None,
                    now,
                },
            ),
        };
        Ok(Begun {
            work,
            target: asked.map_err(failed)?.volume,
            pool,
        })
    }

    fn is_done(&self, begun: &Begun) -> Result<Option<()>> {
        let left = admin::copy_of(&self.meta, begun.target).map_err(failed)?;
        Ok(left.is_none().then_some(()))
    }

    fn await_end(&self, begun: &Begun) -> Result<()> {
        let done = interrupt::poll(LIMIT, LOOK, || self.is_done(begun))?;
        done.ok_or_else(|| Failure::new(format!("{} is not done after {} s", begun.work, LIMIT.as_secs())))
    }

    /// Was it done, and not taken back? Nothing is left of it then.
    fn tidy(&self, begun: &Begun) -> Result<()> {
        let name = match begun.work {
            Work::Migrate => self.volume(),
            Work::Copy => COPY,
        };
        let pool = admin::volume(&self.meta, name).map_err(failed)?.pool;
        if pool != begun.pool {
            return Err(Failure::new(format!(
                "{name} is in pool {pool} and not in {}",
                begun.pool
            )));
        }
        if begun.work == Work::Copy {
            let cluster = &self.site.testbed.cluster;
            cluster
                .amita(["volume", "delete", COPY, "--now", "--snapshots", "--yes"])?
                .success()?;
        }
        let Some(free_bytes) = self.free_bytes else {
            return Ok(());
        };
        // Of three copies half of one may be missing: what hosts have written has places that are free a little later.
        let enough = free_bytes.saturating_sub(self.size_bytes / 2);
        let back = interrupt::poll(BACK, Duration::from_millis(200), || {
            Ok(self.stores.free().filter(|&free| free >= enough))
        });
        back.map(drop)
    }
}

impl Seen {
    /// What was answered from the one moment to the other, with the CPU that nodes and metadata took.
    fn within(&self, from: Instant, to: Instant, cpu: Duration) -> Stretch {
        let at = |moment: Instant| self.answers.partition_point(|&answer| answer < moment);
        // The answer that ends the last gap comes behind.
        let until = self.answers.len().min(at(to) + 1);
        let (gap, _) = crate::nvme::paths::gaps(&self.answers[..until], from);
        Stretch {
            length: to - from,
            ios: at(to) - at(from),
            gap: gap.unwrap_or(to - from),
            cpu,
        }
    }
}

fn failed(why: impl fmt::Display) -> Failure {
    Failure::new(why.to_string())
}

#[cfg(test)]
mod tests;
