//! fio over NBD: options in, figures out.

use crate::process::Process;
use crate::tool;
use amita_terminal::error::{Context, Failure, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What fio is to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name, also of its files.
    pub name: String,
    /// Engine and target: `--ioengine=nbd --uri=...`, or a file.
    pub target: Vec<String>,
    /// `randwrite`, `randread`, `write`, ...
    pub pattern: &'static str,
    /// Bytes of one I/O.
    pub block_bytes: u32,
    /// How many are under way at once.
    pub depth: u32,
    /// First byte of the region.
    pub offset_bytes: u64,
    /// Bytes of the region.
    pub size_bytes: u64,
    /// Ends by the clock, and starts over until then; else after one pass over the region.
    pub run: Option<Duration>,
    /// Further options, as they are.
    pub more: Vec<String>,
    /// Further targets that are worked on alike at the same time; one report is of all.
    pub also: Vec<Vec<String>>,
}

/// The target of a volume over NBD.
#[must_use]
pub fn nbd(uri: &str) -> Vec<String> {
    vec!["--ioengine=nbd".to_owned(), format!("--uri={uri}")]
}

/// Every block carries a checksum of itself, its place and a seed; read back and checked at the end.
#[must_use]
pub fn verify_options(seed: u64) -> Vec<String> {
    ["--verify=crc32c", "--verify_fatal=1", "--verify_dump=0"]
        .into_iter()
        .map(str::to_owned)
        .chain([format!("--randseed={seed}")])
        .collect()
}

/// Latencies of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    pub mean: Duration,
    /// Half are faster.
    pub p50: Duration,
    /// 99 of 100 are faster.
    pub p99: Duration,
    /// 999 of 1000 are faster.
    pub p999: Duration,
    /// The slowest.
    pub max: Duration,
}

/// What one direction did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direction {
    /// How many I/Os.
    pub ios: u64,
    /// Per second.
    pub iops: f64,
    /// How much that may be off by chance, in I/Os a second: the standard error over fio's samples.
    pub iops_error: f64,
    /// From submission to completion.
    pub latency: Latency,
}

/// What fio found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub read: Direction,
    pub write: Direction,
}

/// A running fio.
#[derive(Debug)]
pub struct Running {
    process: Process,
    output: PathBuf,
}

impl Job {
    fn arguments(&self, output: &Path) -> Vec<String> {
        let mut arguments = vec![
            format!("--name={}", self.name),
            format!("--rw={}", self.pattern),
            format!("--bs={}", self.block_bytes),
            format!("--iodepth={}", self.depth),
            format!("--offset={}", self.offset_bytes),
            format!("--size={}", self.size_bytes),
            "--thread".to_owned(),
            "--output-format=json".to_owned(),
            format!("--output={}", output.display()),
        ];
        if let Some(run) = self.run {
            arguments.push("--time_based".to_owned());
            arguments.push(format!("--runtime={}ms", run.as_millis()));
        }
        arguments.extend(self.more.iter().cloned());
        if self.also.is_empty() {
            arguments.extend(self.target.iter().cloned());
            return arguments;
        }
        // The options so far are for all jobs.
        arguments[0] = "--name=global".to_owned();
        arguments.push("--group_reporting".to_owned());
        for (number, target) in [&self.target].into_iter().chain(&self.also).enumerate() {
            arguments.push(format!("--name={}-{number}", self.name));
            arguments.extend(target.iter().cloned());
        }
        arguments
    }

    /// Starts fio; its files go to `folder`.
    ///
    /// # Errors
    /// When fio is not installed or cannot be started.
    pub fn start(&self, folder: &Path) -> Result<Running> {
        let output = folder.join(format!("fio-{}.json", self.name));
        // A report of an earlier run by this name must not be taken for this one's.
        if output.exists() {
            std::fs::remove_file(&output).context(|| format!("cannot remove {}", output.display()))?;
        }
        Ok(Running {
            process: tool::start(folder, "fio", self.arguments(&output))?,
            output,
        })
    }

    /// Runs fio to its end.
    ///
    /// # Errors
    /// When fio fails: an I/O error, a block that is not what was written; or takes longer than `limit`.
    pub fn run(&self, folder: &Path, limit: Duration) -> Result<Report> {
        self.start(folder)?.finish(limit)
    }
}

impl Running {
    /// The number of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Has it ended?
    ///
    /// # Errors
    /// When the kernel does not know the process.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.ended()?.is_some())
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When fio fails: an I/O error, a block that is not what was written; or takes longer than `limit`.
    pub fn finish(mut self, limit: Duration) -> Result<Report> {
        let status = self.process.wait(limit)?;
        let text = std::fs::read_to_string(&self.output).unwrap_or_default();
        if !status.success() {
            let said = self.process.last_words();
            let noted: Vec<&str> = text
                .lines()
                .filter(|line| line.contains("fio:") || line.contains("verify"))
                .collect();
            return Err(Failure::new(format!(
                "fio ended with {status}:\n  {said}\n  {}",
                noted.join("\n  ")
            )));
        }
        parse(&text)
    }
}

fn parse(text: &str) -> Result<Report> {
    // fio may print notes before the report.
    let start = text
        .find('{')
        .ok_or_else(|| Failure::new(format!("fio printed no report: {text:?}")))?;
    let mut documents = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let report = match documents.next() {
        Some(Ok(report)) => report,
        other => return Err(Failure::new(format!("fio's report cannot be read: {other:?}"))),
    };
    let job = &report["jobs"][0];
    if job["error"].as_i64() != Some(0) {
        return Err(Failure::new(format!("fio reports error {}", job["error"])));
    }
    Ok(Report {
        read: direction(&job["read"]),
        write: direction(&job["write"]),
    })
}

fn direction(value: &Value) -> Direction {
    let completion = &value["clat_ns"];
    let total = &value["lat_ns"];
    let nanoseconds = |value: &Value| Duration::from_nanos(value.as_f64().unwrap_or_default() as u64);
    let percentile = |name: &str| nanoseconds(&completion["percentile"][name]);
    Direction {
        ios: value["total_ios"].as_u64().unwrap_or_default(),
        iops: value["iops"].as_f64().unwrap_or_default(),
        iops_error: value["iops_stddev"].as_f64().unwrap_or_default()
            / value["iops_samples"].as_f64().unwrap_or_default().max(1.0).sqrt(),
        latency: Latency {
            mean: nanoseconds(&total["mean"]),
            p50: percentile("50.000000"),
            p99: percentile("99.000000"),
            p999: percentile("99.900000"),
            max: nanoseconds(&total["max"]),
        },
    }
}

#[cfg(test)]
mod tests;
