//! Whose a disk is, where each of its paths is another registrant: SCSI knows initiators by their sessions, and not by their hosts.
//!
//! The reservation is one for registrants (Write Exclusive, Registrants Only): one path holds it, and all are registered before anybody uses the disk. What stands on the disk is said by the key
//! of the path that holds it, as by that of a host of NVMe. The other paths have the host's own key, so whoever takes the disk from a host takes both of its keys.

use super::Node;
use super::hold::{Held, reserved};
use super::machine::{Reserve, Reserved};
use super::nvme::Disk;
use crate::controller::context;
use crate::id;
use std::collections::BTreeMap;
use tonic::Status;

impl Node {
    /// A volume of one node is reserved by it; see [`Node::reserve`].
    pub(super) fn reserve_paths(&self, disk: &Disk, told: &BTreeMap<String, String>) -> Result<Held, Status> {
        let keys = self.keys(told)?;
        let text = told.get(context::PREEMPT).map_or("", String::as_str);
        let others: Vec<u64> = text.split(',').filter_map(id::key_of).collect();
        if told.contains_key(context::RELEASE) {
            self.release_paths(disk, keys.own, &others)?;
        }
        if !told.contains_key(context::EXCLUSIVE) {
            return Ok(Held::Shared);
        }
        let (mut known_by, mut is_unfinished) = (keys.own, false);
        if self.ask(disk, Reserve::Replace(keys.making, keys.making))? == Reserved::Done {
            // Who preempts by its own key stays if that holds it, and is known by nothing else: a key that holds nothing says nothing of the disk.
            self.ask(disk, Reserve::Preempt(keys.making, keys.making))?;
            if self.ask(disk, Reserve::Hold(keys.making))? == Reserved::Done {
                (known_by, is_unfinished) = (keys.making, true);
            }
        }
        if !is_unfinished {
            self.ask(disk, Reserve::Register(keys.own))?;
            if self.ask(disk, Reserve::Hold(keys.own))? == Reserved::Conflict {
                let unfinished = told.contains_key(context::UNFINISHED);
                is_unfinished = self.take(disk, keys, &others, unfinished)?;
                known_by = if is_unfinished { keys.making } else { keys.own };
            }
        }
        for victim in others.iter().flat_map(|key| [*key, key ^ 1]) {
            if ![keys.own, keys.making].contains(&victim) {
                self.ask(disk, Reserve::Preempt(known_by, victim))?;
            }
        }
        // Its own sessions of before are gone; they would be kept for ever. Those of now are registered anew: nobody writes by them yet.
        if self.is_free(disk)? {
            for victim in [keys.own, keys.making] {
                self.ask(disk, Reserve::Preempt(known_by, victim))?;
            }
        }
        for path in disk.paths.iter().skip(1) {
            self.ask_at(&format!("/dev/{path}"), Reserve::Register(keys.own))?;
        }
        Ok(match is_unfinished {
            true => Held::Unfinished,
            false => Held::Own,
        })
    }

    /// Takes what is held by this host's sessions of before, which are other registrants, or by a host that is not to have it any more; whether what is there is of a mkfs that
    /// was cut.
    fn take(&self, disk: &Disk, keys: id::Keys, others: &[u64], unfinished: bool) -> Result<bool, Status> {
        let own = [(keys.own, false), (keys.making, true)];
        let of_others = others.iter().enumerate().map(|(at, key)| (*key, at == 0 && unfinished));
        for (victim, is_making) in own.into_iter().chain(of_others) {
            let taken = match is_making {
                true => self.take_unfinished(disk, keys.making, victim)?,
                false => {
                    self.ask(disk, Reserve::Preempt(keys.own, victim))?;
                    Reserved::Conflict
                }
            };
            if taken == Reserved::Done {
                return Ok(true);
            }
            // It may have been among those that were taken away, or be known by its other key.
            self.ask(disk, Reserve::Register(keys.own))?;
            if self.ask(disk, Reserve::Hold(keys.own))? == Reserved::Done {
                return Ok(false);
            }
        }
        Err(reserved(disk))
    }

    /// Before it is taken the key is the one that says what is on the disk, so that it says so at every moment. It says so only if there was something to take.
    fn take_unfinished(&self, disk: &Disk, making: u64, victim: u64) -> Result<Reserved, Status> {
        self.ask(disk, Reserve::Register(making))?;
        match self.ask(disk, Reserve::Preempt(making, victim))? {
            Reserved::Done => self.ask(disk, Reserve::Hold(making)),
            Reserved::Conflict => Ok(Reserved::Conflict),
        }
    }

    /// Ends the reservation of before. One that another host has made since is that one's business.
    fn release_paths(&self, disk: &Disk, own: u64, others: &[u64]) -> Result<(), Status> {
        self.ask(disk, Reserve::Register(own))?;
        for victim in others {
            self.ask(disk, Reserve::Preempt(own, *victim))?;
        }
        match self.ask(disk, Reserve::Hold(own))? {
            Reserved::Done => self.ask(disk, Reserve::Clear(own)).map(drop),
            Reserved::Conflict => Ok(()),
        }
    }
}
