//! What each step does; `None`: it cannot be taken.

use super::{Action, Owner, Role, Rule, SNAPSHOTS, STORES, State, States, View};

impl States {
    pub(super) fn step(&self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Write => {
                let may = s.volume.numbers.len() < usize::from(self.writes);
                s.volume.numbers.push(s.volume.number);
                may.then_some(())
            }
            Action::Apply(store) => self.apply(s, store),
            Action::Take => {
                let volume = &mut s.volume;
                let unsealed = volume.live & !volume.sealed & (1 << volume.number) != 0;
                let may = volume.number < self.snapshots && !unsealed;
                volume.number += 1;
                volume.live |= 1 << volume.number;
                if self.keeps(Rule::AdoptedSince) {
                    s.owner.needed |= 1 << volume.number;
                }
                may.then_some(())
            }
            Action::Seal => {
                let number = s.volume.number;
                let new = s.volume.live & !s.volume.sealed & (1 << number) != 0;
                let may = new
                    && s.chunks
                        .iter()
                        .all(|chunk| !chunk.writes() || chunk.head >= s.volume.end_of(number));
                s.volume.sealed |= 1 << number;
                may.then_some(())
            }
            Action::Delete(number) => {
                let may = s.volume.sealed & s.volume.live & (1 << number) != 0;
                s.volume.live &= !(1 << number);
                s.left[3] = s.left[3].checked_sub(1)?;
                may.then_some(())
            }
            Action::Tell(store) => {
                let kept = Some((s.volume.live, s.volume.number));
                let new = s.chunks[store].kept != kept;
                s.chunks[store].kept = kept;
                new.then_some(())
            }
            Action::Trim(store, number) => {
                let chunk = &mut s.chunks[store];
                let (live, upto) = chunk.kept?;
                let gone = |number: u8| (number <= upto || !self.keeps(Rule::UpTo)) && live & (1 << number) == 0;
                let may = gone(number) && (chunk.numbers_of(number).all(gone) || !self.keeps(Rule::LastOfState));
                let had = chunk.states[usize::from(number) - 1].take().is_some();
                chunk.trimmed = true;
                (may && had).then_some(())
            }
            Action::Evict(store) => {
                let chunk = &mut s.chunks[store];
                let may = chunk.role == Role::InSync;
                chunk.role = Role::Out;
                s.left[0] = s.left[0].checked_sub(1)?;
                (may && s.in_sync().next().is_some()).then_some(())
            }
            Action::Return(store) => {
                let one = s.chunks.iter().all(|chunk| chunk.role != Role::Syncing);
                let chunk = &mut s.chunks[store];
                let may = chunk.role == Role::Out && one;
                (chunk.role, chunk.joined) = (Role::Syncing, false);
                s.left[1] = s.left[1].checked_sub(1)?;
                may.then_some(())
            }
            Action::Join(store) => Self::join(s, store),
            Action::MendHead(store) => {
                let chunk = &mut s.chunks[store];
                let may = chunk.role == Role::Syncing && chunk.joined && chunk.incomplete && chunk.holes;
                chunk.holes = false;
                may.then_some(())
            }
            Action::Frame(store, number) => self.frame(s, store, number),
            Action::Mend => {
                let (store, number, version, sent) = s.owner.bringing?;
                let source = s
                    .in_sync()
                    .map(|source| s.chunks[source].view(number))
                    .find(|view| view.version == version);
                s.owner.bringing = Some((store, number, version, true));
                if let (Some(source), Some(state)) = (
                    source,
                    s.chunks[usize::from(store)].states[usize::from(number) - 1].as_mut(),
                ) {
                    state.good = source.good && state.version == version;
                } else {
                    // It was trimmed on one side or the other.
                    s.owner.bringing = None;
                }
                (!sent).then_some(())
            }
            Action::Whole => {
                let (store, number, version, sent) = s.owner.bringing.take()?;
                let chunk = &mut s.chunks[usize::from(store)];
                if let Some(state) = chunk.states[usize::from(number) - 1]
                    .as_mut()
                    .filter(|state| state.version == version)
                {
                    state.open = false;
                    chunk.brought |= 1 << number;
                    s.owner.todo &= !(1 << number);
                }
                sent.then_some(())
            }
            Action::WholeHead(store) => self.whole_head(s, store),
            Action::Promote(store) => {
                let chunk = &mut s.chunks[store];
                let may = chunk.role == Role::Syncing
                    && chunk.joined
                    && !chunk.incomplete
                    && s.owner.todo & s.volume.live == 0;
                chunk.role = Role::InSync;
                may.then_some(())
            }
            Action::Raise => self.raise(s),
        }
    }

    fn apply(&self, s: &mut State, store: usize) -> Option<()> {
        let chunk = &mut s.chunks[store];
        let next = s.volume.versions().find(|version| *version > chunk.head)?;
        let makes = !chunk.incomplete || !self.keeps(Rule::IncompleteMakesNone);
        let may = chunk.writes();
        chunk.go_on(next, s.volume.number_of(next), makes);
        may.then_some(())
    }

    /// The member goes on at what all stores in sync have.
    fn join(s: &mut State, store: usize) -> Option<()> {
        let at = s.in_sync().map(|store| s.chunks[store].head).min()?;
        let number = s.volume.number_of(at);
        let chunk = &mut s.chunks[store];
        let may = chunk.role == Role::Syncing && !chunk.joined;
        chunk.joined = true;
        if chunk.head < at || s.volume.lost & (1 << chunk.head) != 0 {
            (chunk.head, chunk.number) = (at, number);
            (chunk.incomplete, chunk.holes) = (true, true);
        }
        may.then_some(())
    }

    /// Whether the member's view of a snapshot is what a store in sync has.
    fn same(s: &State, store: usize, number: u8) -> bool {
        let chunk = &s.chunks[store];
        let Some(state) = chunk.state(number) else {
            // From when it is whole, it makes its states itself.
            return chunk.number < number;
        };
        let mut sources = s.in_sync().map(|source| s.chunks[source].view(number).version);
        !state.open && sources.any(|version| version == state.version)
    }

    fn frame(&self, s: &mut State, store: usize, number: u8) -> Option<()> {
        let source = &s.chunks[s.in_sync().next()?];
        let view = source.view(number);
        let frozen = source.state(number).is_some();
        let sealed = s.volume.sealed & (1 << number) != 0 || !self.keeps(Rule::SealedOnly);
        let settled = source.head >= s.volume.end_of(number) && frozen || !self.keeps(Rule::SettledAtSource);
        let needed = s.owner.needed & s.volume.live & (1 << number) != 0 && self.keeps(Rule::States);
        let chunk = &s.chunks[store];
        let lacks = chunk.incomplete || s.owner.todo & (1 << number) != 0;
        let may = chunk.role == Role::Syncing && chunk.joined && lacks && s.owner.bringing.is_none();
        if !may
            || !sealed
            || !settled
            || !needed
            || Self::same(s, store, number) && (frozen || chunk.state(number).is_some())
        {
            return None;
        }
        s.chunks[store].states[usize::from(number) - 1] = Some(View {
            version: view.version,
            open: self.keeps(Rule::OpenDurably),
            good: false,
        });
        s.owner.bringing = Some((store as u8, number, view.version, false));
        Some(())
    }

    fn whole_head(&self, s: &mut State, store: usize) -> Option<()> {
        let lacking: u8 = (1..=SNAPSHOTS as u8)
            .filter(|number| s.owner.needed & s.volume.live & (1 << number) != 0)
            .filter(|number| !Self::same(s, store, *number))
            .map(|number| 1 << number)
            .sum();
        let lacking = if self.keeps(Rule::States) { lacking } else { 0 };
        let chunk = &mut s.chunks[store];
        let may = chunk.role == Role::Syncing && chunk.joined && chunk.incomplete && !chunk.holes;
        if !may || s.owner.bringing.is_some() || (self.keeps(Rule::StatesFirst) && lacking != 0) {
            return None;
        }
        chunk.incomplete = false;
        s.owner.todo = lacking;
        Some(())
    }

    fn raise(&self, s: &mut State) -> Option<()> {
        s.left[2] = s.left[2].checked_sub(1)?;
        let volume = &mut s.volume;
        if self.keeps(Rule::Void) {
            volume.live &= volume.sealed;
        }
        let longest = s
            .chunks
            .iter()
            .filter(|chunk| chunk.role == Role::InSync)
            .map(|chunk| chunk.head)
            .max()?;
        for version in longest + 1..=volume.numbers.len() as u8 {
            volume.lost |= 1 << version;
        }
        let mut todo = 0;
        for store in 0..STORES {
            let chunk = &mut s.chunks[store];
            chunk.joined = false;
            match chunk.role {
                Role::InSync if chunk.head < longest => chunk.go_on(longest, s.volume.number_of(longest), true),
                Role::Syncing => {
                    chunk.resumed = true;
                    // Versions of heads are equal, so listings show what is open.
                    let open = (1..=SNAPSHOTS as u8)
                        .filter(|number| chunk.states[usize::from(*number) - 1].is_some_and(|state| state.open));
                    todo = open.map(|number| 1 << number).sum();
                }
                _ => {}
            }
        }
        s.owner = Owner {
            needed: s.volume.live,
            bringing: None,
            todo,
            second: true,
        };
        Some(())
    }
}

impl super::Chunk {
    /// It gets writes, and must answer them.
    fn writes(&self) -> bool {
        self.role == Role::InSync || (self.role == Role::Syncing && self.joined)
    }
}
