//! Who is at work in a vault: what a session is called, and whether its process is gone.
//!
//! A session that was killed stays open, and holds up pruning. That it is dead nobody can know by its silence; but a process of this machine
//! that is not there any more is dead for certain. Of others a person says so (`--fence`).

use super::failure::Described as _;
use amita_backup::{OpenSession, SessionId, Vault};
use amita_terminal::error::Result;
use amita_types::ClusterId;
use amita_types::map::{BackupTaskId, PolicyId};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// A process, as a session's label names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    host: String,
    /// Of the machine's start, and of its processes' numbers: containers of one machine have their own.
    world: String,
    id: u32,
    /// When it started, in ticks since the machine did.
    start: u64,
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// What is seen of a process.
enum Look {
    /// When it started.
    Started(u64),
    /// It has ended, and nobody has asked how.
    Ended,
    /// Nothing: it is not there, or it is another user's, and those are not shown (`hidepid`).
    Hidden,
}

fn look(id: u32) -> Look {
    let fields = || {
        let stat = read(&format!("/proc/{id}/stat"))?;
        // proc(5): the name in parentheses may have any characters; field 3, the state, is the first behind it, and field 22 is the start.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let start = fields.nth(18)?.parse().ok()?;
        Some(if has_ended { Look::Ended } else { Look::Started(start) })
    };
    fields().unwrap_or(Look::Hidden)
}

/// May there be a process of this number?
fn exists(id: u32) -> bool {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) != Err(Errno::SRCH))
}

impl Process {
    fn own() -> Option<Process> {
        let id = std::process::id();
        let boot = read("/proc/sys/kernel/random/boot_id")?;
        let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Some(Process {
            host: host.split_whitespace().collect(),
            world: format!("{boot}/{}", space.display()),
            id,
            start: match look(id) {
                Look::Started(start) => start,
                Look::Ended | Look::Hidden => return None,
            },
        })
    }

    fn parse(label: &str) -> Option<Process> {
        let mut words = label.split(' ').rev();
        let (start, id) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (world, host) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Process { host, world, id, start })
    }

    /// Is it certain that it is gone?
    fn is_gone(&self) -> bool {
        Process::own().is_some_and(|own| own.world == self.world)
            && match look(self.id) {
                Look::Started(start) => start != self.start,
                Look::Ended => true,
                Look::Hidden => !exists(self.id),
            }
    }
}

/// This process, as labels name it.
pub fn whence() -> String {
    match Process::own() {
        Some(Process { host, world, id, start }) => format!("{host} {world} {id} {start}"),
        None => String::new(),
    }
}

/// The same for people.
pub fn shown(session: SessionId, open: &OpenSession) -> String {
    match Process::parse(&open.label) {
        Some(process) => {
            let what = open.label.split(" at ").next().unwrap_or_default();
            format!("session {session} ({what} at {}, process {})", process.host, process.id)
        }
        None => format!("session {session} ({})", open.label),
    }
}

/// Takes sessions for dead: those that are given, and those whose processes were of this machine and are gone.
///
/// # Errors
/// One that is given is over, or the journal cannot be written.
pub fn fence(vault: &mut Vault, given: &[u64]) -> Result<()> {
    for session in given {
        vault.fence(SessionId(*session)).described()?;
    }
    let sessions = vault.state().sessions().iter();
    let gone = |open: &OpenSession| Process::parse(&open.label).is_some_and(|process| process.is_gone());
    let gone: Vec<SessionId> = sessions.filter(|(_, open)| gone(open)).map(|(id, _)| *id).collect();
    fence_all(vault, gone, "its process is gone")
}

/// Takes the sessions of this name for dead that others have begun: whoever calls has the key that they had to have.
///
/// # Errors
/// The journal cannot be written.
pub fn fence_named(vault: &mut Vault, name: &str) -> Result<()> {
    let is_named = |open: &OpenSession| {
        let rest = open.label.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" at "))
    };
    let sessions = vault.state().sessions().iter();
    let named: Vec<SessionId> = sessions.filter(|(_, open)| is_named(open)).map(|(id, _)| *id).collect();
    fence_all(vault, named, "another node is at what it was begun for")
}

/// A session of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfPolicy {
    pub session: SessionId,
    /// The policy's name and number.
    pub name: String,
    pub id: PolicyId,
    /// It verifies, and backs up nothing.
    pub verifies: bool,
}

/// Of which policy of this cluster a session is by its label: its name, its number, and whether it verifies.
fn policy_of(label: &str, cluster: ClusterId) -> Option<(&str, PolicyId, bool)> {
    let (rest, verifies) = match label.strip_prefix("verification by policy ") {
        Some(rest) => (rest, true),
        None => (label.strip_prefix("backup policy ")?, false),
    };
    let (mark, rest) = rest.split_once(" of cluster ")?;
    let own = rest.split_once(" at ").map_or(rest, |(own, _)| own);
    let (name, id) = mark.rsplit_once('/')?;
    let id = PolicyId(id.parse().ok()?);
    (own == cluster.to_string()).then_some((name, id, verifies))
}

/// The sessions of policies of this cluster that are open as far as the journal was read.
pub fn of_policies(vault: &Vault, cluster: ClusterId) -> Vec<OfPolicy> {
    let sessions = vault.state().sessions().iter();
    let of = |(session, open): (&SessionId, &OpenSession)| {
        let (name, id, verifies) = policy_of(&open.label, cluster)?;
        Some(OfPolicy {
            session: *session,
            name: name.to_owned(),
            id,
            verifies,
        })
    };
    sessions.filter_map(of).collect()
}

/// Of which task of this cluster a session is by its label.
fn task_of(label: &str, cluster: ClusterId) -> Option<BackupTaskId> {
    let (mark, rest) = label.strip_prefix("backup task ")?.split_once(" of cluster ")?;
    let own = rest.split_once(" at ").map_or(rest, |(own, _)| own);
    let (_, id) = mark.rsplit_once('/')?;
    let id = BackupTaskId(id.parse().ok()?);
    (own == cluster.to_string()).then_some(id)
}

/// The sessions of tasks of this cluster that are open as far as the journal was read.
pub fn of_tasks(vault: &Vault, cluster: ClusterId) -> Vec<(SessionId, BackupTaskId)> {
    let sessions = vault.state().sessions().iter();
    sessions
        .filter_map(|(session, open)| Some((*session, task_of(&open.label, cluster)?)))
        .collect()
}

/// Takes these sessions for dead, and says why.
///
/// # Errors
/// The journal cannot be written.
pub fn fence_all(vault: &mut Vault, sessions: Vec<SessionId>, why: &str) -> Result<()> {
    for session in sessions {
        match vault.fence(session) {
            Ok(()) => log::info!("session {session} of the repository is over: {why}"),
            // It has ended meanwhile, or somebody else was quicker.
            Err(amita_backup::Error::Refused(_)) => {}
            Err(why) => return Err(why).described(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_one_name_are_fenced_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let store = std::sync::Arc::new(amita_backup::store::Folder::open(folder.path()).unwrap());
        let cost = amita_backup::Cost::OF_RANDOM_BITS;
        let mut vault = Vault::create(store, b"key", cost, amita_backup::Options::default()).unwrap();
        let mut begin = |label: &str| vault.begin(label).unwrap().id();
        let own = [
            begin("backup policy a/1 of cluster 9"),
            begin("backup policy a/1 of cluster 9 at h w 1 2"),
        ];
        let others = [
            begin("backup policy a/1 of cluster 99 at h w 1 2"),
            begin("a backup at h w 1 2"),
        ];
        fence_named(&mut vault, "backup policy a/1 of cluster 9").unwrap();
        let open: Vec<SessionId> = vault.state().sessions().keys().copied().collect();
        assert!(own.iter().all(|id| !open.contains(id)), "{open:?}");
        assert_eq!(open, others);
    }

    #[test]
    fn of_which_policy_a_session_is_stands_in_its_label() {
        let cluster = ClusterId(9);
        let policy = amita_types::map::BackupPolicy {
            id: PolicyId(17),
            name: "nightly-of.db".to_owned(),
            target: amita_types::map::Target::Volumes(Vec::new()),
            repository: "r".to_owned(),
            schedule: "@hourly".to_owned(),
            zone: "UTC".to_owned(),
            keep: amita_types::map::Keep::default(),
            together: false,
            paused: false,
            since: 0,
            limit_s: 60,
            asked: 0,
            verify: None,
        };
        let name = amita_control::backups::session_name(cluster, &policy);
        let wanted = Some(("nightly-of.db", PolicyId(17), false));
        let verifying = amita_control::backups::verification_session_name(cluster, &policy);
        assert_eq!(
            policy_of(&verifying, cluster),
            Some(("nightly-of.db", PolicyId(17), true))
        );
        assert_eq!(policy_of(&name, cluster), wanted);
        assert_eq!(policy_of(&format!("{name} at h w 1 2"), cluster), wanted);
        assert_eq!(policy_of(&name, ClusterId(10)), None);
        for other in ["a backup at h w 1 2", "a pruning", "backup policy a of cluster 9", ""] {
            assert_eq!(policy_of(other, cluster), None, "{other}");
        }
    }

    #[test]
    fn of_which_task_a_session_is_stands_in_its_label() {
        let (cluster, of) = (ClusterId(9), Some(BackupTaskId(7)));
        let own = format!("backup task before-upgrade/7 of cluster {cluster}");
        assert_eq!(task_of(&own, cluster), of);
        assert_eq!(task_of(&format!("{own} at h w 1 2"), cluster), of);
        assert_eq!(task_of(&own, ClusterId(10)), None);
        assert_eq!(policy_of(&own, cluster), None);
        let policy = format!("backup policy before-upgrade/7 of cluster {cluster}");
        assert_eq!(task_of(&policy, cluster), None);
    }

    #[test]
    fn a_process_is_known_by_its_label_and_gone_only_for_certain() {
        let own = Process::own().unwrap();
        let label = format!("a backup at {}", whence());
        assert_eq!(Process::parse(&label), Some(own.clone()));
        assert!(!own.is_gone());
        let open = OpenSession { label, last: 9 };
        let text = shown(SessionId(7), &open);
        assert!(text.starts_with("session 7 (a backup at "), "{text}");
        // Another process has got its number since.
        let replaced = Process {
            start: own.start + 1,
            ..own.clone()
        };
        assert!(replaced.is_gone());
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let started = match look(ended.id()) {
            Look::Started(start) => start,
            Look::Ended | Look::Hidden => 1,
        };
        ended.wait().unwrap();
        let ended = Process {
            id: ended.id(),
            start: started,
            ..own.clone()
        };
        assert!(ended.is_gone());
        // Of a process that /proc does not show the kernel still says whether it is there.
        assert!(exists(std::process::id()) && exists(1) && !exists(i32::MAX.unsigned_abs()));
        // Of another machine, or a container, nothing is known.
        let elsewhere = Process {
            world: "elsewhere".to_owned(),
            start: 1,
            ..own
        };
        assert!(!elsewhere.is_gone());
        assert_eq!(Process::parse("by hand"), None);
        assert_eq!(Process::parse("pruning: packs are written anew"), None);
    }
}
