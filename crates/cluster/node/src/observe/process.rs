//! What the system says of the process, and the identity folder of its certificate: read when somebody asks.

use amita_identity::{Identity, not_after};
use std::time::{SystemTime, UNIX_EPOCH};

/// The process, when it was asked. What the system does not tell is none.
#[derive(Clone, Debug, Default)]
pub struct ProcessReport {
    /// When it began to serve, in seconds since 1970.
    pub started_at: f64,
    /// The clock, likewise.
    pub now: f64,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// The most that may be open.
    pub max_files: Option<u64>,
    /// Memory that is in use, in bytes.
    pub resident_bytes: Option<u64>,
}

impl ProcessReport {
    /// Of this process, which began to serve then.
    #[must_use]
    pub fn of(started: SystemTime) -> ProcessReport {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        ProcessReport {
            started_at: seconds(started),
            now: seconds(SystemTime::now()),
            open_files: open_files(),
            max_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            resident_bytes: resident_bytes(&status),
        }
    }
}

fn seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn open_files() -> Option<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    // The folder that is read here is open as well.
    Some((entries.count() as u64).saturating_sub(1))
}

/// The line `VmRSS:  1234 kB` of `/proc/self/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// How long a node's certificate is valid, and those who sign; all in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct CertificateReport {
    /// From when on.
    pub begins: u64,
    /// Until when.
    pub expires: u64,
    /// When the last of the authorities that are trusted ends: while one is exchanged there are two.
    pub authority_expires: Option<u64>,
}

impl From<&Identity> for CertificateReport {
    fn from(identity: &Identity) -> CertificateReport {
        let roots = identity.trust().roots().iter();
        CertificateReport {
            begins: identity.facts().not_before.0,
            expires: identity.not_after().0,
            authority_expires: roots.filter_map(|root| not_after(root).ok()).map(|at| at.0).max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_what_the_process_has_open() {
        let started = SystemTime::now();
        let before = ProcessReport::of(started);
        let held: Vec<_> = (0..50)
            .map(|_| std::fs::File::open("/proc/self/status").unwrap())
            .collect();
        let after = ProcessReport::of(started);
        drop(held);
        // Other tests of this process open and close files meanwhile.
        assert!(after.open_files.unwrap() >= 50, "{after:?}");
        assert!(
            after.max_files.is_none_or(|most| most > after.open_files.unwrap()),
            "{after:?}"
        );
        assert!(after.now >= before.now && after.started_at == before.started_at);
        assert!(after.resident_bytes.unwrap() > 1 << 20, "{after:?}");
    }

    #[test]
    fn memory_is_read_from_its_line_only() {
        let status = "VmPeak:\t   9000 kB\nVmRSS:\t    1234 kB\nRssAnon:\t 5 kB\n";
        assert_eq!(resident_bytes(status), Some(1234 * 1024));
        assert_eq!(resident_bytes("VmRSS:\t x kB\n"), None);
        assert_eq!(resident_bytes(""), None);
    }
}
