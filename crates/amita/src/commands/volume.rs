//! `amita volume`.

mod attach;
mod clone;
mod copy;
pub(crate) mod data;
pub(crate) mod diff;
pub(crate) mod ended;
mod export;
mod flatten;
pub(crate) mod gateway;
mod image;
mod import;
pub(crate) mod key;
mod label;
pub mod limit;
mod migrate;
mod moves;
mod priority;
mod rekey;
mod reservation;
mod resize;
mod revert;
pub(crate) mod snapshot;
mod trash;
mod waiting;

pub use copy::Copies;
pub use gateway::Gateways;

use crate::admin::{Admin, Described};
use crate::by_api::rest::Rest;
use crate::cli::Endpoints;
use crate::commands::nbd::for_whom;
use crate::space;
use amita_control::access::Action;
use amita_control::admin::{self, DataKeys, Status, VolumeStatus};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::say_line;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::VolumeId;
use amita_types::map::About;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often the end of a scrub is looked for.
const LOOK: Duration = Duration::from_millis(200);
/// For how long a list waits until the stores have counted what its volumes hold.
const LIST_PATIENCE: Duration = Duration::from_secs(5);
/// What whoever makes a volume encrypted has to know of links.
const SECRET_LINKS: &str = "Its data goes from gateway to gateway by secret links alone (`amita serve --links secret`): where nodes have others, hosts \
                            use it by the one that owns it.";

/// What to do with volumes.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a volume; it is thin: space is taken when a block is first written
    Create(CreateArguments),
    /// Make a volume from a snapshot of another one: it begins as that, and goes its own way
    ///
    /// Nothing is copied: both share all blocks, and each write takes space for its own. The snapshot stays for as long as the clone does, hidden
    /// where it is deleted, or until that is flattened.
    Clone(clone::Arguments),
    /// Copy a volume into a new one, of any pool, while hosts go on using it
    ///
    /// The copy is the volume as it was at one moment, soon after the command is given: a snapshot is taken for it, and goes when the copy is
    /// whole. Nodes make it, also when one of them dies; until then nobody uses it. Holes stay holes. It shares nothing with its source: to
    /// have a volume that does, in the same pool and at once: `amita volume clone`.
    Copy(copy::Arguments),
    /// Move a volume to another pool, while hosts go on using it
    ///
    /// With all its snapshots, under its name. Nodes move it, also when one of them dies; hosts wait for a moment at the end, as for `volume
    /// move`, and see the same disk. Until then it is where it was, and `amita job cancel` takes the move back. What was cloned from its
    /// snapshots stays in the old pool.
    Migrate(migrate::Arguments),
    /// Write a volume anew in its pool by a new data key, while hosts go on using it; or encrypt one that is not, or no more one that is
    ///
    /// All of it, its snapshots included. Nodes do it, also when one of them dies; hosts wait for a moment at the end, and see the same disk. Until
    /// then it is what it was, the pool holds both, and `amita job cancel` takes it back. The data key of before is erased at the end, unless
    /// volumes are read by it that were cloned from its snapshots (docs/operating/encryption.md). To wrap data keys again, which writes no
    /// block: `amita volume key rewrap`.
    Rekey(rekey::Arguments),
    /// Have a clone need what it was made from no more: then that may be deleted
    ///
    /// No data is copied, and hosts go on using it; blocks stay shared until they are written. Its gateway opens each chunk once. Whoever
    /// interrupts the command only stops waiting.
    Flatten(flatten::Arguments),
    /// List the volumes
    List {
        /// Only those with this label; once for each that is wanted
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label::parse_label)]
        labels: Vec<(String, String)>,
        /// Those that were deleted, and can be had back
        #[arg(long, conflicts_with = "labels")]
        deleted: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Hand a volume to a host by NVMe/TCP or iSCSI, and say what the host has to do
    ///
    /// Makes what is missing: a subsystem of the volume's name, the namespace, the host, its right to connect; with --iscsi a target, the LUN
    /// and the initiator's right to see it. What is there is left as it is, so the command can be given again for the commands that it
    /// prints.
    Attach(attach::AttachArguments),
    /// Take a volume away from its hosts, or from one of them; its data stays
    Detach(attach::DetachArguments),
    /// Copy an image into a new volume: raw or qcow2, as its head says
    ///
    /// Holes and zeros are not written: the volume is thin. Where it is interrupted, the same command with --resume goes on.
    Import(import::Arguments),
    /// Copy a volume into a file, raw or as qcow2: holes and zeros take no space in it
    ///
    /// Nobody should write to the volume meanwhile; or name a snapshot of it. (To serve a volume by NBD: `amita nbd export`.)
    Export(export::Arguments),
    /// List what was changed between two snapshots of a volume, or since one
    ///
    /// Blocks that were written, or unmapped, in between, even with what they held; ascending, in bytes. What is listed as zero takes no
    /// space any more. A backup copies these extents, and no others.
    Diff(diff::Arguments),
    /// Make a volume what it was at a snapshot, at once: no data is copied, whatever its size
    ///
    /// Nobody may use it meanwhile. A snapshot is taken before, so that nothing is lost; all snapshots stay the volume's, older and newer ones,
    /// and it can be reverted to each of them. A volume that grew since keeps its size, with zeros behind.
    Revert(revert::Arguments),
    /// Show what is known of a volume
    Show(label::ShowArguments),
    /// Set labels of a volume (KEY=VALUE), or take them away (KEY-)
    Label(label::LabelArguments),
    /// Keys of encrypted volumes: make the file that wraps them, list them, wrap them again
    #[command(subcommand)]
    Key(key::Command),
    /// Limits: how much all hosts of a volume together may do
    #[command(subcommand)]
    Limit(limit::Command),
    /// Make a volume larger; hosts that are connected by NVMe see it at once. With --shrink: make it smaller
    ///
    /// To make it smaller nobody may use it: what lies behind the new end is cleared first, and reads as zeros where the volume grows
    /// again. Snapshots keep their own sizes, and all that they have. Where it is interrupted the volume has its old size, and the same
    /// command ends it.
    Resize(resize::Arguments),
    /// Have another gateway own a volume: hosts that are connected to both go over without an error
    Move(moves::Arguments),
    /// Show who has reserved a volume
    Reservation(reservation::Arguments),
    /// Snapshots: the volume as it was at one moment
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// Look at all copies of a volume, repair what is damaged, and say what was found
    Scrub(ScrubArguments),
    /// Give a volume another name; clients ask for it by that from then on
    ///
    /// Nobody may use it meanwhile. Its number, its snapshots, its labels and the rights of clients stay.
    Rename(trash::RenameArguments),
    /// Protect a volume from being deleted
    Protect(trash::ProtectArguments),
    /// Delete a volume; for a time it can be had back (`amita volume undelete`)
    ///
    /// For how long says its pool: `amita pool recycle`. Until then it takes the space that it took.
    Delete(trash::DeleteArguments),
    /// Have a deleted volume back, with its data and its snapshots
    ///
    /// It is served by nothing then: export it, or attach it, as you did when it was made.
    Undelete(trash::UndeleteArguments),
    /// Have a deleted volume gone for good, with its snapshots: its space comes back by and by
    Purge(trash::PurgeArguments),
}

/// `amita volume create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// Its name, by which hosts ask for it
    pub name: String,
    /// The pool that holds it
    #[arg(long, value_name = "NAME")]
    pub pool: String,
    /// Bytes, or with K, M, G, T; a multiple of 4096
    #[arg(long, value_name = "SIZE", value_parser = size::parse_blocks)]
    pub size: u64,
    /// Encrypted at rest, from its first write on: its blocks leave its gateway as ciphertext alone, and gateways need the volume keys to
    /// serve it (docs/operating/encryption.md)
    #[arg(long)]
    pub encrypted: bool,
    /// The tenant whose it is, from the start: an encrypted one is wrapped by the tenant's volume key, where it has one, and never was by another
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    #[command(flatten)]
    pub keys: key::FileArgument,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume scrub`.
#[derive(Debug, clap::Args)]
pub struct ScrubArguments {
    /// Its name
    pub name: String,
    /// Do not wait for the end
    #[arg(long)]
    pub no_wait: bool,
    /// Only say what the last one has found
    #[arg(long, conflicts_with = "no_wait")]
    pub last: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Does by the API's own operations what reads or writes the data of volumes.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run_by_api(command: &Command, rest: &Rest) -> Result<()> {
    match command {
        Command::Import(arguments) => import::run_by_api(arguments, rest),
        Command::Export(arguments) => export::run_by_api(arguments, rest),
        Command::Diff(arguments) => diff::run_by_api(arguments, rest),
        Command::Revert(arguments) => revert::run_by_api(arguments, rest),
        // The table has no others.
        _ => Err(Failure::new("this command is not done by the API's own operations").kind(Kind::Usage)),
    }
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let endpoints = metadata;
    if let Command::Key(key::Command::Init(arguments)) = command {
        return key::init(arguments);
    }
    let metadata = Admin::connect(metadata)?;
    match command {
        Command::Create(arguments) => {
            let CreateArguments { name, pool, size, .. } = arguments;
            let keys = match arguments.encrypted {
                true => Some(arguments.keys.needed(endpoints)?),
                false => None,
            };
            let keys = keys.as_ref().map(|keys| keys as &dyn DataKeys);
            let tenant = arguments.tenant.as_deref();
            let made = metadata.act(Action::VolumeCreate, name, |meta| {
                admin::make_volume_of(meta, tenant, (name, pool, *size), Some(&now()), keys)
            });
            let volume = made.described()?;
            let all = admin::stores(&metadata.reader()).described()?;
            let all = all
                .iter()
                .fold(0, |sum: u64, store| sum.saturating_add(store.size_bytes));
            print(arguments.json, &volume, || {
                let much = match *size > all {
                    true => format!(
                        "That is more than all stores together have ({}): it is thin, and writes fail where nothing is left.\n",
                        size::show(all)
                    ),
                    false => String::new(),
                };
                let (how, links) = match volume.keys {
                    Some(_) => (", encrypted", format!("{SECRET_LINKS}\n")),
                    None => ("", String::new()),
                };
                let wrapped = key::told_of_newest(&metadata, name);
                format!(
                    "Volume {} has {} in pool {}{how}.\n{wrapped}{links}{much}",
                    volume.name,
                    size::show(volume.size_bytes),
                    volume.pool
                )
            })
        }
        Command::Clone(arguments) => clone::run(arguments, endpoints, &metadata),
        Command::Copy(arguments) => copy::run(arguments, endpoints, &metadata),
        Command::Migrate(arguments) => migrate::run(arguments, endpoints, &metadata),
        Command::Rekey(arguments) => rekey::run(arguments, endpoints, &metadata),
        Command::Flatten(arguments) => flatten::run(arguments, &metadata),
        Command::List {
            deleted: true, json, ..
        } => trash::list(*json, &metadata),
        Command::List { labels, json, .. } => list(labels, *json, &metadata),
        Command::Import(arguments) => import::run(arguments, endpoints, &metadata),
        Command::Export(arguments) => export::run(arguments, endpoints, &metadata),
        Command::Diff(arguments) => diff::run(arguments, endpoints, &metadata),
        Command::Revert(arguments) => revert::run(arguments, endpoints, &metadata),
        Command::Show(arguments) => label::show(arguments, &metadata),
        Command::Label(arguments) => label::label(arguments, &metadata),
        Command::Key(command) => key::run(command, endpoints, &metadata),
        Command::Limit(command) => limit::run(command, &metadata),
        Command::Attach(arguments) => attach::attach(arguments, &metadata),
        Command::Detach(arguments) => attach::detach(arguments, &metadata),
        Command::Resize(arguments) => resize::run(arguments, endpoints, &metadata),
        Command::Move(arguments) => moves::run(arguments, &metadata),
        Command::Reservation(arguments) => reservation::run(arguments, &metadata),
        Command::Snapshot(command) => snapshot::run(command, &metadata),
        Command::Scrub(arguments) => scrub(arguments, &metadata),
        Command::Rename(arguments) => trash::rename(arguments, &metadata),
        Command::Protect(arguments) => trash::protect(arguments, &metadata),
        Command::Delete(arguments) => trash::delete(arguments, &metadata),
        Command::Undelete(arguments) => trash::undelete(arguments, &metadata),
        Command::Purge(arguments) => trash::purge(arguments, &metadata),
    }
}

fn scrub(arguments: &ScrubArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let state = || admin::scrub_state(&metadata.reader(), name).described();
    if !arguments.last {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = metadata
            .act(Action::VolumeScrub, name, |meta| admin::scrub_volume(meta, name, now))
            .described()?;
        if arguments.no_wait {
            say_line!("All copies of volume {} will be looked at.", arguments.name);
            return Ok(());
        }
        while state()?.finished < number {
            interrupt::sleep(LOOK).map_err(|failure| {
                let advice = format!(
                    "The look goes on without this command: `amita volume scrub {name} --last` says what it has found."
                );
                failure.advice(advice)
            })?;
        }
    }
    let state = state()?;
    print(arguments.json, &state, || {
        let name = &arguments.name;
        if state.finished == 0 {
            return format!("Nobody has looked at the copies of volume {name} yet.\n");
        }
        let report = &state.report;
        let mut text = match state.cancelled {
            true => "It was taken back before its end (`amita job cancel`). Until then:\n".to_owned(),
            false => String::new(),
        };
        text += &format!(
            "{} copies of chunks of volume {name} were looked at: {} damaged blocks, {} repaired, {} blocks that differ.\n",
            report.copies, report.damaged, report.repaired, report.differing
        );
        for unread in &state.unread {
            text += &format!(
                "The copies on store {} were not looked at, in {} groups: it is not in sync there. Look again when it is back \
                 (`amita status`).\n",
                unread.store, unread.groups
            );
        }
        if report.skipped > 0 {
            text += &format!(
                "{} copies could not be looked at; their stores did not answer well (see `amita status`).\n",
                report.skipped
            );
        }
        text
    })
}

/// What is known of a volume that is made now.
pub(crate) fn now() -> About {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    About {
        created_at: Some(since.as_secs()),
        ..About::of(VolumeId(0))
    }
}

/// One of a list, as JSON says it.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    status: &'a VolumeStatus,
    /// Null: it is not known.
    used_bytes: Option<u64>,
}

/// What volumes hold; of a pool whose stores do not tell, or not soon, nothing is known.
fn used(status: &Status, volumes: &[VolumeStatus], metadata: &Admin) -> Result<BTreeMap<VolumeId, u64>> {
    let mut used = BTreeMap::new();
    for pool in &status.pools {
        let own = volumes.iter().map(|found| &found.volume);
        let own: Vec<_> = own.filter(|volume| volume.pool == pool.pool.name).cloned().collect();
        if own.is_empty() {
            continue;
        }
        let counted = space::count(&metadata.reader(), status, &pool.pool, &own, LIST_PATIENCE).described()?;
        used.extend(
            counted
                .into_iter()
                .flatten()
                .map(|(volume, found)| (volume, found.used_bytes)),
        );
    }
    Ok(used)
}

fn list(labels: &[(String, String)], as_json: bool, metadata: &Admin) -> Result<()> {
    let status = metadata.status()?;
    let mut volumes = status.volumes.clone();
    volumes.retain(|found| {
        let has = |(key, value): &(String, String)| found.labels.get(key) == Some(value);
        labels.iter().all(has)
    });
    let used = used(&status, &volumes, metadata)?;
    let listed: Vec<Listed<'_>> = volumes
        .iter()
        .map(|found| Listed {
            status: found,
            used_bytes: used.get(&found.volume.id).copied(),
        })
        .collect();
    print(as_json, &listed, || {
        let mut table = Table::new(&[
            "volume",
            "id",
            "pool",
            "size",
            "used",
            "encrypted",
            "parent",
            "clones",
            "owner",
            "alive",
            "nbd",
            "labels",
        ]);
        for found in &volumes {
            let volume = &found.volume;
            let alive = match (&found.owner_name, found.owner_alive) {
                (None, _) => "",
                (Some(_), true) => "yes",
                (Some(_), false) => "NO",
            };
            table.row([
                volume.name.clone(),
                // Certificates name it by that, and a revert changes the other one.
                volume.host().to_string(),
                volume.pool.clone(),
                size::show(volume.size_bytes),
                used.get(&volume.id)
                    .map_or_else(|| "?".to_owned(), |used| size::show(*used)),
                match (found.encrypted, &found.locked) {
                    (false, _) => "",
                    (true, None) => "yes",
                    (true, Some(_)) => "LOCKED",
                }
                .to_owned(),
                found.parent.clone().unwrap_or_default(),
                match found.clones {
                    0 => String::new(),
                    clones => clones.to_string(),
                },
                found.owner_name.clone().unwrap_or_default(),
                alive.to_owned(),
                found.export.as_ref().map(for_whom).unwrap_or_default(),
                label::shown(&found.labels),
            ]);
        }
        table.text()
    })
}
