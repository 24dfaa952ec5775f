//! What a store must hold of one chunk, written to be obviously right: all of its blocks, and a whole copy of them for
//! each of its snapshots' states.

use super::super::model::{Blocks, Change};
use amita_cluster::Version;
use std::collections::HashSet;
use std::rc::Rc;

/// A chunk. One that was never written has no head, no states, and zeros.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// `None`: never written, or its volume was deleted.
    pub head: Option<Rc<Blocks>>,
    /// The oldest first.
    pub states: Vec<Frozen>,
    /// The volume's newest snapshot when the chunk was made.
    pub born: u32,
    /// The newest snapshot that a change named.
    pub snap: u32,
}

/// The chunk as it was for the snapshots above `above`, up to `to`.
#[derive(Clone, Debug)]
pub struct Frozen {
    pub above: u32,
    pub to: u32,
    pub blocks: Rc<Blocks>,
}

/// What can be done to a chunk.
#[derive(Clone, Debug)]
pub enum Deed {
    Change {
        version: Version,
        snapshot: u32,
        change: Change,
    },
    Keep {
        head: bool,
        above: u32,
        to: u32,
        live: Vec<u32>,
    },
    Clone(Rc<Blocks>),
}

/// What a reader of one snapshot sees.
#[derive(Clone, Debug)]
pub enum View {
    Content(Rc<Blocks>),
    Unwritten,
    /// Not kept any more.
    Gone,
}

impl Held {
    pub fn exists(&self) -> bool {
        self.head.is_some() || !self.states.is_empty()
    }

    /// The version that the next change must name.
    pub fn version(&self) -> Version {
        self.head.as_ref().map_or(Version::NONE, |blocks| blocks.version)
    }

    /// Of the newest frozen state.
    pub fn newest_frozen(&self) -> Version {
        self.states.last().map_or(Version::NONE, |state| state.blocks.version)
    }

    /// The chunk after `deed`; it has `count` blocks.
    pub fn after(&self, deed: &Deed, count: usize) -> Held {
        let mut held = self.clone();
        match deed {
            Deed::Change {
                version,
                snapshot,
                change,
            } => {
                if held.exists() {
                    let head = held.head.clone().expect("a deleted chunk is not changed");
                    assert!(*snapshot >= held.snap, "an older snapshot is refused");
                    if *snapshot > held.snap {
                        held.states.push(Frozen {
                            above: held.snap,
                            to: *snapshot,
                            blocks: head,
                        });
                    }
                } else {
                    held.born = *snapshot;
                    held.head = Some(Rc::new(Blocks::new(count)));
                }
                held.snap = *snapshot;
                let head = held.head.as_mut().expect("it was made above");
                Rc::make_mut(head).apply(*version, change);
            }
            Deed::Keep { head, above, to, live } => {
                let lives = |from: u32, to: u32| live.iter().any(|&k| from < k && k <= to);
                held.states.retain(|state| {
                    let meant = state.above >= *above && state.to <= *to;
                    !meant || lives(state.above, state.to)
                });
                if !head {
                    held.head = None;
                }
                if !held.exists() {
                    held = Held::default();
                }
            }
            Deed::Clone(blocks) => {
                assert!(!held.exists(), "a chunk that exists is not made");
                held.head = Some(blocks.clone());
            }
        }
        held
    }

    /// What snapshot `k` shows; 0: the chunk itself.
    pub fn view(&self, k: u32) -> View {
        if !self.exists() {
            return View::Unwritten;
        }
        if k == 0 || k > self.snap {
            return self.head.clone().map_or(View::Gone, View::Content);
        }
        match self.states.iter().find(|state| state.above < k && k <= state.to) {
            Some(state) => View::Content(state.blocks.clone()),
            None if k <= self.born => View::Unwritten,
            None => View::Gone,
        }
    }

    /// All whole copies.
    pub fn copies(&self) -> impl Iterator<Item = &Rc<Blocks>> {
        self.head.iter().chain(self.states.iter().map(|state| &state.blocks))
    }

    /// The slots that it must have: each block's data that was written once takes one, whoever uses it.
    pub fn slots(&self, all: &mut HashSet<*const Vec<u8>>) {
        for blocks in self.copies() {
            all.extend(
                blocks
                    .blocks
                    .iter()
                    .filter_map(|(data, _)| data.as_ref().map(Rc::as_ptr)),
            );
        }
    }

    /// The snapshots at which something changes, and those beside them.
    pub fn edges(&self) -> impl Iterator<Item = u32> + '_ {
        let states = self.states.iter().flat_map(|state| [state.above, state.to]);
        let edges = states.chain([self.born, self.snap]);
        edges.flat_map(|k| [k.saturating_sub(1), k, k + 1]).chain([0])
    }
}
