//! The story that the demo plays, and the table at its end.

use super::{Arguments, VOLUME, image};
use amita_harness::cluster::{Cluster, Config, Links, Metadata};
use amita_harness::fio::{self, Job};
use amita_harness::probe::{self, Pause, Probe};
use amita_harness::scratch::Scratch;
use amita_harness::tool;
use amita_harness::workload::{Cost, job, workload};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use amita_terminal::say_line;
use amita_terminal::size;
use amita_terminal::table::Table;
use std::time::{Duration, Instant};

/// Each of the two measurements.
const MEASURE: Duration = Duration::from_secs(3);
/// The verify workload is held to a rate that takes this long, so that there is a middle in which to kill.
const VERIFY_SECONDS: u64 = 6;
const PATIENCE: Duration = Duration::from_secs(90);
/// Any number: with the same one, a later pass knows what the first one wrote where.
const SEED: u64 = 20_261_120;
/// The gateway in use, the one that takes over, and the node that is killed. All three hold a copy of everything.
const GATEWAY: usize = 0;
const OTHER_GATEWAY: usize = 1;
const VICTIM: usize = 2;

/// How the volume is cut up.
struct Layout {
    image_bytes: u64,
    region: u64,
    region_bytes: u64,
    probe: u64,
}

impl Layout {
    fn of(size_bytes: u64) -> Layout {
        let image_bytes = size_bytes / 8 * 3 / 4096 * 4096;
        let probe = size_bytes - 4096;
        // A whole number of MiB: fio rounds regions as it likes otherwise.
        let region_bytes = (probe - image_bytes) >> 20 << 20;
        Layout {
            image_bytes,
            region: image_bytes,
            region_bytes,
            probe,
        }
    }
}

struct Measured {
    write: Cost,
    read: Cost,
    pause: Pause,
    verified: u64,
    handover: Duration,
    takeover: Pause,
}

pub(super) fn run(arguments: &Arguments, links: Links) -> Result<()> {
    interrupt::catch();
    for name in ["setpriv", "fio", "mke2fs", "nbdcopy", "e2fsck"] {
        tool::find(name)?;
    }
    let mut steps = Steps::new();
    let layout = Layout::of(arguments.size);
    let store_bytes = arguments.store_bytes();
    let nodes = usize::from(arguments.nodes);
    let scratch = Scratch::make(
        "demo",
        arguments.dir.as_deref(),
        arguments.store_dir.as_deref(),
        store_bytes * nodes as u64 + 2 * arguments.size,
    )?;
    let mut cluster = steps.step(
        &format!("starting {nodes} nodes, stores on {}", scratch.backing()),
        || {
            Cluster::start(Config {
                binary: crate::own_binary()?,
                folder: scratch.folder().to_owned(),
                store_folder: scratch.stores().to_owned(),
                nodes,
                store_bytes,
                metadata: Metadata::Embedded,
                bound: true,
                links,
                serve_arguments: Vec::new(),
            })
        },
    )?;
    let shown = size::show(arguments.size);
    steps.step(&format!("a pool with 3 copies, a volume of {shown}"), || {
        cluster.make_volume(VOLUME, arguments.size)
    })?;
    let measured = play(&mut steps, &mut cluster, &layout).inspect_err(|failure| {
        if failure.kind != Kind::Interrupted {
            eprintln!("What the processes said last:\n{}", cluster.last_words());
        }
    })?;
    let ended = cluster.stop();
    say_line!("\n{}", tables(&measured, scratch.kind()));
    drop(scratch);
    if !ended {
        return Err(Failure::new("a node did not end in order when it was asked to"));
    }
    say_line!(
        "Everything that was written was read back and is right. It took {:.0} s.",
        steps.seconds()
    );
    Ok(())
}

fn play(steps: &mut Steps, cluster: &mut Cluster, layout: &Layout) -> Result<Measured> {
    let folder = cluster.folder().to_owned();
    let uri = cluster.uri(GATEWAY, VOLUME);
    let image = folder.join("image.ext4");
    let source = image::source(layout.image_bytes)?;
    steps.step(&format!("making an ext4 image of {}", source.display()), || {
        image::make(&folder, &image, &source, layout.image_bytes)
    })?;
    steps.step("copying it into the volume with nbdcopy", || {
        image::copy(&folder, &image.display().to_string(), &uri)
    })?;
    let measure = |pattern| {
        let mut job = job(&uri, pattern, 32, layout.region_bytes, MEASURE);
        job.offset_bytes = layout.region;
        workload(cluster, &job, PATIENCE)
    };
    let write = steps.step("measuring: 4 KiB random writes, depth 32", || measure("randwrite"))?;
    let read = steps.step("measuring: 4 KiB random reads, depth 32", || measure("randread"))?;
    let victim = cluster.nodes()[VICTIM].name.clone();
    let (pause, verified) = steps.step(
        &format!("fio writes blocks that carry checksums; SIGKILL for node {victim} in the middle"),
        || verify_and_kill(cluster, &uri, layout),
    )?;
    let copied = folder.join("copied");
    steps.step("reading the whole volume back with nbdcopy", || {
        image::copy(&folder, &uri, &copied.display().to_string())
    })?;
    steps.step("comparing byte for byte, and e2fsck", || {
        image::check(&folder, &image, &copied)
    })?;
    let other = cluster.uri(OTHER_GATEWAY, VOLUME);
    let handover = steps.step(
        "opening the volume by another gateway, checking every block there",
        || {
            let start = Instant::now();
            let info = tool::run(&folder, "nbdinfo", ["--size", &other], PATIENCE)?.success()?;
            let handover = start.elapsed();
            info.text
                .trim()
                .parse::<u64>()
                .map_err(|_| Failure::new(format!("nbdinfo said {:?}", info.text)))?;
            let mut job = verify_job(&other, layout);
            job.name = "verify-again".to_owned();
            job.more.push("--verify_only".to_owned());
            job.run(&folder, PATIENCE)?;
            Ok(handover)
        },
    )?;
    let takeover = steps.step(
        "SIGKILL for the gateway that owns the volume; another one takes over",
        || takeover(cluster, layout),
    )?;
    Ok(Measured {
        write,
        read,
        pause,
        verified,
        handover,
        takeover,
    })
}

fn verify_job(uri: &str, layout: &Layout) -> Job {
    Job {
        name: "verify".to_owned(),
        target: fio::nbd(uri),
        pattern: "randwrite",
        block_bytes: 4096,
        depth: 32,
        offset_bytes: layout.region,
        size_bytes: layout.region_bytes,
        run: None,
        more: fio::verify_options(SEED),
        also: Vec::new(),
    }
}

/// fio writes every block of the region once and then reads and checks all of them; the node dies while it writes.
fn verify_and_kill(cluster: &mut Cluster, uri: &str, layout: &Layout) -> Result<(Pause, u64)> {
    let folder = cluster.folder().to_owned();
    let probe = Probe::start(vec![cluster.nodes()[GATEWAY].nbd], VOLUME, layout.probe)?;
    let mut job = verify_job(uri, layout);
    let blocks = layout.region_bytes / 4096;
    job.more
        .push(format!("--rate_iops={}", (blocks / VERIFY_SECONDS).max(1)));
    let mut fio = job.start(&folder)?;
    interrupt::sleep(Duration::from_secs(VERIFY_SECONDS / 2))?;
    if fio.has_ended()? {
        fio.finish(PATIENCE)?;
        return Err(Failure::new("fio ended before the node was killed"));
    }
    let killed = Instant::now();
    cluster.kill_node(VICTIM);
    let report = fio.finish(PATIENCE)?;
    if report.write.ios != blocks {
        return Err(Failure::new(format!(
            "fio wrote {} of {blocks} blocks",
            report.write.ios
        )));
    }
    Ok((probe.finish(killed)?, report.read.ios))
}

/// The owner is a gateway without a store: the pool has no copy to spare any more, and none is lost here.
fn takeover(cluster: &mut Cluster, layout: &Layout) -> Result<Pause> {
    let owner = cluster.add_gateway("g1")?;
    let gateways = vec![cluster.nodes()[owner].nbd, cluster.nodes()[OTHER_GATEWAY].nbd];
    probe::across_a_kill(cluster, gateways, VOLUME, layout.probe, owner)
}

fn tables(measured: &Measured, backing: &str) -> String {
    let mut table = Table::new(&[
        "4 KiB, 3 copies, depth 32",
        "IOPS",
        "CPU/IO us",
        "p50 us",
        "p99 us",
        "p99.9 us",
    ]);
    for (name, cost) in [("random write", &measured.write), ("random read", &measured.read)] {
        let us = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e6);
        let latency = cost.fio.latency;
        table.row([
            name.to_owned(),
            format!("{:.0}", cost.fio.iops),
            us(cost.cpu_per_io),
            us(latency.p50),
            us(latency.p99),
            us(latency.p999),
        ]);
    }
    let mut facts = Table::new(&["what else", ""]);
    let mut plain = |what: &str, value: String| facts.row([what.to_owned(), value]);
    let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    plain("pause of writes at the kill", ms(measured.pause.length));
    plain(
        "writes that the probe had acknowledged",
        measured.pause.writes.to_string(),
    );
    plain("blocks checked by fio", measured.verified.to_string());
    plain("opening by another gateway", ms(measured.handover));
    plain("pause when the owner is killed", ms(measured.takeover.length));
    plain("the stores are in", backing.to_owned());
    format!("{}\n{}", table.text(), facts.text())
}

#[cfg(test)]
mod tests;
