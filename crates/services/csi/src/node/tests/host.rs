//! A machine that is made up: what sysfs says of paths and a disk, mounts, tools, and a place where it is cut.

mod luks;

pub use luks::{Luks, Mapped};

use crate::node::Registered;
use crate::node::copied::Copied;
use crate::node::discovery::{self, NQN as DISCOVERY};
use crate::node::machine::{Claim, Claimed, Kind, Machine, Ran, Reserve, Reserved, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use uuid::Uuid;

pub const DISK_UUID: &str = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";
const DISK: &str = "nvme3n1";
/// The path of an attachment that was lost.
const LOST: &str = "nvme90";
/// Its disk.
pub const LOST_DISK: &str = "/dev/nvme9n1";

/// Where it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Before(usize),
    After(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub source: String,
    pub root: String,
    pub at: String,
    pub kind: String,
    pub is_read_only: bool,
}

/// A mapping's disk.
pub const MAPPED: &str = "dm-7";
const MAPPED_DEVICE: &str = "/dev/dm-7";
/// Before the name of one.
pub const BY_NAME: &str = "/dev/mapper/";

#[derive(Debug, Default)]
pub struct State {
    pub nqn: String,
    /// Paths: their number and address.
    pub paths: Vec<(usize, String)>,
    last_path: usize,
    /// An attachment that was lost: its subsystem, of which there is a path still.
    pub lost: Option<String>,
    /// Which attachment that was.
    pub lost_number: u32,
    /// The kernel has two disks of one UUID.
    pub takes_both: bool,
    /// The kernel ignores the disk: when it looked, the lost one had its UUID.
    is_ignored: bool,
    /// Gateways that do not answer.
    pub away: BTreeSet<String>,
    /// Gateways that have not heard of the volume yet: they refuse so often.
    pub refusals: BTreeMap<String, usize>,
    /// Gateways that take a connection by TCP, and say nothing then.
    pub half_dead: BTreeSet<String>,
    /// The time that has passed.
    pub passed: Duration,
    /// What was written to `/dev/nvme-fabrics` of the volume.
    pub lines: Vec<String>,
    /// What gateways know of the volume, as their discovery services say.
    pub gateways: Vec<&'static str>,
    /// Gateways whose discovery services name nothing.
    pub mute: BTreeSet<&'static str>,
    /// Paths that the kernel tries.
    pub broken: BTreeSet<&'static str>,
    /// By what one of those services was asked last.
    pub asked: String,
    /// There is a path to one of those services.
    pub is_discovering: bool,
    /// What is on the disk.
    pub content: Option<String>,
    /// What opens the disk, where it is one of LUKS.
    pub luks: Option<Luks>,
    /// What it shows in place of that to who looks a second time.
    pub lies: Option<Luks>,
    /// Copies of what it has shown.
    heads: Vec<Luks>,
    /// What decrypts it.
    pub mapping: Option<Mapped>,
    /// What cryptsetup does not do, and the code that it ends with.
    pub cryptsetup_fails: Option<(&'static str, i32)>,
    /// The next luksFormat is killed in the middle.
    pub is_luks_format_killed: bool,
    /// Who holds the disk, so that its name is its own.
    pub pins: usize,
    /// It goes away before somebody does.
    pub goes_before_pin: bool,
    /// There is no cryptsetup at this machine.
    pub has_no_cryptsetup: bool,
    /// On a disk of which tools say that there is nothing: bytes that are not zero, or none that can be read.
    pub has_data: bool,
    pub is_unreadable: bool,
    pub formatted: usize,
    /// The next mkfs is killed in the middle.
    pub is_mkfs_killed: bool,
    /// It is mounted where the driver cannot see it, and something of it is not written yet.
    pub is_used_elsewhere: bool,
    /// What the kernel has built on its first partition: disks of the device mapper.
    pub built: Vec<&'static str>,
    /// Mounts, and disks, whose data were written.
    pub synced: Vec<String>,
    pub is_read_only: bool,
    bytes: u64,
    /// What it has when the kernel looks again.
    pub will_have: Option<u64>,
    pub file_system_bytes: u64,
    pub holder: Option<u64>,
    pub registered: BTreeSet<u64>,
    /// Whose keys are not this host's; a holder that did not register here is nobody's that is known.
    pub hosts: BTreeMap<u64, Uuid>,
    /// The kernel does not tell who is registered.
    pub is_silent: bool,
    pub mounts: Vec<Mount>,
    folders: BTreeSet<String>,
    files: BTreeSet<String>,
    pub ran: Vec<String>,
    pub machine_id: String,
    /// What the kernel says of it; nothing: it knows none.
    pub multipath: &'static str,
    done: usize,
    cut: Option<Cut>,
    /// The driver was ended there: nothing that it does takes place any more.
    is_ended: bool,
}

/// A field of a line.
fn field<'a>(line: &'a str, key: &str) -> &'a str {
    let mut fields = line.split(',');
    fields.find_map(|field| field.strip_prefix(key)).unwrap_or_default()
}

#[derive(Clone)]
pub struct Host(Arc<Mutex<State>>);

fn gone(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what.to_owned())
}

fn ran(code: i32, out: &str) -> Ran {
    Ran {
        code,
        out: out.to_owned(),
        err: String::new(),
    }
}

impl Host {
    pub fn new(nqn: &str) -> Host {
        Host(Arc::new(Mutex::new(State {
            nqn: nqn.to_owned(),
            bytes: 1 << 30,
            multipath: "Y",
            gateways: vec!["192.0.2.1:4420", "192.0.2.2:4420"],
            machine_id: "0123456789abcdef0123456789abcdef\n".to_owned(),
            ..State::default()
        })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody has panicked")
    }

    pub fn cut(&self, cut: Option<Cut>) {
        let mut state = self.state();
        state.cut = cut;
        state.done = 0;
        state.is_ended = false;
    }

    /// So many things were done to the machine since it was last told where to cut.
    pub fn done(&self) -> usize {
        self.state().done
    }

    /// All that there is, for a comparison; numbers of paths tell only how often they were made.
    pub fn shape(&self) -> String {
        let state = self.state();
        let paths: BTreeSet<&String> = state.paths.iter().map(|(_, address)| address).collect();
        format!(
            "{paths:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {}",
            state.luks,
            state.mapping,
            state.lost,
            state.content,
            state.holder,
            state.registered,
            state.mounts,
            state.folders,
            state.files,
            state.file_system_bytes
        )
    }

    /// Does something to the machine, or is cut.
    pub fn act<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        state.done += 1;
        let (number, cut) = (state.done, state.cut);
        let ended = || io::Error::other("the driver was ended");
        if state.is_ended || cut == Some(Cut::Before(number)) {
            state.is_ended = true;
            return Err(ended());
        }
        let done = act(&mut state);
        if cut == Some(Cut::After(number)) {
            state.is_ended = true;
            return Err(ended());
        }
        done
    }
}

impl State {
    fn has_disk(&self) -> bool {
        !self.paths.is_empty() && !self.is_ignored
    }

    fn is_making(&self) -> bool {
        self.holder.is_some_and(|key| crate::id::is_making(key, super::own()))
    }

    fn is_in_use(&self) -> bool {
        let (device, root) = (format!("/dev/{DISK}"), format!("/{DISK}"));
        let is_it = |mount: &Mount| mount.source == device || mount.root == root;
        self.is_used_elsewhere || self.mapping.is_some() || self.mounts.iter().any(is_it)
    }

    /// Is what decrypts the disk mounted, or bound?
    fn is_text_in_use(&self) -> bool {
        let is_it = |mount: &Mount| mount.source.starts_with(BY_NAME) || mount.root.starts_with("/mapper/");
        self.mounts.iter().any(is_it)
    }

    /// Does what decrypts a disk lie on one that is gone?
    fn is_mapping_dead(&self) -> bool {
        let is_dead = |mapping: &Mapped| mapping.name.ends_with("-259-9") && self.lost.is_none();
        self.mapping.as_ref().is_some_and(is_dead)
    }

    fn mountinfo(&self) -> String {
        let mut text = String::new();
        for (number, mount) in self.mounts.iter().enumerate() {
            let device = match mount.source.as_str() {
                LOST_DISK => "259:9",
                "/dev/sda1" => "8:1",
                by_name if by_name.starts_with(BY_NAME) => "253:7",
                _ if mount.root == "/" => "259:3",
                _ => "0:6",
            };
            let access = if mount.is_read_only { "ro" } else { "rw" };
            let (root, at, kind, source) = (&mount.root, &mount.at, &mount.kind, &mount.source);
            // A text takes what is written to it.
            let _ = writeln!(
                text,
                "{number} 1 {device} {root} {at} {access},noatime - {kind} {source} rw"
            );
        }
        text
    }

    fn mount(&mut self, words: &[&str]) -> Ran {
        let (Some(source), Some(at)) = (words.iter().rev().nth(1), words.last()) else {
            return ran(1, "usage");
        };
        let mount = |source: &str, root: &str, kind: &str, is_read_only| Mount {
            source: source.to_owned(),
            root: root.to_owned(),
            at: (*at).to_owned(),
            kind: kind.to_owned(),
            is_read_only,
        };
        let device = format!("/dev/{DISK}");
        let made = match words {
            ["-o", "remount,bind,ro", at] => {
                let there = self.mounts.iter_mut().rfind(|mount| mount.at == *at);
                return match there {
                    Some(there) => {
                        there.is_read_only = true;
                        ran(0, "")
                    }
                    None => ran(32, "not mounted"),
                };
            }
            ["--bind", source, at] if *source == MAPPED_DEVICE => {
                assert!(
                    self.files.contains(*at) && self.mapping.is_some(),
                    "a disk is bound to a file"
                );
                assert!(
                    !self.is_making(),
                    "who may write to a disk is not making anything there"
                );
                // By the file of its name, as mount(8) does it, which is none of udev's here.
                let name = self.mapping.as_ref().map_or("", |mapping| &mapping.name);
                mount("udev", &format!("/mapper/{name}"), "devtmpfs", false)
            }
            ["--bind", source, at] if *source == device => {
                assert!(self.files.contains(*at), "a disk is bound to a file");
                assert!(
                    !self.is_making(),
                    "who may write to a disk is not making a file system there"
                );
                mount("udev", &format!("/{DISK}"), "devtmpfs", false)
            }
            ["--bind", source, _] => match self.mounts.iter().rfind(|mount| mount.at == *source) {
                Some(there) => Mount {
                    at: (*at).to_owned(),
                    ..there.clone()
                },
                None => return ran(32, "nothing is there"),
            },
            ["-t", kind, ..] => {
                let content = match (*source, &self.luks) {
                    (MAPPED_DEVICE, Some(luks)) => luks.content.as_deref(),
                    _ => self.content.as_deref(),
                };
                assert_eq!(Some(*kind), content, "what is mounted is on the disk");
                assert!(self.folders.contains(*at), "a place for a mount");
                let is_read_only = words.iter().any(|word| word.split(',').any(|option| option == "ro"));
                assert!(is_read_only || !self.is_read_only);
                assert!(!self.is_making(), "what is mounted is whole, and its key says so");
                // mount(8) says what of the device mapper it is by its name.
                let by_name = self.mapping.as_ref().filter(|_| *source == MAPPED_DEVICE);
                let source = by_name.map_or((*source).to_owned(), |mapping| format!("{BY_NAME}{}", mapping.name));
                mount(&source, "/", kind, is_read_only)
            }
            _ => return ran(1, "usage"),
        };
        self.mounts.push(made);
        ran(0, "")
    }

    fn tool(&mut self, tool: &str, words: &[&str]) -> Ran {
        self.ran.push(format!("{tool} {}", words.join(" ")));
        let is_writer = matches!(
            tool,
            "mkfs.ext4" | "mkfs.xfs" | "fsck.ext4" | "resize2fs" | "xfs_growfs"
        );
        assert!(!is_writer || !self.is_read_only, "{tool} writes to what is only read");
        match tool {
            "mkfs.xfs" if words.is_empty() => ran(1, "usage: [-i size=num,nrext64=0|1]"),
            // Behind a passphrase there are no zeros: what was never written is noise.
            "blkid" if words.last() == Some(&MAPPED_DEVICE) => {
                let luks = self.luks.as_ref().expect("it was opened");
                luks.content
                    .as_ref()
                    .map_or_else(|| ran(2, ""), |kind| ran(0, &format!("TYPE={kind}")))
            }
            "blkid" => match self.content.as_deref() {
                None => ran(2, ""),
                Some("partitions") => ran(0, "DEVNAME=/dev/x\nPTTYPE=gpt"),
                Some("ambivalent") => ran(8, ""),
                Some("broken") => ran(4, ""),
                Some(kind) => ran(0, &format!("DEVNAME=/dev/x\nTYPE={kind}")),
            },
            "mkfs.ext4" | "mkfs.xfs" if words.last() == Some(&MAPPED_DEVICE) => {
                let mapped = self.mapping.as_ref().expect("it is open").bytes;
                let is_unfinished = self.is_making();
                let luks = self.luks.as_mut().expect("it was opened");
                assert!(
                    is_unfinished || luks.content.is_none(),
                    "what holds something is not formatted"
                );
                if std::mem::take(&mut self.is_mkfs_killed) {
                    return ran(-1, "killed");
                }
                luks.content = tool.strip_prefix("mkfs.").map(str::to_owned);
                (self.file_system_bytes, self.formatted) = (mapped, self.formatted + 1);
                ran(0, "")
            }
            "mkfs.ext4" | "mkfs.xfs" => {
                let is_unfinished = self.is_making();
                let is_empty = self.content.is_none() && !self.has_data;
                assert!(is_unfinished || is_empty, "what holds something is not formatted");
                if std::mem::take(&mut self.is_mkfs_killed) {
                    self.has_data = true;
                    return ran(-1, "killed");
                }
                self.has_data = false;
                self.content = tool.strip_prefix("mkfs.").map(str::to_owned);
                self.file_system_bytes = self.bytes;
                self.formatted += 1;
                ran(0, "")
            }
            "fsck.ext4" if words.last() == Some(&MAPPED_DEVICE) => ran(if self.is_text_in_use() { 8 } else { 1 }, ""),
            "fsck.ext4" if self.is_in_use() => ran(8, "/dev/nvme3n1 is in use."),
            "fsck.ext4" => ran(1, "repaired"),
            "mount" => self.mount(words),
            "dmsetup" => {
                assert!(words[..2] == ["remove", "--deferred"] && self.is_mapping_dead());
                if !self.is_text_in_use() {
                    self.mapping = None;
                }
                ran(0, "")
            }
            "umount" => {
                let is_meant = |mount: &Mount| Some(&mount.at.as_str()) == words.last();
                let Some(at) = self.mounts.iter().rposition(is_meant) else {
                    return ran(32, "not mounted");
                };
                self.mounts.remove(at);
                ran(0, "")
            }
            "resize2fs" | "xfs_growfs" => {
                assert!(!self.mounts.is_empty(), "it grows where it is mounted");
                if tool == "xfs_growfs" {
                    let is_there = |mount: &&Mount| Some(&mount.at.as_str()) == words.last();
                    let there = self.mounts.iter().rfind(is_there).expect("a mount");
                    if there.is_read_only {
                        return ran(1, "Read-only file system");
                    }
                }
                self.file_system_bytes = self.mapping.as_ref().map_or(self.bytes, |mapping| mapping.bytes);
                ran(0, "")
            }
            _ => ran(0, ""),
        }
    }

    /// What a path was connected by.
    fn line(&self, address: &str) -> &str {
        let (ip, port) = address.split_once(':').expect("an address");
        let wanted = format!(",traddr={ip},trsvcid={port},");
        let found = self.lines.iter().rfind(|line| line.contains(&wanted));
        found.expect("it was connected")
    }

    /// What sysfs says of a path that was connected by a line.
    fn attribute(line: &str, name: &str) -> String {
        let option = match name {
            "queue_count" => {
                let queues: u32 = field(line, "nr_io_queues=").parse().expect("a number");
                return format!("{}\n", queues + 1);
            }
            "kato" => "keep_alive_tmo=".to_owned(),
            "tls_key" if line.split(',').any(|word| word == "tls") => return "3f2c1a90\n".to_owned(),
            "tls_key" => return String::new(),
            other => format!("{other}="),
        };
        match field(line, &option) {
            "" => "none\n".to_owned(),
            "-1" => "off\n".to_owned(),
            value => format!("{value}\n"),
        }
    }

    fn connect(&mut self, line: &str) -> io::Result<String> {
        let address = format!("{}:{}", field(line, "traddr="), field(line, "trsvcid="));
        assert!(
            !self.away.contains(&address),
            "the kernel would wait for an address that says nothing"
        );
        if self.half_dead.contains(&address) {
            self.lines.push(line.to_owned());
            self.passed += Duration::from_secs(10);
            return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        }
        if field(line, "nqn=") == DISCOVERY {
            self.is_discovering = true;
            self.asked = line.to_owned();
            return Ok("instance=80,cntlid=1".to_owned());
        }
        self.lines.push(line.to_owned());
        assert_eq!(field(line, "nqn="), self.nqn);
        if let Some(left) = self.refusals.get_mut(&address).filter(|left| **left > 0) {
            *left -= 1;
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if self.paths.iter().any(|(_, there)| *there == address) {
            return Err(io::Error::from_raw_os_error(114));
        }
        self.is_ignored |= self.paths.is_empty() && self.lost.is_some() && !self.takes_both;
        self.last_path += 1;
        self.paths.push((self.last_path, address));
        Ok(format!("instance={},cntlid=1", self.last_path))
    }

    /// What becomes of a reservation (NVM Express Base Specification 2.1, 8.1.22), as far as it is used.
    fn reserve(&mut self, what: Reserve) -> io::Result<Reserved> {
        if !self.has_disk() {
            return Err(gone("no disk"));
        }
        match what {
            Reserve::Register(key) => {
                // Whatever it was known by.
                let own: Vec<u64> = self
                    .registered
                    .iter()
                    .copied()
                    .filter(|known| !self.hosts.contains_key(known))
                    .collect();
                self.registered.retain(|known| !own.contains(known));
                self.registered.insert(key);
                if self.holder.is_some_and(|holder| own.contains(&holder)) {
                    self.holder = Some(key);
                }
            }
            Reserve::Replace(key, other) => {
                if !self.registered.remove(&key) {
                    return Ok(Reserved::Conflict);
                }
                self.registered.insert(other);
                if self.holder == Some(key) {
                    self.holder = Some(other);
                }
            }
            Reserve::Hold(key) => {
                if !self.registered.contains(&key) {
                    return Ok(Reserved::Conflict);
                }
                if self.holder.is_some_and(|holder| holder != key) {
                    return Ok(Reserved::Conflict);
                }
                self.holder = Some(key);
            }
            Reserve::Preempt(key, other) => {
                assert!(self.registered.contains(&key), "who preempts is registered");
                match self.holder {
                    // Who preempts itself stays.
                    Some(holder) if holder == other => {
                        self.registered.retain(|known| *known == key || *known != other);
                        self.holder = Some(key);
                    }
                    _ if self.registered.remove(&other) => {}
                    _ => return Ok(Reserved::Conflict),
                }
            }
            Reserve::Clear(key) => {
                if !self.registered.contains(&key) {
                    return Ok(Reserved::Conflict);
                }
                self.registered.clear();
                self.holder = None;
            }
        }
        Ok(Reserved::Done)
    }
}

/// The disk, held.
struct Pinned(Host);

impl Claimed for Pinned {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.0.lock() {
            state.pins -= 1;
        }
    }
}

/// A disk, taken.
struct Taken(Host, String);

impl Claimed for Taken {
    fn sync(&self) -> io::Result<()> {
        self.0.act(|state| {
            assert!(state.has_disk(), "it is written before its paths go");
            state.synced.push(self.1.clone());
            Ok(())
        })
    }
}

impl Machine for Host {
    fn read(&self, path: &str) -> io::Result<String> {
        let state = self.state();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match parts.as_slice() {
            ["proc", "self", "mountinfo"] => Ok(state.mountinfo()),
            ["etc", "machine-id"] => Ok(state.machine_id.clone()),
            ["sys", "module", "nvme_core", "parameters", "multipath"] => match state.multipath {
                "" => Err(gone(path)),
                said => Ok(format!("{said}\n")),
            },
            ["sys", "class", "nvme", "nvme80", what] if state.is_discovering => Ok(match *what {
                // Not the name that it was asked for by.
                "subsysnqn" => "nqn.2014-08.org.nvmexpress:uuid:ce481ec4-1f81-5bb0-cb02-ddb2da00b287\n".to_owned(),
                "cntrltype" => "discovery\n".to_owned(),
                "hostnqn" => format!("{}\n", crate::id::host_nqn(super::own())),
                _ => String::new(),
            }),
            ["sys", "class", "nvme", LOST, what] => {
                let lost = state.lost.as_ref().ok_or_else(|| gone(path))?;
                Ok(match *what {
                    "subsysnqn" => format!("{lost}\n"),
                    "address" => "traddr=192.0.2.1,trsvcid=4420\n".to_owned(),
                    "state" => "connecting\n".to_owned(),
                    "serial" => format!("01234567{:08X}\n", state.lost_number),
                    other => panic!("nobody reads {other}"),
                })
            }
            ["sys", "class", "nvme", name, what] => {
                let number = name.strip_prefix("nvme").and_then(|number| number.parse().ok());
                let found = state.paths.iter().find(|(there, _)| Some(*there) == number);
                let (_, address) = found.ok_or_else(|| gone(path))?;
                let (ip, port) = address.split_once(':').expect("an address");
                Ok(match *what {
                    "subsysnqn" => format!("{}\n", state.nqn),
                    "address" => format!("traddr={ip},trsvcid={port},src_addr=192.0.2.9\n"),
                    "state" if state.broken.contains(address.as_str()) => "connecting\n".to_owned(),
                    "state" => "live\n".to_owned(),
                    other => State::attribute(state.line(address), other),
                })
            }
            ["sys", "class", "nvme-subsystem", "nvme-subsys3", "subsysnqn"] if state.has_disk() => {
                Ok(format!("{}\n", state.nqn))
            }
            ["sys", "block", disk, what] if *disk == DISK && state.has_disk() => Ok(match *what {
                "uuid" => format!("{DISK_UUID}\n"),
                "size" => format!("{}\n", state.bytes / 512),
                "dev" => "259:3\n".to_owned(),
                "ro" => format!("{}\n", u8::from(state.is_read_only)),
                other => panic!("nobody reads {other}"),
            }),
            ["sys", "block", MAPPED, "dm", "name"] | ["sys", "dev", "block", "253:7", "dm", "name"] => {
                let mapping = state.mapping.as_ref().ok_or_else(|| gone(path))?;
                Ok(format!("{}\n", mapping.name))
            }
            ["sys", "block", MAPPED, what] => {
                let mapping = state.mapping.as_ref().ok_or_else(|| gone(path))?;
                Ok(match *what {
                    "dev" => "253:7\n".to_owned(),
                    "size" => format!("{}\n", mapping.bytes / 512),
                    "ro" => format!("{}\n", u8::from(mapping.is_read_only)),
                    other => panic!("nobody reads {other}"),
                })
            }
            ["sys", "dev", "block", "259:3", "uevent"] if state.has_disk() => {
                Ok(format!("MAJOR=259\nDEVNAME={DISK}\n"))
            }
            ["sys", "block", built, "dm", "name"] if state.built.contains(built) => Ok(format!("name-of-{built}\n")),
            _ => Err(gone(path)),
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let paths = state.paths.iter().map(|(number, _)| format!("nvme{number}"));
        match path {
            "/sys/class/nvme" => Ok(paths
                .chain(state.lost.iter().map(|_| LOST.to_owned()))
                .chain(state.is_discovering.then(|| "nvme80".to_owned()))
                .collect()),
            "/sys/class/nvme-subsystem" => Ok(state
                .has_disk()
                .then(|| "nvme-subsys3".to_owned())
                .into_iter()
                .collect()),
            "/sys/class/nvme-subsystem/nvme-subsys3" => {
                let mut all = vec!["subsysnqn".to_owned(), DISK.to_owned(), "nvme3c1n1".to_owned()];
                all.extend(paths);
                Ok(all)
            }
            "/sys/block" => {
                let mapping = state.mapping.iter().map(|_| MAPPED.to_owned());
                Ok(mapping.chain([DISK.to_owned(), "dm-0".to_owned()]).collect())
            }
            "/sys/block/nvme3n1" => Ok(["size", "nvme3n1p1"].map(str::to_owned).to_vec()),
            "/sys/block/nvme3n1/nvme3n1p1/holders" => Ok(state.built.iter().map(|name| (*name).to_owned()).collect()),
            _ => Err(gone(path)),
        }
    }

    fn write(&self, path: &str, _: &str) -> io::Result<()> {
        self.act(|state| {
            let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
            let ["sys", "class", "nvme", name, what] = parts.as_slice() else {
                panic!("nobody writes to {path}");
            };
            if *name == "nvme80" {
                assert_eq!(*what, "delete_controller");
                state.is_discovering = false;
                return Ok(());
            }
            if *name == LOST {
                assert_eq!(*what, "delete_controller");
                return state.lost.take().map(drop).ok_or_else(|| gone(path));
            }
            let number = name.strip_prefix("nvme").and_then(|number| number.parse().ok());
            let at = state.paths.iter().position(|(there, _)| Some(*there) == number);
            let at = at.ok_or_else(|| gone(path))?;
            match *what {
                "delete_controller" => {
                    state.paths.remove(at);
                    assert!(
                        state.has_disk() || !state.is_in_use(),
                        "a disk is taken away under a mount"
                    );
                }
                "rescan_controller" => {
                    state.is_ignored &= state.lost.is_some();
                    state.bytes = state.will_have.unwrap_or(state.bytes);
                }
                other => panic!("nobody writes to {other}"),
            }
            Ok(())
        })
    }

    fn exchange(&self, path: &str, line: &str) -> io::Result<String> {
        assert_eq!(path, "/dev/nvme-fabrics");
        self.act(|state| state.connect(line))
    }

    fn kind(&self, path: &str) -> io::Result<Option<Kind>> {
        let state = self.state();
        let is_bound = state.mounts.iter().any(|mount| mount.at == path && mount.root != "/");
        if is_bound || (path == format!("/dev/{DISK}") && state.has_disk()) {
            return Ok(Some(Kind::Disk));
        }
        Ok(match path {
            "/dev/nvme-fabrics" => Some(Kind::File),
            "/sys/dev/block/8:1" => Some(Kind::Folder),
            "/sys/dev/block/253:7" if state.mapping.is_some() => Some(Kind::Folder),
            "/sys/dev/block/259:3" if state.has_disk() => Some(Kind::Folder),
            "/sys/dev/block/259:9" if state.lost.is_some() => Some(Kind::Folder),
            _ if state.folders.contains(path) => Some(Kind::Folder),
            _ if state.files.contains(path) => Some(Kind::File),
            _ => None,
        })
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        self.act(|state| {
            state.folders.insert(path.to_owned());
            Ok(())
        })
    }

    fn make_file(&self, path: &str) -> io::Result<()> {
        self.act(|state| {
            state.files.insert(path.to_owned());
            Ok(())
        })
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.act(|state| {
            assert!(
                state.mounts.iter().all(|mount| mount.at != path),
                "nothing is mounted there any more"
            );
            state.folders.remove(path);
            state.files.remove(path);
            Ok(())
        })
    }

    fn run(&self, tool: &str, words: &[&str]) -> io::Result<Ran> {
        self.act(|state| Ok(state.tool(tool, words)))
    }

    fn run_with(&self, tool: &str, words: &[&str], input: &str) -> io::Result<Ran> {
        assert_eq!(tool, "cryptsetup");
        self.act(|state| {
            if state.has_no_cryptsetup {
                return Err(gone(tool));
            }
            state.ran.push(format!("{tool} {}", words.join(" ")));
            Ok(state.cryptsetup(words, input))
        })
    }

    fn is_blank(&self, device: &str) -> io::Result<bool> {
        if device == MAPPED_DEVICE {
            return Ok(false);
        }
        assert_eq!(device, format!("/dev/{DISK}"));
        let state = self.state();
        match state.is_unreadable {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(state.content.is_none() && !state.has_data),
        }
    }

    fn reach(&self, address: SocketAddr) -> io::Result<()> {
        let mut state = self.state();
        match state.away.contains(&address.to_string()) {
            true => {
                state.passed += Duration::from_secs(3);
                Err(io::Error::from(io::ErrorKind::TimedOut))
            }
            false => Ok(()),
        }
    }

    fn greet(&self, address: SocketAddr) -> io::Result<()> {
        self.reach(address)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        self.act(|state| {
            state.synced.push(path.to_owned());
            Ok(())
        })
    }

    fn claim(&self, device: &str) -> io::Result<Option<Claim>> {
        let state = self.state();
        let is_mounted = match device {
            MAPPED_DEVICE => state.mounts.iter().any(|mount| mount.source.starts_with(BY_NAME)),
            _ => state.mounts.iter().any(|mount| mount.source == device),
        };
        let is_opened = device != MAPPED_DEVICE && state.mapping.is_some();
        let is_free = !is_mounted && !is_opened && !state.is_used_elsewhere && state.built.is_empty();
        Ok(is_free.then(|| Box::new(Taken(self.clone(), device.to_owned())) as Claim))
    }

    fn pin(&self, device: &str) -> io::Result<Claim> {
        assert_eq!(device, format!("/dev/{DISK}"));
        let mut state = self.state();
        if state.goes_before_pin {
            state.paths.clear();
        }
        state.pins += 1;
        Ok(Box::new(Pinned(self.clone())))
    }

    fn copy_start(&self, _: &str, bytes: u64) -> io::Result<Box<dyn Copied>> {
        luks::copy(self, bytes)
    }

    fn discovery_log(&self, device: &str) -> io::Result<Vec<u8>> {
        assert_eq!(device, "/dev/nvme80");
        self.act(|state| {
            assert!(state.is_discovering);
            let other = state.nqn.replace("01234567", "89abcdef");
            let by = format!("{}:{}", field(&state.asked, "traddr="), field(&state.asked, "trsvcid="));
            let all = state
                .gateways
                .iter()
                .filter(|_| !state.mute.contains(by.as_str()))
                .flat_map(|address| [(&*state.nqn, *address), (&*other, *address)]);
            Ok(discovery::made_up(&all.collect::<Vec<_>>()))
        })
    }

    fn space(&self, _: &str) -> io::Result<Space> {
        let bytes = self.state().file_system_bytes;
        Ok(Space {
            bytes: (bytes, bytes / 2, bytes / 2),
            inodes: (100, 90, 10),
        })
    }

    fn reserve(&self, _: &str, what: Reserve) -> io::Result<Reserved> {
        self.act(|state| state.reserve(what))
    }

    fn registered(&self, _: &str) -> io::Result<Vec<Registered>> {
        let state = self.state();
        if state.is_silent {
            return Err(io::Error::from_raw_os_error(libc::ENOTTY));
        }
        let all: BTreeSet<u64> = state.registered.iter().copied().chain(state.holder).collect();
        let one = |key: u64| {
            let nobody = if state.registered.contains(&key) {
                super::own()
            } else {
                Uuid::from_u128(2)
            };
            Registered {
                host: state.hosts.get(&key).copied().unwrap_or(nobody),
                key,
                is_holder: state.holder == Some(key),
            }
        };
        Ok(all.into_iter().map(one).collect())
    }

    fn pause(&self, time: Duration) {
        self.state().passed += time;
    }

    fn now(&self) -> Duration {
        self.state().passed
    }
}
