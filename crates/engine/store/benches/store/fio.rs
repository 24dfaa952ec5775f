//! fio beside the store: the same shape, on the same file, from the same processor.

use crate::measure::{Window, cpu_of_children, median};
use crate::shape::Shape;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How fio asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// `--ioengine=io_uring --direct=1`, with registered buffers, as the driver has them.
    Ring,
    /// The same, and each write durable when it ends (`--sync=dsync`), as a store's is.
    RingDurable,
    /// `--ioengine=psync`: plain calls, the cheapest way to files in memory; always one at a time.
    Calls,
}

impl Way {
    fn options(self) -> &'static [&'static str] {
        match self {
            Way::Ring => &["--ioengine=io_uring", "--direct=1", "--fixedbufs=1"],
            Way::RingDurable => &["--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--sync=dsync"],
            Way::Calls => &["--ioengine=psync"],
        }
    }
}

/// fio on a region of a file.
pub struct Fio {
    file: PathBuf,
    start: u64,
    bytes: u64,
    /// The CPU that starting and ending takes, by way and depth.
    own: BTreeMap<(Way, usize), Duration>,
    runs: u64,
}

impl Fio {
    pub fn new(file: &Path, (start, bytes): (u64, u64)) -> Fio {
        Fio {
            file: file.to_owned(),
            start,
            bytes,
            own: BTreeMap::new(),
            runs: 0,
        }
    }

    /// Writes the region full, so that it has no holes.
    pub fn fill(&mut self) -> Result<(), String> {
        self.run(
            Way::Calls,
            Shape::write(1 << 20, 1).in_order(),
            &["--end_fsync=1".to_owned()],
        )
        .map(drop)
    }

    /// What fio does in `time`. The CPU of its start and end is taken off.
    pub fn window(&mut self, way: Way, shape: Shape, time: Duration) -> Result<Window, String> {
        let own = match self.own.get(&(way, shape.depth)) {
            Some(&own) => own,
            None => {
                let mut starts = Vec::new();
                for _ in 0..3 {
                    let (_, cpu) = self.run(way, shape, &["--number_ios=1".to_owned()])?;
                    starts.push(cpu.as_secs_f64());
                }
                let own = Duration::from_secs_f64(median(starts));
                self.own.insert((way, shape.depth), own);
                own
            }
        };
        let timed = ["--time_based=1".to_owned(), format!("--runtime={}ms", time.as_millis())];
        let (report, cpu) = self.run(way, shape, &timed)?;
        let direction = &report["jobs"][0][shape.verb()];
        let (ios, iops) = (direction["total_ios"].as_u64(), direction["iops"].as_f64());
        match (ios, iops) {
            (Some(ios), Some(iops)) if ios > 0 && iops > 0.0 => Ok(Window {
                ios,
                elapsed: Duration::from_secs_f64(ios as f64 / iops),
                cpu: cpu.saturating_sub(own),
                block_bytes: shape.block_bytes,
            }),
            _ => Err(format!("fio did nothing: {direction}")),
        }
    }

    fn run(&mut self, way: Way, shape: Shape, more: &[String]) -> Result<(Value, Duration), String> {
        self.runs += 1;
        let pattern = match (shape.sequential, shape.write) {
            (true, true) => "write",
            (true, false) => "read",
            (false, true) => "randwrite",
            (false, false) => "randread",
        };
        let mut command = Command::new("fio");
        command
            .args(["--name=beside", "--thread=1", "--output-format=json"])
            // No clocks and no map of places: the store's side keeps none either.
            .args(["--gtod_reduce=1", "--norandommap=1", "--allow_file_create=0"])
            .arg(format!("--filename={}", self.file.display()))
            .arg(format!("--offset={}", self.start))
            .arg(format!("--size={}", self.bytes))
            .arg(format!("--rw={pattern}"))
            .arg(format!("--bs={}", shape.block_bytes))
            .arg(format!("--iodepth={}", shape.depth))
            .arg(format!("--randseed={}", self.runs))
            .args(way.options())
            .args(more)
            .stdin(Stdio::null());
        let before = cpu_of_children();
        let output = command
            .output()
            .map_err(|error| format!("cannot start fio: {error}; install it (scripts/prepare does)"))?;
        let cpu = cpu_of_children().saturating_sub(before);
        let text = String::from_utf8_lossy(&output.stdout);
        let fault = || {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("fio ended with {}: {}{}", output.status, said.trim(), text.trim())
        };
        if !output.status.success() {
            return Err(fault());
        }
        // fio may print notes before the report.
        let report = text
            .find('{')
            .map(|start| serde_json::from_str::<Value>(&text[start..]));
        match report {
            Some(Ok(report)) if report["jobs"][0]["error"] == 0 => Ok((report, cpu)),
            _ => Err(fault()),
        }
    }
}
