use super::*;
use amita_types::ClusterId;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

mod authority;
mod clients;
mod folders;
mod handshakes;
pub(crate) use handshakes::Anything;
mod names;
mod revocations;
mod trusts;

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const CLUSTER: ClusterId = ClusterId(0x6d2a_6b5e_2f0c_4ad5_9d0b_3a7f_1f3f_0c11);

/// An authority, and identities by it, at a time that the test sets.
struct World {
    scratch: TempDir,
    clock: Clock,
    authority: Authority,
}

impl World {
    fn new() -> World {
        World::of(CLUSTER)
    }

    fn of(cluster: ClusterId) -> World {
        let scratch = tempfile::tempdir().unwrap();
        let clock = Clock::standing(NOW);
        let authority = Authority::create(&scratch.path().join("ca"), cluster, clock.clone()).unwrap();
        World {
            scratch,
            clock,
            authority,
        }
    }

    fn name(&self, role: Role, name: &str) -> Name {
        Name::new(self.authority.cluster(), role, name).unwrap()
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// An identity in a folder of that name.
    fn made(&self, role: Role, name: &str) -> PathBuf {
        let folder = self.folder(name);
        self.authority.make_identity(&folder, &self.name(role, name)).unwrap();
        folder
    }

    fn live(&self, folder: &Path) -> std::sync::Arc<Live> {
        Live::open(folder, self.clock.clone()).unwrap()
    }

    fn pass(&self, span: Duration) {
        self.clock.set(self.clock.now().after(span));
    }

    /// So many days, in which somebody gets certificates.
    fn pass_in_use(&self, span: Duration) {
        let key = authority::request(&self.folder("busy"));
        let name = self.name(Role::Node, "busy");
        let until = self.clock.now().after(span);
        while self.clock.now() < until {
            self.authority.issue(key.request(), &name).unwrap();
            self.pass(3 * DAY);
        }
    }
}

fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
