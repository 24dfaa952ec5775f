//! What is mounted where: `/proc/self/mountinfo` (proc(5)).

use super::machine::Machine;
use std::io;

/// Behind what is bound, and was removed where it lay: so is the file of a disk that goes.
const DELETED: &str = "//deleted";

/// Something that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The number of its file system's device.
    pub device: String,
    /// What of the file system is mounted: `/`, or for a bound file that.
    pub root: String,
    /// Where.
    pub at: String,
    /// It is read only here.
    pub is_read_only: bool,
    /// The file system.
    pub kind: String,
    /// What it is of, as it was mounted.
    pub source: String,
}

/// Spaces, tabs, line ends and backslashes are three octal digits.
fn plain(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn parse(line: &str) -> Option<Mount> {
    let (before, behind) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let mut behind = behind.split(' ');
    let (device, root, at) = (before.next()?, plain(before.next()?), plain(before.next()?));
    Some(Mount {
        device: device.to_owned(),
        root,
        at,
        is_read_only: before.next()?.split(',').any(|option| option == "ro"),
        kind: behind.next()?.to_owned(),
        source: plain(behind.next()?),
    })
}

/// All mounts, in their order.
pub(super) fn all(machine: &dyn Machine) -> io::Result<Vec<Mount>> {
    let text = machine.read("/proc/self/mountinfo")?;
    Ok(text.lines().filter_map(parse).collect())
}

/// What is mounted at a path, and seen there.
pub(super) fn at(machine: &dyn Machine, path: &str) -> io::Result<Option<Mount>> {
    let path = path.trim_end_matches('/');
    Ok(all(machine)?.into_iter().rfind(|mount| mount.at == path))
}

/// Is the disk gone that it is of, or that is bound there? What is of no disk is never lost. `beneath` tells which disk one lies on.
pub(super) fn is_lost(machine: &dyn Machine, mount: &Mount, beneath: impl FnOnce(&str) -> String) -> io::Result<bool> {
    if mount.root.ends_with(DELETED) {
        return Ok(true);
    }
    if mount.device.starts_with("0:") {
        return Ok(false);
    }
    let disk = machine.kind(&format!("/sys/dev/block/{}", beneath(&mount.device)))?;
    Ok(disk.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let line = "36 35 259:3 / /var/lib/kubelet/a\\040b rw,noatime shared:1 - ext4 /dev/nvme0n1 rw,errors=continue";
        let mount = parse(line).expect("a mount");
        assert_eq!(mount.at, "/var/lib/kubelet/a b");
        assert_eq!(
            (mount.device.as_str(), mount.root.as_str(), mount.is_read_only),
            ("259:3", "/", false)
        );
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext4", "/dev/nvme0n1"));
        let bound = parse("40 35 0:6 /nvme0n1 /target ro,nosuid - devtmpfs udev rw").expect("a mount");
        assert_eq!((bound.root.as_str(), bound.is_read_only), ("/nvme0n1", true));
        assert_eq!(parse("nonsense"), None);
        assert_eq!(plain("a\\134b\\"), "a\\b\\");
    }
}
