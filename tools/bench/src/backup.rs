//! Backups and restores: how fast they are, and what CPU they take; beside restic and borg on the same data, by NBD, where these are installed.
//!
//! What is kept goes to a folder in memory, as the stores do. The data are new to each repository, and half of them can be compressed away.
//!
//! Ours is judged by the slower of the two (`times_slower`, at least 1), and the faster one is shown beside it (`times_faster`). They do other things than
//! this: they find by the content what they have already, whatever it is of, and know of no changes; and each is measured once, on as many processors
//! as it uses. So being faster than both is nothing that is promised everywhere, and being slower than both is a fault of ours.

use crate::report::Figures;
use crate::testbed::{NODES, Product, store_bytes, three_nodes};
use amita_harness::cluster::{Cluster, Metadata};
use amita_harness::cpu::{self, Meter};
use amita_harness::fio::{self, Job};
use amita_harness::scratch::Scratch;
use amita_harness::tool;
use amita_identity::Role;
use amita_terminal::error::{Context, Failure, Result};
use amita_terminal::progress::Steps;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const VOLUME: &str = "backed-up";
/// How long one step may take.
const LIMIT: Duration = Duration::from_secs(600);
/// What a run may send where one block of a hundred has changed, in percent of the data; and some KiB of what says where they are.
const SENT_PERCENT: f64 = 1.1;
const SENT_BESIDE: f64 = 65536.0;
const BLOCK_BYTES: u32 = 4096;
/// Of the rate of the slower one of the others.
const TIMES_SLOWER: f64 = 1.0;

/// What one command came to.
#[derive(Clone, Copy, Debug)]
struct Came {
    took: Duration,
    /// CPU time of the command, and of what it has started.
    command: Duration,
    /// CPU time of the nodes and the metadata meanwhile.
    cluster: Duration,
}

/// Somebody else's tool: what it does of the same.
struct Peer {
    name: &'static str,
    init: String,
    backup: String,
    restore: String,
}

struct Testbed {
    cluster: Cluster,
    size_bytes: u64,
    scratch: Scratch,
}

impl Testbed {
    /// Three nodes, and a volume that is full.
    fn start(size_bytes: u64, product: &Product) -> Result<Testbed> {
        let store_bytes = store_bytes(size_bytes);
        // The stores, the repositories and what is restored.
        let room = store_bytes * NODES as u64 + 6 * size_bytes;
        let scratch = Scratch::make("backup", None, None, room)?;
        let cluster = Cluster::start(three_nodes(&scratch, store_bytes, Metadata::Embedded, product))?;
        cluster.make_volume(VOLUME, size_bytes)?;
        let testbed = Testbed {
            cluster,
            size_bytes,
            scratch,
        };
        testbed.write("fill", "write", 128 << 10, None)?;
        Ok(testbed)
    }

    /// Writes data of which half can be compressed away: all, or so many blocks by chance.
    fn write(&self, name: &str, pattern: &'static str, block_bytes: u32, blocks: Option<u64>) -> Result<()> {
        let mut more: Vec<String> = [
            "--refill_buffers",
            "--buffer_compress_percentage=50",
            "--buffer_compress_chunk=4096",
        ]
        .map(str::to_owned)
        .to_vec();
        more.extend(blocks.map(|blocks| format!("--io_size={}", blocks * u64::from(block_bytes))));
        let job = Job {
            name: name.to_owned(),
            target: fio::nbd(&self.cluster.uri(0, VOLUME)),
            pattern,
            block_bytes,
            depth: 16,
            offset_bytes: 0,
            size_bytes: self.size_bytes,
            run: None,
            more,
            also: Vec::new(),
        };
        job.run(self.scratch.folder(), LIMIT).map(drop)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.stores().join(name)
    }

    /// Runs something, and looks at who works meanwhile; what it printed.
    fn watch(&self, what: impl FnOnce() -> Result<tool::Output>) -> Result<(Came, String)> {
        let nodes = Meter::start(self.cluster.pids());
        let (children, began) = (cpu::of_children()?, Instant::now());
        let output = what()?.success()?;
        let came = Came {
            took: began.elapsed(),
            command: cpu::of_children()?.saturating_sub(children),
            cluster: nodes.used(),
        };
        Ok((came, output.text))
    }

    /// A command of ours with the repository.
    fn amita(&self, words: &[&str]) -> Result<(Came, String)> {
        let text = |name: &str| self.path(name).display().to_string();
        let (repository, key) = (text("amita"), text("backup.key"));
        let mut all = [&["backup"], words].concat();
        all.extend([
            "--repository",
            &repository,
            "--key-file",
            &key,
            "--json",
            "--log",
            "error",
        ]);
        let identity = self
            .cluster
            .identity(Role::Gateway, "copier")?
            .map(|folder| folder.display().to_string());
        if let Some(identity) = identity.as_deref().filter(|_| words[0] == "run") {
            all.extend(["--client-identity", identity]);
        }
        self.watch(|| self.cluster.amita(all))
    }

    fn shell(&self, line: &str) -> Result<(Came, String)> {
        self.watch(|| tool::run(self.scratch.folder(), "bash", ["-o", "pipefail", "-c", line], LIMIT))
    }

    fn peers(&self) -> Vec<Peer> {
        let text = |name: &str| self.path(name).display().to_string();
        let read = format!("nbdcopy '{}' -", self.cluster.uri(0, VOLUME));
        let (restic, borg) = (text("restic"), text("borg"));
        let restic = format!("RESTIC_PASSWORD=benchmark restic --quiet --no-cache --repo '{restic}'");
        let borg_with = format!("BORG_BASE_DIR='{}' BORG_PASSPHRASE=benchmark borg", text("borg-base"));
        vec![
            Peer {
                name: "restic",
                init: format!("{restic} init"),
                backup: format!("{read} | {restic} backup --stdin --stdin-filename volume"),
                restore: format!("{restic} dump latest volume >'{}'", text("restored")),
            },
            Peer {
                name: "borg",
                init: format!("{borg_with} init --encryption repokey-blake2 '{borg}'"),
                backup: format!("{read} | {borg_with} create --compression zstd,3 '{borg}::{{now:%s%f}}' -"),
                restore: format!(
                    "{borg_with} extract --stdout \"{borg}::$({borg_with} list --last 1 --short '{borg}')\" stdin >'{}'",
                    text("restored")
                ),
            },
        ]
    }
}

/// Measures and judges.
///
/// # Errors
/// When something does not start or fails. Never for a figure.
pub fn measure(steps: &mut Steps, size_bytes: u64, product: &Product, figures: &mut Figures) -> Result<()> {
    tool::find("nbdcopy")?;
    let testbed = steps.step("three nodes, and a volume to back up", || {
        Testbed::start(size_bytes, product)
    })?;
    let repository = testbed.path("amita");
    std::fs::create_dir(&repository).context(|| format!("cannot make {}", repository.display()))?;
    testbed.amita(&["repository", "init"])?;
    let (peers, missing): (Vec<Peer>, Vec<Peer>) =
        (testbed.peers().into_iter()).partition(|peer| tool::find(peer.name).is_ok());
    for peer in &missing {
        eprintln!("  {} is not installed: no backup is measured beside it", peer.name);
    }
    for peer in &peers {
        testbed.shell(&peer.init)?;
    }
    let run = |way: &str, steps: &mut Steps, figures: &mut Figures| -> Result<String> {
        let (came, told) = steps.step(&format!("a backup, {way}"), || testbed.amita(&["run", VOLUME]))?;
        let (name, label) = (format!("backup.amita.{way}"), format!("backup, {way}"));
        note(figures, &name, &label, size_bytes, came);
        let mut others = Vec::new();
        for peer in &peers {
            let (came, _) = steps.step(&format!("a backup by {}, {way}", peer.name), || {
                testbed.shell(&peer.backup)
            })?;
            others.push(came.took);
            let label = format!("backup by {}, {way}", peer.name);
            note(
                figures,
                &format!("backup.{}.{way}", peer.name),
                &label,
                size_bytes,
                came,
            );
        }
        judge_beside(figures, &name, &label, came.took, &others);
        Ok(told)
    };
    run("whole", steps, figures)?;
    let changed = size_bytes / 100 / u64::from(BLOCK_BYTES);
    testbed.write("change", "randwrite", BLOCK_BYTES, Some(changed))?;
    let told = run("changes", steps, figures)?;
    figures.at_most(
        "backup.amita.changes.sent_percent",
        "backup where one block of a hundred has changed: sent, of the volume",
        (sent(&told)? - SENT_BESIDE).max(0.0) * 100.0 / size_bytes as f64,
        "%",
        SENT_PERCENT,
    );

    let restored = testbed.path("restored");
    let to = restored.display().to_string();
    let (came, _) = steps.step("a restore to a file", || {
        testbed.amita(&["restore", "latest", "--to-file", &to])
    })?;
    let (name, label) = ("restore.amita", "restore to a file");
    note(figures, name, label, size_bytes, came);
    is_restored(&testbed, &restored)?;
    let mut others = Vec::new();
    for peer in &peers {
        let (came, _) = steps.step(&format!("a restore by {}", peer.name), || testbed.shell(&peer.restore))?;
        others.push(came.took);
        let label = format!("restore by {} to a file", peer.name);
        note(figures, &format!("restore.{}", peer.name), &label, size_bytes, came);
        is_restored(&testbed, &restored)?;
    }
    judge_beside(figures, name, label, came.took, &others);
    Ok(())
}

/// How many times as fast as the others this was; nothing where there are none.
fn judge_beside(figures: &mut Figures, name: &str, label: &str, took: Duration, others: &[Duration]) {
    let (Some(slower), Some(faster)) = (others.iter().max(), others.iter().min()) else {
        return;
    };
    let times = |other: &Duration| other.as_secs_f64() / took.as_secs_f64().max(1e-9);
    figures.at_least(
        &format!("{name}.times_slower"),
        &format!("{label}: as fast as the slower one of restic and borg, so many times"),
        times(slower),
        "",
        TIMES_SLOWER,
    );
    figures.note(
        &format!("{name}.times_faster"),
        &format!("{label}: as fast as the faster one, so many times"),
        times(faster),
        "",
    );
}

fn note(figures: &mut Figures, name: &str, label: &str, size_bytes: u64, came: Came) {
    let megabytes = size_bytes as f64 / 1e6;
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e3 / megabytes;
    let rate = megabytes / came.took.as_secs_f64().max(1e-9);
    figures.note(&format!("{name}.mb_s"), label, rate, "MB/s");
    let (command, cluster) = (
        format!("{label}: CPU of the command"),
        format!("{label}: CPU of the cluster"),
    );
    figures.note(&format!("{name}.cpu_ms_per_mb"), &command, each(came.command), "ms/MB");
    figures.note(
        &format!("{name}.cluster_cpu_ms_per_mb"),
        &cluster,
        each(came.cluster),
        "ms/MB",
    );
}

/// Bytes that a run has put, by what it tells.
fn sent(told: &str) -> Result<f64> {
    let told: serde_json::Value = serde_json::from_str(told).context(|| format!("not what a run tells: {told}"))?;
    let sent = told["sent_bytes"].as_f64();
    sent.ok_or_else(|| Failure::new(format!("a run does not tell what it has sent: {told}")))
}

/// Is the file what the volume is? It goes.
fn is_restored(testbed: &Testbed, file: &std::path::Path) -> Result<()> {
    let line = format!(
        "nbdcopy '{}' - | cmp - '{}'",
        testbed.cluster.uri(0, VOLUME),
        file.display()
    );
    testbed.shell(&line)?;
    std::fs::remove_file(file).context(|| format!("cannot remove {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::{Came, judge_beside, note, sent};
    use crate::report::Figures;
    use std::time::Duration;

    #[test]
    fn a_figure_is_of_each_megabyte_of_the_volume() {
        let came = Came {
            took: Duration::from_secs(4),
            command: Duration::from_millis(600),
            cluster: Duration::from_millis(100),
        };
        let mut figures = Figures::default();
        note(&mut figures, "restore.amita", "restore", 200_000_000, came);
        let all: Vec<(&str, f64)> = figures
            .all()
            .iter()
            .map(|figure| (figure.name.as_str(), figure.value))
            .collect();
        let expected = [
            ("restore.amita.mb_s", 50.0),
            ("restore.amita.cpu_ms_per_mb", 3.0),
            ("restore.amita.cluster_cpu_ms_per_mb", 0.5),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn the_slower_one_of_the_others_is_what_it_is_judged_by() {
        let judged = |took: u64, others: &[u64]| {
            let mut figures = Figures::default();
            let others: Vec<Duration> = others.iter().copied().map(Duration::from_secs).collect();
            judge_beside(
                &mut figures,
                "restore.amita",
                "restore",
                Duration::from_secs(took),
                &others,
            );
            figures.all().to_vec()
        };
        let both = judged(2, &[5, 1]);
        let told: Vec<_> = both
            .iter()
            .map(|one| (one.name.as_str(), one.value, one.holds))
            .collect();
        let expected = [
            ("restore.amita.times_slower", 2.5, Some(true)),
            ("restore.amita.times_faster", 0.5, None),
        ];
        assert_eq!(told, expected);
        assert_eq!(judged(6, &[5, 1])[0].holds, Some(false));
        assert!(judged(6, &[]).is_empty(), "nobody is there to be compared with");
    }

    #[test]
    fn what_a_run_does_not_tell_is_no_zero() {
        assert_eq!(sent(r#"{"sent_bytes": 4096}"#).expect("told"), 4096.0);
        assert!(sent("{}").is_err() && sent("x").is_err());
    }
}
