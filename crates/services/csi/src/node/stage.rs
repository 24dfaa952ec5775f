//! NodeStageVolume and NodeUnstageVolume: a volume comes to this node, once for all pods that use it here, and goes.

use super::filesystem::{self, Content};
use super::machine::{Claim, Reserve, Reserved};
use super::mounts;
use super::nvme::{self, Disk, Target};
use super::report::Registered;
use super::{Node, path, volume};
use crate::capability::{self, Access};
use crate::controller::context;
use crate::id;
use crate::wire::node::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use std::collections::BTreeMap;
use std::time::Duration;
use tonic::Status;

/// Mounts that lie one over another at one place, at most.
const MOST_MOUNTS: usize = 8;
/// A disk that is to go is looked at so often,
const LOOKS: u32 = 10;
/// with so much time between.
const LOOK: Duration = Duration::from_millis(200);

/// How a disk is this host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nobody has it reserved.
    Shared,
    /// It alone.
    Own,
    /// It alone; and whoever had it, this host included, had not come to the end of making a file system, by which nothing was ever mounted.
    Unfinished,
}

impl Node {
    pub(super) fn stage(&self, request: &NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse, Status> {
        let staging = path(&request.staging_target_path, "staging target path")?;
        let wanted = capability::one(request.volume_capability.as_ref())?;
        let id = volume(&request.volume_id)?;
        let _hold = self.hold(id.number)?;
        let (told, context) = (&request.publish_context, &request.volume_context);
        let target = Target::read(self.host, told, context, &request.secrets)?;
        let staged = target.connect(self.machine(), self.is_of(&id)).and_then(|disk| {
            let held = (self.reserve(&disk, told)?, self.keys(told)?);
            if let Access::Mount { file_system, options } = &wanted.access {
                let is_read_only = wanted.reads_only || nvme::is_read_only(self.machine(), &disk);
                self.mount(&disk, (file_system, is_read_only), held, options, context, staging)?;
            }
            Ok(NodeStageVolumeResponse {})
        });
        // Whoever is told that it has failed may never have it unstaged: paths would stay, and be tried for ever.
        if staged.is_err()
            && let Err(why) = self.leave(|nqn| target.is(nqn))
        {
            log::warn!("volume {id} was not staged, and its paths stay: {why}");
        }
        staged
    }

    /// Ends the paths of these subsystems, of which nobody uses anything here.
    fn leave(&self, is_meant: impl Fn(&str) -> bool) -> Result<(), Status> {
        let disks = nvme::disks(self.machine(), &is_meant)?;
        disks.iter().try_for_each(|disk| self.not_used(disk))?;
        // Until the paths are gone.
        let _claims = disks
            .iter()
            .map(|disk| self.claimed(disk))
            .collect::<Result<Vec<_>, _>>()?;
        nvme::disconnect(self.machine(), &is_meant)
    }

    /// A volume of one node is reserved by it; from who had it before only where the controller says that it is not to have it any more. It stays so when it
    /// is unstaged: whoever was lost with it, and has not heard of that, finds it another's until it is its own again.
    fn reserve(&self, disk: &Disk, told: &BTreeMap<String, String>) -> Result<Held, Status> {
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
        // It is known by that key, where it was cut.
        let was_making = self.ask(disk, Reserve::Replace(keys.making, keys.making))? == Reserved::Done;
        if !was_making {
            self.ask(disk, Reserve::Register(keys.own))?;
        }
        let known_by = if was_making { keys.making } else { keys.own };
        if self.ask(disk, Reserve::Hold(known_by))? == Reserved::Done {
            return Ok(if was_making { Held::Unfinished } else { Held::Own });
        }
        let told_of = other.map(|key| (key, told.contains_key(context::UNFINISHED)));
        let older = self.older_holder(disk, told)?;
        match older
            .or(told_of)
            .filter(|(other, _)| ![keys.own, keys.making].contains(other))
        {
            Some(other) => self.preempt(disk, keys, known_by, other),
            None => Err(reserved(disk)),
        }
    }

    fn keys(&self, told: &BTreeMap<String, String>) -> Result<id::Keys, Status> {
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
    fn preempt(
        &self,
        disk: &Disk,
        keys: id::Keys,
        known_by: u64,
        (other, is_unfinished): (u64, bool),
    ) -> Result<Held, Status> {
        log::info!(
            "{}: what host {other:#018x} has reserved is taken from it: it is published here alone",
            disk.name
        );
        // Before it is taken, so that at every moment the key says what is on the disk.
        let wanted = if is_unfinished { keys.making } else { keys.own };
        if known_by != wanted {
            self.replace(disk, known_by, wanted)?;
        }
        // Where it has gone by itself, there is nothing to take.
        let is_taken = self.ask(disk, Reserve::Preempt(wanted, other))? == Reserved::Done;
        if self.ask(disk, Reserve::Hold(wanted))? == Reserved::Conflict {
            return Err(reserved(disk));
        }
        match (is_unfinished, is_taken) {
            (true, true) => Ok(Held::Unfinished),
            (true, false) => self.replace(disk, keys.making, keys.own).map(|()| Held::Own),
            (false, _) => Ok(Held::Own),
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

    fn ask(&self, disk: &Disk, what: Reserve) -> Result<Reserved, Status> {
        let done = self.machine().reserve(&disk.device(), what);
        done.map_err(|why| {
            Status::internal(format!(
                "{} cannot be reserved ({what:?}): {why}; reservations: \"off\" does without",
                disk.name
            ))
        })
    }

    fn mount(
        &self,
        disk: &Disk,
        (kind, is_read_only): (&str, bool),
        held: (Held, id::Keys),
        options: &[String],
        context: &BTreeMap<String, String>,
        staging: &str,
    ) -> Result<(), Status> {
        let machine = self.machine();
        self.unmount_lost(staging)?;
        if let Some(there) = self.mounted(staging)? {
            // By its number: another disk may have its name by now.
            let number = nvme::number(machine, disk)?;
            if there.device != number {
                return Err(Status::internal(format!(
                    "{staging} has {} ({}) mounted, and not {} ({number})",
                    there.source, there.device, disk.name
                )));
            }
        } else {
            self.prepare(disk, kind, is_read_only, held, context)?;
            machine
                .make_folder(staging)
                .map_err(|why| Status::internal(format!("{staging}: {why}")))?;
            filesystem::mount(machine, disk, (kind, is_read_only), options, staging)?;
        }
        // Also where its options say so.
        let is_read_only = is_read_only || self.mounted(staging)?.is_none_or(|there| there.is_read_only);
        match is_read_only {
            true => Ok(()),
            false => filesystem::grow(machine, disk, kind, staging),
        }
    }

    /// Has a disk hold a file system that is well.
    fn prepare(
        &self,
        disk: &Disk,
        kind: &str,
        is_read_only: bool,
        held: (Held, id::Keys),
        context: &BTreeMap<String, String>,
    ) -> Result<(), Status> {
        let machine = self.machine();
        match filesystem::content(machine, disk)? {
            found if held.0 == Held::Unfinished && !is_read_only => {
                log::info!("{} has {found:?} of a mkfs that was cut: it is made anew", disk.name);
                self.make(disk, kind, held, context)?;
            }
            Content::FileSystem(found) if found == kind => {}
            Content::Empty if !is_read_only => self.make(disk, kind, held, context)?,
            Content::Empty => {
                return Err(Status::failed_precondition(format!(
                    "{} is empty, and only read",
                    disk.name
                )));
            }
            Content::FileSystem(found) | Content::Other(found) => {
                return Err(Status::failed_precondition(format!(
                    "{} holds {found}, and {kind} is wanted: it is left as it is",
                    disk.name
                )));
            }
        }
        match is_read_only {
            true => Ok(()),
            false => filesystem::check(machine, disk, kind),
        }
    }

    /// Makes a file system. While it is made, the volume is reserved by another key of this host's: where that is cut, whoever has the volume next knows that what
    /// is there was never used. It is the host's own key again before anything is mounted.
    fn make(
        &self,
        disk: &Disk,
        kind: &str,
        (held, keys): (Held, id::Keys),
        context: &BTreeMap<String, String>,
    ) -> Result<(), Status> {
        if held == Held::Own {
            self.replace(disk, keys.own, keys.making)?;
        }
        let options = context.get("mkfsOptions").map_or("", String::as_str);
        filesystem::make(self.machine(), disk, kind, options)?;
        match held {
            Held::Shared => Ok(()),
            Held::Own | Held::Unfinished => self.replace(disk, keys.making, keys.own),
        }
    }

    fn replace(&self, disk: &Disk, from: u64, to: u64) -> Result<(), Status> {
        match self.ask(disk, Reserve::Replace(from, to))? {
            Reserved::Done => Ok(()),
            Reserved::Conflict => Err(Status::aborted(format!(
                "{} is not this node's any more: another one has taken it",
                disk.name
            ))),
        }
    }

    pub(super) fn mounted(&self, at: &str) -> Result<Option<mounts::Mount>, Status> {
        mounts::at(self.machine(), at).map_err(|why| Status::internal(format!("the mounts of this node: {why}")))
    }

    /// Nothing is mounted at a place any more.
    pub(super) fn unmount(&self, at: &str) -> Result<(), Status> {
        for _ in 0..MOST_MOUNTS {
            if self.mounted(at)?.is_none() {
                return Ok(());
            }
            filesystem::run(self.machine(), "umount", &[at])?;
        }
        Err(Status::internal(format!(
            "{at} has more mounts one over another than {MOST_MOUNTS}"
        )))
    }

    /// Ends mounts of disks that are gone: nothing can be read there, nor written, and the volume may have come again as another disk. Programs that are in there are
    /// not waited for.
    pub(super) fn unmount_lost(&self, at: &str) -> Result<(), Status> {
        for _ in 0..MOST_MOUNTS {
            let lost = match self.mounted(at)? {
                Some(there) => mounts::is_lost(self.machine(), &there),
                None => return Ok(()),
            };
            if !lost.map_err(|why| Status::internal(format!("{at}: {why}")))? {
                return Ok(());
            }
            log::warn!("{at} has a disk that is gone: it is unmounted");
            filesystem::run(self.machine(), "umount", &["-l", at])?;
        }
        Ok(())
    }

    pub(super) fn unstage(&self, request: &NodeUnstageVolumeRequest) -> Result<NodeUnstageVolumeResponse, Status> {
        let staging = path(&request.staging_target_path, "staging target path")?;
        let id = volume(&request.volume_id)?;
        let _hold = self.hold(id.number)?;
        if self.mounted(staging)?.is_some()
            && let Err(why) = self.machine().sync(staging)
        {
            // Of a disk that is lost nothing can be written any more, and it is to go all the same.
            log::error!("volume {id}: not all that was written came to its disk: {why}");
        }
        self.unmount(staging)?;
        self.leave(self.is_of(&id))?;
        Ok(NodeUnstageVolumeResponse {})
    }

    /// A disk that is in use where this process cannot see it is not taken away either: what is mounted in another name space of mounts has data that are
    /// not written yet.
    fn claimed(&self, disk: &Disk) -> Result<Claim, Status> {
        let device = disk.device();
        for look in 0..LOOKS {
            if look > 0 {
                // A mount that has just ended lets go of its disk a little later.
                self.machine().pause(LOOK);
            }
            match self.machine().claim(&device) {
                Ok(Some(claim)) => return Ok(claim),
                Ok(None) => {}
                // It is gone already.
                Err(why) if matches!(why.raw_os_error(), Some(libc::ENOENT | libc::ENXIO | libc::ENODEV)) => {
                    return Ok(Box::new(()));
                }
                Err(why) => return Err(Status::internal(format!("{device}: {why}"))),
            }
        }
        let holders = self.machine().list(&format!("/sys/block/{}/holders", disk.name));
        let holders = holders.unwrap_or_default();
        let by = match holders.is_empty() {
            true => "a mount that is not seen from here (look into /proc/*/mountinfo), or a program".to_owned(),
            false => holders.join(", "),
        };
        Err(Status::failed_precondition(format!(
            "{device} is in use still, by {by}"
        )))
    }

    /// A disk that is mounted elsewhere is not taken away.
    fn not_used(&self, disk: &Disk) -> Result<(), Status> {
        let all =
            mounts::all(self.machine()).map_err(|why| Status::internal(format!("the mounts of this node: {why}")))?;
        let file = format!("/{}", disk.name);
        let used = all
            .iter()
            .find(|mount| mount.source == disk.device() || mount.root == file);
        match used {
            None => Ok(()),
            Some(used) => Err(Status::failed_precondition(format!(
                "{} is in use at {}",
                disk.name, used.at
            ))),
        }
    }
}

fn reserved(disk: &Disk) -> Status {
    Status::failed_precondition(format!(
        "{} is reserved by another host, which nobody has said to be gone",
        disk.name
    ))
}
