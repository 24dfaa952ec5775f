//! File systems, by stock tools. What holds something is never formatted.

use super::machine::{Machine, Ran};
use super::nvme::Disk;
use tonic::Status;

/// What is on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing that anybody knows.
    Empty,
    /// A file system.
    FileSystem(String),
    /// Something that has no mark.
    Unknown,
    /// Something else: partitions, or what cannot be told.
    Other(String),
}

impl Content {
    /// May a mkfs of this kind have left it in the middle?
    pub(super) fn may_be_of(&self, kind: &str) -> bool {
        match self {
            Content::Empty | Content::Unknown => true,
            Content::FileSystem(found) => found == kind,
            Content::Other(_) => false,
        }
    }
}

/// Runs a tool that has to end well.
pub(super) fn run(machine: &dyn Machine, tool: &str, words: &[&str]) -> Result<Ran, Status> {
    let ran = started(machine, tool, words)?;
    match ran.code {
        0 => Ok(ran),
        _ => Err(bad(tool, &ran)),
    }
}

fn started(machine: &dyn Machine, tool: &str, words: &[&str]) -> Result<Ran, Status> {
    let ran = machine.run(tool, words);
    ran.map_err(|why| Status::internal(format!("{tool} cannot be started: {why}")))
}

fn bad(tool: &str, ran: &Ran) -> Status {
    let said = if ran.err.is_empty() { &ran.out } else { &ran.err };
    Status::internal(format!("{tool} has ended with {}: {said}", ran.code))
}

/// Looks what is on a disk, past all caches (blkid(8)).
pub(super) fn content(machine: &dyn Machine, disk: &Disk) -> Result<Content, Status> {
    let device = disk.device();
    let words = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", &device];
    let ran = started(machine, "blkid", &words)?;
    let field = |key: &str| {
        ran.out
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::to_owned)
    };
    match ran.code {
        // It says so, too, where the disk could not be read, and knows no data that have no mark: a volume that is new has zeros.
        2 => match machine.is_blank(&device) {
            Ok(true) => Ok(Content::Empty),
            Ok(false) => Ok(Content::Unknown),
            Err(why) => Err(Status::internal(format!("{device} cannot be read: {why}"))),
        },
        0 => Ok(match (field("TYPE="), field("PTTYPE=")) {
            (_, Some(table)) => Content::Other(format!("partitions ({table})")),
            (Some(kind), None) => Content::FileSystem(kind),
            (None, None) => Content::Other("something that has no name".to_owned()),
        }),
        8 => Ok(Content::Other("several things at once".to_owned())),
        _ => Err(bad("blkid", &ran)),
    }
}

/// The words of further options. None names a file or another disk.
pub(crate) fn format_options(text: &str) -> Result<Vec<&str>, String> {
    match text.split_whitespace().find(|word| word.contains('/')) {
        None => Ok(text.split_whitespace().collect()),
        Some(word) => Err(format!("mkfsOptions has {word:?}: no word of it may have a /")),
    }
}

/// Makes a file system on an empty disk. What is thin and new has nothing to discard.
pub(super) fn make(machine: &dyn Machine, disk: &Disk, kind: &str, options: &str) -> Result<(), Status> {
    let device = disk.device();
    let mut words: Vec<&str> = match kind {
        // By force: what holds something does not come here, but for a mkfs that was cut.
        "xfs" => vec!["-f", "-K"],
        _ => vec!["-F", "-m", "0", "-E", "nodiscard"],
    };
    let wanted = format_options(options).map_err(Status::invalid_argument)?;
    if kind == "xfs" {
        // Without a disk it says what it knows, and ends.
        let usage = started(machine, "mkfs.xfs", &[])?;
        words.extend(older(&format!("{} {}", usage.out, usage.err), &wanted));
    }
    words.extend(wanted);
    words.push(&device);
    log::info!("{device} has nothing, and gets {kind}");
    run(machine, &format!("mkfs.{kind}"), &words).map(drop)
}

/// What newer releases of mkfs.xfs make by themselves, and kernels from 5.15 on cannot all mount: large extent counters need 5.19, parent pointers and the exchange of
/// ranges 6.10. A volume goes from node to node, so whichever kernel this one has is not asked. An option that this release does not know, or that is said
/// anyhow, is left out.
fn older(usage: &str, wanted: &[&str]) -> Vec<&'static str> {
    let all = [
        ("-i", "nrext64", "nrext64=0"),
        ("-n", "parent", "parent=0"),
        ("-i", "exchange", "exchange=0"),
    ];
    let is_needed = |name: &str| usage.contains(&format!("{name}=")) && !wanted.iter().any(|word| word.contains(name));
    let needed = all.into_iter().filter(|(_, name, _)| is_needed(name));
    needed.flat_map(|(flag, _, value)| [flag, value]).collect()
}

/// Has a file system repaired that was not ended well. XFS does so when it is mounted. One that is mounted still, by a mount that has come into another name space,
/// is in use, and no tool takes it: the mount that is made is of the same one.
pub(super) fn check(machine: &dyn Machine, disk: &Disk, kind: &str) -> Result<(), Status> {
    if kind == "xfs" {
        return Ok(());
    }
    let device = disk.device();
    match machine.claim(&device) {
        Ok(Some(free)) => drop(free),
        Ok(None) => {
            log::warn!("{device} is mounted where it is not seen from here: it is not checked");
            return Ok(());
        }
        Err(why) => return Err(Status::internal(format!("{device}: {why}"))),
    }
    let ran = started(machine, &format!("fsck.{kind}"), &["-a", &device])?;
    match ran.code {
        // Well, or well again (fsck(8)).
        0 | 1 => Ok(()),
        _ => Err(bad("fsck", &ran)),
    }
}

/// Has a mounted file system be as large as its disk; one that is, stays.
pub(super) fn grow(machine: &dyn Machine, disk: &Disk, kind: &str, at: &str) -> Result<(), Status> {
    match kind {
        "xfs" => run(machine, "xfs_growfs", &["-d", at]).map(drop),
        _ => run(machine, "resize2fs", &[&disk.device()]).map(drop),
    }
}

/// Mounts a disk.
pub(super) fn mount(
    machine: &dyn Machine,
    disk: &Disk,
    (kind, is_read_only): (&str, bool),
    options: &[String],
    at: &str,
) -> Result<(), Status> {
    let own: &[&str] = match (kind, is_read_only) {
        // A clone has the UUID of what it was made from.
        ("xfs", false) => &["nouuid"],
        // The log of a snapshot cannot be replayed.
        ("xfs", true) => &["ro", "norecovery", "nouuid"],
        (_, false) => &[],
        (_, true) => &["ro", "noload"],
    };
    let mut all: Vec<&str> = options.iter().map(String::as_str).collect();
    all.extend(own.iter().filter(|own| !options.iter().any(|option| option == **own)));
    let device = disk.device();
    let joined = all.join(",");
    let mut words = vec!["-t", kind];
    if !joined.is_empty() {
        words.extend(["-o", joined.as_str()]);
    }
    words.extend([device.as_str(), at]);
    run(machine, "mount", &words).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Usages as releases print them, in part: 5.10, 6.1, 6.13.
    #[test]
    fn a_file_system_is_made_such_as_older_kernels_mount() {
        let before = "/* inode size */ [-i perblock=n|size=num,maxpct=n,attr=0|1|2,projid32bit=0|1,sparse=0|1]";
        let middle =
            "/* inode size */ [-i perblock=n|size=num,maxpct=n,attr=0|1|2,projid32bit=0|1,sparse=0|1,nrext64=0|1]";
        let newest = "[-i perblock=n|size=num,maxpct=n,attr=0|1|2,projid32bit=0|1,sparse=0|1,nrext64=0|1,exchange=0|1] \
                      [-n size=num,version=2|ci,ftype=0|1,parent=0|1]]";
        assert_eq!(older(before, &[]), [""; 0]);
        assert_eq!(older(middle, &[]), ["-i", "nrext64=0"]);
        assert_eq!(
            older(newest, &[]),
            ["-i", "nrext64=0", "-n", "parent=0", "-i", "exchange=0"]
        );
        assert_eq!(older(middle, &["-i", "nrext64=1"]), [""; 0]);
    }
}
