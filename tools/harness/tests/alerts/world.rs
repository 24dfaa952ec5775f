//! A cluster that a Prometheus watches, and how a fault of it is judged.

use crate::prometheus::{Alert, Prometheus, Times};
use crate::rules;
use amita_harness::cluster::{Cluster, Config, Links, Metadata};
use amita_harness::nbd::Client;
use amita_harness::scratch::Scratch;
use amita_harness::{ports, shipped};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub const VOLUME: &str = "disk0";
/// How long anything may take that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(250);
/// Each measured alert is added there, where the environment names a file.
const TABLE: &str = "AMITA_ALERTS_TABLE";

/// What a cluster is to be; the rest is as everywhere.
pub struct Plan {
    pub nodes: usize,
    pub store_bytes: u64,
    pub volume_bytes: u64,
    pub metadata: Metadata,
    pub serve: &'static [&'static str],
    /// Lines of a shell that every process of the binary begins with; `$1 $3` is `serve NAME` for a node.
    pub begins: String,
    /// What is wrong is so before Prometheus starts.
    pub is_wrong_at_first: bool,
    pub times: Times,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            nodes: 3,
            store_bytes: 384 << 20,
            volume_bytes: 64 << 20,
            metadata: Metadata::Embedded,
            serve: &[],
            begins: String::new(),
            is_wrong_at_first: false,
            times: Times::Shortened,
        }
    }
}

/// Processes are dropped before the folders that they use.
pub struct World {
    pub prometheus: Prometheus,
    pub cluster: Cluster,
    pub targets: Vec<SocketAddr>,
    pub scratch: Scratch,
    fault: String,
    /// When the fault was made, and when it was mended.
    made: SystemTime,
    since: Instant,
}

/// The binary under test, behind a shell that gives each node what is its own: the address of its metrics, and what `begins` says.
fn wrapped(folder: &Path, nodes: &[SocketAddr], begins: &str) -> PathBuf {
    let binary = std::env::var(shipped::VARIABLE)
        .unwrap_or_else(|_| panic!("{} must name the binary (scripts/build-release)", shipped::VARIABLE));
    let mut script = format!("#!/bin/sh\n{begins}\ncase \"$1 $3\" in\n");
    for (number, address) in (1..).zip(nodes) {
        let _ = writeln!(script, "'serve n{number}') export AMITA_METRICS={address};;");
    }
    let _ = writeln!(script, "esac\nexec '{binary}' \"$@\"");
    let path = folder.join("amita");
    std::fs::write(&path, script).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("set");
    path
}

impl World {
    pub fn of(plan: Plan) -> World {
        World::with(plan, |_| {})
    }

    /// The same where something is set before the nodes start.
    pub fn with(plan: Plan, set: impl FnOnce(&mut Cluster)) -> World {
        let scratch = Scratch::make("alerts", None, None, 2 * plan.nodes as u64 * plan.store_bytes).expect("folders");
        World::on(plan, scratch, set, |_| {})
    }

    /// The same in these folders, where something is done before Prometheus starts, too.
    pub fn on(plan: Plan, scratch: Scratch, set: impl FnOnce(&mut Cluster), then: impl FnOnce(&mut Cluster)) -> World {
        let targets: Vec<SocketAddr> = (0..plan.nodes)
            .map(|_| SocketAddr::from(([127, 0, 0, 1], ports::free())))
            .collect();
        let config = Config {
            binary: wrapped(scratch.folder(), &targets, &plan.begins),
            folder: scratch.folder().to_owned(),
            store_folder: scratch.stores().to_owned(),
            nodes: plan.nodes,
            store_bytes: plan.store_bytes,
            bound: true,
            links: match plan.metadata {
                Metadata::Embedded => Links::Auth,
                Metadata::External(_) => Links::Insecure,
            },
            metadata: plan.metadata,
            serve_arguments: plan.serve.iter().map(|&argument| argument.to_owned()).collect(),
        };
        let mut cluster = Cluster::without_nodes(config).expect("the metadata");
        for node in 0..plan.nodes {
            cluster.format_store(node).expect("a store");
        }
        set(&mut cluster);
        cluster.start_nodes().expect("the nodes");
        cluster.make_volume(VOLUME, plan.volume_bytes).expect("a volume");
        then(&mut cluster);
        let world = World {
            prometheus: Prometheus::start(scratch.folder(), &targets, plan.times),
            cluster,
            targets,
            scratch,
            fault: String::new(),
            made: SystemTime::now(),
            since: Instant::now(),
        };
        if !plan.is_wrong_at_first {
            world.is_quiet();
        }
        world
    }

    /// Waits until every node is scraped and no alert is active.
    pub fn is_quiet(&self) {
        self.is_quiet_but(&[]);
    }

    /// The same, but for these, which are a part of the scene.
    pub fn is_quiet_but(&self, known: &[&str]) {
        let mut active = String::new();
        eventually_saying(2 * PATIENCE, || {
            active = self.active(known);
            let up = self.prometheus.targets_up();
            if up == self.targets.len() && active.is_empty() {
                return Ok(());
            }
            Err(format!("{up} targets are up, and these are active: {active}"))
        });
    }

    fn active(&self, known: &[&str]) -> String {
        let alerts = self.prometheus.alerts();
        let active = alerts.into_iter().filter(|(_, alert)| alert.state != "inactive");
        let active = active.filter(|(name, _)| !known.contains(&name.as_str()));
        active
            .map(|(name, alert)| format!("{name} {} {:?}; ", alert.state, alert.said))
            .collect()
    }

    /// A fault begins now.
    pub fn fault(&mut self, what: &str) {
        what.clone_into(&mut self.fault);
        self.made = SystemTime::now();
        self.since = Instant::now();
    }

    /// The fault is mended now.
    pub fn mended(&mut self) {
        self.since = Instant::now();
    }

    /// Waits until the alert fires and says this.
    pub fn fires(&self, name: &str, says: &str) {
        self.all_fire(&[(name, says)]);
    }

    /// Waits until each of these alerts has fired and said this.
    pub fn all_fire(&self, alerts: &[(&str, &str)]) {
        let mut left = alerts.to_vec();
        eventually_saying(3 * PATIENCE, || {
            let all = self.prometheus.alerts();
            left.retain(|(name, says)| {
                let (_, alert) = all
                    .iter()
                    .find(|(found, _)| found == name)
                    .expect("an alert of that name");
                let has_fired = alert.state == "firing" && alert.said.iter().any(|said| said.contains(says));
                if has_fired {
                    self.fired(name, alert);
                }
                !has_fired
            });
            let waits = || {
                format!(
                    "{left:?} do not fire by this: {}; active: {}",
                    self.fault,
                    self.active(&[])
                )
            };
            if left.is_empty() { Ok(()) } else { Err(waits()) }
        });
    }

    fn fired(&self, name: &str, alert: &Alert) {
        for said in &alert.said {
            let is_whole = !said.contains("<no value>") && !said.contains("%!") && !said.contains("error expanding");
            assert!(is_whole, "{name}: {said}");
        }
        let made = self.made.duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let noticed = alert.active_since.map_or(0.0, |since| (since - made).max(0.0));
        let fired = self.since.elapsed().as_secs_f64();
        let waits = rules::waits(name).0.as_secs();
        note(&format!(
            "fires | {name} | {} | {noticed:.0} | {fired:.0} | {waits} | {}",
            self.fault, alert.said[0]
        ));
    }

    /// Waits until the alert is over.
    pub fn ends(&self, name: &str) {
        self.all_end(&[(name, "")]);
    }

    /// Waits until each of these alerts is over.
    pub fn all_end(&self, alerts: &[(&str, &str)]) {
        let mut left: Vec<&str> = alerts.iter().map(|(name, _)| *name).collect();
        eventually_saying(3 * PATIENCE, || {
            let all = self.prometheus.alerts();
            left.retain(|name| {
                let is_over = all
                    .iter()
                    .any(|(found, alert)| found == name && alert.state == "inactive");
                if is_over {
                    note(&format!("ends | {name} | {:.0}", self.since.elapsed().as_secs_f64()));
                }
                !is_over
            });
            let waits = || {
                format!(
                    "{left:?} do not end after this: {}; active: {}",
                    self.fault,
                    self.active(&[])
                )
            };
            if left.is_empty() { Ok(()) } else { Err(waits()) }
        });
    }

    /// Runs a command of ours that must succeed.
    pub fn done(&self, arguments: &[&str]) -> String {
        let output = self.cluster.amita(arguments.iter().copied()).expect("the command runs");
        output.success().expect("the command succeeds").text
    }

    /// The same until it succeeds.
    pub fn done_at_last(&self, arguments: &[&str]) {
        eventually_saying(PATIENCE, || {
            let output = self.cluster.amita(arguments.iter().copied()).expect("the command runs");
            output.success().map(drop).map_err(|why| why.to_string())
        });
    }

    /// The JSON that a command prints.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let text = self.done(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{arguments:?} printed no JSON ({why}): {text}"))
    }

    /// Opens the volume at a node.
    pub fn open(&self, node: usize) -> Client {
        self.open_volume(node, VOLUME)
    }

    pub fn open_volume(&self, node: usize, volume: &str) -> Client {
        let at = self.cluster.nodes()[node].nbd;
        let mut opened = None;
        eventually_saying(PATIENCE, || match Client::open(at, volume, PATIENCE) {
            Ok(client) => {
                opened = Some(client);
                Ok(())
            }
            Err(why) => Err(format!("{volume} does not open: {why}")),
        });
        opened.expect("it is open")
    }

    /// Starts a node again, and waits until it serves.
    pub fn start_node(&mut self, node: usize) {
        self.cluster.start_node(node).expect("it starts again");
        self.cluster.await_node(node).expect("it serves again");
    }

    /// The address of a node's metrics, by which alerts name it.
    pub fn instance(&self, node: usize) -> String {
        self.targets[node].to_string()
    }
}

/// What was measured, for the table of the page.
fn note(line: &str) {
    println!("{line}");
    if let Some(path) = std::env::var_os(TABLE) {
        let file = std::fs::File::options().create(true).append(true).open(path);
        writeln!(file.expect("the table"), "{line}").expect("written");
    }
}

/// A test that fails shows what the processes said last.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the processes said last:\n{}", self.cluster.last_words());
        }
    }
}

/// Waits until something holds; who waits in vain says why.
pub fn eventually_saying(patience: Duration, mut holds: impl FnMut() -> Result<(), String>) {
    let until = Instant::now() + patience;
    while let Err(why) = holds() {
        assert!(Instant::now() < until, "{why}");
        std::thread::sleep(LOOK);
    }
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually_saying(
        PATIENCE,
        || if holds() { Ok(()) } else { Err(format!("never: {what}")) },
    );
}
