//! What an [`AdminError`] is called: a word that stays, what it means and what to do. The sentence of the error itself says it of the very
//! thing.

use super::AdminError;
use amita_metadata::Error;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident $name:literal $advice:literal,)+) => {
        /// Why an operator's change was not made, in a word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($(#[doc = $doc])+ $code,)+
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$code,)+];

            /// Its name: stable, and what scripts may rely on.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Code::$code => $name,)+ }
            }

            /// What it means, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$code => concat!($($doc),+),)+ }
                .trim()
            }

            /// What to do about it, in a sentence or two.
            #[must_use]
            pub fn advice(self) -> &'static str {
                match self { $(Code::$code => $advice,)+ }
            }
        }
    };
}

codes! {
    /// The metadata cannot be reached; nothing was changed.
    MetadataAway "metadata-unavailable" "See whether it runs, and whether its address is right.",
    /// The metadata did not answer: the change may have been made, or not.
    OutcomeUnknown "outcome-unknown" "Look whether it was made before you give the command again.",
    /// The metadata refuses, and would again.
    MetadataRefused "metadata-refused" "The message says why: its disk is full, the user has no right, or it is another version.",
    /// The settings of the way to the metadata do not fit.
    MetadataSetting "metadata-setting" "See `--metadata`, `--identity` and `--insecure-network`.",
    /// Who asks has no right to it.
    Denied "denied" "`amita cert show` says who you are; an admin gives roles (`amita operator create --role`).",
    /// The metadata holds no cluster yet.
    NoCluster "no-cluster" "Start a node (`amita serve`), which makes it; or ask other metadata (`--metadata`).",
    /// A name that cannot be one.
    BadName "bad-name" "Use letters, digits, `.`, `_` and `-`, and none of the last two at the start.",
    /// A setting that cannot be.
    BadSetting "bad-setting" "The message says what would be right.",
    /// What is to be encrypted has no key: nothing here makes one as the cluster's are wrapped.
    NoKeys "no-volume-keys" "Give the cluster's file of volume keys (`--volume-keys`), or ask a node that has it; `amita volume key status` compares.",
    /// The name is taken.
    Exists "exists" "Choose another name, or use what is there.",
    /// There is none of that name.
    NoSuch "no-such" "Look at the names that are near; `list` has all of them.",
    /// The copies cannot be placed with the stores that there are.
    Placement "cannot-place" "Add stores or nodes, or ask for fewer copies or a smaller failure domain.",
    /// The copies could be placed if all nodes were alive.
    NodesAway "nodes-away" "Start the nodes that the message names.",
    /// The metadata contradicts itself.
    Damaged "metadata-damaged" "Was it restored from an older copy, or written by hand? `amita recover --from-stores` rebuilds it.",
    /// A record that may say something of it cannot be read.
    Unreadable "unreadable-record" "Put the record right, or take it away: the message says which, and by what command.",
    /// Clients use the volume.
    InUse "volume-in-use" "Disconnect them, or use `--force`.",
    /// It is protected from being deleted.
    Protected "protected" "Take that away first: `amita volume protect --off`, or of a snapshot `amita volume snapshot protect --off`.",
    /// The volume has snapshots, which would go with it.
    HasSnapshots "has-snapshots" "Delete them first, use `--snapshots`, or leave `--now` away.",
    /// The pool's quota has no room for it.
    OverQuota "over-quota" "Delete what is not needed, or raise it (`amita pool quota`).",
    /// Several deleted volumes are meant by it.
    Ambiguous "ambiguous" "Say which by its number: `amita volume list --deleted`.",
    /// The volume is open on a node.
    IsOpen "volume-open" "Disconnect its hosts, or use `--force`.",
    /// The volume's owner does not say whether anybody uses it.
    OwnerSilent "owner-silent" "Look at its node (`amita status`), try again, or use `--force`.",
    /// Another deletion or renaming of the volume is under way.
    BeingClosed "being-closed" "Wait for its end; `amita audit list` says who does it.",
    /// The metadata is suspected of being older than what stores know.
    Suspected "metadata-suspected" "`amita explain metadata-older` says what to do.",
    /// The volume is a namespace, which hosts may use.
    Attached "attached" "Take it out first (`amita namespace remove`, `amita volume detach`), or use `--force`.",
    /// The volume is a namespace, and nobody may use it meanwhile.
    AttachedStill "attached-still" "Take it out first: `amita namespace remove`, `amita volume detach`.",
    /// The volume is exported for reading only.
    ReadOnlyExport "read-only-export" "Take the export away first: `amita nbd unexport`.",
    /// The volume is being made a copy of another one, and is not whole.
    Copying "copying" "Wait for the end of the job that the message names, or take it back (`amita job cancel`).",
    /// A volume moves to another pool, or is written anew in its own.
    Moving "moving" "Wait for the end of the job that the message names, or take it back (`amita job cancel`).",
    /// The volume is closed to hosts, for a mirror.
    Closed "closed" "Promote this end (`amita mirror promote`), or work with a clone of a point: the message names the mirror.",
    /// The end of a mirror is not what it would have to be.
    Mirror "mirror" "`amita mirror show` says what this end is, and what it has seen of the other one.",
    /// The volume is in a mirror.
    Mirrored "mirrored" "Remove the mirror first: `amita mirror remove`.",
    /// The snapshot is a point of a mirror.
    MirrorsPoint "mirrors-point" "Leave it: the mirror lets it go when it needs it no more. Where that is not wanted any more, remove it.",
    /// The volume is being made smaller.
    Shrinking "shrinking" "Give the same `amita volume resize --shrink` again; with the size that it has, it gives it up.",
    /// The snapshot is a namespace, which hosts may use.
    SnapshotAttached "snapshot-attached" "Take it out first: `amita namespace remove`.",
    /// The snapshot is deleted, and only its mark is kept.
    OnlyMark "only-mark" "It can be named in `amita volume diff`, and nowhere else.",
    /// The volume is a namespace, and is to be exported by NBD besides.
    ServedByNvme "served-by-nvme" "Take it out of its subsystem first, or use `--shared` where its clients know of each other.",
    /// The volume is exported by NBD, and is to be a namespace besides.
    Exported "exported" "Take the export away first (`amita nbd unexport`), or export it with `--shared`.",
    /// The subsystem has namespaces, which hosts may use.
    HasNamespaces "has-namespaces" "Take them out first, or use `--force`: the volumes stay.",
    /// The host is allowed in subsystems.
    Allowed "host-allowed" "Deny it there first (`amita host deny`), or use `--force`.",
    /// The host is not allowed there anyway.
    NotAllowed "host-not-allowed" "The message says which are.",
    /// The volume or the snapshot is a LUN, which initiators may use.
    IsLun "is-lun" "Take it out first: `amita lun remove`.",
    /// The volume is used by one protocol, and is to be by another besides.
    WrittenBeside "written-beside" "Take that use away first, or use `--shared` where those who use it know of each other.",
    /// The target has LUNs, which initiators may use.
    HasLuns "has-luns" "Take them out first, or use `--force`: the volumes stay.",
    /// The initiator is allowed in targets.
    InitiatorAllowed "initiator-allowed" "Deny it there first (`amita initiator deny`), or use `--force`.",
    /// The initiator is not allowed there anyway.
    InitiatorNotAllowed "initiator-not-allowed" "The message says which are.",
    /// There are as many as there may be.
    Full "limit-reached" "Delete some that are not needed.",
    /// Without the node, writes would wait.
    WouldWait "would-wait" "Let its groups be brought up to date first (`amita status`), or use `--force`.",
    /// The stores that there are cannot meet the pool's rule.
    RuleUnmet "rule-unmet" "Add stores, or use `--force`: the groups stay where they are until there are some.",
    /// Groups still need the store.
    StillNeeded "store-needed" "Drain it first (`amita disk drain`), and wait for it.",
    /// No volume is opened while the metadata is not to be believed.
    NothingOpens "nothing-opens" "`amita explain metadata-older` says what to do.",
    /// The node lives.
    NodeLives "node-lives" "Stop it first, and wait until its lease has ended (`amita node list`).",
    /// Groups still need stores of the node.
    NodeNeeded "node-needed" "Drain its stores first (`amita disk drain`), and wait for it.",
    /// Another process has registered under the node's name at the same moment.
    NodeTaken "node-taken" "Give this node another name, or start it again.",
    /// Another living process serves the store.
    StoreServed "store-served" "Take this copy away, or stop that node if its disk has moved here.",
    /// The store is an older copy of one that was served since.
    StoreOutdated "store-outdated" "Serve the newer one; if it is lost, `amita disk adopt` lets this one in.",
    /// The pool has something in it.
    PoolInUse "pool-in-use" "Delete its volumes, purge its deleted ones, and take it out of snapshot policies.",
    /// Policies back up into the repository, or tasks are for it.
    RepositoryInUse "repository-in-use" "Delete these policies, or have them use another one (`amita backup policy set --to`); wait for these tasks, or cancel them.",
    /// The task of backups has ended, or has not, and that cannot be done with it.
    BackupTaskCannot "backup-task-cannot" "The message says what to do instead; `amita backup task show` says how it is.",
    /// A node is at a run of the policy of backups.
    BackupRuns "backup-runs" "Wait for its end, and ask again where another one is needed.",
    /// The job is of a kind with which that cannot be done, or it has ended.
    JobCannot "job-cannot" "The message says what to do instead; `amita job list` has what can be done about each.",
    /// Another snapshot of the volume is being taken.
    BeingTaken "being-taken" "Try again when that is taken: `amita volume snapshot list` has it then.",
    /// Another attempt has the import, or the restore, or it is at its end.
    ImportTaken "import-taken" "Look at how the volume is (`amita volume show`, `amita job list`) before the command is given again: by now it may be whole, and in use.",
    /// It was changed since it was looked at.
    Changed "changed" "Look at it again, and decide anew.",
    /// Others changed the record each time.
    TooManyRaces "too-many-races" "Try again.",
}

impl AdminError {
    /// What it is called.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            AdminError::Metadata(Error::Unavailable { .. }) => Code::MetadataAway,
            AdminError::Metadata(Error::Unknown { .. }) => Code::OutcomeUnknown,
            AdminError::Metadata(Error::Setting { .. }) => Code::MetadataSetting,
            AdminError::Metadata(_) => Code::MetadataRefused,
            AdminError::Denied(_) => Code::Denied,
            AdminError::NoCluster => Code::NoCluster,
            AdminError::BadName { .. } => Code::BadName,
            AdminError::BadSetting { .. } => Code::BadSetting,
            AdminError::NoKeys { .. } => Code::NoKeys,
            AdminError::Exists { .. } => Code::Exists,
            AdminError::NoSuch { .. } => Code::NoSuch,
            AdminError::Placement { .. } => Code::Placement,
            AdminError::NodesAway { .. } => Code::NodesAway,
            AdminError::Damaged { .. } => Code::Damaged,
            AdminError::Unreadable { .. } => Code::Unreadable,
            AdminError::InUse { .. } => Code::InUse,
            AdminError::Protected { .. } => Code::Protected,
            AdminError::HasSnapshots { .. } => Code::HasSnapshots,
            AdminError::OverQuota { .. } => Code::OverQuota,
            AdminError::Ambiguous { .. } => Code::Ambiguous,
            AdminError::IsOpen { .. } => Code::IsOpen,
            AdminError::OwnerSilent { .. } => Code::OwnerSilent,
            AdminError::BeingClosed { .. } => Code::BeingClosed,
            AdminError::Suspected { .. } => Code::Suspected,
            AdminError::Attached { .. } => Code::Attached,
            AdminError::AttachedStill { .. } => Code::AttachedStill,
            AdminError::ReadOnlyExport { .. } => Code::ReadOnlyExport,
            AdminError::Copying { .. } => Code::Copying,
            AdminError::Moving { .. } => Code::Moving,
            AdminError::Closed { .. } => Code::Closed,
            AdminError::Mirror { .. } => Code::Mirror,
            AdminError::Mirrored { .. } => Code::Mirrored,
            AdminError::MirrorsPoint { .. } => Code::MirrorsPoint,
            AdminError::Shrinking { .. } => Code::Shrinking,
            AdminError::SnapshotAttached { .. } => Code::SnapshotAttached,
            AdminError::OnlyMark { .. } => Code::OnlyMark,
            AdminError::ServedByNvme { .. } => Code::ServedByNvme,
            AdminError::Exported { .. } | AdminError::StillExported { .. } => Code::Exported,
            AdminError::HasNamespaces { .. } => Code::HasNamespaces,
            AdminError::Allowed { .. } => Code::Allowed,
            AdminError::NotAllowed { .. } => Code::NotAllowed,
            AdminError::IsLun { .. } => Code::IsLun,
            AdminError::WrittenBeside { .. } => Code::WrittenBeside,
            AdminError::HasLuns { .. } => Code::HasLuns,
            AdminError::InitiatorAllowed { .. } => Code::InitiatorAllowed,
            AdminError::InitiatorNotAllowed { .. } => Code::InitiatorNotAllowed,
            AdminError::Full { .. } => Code::Full,
            AdminError::WouldWait { .. } => Code::WouldWait,
            AdminError::RuleUnmet { .. } => Code::RuleUnmet,
            AdminError::StillNeeded { .. } => Code::StillNeeded,
            AdminError::NothingOpens { .. } => Code::NothingOpens,
            AdminError::NodeLives { .. } => Code::NodeLives,
            AdminError::NodeNeeded { .. } => Code::NodeNeeded,
            AdminError::NodeTaken { .. } => Code::NodeTaken,
            AdminError::StoreServed { .. } => Code::StoreServed,
            AdminError::StoreOutdated { .. } => Code::StoreOutdated,
            AdminError::PoolInUse { .. } => Code::PoolInUse,
            AdminError::RepositoryInUse { .. } => Code::RepositoryInUse,
            AdminError::BackupRuns { .. } => Code::BackupRuns,
            AdminError::BackupTaskCannot { .. } => Code::BackupTaskCannot,
            AdminError::JobCannot { .. } => Code::JobCannot,
            AdminError::BeingTaken { .. } | AdminError::TakenBeside { .. } => Code::BeingTaken,
            AdminError::ImportTaken { .. } => Code::ImportTaken,
            AdminError::Changed => Code::Changed,
            AdminError::TooManyRaces { .. } => Code::TooManyRaces,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_words_of_their_own_and_say_what_to_do() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            let is_word = code.name().chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(is_word, "{code:?}");
            assert!(
                code.meaning().ends_with('.') && code.advice().ends_with('.'),
                "{code:?}"
            );
        }
    }
}
