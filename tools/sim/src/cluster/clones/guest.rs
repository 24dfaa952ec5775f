//! What the guests of clones do, and what they find.

use super::{CLEARED, DEPTH, Guest, MARK, RETRY, WRITE};
use crate::cluster::Cluster;
use crate::faults::Member;
use crate::stamp::{self, SECTORS_PER_BLOCK, Sector};
use amita_frontend::{Event, Who};
use amita_reactor::{Slice, Time};
use amita_types::BLOCK_BYTES;
use amita_types::io::{IoError, Op, Payload};

impl Guest {
    pub(super) fn leave(&mut self, now: Time) {
        (self.at, self.open) = (None, None);
        for (block, write) in std::mem::take(&mut self.under_way) {
            // Of before a revert.
            let write = write.filter(|_| !self.turns.overtaken.remove(&block));
            // It may have been carried out, or not, or be on its way still.
            if let Some(write) = write {
                self.late.insert(block);
                self.own.entry(block).or_insert_with(|| vec![None]).push(Some(write));
            } else if let Some(unread) = &mut self.unread {
                // Nobody has seen it yet.
                unread.insert(block);
            }
        }
        self.turns.overtaken.clear();
        self.again = now.plus(RETRY);
    }
}

impl Cluster {
    pub(super) fn hear_for_clone(&mut self, now: Time, index: usize) -> Result<(), String> {
        let guest = &mut self.clones.guests[index];
        if let Some((process, ..)) = &guest.at {
            let node = &self.nodes[guest.gateway];
            if node.process != *process || !node.is_up() {
                guest.leave(now);
            }
        }
        loop {
            let guest = &mut self.clones.guests[index];
            let next = guest
                .at
                .as_ref()
                .and_then(|(_, _, heard)| heard.borrow_mut().events.pop_front());
            match next {
                None => return Ok(()),
                Some(Event::Opened { result: Ok(info), .. }) => guest.open = Some(info.id),
                Some(Event::Opened { result: Err(_), .. } | Event::Lost { .. }) => {
                    self.hang_up_clone(now, index);
                    return Ok(());
                }
                Some(Event::Done { tag, result, payload }) => self.done_for_clone(now, index, tag, result, &payload)?,
                Some(_) => {}
            }
        }
    }

    pub(super) fn done_for_clone(
        &mut self,
        now: Time,
        index: usize,
        tag: u64,
        result: Result<(), IoError>,
        payload: &Payload,
    ) -> Result<(), String> {
        let guest = &mut self.clones.guests[index];
        let block = tag & (WRITE - 1);
        let write = guest.under_way.remove(&block).flatten();
        if guest.turns.overtaken.remove(&block) {
            self.coverage.hit("revert.overtaken");
            return Ok(());
        }
        let stays = guest.turns.stays;
        if tag >= WRITE {
            let Some(write) = write else { return Ok(()) };
            match result {
                Ok(()) if !guest.late.contains(&block) => drop(guest.own.insert(block, vec![Some(write)])),
                _ => {
                    guest.late.insert(block);
                    guest.own.entry(block).or_insert_with(|| vec![None]).push(Some(write));
                }
            }
            self.coverage.add("clone.wrote", u64::from(result.is_ok()));
            self.coverage
                .add("revert.wrote_meanwhile", u64::from(result.is_ok() && stays));
            let guest = &self.clones.guests[index];
            self.tell(|| {
                let possible = &guest.own[&block];
                format!(
                    "block {block} of {}: write {write} {result:?}; now {possible:?}",
                    guest.name
                )
            });
            return Ok(());
        }
        if result.is_err() {
            if let Some(unread) = &mut guest.unread {
                // In the end each block must be seen: he tries again in a moment, by any gateway.
                unread.insert(block);
                self.coverage.hit("clone.read_again");
                self.hang_up_clone(now, index);
            }
            return Ok(());
        }
        self.coverage.hit("clone.read");
        if guest.unread.is_some() {
            self.coverage.hit("clone.read_in_the_end");
        }
        let zeros = [0; BLOCK_BYTES as usize];
        let bytes: &[u8] = match payload {
            Payload::Data(data) => data,
            _ => &zeros,
        };
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let name = &guest.name;
        let possible = guest.own.get(&block).cloned().unwrap_or_else(|| vec![None]);
        let found = (word(0) == MARK).then(|| word(8));
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        let inherited = guest.inherited.get(&block).copied();
        if is_zero && (possible.contains(&Some(CLEARED)) || (possible.contains(&None) && inherited == Some(CLEARED))) {
            self.coverage.hit("clone.read_cleared");
            return Ok(());
        }
        let is_inherited = possible.contains(&None) && found == inherited;
        if let Some(found) = found
            && !is_inherited
        {
            let is_whole = (0..bytes.len())
                .step_by(16)
                .all(|at| (word(at), word(at + 8)) == (MARK, found));
            return match is_whole && possible.contains(&Some(found)) {
                true => Ok(()),
                false => Err(format!(
                    "block {block} of {name} holds its guest's write {found}, and may hold {possible:?}"
                )),
            };
        }
        if !is_inherited {
            return Err(format!(
                "block {block} of {name} holds what it had first, and may hold {possible:?} (or {:?} of what it comes from)",
                guest.inherited.get(&block)
            ));
        }
        if found.is_some() {
            self.coverage.hit("clone.read_of_clone");
            return Ok(());
        }
        let root = &mut self.clones.roots[guest.root];
        let sector = Sector((root.volume * self.setup.blocks + block) * SECTORS_PER_BLOCK as u64);
        let stamps = stamp::parse(bytes, 1, sector).map_err(|corrupt| format!("{name}: {corrupt}"))?;
        self.coverage.hit("clone.read_inherited");
        let known = root.base.entry(block).or_insert_with(|| stamps.clone());
        if *known != stamps {
            return Err(format!(
                "block {block} of {name} is {stamps:?}, and snapshot {} that it comes from had {known:?}",
                root.number.0
            ));
        }
        Ok(())
    }

    pub(super) fn act_for_clone(&mut self, now: Time, index: usize) {
        let guest = &mut self.clones.guests[index];
        if guest.at.is_none() && now >= guest.again && !guest.rests && !guest.is_idle {
            let up: Vec<Member> = (0..self.setup.gateways())
                .filter(|member| self.nodes[*member].is_up() && !self.is_shunned(index, *member))
                .collect();
            let guest = &mut self.clones.guests[index];
            if !up.is_empty() {
                guest.gateway = *self.clones.random.pick(&up);
            }
            let node = &mut self.nodes[guest.gateway];
            let attached = if up.is_empty() { None } else { node.attach(0) };
            match attached {
                Some((front, heard)) => {
                    let process = node.process;
                    let name = guest.name.clone();
                    node.ask(0, front, |service| service.open(front, 0, &name, &Who::Program));
                    guest.at = Some((process, front, heard));
                }
                None => guest.again = now.plus(RETRY),
            }
        }
        let guest = &mut self.clones.guests[index];
        let (Some((_, front, _)), Some(volume)) = (&guest.at, guest.open) else {
            return;
        };
        let front = *front;
        let rests = guest.rests && !guest.turns.stays;
        let is_early = self.clones.setup.late && (guest.flatten_at.is_some() || guest.flattening);
        let stops = guest.clone_at.is_some_and(|at| at <= now) || guest.wish.is_some() || guest.deletion.is_some();
        let stops = stops || (is_early && guest.unread.is_none()) || rests;
        if rests && guest.under_way.is_empty() && guest.wish.is_none() {
            return self.hang_up_clone(now, index);
        }
        while guest.under_way.len() < DEPTH && !stops {
            let random = &mut self.clones.random;
            let (block, writes) = match &mut guest.unread {
                Some(unread) => match unread.pop_first() {
                    Some(block) => (block, false),
                    None => break,
                },
                None if guest.left == 0 => break,
                None => (
                    random.below(guest.blocks),
                    random.percent(self.clones.setup.write_percent),
                ),
            };
            guest.left = guest.left.saturating_sub(1);
            if guest.under_way.contains_key(&block) {
                if let Some(unread) = &mut guest.unread {
                    unread.insert(block);
                }
                break;
            }
            let offset = block * u64::from(BLOCK_BYTES);
            let length = BLOCK_BYTES;
            let (op, tag, data) = if writes {
                self.clones.writes += 1;
                let write = self.clones.writes;
                guest.under_way.insert(block, Some(write));
                let words = [MARK.to_le_bytes(), write.to_le_bytes()].concat();
                let data = words.repeat(BLOCK_BYTES as usize / words.len());
                (Op::Write { offset, length }, WRITE + block, Slice::copy_from(&data))
            } else {
                guest.under_way.insert(block, None);
                (Op::Read { offset, length }, block, Slice::default())
            };
            // What he has open is what the volume was.
            self.coverage.add("revert.asked_behind", u64::from(volume != guest.id));
            self.nodes[guest.gateway].ask(0, front, |service| service.submit(front, tag, volume.into(), op, data));
        }
    }

    pub(super) fn hang_up_clone(&mut self, now: Time, index: usize) {
        let guest = &mut self.clones.guests[index];
        if let Some((process, front, heard)) = &guest.at {
            heard.borrow_mut().gone = true;
            let node = &mut self.nodes[guest.gateway];
            if node.process == *process {
                node.hang_up(0, *front);
            }
        }
        guest.leave(now);
    }
}
