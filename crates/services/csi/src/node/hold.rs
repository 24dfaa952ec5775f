//! Whose a disk is: reservations, as a node takes them for the time that a volume is published to it (decision 086, "Attach never sticks").

use super::Node;
use super::machine::{Reserve, Reserved};
use super::nvme::Disk;
use super::report::Registered;
use crate::controller::context;
use crate::id;
use std::collections::BTreeMap;
use tonic::Status;

/// How a disk is this host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Nobody has it reserved.
    Shared,
    /// It alone.
    Own,
    /// It alone; and whoever had it, this host included, had not come to the end of making a file system, by which nothing was ever mounted.
    Unfinished,
}

impl Node {
    /// A volume of one node is reserved by it; from who had it before only where the controller says that it is not to have it any more. It stays so when it
    /// is unstaged: whoever was lost with it, and has not heard of that, finds it another's until it is its own again.
    pub(super) fn reserve(&self, disk: &Disk, told: &BTreeMap<String, String>) -> Result<Held, Status> {
        if !disk.paths.is_empty() {
            return self.reserve_paths(disk, told);
        }
        let other = told.get(context::PREEMPT).and_then(|text| id::key_of(text));
        if told.contains_key(context::RELEASE) {
            self.release(disk, self.keys(told)?.own, other)?;
        }
        if !told.contains_key(context::EXCLUSIVE) {
            return Ok(Held::Shared);
        }
        let keys = self.keys(told)?;
        let before = self.registered(disk);
        // By an attachment before this one, perhaps.
        let of_before = before.iter().find(|known| known.host == self.host);
        if let Some(of_before) =
            of_before.filter(|known| known.key != keys.making && id::is_making(known.key, self.host))
        {
            self.replace(disk, of_before.key, keys.making)?;
        }
        // It is known by that key, where it was cut: in the middle of making a file system if it holds the disk by it, and else when it was about to take it.
        let is_known = self.ask(disk, Reserve::Replace(keys.making, keys.making))? == Reserved::Done;
        if is_known && self.holds(disk, keys.making)? {
            return Ok(Held::Unfinished);
        }
        self.ask(disk, Reserve::Register(keys.own))?;
        if self.ask(disk, Reserve::Hold(keys.own))? == Reserved::Done {
            return Ok(Held::Own);
        }
        let told_of = other.map(|key| (key, told.contains_key(context::UNFINISHED)));
        let older = self.older_holder(disk, told)?;
        match older
            .or(told_of)
            .filter(|(other, _)| ![keys.own, keys.making].contains(other))
        {
            Some(other) => self.preempt(disk, keys, other),
            None => Err(reserved(disk)),
        }
    }

    /// Does this host hold a disk by a key that it is registered by? Whoever preempts by its own key stays if that holds the disk, and is registered no longer if not
    /// (NVM Express Base Specification 2.1, 8.1.22): a key that holds nothing says nothing of what is there.
    fn holds(&self, disk: &Disk, key: u64) -> Result<bool, Status> {
        self.ask(disk, Reserve::Preempt(key, key))?;
        Ok(self.ask(disk, Reserve::Hold(key))? == Reserved::Done)
    }

    pub(super) fn keys(&self, told: &BTreeMap<String, String>) -> Result<id::Keys, Status> {
        let number = told
            .get(context::ATTACHMENT)
            .map(|text| text.parse::<u32>())
            .transpose();
        let number = number.map_err(|why| Status::invalid_argument(format!("the number of the attachment: {why}")))?;
        Ok(id::Keys::of(self.host, number))
    }

    /// Who is registered, as far as this kernel tells.
    fn registered(&self, disk: &Disk) -> Vec<Registered> {
        let all = self.machine().registered(&disk.device());
        all.unwrap_or_else(|why| {
            log::debug!("{}: who has it reserved is not told: {why}", disk.name);
            Vec::new()
        })
    }

    /// Who holds a disk by an attachment that is older than this one: it may have come behind the controller's back, by a gateway that had not heard that it is
    /// gone. Its key, and whether it was making a file system.
    fn older_holder(&self, disk: &Disk, told: &BTreeMap<String, String>) -> Result<Option<(u64, bool)>, Status> {
        let Some(own) = id::attachment_of(self.keys(told)?.own, self.host) else {
            return Ok(None);
        };
        let all = self.registered(disk);
        let holder = all.iter().find(|known| known.is_holder && known.host != self.host);
        let is_older =
            |known: &&Registered| id::attachment_of(known.key, known.host).is_some_and(|number| number < own);
        Ok(holder
            .filter(is_older)
            .map(|known| (known.key, id::is_making(known.key, known.host))))
    }

    /// Takes what another host has reserved. It may have been making a file system when it was looked at; it was so still, if there is something to take.
    fn preempt(&self, disk: &Disk, keys: id::Keys, (other, is_unfinished): (u64, bool)) -> Result<Held, Status> {
        log::info!(
            "{}: what host {other:#018x} has reserved is taken from it: it is published here alone",
            disk.name
        );
        if is_unfinished {
            // Before it is taken, so that at every moment the key that holds the disk says what is there.
            self.replace(disk, keys.own, keys.making)?;
            let is_taken = self.ask(disk, Reserve::Preempt(keys.making, other))? == Reserved::Done;
            if is_taken && self.holds(disk, keys.making)? {
                return Ok(Held::Unfinished);
            }
            // Its reservation has gone by itself, and with it what was told of the disk.
            self.ask(disk, Reserve::Register(keys.own))?;
        } else {
            self.ask(disk, Reserve::Preempt(keys.own, other))?;
        }
        match self.ask(disk, Reserve::Hold(keys.own))? {
            Reserved::Done => Ok(Held::Own),
            Reserved::Conflict => Err(reserved(disk)),
        }
    }

    /// Ends the reservation of before. One that another host has made since is that one's business.
    fn release(&self, disk: &Disk, own: u64, other: Option<u64>) -> Result<(), Status> {
        self.ask(disk, Reserve::Register(own))?;
        let taken = match other {
            Some(other) => self.ask(disk, Reserve::Preempt(own, other))?,
            None => self.ask(disk, Reserve::Hold(own))?,
        };
        match taken {
            Reserved::Done => self.ask(disk, Reserve::Clear(own)).map(drop),
            Reserved::Conflict => Ok(()),
        }
    }

    pub(super) fn ask(&self, disk: &Disk, what: Reserve) -> Result<Reserved, Status> {
        self.ask_at(&disk.reserved_by(), what)
    }

    pub(super) fn ask_at(&self, device: &str, what: Reserve) -> Result<Reserved, Status> {
        let done = self.machine().reserve(device, what);
        done.map_err(|why| {
            Status::internal(format!(
                "{device} cannot be reserved ({what:?}): {why}; reservations: \"off\" does without"
            ))
        })
    }

    /// This host, which is known by one key, is known by another.
    pub(super) fn replace(&self, disk: &Disk, from: u64, to: u64) -> Result<(), Status> {
        match self.ask(disk, Reserve::Replace(from, to))? {
            Reserved::Done => Ok(()),
            Reserved::Conflict => Err(Status::aborted(format!(
                "{} is not this node's any more: another one has taken it",
                disk.name
            ))),
        }
    }
}

pub(super) fn reserved(disk: &Disk) -> Status {
    Status::failed_precondition(format!(
        "{} is reserved by another host, which nobody has said to be gone",
        disk.name
    ))
}
