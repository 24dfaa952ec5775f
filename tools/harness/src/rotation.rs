//! The exchange of a cluster's certificates and of its authority, by the commands that an operator has, while it serves.

use crate::cluster::Cluster;
use crate::tool::Output;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::interrupt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The old authority goes on signing for so long: more than a process takes until it looks at its folder.
const SIGNS_AFTER: &str = "15s";
/// What a process says that has taken what it found in its folder.
const TAKEN: &str = "the folder has changed";
/// How long processes may take for that, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exchanges the authority: it is introduced and heard of, all certificates go over to it, and the old one is trusted no
/// more. Every certificate is a new one three times.
///
/// # Errors
/// When nodes prove nothing, a command fails, or a process does not take what it was given.
pub fn exchange_authority(cluster: &Cluster) -> Result<()> {
    let rotation = Rotation::of(cluster)?;
    let begun = rotation.amita(&["ca", "rotate", "--signs-after", SIGNS_AFTER, "--json"])?;
    let signs_from = json(&begun)?["signs_from"]
        .as_u64()
        .ok_or_else(|| Failure::new(format!("no time in {}", begun.text)))?;
    rotation.renew_all()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    interrupt::sleep(Duration::from_secs(signs_from + 1).saturating_sub(now))?;
    rotation.renew_all()?;
    rotation.amita(&["ca", "rotate", "--finish"])?;
    rotation.renew_all()?;
    rotation.check()
}

struct Rotation<'a> {
    cluster: &'a Cluster,
    authority: String,
    /// The folders of all that the authority has made a certificate for.
    identities: Vec<PathBuf>,
    /// Where the processes say what they have taken.
    logs: Vec<PathBuf>,
}

impl<'a> Rotation<'a> {
    fn of(cluster: &'a Cluster) -> Result<Rotation<'a>> {
        let authority = cluster
            .authority()
            .ok_or_else(|| Failure::new("the cluster has no authority that could be exchanged").kind(Kind::Usage))?;
        let nodes = (0..cluster.nodes().len()).filter(|&node| cluster.nodes()[node].process.is_some());
        let logs = nodes.map(|node| cluster.node_log(node));
        Ok(Rotation {
            cluster,
            authority: authority.folder().display().to_string(),
            identities: identities(cluster.folder())?,
            logs: logs
                .chain(cluster.metadata_process().map(|process| process.log().to_owned()))
                .collect(),
        })
    }

    /// A command on the authority's folder, which must succeed.
    fn amita(&self, arguments: &[&str]) -> Result<Output> {
        let all = arguments.iter().copied().chain(["--ca", &self.authority]);
        self.cluster.amita(all)?.success()
    }

    /// Renews every certificate, and waits until whoever serves has taken it.
    fn renew_all(&self) -> Result<()> {
        let before: Vec<usize> = self.logs.iter().map(|log| taken(log)).collect();
        for folder in &self.identities {
            let folder = folder.display().to_string();
            self.amita(&["cert", "renew", "--identity", &folder])?;
        }
        let all = interrupt::poll(PATIENCE, Duration::from_millis(100), || {
            let mut logs = self.logs.iter().zip(&before);
            Ok(logs.all(|(log, &before)| taken(log) > before).then_some(()))
        })?;
        all.ok_or_else(|| Failure::new("not every process has taken its new certificate"))
    }

    /// Everybody trusts one authority again, and is believed by it.
    fn check(&self) -> Result<()> {
        for folder in &self.identities {
            let folder = folder.display().to_string();
            let shown = json(&self.cluster.amita(["cert", "show", &folder, "--json"])?.success()?)?;
            if shown["ok"] != true || shown["authorities"] != 1 {
                return Err(Failure::new(format!("after the exchange {folder} is {shown}")));
            }
        }
        Ok(())
    }
}

fn json(output: &Output) -> Result<serde_json::Value> {
    serde_json::from_str(&output.text).context(|| format!("not JSON: {}", output.text))
}

fn identities(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot read {}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).context(failed)? {
        let path = entry.context(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "identity") {
            found.push(path);
        }
    }
    Ok(found)
}

/// How often a process has said that it took something.
fn taken(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.matches(TAKEN).count()
}
