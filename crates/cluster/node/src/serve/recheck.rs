//! Peers that are not to be believed any more: their links end, soon after it is known.

use super::core_thread::ToCores;
use crate::control::ToCore;
use amita_identity::Live;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the identity is looked at: whoever was revoked is gone so long after this node has heard of it.
const LOOK: Duration = Duration::from_millis(200);
/// How often all links are looked at whatever has changed: certificates end by themselves.
const ALL: Duration = Duration::from_secs(60);

/// The thread that has the cores look at their links.
pub(super) struct Recheck {
    /// Dropped, the thread ends.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recheck {
    pub(super) fn start(live: Arc<Live>, cores: ToCores) -> std::io::Result<Recheck> {
        let (stop, stopped) = channel::<()>();
        let run = move || {
            // Cores have listened before this: the first look is for what has changed meanwhile.
            let (mut seen, mut last) = (None, Instant::now());
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let generation = live.generation();
                if seen == Some(generation) && last.elapsed() < ALL {
                    continue;
                }
                (seen, last) = (Some(generation), Instant::now());
                for core in 0..cores.len() {
                    cores.send(core, ToCore::Recheck);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("amita-recheck".to_owned())
            .spawn(run)?;
        Ok(Recheck {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Recheck {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
