//! Looks at disks, each by a thread of its own: one that hangs holds up no other, and not who asked either.
//!
//! A disk sends what it likes, and a look has no part in the way of I/O: where reading it panics, that look has failed, and no more. That
//! takes a program that unwinds, and whose hook, where it ends the process, does not where [`is_look`] says yes.

use crate::inventory::Device;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

type Found = Result<Device, String>;

/// What is told of a look that has panicked.
const LOOK_PANICKED: &str = "the look at it has failed by a fault of the program, which is in the node's log";

thread_local! {
    static IS_LOOK: Cell<bool> = const { Cell::new(false) };
}

/// Does this thread nothing but look at a disk, so that a panic ends that look and not the process?
#[must_use]
pub fn is_look() -> bool {
    IS_LOOK.try_with(Cell::get).unwrap_or(false)
}

/// Looks at the disks beneath paths: one at a time for each path, however long it takes.
pub struct Looks {
    look: Arc<dyn Fn(&Path) -> Found + Send + Sync>,
    under_way: BTreeMap<PathBuf, Receiver<Found>>,
    found: BTreeMap<PathBuf, Found>,
}

impl Looks {
    /// By this function, which may block for good.
    #[must_use]
    pub fn by(look: impl Fn(&Path) -> Found + Send + Sync + 'static) -> Looks {
        Looks {
            look: Arc::new(look),
            under_way: BTreeMap::new(),
            found: BTreeMap::new(),
        }
    }

    /// Forgets what was found, and looks at each of these, but at those where the last look has not ended. Where it has ended since anybody
    /// asked, what it has found is kept until the new look has ended, or this is called again: else a disk that is always late would hang
    /// for ever.
    pub fn begin(&mut self, paths: &[PathBuf]) {
        self.found.clear();
        self.gather();
        for path in paths {
            if self.under_way.contains_key(path) {
                continue;
            }
            let (answer, answered) = sync_channel(1);
            let (look, of) = (Arc::clone(&self.look), path.clone());
            let begun = std::thread::Builder::new()
                .name("amita-disk-look".to_owned())
                .spawn(move || {
                    IS_LOOK.set(true);
                    // Nobody waits any more where the node has ended meanwhile.
                    let _ = answer.send(look(&of));
                });
            match begun {
                Ok(_) => drop(self.under_way.insert(path.clone(), answered)),
                Err(why) => {
                    let late = self.found.entry(path.clone());
                    late.or_insert_with(|| Err(format!("no thread to look at it: {why}")));
                }
            }
        }
    }

    /// Have all looks ended?
    pub fn have_ended(&mut self) -> bool {
        self.gather();
        self.under_way.is_empty()
    }

    /// What the look at it has found; while that has not ended, what the one before has found, if it ended late.
    ///
    /// # Errors
    /// Why nothing is known: of a look that has not ended, that.
    pub fn found(&self, path: &Path) -> Found {
        let found = self.found.get(path).cloned();
        found.unwrap_or_else(|| Err("it hangs: a look at it has not ended".to_owned()))
    }

    fn gather(&mut self) {
        let found = &mut self.found;
        self.under_way.retain(|path, answered| {
            let answer = match answered.try_recv() {
                Ok(answer) => answer,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => Err(LOOK_PANICKED.to_owned()),
            };
            found.insert(path.clone(), answer);
            false
        });
    }
}

#[cfg(test)]
mod tests;
