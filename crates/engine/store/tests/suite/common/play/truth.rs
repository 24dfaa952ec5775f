//! What a store must hold of one chunk, written to be obviously right: all of its blocks, and a whole copy of them for
//! each of its snapshots' states.

use super::super::model::{Blocks, Change};
use amita_types::Version;
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
    pub head_doom: Doom,
    /// The newest snapshot that lives on when the volume goes: it has what the chunk was last.
    pub head_kept: u32,
    /// Its version when its volume was deleted.
    pub deleted_at: Version,
}

/// The chunk as it was for the snapshots above `above`, up to `to`.
#[derive(Clone, Debug)]
pub struct Frozen {
    pub above: u32,
    pub to: u32,
    pub blocks: Rc<Blocks>,
    pub doom: Doom,
}

/// Is something to be dropped? It is not said when it happens, only that it has happened when that is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doom {
    #[default]
    None,
    /// It is gone when this is answered.
    By(u64),
    /// It came later, or that was not answered: it is gone or not.
    Maybe,
}

/// What is to be left: the message `RetainSnapshots`.
#[derive(Clone, Debug)]
pub struct Retained {
    pub number: u64,
    pub head: bool,
    pub above: u32,
    pub to: u32,
    pub live: Vec<u32>,
}

impl Retained {
    fn drops(&self, state: &Frozen) -> bool {
        let lives = self.live.iter().any(|&k| state.above < k && k <= state.to);
        state.above >= self.above && state.to <= self.to && !lives
    }
}

/// What can be done to a chunk.
#[derive(Clone, Debug)]
pub enum Deed {
    Change {
        version: Version,
        snapshot: u32,
        change: Change,
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

    /// The chunk after `deed`; it has `count` blocks. `keep` is under way.
    pub fn after(&self, deed: &Deed, keep: Option<&Retained>, count: usize) -> Held {
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
                        let mut state = Frozen {
                            above: held.snap,
                            to: *snapshot,
                            blocks: head,
                            doom: Doom::None,
                        };
                        if keep.is_some_and(|keep| keep.drops(&state)) {
                            state.doom = Doom::Maybe;
                        }
                        held.states.push(state);
                    }
                } else {
                    held.born = *snapshot;
                    held.head = Some(Rc::new(Blocks::new(count)));
                }
                held.snap = *snapshot;
                let head = held.head.as_mut().expect("it was made above");
                Rc::make_mut(head).apply(*version, change);
            }
            Deed::Clone(blocks) => {
                assert!(!held.exists(), "a chunk that exists is not made");
                held.head = Some(blocks.clone());
            }
        }
        held
    }

    /// `keep` is asked for.
    pub fn doom(&mut self, keep: &Retained) {
        for state in self.states.iter_mut().filter(|state| keep.drops(state)) {
            state.doom = Doom::By(keep.number);
        }
        if !keep.head && self.head.is_some() {
            self.head_doom = Doom::By(keep.number);
            self.head_kept = keep.live.last().copied().unwrap_or(0);
        }
    }

    /// It was answered.
    pub fn drop(&mut self, keep: u64) {
        self.states.retain(|state| state.doom != Doom::By(keep));
        if self.head_doom == Doom::By(keep) {
            self.drop_head();
        }
        self.forget_if_nothing();
    }

    /// It was refused, maybe after some of it was done.
    pub fn reprieve(&mut self, keep: u64) {
        let dooms = self.states.iter_mut().map(|state| &mut state.doom);
        for doom in dooms.chain([&mut self.head_doom]) {
            if *doom == Doom::By(keep) {
                *doom = Doom::Maybe;
            }
        }
    }

    fn drop_head(&mut self) {
        self.deleted_at = self.version();
        if let Some(blocks) = self.head.take()
            && self.head_kept > self.snap
        {
            self.states.push(Frozen {
                above: self.snap,
                to: self.head_kept,
                blocks,
                doom: Doom::None,
            });
            self.snap = self.head_kept;
        }
        self.head_doom = Doom::None;
    }

    fn forget_if_nothing(&mut self) {
        if !self.exists() {
            *self = Held::default();
        }
    }

    /// A snapshot (0: the chunk itself) that shows whether something doomed is there.
    pub fn doubtful(&self) -> Option<u32> {
        let state = self.states.iter().find(|state| state.doom != Doom::None);
        let head = (self.head_doom != Doom::None).then_some(0);
        state.map(|state| state.to).or(head)
    }

    /// It is there, or it is not.
    pub fn resolve(&mut self, k: u32, there: bool) {
        if k == 0 {
            self.head_doom = Doom::None;
            if !there && self.head.is_some() {
                self.drop_head();
            }
        }
        let at = self.states.iter().position(|state| state.above < k && k <= state.to);
        if let Some(at) = at {
            self.states[at].doom = Doom::None;
            if !there {
                self.states.remove(at);
            }
        }
        self.forget_if_nothing();
    }

    /// What snapshot `k` may show; 0: the chunk itself.
    pub fn views(&self, k: u32) -> Vec<View> {
        let doomed = |doom: Doom| doom != Doom::None;
        let all_doomed = self.states.iter().all(|state| doomed(state.doom));
        let mut views = Vec::new();
        let head_goes = doomed(self.head_doom) && self.head_kept <= self.snap;
        if all_doomed && (self.head.is_none() || head_goes) {
            views.push(View::Unwritten);
        }
        if !self.exists() {
            return views;
        }
        let mut may_show = |blocks: &Rc<Blocks>, doom: Doom| {
            views.push(View::Content(blocks.clone()));
            if doomed(doom) {
                views.push(View::Gone);
            }
        };
        let state = self.states.iter().find(|state| state.above < k && k <= state.to);
        match (state, &self.head) {
            (None, Some(head)) if self.snap < k && k <= self.head_kept => may_show(head, Doom::None),
            (None, Some(head)) if k == 0 || k > self.snap => may_show(head, self.head_doom),
            (None, _) if 0 < k && k <= self.born => views.push(View::Unwritten),
            (None, _) => views.push(View::Gone),
            (Some(state), _) => may_show(&state.blocks, state.doom),
        }
        views
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
