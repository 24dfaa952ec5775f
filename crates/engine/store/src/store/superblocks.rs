//! The two superblocks are written one after the other: one of them is whole at any moment. `checkpoint` flushes each before
//! it has the next one written.

use super::env::Env;
use super::io::Io;
use crate::format::superblock::{OFFSETS, Superblock};
use amita_reactor::Slice;

/// Which of them is whole, and what is being written.
#[derive(Debug, Default)]
pub(super) struct Superblocks {
    /// The copy that is surely whole: it is written second.
    pub whole_copy: usize,
    update: Option<Update>,
}

/// A change of both.
#[derive(Clone, Copy, Debug)]
struct Update {
    new: Superblock,
    /// Which of the two is being written: the first or the second in turn.
    turn: usize,
}

impl Superblocks {
    pub fn update(&mut self, env: &mut Env, new: Superblock) {
        assert!(self.update.is_none(), "one change at a time");
        let update = Update { new, turn: 0 };
        self.write(env, update);
    }

    /// One of them is durable; returns what they say when both are.
    pub fn flushed(&mut self, env: &mut Env) -> Option<Superblock> {
        let update = self.update.take()?;
        if update.turn > 0 {
            return Some(update.new);
        }
        self.write(env, Update { turn: 1, ..update });
        None
    }

    fn write(&mut self, env: &mut Env, update: Update) {
        let page = Slice::copy_from(&update.new.encode());
        let copy = (self.whole_copy + 1 + update.turn) % OFFSETS.len();
        env.start_write(Io::Superblock, OFFSETS[copy], vec![page]);
        self.update = Some(update);
    }
}
