//! `amita volume snapshot`: the volume as it was at one moment.

use crate::admin::{Admin, Described};
use crate::logging::timestamp;
use crate::space;
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, SetTaking, TakingState};
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::SetId;
use amita_types::map::{Snapshot, SnapshotSet, SnapshotWish};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it is looked whether a snapshot is taken. It takes the metadata three transactions.
const LOOK: Duration = Duration::from_millis(5);

/// The shortest and the longest time that is waited for a snapshot, in seconds.
const TIMEOUT_S: std::ops::RangeInclusive<u64> = 1..=86_400;

/// What to do with a volume's snapshots.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Take a snapshot of a volume: all that is acknowledged by now, by whatever gateway, and nothing that comes later
    ///
    /// Nothing is copied, and nobody waits. A database finds in it what it would find after a power cut at that moment. Clients of NBD
    /// read it as VOLUME@NAME.
    Create(CreateArguments),
    /// Take snapshots of several volumes at one moment, all of one name: a database with its log, or the disks of a machine
    ///
    /// What one of them has, and was sent when something of another volume was acknowledged, it has only with that: they are what a power
    /// cut of all at one moment would have left. Either all of them are taken or none is.
    CreateSet(CreateSetArguments),
    /// List the sets of snapshots that were taken at one moment, the oldest first
    ListSets {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// List a volume's snapshots, the oldest first
    List {
        /// The volume
        volume: String,
        /// Also those that were deleted, and stay hidden for as long as the volumes that were cloned from them
        #[arg(long)]
        all: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Protect a snapshot from being deleted; with its volume it goes all the same
    Protect {
        /// The volume
        volume: String,
        /// The snapshot
        name: String,
        /// Protect it no longer
        #[arg(long)]
        off: bool,
        /// Say how it is now as JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a snapshot; what nothing else needs of it comes back by and by
    ///
    /// One that volumes were cloned from loses its name and is hidden: it goes when the last of them is gone for good, or was flattened.
    /// With --keep-mark its name stays, as a mark: it cannot be read any more and takes no space, and `amita volume diff` still tells what
    /// was changed since, so that a backup goes on from it. A mark is deleted by the same command, without --keep-mark.
    Delete {
        /// The volume
        volume: String,
        /// The snapshot
        name: String,
        /// Keep a mark, by which what was changed since can be told still
        #[arg(long)]
        keep_mark: bool,
        /// Say what was deleted as JSON
        #[arg(long)]
        json: bool,
    },
}

/// `amita volume snapshot create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// The volume
    pub volume: String,
    /// The snapshot's name: up to 128 letters, digits, and . _ : + - behind the first
    pub name: String,
    /// Say what it is for; once for each label
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// How long to wait for it, in seconds, up to a day; then it is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(TIMEOUT_S))]
    pub timeout: u64,
    /// Say what was taken as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume snapshot create-set`.
#[derive(Debug, clap::Args)]
pub struct CreateSetArguments {
    /// The name of each snapshot: up to 128 letters, digits, and . _ : + - behind the first
    pub name: String,
    /// The volumes, of any pools; up to 1,024
    #[arg(required = true)]
    pub volumes: Vec<String>,
    /// Say what they are for; once for each label
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// How long to wait for it, in seconds, up to a day; then it is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(TIMEOUT_S))]
    pub timeout: u64,
    /// Say what was taken as JSON
    #[arg(long)]
    pub json: bool,
}

/// A set, as JSON says it.
#[derive(Serialize)]
struct ShownSet<'a> {
    id: u64,
    name: &'a str,
    taken_at: u64,
    snapshots: Vec<Shown<'a>>,
}

/// One of them, as JSON says it.
#[derive(Serialize)]
struct Shown<'a> {
    volume: &'a str,
    name: &'a str,
    number: u32,
    size_bytes: u64,
    taken_at: u64,
    protected: bool,
    /// So many volumes were cloned from it.
    clones: u64,
    /// The set that it was taken with.
    set: Option<u64>,
    /// It was deleted, and only its mark is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    mark: bool,
    /// It was deleted, and goes with the last of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hidden: bool,
    labels: &'a BTreeMap<String, String>,
    /// What the deletion of this one alone would free; where it was counted and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_bytes: Option<Option<u64>>,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Admin) -> Result<()> {
    match command {
        Command::Create(arguments) => create(arguments, metadata),
        Command::CreateSet(arguments) => create_set(arguments, metadata),
        Command::ListSets { json } => list_sets(*json, metadata),
        Command::List { volume, all, json } => list(volume, *all, *json, metadata),
        Command::Protect {
            volume,
            name,
            off,
            json,
        } => {
            let object = format!("{volume}@{name}");
            let done = metadata.act(Action::SnapshotProtect, &object, |meta| {
                admin::protect_snapshot(meta, volume, name, !off)
            });
            print(*json, &shown(volume, &done.described()?), || match off {
                true => format!("Snapshot {object} may be deleted.\n"),
                false => format!("Snapshot {object} is protected: it cannot be deleted, but goes with its volume.\n"),
            })
        }
        Command::Delete {
            volume,
            name,
            keep_mark,
            json,
        } => {
            let object = format!("{volume}@{name}");
            let deleted = metadata.act(Action::SnapshotDelete, &object, |meta| match keep_mark {
                false => admin::delete_snapshot(meta, volume, name),
                true => admin::mark_snapshot(meta, volume, name),
            });
            let deleted = deleted.described()?;
            print(*json, &shown(volume, &deleted), || {
                match (deleted.hidden, deleted.clones) {
                    _ if deleted.mark => marked(&object, deleted.clones),
                    (false, _) => format!("Snapshot {object} is deleted; its space comes back by and by.\n"),
                    (true, clones) => format!(
                        "Snapshot {object} is deleted and hidden: it is held by {}. It goes when the last of them is gone for good, or \
                     was flattened (`amita volume flatten`); until then it takes space.\n",
                        clones_of(clones)
                    ),
                }
            })
        }
    }
}

fn marked(object: &str, clones: u64) -> String {
    let begin = format!(
        "Snapshot {object} is deleted, and its mark kept: `amita volume diff {object}` tells what was changed since."
    );
    match clones {
        0 => format!("{begin} Its space comes back by and by.\n"),
        clones => format!(
            "{begin} It is held by {}, so it takes space until the last of them is gone for good, or was flattened.\n",
            clones_of(clones)
        ),
    }
}

fn create(arguments: &CreateArguments, metadata: &Admin) -> Result<()> {
    let CreateArguments { volume, name, .. } = arguments;
    let object = format!("{volume}@{name}");
    let labels: BTreeMap<String, String> = arguments.labels.iter().cloned().collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let until = interrupt::bounded(interrupt::deadline(Duration::from_secs(arguments.timeout)));
    let taken = metadata.act(Action::SnapshotCreate, &object, |meta| {
        let wish = admin::ask_snapshot(meta, volume, name, labels, now)?;
        await_taken(meta, &wish, until)
    });
    let taken = self::taken(&object, taken.described()?, Duration::from_secs(arguments.timeout));
    let snapshot = taken.map_err(|failure| match failure.advice.is_empty() {
        true => failure,
        false => failure.advice("see `amita status`; try again, or wait for longer with --timeout"),
    })?;
    print(arguments.json, &shown(volume, &snapshot), || {
        format!("Snapshot {object} is taken, of {}.\n", size::show(snapshot.size_bytes))
    })
}

fn create_set(arguments: &CreateSetArguments, metadata: &Admin) -> Result<()> {
    let CreateSetArguments { volumes, name, .. } = arguments;
    let named: Vec<String> = volumes.iter().map(|volume| format!("{volume}@{name}")).collect();
    let labels: BTreeMap<String, String> = arguments.labels.iter().cloned().collect();
    let until = interrupt::bounded(interrupt::deadline(Duration::from_secs(arguments.timeout)));
    let given_up = format!(
        "it was not taken within {} seconds, and is given up: no gateway opens one of its volumes, or a store does not answer and is \
         not out of its groups yet",
        arguments.timeout
    );
    let taken = metadata.act(Action::SnapshotSetCreate, &named.join(" "), |meta| {
        // Each try may hold writes for as long as an owner waits: where one is slow each time, its hosts must not stand still for most of it.
        let mut pause = LOOK * 20;
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let set = admin::ask_set(meta, volumes, name, labels.clone(), now)?;
            match await_set(meta, &set, until, &given_up)? {
                // An owner has changed, or was slow: the same is tried anew.
                SetTaking::Void(voided) if voided.again && Instant::now() + pause < until => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                state => return Ok::<_, AdminError>((set, state)),
            }
        }
    });
    let (set, state) = taken.described()?;
    let snapshots = match state {
        SetTaking::Taken(snapshots) => snapshots,
        SetTaking::Void(voided) => {
            let what = format!(
                "set {name:?} cannot be taken, and none of its snapshots is: {}",
                voided.why
            );
            return Err(Failure::new(what).advice("See `amita status`; try again, or wait for longer with --timeout."));
        }
        other => return Err(not_noted(set.id, name, &other)),
    };
    let names = set.volumes.iter().map(|volume| volume.name.as_str());
    let shown = ShownSet {
        id: set.id.0,
        name,
        taken_at: set.asked_at,
        snapshots: names
            .zip(&snapshots)
            .map(|(volume, snapshot)| self::shown(volume, snapshot))
            .collect(),
    };
    print(arguments.json, &shown, || {
        let named = set.volumes.iter().map(|volume| format!("{}@{name}", volume.name));
        let named: Vec<String> = named.collect();
        format!("Set {} is taken, at one moment: {}.\n", set.id, named.join(", "))
    })
}

/// The time is up, and the set is decided: it stays, whoever waits for it.
pub(crate) fn not_noted(id: SetId, name: &str, state: &SetTaking) -> Failure {
    let open = match state {
        SetTaking::Decided { open } => format!("{open} of its volumes' owners have not noted their snapshots yet"),
        _ => "it is not known how many of its snapshots are noted".to_owned(),
    };
    Failure::new(format!("set {id} ({name:?}) is taken and stays, but {open}")).advice(
        "Do not take it again: `amita volume snapshot list-sets` shows it as soon as they have; `amita status` shows who is silent.",
    )
}

/// Waits until a set is taken or void, and gives it up, with this reason, when that takes too long. One that is decided stays.
pub(crate) fn await_set(
    meta: &dyn Transact,
    set: &SnapshotSet,
    until: Instant,
    why: &str,
) -> std::result::Result<SetTaking, AdminError> {
    loop {
        match admin::set_state(meta, set)? {
            SetTaking::Waiting | SetTaking::Decided { .. } if Instant::now() < until => std::thread::sleep(LOOK),
            SetTaking::Waiting => {
                admin::drop_set(meta, set, why)?;
                // It may have been decided meanwhile.
                return admin::set_state(meta, set);
            }
            state => return Ok(state),
        }
    }
}

fn list_sets(as_json: bool, metadata: &Admin) -> Result<()> {
    let sets = admin::taken_sets(&metadata.reader()).described()?;
    print(as_json, &sets, || {
        let mut table = Table::new(&["set", "snapshot", "taken", "volumes"]);
        for set in &sets {
            table.row([
                set.id.to_string(),
                set.name.clone(),
                timestamp(set.taken_at, 0),
                set.volumes.join(","),
            ]);
        }
        table.text()
    })
}

/// Waits until a snapshot is taken or refused, and gives it up when that takes too long.
pub(crate) fn await_taken(
    meta: &dyn Transact,
    wish: &SnapshotWish,
    until: Instant,
) -> std::result::Result<TakingState, AdminError> {
    loop {
        match admin::snapshot_state(meta, wish)? {
            TakingState::Waiting if Instant::now() < until => std::thread::sleep(LOOK),
            TakingState::Waiting => {
                admin::drop_snapshot_wish(meta, wish)?;
                // It may have been taken meanwhile.
                return admin::snapshot_state(meta, wish);
            }
            state => return Ok(state),
        }
    }
}

/// The snapshot, if it was taken.
pub(crate) fn taken(object: &str, state: TakingState, waited: Duration) -> Result<Snapshot> {
    match state {
        TakingState::Taken(snapshot) => Ok(snapshot),
        TakingState::Refused(why) => Err(Failure::new(format!("snapshot {object} cannot be taken: {why}"))),
        _ => {
            let what = format!(
                "snapshot {object} was not taken within {} seconds, and is given up: no gateway opens the volume, or a store of \
                 it does not answer and is not out of its groups yet",
                waited.as_secs()
            );
            Err(Failure::new(what).advice("See `amita status`, and try again."))
        }
    }
}

fn clones_of(clones: u64) -> String {
    match clones {
        1 => "a clone".to_owned(),
        clones => format!("{clones} clones"),
    }
}

fn list(volume: &str, all: bool, as_json: bool, metadata: &Admin) -> Result<()> {
    let snapshots = match all {
        true => admin::all_snapshots(&metadata.reader(), volume).described()?,
        false => admin::snapshots(&metadata.reader(), volume).described()?,
    };
    let status = metadata.status()?;
    let known = status.volumes.iter().find(|found| found.volume.name == volume);
    let counted = match known.filter(|_| !snapshots.is_empty()) {
        Some(found) => super::label::counted(metadata, &status, &found.volume)?,
        None => Ok(BTreeMap::new()),
    };
    let space = known.and_then(|found| space::of_chain(counted.as_ref().ok()?, &found.volume));
    let unique = |snapshot: &Snapshot| space.as_ref().map(|space| space.unique_of(snapshot.number));
    let all: Vec<Shown<'_>> = snapshots
        .iter()
        .map(|snapshot| Shown {
            unique_bytes: Some(unique(snapshot)),
            ..shown(volume, snapshot)
        })
        .collect();
    print(as_json, &all, || {
        let mut table = Table::new(&[
            "snapshot",
            "number",
            "size",
            "unique",
            "taken",
            "protected",
            "clones",
            "set",
            "labels",
        ]);
        for snapshot in &snapshots {
            let labels: Vec<String> = snapshot
                .labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            table.row([
                match snapshot.hidden {
                    false if snapshot.mark => format!("{} (mark)", snapshot.name),
                    false => snapshot.name.clone(),
                    true => format!("{} (deleted)", snapshot.name),
                },
                snapshot.number.to_string(),
                size::show(snapshot.size_bytes),
                match unique(snapshot) {
                    _ if snapshot.is_only_marked() => String::new(),
                    Some(unique) => size::show(unique),
                    None => "not known".to_owned(),
                },
                timestamp(snapshot.taken_at, 0),
                if snapshot.protected { "yes" } else { "" }.to_owned(),
                match (snapshot.hidden, snapshot.clones) {
                    (_, 0) => String::new(),
                    (false, clones) => clones.to_string(),
                    (true, clones) => format!("held by {}", clones_of(clones)),
                },
                snapshot.set.map_or_else(String::new, |set| set.to_string()),
                labels.join(","),
            ]);
        }
        match &counted {
            Ok(_) => table.text(),
            Err(why) => format!("{}What the snapshots hold is not known: {why}\n", table.text()),
        }
    })
}

fn shown<'a>(volume: &'a str, snapshot: &'a Snapshot) -> Shown<'a> {
    Shown {
        volume,
        name: &snapshot.name,
        number: snapshot.number.0,
        size_bytes: snapshot.size_bytes,
        taken_at: snapshot.taken_at,
        protected: snapshot.protected,
        clones: snapshot.clones,
        set: snapshot.set.map(|set| set.0),
        mark: snapshot.mark,
        hidden: snapshot.hidden,
        labels: &snapshot.labels,
        unique_bytes: None,
    }
}

fn parse_label(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is KEY=VALUE".to_owned()),
    }
}
