//! `amita volume revert`: the volume is made what a snapshot of it is, by one transaction ([`admin::revert_volume`]).
//!
//! The command owns the volume, so that nobody else has it, takes a snapshot of what it is, by which all its stores adopt the
//! ownership, and lets go of it. Where anybody has it before the transaction, that fails, and nothing is changed.

mod by_api;

pub(super) use by_api::run as run_by_api;

use super::data::{Access, Way, is_alone, not_alone};
use super::snapshot;
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::logging::timestamp;
use amita_control::access::{Action, Session};
use amita_control::admin::{self, AdminError, DataKeys, FLATTENED_FROM};
use amita_metadata::Transact;
use amita_node::volume_keys::KeyFile;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;
use amita_terminal::{interrupt, size};
use amita_types::map::{Snapshot, Volume};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The label of the snapshot that is taken before: the name of the one that the volume is made again.
const LABEL: &str = "amita:revert";
/// For how long that snapshot is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// `amita volume revert`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume, and the snapshot that it is to be again
    #[arg(value_name = "VOLUME@SNAPSHOT", value_parser = parse)]
    pub snapshot: (String, String),
    /// Say whether it can be, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Keep no snapshot of what the volume is now: what was written since is lost
    #[arg(long)]
    pub no_snapshot: bool,
    #[command(flatten)]
    pub access: Access,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

fn parse(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('@') {
        Some((volume, snapshot)) if !volume.is_empty() && !snapshot.is_empty() && !snapshot.contains('@') => {
            Ok((volume.to_owned(), snapshot.to_owned()))
        }
        _ => Err(
            "name the snapshot as VOLUME@SNAPSHOT; neither name has an @ (`amita volume snapshot list VOLUME`)"
                .to_owned(),
        ),
    }
}

/// What is to be reverted, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub volume: &'a str,
    pub snapshot: &'a str,
    /// A snapshot of what it is now stays.
    pub keep: bool,
    pub dry_run: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    volume: String,
    /// Its number: another one afterwards.
    pub id: u64,
    /// The number by which hosts know it, which stays.
    pub stable_id: u64,
    snapshot: String,
    /// The snapshot of what the volume was before; null: none is kept.
    pub kept: Option<String>,
    pub size_bytes: u64,
    pub snapshot_size_bytes: u64,
    /// So many levels of clones and reverts it comes from.
    pub levels: usize,
    /// They are many: it is flattened in the background.
    pub flattening: bool,
    dry_run: bool,
    seconds: f64,
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, admin: &Admin) -> Result<()> {
    if !arguments.dry_run {
        admin.permit(Action::VolumeRevert)?;
    }
    let way =
        arguments
            .access
            .way_of_gateway(endpoints, admin, "a volume is reverted", "it owns the volume meanwhile")?;
    let (volume, snapshot) = &arguments.snapshot;
    let wish = Wish {
        volume,
        snapshot,
        keep: !arguments.no_snapshot,
        dry_run: arguments.dry_run,
    };
    let target = target(&wish, &admin.reader())?;
    interrupt::catch();
    let keys = arguments.access.keys.given(endpoints);
    let summary = revert(&wish, target, (&way, keys.as_ref()), admin.session())?;
    print(arguments.json, &summary, || text(&summary))
}

/// Makes the volume what the snapshot is, as the two were found.
pub(super) fn revert<M: Transact>(
    wish: &Wish<'_>,
    (before, to): (Volume, Snapshot),
    (way, keys): (&Way, Option<&KeyFile>),
    session: &Session<M>,
) -> Result<Summary> {
    let start = Instant::now();
    let mut summary = Summary {
        volume: before.name.clone(),
        id: before.id.0,
        stable_id: before.host().0,
        snapshot: to.name.clone(),
        kept: None,
        size_bytes: before.size_bytes,
        snapshot_size_bytes: to.size_bytes,
        levels: before.parents.len(),
        flattening: false,
        dry_run: wish.dry_run,
        seconds: 0.0,
    };
    if !wish.dry_run {
        let data = way.open(&before.name)?;
        let reverting = Reverting {
            session,
            to: &to,
            keep: wish.keep,
            keys: keys.map(|file| file as &dyn DataKeys),
        };
        let owned = reverting.own(&before, &data);
        // Whoever opens it from now on raises its generation, and is seen.
        data.close();
        let (owned, taken) = owned?;
        let now = reverting.switch(&owned, &taken)?;
        // Where somebody has cloned it meanwhile, or uses it, it stays all the same.
        let is_kept = reverting.keep || admin::snapshot(&session.reader(), &now.name, &taken.name).is_ok();
        summary.kept = is_kept.then_some(taken.name);
        summary.id = now.id.0;
        summary.levels = now.parents.len();
        summary.flattening = now.parents.len() >= FLATTENED_FROM;
    }
    summary.seconds = start.elapsed().as_secs_f64();
    Ok(summary)
}

fn text(summary: &Summary) -> String {
    let Summary { volume, snapshot, .. } = summary;
    if summary.dry_run {
        return format!("Nothing is changed. Volume {volume} can be made what it was at {snapshot}.\n");
    }
    let mut text = format!(
        "Volume {volume} is what it was at {snapshot}; it took {:.1} s, and no data was copied.\n",
        summary.seconds
    );
    if summary.size_bytes > summary.snapshot_size_bytes {
        text += &format!(
            "It had {} then, and keeps its {}: what is behind is zeros.\n",
            size::show(summary.snapshot_size_bytes),
            size::show(summary.size_bytes)
        );
    }
    if let Some(kept) = &summary.kept {
        text += &format!("What it was before is in {volume}@{kept}.\n");
    }
    if summary.flattening {
        text += &format!(
            "It comes from {} levels of clones and reverts, and is flattened in the background (`amita volume show {volume}`).\n",
            summary.levels
        );
    }
    text
}

/// The volume and the snapshot as the metadata has them, if the one may become the other.
pub(super) fn target(wish: &Wish<'_>, meta: &dyn Transact) -> Result<(Volume, Snapshot)> {
    let name = wish.volume;
    let volume = match admin::volume(meta, name) {
        Err(why @ AdminError::NoSuch { .. }) => {
            let mut deleted = admin::trash(meta).described()?.into_iter();
            return match deleted.any(|found| found.trashed.name == name && !found.trashed.former) {
                false => Err(why).described(),
                true => Err(
                    Failure::new(format!("volume {name} is deleted, and in the recycle bin"))
                        .kind(Kind::Conflict)
                        .advice(format!(
                            "`amita volume undelete {name}` has it back, with its snapshots."
                        )),
                ),
            };
        }
        found => found.described()?,
    };
    let to = admin::snapshot(meta, name, wish.snapshot).described()?;
    admin::may_revert(meta, &volume, &to, None).described()?;
    may_snapshot(wish, meta, &volume)?;
    let about = admin::about(meta, volume.id).described()?;
    if about.protected && !wish.keep && !wish.dry_run {
        return Err(Failure::new(format!(
            "volume {name} is protected, and without a snapshot before what was written since would be lost"
        ))
        .kind(Kind::Conflict)
        .advice(format!(
            "Leave --no-snapshot out, or `amita volume protect {name} --off` first."
        )));
    }
    Ok((volume, to))
}

/// A snapshot of what the volume is will be taken, also where it does not stay.
fn may_snapshot(wish: &Wish<'_>, meta: &dyn Transact, volume: &Volume) -> Result<()> {
    admin::may_take_snapshot(meta, volume).described().map_err(|failure| {
        let advice = match wish.keep {
            false => "A revert needs room for one snapshot for a moment, also with --no-snapshot.",
            true => "A revert takes a snapshot of what the volume is.",
        };
        let advice = format!("{} {advice} Nothing is changed.", failure.advice);
        failure.advice(advice.trim_start().to_owned())
    })
}

struct Reverting<'a, M> {
    session: &'a Session<M>,
    to: &'a Snapshot,
    keep: bool,
    /// What makes the key of an encrypted one for what is written from then on.
    keys: Option<&'a dyn DataKeys>,
}

impl<M: Transact> Reverting<'_, M> {
    /// The volume as it is owned here, by nobody else since it was read, and what was taken of it.
    fn own(&self, before: &Volume, data: &super::data::Data) -> Result<(Volume, Snapshot)> {
        let now = admin::volume(&self.session.reader(), &before.name).described()?;
        if !is_alone(data, before, &now) {
            return Err(not_alone(&before.name, "is reverted"));
        }
        interrupt::check()?;
        let taken = self.take(&now)?;
        Ok((now, taken))
    }

    fn object(&self, volume: &Volume) -> String {
        format!("{}@{}", volume.name, self.to.name)
    }

    /// Takes a snapshot of the volume as it is. All its stores adopt its generation by that, so it is taken where none is to be kept, too.
    fn take(&self, volume: &Volume) -> Result<Snapshot> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("before-revert-{}", timestamp(now.as_secs(), now.subsec_millis()));
        let labels = BTreeMap::from([(LABEL.to_owned(), self.to.name.clone())]);
        let state = self.session.act(Action::VolumeRevert, &self.object(volume), |meta| {
            let wish = admin::ask_own_snapshot(meta, &volume.name, &name, labels, now)?;
            snapshot::await_taken(meta, &wish, Instant::now() + PATIENCE)
        });
        let taken = state
            .described()
            .and_then(|state| snapshot::taken(&format!("{}@{name}", volume.name), state, PATIENCE));
        taken.map_err(|failure| {
            let advice = format!("{} Nothing is changed.", failure.advice);
            failure.advice(advice.trim_start().to_owned())
        })
    }

    fn switch(&self, volume: &Volume, before: &Snapshot) -> Result<Volume> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let reverted = self.session.act(Action::VolumeRevert, &self.object(volume), |meta| {
            let revert = admin::Revert {
                volume,
                to: self.to,
                before,
                keep: self.keep,
                now,
                keys: self.keys,
                mirror: None,
            };
            admin::revert_volume(meta, &revert)
        });
        reverted.described().map_err(|failure| {
            let (name, kept) = (&volume.name, &before.name);
            let advice = format!(
                "{} Snapshot {name}@{kept} was taken, and stays (`amita volume snapshot delete {name} {kept}`).",
                failure.advice
            );
            failure.advice(advice.trim_start().to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_named_with_its_volume() {
        let named = ("db".to_owned(), "a:1".to_owned());
        assert_eq!(parse("db@a:1"), Ok(named));
        for bad in ["db", "@s", "db@", "", "db@a@b", "@", "db@@a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
