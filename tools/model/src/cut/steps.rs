//! What each step does; `None`: it cannot be taken.

use super::{Action, CHUNK, CHUNKS, Cut, Owner, Rule, State, WRITES};

impl Cut {
    pub(super) fn step(&self, s: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Raise => self.raise(s),
            Action::ReadEarly => {
                let may = s.record.early.is_none() && usize::from(s.record.generation) < self.owners;
                s.record.early = Some(s.record.number);
                may.then_some(())
            }
            Action::FenceAll(owner) => {
                let all = s.stores.as_flattened_mut();
                let may = s.owners[owner - 1].here && all.iter().all(|store| store.fence <= owner as u8);
                let new = all.iter().any(|store| store.fence < owner as u8);
                all.iter_mut().for_each(|store| store.fence = owner as u8);
                (may && new).then_some(())
            }
            Action::Open(owner, chunk) => self.open(s, owner, chunk),
            Action::Take(owner) => self.take(s, owner),
            Action::Adopt(owner, core) => {
                let record_first = self.keeps(Rule::RecordFirst);
                let owner = &mut s.owners[owner - 1];
                if !owner.here || (owner.taking == 0 && record_first) {
                    return None;
                }
                if owner.taking == 0 && owner.numbers[core] < self.snapshots {
                    owner.taking = owner.numbers[core] + 1;
                }
                let new = owner.numbers[core] < owner.taking;
                owner.numbers[core] = owner.taking;
                new.then_some(())
            }
            Action::Release(owner) => {
                let owner = &mut s.owners[owner - 1];
                let may = owner.released < owner.taking && owner.numbers == [owner.taking; CHUNKS];
                owner.released = owner.taking;
                may.then_some(())
            }
            Action::Seal(owner) => self.seal(s, owner),
            Action::Give(owner, write) => Self::give(s, owner, write),
            Action::Land(write, member) => {
                let may = !s.writes[write].lost[member];
                let number = s.writes[write].number;
                may.then(|| self.land(s, write, member, number))?
            }
            Action::Break(write, member) => {
                let member_now = member < self.members(s, CHUNK[write]);
                let it = &mut s.writes[write];
                let may = it.owner > 0 && it.numbers[member].is_none() && !it.lost[member] && !it.gone && member_now;
                it.lost[member] = true;
                s.breaks = s.breaks.checked_sub(1)?;
                may.then_some(())
            }
            Action::Resend(write, member) => {
                let it = s.writes[write];
                let newest = s.owners[usize::from(it.owner.checked_sub(1)?)].numbers[CHUNK[write]];
                let number = if self.keeps(Rule::Bound) { it.number } else { newest };
                it.lost[member].then(|| self.land(s, write, member, number))?
            }
            Action::Acknowledge(write) => {
                let released = self.released(s, write, Rule::HoldAcks)?;
                let new = !s.writes[write].acknowledged;
                s.writes[write].acknowledged = true;
                (new && released).then_some(())
            }
            Action::Read(write) => {
                let released = self.released(s, write, Rule::HoldReads)?;
                // Its leases hold for as long as nobody newer has fenced the stores.
                let leases = s.stores[CHUNK[write]]
                    .iter()
                    .all(|store| store.fence == s.writes[write].owner);
                let new = !s.writes[write].known();
                s.writes[write].seen = true;
                (new && released && leases).then_some(())
            }
            Action::Join(owner) => self.join(s, owner),
        }
    }

    fn raise(&self, s: &mut State) -> Option<()> {
        let new = usize::from(s.record.generation);
        if new >= self.owners {
            return None;
        }
        s.record.generation += 1;
        let early = s.record.early.take();
        let unsealed = s.record.taking;
        let void = self.keeps(Rule::Void);
        if void {
            s.record.taking = 0;
            if unsealed > 0 && !self.keeps(Rule::NeverAgain) {
                s.record.number = unsealed - 1;
            }
        }
        let number = early.unwrap_or(s.record.number);
        s.owners[new] = Owner {
            here: true,
            open: [false; CHUNKS],
            numbers: [number; CHUNKS],
            released: number,
            taking: if void { 0 } else { unsealed },
        };
        Some(())
    }

    fn open(&self, s: &mut State, owner: usize, chunk: usize) -> Option<()> {
        let stores = &mut s.stores[chunk];
        if !s.owners[owner - 1].here
            || s.owners[owner - 1].open[chunk]
            || stores.iter().any(|store| store.fence > owner as u8)
        {
            return None;
        }
        s.owners[owner - 1].open[chunk] = true;
        stores.iter_mut().for_each(|store| store.fence = owner as u8);
        let members = self.members(s, chunk);
        for write in (0..WRITES).filter(|write| CHUNK[*write] == chunk) {
            let it = &mut s.writes[write];
            if it.owner == 0 || it.gone {
                continue;
            }
            let Some(number) = it.numbers.iter().flatten().copied().next() else {
                it.gone = true;
                continue;
            };
            for member in 0..members {
                it.numbers[member].get_or_insert(number);
                let store = &mut s.stores[chunk][member];
                store.number = store.number.max(number);
            }
            // From here on it is what reads show.
            it.seen = true;
        }
        Some(())
    }

    fn take(&self, s: &mut State, owner: usize) -> Option<()> {
        let all = s.stores.as_flattened().iter().all(|store| store.fence == owner as u8);
        let it = &mut s.owners[owner - 1];
        let record = &mut s.record;
        let begun = !self.keeps(Rule::RecordFirst) && it.taking == record.number + 1;
        if record.generation != owner as u8
            || record.number >= self.snapshots
            || (it.taking > 0 && !begun)
            || (self.keeps(Rule::FencesFirst) && !all)
        {
            return None;
        }
        record.number += 1;
        record.taking = record.number;
        it.taking = record.number;
        let acknowledged = (0..WRITES).filter(|write| s.writes[*write].acknowledged);
        record.before[usize::from(record.number) - 1] = acknowledged.map(|write| 1 << write).sum();
        Some(())
    }

    fn seal(&self, s: &mut State, owner: usize) -> Option<()> {
        let it = &mut s.owners[owner - 1];
        let older = (s.writes.iter())
            .any(|write| write.owner == owner as u8 && write.number < it.taking && !write.acknowledged && !write.gone);
        if it.taking == 0
            || it.released < it.taking
            || s.record.taking != it.taking
            || s.record.generation != owner as u8
            || older
        {
            return None;
        }
        s.record.sealed |= 1 << it.taking;
        s.record.sealer = owner as u8;
        (s.record.taking, it.taking) = (0, 0);
        Some(())
    }

    fn give(s: &mut State, owner: usize, write: usize) -> Option<()> {
        let (chunk, from) = (CHUNK[write], s.owners[owner - 1]);
        let before = match write {
            1 => s.writes[0].known(),
            2 => s.writes[0].owner > 0,
            _ => true,
        };
        let it = &mut s.writes[write];
        if !from.here || !from.open[chunk] || it.owner > 0 || !before {
            return None;
        }
        (it.owner, it.number) = (owner as u8, from.numbers[chunk]);
        Some(())
    }

    fn land(&self, s: &mut State, write: usize, member: usize, number: u8) -> Option<()> {
        let chunk = CHUNK[write];
        let it = s.writes[write];
        let store = s.stores[chunk][member];
        let behind = write == 2 && !s.writes[0].gone && s.writes[0].numbers[member].is_none();
        if it.owner == 0
            || it.gone
            || it.numbers[member].is_some()
            || store.fence != it.owner
            || behind
            || member >= self.members(s, chunk)
        {
            return None;
        }
        if number < store.number {
            s.refused = true;
            return Some(());
        }
        s.stores[chunk][member].number = number;
        s.writes[write].numbers[member] = Some(number);
        Some(())
    }

    /// All members have it; whether it may be told.
    fn released(&self, s: &State, write: usize, rule: Rule) -> Option<bool> {
        let it = &s.writes[write];
        let owner = s.owners.get(usize::from(it.owner.checked_sub(1)?))?;
        let members = &it.numbers[..self.members(s, CHUNK[write])];
        let all = members.iter().all(Option::is_some);
        let first = write != 2 || s.writes[0].known() || s.writes[0].gone;
        (all && first && !it.gone).then_some(it.number <= owner.released || !self.keeps(rule))
    }

    /// The last version whose write is acknowledged is named, and what is under way comes behind it.
    fn join(&self, s: &mut State, owner: usize) -> Option<()> {
        let from = s.owners[owner - 1];
        if !s.away || !from.here || !from.open[0] || s.stores[0].iter().any(|store| store.fence != owner as u8) {
            return None;
        }
        s.away = false;
        let mut named = 0;
        for write in (0..WRITES).filter(|write| CHUNK[*write] == 0) {
            let it = &mut s.writes[write];
            if it.known() && it.numbers[0].is_some() {
                it.numbers[1] = it.numbers[0];
                named = it.number;
            }
        }
        s.stores[0][1].number = if self.keeps(Rule::JoinNumber) {
            named
        } else {
            from.numbers[0]
        };
        Some(())
    }
}
