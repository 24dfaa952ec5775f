//! Reads the facts of a machine, on the machine: `/proc`, `/sys`, and what disks say of themselves.
//!
//! All of it is read beneath a root folder, so that tests give it machines that were written down.

pub mod ata;
mod disk;
mod health;
mod host;
mod looks;
mod nic;
pub mod scsi;
mod smart;

pub use disk::{Below, ENOUGH_REQUESTS, Figures, device, disks};
pub use health::{controller, log};
pub use host::{host, uring};
pub use looks::{Looks, is_look};
pub use nic::{Serving, nics};
pub use smart::{ScsiAsk, smart_of};

use crate::inventory::Known;
use crate::sys;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The most that is read of one file.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Where `/proc` and `/sys` are.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Root {
        Root(PathBuf::from("/"))
    }
}

impl Root {
    /// Beneath this folder.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Root {
        Root(folder.into())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// The text of a file, without the white space around it.
    fn read(&self, path: &str) -> Result<String, String> {
        let full = self.path(path);
        let mut text = Vec::new();
        let read = File::open(&full).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text));
        read.map_err(|why| format!("/{path}: {why}"))?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// A number in a file.
    fn number<T: std::str::FromStr>(&self, path: &str) -> Result<T, String> {
        let text = self.read(path)?;
        text.parse()
            .map_err(|_| format!("/{path} says {text:?}, which is no number of its kind"))
    }

    /// Is there a file or folder?
    fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The names in a folder, sorted.
    fn names(&self, path: &str) -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(self.path(path)).map_err(|why| format!("/{path}: {why}"))?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }
}

/// The addresses of the machine's interfaces, by their names.
///
/// # Errors
/// The kernel does not say.
pub fn addresses() -> Result<BTreeMap<String, Vec<IpAddr>>, String> {
    let mut all: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for found in nix::ifaddrs::getifaddrs().map_err(|why| why.to_string())? {
        let Some(address) = found.address else { continue };
        let ip = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(address), _) => IpAddr::V4(address.ip()),
            (_, Some(address)) => IpAddr::V6(address.ip()),
            _ => continue,
        };
        all.entry(found.interface_name).or_default().push(ip);
    }
    Ok(all)
}

/// Is the machine's clock synchronised?
#[must_use]
pub fn synchronised() -> Known<bool> {
    sys::is_clock_synchronised().into()
}

/// Asks an NVMe disk of this machine for its health.
///
/// # Errors
/// It is no NVMe disk, or does not say.
pub fn health_of(device: &str) -> Result<crate::inventory::Health, String> {
    if !device.starts_with("nvme") {
        return Err(
            "it is no NVMe, SATA or SAS disk to the kernel (nvme*, sd*): nobody can ask it for its health".to_owned(),
        );
    }
    let path = Path::new("/dev").join(device);
    let opened = File::open(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    let ask = |what| {
        sys::ask_nvme(std::os::fd::AsFd::as_fd(&opened), what)
            .map_err(|why| format!("{}: {why} (it takes CAP_SYS_ADMIN)", path.display()))
    };
    let mut health = log(&ask(sys::Ask::HealthLog)?)?;
    // Without it the rest is known all the same.
    if let Ok(identified) = ask(sys::Ask::Controller) {
        controller(&identified, &mut health)?;
    }
    Ok(health)
}

#[cfg(test)]
mod tests;
