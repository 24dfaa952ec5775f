//! `amita demo --keep` and `--stop`: a cluster that is left running, and its end.

use super::facts::{FILE, Facts};
use super::{Arguments, VOLUME};
use amita_harness::cluster::{Cluster, Config, Links, METADATA_FILE, Metadata, SOCKETS};
use amita_harness::nbd::Client;
use amita_harness::scratch::Scratch;
use amita_harness::tool;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::progress::Steps;
use amita_terminal::say_line;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// How long a process may take to end in order.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Starts the cluster and leaves it.
pub(super) fn start(arguments: &Arguments, links: Links) -> Result<()> {
    interrupt::catch();
    tool::find("setpriv")?;
    let mut steps = Steps::new();
    let nodes = usize::from(arguments.nodes);
    let store_bytes = arguments.store_bytes();
    let mut scratch = Scratch::make(
        "demo",
        arguments.dir.as_deref(),
        arguments.store_dir.as_deref(),
        store_bytes * nodes as u64,
    )?;
    let cluster = steps.step(
        &format!("starting {nodes} nodes, stores on {}", scratch.backing()),
        || {
            let config = Config {
                binary: crate::own_binary()?,
                folder: scratch.folder().to_owned(),
                store_folder: scratch.stores().to_owned(),
                nodes,
                store_bytes,
                metadata: Metadata::Embedded,
                bound: false,
                links,
                serve_arguments: Vec::new(),
            };
            Cluster::start_with(config, Cluster::give_sockets)
        },
    )?;
    steps.step("a pool and a volume", || cluster.make_volume(VOLUME, arguments.size))?;
    // The first node opens the volume, so that the owner comes first in the lists.
    let first = cluster.nodes()[0].nbd;
    Client::open(first, VOLUME, PATIENCE)
        .context(|| format!("cannot open the volume at {first}"))?
        .close();
    let nqn = cluster.offer_by_nvme(VOLUME)?;
    let facts = Facts::of(&cluster, VOLUME, arguments.size, &nqn)?;
    facts.write(scratch.folder())?;
    interrupt::check()?;
    cluster.leave();
    scratch.keep();
    say_what_to_try(&facts, scratch.folder())
}

fn say_what_to_try(facts: &Facts, folder: &Path) -> Result<()> {
    let (uri, last) = (&facts.volume.nbd[0], &facts.nodes[facts.nodes.len() - 1]);
    let shown = folder.display();
    say_line!("\nThe cluster is up. {shown}/{FILE} says where everything is. Try:\n");
    for (name, value) in &facts.env {
        say_line!("  export {name}='{}'", value.replace('\'', r"'\''"));
    }
    say_line!("  amita status");
    say_line!("  amita volume list");
    say_line!("  nbdinfo {uri}");
    say_line!("  fio --name=try --ioengine=nbd --uri={uri} --rw=randwrite --bs=4k --iodepth=32 \\");
    say_line!("      --time_based --runtime=20");
    say_line!(
        "  kill -9 {}        # node {}, while fio runs: I/O goes on",
        last.pid,
        last.name
    );
    let portals = facts.nodes.iter().filter_map(|node| node.nvme.as_deref());
    for (host, port) in portals.filter_map(|portal| portal.rsplit_once(':')).take(1) {
        say_line!("  sudo modprobe nvme-tcp && sudo nvme connect-all --transport=tcp --traddr={host} --trsvcid={port}");
    }
    if let Some(api) = &facts.api {
        let token = if facts.env.contains_key("AMITA_TOKEN") {
            " --insecure -H \"Authorization: Bearer $AMITA_TOKEN\""
        } else {
            ""
        };
        say_line!("  curl{token} {api}/api/v1/health");
        if amita_page::is_built() {
            say_line!("  {api}/        # the page, in a browser; it asks for the token");
        }
    }
    say_line!("  tail -f {shown}/n1.log");
    say_line!("\nEnd it with:\n  amita demo --stop --dir {shown}");
    Ok(())
}

/// Ends a cluster that was left, and removes its files.
pub(super) fn stop(folder: &Path) -> Result<()> {
    refuse_foreign(folder)?;
    refuse_foreign(&folder.join(FILE))?;
    let facts = Facts::read(folder)?;
    let processes: Vec<u32> = facts
        .nodes
        .iter()
        .map(|node| node.pid)
        .chain([facts.metadata.pid])
        .collect();
    let ours: Vec<Pid> = processes
        .iter()
        .copied()
        .filter(|&pid| is_amita(pid))
        .filter_map(pid_of)
        .collect();
    for &pid in &ours {
        // It may have ended by itself in between, which is as good.
        let _ = kill_process(pid, Signal::TERM);
    }
    let until = Instant::now() + STOP_PATIENCE;
    while ours.iter().any(|pid| is_alive(*pid)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    for &pid in &ours {
        let _ = kill_process(pid, Signal::KILL);
    }
    for (node, disk) in facts
        .nodes
        .iter()
        .flat_map(|node| node.disks.iter().map(move |disk| (node, disk)))
    {
        let Some(stores) = disk.parent().filter(|_| is_store_of_the_demo(&node.name, disk)) else {
            log::warn!("{} stays: it is no file that a demo of this user makes", disk.display());
            continue;
        };
        remove_file(disk)?;
        if is_own_file(&stores.join(METADATA_FILE)) {
            remove_file(&stores.join(METADATA_FILE))?;
        }
        remove_if_empty(Some(stores));
    }
    for entry in std::fs::read_dir(folder)
        .context(|| format!("cannot read {}", folder.display()))?
        .flatten()
    {
        let path = entry.path();
        if is_of_the_demo(&path) {
            remove_file(&path)?;
        } else if is_closed_folder_of_the_demo(&path) {
            remove_contents(&path)?;
        }
    }
    remove_if_empty(Some(folder));
    say_line!("Ended {} processes.", ours.len());
    Ok(())
}

/// A number may have been given to another process since: only one that runs this program is ended.
fn is_amita(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = command.split(|&byte| byte == 0).nth(1).unwrap_or_default();
    name.trim_end().starts_with("amita") && (first == b"serve" || first == b"meta")
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// A process that has ended and that nobody has waited for yet counts as ended.
fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rfind(')')
        .is_some_and(|end| !stat[end + 1..].trim_start().starts_with(['Z', 'X']))
}

/// Whoever else can write there can name files to be removed and processes to be ended. What does not exist is said by
/// whoever reads it.
fn refuse_foreign(path: &Path) -> Result<()> {
    let Ok(facts) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    let (shown, mode) = (path.display(), facts.mode() & 0o777);
    if facts.uid() != rustix::process::geteuid().as_raw() {
        let failure = Failure::new(format!("{shown} belongs to another user: what it names is not touched"));
        return Err(failure
            .kind(Kind::Unreadable)
            .advice("Whoever has started the demo can end it."));
    }
    if !facts.is_symlink() && mode & 0o022 != 0 {
        let failure = Failure::new(format!(
            "others can write {shown} (mode {mode:04o}): what it names is not touched"
        ));
        return Err(failure
            .kind(Kind::Unreadable)
            .advice(format!("If it is as the demo has left it: chmod go-w {shown}")));
    }
    Ok(())
}

/// A regular file of this user, and no link to one.
fn is_own_file(path: &Path) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|facts| facts.is_file() && facts.uid() == rustix::process::geteuid().as_raw())
}

/// A node's store as the demo makes it: of its name, of this user, in a folder into which nobody else writes.
fn is_store_of_the_demo(node: &str, disk: &Path) -> bool {
    let is_named = disk.is_absolute()
        && disk
            .file_name()
            .is_some_and(|name| name == format!("{node}.store").as_str());
    let own_folder = |folder: &Path| refuse_foreign(folder).is_ok() && !folder.is_symlink();
    is_named && is_own_file(disk) && disk.parent().is_some_and(own_folder)
}

/// Files that the demo makes in its folder; what somebody else put there stays.
fn is_of_the_demo(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == FILE || name.ends_with(".log")
}

/// The folder of the throw-away authority, of a node's identity, or of the nodes' sockets: nobody's but this user's.
fn is_closed_folder_of_the_demo(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_named = name == "ca" || name == SOCKETS || name.ends_with(".identity");
    let is_folder = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir() && facts.mode() & 0o077 == 0);
    is_named && is_folder && refuse_foreign(path).is_ok()
}

/// A socket of this user: of a node that was killed.
fn is_own_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|facts| facts.file_type().is_socket() && facts.uid() == rustix::process::geteuid().as_raw())
}

fn remove_contents(folder: &Path) -> Result<()> {
    let entries = std::fs::read_dir(folder).context(|| format!("cannot read {}", folder.display()))?;
    for path in entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_own_file(path) || is_own_socket(path))
    {
        remove_file(&path)?;
    }
    remove_if_empty(Some(folder));
    Ok(())
}

fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::new(format!("cannot remove {}: {error}", path.display()))),
    }
}

fn remove_if_empty(folder: Option<&Path>) {
    // A folder that still holds something is somebody else's and stays.
    let _ = folder.map(std::fs::remove_dir);
}

#[cfg(test)]
mod tests;
