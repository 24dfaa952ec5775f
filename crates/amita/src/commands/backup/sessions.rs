//! Who is at work in a vault: what a session is called, and whether its process is gone.
//!
//! A session that was killed stays open, and holds up pruning. That it is dead nobody can know by its silence; but a process of this machine
//! that is not there any more is dead for certain. Of others a person says so (`--fence`).

use super::failure::Described as _;
use amita_backup::{OpenSession, SessionId, Vault};
use amita_terminal::error::Result;

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

/// When a process of ours started; `None`: it is not there, or has ended and nobody has asked how.
fn start_of(id: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{id}/stat"))?;
    // proc(5): the name in parentheses may have any characters; field 3, the state, is the first behind it, and field 22 is the start.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    let start = fields.nth(18)?.parse().ok()?;
    (!has_ended).then_some(start)
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
            start: start_of(id)?,
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
        Process::own().is_some_and(|own| own.world == self.world) && start_of(self.id) != Some(self.start)
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
    for session in gone {
        match vault.fence(session) {
            Ok(()) => log::info!("session {session} of the repository is over: its process is gone"),
            // Somebody else was quicker.
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
        let started = start_of(ended.id()).unwrap_or(1);
        ended.wait().unwrap();
        let ended = Process {
            id: ended.id(),
            start: started,
            ..own.clone()
        };
        assert!(ended.is_gone());
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
