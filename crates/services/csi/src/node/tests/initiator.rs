//! A machine that is made up and speaks iSCSI: what sysfs says of sessions, paths and a map, the host's programs, reservations of SCSI by sessions. Mounts, and tools of file systems, are those of
//! [`Host`], whose disk is the map.

use super::host::{Host, MAPPED};
use crate::node::Registered;
use crate::node::copied::Copied;
use crate::node::machine::{Claim, Kind, Machine, Ran, Reserve, Reserved, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

pub const NAA: &str = "602414d400000000831e0a2b3c4d5e6f";
const MAP: &str = "mpatha";

/// A session, and whether it has looked for disks.
#[derive(Clone, Debug)]
pub struct Session {
    pub number: u64,
    pub target: String,
    pub portal: String,
    pub is_live: bool,
    pub has_disk: bool,
}

#[derive(Debug, Default)]
pub struct State {
    pub interface: Option<String>,
    /// By target and portal: settings.
    pub records: BTreeMap<(String, String), BTreeMap<String, String>>,
    pub sessions: Vec<Session>,
    last: u64,
    /// Targets that let this initiator log in.
    pub lets_in: BTreeSet<String>,
    /// Portals that refuse so often, for they have not heard of it yet.
    pub refusals: BTreeMap<String, usize>,
    /// The paths of the map.
    pub map: Option<Vec<String>>,
    /// I/O of the map waits for paths.
    pub is_waiting: bool,
    pub is_known: bool,
    /// Multipathd takes paths when it looks at all anew, and not before.
    pub is_deaf: bool,
    /// The disk by the LUN is another one.
    pub other: Option<&'static str>,
    bytes: u64,
    pub will_have: Option<u64>,
    /// By session, or a number of somebody else's: its key.
    pub registered: BTreeMap<u64, u64>,
    pub holder: Option<u64>,
    /// How programs end whose words have this, so often: its code, and what it says.
    pub fails: Option<(&'static str, i32, &'static str, usize)>,
    pub has_nvme: bool,
    pub root: Option<&'static str>,
    pub said: Vec<String>,
}

#[derive(Clone)]
pub struct Initiator {
    pub host: Host,
    state: Arc<Mutex<State>>,
}

fn gone<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::NotFound, what.to_owned()))
}

fn ran(code: i32, out: &str) -> Ran {
    Ran {
        code,
        out: out.to_owned(),
        err: String::new(),
    }
}

/// What a host of NVMe has, of what this one has, and the other way round.
fn there(text: &str) -> String {
    text.replace("dm-0", "nvme3n1")
}

fn here(text: &str) -> String {
    let text = text.replace("/dev/nvme3n1", "/dev/mapper/mpatha");
    text.replace("nvme3n1", "dm-0").replace("259:3", "253:0")
}

fn disk(session: u64) -> String {
    format!("sd{}", char::from(b'a' + u8::try_from(session % 26).expect("a letter")))
}

impl Initiator {
    pub fn new(target: &str) -> Initiator {
        let state = State {
            bytes: 1 << 30,
            lets_in: BTreeSet::from([target.to_owned()]),
            ..State::default()
        };
        Initiator {
            host: Host::new("nqn.of.nobody"),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody has panicked")
    }

    /// The map is the other host's disk.
    fn tell(&self) {
        let state = self.state();
        let mut host = self.host.state();
        host.paths = state.map.iter().map(|_| (1, "192.0.2.1:4420".to_owned())).collect();
        host.holder = state.holder.map(|nexus| state.registered[&nexus]);
    }

    /// Does something, or is cut; it is told whether the map is in use.
    fn act<T>(&self, act: impl FnOnce(&mut State, bool) -> io::Result<T>) -> io::Result<T> {
        let done = self.host.act(|host| {
            let is_used = !host.mounts.is_empty() || host.mapping.is_some() || host.is_used_elsewhere;
            act(&mut self.state(), is_used)
        });
        self.tell();
        done
    }

    /// All sessions end, and what is mounted: so it is after a start of the machine.
    pub fn reboot(&self) {
        {
            let mut state = self.state();
            state.sessions.clear();
            state.map = None;
            state.is_waiting = false;
            let mut host = self.host.state();
            host.mounts.clear();
            host.mapping = None;
        }
        self.tell();
    }

    /// Iscsid has given all sessions up: the map stays, without paths.
    pub fn lose(&self) {
        let mut state = self.state();
        state.sessions.clear();
        state.map = Some(Vec::new());
        state.is_waiting = true;
    }

    pub fn shape(&self) -> String {
        let state = self.state();
        let sessions: Vec<_> = state
            .sessions
            .iter()
            .map(|found| (&found.target, &found.portal, found.has_disk))
            .collect();
        let keys: Vec<u64> = state.registered.values().copied().collect();
        let holder = state.holder.map(|nexus| state.registered[&nexus]);
        format!(
            "{:?} {:?} {sessions:?} {:?} {} {keys:?} {holder:?} {}",
            state.interface,
            state.records,
            state.map.as_ref().map(Vec::len),
            state.is_known,
            self.host.shape()
        )
    }
}

impl State {
    fn session(&self, name: &str) -> io::Result<&Session> {
        let number = name.trim_start_matches("session").trim_start_matches("connection");
        let number: u64 = number
            .split(':')
            .next()
            .and_then(|text| text.parse().ok())
            .expect("a number");
        self.sessions
            .iter()
            .find(|found| found.number == number)
            .map_or_else(|| gone(name), Ok)
    }

    fn iscsiadm(&mut self, words: &[&str]) -> Ran {
        match words {
            ["--version"] => ran(0, "iscsiadm version 2.1.9"),
            ["-m", "iface", "-I", _] => match &self.interface {
                Some(initiator) => ran(0, &format!("# BEGIN RECORD\niface.initiatorname = {initiator}\n# END")),
                None => ran(21, "Could not read iface"),
            },
            ["-m", "iface", "-I", _, "-o", "new"] => {
                assert!(self.interface.is_none());
                self.interface = Some("<empty>".to_owned());
                ran(0, "New interface added")
            }
            [
                "-m",
                "iface",
                "-I",
                _,
                "-o",
                "update",
                "-n",
                "iface.initiatorname",
                "-v",
                initiator,
            ] => {
                assert!(self.sessions.is_empty(), "its sessions have a name already");
                self.interface = Some((*initiator).to_owned());
                ran(0, "updated")
            }
            ["-m", "node"] if self.records.is_empty() => ran(21, "No records found"),
            ["-m", "node"] => {
                let all = self
                    .records
                    .keys()
                    .map(|(target, portal)| format!("{portal},1 {target}"));
                ran(0, &all.collect::<Vec<_>>().join("\n"))
            }
            ["-m", "node", "-o", "new", "-T", target, "-p", portal, "-I", _] => {
                let (portal, _) = portal.split_once(',').expect("with a tag");
                self.records
                    .insert(((*target).to_owned(), portal.to_owned()), BTreeMap::new());
                ran(0, "New record added")
            }
            ["-m", "node", "-T", target, "-p", portal, rest @ ..] => {
                let key = ((*target).to_owned(), (*portal).to_owned());
                let Some(record) = self.records.get_mut(&key) else {
                    return ran(21, "No records found");
                };
                if let ["-o", "update", "-n", name, "-v", value] = rest {
                    record.insert((*name).to_owned(), (*value).to_owned());
                    return ran(0, "");
                }
                assert_eq!(rest, ["--login"]);
                assert_eq!(record["node.session.scan"], "manual");
                assert_eq!(record["node.startup"], "manual");
                self.login(target, portal)
            }
            ["-m", "node", "-T", target, "--logout"] => {
                let all: Vec<u64> = self
                    .sessions
                    .iter()
                    .filter(|found| found.target == *target)
                    .map(|found| found.number)
                    .collect();
                for number in &all {
                    let is_path = self.map.as_ref().is_some_and(|paths| paths.contains(&disk(*number)));
                    assert!(!is_path, "a map goes before its paths");
                }
                self.sessions.retain(|found| found.target != *target);
                ran(if all.is_empty() { 21 } else { 0 }, "")
            }
            ["-m", "node", "-T", target, "-o", "delete"] => {
                let before = self.records.len();
                self.records.retain(|(name, _), _| name != target);
                ran(if before == self.records.len() { 21 } else { 0 }, "")
            }
            other => panic!("iscsiadm does not know {other:?}"),
        }
    }

    fn login(&mut self, target: &str, portal: &str) -> Ran {
        assert!(self.interface.as_ref().is_some_and(|name| name.starts_with("iqn.")));
        if self
            .sessions
            .iter()
            .any(|found| found.target == target && found.portal == portal)
        {
            return ran(15, "session exists");
        }
        if let Some(left) = self.refusals.get_mut(portal).filter(|left| **left > 0) {
            *left -= 1;
            return ran(24, "login rejected");
        }
        if !self.lets_in.contains(target) {
            return ran(24, "login rejected");
        }
        self.last += 1;
        self.sessions.push(Session {
            number: self.last,
            target: target.to_owned(),
            portal: portal.to_owned(),
            is_live: true,
            has_disk: false,
        });
        ran(0, "Login successful.")
    }

    fn take_paths(&mut self) {
        let all = self.sessions.iter().filter(|found| found.has_disk);
        self.map = Some(all.map(|found| disk(found.number)).collect());
        self.is_waiting = true;
    }

    fn tool(&mut self, tool: &str, words: &[&str], is_used: bool) -> Ran {
        self.said.push(format!("{tool} {}", words.join(" ")));
        let line = self.said.last().cloned().unwrap_or_default();
        if let Some((part, code, said, left)) = &mut self.fails
            && line.contains(*part)
            && *left > 0
        {
            *left -= 1;
            return ran(*code, said);
        }
        match (tool, words) {
            ("iscsiadm", words) => self.iscsiadm(words),
            ("multipath", ["-a", name]) => {
                assert_eq!(*name, format!("3{NAA}"));
                self.is_known = true;
                ran(0, "added")
            }
            ("multipath", ["-w", _]) => {
                self.is_known = false;
                ran(0, "removed")
            }
            ("multipath", ["-f", MAP]) => match is_used {
                true => ran(1, "mpatha: map in use"),
                false => {
                    assert!(!self.is_waiting, "what waits for a path would keep it");
                    self.map = None;
                    ran(0, "")
                }
            },
            ("multipathd", ["add", "path", name]) => {
                assert!(self.is_known, "multipath takes no disk that it does not know");
                assert!(
                    self.sessions
                        .iter()
                        .any(|found| found.has_disk && disk(found.number) == *name)
                );
                if !self.is_deaf {
                    self.take_paths();
                }
                ran(0, "ok")
            }
            ("multipathd", ["reconfigure"]) => {
                self.take_paths();
                ran(0, "ok")
            }
            ("multipathd", ["disablequeueing", "map", MAP]) => {
                self.is_waiting = false;
                ran(0, "ok")
            }
            ("multipathd", ["resize", "map", MAP]) => {
                self.bytes = self.will_have.unwrap_or(self.bytes);
                ran(0, "ok")
            }
            other => panic!("nobody runs {other:?}"),
        }
    }

    /// As a target does it (SPC-4 5.13), for reservations of registrants.
    fn reserve(&mut self, nexus: u64, what: Reserve) -> Reserved {
        let own = self.registered.get(&nexus).copied();
        match what {
            Reserve::Register(key) => drop(self.registered.insert(nexus, key)),
            Reserve::Replace(key, other) if own == Some(key) => drop(self.registered.insert(nexus, other)),
            Reserve::Hold(key) if own == Some(key) && self.holder.is_none_or(|holder| holder == nexus) => {
                self.holder = Some(nexus);
            }
            Reserve::Preempt(key, victim) if own == Some(key) => {
                if self.holder.is_some_and(|holder| self.registered[&holder] == victim) {
                    self.registered.retain(|known, key| *known == nexus || *key != victim);
                    self.holder = Some(nexus);
                    return Reserved::Done;
                }
                let before = self.registered.len();
                self.registered.retain(|_, key| *key != victim);
                if before == self.registered.len() {
                    return Reserved::Conflict;
                }
            }
            Reserve::Clear(key) if own == Some(key) => {
                self.registered.clear();
                self.holder = None;
            }
            _ => return Reserved::Conflict,
        }
        Reserved::Done
    }
}

impl Machine for Initiator {
    fn read(&self, path: &str) -> io::Result<String> {
        let state = self.state();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match parts.as_slice() {
            ["sys", "class", "iscsi_session", name, "targetname"] => Ok(format!("{}\n", state.session(name)?.target)),
            ["sys", "class", "iscsi_session", name, "state"] => Ok(if state.session(name)?.is_live {
                "LOGGED_IN\n"
            } else {
                "FAILED\n"
            }
            .to_owned()),
            ["sys", "class", "iscsi_session", _, .., "wwid"] => Ok(format!("naa.{}\n", state.other.unwrap_or(NAA))),
            ["sys", "class", "iscsi_connection", name, what] => {
                let (address, port) = state.session(name)?.portal.rsplit_once(':').expect("an address");
                Ok(format!("{}\n", if *what == "persistent_port" { port } else { address }))
            }
            ["sys", "block", "dm-0", ..] | ["sys", "dev", "block", "253:0", ..] if state.map.is_none() => gone(path),
            ["sys", "block", "dm-0", "dm", "uuid"] => Ok(format!("mpath-3{NAA}\n")),
            ["sys", "block", "dm-0", "dm", "name"] => Ok(format!("{MAP}\n")),
            ["sys", "block", "dm-0", "size"] => Ok(format!("{}\n", state.bytes / 512)),
            ["sys", "block", "dm-0", "dev"] => Ok("253:0\n".to_owned()),
            ["sys", "dev", "block", "253:0", "uevent"] => Ok("MAJOR=253\nDEVNAME=dm-0\n".to_owned()),
            ["sys", "class", "nvme" | "nvme-subsystem", ..] => gone(path),
            _ => {
                drop(state);
                self.host.read(&there(path)).map(|text| here(&text))
            }
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let paths = || state.map.clone().map_or_else(|| gone(path), Ok);
        match parts.as_slice() {
            ["sys", "class", "iscsi_session"] => Ok(state
                .sessions
                .iter()
                .map(|found| format!("session{}", found.number))
                .collect()),
            ["sys", "class", "iscsi_session", name, "device", rest @ ..] => {
                let session = state.session(name)?;
                let number = session.number;
                Ok(match rest {
                    [] => vec![format!("connection{number}:0"), format!("target{number}:0:0")],
                    ["..", "scsi_host"] => vec![format!("host{number}")],
                    [_] if session.has_disk => vec![format!("{number}:0:0:0"), "power".to_owned()],
                    [_, place, "block"] if *place == format!("{number}:0:0:0") => vec![disk(number)],
                    _ => return gone(path),
                })
            }
            ["sys", "block"] => {
                let map = state.map.iter().map(|_| "dm-0".to_owned());
                let mapping = self.host.state().mapping.is_some().then(|| MAPPED.to_owned());
                Ok(map.chain(mapping).collect())
            }
            ["sys", "block", "dm-0", "slaves"] => paths(),
            _ => gone(path),
        }
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.act(|state, _| {
            let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
            match parts.as_slice() {
                ["sys", "class", "iscsi_session", name, .., "scan"] => {
                    assert_eq!(text, "- - 0");
                    let (number, target) = (state.session(name)?.number, state.session(name)?.target.clone());
                    let is_alone = state.sessions.iter().all(|found| found.target == target);
                    assert!(is_alone, "what a lost attachment has queued would go by these paths");
                    let own: Vec<String> = state.sessions.iter().map(|found| disk(found.number)).collect();
                    let mut paths = state.map.iter().flatten();
                    assert!(
                        state.map.is_none() || paths.any(|path| own.contains(path)),
                        "a map of before is there"
                    );
                    for found in state.sessions.iter_mut().filter(|found| found.number == number) {
                        found.has_disk = true;
                    }
                }
                ["sys", "block", _, "device", "rescan"] => {}
                _ => panic!("nobody writes to {path}"),
            }
            Ok(())
        })
    }

    fn exchange(&self, path: &str, _: &str) -> io::Result<String> {
        gone(path)
    }

    fn kind(&self, path: &str) -> io::Result<Option<Kind>> {
        let state = self.state();
        let is_there = state.map.is_some();
        match path {
            "/dev/dm-0" => Ok(is_there.then_some(Kind::Disk)),
            "/sys/dev/block/253:0" => Ok(is_there.then_some(Kind::Folder)),
            "/sys/class/iscsi_session" => Ok(Some(Kind::Folder)),
            "/dev/nvme-fabrics" if !state.has_nvme => Ok(None),
            _ => {
                drop(state);
                self.host.kind(&there(path))
            }
        }
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        self.host.make_folder(path)
    }

    fn make_file(&self, path: &str) -> io::Result<()> {
        self.host.make_file(path)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.host.remove(path)
    }

    fn run(&self, tool: &str, words: &[&str]) -> io::Result<Ran> {
        if tool == "timeout" {
            return self.act(|state, is_used| {
                let ["--kill-after=5", "30", rest @ ..] = words else {
                    panic!("no time: {words:?}");
                };
                let rest = match state.root {
                    Some(root) => rest.strip_prefix(&["chroot", root]).expect("in the host's root"),
                    None => rest,
                };
                let (tool, words) = rest.split_first().expect("a program");
                Ok(state.tool(tool, words, is_used))
            });
        }
        {
            let state = self.state();
            let paths = state.map.iter().flatten();
            let is_registered = |path: &String| state.registered.keys().any(|nexus| disk(*nexus) == *path);
            let is_whole = state.holder.is_none() || paths.clone().all(is_registered);
            assert!(
                !["mount", "mkfs.ext4"].contains(&tool) || is_whole || words.contains(&"--bind"),
                "a path would fail writes"
            );
        }
        let words: Vec<String> = words.iter().map(|word| there(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.host.run(tool, &words)
    }

    fn run_with(&self, tool: &str, words: &[&str], input: &str) -> io::Result<Ran> {
        let has_paths = self.state().map.as_ref().is_none_or(|paths| !paths.is_empty());
        let is_waiting = self.state().is_waiting;
        assert!(
            words[0] != "close" || has_paths || !is_waiting,
            "who writes what is left waits for a path"
        );
        let words: Vec<String> = words.iter().map(|word| there(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.host.run_with(tool, &words, input)
    }

    fn is_blank(&self, device: &str) -> io::Result<bool> {
        self.host.is_blank(&there(device))
    }

    fn reach(&self, address: SocketAddr) -> io::Result<()> {
        self.host.reach(address)
    }

    fn greet(&self, address: SocketAddr) -> io::Result<()> {
        self.host.greet(address)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        self.host.sync(path)
    }

    fn claim(&self, device: &str) -> io::Result<Option<Claim>> {
        self.host.claim(&there(device))
    }

    fn pin(&self, device: &str) -> io::Result<Claim> {
        self.host.pin(&there(device))
    }

    fn copy_start(&self, device: &str, bytes: u64) -> io::Result<Box<dyn Copied>> {
        self.host.copy_start(&there(device), bytes)
    }

    fn discovery_log(&self, device: &str) -> io::Result<Vec<u8>> {
        gone(device)
    }

    fn space(&self, path: &str) -> io::Result<Space> {
        self.host.space(path)
    }

    fn reserve(&self, device: &str, what: Reserve) -> io::Result<Reserved> {
        self.act(|state, _| {
            let found = state
                .sessions
                .iter()
                .find(|found| format!("/dev/{}", disk(found.number)) == device);
            let number = found.unwrap_or_else(|| panic!("{device} is no path")).number;
            Ok(state.reserve(number, what))
        })
    }

    fn registered(&self, device: &str) -> io::Result<Vec<Registered>> {
        gone(device)
    }

    fn pause(&self, time: Duration) {
        self.host.pause(time);
    }

    fn now(&self) -> Duration {
        self.host.now()
    }
}
