//! What each step does; `None`: it cannot be taken.

use super::{Action, Clones, Own, Parent, Role, Rule, State, Store};

/// The store that comes back.
const BACK: usize = 1;

impl Clones {
    pub(super) fn step(&self, s: &mut State, action: Action) -> Option<()> {
        let listed = s.since;
        match action {
            Action::Look => {
                let may = !s.looked && s.live;
                s.looked = true;
                may.then_some(())
            }
            Action::Clone => {
                let may = s.looked && !s.cloned && (s.live || !self.keeps(Rule::Compared));
                s.cloned = true;
                s.pins += 1;
                may.then_some(())
            }
            Action::Delete => {
                let may = s.live && (s.pins == 0 || !self.keeps(Rule::Pins));
                s.live = false;
                may.then_some(())
            }
            Action::Trim(store) => {
                let store = &mut s.stores[store];
                let may = !s.live && store.parent != Parent::Trimmed;
                store.parent = Parent::Trimmed;
                may.then_some(())
            }
            Action::Give(owner) => {
                let may = s.cloned && s.write.owner == 0 && s.open >= owner && s.generation >= owner;
                s.write.owner = owner;
                may.then_some(())
            }
            Action::Land(store) => self.land(s, store),
            Action::Acknowledge => {
                let has = |store: &Store| !store.gets_writes() || store.clone.is_some_and(|own| own.written);
                let may = s.write.owner > 0 && !s.write.acknowledged && !s.write.gone && s.stores.iter().all(has);
                s.write.acknowledged = true;
                may.then_some(())
            }
            Action::Raise => {
                let may = s.cloned && s.generation == 1;
                s.generation = 2;
                // A claim names its owner's generation.
                s.claims[1] = None;
                may.then_some(())
            }
            Action::Open => self.open(s),
            Action::ReadOld(store) => {
                let store = &s.stores[store];
                let served = store.fence == 1 || !self.keeps(Rule::OwnRight);
                let may = s.generation == 2 && store.role == Role::InSync && served && s.write.owner != 1;
                s.stale |= s.write.acknowledged;
                may.then_some(())
            }
            Action::Return => {
                let back = &mut s.stores[BACK];
                let may = back.role == Role::Out && s.since < self.returns;
                back.role = Role::Listed;
                s.since += 1;
                may.then_some(())
            }
            Action::SendFence => {
                let may = s.stores[BACK].role == Role::Listed && s.fence.is_none() && s.open == s.generation;
                s.fence = Some(s.parents);
                may.then_some(())
            }
            Action::Fenced => {
                let back = &mut s.stores[BACK];
                back.told = s.fence.take()?;
                let may = back.role == Role::Listed;
                (back.role, back.fence) = (Role::Active, s.generation);
                may.then_some(())
            }
            Action::Leave => {
                let back = &mut s.stores[BACK];
                let may = matches!(back.role, Role::Listed | Role::Active) && s.since < self.returns;
                (back.role, s.fence) = (Role::Out, None);
                if back.parent == Parent::Whole {
                    back.parent = Parent::Lacking;
                }
                may.then_some(())
            }
            Action::BringParent => {
                let from = s.stores[0].parent;
                let back = &mut s.stores[BACK];
                let may = back.role == Role::Active && back.parent == Parent::Lacking;
                back.parent = from;
                may.then_some(())
            }
            Action::ClaimParent => {
                let back = &s.stores[BACK];
                let may = back.role == Role::Active && back.parent != Parent::Lacking && s.claims[0] != Some(listed);
                s.claims[0] = Some(listed);
                may.then_some(())
            }
            Action::Join => {
                // What is not acknowledged is on its way to all that get writes.
                let at = s.stores[0].says().map(|written| written && s.write.acknowledged);
                let back = &mut s.stores[BACK];
                let may = s.cloned && back.role == Role::Active && back.says() < at;
                back.clone = Some(Own {
                    entries: false,
                    incomplete: true,
                    written: at == Some(true),
                });
                may.then_some(())
            }
            Action::Bring => {
                let back = &mut s.stores[BACK];
                let parents_first = self.keeps(Rule::ParentsFirstChunks);
                let there = back.parent != Parent::Lacking || !parents_first;
                let own = back.clone.as_mut().filter(|own| own.incomplete)?;
                (own.entries, own.incomplete) = (parents_first || back.parent == Parent::Whole, false);
                (back.role == Role::Active && there).then_some(())
            }
            Action::Claim => {
                let since = if self.keeps(Rule::SameSince) {
                    s.claims[0] == Some(listed)
                } else {
                    s.claims[0].is_some()
                };
                let parents = since || !s.parents || !self.keeps(Rule::ParentsFirst);
                let back = &s.stores[BACK];
                let told = back.told == s.parents || !self.keeps(Rule::DetachTells);
                let equal = back.says().is_some() && back.says() >= s.stores[0].says();
                let whole = back.role == Role::Active && !back.clone.is_some_and(|own| own.incomplete) && equal;
                let may = s.cloned && whole && parents && told && s.open == s.generation && s.claims[1] != Some(listed);
                s.claims[1] = Some(listed);
                may.then_some(())
            }
            Action::Promote => {
                let back = &mut s.stores[BACK];
                let may = back.role == Role::Active && s.claims == [Some(listed); 2];
                back.role = Role::InSync;
                may.then_some(())
            }
            Action::Make(store) => {
                let may = s.cloned && s.parents && s.open == s.generation;
                let store = &mut s.stores[store];
                let may = may && store.gets_writes() && store.clone.is_none();
                store.clone = Some(self.made(store, false, true));
                may.then_some(())
            }
            Action::Detach => {
                let made = |store: &Store| match store.role {
                    Role::InSync => store.clone.is_some(),
                    Role::Active => store.clone.is_some() || !self.keeps(Rule::DetachSyncing),
                    Role::Out | Role::Listed => true,
                };
                let may = s.cloned && s.parents && s.open == s.generation && s.stores.iter().all(made);
                s.parents = false;
                if !self.keeps(Rule::DetachTells) {
                    s.pins -= 1;
                }
                may.then_some(())
            }
            Action::Tell(at) => {
                let flying = at == BACK && s.fence.is_some();
                let store = &mut s.stores[at];
                let may = !s.parents && store.told && store.gets_writes() && !flying && self.keeps(Rule::DetachTells);
                store.told = false;
                may.then_some(())
            }
            Action::Unpin => {
                let told = |store: &Store| !store.gets_writes() || !store.told;
                let all = s.stores.iter().all(told) && s.fence != Some(true);
                let may = !s.parents && all && s.pins > 0 && self.keeps(Rule::DetachTells);
                s.pins = 0;
                may.then_some(())
            }
        }
    }

    /// C's chunk, made its own on a store, from what that has of the parent.
    fn made(&self, store: &Store, written: bool, with_entries: bool) -> Own {
        let there = store.told && store.parent == Parent::Whole;
        Own {
            entries: there && with_entries,
            incomplete: !there && store.role == Role::Active && self.keeps(Rule::ParentsFirstChunks),
            written,
        }
    }

    fn land(&self, s: &mut State, store: usize) -> Option<()> {
        let (owner, gone) = (s.write.owner, s.write.gone);
        let at = &mut s.stores[store];
        let new = !at.clone.is_some_and(|own| own.written);
        let may = owner > 0 && !gone && new && at.gets_writes() && at.fence == owner;
        at.clone = Some(match at.clone {
            Some(own) => Own { written: true, ..own },
            None => self.made(at, true, self.keeps(Rule::Entries)),
        });
        may.then_some(())
    }

    /// All that get writes are fenced; what one in sync has, the others get.
    fn open(&self, s: &mut State) -> Option<()> {
        let may = s.generation == 2 && s.open == 1;
        s.open = 2;
        let has = |store: &Store| store.clone.is_some_and(|own| own.written);
        let longest = s.stores.iter().any(|store| store.role == Role::InSync && has(store));
        // From here on it is what reads show, or it never happened.
        s.write.acknowledged |= longest;
        s.write.gone = s.write.owner > 0 && !longest;
        for at in 0..s.stores.len() {
            let store = s.stores[at];
            if !store.gets_writes() {
                continue;
            }
            s.stores[at].fence = 2;
            s.stores[at].told = s.parents;
            if has(&store) == longest {
                continue;
            }
            s.stores[at].clone = Some(match (store.role, store.clone) {
                (Role::InSync, Some(own)) => Own {
                    written: longest,
                    ..own
                },
                (Role::InSync, None) => self.made(&store, longest, self.keeps(Rule::EntriesRolled)),
                _ => Own {
                    entries: false,
                    incomplete: true,
                    written: longest,
                },
            });
        }
        may.then_some(())
    }
}
