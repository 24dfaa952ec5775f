//! The commands of an initiator: which path each takes, what becomes of it there, and how it is brought to an end that takes too long.

use super::super::linux::{End, HostEffect};
use super::paths::State;
use super::wire::Verdict;
use super::{Bio, Initiator, SETUP, What};
use crate::history::OperationId;
use amita_reactor::Time;
use std::time::Duration;

/// Before what has met an error that may pass is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(20);
/// So often at most, with longer pauses, until the path is given up until its next check.
const TRIES: u32 = 5;

/// Task management functions (RFC 7143, 11.5.1).
const ABORT: u8 = 1;
const RESET: u8 = 5;

/// By which of them a command is brought to an end that takes too long.
fn function_of(slot: u64) -> u8 {
    if slot.is_multiple_of(5) { RESET } else { ABORT }
}

/// Of which commands were carried out, for the coverage.
fn path_of(cdb: &[u8; 16], verdict: Verdict) -> Option<&'static str> {
    const UNMAP: u8 = 0x08;
    match (cdb[0], verdict.status) {
        (0x88, 0) => Some("iscsi.read"),
        (0x8a, 0) => Some("iscsi.wrote"),
        (0x93, 0) if cdb[1] & UNMAP == 0 => Some("iscsi.wrote_same"),
        (0x42 | 0x93, 0) => Some("iscsi.unmapped"),
        (0x83, 0) => Some("iscsi.copied"),
        (0x89, 0) => Some("iscsi.compared"),
        (0x89, 2) if verdict.sense[0] == 0xe => Some("iscsi.miscompared"),
        _ => None,
    }
}

#[derive(Debug)]
pub(super) struct Sent {
    pub(super) bio: Bio,
    pub(super) path: usize,
    pub(super) at: Time,
    /// It is being aborted, until then.
    pub(super) abort_by: Option<Time>,
}

impl Initiator {
    pub(super) fn send_waiting(&mut self, now: Time) {
        while !self.waiting.is_empty() {
            let Some(index) = self.choose() else { return };
            let Some(bio) = self.waiting.pop_front() else { return };
            self.send(now, index, bio);
        }
    }

    pub(super) fn send(&mut self, now: Time, index: usize, bio: Bio) {
        let path = &mut self.paths[index];
        if path.state != State::Live {
            path.held.push(bio);
            return;
        }
        let Some(conn) = self.conns.get_mut(&path.conn) else {
            return;
        };
        self.next += 1;
        let slot = self.next;
        conn.wire.submit(What::Io(slot), bio.command.clone());
        let (id, operation) = (bio.id.0, bio.command.cdb[0]);
        self.tell(|| format!("operation {id} ({operation:02x}h) goes by path {index} as {slot}"));
        let sent = Sent {
            bio,
            path: index,
            at: now,
            abort_by: None,
        };
        self.sent.insert(slot, sent);
    }

    /// A path for a request: of the best group of those that are used.
    fn choose(&mut self) -> Option<usize> {
        let multibus = self.settings.multibus;
        let rank = |access: u8| match access {
            0 if !multibus => 2,
            0 | 1 => 1,
            _ => 0,
        };
        let used = self.paths.iter().enumerate();
        let used = used.filter(|(index, path)| path.usable && self.is_admitted(*index));
        let best = used.clone().map(|(_, path)| rank(path.access)).max()?;
        let group: Vec<usize> = used
            .filter(|(_, path)| rank(path.access) == best)
            .map(|(index, _)| index)
            .collect();
        if !self.settings.round_robin && group.contains(&self.usual) {
            return Some(self.usual);
        }
        let next = group
            .iter()
            .find(|index| self.usual == usize::MAX || **index > self.usual);
        self.usual = *next.unwrap_or(&group[0]);
        Some(self.usual)
    }

    pub(super) fn answered(&mut self, now: Time, slot: u64, verdict: Verdict, data: Vec<u8>) {
        let Some(Sent { bio, path, .. }) = self.sent.remove(&slot) else {
            return;
        };
        let id = bio.id;
        self.tell(|| format!("operation {} as {slot} by path {path}: {verdict:?}", id.0));
        let Some(mut bio) = self.copied(now, path, bio, verdict) else {
            return;
        };
        match (verdict.status, verdict.sense) {
            // It has not been begun.
            (2, [6, ..]) => return self.send(now, path, bio),
            // Nor has this, and by this path it will not be (standby, unavailable).
            (2, [2, 0x04, 0x0b | 0x0c]) => {
                self.taken.push("iscsi.no_access");
                self.paths[path].usable = false;
                return self.later.push((now.plus(PAUSE), bio));
            }
            (0x08 | 0x28, _) => {
                self.taken.push("iscsi.busy");
                if bio.repeatable {
                    self.acts.push_back(HostEffect::Again { id, lost: false });
                }
                bio.tries += 1;
                if bio.tries > TRIES {
                    bio.tries = 0;
                    self.paths[path].usable = false;
                }
                return self.later.push((now.plus(PAUSE), bio));
            }
            // TASK ABORTED: a reset that another initiator has asked for has ended it.
            (0x40, _) => {
                self.taken.push("iscsi.reset_by_another");
                return self.over(path, vec![bio]);
            }
            // The access by this path is changing, or it is none; or the command was aborted by somebody.
            (2, [2, 0x04, _] | [0xb, ..]) if bio.repeatable => {
                self.taken.push("iscsi.not_ready");
                self.acts.push_back(HostEffect::Again { id, lost: false });
                bio.tries += 1;
                let passes = verdict.sense[0] == 0xb || verdict.sense[2] == 0x0a;
                self.paths[path].usable &= passes && bio.tries <= TRIES;
                return self.later.push((now.plus(PAUSE), bio));
            }
            (2, [2, 0x04, _] | [0xb, ..]) => return self.end(id, path, End::Unknown, data),
            _ => {}
        }
        self.taken.extend(path_of(&bio.command.cdb, verdict));
        self.end(id, path, End::Scsi(verdict), data);
    }

    /// A function has ended. What it has ended is not answered any more; a reset ends what the host itself wants to know, too.
    pub(super) fn managed(&mut self, now: Time, index: usize, about: What, response: u8, over: &[What]) {
        let What::Io(slot) = about else { return };
        if response > 1 {
            return self.lose(now, index);
        }
        self.taken.push(match (function_of(slot), response) {
            (RESET, _) => "iscsi.unit_reset",
            (_, 1) if over.contains(&about) => "iscsi.reset_by_another",
            _ => "iscsi.aborted",
        });
        if over.contains(&What::Reserve) {
            self.registrations.lost(now, index);
        }
        let slots = over.iter().filter_map(|what| match what {
            What::Io(slot) => Some(*slot),
            _ => None,
        });
        let sent: Vec<Sent> = slots.filter_map(|slot| self.sent.remove(&slot)).collect();
        self.over(index, sent.into_iter().map(|sent| sent.bio).collect());
    }

    /// A command takes too long: it is aborted, or its logical unit is reset.
    pub(super) fn abort(&mut self, now: Time, slot: u64) {
        let Some(sent) = self.sent.get_mut(&slot) else { return };
        let index = sent.path;
        sent.abort_by = Some(now.plus(SETUP));
        let function = function_of(slot);
        let conn = self.paths[index].conn;
        let conn = self.conns.get_mut(&conn);
        let asked = conn.is_some_and(|conn| conn.wire.manage(function, |what| *what == What::Io(slot)));
        self.tell(|| format!("function {function} of path {index} for {slot}, sent: {asked}"));
        if !asked {
            // It waits in this host for its place in the target's window.
            self.lose(now, index);
        }
    }

    /// The target has said of these commands, which it has not answered, that they are over: they never take effect any more.
    pub(super) fn over(&mut self, index: usize, bios: Vec<Bio>) {
        for mut bio in bios {
            let id = bio.id;
            self.copy_over(&mut bio);
            self.tell(|| format!("operation {} is over by path {index}", id.0));
            self.acts.push_back(HostEffect::Over { id });
            if bio.repeatable {
                self.acts.push_back(HostEffect::Anew { id });
            } else {
                self.end(id, index, End::Over, Vec::new());
            }
        }
    }

    pub(super) fn end(&mut self, id: OperationId, path: usize, end: End, data: Vec<u8>) {
        let path = usize::from(self.paths[path].tag) - 1;
        self.acts.push_back(HostEffect::Ended { id, path, end, data });
    }

    pub(super) fn take_sent(&mut self, index: usize) -> Vec<Bio> {
        let of_path = self.sent.iter().filter(|(_, sent)| sent.path == index);
        let slots: Vec<u64> = of_path.map(|(slot, _)| *slot).collect();
        let taken = slots.iter().filter_map(|slot| self.sent.remove(slot));
        taken.map(|sent| sent.bio).collect()
    }

    pub(super) fn late_at(&self, sent: &Sent) -> Time {
        sent.abort_by.unwrap_or_else(|| sent.at.plus(self.settings.io_timeout))
    }
}
