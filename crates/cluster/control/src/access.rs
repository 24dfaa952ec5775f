//! Who may what: one table of actions and roles, one function that is asked, and one way to the metadata that asks it.
//!
//! A command gets at the metadata by a [`Session`] and not otherwise: what reads it by [`Session::reader`], through which nothing
//! can be changed, and what changes it by [`Session::act`], which wants an [`Action`]. So no change can be added without
//! naming its right, and none is made that is not in the audit log ([`crate::audit`]): each is told of before, so that
//! whatever happens then is known to have been wanted, and after, with what was changed. (The two are not one transaction with the
//! change: most actions are several transactions, each based on what it has read, and an action that was cut short must be
//! seen as well.)
//!
//! # What enforces it
//! A command is a program on somebody's machine, and holds a certificate that the metadata lets in: whoever writes another
//! program is bound by what the *metadata's server* checks. The embedded server lets viewers and auditors read only, and
//! tenants nothing (`amita-metadata`, `server/access.rs`). Between admins and operators only the command decides: both
//! certificates may write every key. A stock etcd knows nothing of these roles; give the users of etcd what they shall have.

use crate::admin::AdminError;
use crate::audit;
use amita_audit::{Changes, Draft, Outcome, Proof, Whence, Who};
use amita_identity::Name;
pub use amita_identity::OperatorRole as Role;
use amita_metadata::{Call, Error, KeyValue, Op, Reply, Transact};
use amita_types::map;
use amita_types::{MirrorId, NodeId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use Role::{Admin, Auditor, Operator, Viewer};

/// Who looks.
const LOOK: &[Role] = &[Admin, Operator, Viewer, Auditor];
/// Who does the daily work.
const WORK: &[Role] = &[Admin, Operator];
/// What can undo what protects others' data, or everything.
const ADMIN: &[Role] = &[Admin];
/// The other end of a mirror, by its token, of that mirror alone.
const END: &[Role] = &[Role::Mirror];
/// Who reads what others did.
const EVIDENCE: &[Role] = &[Admin, Auditor];

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $action:ident $name:literal $roles:ident,)+) => {
        /// Something that somebody may or may not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Action {
            $($(#[doc = $doc])+ $action,)+
        }

        impl Action {
            /// All of them.
            pub const ALL: &[Action] = &[$(Action::$action,)+];

            /// Its name in the audit log: stable.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Action::$action => $name,)+ }
            }

            /// What it is, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Action::$action => concat!($($doc),+),)+ }
                .trim()
            }
        }

        /// Which roles may do what: the one place where that is said.
        const TABLE: &[(Action, &[Role])] = &[$((Action::$action, $roles),)+];
    };
}

actions! {
    /// See the cluster: every list, `status`, `top`, `trace`, `events`.
    View "cluster.view" LOOK,
    /// Read the audit log.
    AuditRead "audit.read" EVIDENCE,
    /// Make a pool.
    PoolCreate "pool.create" WORK,
    /// Change a pool's rule.
    PoolSet "pool.set" WORK,
    /// Delete a pool that nothing lies in.
    PoolDelete "pool.delete" WORK,
    /// Say when stores count as full.
    PoolThresholds "pool.thresholds" WORK,
    /// Say for how long a pool's deleted volumes are kept.
    PoolRecycle "pool.recycle" WORK,
    /// Say how much of a pool may be asked for.
    PoolQuota "pool.quota" WORK,
    /// Make a volume.
    VolumeCreate "volume.create" WORK,
    /// Make a volume from a snapshot of another one.
    VolumeClone "volume.clone" WORK,
    /// Have a clone need what it was made from no more.
    VolumeFlatten "volume.flatten" WORK,
    /// Make a volume larger or smaller.
    VolumeResize "volume.resize" WORK,
    /// Say how much the hosts of a volume may do.
    VolumeLimit "volume.limit" WORK,
    /// Say how much the hosts of all volumes of a pool may do.
    PoolLimit "pool.limit" WORK,
    /// Say how much the hosts of all volumes of a tenant may do.
    TenantLimit "tenant.limit" WORK,
    /// Say whose a volume is.
    TenantVolume "tenant.volume" WORK,
    /// Say which volume key wraps the data keys of a tenant's volumes.
    TenantKey "tenant.key" ADMIN,
    /// Wrap the data keys of encrypted volumes again.
    KeysRewrap "volume.rewrap-keys" ADMIN,
    /// Say what a volume is for: its labels.
    VolumeLabel "volume.label" WORK,
    /// Copy a volume, or a snapshot of one, into a new volume.
    VolumeCopy "volume.copy" WORK,
    /// Move a volume to another pool.
    VolumeMigrate "volume.migrate" WORK,
    /// Write a volume anew in its pool: by a new data key, encrypted, or in the clear.
    VolumeRekey "volume.rekey" WORK,
    /// Have a volume lie on disks in the clear, written anew, moved or restored.
    VolumeDecrypt "volume.decrypt" ADMIN,
    /// Copy an image into a volume.
    VolumeImport "volume.import" WORK,
    /// Copy the data of a volume, or learn what was changed in it, by the API.
    VolumeExportData "volume.export-data" WORK,
    /// Make a volume what a snapshot of it is.
    VolumeRevert "volume.revert" WORK,
    /// Take a snapshot of a volume.
    SnapshotCreate "snapshot.create" WORK,
    /// Take snapshots of several volumes at one moment.
    SnapshotSetCreate "snapshot.create-set" WORK,
    /// Protect a snapshot from being deleted, or no longer.
    SnapshotProtect "snapshot.protect" WORK,
    /// Delete a snapshot of a volume.
    SnapshotDelete "snapshot.delete" WORK,
    /// Make a policy by which snapshots are taken and deleted.
    PolicyCreate "snapshot-policy.create" WORK,
    /// Change a policy of snapshots, or pause it.
    PolicySet "snapshot-policy.set" WORK,
    /// Delete now what no rule of a policy of snapshots keeps.
    PolicyPrune "snapshot-policy.prune" WORK,
    /// Delete a policy of snapshots.
    PolicyDelete "snapshot-policy.delete" WORK,
    /// Say of a repository where it is, and by which files of the nodes it is used.
    BackupRepositoryAdd "backup-repository.add" WORK,
    /// Change what is said of a repository.
    BackupRepositorySet "backup-repository.set" WORK,
    /// Forget a repository, which keeps what it has.
    BackupRepositoryRemove "backup-repository.remove" WORK,
    /// Make a policy by which backups are made and given up.
    BackupPolicyCreate "backup-policy.create" WORK,
    /// Change a policy of backups, or pause it.
    BackupPolicySet "backup-policy.set" WORK,
    /// Ask for a run of a policy of backups, or for a verification.
    BackupPolicyRun "backup-policy.run" WORK,
    /// Delete a policy of backups.
    BackupPolicyDelete "backup-policy.delete" WORK,
    /// Back a volume up once, or a snapshot of one.
    BackupCreate "backup.create" WORK,
    /// Restore a volume from a backup.
    BackupRestore "backup.restore" WORK,
    /// Give up a backup.
    BackupForget "backup.forget" WORK,
    /// Take a backup, a restore or a giving up back before its end.
    BackupCancel "backup.cancel" WORK,
    /// Remove the record of one that has ended.
    BackupTaskRemove "backup.remove-task" WORK,
    /// Have another gateway own a volume.
    VolumeMove "volume.move" WORK,
    /// Have all copies of a volume looked at.
    VolumeScrub "volume.scrub" WORK,
    /// Give a volume another name.
    VolumeRename "volume.rename" WORK,
    /// Protect a volume from being deleted, or no longer.
    VolumeProtect "volume.protect" WORK,
    /// Delete a volume.
    VolumeDelete "volume.delete" WORK,
    /// Have a deleted volume back.
    VolumeUndelete "volume.undelete" WORK,
    /// Have a deleted volume gone for good.
    VolumePurge "volume.purge" WORK,
    /// Serve a volume by NBD.
    VolumeExport "volume.export" WORK,
    /// Serve a volume by NBD no longer.
    VolumeUnexport "volume.unexport" WORK,
    /// Hand a volume to a host by NVMe or iSCSI.
    VolumeAttach "volume.attach" WORK,
    /// Take a volume away from hosts.
    VolumeDetach "volume.detach" WORK,
    /// Take a volume's reservation away.
    ReservationClear "reservation.clear" WORK,
    /// Make a subsystem.
    SubsystemCreate "subsystem.create" WORK,
    /// Change who may connect to a subsystem, and how.
    SubsystemSet "subsystem.set" WORK,
    /// Delete a subsystem.
    SubsystemDelete "subsystem.delete" WORK,
    /// Put a volume into a subsystem.
    NamespaceAdd "namespace.add" WORK,
    /// Take a volume out of a subsystem.
    NamespaceRemove "namespace.remove" WORK,
    /// Make a host known, with its keys for DH-HMAC-CHAP and TLS.
    HostAdd "host.add" WORK,
    /// Set or remove a host's keys for DH-HMAC-CHAP and TLS.
    HostKey "host.key" WORK,
    /// Let a host connect to a subsystem.
    HostAllow "host.allow" WORK,
    /// Let a host connect to a subsystem no longer.
    HostDeny "host.deny" WORK,
    /// Forget a host and its keys.
    HostRemove "host.remove" WORK,
    /// Seal all keys of hosts and initiators anew.
    HostReseal "host.reseal" ADMIN,
    /// Make a target of iSCSI.
    TargetCreate "target.create" WORK,
    /// Change who may log in to a target, and how.
    TargetSet "target.set" WORK,
    /// Delete a target.
    TargetDelete "target.delete" WORK,
    /// Put a volume into a target.
    LunAdd "lun.add" WORK,
    /// Take a volume out of a target.
    LunRemove "lun.remove" WORK,
    /// Make an initiator known.
    InitiatorAdd "initiator.add" WORK,
    /// Let an initiator log in to a target, and see LUNs there.
    InitiatorAllow "initiator.allow" WORK,
    /// Let an initiator log in to a target no longer.
    InitiatorDeny "initiator.deny" WORK,
    /// Set or remove an initiator's secrets for CHAP.
    InitiatorKey "initiator.key" WORK,
    /// Forget an initiator and its secrets.
    InitiatorRemove "initiator.remove" WORK,
    /// Drain a store, or use it again.
    DiskDrain "disk.drain" WORK,
    /// Have one store take over from another.
    DiskReplace "disk.replace" WORK,
    /// Say how much a store gets.
    DiskWeight "disk.weight" WORK,
    /// Say of which class a store is.
    DiskClass "disk.class" WORK,
    /// Take a store out of the records.
    DiskForget "disk.forget" WORK,
    /// Let an older copy of a store serve.
    DiskAdopt "disk.adopt" ADMIN,
    /// Begin or end a node's maintenance.
    NodeMaintenance "node.maintenance" WORK,
    /// Take a node out of the records.
    NodeRemove "node.remove" WORK,
    /// Say where a node stands.
    NodePlace "node.place" WORK,
    /// Say how hard recovery works.
    RecoverySet "recovery.set" WORK,
    /// Pause a job.
    JobPause "job.pause" WORK,
    /// Have a paused job go on.
    JobResume "job.resume" WORK,
    /// Say that somebody looks after an alert: it is not told again until it gets worse.
    AlertAck "alert.ack" WORK,
    /// Have alerts not be told for a time.
    SilenceAdd "silence.add" WORK,
    /// Have alerts be told again.
    SilenceRemove "silence.remove" WORK,
    /// Say whom alerts are told, with the secrets for it.
    ChannelAdd "channel.add" ADMIN,
    /// Tell somebody of alerts no longer.
    ChannelRemove "channel.remove" ADMIN,
    /// Send a test message by a channel.
    ChannelTest "channel.test" ADMIN,
    /// Let somebody use the API by a token.
    TokenCreate "token.create" ADMIN,
    /// Have a token of the API be good for nothing.
    TokenRevoke "token.revoke" ADMIN,
    /// Mirror volumes to another cluster, or another cluster's to this one.
    MirrorAdd "mirror.add" ADMIN,
    /// Change how often a mirror brings points, how many it keeps, how fast.
    MirrorSet "mirror.set" WORK,
    /// Demote the primary of a mirror: hosts are refused.
    MirrorDemote "mirror.demote" WORK,
    /// Promote an end of a mirror, in order.
    MirrorPromote "mirror.promote" WORK,
    /// Promote an end of a mirror, whatever the other end is.
    MirrorForce "mirror.force" ADMIN,
    /// Have a deposed end of a mirror follow the other one again.
    MirrorResync "mirror.resync" WORK,
    /// Have a mirror stand still.
    MirrorPause "mirror.pause" WORK,
    /// Have a mirror that stands still go on.
    MirrorResume "mirror.resume" WORK,
    /// Mirror volumes no longer.
    MirrorRemove "mirror.remove" ADMIN,
    /// A mirror's other end looks at what this one is.
    MirrorLook "mirror.look" END,
    /// A mirror's other end says how it is reached.
    MirrorPeer "mirror.peer" END,
    /// A mirror's other end has a point cut.
    MirrorCut "mirror.cut" END,
    /// A mirror's other end takes its demotion back.
    MirrorDecline "mirror.decline" END,
    /// A mirror's other end reads a volume of it, as a point has it.
    MirrorRead "mirror.read" END,
    /// A mirror's other end renews its token.
    MirrorToken "mirror.token" END,
    /// Raise the cluster's version.
    ClusterFinalize "cluster.finalize" ADMIN,
    /// Rebuild the metadata from the stores.
    MetadataRecover "metadata.recover" ADMIN,
}

impl Action {
    /// The roles that may.
    #[must_use]
    pub fn roles(self) -> &'static [Role] {
        TABLE
            .iter()
            .find(|(action, _)| *action == self)
            .map_or(&[], |(_, roles)| roles)
    }

    /// Does it change nothing?
    #[must_use]
    pub fn only_reads(self) -> bool {
        matches!(self, Action::View | Action::AuditRead | Action::MirrorLook)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Somebody may not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{who} may not do {action}{}: that is for {}, and this is {}", of(.object), list(.action.roles()), article(*.role))]
pub struct Denied {
    /// Who.
    pub who: String,
    /// As what; none: as no operator.
    pub role: Option<Role>,
    /// What.
    pub action: Action,
    /// To what.
    pub object: String,
}

fn of(object: &str) -> String {
    match object {
        "" => String::new(),
        object => format!(" ({object})"),
    }
}

fn article(role: Option<Role>) -> String {
    match role {
        None => "no operator".to_owned(),
        Some(role @ (Role::Admin | Role::Operator | Role::Auditor)) => format!("an {role}"),
        Some(Role::Mirror) => "the other end of a mirror".to_owned(),
        Some(role) => format!("a {role}"),
    }
}

fn list(roles: &[Role]) -> String {
    let names: Vec<&str> = roles.iter().map(|role| role.text()).collect();
    match &names[..] {
        [] => "nobody".to_owned(),
        [only] => format!("only {only}"),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Prefixes of what commands write before they make room in the metadata: that they are about to, and to whoever has a volume open
/// that is to be deleted. A server whose quota is used up must take that (`amita_metadata::server::Config::reserved`).
#[must_use]
pub fn making_room() -> Vec<String> {
    vec![audit::prefix(), map::closing_prefix()]
}

/// Who asks, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    who: Who,
    whence: Whence,
    role: Option<Role>,
    /// The mirror whose other end this is.
    mirror: Option<MirrorId>,
}

impl Caller {
    /// The holder of a certificate. Nodes and gateways count as admins: their certificates are the cluster's own, and
    /// may write every key anyway.
    #[must_use]
    pub fn of(name: &Name, whence: Whence) -> Caller {
        let role = match name.role() {
            amita_identity::Role::Operator => name.operator_role(),
            amita_identity::Role::Node | amita_identity::Role::Gateway => Some(Role::Admin),
            amita_identity::Role::Client | amita_identity::Role::Authority => None,
        };
        let who = Who {
            name: name.to_string(),
            role: name
                .operator_role()
                .map_or_else(|| name.role().text(), Role::text)
                .to_owned(),
            proof: Proof::Certificate,
        };
        Caller {
            who,
            whence,
            role,
            mirror: None,
        }
    }

    /// A user of etcd: what they may is etcd's to say.
    #[must_use]
    pub fn user(name: &str, whence: Whence) -> Caller {
        Caller::admin(format!("user {name} of etcd"), Proof::Password, whence)
    }

    /// The holder of a token of the API.
    #[must_use]
    pub fn by_token(name: &str, role: Role, whence: Whence) -> Caller {
        let who = Who {
            name: name.to_owned(),
            role: role.text().to_owned(),
            proof: Proof::Token,
        };
        Caller {
            who,
            whence,
            role: Some(role),
            mirror: None,
        }
    }

    /// The other end of this mirror, where that says one; of the role `mirror` alone.
    #[must_use]
    pub fn bound_to(self, mirror: Option<MirrorId>) -> Caller {
        let mirror = mirror.filter(|_| self.is_end());
        Caller { mirror, ..self }
    }

    /// Is it the other end of a mirror, which may ask for nothing but that?
    #[must_use]
    pub fn is_end(&self) -> bool {
        self.role == Some(Role::Mirror)
    }

    /// Of which mirror it is the other end.
    #[must_use]
    pub fn mirror(&self) -> Option<MirrorId> {
        self.mirror
    }

    /// Whoever is there, where nobody proves anything: an admin.
    #[must_use]
    pub fn unproved(whence: Whence) -> Caller {
        let name = match whence.uid {
            Some(uid) => format!("user {uid} of {}", whence.host),
            None => format!("somebody at {}", whence.host),
        };
        Caller::admin(name, Proof::None, whence)
    }

    /// The cluster itself, by the node that is coordinator: it does what the operator's settings want of it.
    #[must_use]
    pub fn coordinator(node: NodeId) -> Caller {
        let who = Who {
            name: format!("node {node}"),
            role: "coordinator".to_owned(),
            proof: Proof::None,
        };
        Caller {
            who,
            whence: Whence::default(),
            role: Some(Role::Operator),
            mirror: None,
        }
    }

    fn admin(name: String, proof: Proof, whence: Whence) -> Caller {
        let who = Who {
            name,
            role: Role::Admin.text().to_owned(),
            proof,
        };
        Caller {
            who,
            whence,
            role: Some(Role::Admin),
            mirror: None,
        }
    }

    /// May they, by their role alone?
    #[must_use]
    pub fn may(&self, action: Action) -> bool {
        self.role.is_some_and(|role| action.roles().contains(&role))
    }

    /// As the audit log has it.
    #[must_use]
    pub fn who(&self) -> &Who {
        &self.who
    }
}

/// May they?
///
/// # Errors
/// They may not.
pub fn authorise(caller: &Caller, action: Action, object: &str) -> Result<(), Denied> {
    if caller.may(action) {
        return Ok(());
    }
    Err(Denied {
        who: caller.who.name.clone(),
        role: caller.role,
        action,
        object: object.to_owned(),
    })
}

/// The way of a command to the metadata.
#[derive(Debug)]
pub struct Session<M> {
    meta: M,
    caller: Caller,
    /// Is a refusal told in the audit log?
    tells_refusals: bool,
}

impl<M: Transact> Session<M> {
    /// For somebody who may look at the cluster.
    ///
    /// # Errors
    /// They may not; that is in the audit log then, as far as they may write there.
    pub fn open(meta: M, caller: Caller) -> Result<Session<M>, Denied> {
        Session::open_telling(meta, caller, true)
    }

    /// The same; where `tells_refusals` is false, what they may not is told nowhere: for a server whose callers could fill the log.
    ///
    /// # Errors
    /// They may not.
    pub fn open_telling(meta: M, caller: Caller, tells_refusals: bool) -> Result<Session<M>, Denied> {
        Session::open_for(meta, caller, tells_refusals, (Action::View, ""))
    }

    /// The same for the other end of a mirror, which may not look at the cluster: it looks at the mirror of that name.
    ///
    /// # Errors
    /// They are not.
    pub fn open_end(meta: M, caller: Caller, tells_refusals: bool, mirror: &str) -> Result<Session<M>, Denied> {
        Session::open_for(meta, caller, tells_refusals, (Action::MirrorLook, mirror))
    }

    fn open_for(
        meta: M,
        caller: Caller,
        tells_refusals: bool,
        (action, object): (Action, &str),
    ) -> Result<Session<M>, Denied> {
        let session = Session {
            meta,
            caller,
            tells_refusals,
        };
        session.permit(action, object)?;
        Ok(session)
    }

    /// Who it is.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// For reading: nothing can be changed through it.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader(&self.meta)
    }

    /// The connection itself, for what is no transaction: a watch.
    #[must_use]
    pub fn connection(&self) -> &M {
        &self.meta
    }

    /// May they? If not, the audit log says so.
    ///
    /// # Errors
    /// They may not.
    pub fn permit(&self, action: Action, object: &str) -> Result<(), Denied> {
        let denied = match authorise(&self.caller, action, object) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        };
        if !self.tells_refusals {
            return Err(denied);
        }
        let draft = self.draft(action, object, Outcome::Refused).saying(&denied);
        match audit::append(&self.meta, &draft) {
            Ok(_) => {}
            // Who may not write has the server's refusal written in this one's place.
            Err(why) if audit::is_denied(&why) => {}
            Err(why) => log::warn!("the refusal is not in the audit log: {why}"),
        }
        Err(denied)
    }

    /// Does something that changes the metadata, if they may. It is told in the audit log before and after: where that is not
    /// possible before, it is not done.
    ///
    /// # Errors
    /// They may not; the log cannot be written; or what `work` says.
    pub fn act<T, E>(
        &self,
        action: Action,
        object: &str,
        work: impl FnOnce(&dyn Transact) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<AdminError> + fmt::Display,
    {
        self.permit(action, object).map_err(AdminError::from)?;
        let begun = self.draft(action, object, Outcome::Begun);
        let begun = audit::append(&self.meta, &begun).map_err(AdminError::from)?;
        let recording = Recording::of(&self.meta);
        let result = work(&recording);
        let (changes, more) = recording.changes.into_inner().finish();
        let is_unknown = recording.is_unknown.get();
        let mut ended = match &result {
            Ok(_) => self.draft(action, object, Outcome::Done),
            // What it has changed perhaps, the record says.
            Err(why) if is_unknown => self.draft(action, object, Outcome::Unknown).saying(why),
            Err(why) => self.draft(action, object, Outcome::Failed).saying(why),
        };
        ended.of = Some(begun.seq);
        ended.changes = changes;
        if more > 0 {
            ended = ended.adding(&format!(" ({more} more keys were changed)"));
        }
        if let Err(why) = audit::append(&self.meta, &ended) {
            // It is done: that it began is in the log, and that its end is not told is seen there.
            log::warn!("the end of {action} is not in the audit log: {why}");
        }
        result
    }

    fn draft(&self, action: Action, object: &str, outcome: Outcome) -> Draft {
        let Caller { who, whence, .. } = &self.caller;
        Draft::new(who.clone(), whence.clone(), action.name(), object, outcome)
    }
}

/// Reads the metadata, and changes nothing.
#[derive(Clone, Copy)]
pub struct Reader<'a>(&'a dyn Transact);

impl Transact for Reader<'_> {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        if !call.is_read_only() {
            return Err(Error::Setting {
                why: "this command was to look only, and wanted to change something: that is a fault of the program"
                    .to_owned(),
            });
        }
        self.0.txn(call)
    }

    fn after_lost(&self, races: u32) {
        self.0.after_lost(races);
    }
}

/// Passes transactions on, and notes what they change.
struct Recording<'a> {
    meta: &'a dyn Transact,
    /// What keys held when they were read last.
    read: RefCell<BTreeMap<String, Vec<u8>>>,
    changes: RefCell<Changes>,
    /// The answer to a change was lost.
    is_unknown: Cell<bool>,
}

/// Values above this are not remembered: they are told by their length anyway.
const MAX_REMEMBERED_BYTES: usize = 16 * 1024;
/// So many values are remembered.
const MAX_REMEMBERED: usize = 1024;

impl<'a> Recording<'a> {
    fn of(meta: &'a dyn Transact) -> Recording<'a> {
        Recording {
            meta,
            read: RefCell::default(),
            changes: RefCell::default(),
            is_unknown: Cell::new(false),
        }
    }

    fn remember(&self, found: &KeyValue) {
        let mut read = self.read.borrow_mut();
        let has_room = read.len() < MAX_REMEMBERED || read.contains_key(&found.key);
        if has_room && found.value.len() <= MAX_REMEMBERED_BYTES {
            read.insert(found.key.clone(), found.value.clone());
        }
    }

    /// `perhaps`: the answer was lost, and what was read of the key before is what is known of it still.
    fn note(&self, op: &Op, perhaps: bool) {
        let mut read = self.read.borrow_mut();
        let (key, after) = match op {
            Op::Put { key, value, .. } => (key, Some(value)),
            Op::Delete { key } | Op::DeletePrefix { key } => (key, None),
            _ => return,
        };
        let before = read.get(key).map(Vec::as_slice);
        let mut changes = self.changes.borrow_mut();
        changes.add(key, before, after.map(Vec::as_slice), perhaps);
        if perhaps {
            return;
        }
        match after {
            Some(value) => read.insert(key.clone(), value.clone()),
            None => read.remove(key),
        };
    }
}

impl Transact for Recording<'_> {
    fn txn(&self, call: &Call) -> Result<Reply, Error> {
        let reply = match self.meta.txn(call) {
            Err(why @ Error::Unknown { .. }) if !call.is_read_only() => {
                self.is_unknown.set(true);
                let all = call.then.iter().chain(&call.otherwise);
                all.for_each(|op| self.note(op, true));
                return Err(why);
            }
            answer => answer?,
        };
        let branch = if reply.succeeded { &call.then } else { &call.otherwise };
        for (index, op) in branch.iter().enumerate() {
            reply.values(index).iter().for_each(|found| self.remember(found));
            self.note(op, false);
        }
        Ok(reply)
    }

    fn after_lost(&self, races: u32) {
        self.meta.after_lost(races);
    }
}

#[cfg(test)]
mod tests;
