//! A cluster of real processes as the target: three nodes, a pool of three copies, and a volume that all three serve.

use crate::scenarios::access::{Guarded, Keys};
use crate::scenarios::chap::{Proving, Secrets};
use crate::scenarios::initiator::Printed;
use crate::scenarios::moves::{Movable, Whom};
use crate::scenarios::paths::Freezable;
use crate::scenarios::postgres::Paired;
use crate::scenarios::snapshot::Snapshotted;
use crate::target::Target;
use amita_harness::cluster::{Cluster, Config, Links, Metadata};
use amita_harness::moves::{Moment, Moves};
use amita_harness::observe::Observer;
use amita_harness::scratch::Scratch;
use amita_harness::shipped;
use amita_harness::tool;
use amita_terminal::error::{Context, Failure, Result};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The binary that serves beside the guest.
pub fn binary() -> &'static str {
    shipped::binary(env!("CARGO_BIN_EXE_amita"))
}

const NODES: usize = 3;
const VOLUME: &str = "disk0";
const SECOND: &str = "disk1";
/// How long the cluster may take for something that it does in a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Stores keep a copy of the metadata as well, and room to work.
const STORE_BYTES_LEAST: u64 = 512 << 20;
/// Who does not renew for so long is taken for dead.
pub const LEASE_SECONDS: u64 = 5;
/// What nodes say when others are killed, frozen, or come back, and nothing else.
const EXPECTED: &[&str] = &[
    "is no longer in sync since epoch",
    "no longer holds its lease",
    "owners of volumes evicted store",
    "refused a request of group",
    "did not run for",
    "the node's lease had ended",
    // Hosts with a wrong key, or none.
    "the connection of a host at",
];
/// Nodes do not stop at one moment: those that stop last find too few left.
const EXPECTED_AT_THE_END: &[&str] = &["does not serve, and only"];

/// How hosts reach the volume.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Nvme,
    Iscsi,
}

pub struct Gateways {
    pub cluster: Cluster,
    scratch: Scratch,
    protocol: Protocol,
    nqn: String,
    /// The subsystem's or target's name.
    subsystem: String,
    volume: String,
    seal: PathBuf,
}

impl Gateways {
    /// A cluster with a volume in a subsystem to which any host may connect.
    pub fn start(size_bytes: u64) -> Result<Gateways> {
        Gateways::start_by(Protocol::Nvme, size_bytes)
    }

    /// A cluster with a volume as LUN 0 of a target to which any initiator may log in.
    pub fn start_portals(size_bytes: u64) -> Result<Gateways> {
        Gateways::start_by(Protocol::Iscsi, size_bytes)
    }

    fn start_by(protocol: Protocol, size_bytes: u64) -> Result<Gateways> {
        let store_bytes = (3 * size_bytes).max(STORE_BYTES_LEAST);
        let scratch = Scratch::make("gateways", None, None, NODES as u64 * store_bytes)?;
        let seal = scratch.folder().join("seal.key");
        let seal_text = seal.display().to_string();
        tool::run(scratch.folder(), binary(), ["host", "seal-key", &seal_text], PATIENCE)?.success()?;
        let config = Config {
            binary: PathBuf::from(binary()),
            folder: scratch.folder().to_owned(),
            store_folder: scratch.stores().to_owned(),
            nodes: NODES,
            store_bytes,
            metadata: Metadata::Embedded,
            bound: true,
            links: Links::Auth,
            serve_arguments: vec![
                "--seal-key".to_owned(),
                seal_text,
                "--lease".to_owned(),
                LEASE_SECONDS.to_string(),
            ],
        };
        let cluster = Cluster::start_with(config, |cluster| {
            if protocol == Protocol::Iscsi {
                cluster.give_portals();
            }
            Ok(())
        })?;
        cluster.make_volume(VOLUME, size_bytes)?;
        let mut gateways = Gateways {
            cluster,
            scratch,
            protocol,
            nqn: String::new(),
            subsystem: VOLUME.to_owned(),
            volume: VOLUME.to_owned(),
            seal,
        };
        gateways.nqn = match protocol {
            Protocol::Nvme => gateways.cluster.offer_by_nvme(VOLUME)?,
            Protocol::Iscsi => gateways.offer_lun(&["--any-initiator"])?,
        };
        Ok(gateways)
    }

    /// Makes the volume LUN 0 of a target of its name; the target's IQN.
    fn offer_lun(&self, options: &[&str]) -> Result<String> {
        let create = [&["target", "create", &self.subsystem, "--json"][..], options].concat();
        let made = self.json(&create)?;
        self.amita(&["lun", "add", &self.subsystem, &self.volume])?;
        let iqn = made["iqn"].as_str();
        iqn.map(str::to_owned)
            .ok_or_else(|| Failure::new(format!("no name: {made}")))
    }

    fn json(&self, arguments: &[&str]) -> Result<serde_json::Value> {
        let text = self.amita(arguments)?;
        serde_json::from_str(&text).context(|| format!("no JSON: {text}"))
    }

    /// A further volume in a subsystem of its own, to which any host may connect; the subsystem's name.
    pub fn further(&self, name: &str, size_bytes: u64) -> Result<String> {
        let size = size_bytes.to_string();
        self.amita(&["volume", "create", name, "--pool", "demo", "--size", &size])?;
        self.cluster.offer_by_nvme(name)
    }

    /// A further volume in a target of its own, to which any initiator may log in, and which has no other LUN than this; the target's IQN.
    pub fn lone_lun(&self, name: &str, number: u16, size_bytes: u64) -> Result<String> {
        let (size, number) = (size_bytes.to_string(), number.to_string());
        self.amita(&["volume", "create", name, "--pool", "demo", "--size", &size])?;
        let made = self.json(&["target", "create", name, "--any-initiator", "--json"])?;
        self.amita(&["lun", "add", name, name, "--number", &number])?;
        let iqn = made["iqn"].as_str();
        iqn.map(str::to_owned)
            .ok_or_else(|| Failure::new(format!("no name: {made}")))
    }

    /// A further volume in a subsystem or target of its own, to which nobody may connect yet. From now on it is the target.
    pub fn guard(&mut self, name: &str, size_bytes: u64) -> Result<()> {
        let size = size_bytes.to_string();
        self.amita(&["volume", "create", name, "--pool", "demo", "--size", &size])?;
        name.clone_into(&mut self.subsystem);
        name.clone_into(&mut self.volume);
        self.nqn = match self.protocol {
            Protocol::Nvme => {
                let made = self.json(&["subsystem", "create", name, "--json"])?;
                self.amita(&["namespace", "add", name, name])?;
                let nqn = made["nqn"].as_str();
                nqn.ok_or_else(|| Failure::new(format!("no name: {made}")))?.to_owned()
            }
            Protocol::Iscsi => self.offer_lun(&[])?,
        };
        Ok(())
    }

    fn amita(&self, arguments: &[&str]) -> Result<String> {
        Ok(self.cluster.amita(arguments.iter().copied())?.success()?.text)
    }

    fn lend_of(&self, volume: &str, snapshot: &str, clone: &str) -> Result<u32> {
        self.amita(&["volume", "clone", &format!("{volume}@{snapshot}"), clone])?;
        let made = self.amita(&["namespace", "add", &self.subsystem, clone, "--json"])?;
        let made: serde_json::Value = serde_json::from_str(&made).context(|| "no namespace".to_owned())?;
        let nsid = made["nsid"].as_u64().and_then(|nsid| u32::try_from(nsid).ok());
        nsid.ok_or_else(|| Failure::new(format!("no number: {made}")))
    }

    fn take_back_of(&self, volume: &str, nsid: u32, snapshot: &str, clone: &str) -> Result<()> {
        self.amita(&["namespace", "remove", &self.subsystem, &nsid.to_string()])?;
        self.amita(&["volume", "delete", clone, "--now"])?;
        self.amita(&["volume", "snapshot", "delete", volume, snapshot])
            .map(drop)
    }

    /// Every group has all of its copies again.
    fn await_whole(&self) -> Result<()> {
        let observer = Observer::of(&self.cluster)?;
        if observer.await_whole(PATIENCE)? {
            Ok(())
        } else {
            Err(Failure::new("not all copies were brought up to date"))
        }
    }

    /// Plays a scenario; when it fails, what it left killed or frozen goes on again, for the next one.
    pub fn play(&mut self, scenario: impl FnOnce(&mut Gateways) -> Result<String>) -> Result<String> {
        scenario(self).map_err(|failure| {
            let mut what = failure.to_string();
            for index in 0..self.cluster.nodes().len() {
                let mended = match self.cluster.nodes()[index].process {
                    Some(_) => self.cluster.thaw_node(index),
                    None => self.revive(index),
                };
                if let Err(failure) = mended {
                    what += &format!("\n{failure}");
                }
            }
            Failure::new(what)
        })
    }

    /// Ends the cluster in order.
    ///
    /// # Panics
    /// When a process does not end in order, or has said something that it should not have to.
    pub fn end(self) {
        self.end_expecting(&[]);
    }

    /// The same where nodes had something more to say.
    ///
    /// # Panics
    /// As [`Gateways::end`].
    pub fn end_expecting(mut self, more: &[&str]) {
        let expected = [EXPECTED, more].concat();
        self.check_logs(&expected);
        assert!(
            self.cluster.stop(),
            "a process did not end in order:\n{}",
            self.cluster.last_words()
        );
        self.check_logs(&[&expected[..], EXPECTED_AT_THE_END].concat());
    }

    fn check_logs(&self, expected: &[&str]) {
        let logs = (0..self.cluster.nodes().len()).map(|index| self.cluster.node_log(index));
        let unexpected: Vec<String> = logs.flat_map(|log| unexpected_in(&log, expected)).collect();
        assert!(
            unexpected.is_empty(),
            "unexpected lines in the logs:\n{}",
            unexpected.join("\n")
        );
    }
}

fn unexpected_in(log: &Path, expected: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter(|line| ["ERROR", "WARN", "panic"].iter().any(|word| line.contains(word)))
        .filter(|line| !expected.iter().any(|words| line.contains(words)))
        .map(|line| format!("{}: {line}", log.display()))
        .collect()
}

/// A test that fails shows what the processes said last.
impl Drop for Gateways {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the processes said last:\n{}", self.cluster.last_words());
        }
    }
}

impl Target for Gateways {
    fn nqn(&self) -> &str {
        &self.nqn
    }

    fn portals(&self) -> Vec<SocketAddr> {
        let nodes = self.cluster.nodes().iter();
        match self.protocol {
            Protocol::Nvme => nodes.map(|node| node.nvme).collect(),
            Protocol::Iscsi => nodes.filter_map(|node| node.iscsi).collect(),
        }
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        self.amita(&["volume", "resize", &self.volume, "--size", &bytes.to_string()])
            .map(drop)
    }

    fn kill(&mut self, gateway: usize) -> Result<()> {
        // With another copy missing, writes would have to wait.
        self.await_whole()?;
        self.cluster.kill_node(gateway);
        Ok(())
    }

    fn revive(&mut self, gateway: usize) -> Result<()> {
        self.cluster.start_node(gateway)?;
        self.cluster.await_node(gateway)
    }

    fn relocate(&mut self, gateway: usize) -> Result<()> {
        let name = self.cluster.nodes()[gateway].name.clone();
        self.amita(&["volume", "move", &self.volume, "--to", &name]).map(drop)
    }
}

impl Snapshotted for Gateways {
    fn show(&mut self) -> Result<()> {
        self.take("was")?;
        let snapshot = format!("{}@was", self.volume);
        self.amita(&["namespace", "add", &self.subsystem, &snapshot]).map(drop)
    }

    fn take(&mut self, snapshot: &str) -> Result<()> {
        self.amita(&["volume", "snapshot", "create", &self.volume, snapshot])
            .map(drop)
    }

    fn lend(&mut self, snapshot: &str, clone: &str) -> Result<u32> {
        self.lend_of(&self.volume, snapshot, clone)
    }

    fn take_back(&mut self, nsid: u32, snapshot: &str, clone: &str) -> Result<()> {
        self.take_back_of(&self.volume, nsid, snapshot, clone)
    }
}

impl Paired for Gateways {
    fn pair(&mut self, size_bytes: u64) -> Result<()> {
        let size = size_bytes.to_string();
        self.amita(&["volume", "create", SECOND, "--pool", "demo", "--size", &size])?;
        let kind = match self.protocol {
            Protocol::Nvme => "namespace",
            Protocol::Iscsi => "lun",
        };
        self.amita(&[kind, "add", &self.subsystem, SECOND]).map(drop)
    }

    fn take_both(&mut self, snapshot: &str) -> Result<()> {
        self.amita(&["volume", "snapshot", "create-set", snapshot, &self.volume, SECOND])
            .map(drop)
    }

    fn lend_both(&mut self, snapshot: &str) -> Result<[u32; 2]> {
        let first = self.lend(snapshot, "clone-1")?;
        Ok([first, self.lend_of(SECOND, snapshot, "clone-2")?])
    }

    fn take_both_back(&mut self, [first, second]: [u32; 2], snapshot: &str) -> Result<()> {
        self.take_back(first, snapshot, "clone-1")?;
        self.take_back_of(SECOND, second, snapshot, "clone-2")
    }
}

impl Movable for Gateways {
    fn begin_move(&mut self, slowly: bool) -> Result<String> {
        // What was killed before is to be no matter any more.
        self.await_whole()?;
        let to = match Moves::of(&self.cluster)?.pool(&self.volume)?.as_str() {
            "other" => "demo",
            _ => "other",
        };
        if to == "other" && !self.amita(&["pool", "list", "--json"])?.contains("\"other\"") {
            self.amita(&["pool", "create", "other", "--copies", "3"])?;
        }
        let rate = if slowly { "1M" } else { "1G" };
        let volume = self.volume.clone();
        let begin = [
            "volume",
            "migrate",
            &volume,
            "--pool",
            to,
            "--limit-rate",
            rate,
            "--no-wait",
        ];
        self.amita(&begin)?;
        Ok(to.to_owned())
    }

    fn strike(&mut self, moment: Moment, whom: Whom) -> Result<Option<(usize, Whom)>> {
        let moves = Moves::of(&self.cluster)?;
        let Some(sight) = moves.await_moment(&self.volume, moment, PATIENCE)? else {
            return Ok(None);
        };
        let index = |name: Option<&str>| {
            self.cluster
                .nodes()
                .iter()
                .position(|node| Some(node.name.as_str()) == name)
        };
        let (mover, owner) = (index(sight.mover.as_deref()), index(sight.owner.as_deref()));
        let another = (0..NODES).find(|index| Some(*index) != mover && Some(*index) != owner);
        let wanted = match whom {
            Whom::Mover => mover,
            Whom::Owner => owner,
            Whom::Another => another,
        };
        let all = [(mover, Whom::Mover), (owner, Whom::Owner), (another, Whom::Another)];
        let mut others = all.into_iter().filter_map(|(node, who)| Some((node?, who)));
        let (node, who) = wanted
            .map(|node| (node, whom))
            .or_else(|| others.next())
            .ok_or_else(|| Failure::new("there is no node to be killed"))?;
        if moves.strike(&mut self.cluster, node)? {
            return Ok(Some((node, who)));
        }
        self.revive(node)?;
        Ok(None)
    }

    fn await_moved(&mut self, to: &str) -> Result<()> {
        let moves = Moves::of(&self.cluster)?;
        let over = amita_terminal::interrupt::poll(3 * PATIENCE, Duration::from_millis(100), || {
            Ok(moves.is_over()?.then_some(()))
        })?;
        over.ok_or_else(|| Failure::new("the volume did not move in time"))?;
        match moves.pool(&self.volume)? {
            pool if pool == to => Ok(()),
            pool => Err(Failure::new(format!(
                "the move to pool {to} came to nothing: the volume lies in {pool}"
            ))),
        }
    }
}

impl Freezable for Gateways {
    fn freeze(&mut self, gateway: usize) -> Result<()> {
        self.await_whole()?;
        self.cluster.freeze_node(gateway)
    }

    fn thaw(&mut self, gateway: usize) -> Result<()> {
        self.cluster.thaw_node(gateway)
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(LEASE_SECONDS)
    }
}

impl Guarded for Gateways {
    fn forget(&mut self, host: &str) -> Result<()> {
        self.amita(&["host", "remove", host, "--force"]).map(drop)
    }

    fn allow(&mut self, host: &str, keys: &Keys) -> Result<()> {
        // What an earlier step left, if it failed.
        self.cluster.amita(["host", "remove", host, "--force"])?;
        let seal = self.seal.display().to_string();
        let mut arguments = vec![
            "host".to_owned(),
            "add".to_owned(),
            host.to_owned(),
            "--seal-key".to_owned(),
            seal,
        ];
        for (flag, key) in [
            ("--dhchap-key", &keys.dhchap),
            ("--dhchap-controller-key", &keys.dhchap_controller),
            ("--tls-key", &keys.tls),
        ] {
            if let Some(key) = key {
                let file = self.scratch.folder().join(format!("host{flag}.key"));
                std::fs::write(&file, key).context(|| format!("cannot write {}", file.display()))?;
                arguments.extend([flag.to_owned(), file.display().to_string()]);
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.amita(&arguments)?;
        self.amita(&["host", "allow", &self.subsystem, host]).map(drop)
    }
}

impl Printed for Gateways {
    fn attach(&mut self, initiator: &str) -> Result<serde_json::Value> {
        self.json(&["volume", "attach", &self.volume, "--iscsi", initiator, "--json"])
    }
}

impl Proving for Gateways {
    fn allow(&mut self, initiator: &str, secrets: &Secrets<'_>) -> Result<()> {
        self.amita(&["initiator", "allow", &self.subsystem, initiator])?;
        let seal = self.seal.display().to_string();
        let mut arguments = ["initiator", "key", initiator, "--seal-key", &seal]
            .map(str::to_owned)
            .to_vec();
        for (flag, secret) in [
            ("--chap-secret", secrets.initiator),
            ("--chap-target-secret", secrets.target),
        ] {
            if let Some(secret) = secret {
                let file = self.scratch.folder().join(format!("initiator{flag}"));
                std::fs::write(&file, secret).context(|| format!("cannot write {}", file.display()))?;
                arguments.extend([flag.to_owned(), file.display().to_string()]);
            }
        }
        if secrets.initiator.is_none() && secrets.target.is_none() {
            return Ok(());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.amita(&arguments).map(drop)
    }

    fn deny(&mut self, initiator: &str) -> Result<()> {
        self.amita(&["initiator", "deny", &self.subsystem, initiator]).map(drop)
    }
}
