//! fio, which checks every block that it has written, for as long as something is done to the cluster.

use crate::world::{PATIENCE, VOLUME, World, verify_job};
use amita_terminal::error::Result;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The part of the volume that fio writes in one pass.
pub const REGION_BYTES: u64 = 16 << 20;

/// fio's passes, one after the other, until they are told to end: random writes, then every block is read and checked.
pub struct Load {
    ends: Arc<AtomicBool>,
    passes: JoinHandle<u64>,
}

impl Load {
    /// On the volume at this gateway; `limit`: one more option of fio.
    pub fn start(world: &World, gateway: usize, limit: Option<&'static str>) -> Load {
        Load::of(world, gateway, VOLUME, limit, false)
    }

    /// On this volume; it ends at the first error, for its cluster may be lost.
    pub fn until_lost(world: &World, gateway: usize, volume: &str, limit: Option<&'static str>) -> Load {
        Load::of(world, gateway, volume, limit, true)
    }

    fn of(world: &World, gateway: usize, volume: &str, limit: Option<&'static str>, may_be_lost: bool) -> Load {
        let ends = Arc::new(AtomicBool::new(false));
        let uri = world.cluster.uri(gateway, volume);
        let (told, folder) = (Arc::clone(&ends), world.folder().to_owned());
        let passes = std::thread::spawn(move || {
            let mut pass = 0;
            while pass == 0 || !told.load(Ordering::Relaxed) {
                let done = one_pass(&folder, &uri, pass, limit);
                if done.is_err() && may_be_lost {
                    return pass;
                }
                done.expect("no error, and every block is right");
                pass += 1;
            }
            pass
        });
        Load { ends, passes }
    }

    /// fio has ended by itself: something was wrong.
    pub fn has_ended(&self) -> bool {
        self.passes.is_finished()
    }

    /// How many passes there were.
    pub fn finish(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.passes.join().expect("fio saw no error")
    }
}

fn one_pass(folder: &Path, uri: &str, pass: u64, limit: Option<&'static str>) -> Result<()> {
    let mut job = verify_job(&format!("pass-{pass}"), uri, 0, REGION_BYTES, pass);
    job.more.extend(limit.map(str::to_owned));
    let report = job.run(folder, PATIENCE)?;
    assert_eq!(report.write.ios, REGION_BYTES / 4096);
    Ok(())
}
