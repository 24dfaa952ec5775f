//! The disks beneath stores.

use super::Root;
use crate::inventory::{Device, Disk, Health, Known, Latency, MAX_SAMPLES, Sample, Smart, short};
use rustix::fs::FileType;
use std::path::{Path, PathBuf};

/// Samples of a disk's past are so far apart, in seconds: a day, less what a round may be early.
const SAMPLE_EVERY_S: u64 = 24 * 3600 - 600;
/// Fewer requests say nothing of how long they take.
pub const ENOUGH_REQUESTS: u64 = 1000;

/// What a node has counted of a store since the time before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The store's path.
    pub path: String,
    /// Bytes that hold something.
    pub used_bytes: u64,
    /// How long requests took; none: it was not counted yet.
    pub latency: Option<Latency>,
}

/// Major and minor number of the device that a path is, or that its file lies on; an error says why they are not known.
type Number = dyn Fn(&Path) -> Result<(u32, u32), String>;

/// How a machine says what is beneath a path.
pub struct Below<'a> {
    /// Major and minor number of the device that a path is, or that its file lies on.
    pub number: &'a Number,
    /// What a device says of its health, if it is an NVMe disk.
    pub health: &'a dyn Fn(&str) -> Result<Health, String>,
    /// What a device says of its health, if the kernel takes it for a SCSI disk, as which it shows SATA disks as well.
    pub smart: &'a dyn Fn(&str) -> Result<Smart, String>,
}

impl Below<'_> {
    /// That of this machine.
    pub const HERE: Below<'static> = Below {
        number: &number,
        health: &super::health_of,
        smart: &super::smart_of,
    };
}

fn number(path: &Path) -> Result<(u32, u32), String> {
    let found = rustix::fs::stat(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let device = match FileType::from_raw_mode(found.st_mode) {
        FileType::BlockDevice => found.st_rdev,
        _ => found.st_dev,
    };
    Ok((rustix::fs::major(device), rustix::fs::minor(device)))
}

/// The disks of a node. `devices`: the paths of its stores, and what a look beneath each has found; `figures`: what the node has counted of
/// them; `before`: the disks of its last record, for their past.
#[must_use]
pub fn disks(
    devices: Vec<(PathBuf, Result<Device, String>)>,
    figures: &Result<Vec<Figures>, String>,
    before: &[Disk],
    now: u64,
) -> Vec<Disk> {
    let read = |(path, device): (PathBuf, Result<Device, String>)| {
        let shown = path.display().to_string();
        let own = figures.as_ref().map(|all| all.iter().find(|found| found.path == shown));
        let latency = match own {
            Err(why) => Err(why.clone()),
            Ok(None) => Err("the store does not serve".to_owned()),
            Ok(Some(found)) => found
                .latency
                .ok_or_else(|| "the node has just begun to count".to_owned()),
        };
        let used_bytes = own.ok().flatten().map(|found| found.used_bytes);
        let past = before.iter().find(|known| is_same(known, &shown, &device));
        let samples = past.map_or(&[][..], |known| &known.samples);
        let sample = Sample::of(now, used_bytes, &device, &latency);
        Disk {
            path: shown,
            samples: with_sample(samples, sample),
            device: device.into(),
            latency: latency.into(),
        }
    };
    devices.into_iter().map(read).collect()
}

/// Another disk at the same path has another past.
fn is_same(known: &Disk, path: &str, device: &Result<Device, String>) -> bool {
    known.path == path
        && match (&known.device, device) {
            (Known::Is(known), Ok(device)) => known.serial == device.serial && known.model == device.model,
            _ => true,
        }
}

impl Sample {
    fn of(
        at: u64,
        used_bytes: Option<u64>,
        device: &Result<Device, String>,
        latency: &Result<Latency, String>,
    ) -> Sample {
        let device = device.as_ref().ok();
        let health = device.and_then(|device| device.health.get().ok());
        let smart = device.and_then(|device| device.smart.as_ref());
        let enough = |count: u64, value: u64| (count >= ENOUGH_REQUESTS).then_some(value);
        let latency = latency.as_ref().ok();
        Sample {
            at,
            used_bytes,
            worn_percent: match health {
                Some(health) => Some(health.used_percent),
                None => smart.and_then(|smart| smart.used_percent),
            },
            read_p99_us: latency.and_then(|took| enough(took.reads, took.read_p99_us)),
            write_p99_us: latency.and_then(|took| enough(took.writes, took.write_p99_us)),
            reallocated: smart.and_then(|smart| smart.reallocated),
            pending: smart.and_then(|smart| smart.pending),
            uncorrectable: match health {
                Some(health) => Some(health.media_errors),
                None => smart.and_then(|smart| smart.uncorrectable),
            },
        }
    }
}

/// A day apart. One that lies in the future is of a clock that was wrong.
fn with_sample(past: &[Sample], sample: Sample) -> Vec<Sample> {
    let mut all: Vec<Sample> = past.iter().copied().filter(|known| known.at <= sample.at).collect();
    if all.last().is_none_or(|last| sample.at - last.at >= SAMPLE_EVERY_S) {
        all.push(sample);
    }
    let more = all.len().saturating_sub(MAX_SAMPLES);
    all.drain(..more);
    all
}

/// The device that a path is, or that its file lies on. A disk that hangs lets this wait.
///
/// # Errors
/// There is none, or nobody can tell.
pub fn device(root: &Root, path: &Path, below: &Below<'_>) -> Result<Device, String> {
    let (major, minor) = (below.number)(path)?;
    let link = format!("sys/dev/block/{major}:{minor}");
    let found = std::fs::canonicalize(root.path(&link)).map_err(|_| {
        format!("it lies on no block device ({major}:{minor}): a file system in memory, over others or of a network")
    })?;
    let disk = whole(&found)?;
    let name = disk
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or("its device has no name")?;
    let name = short(name);
    let own = |what: &str| format!("sys/block/{name}/{what}");
    let text = |what: &str| root.read(&own(what)).map(|text| short(&text)).unwrap_or_default();
    let flag = |what: &str| root.number::<u8>(&own(what)).map(|value| value != 0);
    let (health, smart) = match name.starts_with("sd") {
        true => match (below.smart)(&name) {
            Ok(smart) => (
                Err("it is no NVMe disk, and is asked for its SMART data".to_owned()),
                Some(smart),
            ),
            Err(why) => (Err(why), None),
        },
        false => ((below.health)(&name), None),
    };
    Ok(Device {
        model: text("device/model"),
        serial: match text("device/serial") {
            // SCSI disks have none there, and a name of their own that no other has.
            serial if serial.is_empty() => text("device/wwid"),
            serial => serial,
        },
        rotational: flag("queue/rotational").into(),
        flushed: root
            .read(&own("queue/write_cache"))
            .map(|text| text == "write back")
            .into(),
        read_only: flag("ro").into(),
        health: health.into(),
        smart,
        name,
    })
}

/// The disk of a partition, or beneath a mapped device: where there are several, the first one.
fn whole(found: &Path) -> Result<PathBuf, String> {
    // Devices are mapped on others a few times at most.
    const MAX_DEPTH: usize = 8;
    let mut disk = found.to_owned();
    for _ in 0..MAX_DEPTH {
        if disk.join("partition").exists() {
            disk.pop();
            continue;
        }
        let beneath = std::fs::read_dir(disk.join("slaves")).ok();
        let mut names: Vec<PathBuf> = beneath
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        names.sort();
        match names.first() {
            Some(first) => disk = std::fs::canonicalize(first).map_err(|why| format!("{}: {why}", first.display()))?,
            None => return Ok(disk),
        }
    }
    Err("devices are mapped on one another without an end".to_owned())
}
