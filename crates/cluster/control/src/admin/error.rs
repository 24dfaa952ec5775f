//! Why an operator's change was not made.

use super::RACES;
use crate::nearest::{MOST, nearest};
use amita_types::StoreId;
use amita_types::placement::PlacementError;

/// What, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The metadata service.
    #[error(transparent)]
    Metadata(#[from] amita_metadata::Error),
    /// Who asks may not.
    #[error(transparent)]
    Denied(#[from] crate::access::Denied),
    /// Nobody has made the cluster yet.
    #[error("the metadata holds no cluster yet; start a node with `amita serve`, which makes it")]
    NoCluster,
    /// A name that cannot be one.
    #[error("{name:?} is no name for {} {what}: {why}", article(what))]
    BadName {
        /// Of what.
        what: &'static str,
        name: String,
        why: String,
    },
    /// A setting that cannot be.
    #[error("{what} {name}: {why}")]
    BadSetting {
        /// Of what.
        what: &'static str,
        name: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// What is to be encrypted has no key: nothing here makes one, or not as the cluster's are wrapped. Elsewhere it may be made.
    #[error("volume {name}: {why}")]
    NoKeys {
        /// The volume.
        name: String,
        /// Why there is none, and what to do.
        why: String,
    },
    /// The name is taken.
    #[error("a {what} named {name} exists already; choose another name, or use it")]
    Exists { what: &'static str, name: String },
    /// There is none of that name.
    #[error("there is no {what} named {}; {}", as_named(name), there_is(what, name, there))]
    NoSuch {
        what: &'static str,
        name: String,
        there: Vec<String>,
    },
    /// The copies cannot be placed.
    #[error("pool {pool}: {why}")]
    Placement { pool: String, why: PlacementError },
    /// The copies could be placed if all nodes were alive.
    #[error("pool {pool}: {why}. More have stores but are not alive: start {}", away.join(", "))]
    NodesAway {
        pool: String,
        /// Why those that are alive do not do.
        why: PlacementError,
        /// The others' names.
        away: Vec<String>,
    },
    /// The metadata contradicts itself.
    #[error("the metadata at {key} is damaged: {what}; was it restored from an old copy?")]
    Damaged {
        /// Where.
        key: String,
        what: &'static str,
    },
    /// A record that nobody can read, of something that has to be known.
    #[error(
        "the record of {what} {name} {said}; put it right, or take it away with all that it says (`amita {ends_by}`)"
    )]
    Unreadable {
        /// Of what.
        what: &'static str,
        name: String,
        /// Where it is, what it may say, so that something is not done, and what is wrong with it.
        said: String,
        /// The command that takes it away.
        ends_by: String,
    },
    /// A volume that is in use somewhere.
    #[error("volume {name} is in use at node {node} ({clients} clients); disconnect them, or use --force")]
    InUse {
        /// The volume.
        name: String,
        /// Who has it.
        node: String,
        /// How many use it there.
        clients: u64,
    },
    /// Something that is not to be deleted.
    #[error("{what} {name} is protected; take that away first (`{command}`)")]
    Protected {
        /// What it is.
        what: &'static str,
        name: String,
        /// What takes the protection away.
        command: String,
    },
    /// A volume that is to go with all that is known of it.
    #[error(
        "volume {name} has {snapshots} snapshots, which would go with it; delete them first (`amita volume snapshot list {name}`), \
         use --snapshots, or leave --now away: then it can be had back for a time"
    )]
    HasSnapshots {
        /// The volume.
        name: String,
        snapshots: usize,
    },
    /// More than a pool's quota has left.
    #[error(
        "the quota of pool {pool} has no room: {used} of {limit} {unit}{} are asked for, and this needs {more} more; delete \
         what is not needed, or raise it (`amita pool quota {pool} {flag}`)",
        if what == unit { String::new() } else { format!(" of {what}") }
    )]
    OverQuota {
        /// The pool.
        pool: String,
        /// Of what there would be too much.
        what: &'static str,
        /// By what the quota is set.
        flag: &'static str,
        /// In what it is counted.
        unit: &'static str,
        limit: u64,
        used: u64,
        more: u64,
    },
    /// Several deleted volumes had the name, or one has it for its number.
    #[error(
        "{name} is the name or the number of {} deleted volumes; say which one by a dot and its number: {}",
        volumes.len(), shown(volumes)
    )]
    Ambiguous {
        name: String,
        /// Their numbers, and what they were called.
        volumes: Vec<String>,
    },
    /// A volume that is open somewhere.
    #[error("volume {name} is open on node {node}; disconnect its hosts and stop that node, or use --force")]
    IsOpen {
        /// The volume.
        name: String,
        /// Who has it.
        node: String,
    },
    /// Nobody says whether a volume is in use.
    #[error(
        "volume {name} is open on node {node}, and that node does not say whether anybody uses it; look at it \
         (`amita status`), try again, or use --force"
    )]
    OwnerSilent {
        /// The volume.
        name: String,
        /// Who has it.
        node: String,
    },
    /// Another one deletes or renames the volume.
    #[error(
        "another deletion or renaming of volume {name} is under way: its owner was asked, and has not answered yet; `amita audit \
         list` says who does it"
    )]
    BeingClosed {
        /// The volume.
        name: String,
    },
    /// The metadata is not to be relied on.
    #[error("no volume is made or deleted while the metadata is suspected: {why}")]
    Suspected { why: String },
    /// A volume that hosts may use.
    #[error(
        "volume {volume} is namespace {nsid} of subsystem {subsystem}: hosts may use it; take it out first \
         (`amita namespace remove {subsystem} {nsid}`), or use --force"
    )]
    Attached {
        volume: String,
        subsystem: String,
        /// The namespace's number.
        nsid: u32,
    },
    /// The same, of one that nobody may use meanwhile.
    #[error(
        "volume {volume} is namespace {nsid} of subsystem {subsystem}: hosts may use it; take it out first \
         (`amita namespace remove {subsystem} {nsid}`)"
    )]
    AttachedStill {
        volume: String,
        subsystem: String,
        /// The namespace's number.
        nsid: u32,
    },
    /// A volume that its clients may only read is to be changed.
    #[error("volume {volume} is exported for reading only; take that away first (`amita nbd unexport {volume}`)")]
    ReadOnlyExport { volume: String },
    /// A volume that is to be a copy, and is not whole.
    #[error(
        "volume {volume} is being made a copy of {of}, and is not whole: nobody uses it before; `amita job show {job}` says how far it is, \
         `amita job cancel {job}` takes it back"
    )]
    Copying {
        volume: String,
        /// Of what.
        of: String,
        /// The job's id.
        job: String,
    },
    /// A volume that moves to another pool, or is written anew, or for which that is not tidied up.
    #[error(
        "volume {volume} {what}; `amita job show {job}` says how far that is, `amita job cancel {job}` takes it back"
    )]
    Moving {
        volume: String,
        /// What is done with it.
        what: &'static str,
        /// The job's id.
        job: String,
    },
    /// A volume that is closed to hosts.
    #[error(
        "volume {volume} is closed: this cluster is not the primary of mirror {mirror}, and until it is promoted nobody uses or changes the \
         volume but the mirror; what it was at a point is {volume}@POINT, which can be read, cloned and copied (`amita mirror show {mirror}`)"
    )]
    Closed {
        volume: String,
        /// The mirror's name.
        mirror: String,
    },
    /// A step that this end of a mirror does not take.
    #[error("mirror {mirror}: {why}")]
    Mirror {
        mirror: String,
        /// Why not.
        why: crate::mirror::Refused,
    },
    /// A volume that is mirrored is not deleted.
    #[error("volume {volume} is in mirror {mirror}: remove that first (`amita mirror remove {mirror}`)")]
    Mirrored {
        volume: String,
        /// The mirror's name.
        mirror: String,
    },
    /// A snapshot that is a mirror's point.
    #[error(
        "snapshot {snapshot} is a point of mirror {mirror}, which needs it and lets it go by itself; it is nobody's to delete while that stands"
    )]
    MirrorsPoint {
        snapshot: String,
        /// The mirror's name.
        mirror: String,
    },
    /// A volume that is being made smaller.
    #[error(
        "volume {volume} is being made smaller, to {size_bytes} bytes, and that is not at its end; `amita volume resize {volume} --size \
         {size_bytes} --shrink` ends it, and clears what was written behind that since; with the size that it has, the same gives it up"
    )]
    Shrinking {
        volume: String,
        /// What it is to have.
        size_bytes: u64,
    },
    /// A snapshot that hosts may use.
    #[error(
        "snapshot {name} is namespace {nsid} of subsystem {subsystem}: hosts may use it; take it out first \
         (`amita namespace remove {subsystem} {nsid}`)"
    )]
    SnapshotAttached {
        /// `VOLUME@SNAPSHOT`.
        name: String,
        subsystem: String,
        /// The namespace's number.
        nsid: u32,
    },
    /// A snapshot is deleted, and only its mark is kept.
    #[error(
        "snapshot {name} is deleted, and only its mark is kept: what was changed since can be told (`amita volume diff {name}`), and what \
         it was is nowhere any more"
    )]
    OnlyMark {
        /// `VOLUME@SNAPSHOT`.
        name: String,
    },
    /// A volume that hosts have by NVMe is to be exported by NBD.
    #[error(
        "volume {volume} is namespace {nsid} of subsystem {subsystem}: hosts have it by NVMe, and clients of NBD would write \
         beside them without their knowing; take it out first (`amita namespace remove {subsystem} {nsid}`), or use --shared"
    )]
    ServedByNvme {
        volume: String,
        subsystem: String,
        /// The namespace's number.
        nsid: u32,
    },
    /// A volume that is exported by NBD is to be a namespace.
    #[error(
        "volume {volume} is exported by NBD: its clients and the hosts of subsystem {subsystem} would write beside each other \
         without knowing; take the export away first (`amita nbd unexport {volume}`), or export it with --shared"
    )]
    Exported { volume: String, subsystem: String },
    /// A volume that clients of NBD may use.
    #[error(
        "volume {volume} is exported by NBD, and clients may use it; take the export away first (`amita nbd unexport {volume}`)"
    )]
    StillExported { volume: String },
    /// A subsystem that hosts may use.
    #[error(
        "subsystem {subsystem} has {namespaces} namespaces, and hosts may use them; take them out first \
         (`amita namespace remove {subsystem} NSID`), or use --force: the volumes stay"
    )]
    HasNamespaces { subsystem: String, namespaces: usize },
    /// A host that may connect.
    #[error(
        "host {host} is allowed in {}; deny it there first (`amita host deny SUBSYSTEM {host}`), or use --force", subsystems.join(", ")
    )]
    Allowed {
        host: String,
        /// Where.
        subsystems: Vec<String>,
    },
    /// A host that may not connect anyway.
    #[error("host {host} is not allowed in subsystem {subsystem}; {}", such_are("host", allowed))]
    NotAllowed {
        host: String,
        /// Where.
        subsystem: String,
        /// Who is.
        allowed: Vec<String>,
    },
    /// A volume, or a snapshot, that initiators may use.
    #[error(
        "{what} {name} is LUN {lun} of target {target}: initiators may use it; take it out first (`amita lun remove {target} {lun}`){besides}"
    )]
    IsLun {
        /// A volume or a snapshot.
        what: &'static str,
        name: String,
        target: String,
        /// The LUN's number.
        lun: u16,
        /// What else helps.
        besides: &'static str,
    },
    /// A volume would be written by two protocols.
    #[error(
        "volume {volume} is {used}: {by} would write beside those who have it so, without either's knowing; {instead}"
    )]
    WrittenBeside {
        volume: String,
        /// What it is already.
        used: String,
        /// Who would write as well.
        by: String,
        /// What to do.
        instead: String,
    },
    /// A target that initiators may use.
    #[error(
        "target {target} has {luns} LUNs, and initiators may use them; take them out first (`amita lun remove {target} LUN`), or use \
         --force: the volumes stay"
    )]
    HasLuns { target: String, luns: usize },
    /// An initiator that may log in.
    #[error(
        "initiator {initiator} is allowed in {}; deny it there first (`amita initiator deny TARGET {initiator}`), or use --force",
        targets.join(", ")
    )]
    InitiatorAllowed {
        initiator: String,
        /// Where.
        targets: Vec<String>,
    },
    /// An initiator that may not log in anyway, or by no name of its own.
    #[error("{}", not_allowed(initiator, target, allowed, *any_initiator))]
    InitiatorNotAllowed {
        initiator: String,
        /// Where.
        target: String,
        /// Who is.
        allowed: Vec<String>,
        /// May any log in there?
        any_initiator: bool,
    },
    /// No more of them.
    #[error("{what} {name} has {most} {of}, and more are not possible: take away first what is not needed")]
    Full {
        what: &'static str,
        name: String,
        /// Of what.
        of: &'static str,
        /// How many it has.
        most: usize,
    },
    /// A node whose absence would hold up writes.
    #[error(
        "without node {node}, writes to {groups} groups of pool {pool} would wait: fewer than {min_copies} of their copies \
         are elsewhere and in sync; let them be brought up to date first (`amita status`), or use --force"
    )]
    WouldWait {
        node: String,
        /// The first pool of which that is so.
        pool: String,
        /// How many of its groups.
        groups: usize,
        /// How many copies a write needs.
        min_copies: usize,
    },
    /// A rule that the stores that there are cannot meet.
    #[error(
        "pool {pool}: with the stores that there are, {groups} groups could not obey that rule; add stores, or use --force"
    )]
    RuleUnmet {
        pool: String,
        /// How many of its groups.
        groups: usize,
    },
    /// A store that groups still name.
    #[error(
        "store {store} is still needed by {groups} groups; drain it first (`amita disk drain {store}`), and wait for it"
    )]
    StillNeeded { store: StoreId, groups: usize },
    /// The metadata is not to be believed: what needs a volume to be opened cannot be done.
    #[error("no volume is opened, so none can be moved: {why}")]
    NothingOpens {
        /// What was found, and what to do.
        why: String,
    },
    /// A node that is there.
    #[error("node {name} holds its lease: stop it first, and wait until its lease has ended (`amita node list`)")]
    NodeLives {
        /// The node.
        name: String,
    },
    /// A node whose stores groups still name.
    #[error(
        "node {name} has stores that groups still need: {}; move their data to others first (`amita disk drain STORE`), and \
         wait for it",
        of_stores(stores)
    )]
    NodeNeeded {
        /// The node.
        name: String,
        /// Its stores that groups name, and how many groups do.
        stores: Vec<(StoreId, usize)>,
    },
    /// Another process has registered under the name a moment ago.
    #[error(
        "another process has registered as node {name} at the same moment; give this node another name, or start it again"
    )]
    NodeTaken {
        /// The node.
        name: String,
    },
    /// A store that another living process serves.
    #[error(
        "store {store} is served by node {by} ({path}): this is a copy of it, or the same disk reached twice. Two must never \
         serve one store: take this one away, or stop that node if its disk has moved here"
    )]
    StoreServed {
        store: StoreId,
        /// The node's name.
        by: String,
        /// Where it has it.
        path: String,
    },
    /// A store that was served since, by the same disk or by a copy of it.
    #[error(
        "store {store} is an old copy: it was last served as mount {known} (by node {by}, {path}), and this is mount {mount}: \
         what was written since is missing here. Serve the other one; if it is lost, `amita disk adopt {store}` lets this one \
         in, without what it has missed"
    )]
    StoreOutdated {
        store: StoreId,
        /// The newest mount that was claimed.
        known: u64,
        /// This one.
        mount: u64,
        /// Who had it.
        by: String,
        path: String,
    },
    /// A repository that policies back up into, or that tasks are for.
    #[error("backup repository {repository} is not forgotten: {}", used_by(policies, tasks))]
    RepositoryInUse {
        repository: String,
        /// The policies.
        policies: Vec<String>,
        /// The tasks that have not ended.
        tasks: Vec<String>,
    },
    /// A task of backups of which something is wanted that cannot be done with it.
    #[error("backup task {task} cannot be {what}: {why}")]
    BackupTaskCannot {
        task: String,
        /// What was wanted.
        what: &'static str,
        /// Why not, or what to do instead.
        why: String,
    },
    /// A run of a policy of backups that a node is at.
    #[error(
        "a run of backup policy {policy} is under way at node {node}; `amita backup policy show {policy}` says how far it is"
    )]
    BackupRuns { policy: String, node: String },
    /// A pool that something lies in, or that something names.
    #[error("pool {pool} is not deleted: {}", in_use(volumes, deleted, policies))]
    PoolInUse {
        pool: String,
        /// The volumes in it.
        volumes: Vec<String>,
        /// Those that were deleted and can be had back, by what they were called.
        deleted: Vec<String>,
        /// Policies that take snapshots of all its volumes.
        policies: Vec<String>,
    },
    /// A job of which something is wanted that cannot be done with it.
    #[error("job {id} cannot be {what}: {why}")]
    JobCannot {
        id: String,
        /// What was wanted.
        what: &'static str,
        /// Why not, or what to do instead.
        why: String,
    },
    /// One snapshot of a volume is taken at a time.
    #[error("snapshot {of}: another {what}, {other:?}, is being taken; try again when it is")]
    BeingTaken {
        /// `VOLUME@SNAPSHOT`.
        of: String,
        /// A snapshot of the volume, or a set with it.
        what: &'static str,
        /// Its name.
        other: String,
    },
    /// Nothing is reverted beside that.
    #[error("volume {volume} is not reverted: a {what}, {other:?}, is being taken; do it again when it is")]
    TakenBeside {
        volume: String,
        /// A snapshot of the volume, or a set with it.
        what: &'static str,
        /// Its name.
        other: String,
    },
    /// An import, or a restore, is not in the hands any more of who says something of it.
    #[error(
        "volume {volume}: another command has begun an import or a restore into it since, has gone on with this one or ended it, or somebody has opened it: \
         nothing more is said of it here"
    )]
    ImportTaken { volume: String },
    /// What was to be changed is not what was looked at.
    #[error("it was changed by others since it was looked at; look at it again, and decide anew")]
    Changed,
    /// Others changed the record each time.
    #[error("{key} was changed by others at each of {RACES} tries; try again, with fewer such changes at one time")]
    TooManyRaces {
        /// The record.
        key: String,
    },
}

fn article(what: &str) -> &'static str {
    match what.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    }
}

/// A name as it was given; one that cannot be seen in a sentence stands in quotes.
fn as_named(name: &str) -> String {
    match name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        true => format!("{name:?}"),
        false => name.to_owned(),
    }
}

fn not_allowed(initiator: &str, target: &str, allowed: &[String], any_initiator: bool) -> String {
    match any_initiator {
        true => format!(
            "initiator {initiator} is not named in target {target}, where any initiator may log in and those that are not named see all LUNs; \
             name it first (`amita initiator allow {target} {initiator} --lun N`), or let in those alone that are named (`amita target set \
             {target} --listed-initiators`)"
        ),
        false => format!(
            "initiator {initiator} is not allowed in target {target}; {}",
            such_are("initiator", allowed)
        ),
    }
}

fn of_stores(stores: &[(StoreId, usize)]) -> String {
    let each = stores
        .iter()
        .map(|(store, groups)| format!("{store} ({groups} groups)"));
    each.collect::<Vec<_>>().join(", ")
}

fn how_to_make(what: &str) -> String {
    match what {
        "host" | "namespace" => format!(": add one with `amita {what} add`"),
        "LUN" => ": add one with `amita lun add`".to_owned(),
        "initiator" => {
            ": one is known when it is allowed (`amita initiator allow`) or has a secret (`amita initiator key`)"
                .to_owned()
        }
        "node" => ": start one with `amita serve`".to_owned(),
        "deleted volume" | "job" => String::new(),
        "backup task" => ": `amita backup task back-up`, `restore` and `forget` make one".to_owned(),
        "snapshot policy" => ": make one with `amita snapshot-policy create`".to_owned(),
        "backup policy" => ": make one with `amita backup policy create`".to_owned(),
        "backup repository" => ": make one known with `amita backup repository add`".to_owned(),
        _ => format!(": make one with `amita {what} create`"),
    }
}

fn such_are(what: &str, allowed: &[String]) -> String {
    match allowed {
        [] => format!("no {what} is"),
        several => format!("allowed are {}", several.join(", ")),
    }
}

fn there_is(what: &str, name: &str, there: &[String]) -> String {
    let near = nearest(name, there.iter().map(String::as_str));
    match there {
        [] => match what.strip_suffix('y') {
            Some(stem) => format!("there are no {stem}ies at all{}", how_to_make(what)),
            None => format!("there are no {what}s at all{}", how_to_make(what)),
        },
        [only] => format!("there is {only}"),
        few if few.len() <= MOST => format!("there are {}", few.join(", ")),
        several if near.is_empty() => format!("there are {}, and none is called alike", several.len()),
        several => format!("near are {} (of {})", near.join(", "), several.len()),
    }
}

/// What keeps a repository from being forgotten, and how it goes.
fn used_by(policies: &[String], tasks: &[String]) -> String {
    let mut why = Vec::new();
    if !policies.is_empty() {
        why.push(format!(
            "backup policies use it ({}); delete or change them (`amita backup policy set`)",
            shown(policies)
        ));
    }
    if !tasks.is_empty() {
        why.push(format!(
            "backup tasks are for it that have not ended ({}); wait for them, or take them back (`amita backup task cancel`)",
            shown(tasks)
        ));
    }
    why.join(". Besides, ")
}

/// What keeps a pool from being deleted, and how it goes.
fn in_use(volumes: &[String], deleted: &[String], policies: &[String]) -> String {
    let mut why = Vec::new();
    if !volumes.is_empty() {
        why.push(format!(
            "it has volumes ({}); delete them first (`amita volume delete`)",
            shown(volumes)
        ));
    }
    if !deleted.is_empty() {
        why.push(format!(
            "it has deleted volumes that are kept ({}); purge them (`amita volume purge`), or wait until they go",
            shown(deleted)
        ));
    }
    if !policies.is_empty() {
        why.push(format!(
            "snapshot policies are for it ({}); delete or change them (`amita snapshot-policy set`)",
            shown(policies)
        ));
    }
    why.join(". Besides, ")
}

/// The first of many names, and how many more there are.
fn shown(names: &[String]) -> String {
    const MOST: usize = 8;
    let first = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
