//! `amita support-bundle`: one archive with what somebody who helps has to see, and no secret in it.

use super::inspect;
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::nodes;
use amita_control::access::Reader;
use amita_control::admin::{self, Status};
use amita_inspect::bundle::{Bundle, RECORDS, STATUS, pick, records};
use amita_metadata::{Call, Transact as _};
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use amita_types::map;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The most that is read of the end of a log file.
const MAX_LOG_BYTES: u64 = 4 << 20;
/// What of a node's figures is packed: see `amita_node::observe::NodePage`.
const TOP: &[&str] = &[
    "node",
    "name",
    "cluster",
    "now_ns",
    "core_count",
    "volumes",
    "stores",
    "cores",
];
/// Metrics are lines of these.
const METRICS: [&str; 3] = ["amita_", "process_", "# "];

/// `amita support-bundle`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The archive to write: a `.tar.gz`, for its owner alone
    #[arg(long, short, value_name = "FILE", required_unless_present = "dry_run", value_parser = parse_output)]
    pub output: Option<PathBuf>,
    /// Say what would be packed and how long it is, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// A log file whose last lines are packed; once for each. Names of volumes and addresses are in it as they are
    #[arg(long = "log-file", value_name = "FILE")]
    pub log_files: Vec<PathBuf>,
    /// So many lines of each
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub log_lines: u32,
    /// Say what was packed as JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_output(text: &str) -> std::result::Result<PathBuf, String> {
    match text.ends_with(".tar.gz") || text.ends_with(".tgz") {
        true => Ok(PathBuf::from(text)),
        false => Err("give a name that ends with .tar.gz".to_owned()),
    }
}

/// Packs it.
///
/// # Errors
/// The file cannot be written, or who asks may not look at the cluster. What cannot be had otherwise is no error: the bundle says so.
pub fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    let log_files = arguments
        .log_files
        .iter()
        .map(|path| last_lines(path, arguments.log_lines));
    // A wrong path is told before anything is asked.
    let log_files = log_files.collect::<Result<Vec<_>>>()?;
    let mut bundle = Bundle::new(inspect::now(), env!("CARGO_PKG_VERSION"));
    versions(&mut bundle);
    of_cluster(&mut bundle, metadata)?;
    for (path, text) in arguments.log_files.iter().zip(&log_files) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let why = format!("the last {} lines of a log file that was named", arguments.log_lines);
        bundle.add(format!("logs/{name}"), why, text);
    }
    let mut bytes = Vec::new();
    bundle
        .write(&mut bytes)
        .context(|| "the archive cannot be made".to_owned())?;
    if let (Some(file), false) = (&arguments.output, arguments.dry_run) {
        inspect::write_new(file, &bytes)?;
    }
    let manifest: Value = serde_json::from_str(&bundle.manifest()).unwrap_or_default();
    print(arguments.json, &manifest, || text(arguments, &bundle, bytes.len()))
}

fn text(arguments: &Arguments, bundle: &Bundle, bytes: usize) -> String {
    let mut table = Table::new(&["bytes", "file", "why"]);
    for file in bundle.files() {
        table.row([file.text.len().to_string(), file.name.clone(), file.why.clone()]);
    }
    let mut out = table.text();
    for missing in bundle.missing() {
        out.push_str(&format!("not got: {}: {}\n", missing.what, missing.why));
    }
    match (&arguments.output, arguments.dry_run) {
        (Some(file), false) => out.push_str(&format!(
            "{}: {bytes} bytes. Look through it before you send it.\n",
            file.display()
        )),
        _ => out.push_str(&format!("Nothing was written; the archive would have {bytes} bytes.\n")),
    }
    out
}

fn add<T: Serialize>(bundle: &mut Bundle, name: &str, why: &str, value: &T) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => bundle.add(name, why, &text),
        Err(error) => bundle.not_got(name, error.to_string()),
    }
}

fn versions(bundle: &mut Bundle) {
    let system = rustix::system::uname();
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let value = json!({
        "program": crate::VERSION,
        "kernel": system.release().to_string_lossy(),
        "machine": system.machine().to_string_lossy(),
        "system": pretty.unwrap_or("not known").trim_matches('"'),
    });
    add(
        bundle,
        "versions.json",
        "the program and the system of the machine that packed this",
        &value,
    );
}

/// Everything that the metadata has, and the nodes that it knows.
fn of_cluster(bundle: &mut Bundle, metadata: &Endpoints) -> Result<()> {
    let addresses = metadata.list()?;
    // Who may not look is told so, and gets no bundle either.
    let admin = Admin::connect(metadata)?;
    let reader = admin.reader();
    let begun = Instant::now();
    let answer = reader.txn(&Call::get(map::cluster_key()));
    let mut health = json!({ "addresses": addresses, "answered_in_ms": begun.elapsed().as_millis() as u64 });
    match &answer {
        Ok(reply) => health["revision"] = reply.revision.into(),
        Err(why) => health["failed"] = why.to_string().into(),
    }
    add(
        bundle,
        "metadata.json",
        "whether the metadata answers, how fast, and at which revision",
        &health,
    );
    if let Err(why) = answer {
        bundle.not_got("everything that the metadata has, and the nodes", why.to_string());
        return Ok(());
    }
    for kind in RECORDS {
        match records(&reader, kind) {
            Ok(bytes) => bundle.add(
                format!("records/{}.json", kind.name),
                kind.why,
                &String::from_utf8_lossy(&bytes),
            ),
            Err(why) => bundle.not_got(format!("records/{}.json", kind.name), why.to_string()),
        }
    }
    settings(bundle, &reader);
    match inspect::look(&admin) {
        Ok(report) => {
            add(bundle, "inspect.json", "findings of an inspection", &report);
            bundle.add(
                "inspect.txt",
                format!("the same for people, of {}", inspect::made(&report)),
                &report.text(),
            );
        }
        Err(failure) => bundle.not_got("inspect.json", failure.what),
    }
    match admin::status(&reader).described() {
        Ok(status) => of_status(bundle, &status),
        Err(failure) => bundle.not_got("status.json and the nodes", failure.what),
    }
    Ok(())
}

fn settings(bundle: &mut Bundle, reader: &Reader<'_>) {
    match (admin::thresholds(reader), admin::recovery(reader)) {
        (Ok(thresholds), Ok(recovery)) => {
            let value = json!({ "thresholds": thresholds, "recovery": recovery });
            add(
                bundle,
                "settings.json",
                "what counts as full, and how hard recovery works",
                &value,
            );
        }
        (Err(why), _) | (_, Err(why)) => bundle.not_got("settings.json", why.to_string()),
    }
}

fn of_status(bundle: &mut Bundle, status: &Status) {
    let value = serde_json::to_value(status).unwrap_or_default();
    add(
        bundle,
        "status.json",
        "what is so now, and whether it is well",
        &pick(&value, STATUS),
    );
    let cluster = status.cluster.to_string();
    for found in status.nodes.iter().filter(|found| !found.node.client) {
        let name = &found.node.name;
        match (found.alive, &found.node.metrics) {
            (false, _) => bundle.not_got(format!("figures of node {name}"), "it does not live"),
            (true, None) => bundle.not_got(
                format!("figures of node {name}"),
                "it tells nothing; start it with --metrics",
            ),
            (true, Some(address)) => {
                if let Err(why) = figures(bundle, &cluster, name, address) {
                    bundle.not_got(format!("figures of node {name}"), format!("{address}: {why}"));
                }
            }
        }
    }
}

/// A loopback's address may be another node's here.
fn figures(bundle: &mut Bundle, cluster: &str, name: &str, address: &str) -> std::result::Result<(), String> {
    let page: Value = serde_json::from_str(&nodes::get(address, "/top")?).map_err(|why| why.to_string())?;
    if page["cluster"] != cluster || page["name"] != name {
        return Err("another node is there; ask on the node's own host, or start it with --metrics on an address of the network".to_owned());
    }
    let metrics = nodes::get(address, "/metrics")?;
    let lines = metrics
        .lines()
        .filter(|line| METRICS.iter().any(|beginning| line.starts_with(beginning)));
    let lines: Vec<&str> = lines.collect();
    add(
        bundle,
        &format!("nodes/{name}/top.json"),
        "what volumes, stores and cores have done",
        &pick(&page, TOP),
    );
    bundle.add(
        format!("nodes/{name}/metrics.txt"),
        "metrics of the node",
        &lines.join("\n"),
    );
    Ok(())
}

fn last_lines(path: &Path, count: u32) -> Result<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|why| {
        Failure::new(format!("--log-file {}: {why}", path.display()))
            .kind(Kind::Usage)
            .advice("Name a file that can be read, or leave it out.")
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count as usize);
    Ok(lines[from..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_packed() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("amita.log");
        std::fs::write(&file, "one\ntwo\nthree\n").expect("a file");
        assert_eq!(last_lines(&file, 2).expect("lines"), "two\nthree");
        assert_eq!(last_lines(&file, 9).expect("lines"), "one\ntwo\nthree");
        assert_eq!(
            last_lines(&folder.path().join("none"), 1).expect_err("no file").kind,
            Kind::Usage
        );
        assert!(parse_output("x.zip").is_err() && parse_output("x.tar.gz").is_ok());
    }
}
