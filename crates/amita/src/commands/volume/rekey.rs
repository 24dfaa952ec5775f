//! `amita volume rekey`: all of a volume, its snapshots included, is written anew in its pool while it is in use: by a new data key, encrypted where it was
//! not, or in the clear. It is a move within the pool (decisions 078 and 080): until its end the pool holds both.

use super::key::FileArgument;
use super::label::counted;
use super::migrate::{Asked, AtRestArguments};
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::space;
use amita_control::admin::{self, AtRest, DataKeys, MigrateWish};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;
use amita_terminal::{output, size};
use amita_types::StoreId;
use amita_types::condition::StoreSpace;
use amita_types::map::{PoolKind, Volume};
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// `amita volume rekey`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume's name
    #[arg(value_name = "VOLUME")]
    pub name: String,
    #[command(flatten)]
    pub at_rest: AtRestArguments,
    /// Read at most so many bytes a second: with K, M, G
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub limit_rate: Option<u64>,
    #[command(flatten)]
    pub keys: FileArgument,
    /// Only say what it needs, and which other volumes keep the data key of before
    #[arg(long, conflicts_with_all = ["force", "no_wait"])]
    pub dry_run: bool,
    /// Also where the pool has not the room that it needs
    #[arg(long)]
    pub force: bool,
    /// Do not wait for the end
    #[arg(long)]
    pub no_wait: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// What a second copy of the volume takes on the pool's stores until the end, all copies of its blocks together.
#[derive(Debug, Serialize)]
struct Need {
    /// None: it is not known.
    needed_bytes: Option<u64>,
    /// The pool's stores have so much before they count as full; none: not all of them say how full they are.
    room_bytes: Option<u64>,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

impl Need {
    fn fits(&self) -> bool {
        let both = self.needed_bytes.zip(self.room_bytes);
        both.is_none_or(|(needed, room)| needed <= room)
    }

    fn text(&self) -> String {
        let takes = match self.needed_bytes {
            Some(needed) => format!(
                "Until its end it takes {} more on the pool's stores",
                size::show(needed)
            ),
            None => format!(
                "How much it takes until its end is not known ({})",
                self.unknown.as_deref().unwrap_or("nobody says")
            ),
        };
        match self.room_bytes {
            Some(room) => format!("{takes}; these have {} before they count as full.", size::show(room)),
            None => format!("{takes}; how full these are is not known, for not all of them say it."),
        }
    }
}

/// As JSON says it.
#[derive(Serialize)]
struct Shown<'a> {
    volume: &'a str,
    /// What it is at the end.
    encrypted: bool,
    /// None: it was not begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// It is written anew; else it is on its way, or was not begun.
    rekeyed: bool,
    #[serde(flatten)]
    need: Need,
    /// Other volumes that are read by a data key of before: it stays as long as one of them is.
    former_keys_read_by: Vec<String>,
    /// Clones of its snapshots: what it was, in the clear where it was so, stays as long as one of them needs it.
    former_data_read_by: Vec<String>,
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let keys = arguments.at_rest.keys(&arguments.keys, endpoints)?;
    let wish = MigrateWish {
        volume: name,
        pool: None,
        at_rest: arguments.at_rest.wished(),
        limit_bytes_per_s: arguments.limit_rate,
        keys: keys.as_ref().map(|file| file as &dyn DataKeys),
        now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    };
    let before = admin::may_migrate(&metadata.reader(), &wish).described()?;
    let need = need(metadata, &before)?;
    let encrypted = wish.at_rest != AtRest::Plain;
    if !(need.fits() || arguments.dry_run || arguments.force) {
        return Err(no_room(&before, &need));
    }
    if !(arguments.json || arguments.no_wait || arguments.dry_run) {
        output::beside(&need.text());
    }
    let (job, rekeyed) = match arguments.dry_run {
        true => (None, false),
        false => {
            let asked = Asked {
                wish,
                bar: (!arguments.json).then_some("writing anew"),
                no_wait: arguments.no_wait,
                taken_back: "writing anew volume",
                goes_on: ["written anew", "as it is"],
            };
            let (job, rekeyed) = asked.carry_out(metadata)?;
            (Some(job), rekeyed)
        }
    };
    let shown = Shown {
        volume: name,
        encrypted,
        job,
        rekeyed,
        need,
        former_keys_read_by: others(metadata, &before)?,
        former_data_read_by: admin::volumes_from(&metadata.reader(), &before).described()?,
    };
    print(arguments.json, &shown, || text(&shown, &before))
}

fn no_room(volume: &Volume, need: &Need) -> Failure {
    let what = format!(
        "pool {} has not the room to write volume {} anew. {}",
        volume.pool,
        volume.name,
        need.text()
    );
    Failure::new(what).kind(Kind::Conflict).advice(
        "Give it more, or delete what is not needed. With `--force` it is begun all the same: where nothing is left, writes of all volumes of the \
         pool fail.",
    )
}

/// Those that are read by what it is read by.
fn others(metadata: &Admin, before: &Volume) -> Result<Vec<String>> {
    let Some(ring) = &before.keys else {
        return Ok(Vec::new());
    };
    let mut readers = admin::volumes_read_by(&metadata.reader(), ring).described()?;
    readers.retain(|reader| *reader != before.name);
    Ok(readers)
}

fn need(metadata: &Admin, volume: &Volume) -> Result<Need> {
    let status = metadata.status()?;
    let full = u64::from(admin::thresholds(&metadata.reader()).described()?.full_percent);
    let pool = status.pools.iter().find(|found| found.pool.name == volume.pool);
    let space_of = |id: &StoreId| status.stores.iter().find(|found| found.store.id == *id)?.space;
    let room = |space: StoreSpace| (space.capacity_bytes / 100 * full).saturating_sub(space.used_bytes());
    let room_bytes = pool.and_then(|pool| pool.stores.iter().map(|id| space_of(id).map(room)).sum());
    let copies = match pool.map(|pool| &pool.pool.kind) {
        Some(PoolKind::Replicated { copies, .. }) => u64::from(*copies),
        // It is one at least.
        _ => 1,
    };
    let (held, unknown) = match counted(metadata, &status, volume)? {
        Err(why) => (None, Some(why)),
        Ok(found) => match space::of_chain(&found, volume) {
            Some(space) => (Some(space.held_bytes), None),
            None => (None, Some(space::OF_RECORDS.to_owned())),
        },
    };
    Ok(Need {
        needed_bytes: held.map(|held| held.saturating_mul(copies)),
        room_bytes,
        unknown,
    })
}

fn text(shown: &Shown<'_>, before: &Volume) -> String {
    let name = shown.volume;
    let how = match (shown.encrypted, &before.keys) {
        (false, _) => "in the clear",
        (true, Some(_)) => "by a new data key",
        (true, None) => "encrypted",
    };
    let mut lines = vec![match (&shown.job, shown.rekeyed) {
        (None, _) => format!("Volume {name} would be written anew, {how}. {}", shown.need.text()),
        (Some(job), false) => format!(
            "Volume {name} is being written anew, {how}; `amita job show {job}` says how far it is. {}",
            shown.need.text()
        ),
        (Some(_), true) => format!("Volume {name} is written anew, {how}, with all its snapshots."),
    }];
    match &before.keys {
        None if !shown.former_data_read_by.is_empty() => lines.push(format!(
            "What it was STAYS IN THE CLEAR: these volumes come from its snapshots, and need it. Write them anew as well, or delete them: {}.",
            shown.former_data_read_by.join(", ")
        )),
        None => lines.push(
            "What it was in the clear goes as deleted data does: it may lie on disks until that space is written again.".to_owned(),
        ),
        Some(_) if shown.former_keys_read_by.is_empty() => {
            lines.push("The data key of before is erased, with what was written by it, some seconds after the end.".to_owned());
        }
        Some(_) => lines.push(format!(
            "The data key of before stays: these volumes are read by it, and flattening them changes nothing about that. Write them anew, or delete \
             them: {}.",
            shown.former_keys_read_by.join(", ")
        )),
    }
    if shown.encrypted && before.keys.is_none() {
        lines.push(super::SECRET_LINKS.to_owned());
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests;
