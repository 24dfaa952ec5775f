//! fio, which checks every block that it has written, for as long as something is done to the cluster.

use crate::world::{PATIENCE, VOLUME, World, verify_job};
use amita_terminal::error::Result;
use amita_types::crc32c;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The part of the volume that fio writes in one pass.
pub const REGION_BYTES: u64 = 16 << 20;

/// fio's passes, one after the other, until they are told to end: random writes, then every block is read and checked.
pub struct Load {
    ends: Arc<AtomicBool>,
    lost: Arc<AtomicBool>,
    passes: JoinHandle<u64>,
}

impl Load {
    /// On the volume at this gateway; `limit`: one more option of fio.
    pub fn start(world: &World, gateway: usize, limit: Option<&'static str>) -> Load {
        Load::of(world, gateway, VOLUME, limit)
    }

    /// On this volume.
    pub fn of(world: &World, gateway: usize, volume: &str, limit: Option<&'static str>) -> Load {
        let (ends, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let uri = world.cluster.uri(gateway, volume);
        let (told, may_be_lost, folder) = (Arc::clone(&ends), Arc::clone(&lost), world.folder().to_owned());
        let passes = std::thread::spawn(move || {
            let mut pass = 0;
            while pass == 0 || !told.load(Ordering::Relaxed) {
                match one_pass(&folder, &uri, pass, limit) {
                    Err(why) if may_be_lost.load(Ordering::SeqCst) && !is_wrong(&why.to_string()) => return pass,
                    done => done.expect("no error, and every block is right"),
                }
                pass += 1;
            }
            pass
        });
        Load { ends, lost, passes }
    }

    /// Its cluster is lost from now on: an error of an I/O ends it. A block that is not what was written is wrong all the same.
    pub fn may_be_lost(&self) {
        self.lost.store(true, Ordering::SeqCst);
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

/// Has fio come upon a block that is not what it wrote? (fio 3.33, `verify.c`.)
fn is_wrong(said: &str) -> bool {
    ["verify failed", "verify: bad"]
        .iter()
        .any(|words| said.contains(words))
}

/// That each block is one that fio wrote there, whole, or was never written; how many were. By its headers: fio 3.33, `verify.h`, `struct verify_header` and
/// `struct vhdr_crc32`; its checksums are without the last inversion.
pub fn check_written(bytes: &[u8]) -> usize {
    const BLOCK: usize = 4096;
    let mut written = 0;
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        let at = number * BLOCK;
        let field = |from: usize, length: usize| {
            let mut value = [0; 8];
            value[..length].copy_from_slice(&block[from..from + length]);
            u64::from_le_bytes(value)
        };
        let sum = |from: usize, to: usize| u64::from(!crc32c(&block[from..to]));
        assert_eq!(field(0, 2), 0xacca, "at {at}: no block of fio");
        assert_eq!(
            (field(4, 4), field(16, 8)),
            (BLOCK as u64, at as u64),
            "at {at}: another block"
        );
        assert_eq!(field(36, 4), sum(0, 36), "at {at}: its header is not what was written");
        assert_eq!(field(40, 4), sum(44, BLOCK), "at {at}: it is not what was written");
        written += 1;
    }
    written
}

fn one_pass(folder: &Path, uri: &str, pass: u64, limit: Option<&'static str>) -> Result<()> {
    let mut job = verify_job(&format!("pass-{pass}"), uri, 0, REGION_BYTES, pass);
    job.more.extend(limit.map(str::to_owned));
    let report = job.run(folder, PATIENCE)?;
    assert_eq!(report.write.ios, REGION_BYTES / 4096);
    Ok(())
}
