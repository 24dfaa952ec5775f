//! `amita backup prune`.

use super::failure::{Described as _, carried};
use super::sessions;
use super::target::Target;
use crate::commands::policies::KeepArguments;
use amita_backup::{State, Vault, VolumePoint, prune};
use amita_control::admin::KeepChange;
use amita_control::backups::retention::{self, Point};
use amita_control::policy::schedule::Zone;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::table::print;
use amita_types::map::Keep;
use serde::Serialize;
use std::collections::BTreeSet;

/// `amita backup prune`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub target: Target,
    /// Which points are kept, for each of their volumes: with any of these, those are given up that no rule keeps for any of their volumes
    #[command(flatten)]
    pub keep: KeepArguments,
    /// In which time zone days begin, by its IANA name
    #[arg(long, value_name = "ZONE", default_value = amita_types::map::DEFAULT_ZONE)]
    pub zone: String,
    /// Give up this point; once for each
    #[arg(long, value_name = "POINT")]
    pub forget: Vec<u64>,
    /// Take a session for dead, for which removing waits; if it is not, it makes no point and begins anew
    #[arg(long, value_name = "SESSION")]
    pub fence: Vec<u64>,
    /// Say which points would be given up, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Summary {
    vault: String,
    /// Points that were given up.
    forgotten: Vec<u64>,
    dry_run: bool,
    /// Packs of which little was needed: that was put anew.
    rewritten_packs: usize,
    /// Packs that are no part of the vault any more, and objects that were deleted, with those that dead sessions had put.
    swept_packs: usize,
    deleted_packs: usize,
    /// Objects that are locked still.
    locked_packs: usize,
    /// The sessions that removing waits for.
    waiting: Vec<String>,
}

/// What was pruned.
pub struct Pruned {
    pub rewritten: usize,
    pub swept: usize,
    pub deleted: usize,
    pub locked: usize,
    /// The sessions that removing waits for, for people.
    pub waiting: Vec<String>,
}

/// What the session of the command is called.
const SESSION: &str = "a pruning";

/// Removes what no point needs. Backups may run meanwhile. `session`: what its session is called, by which packs are written anew.
///
/// # Errors
/// The repository is away, refuses, or is damaged: then nothing is removed that may be needed. Or it was to end: it may be done again.
pub fn prune_vault(vault: &mut Vault, session: &str) -> Result<Pruned> {
    let pruned = prune::run_as(vault, session, &interrupt::caught).described()?;
    Ok(Pruned {
        rewritten: pruned.rewritten,
        swept: pruned.swept.swept,
        deleted: pruned.collected.deleted + pruned.collected.orphans,
        locked: pruned.collected.locked.len(),
        waiting: waiting(vault.state(), &pruned.waiting),
    })
}

/// By which rules of retention know a volume: the numbers of its cluster and of itself.
pub type Numbers = ([u8; 16], [u8; 16]);

/// The vault's points, as rules of retention see them.
pub fn points(state: &State) -> impl Iterator<Item = (&str, Point<Numbers>)> {
    let known = |volume: &VolumePoint| (volume.identity.cluster, volume.identity.volume);
    state.points().iter().map(move |(number, point)| {
        let seen = Point {
            number: *number,
            taken_at: u64::try_from(point.time).unwrap_or(0),
            volumes: point.volumes.iter().map(known).collect(),
        };
        (point.name.as_str(), seen)
    })
}

/// The points that the rules of the command do not keep.
fn given_up(arguments: &Arguments, state: &State) -> Result<Vec<u64>> {
    let change = arguments.keep.change();
    if change == KeepChange::default() {
        return Ok(Vec::new());
    }
    let usage = |why: String| Failure::new(why).kind(Kind::Usage);
    let keep = change.of(Keep::default());
    keep.check().map_err(usage)?;
    let zone = Zone::named(&arguments.zone).map_err(usage)?;
    let points: Vec<_> = points(state).map(|(_, point)| point).collect();
    Ok(retention::older(&keep, &zone, &points))
}

/// Gives them up, as long as the rules keep none of them among the points that there are then: another pruning may have given up those that were to
/// stay. Those that were named go whatever the rules say.
fn give_up(arguments: &Arguments, vault: &mut Vault, points: &[u64]) -> Result<()> {
    let is_right = |state: &State| {
        let now = given_up(arguments, state)?;
        let stays = |point: &&u64| !arguments.forget.contains(point) && !now.contains(point);
        match points.iter().find(stays) {
            None => Ok(()),
            Some(point) => Err(Failure::new(format!(
                "nothing is given up: as the repository's points are by now, point {point} stays, or is gone"
            ))
            .kind(Kind::Conflict)
            .advice("Somebody else has given up or made points meanwhile. Do it again: what is to go is chosen anew.")),
        }
    };
    let guard = |state: &State| is_right(state).map_err(|why| amita_backup::Error::Unwanted(carried(why)));
    vault.forget_if(points, &guard).described()
}

/// What is to be given up: by the rules, and by name.
fn chosen(arguments: &Arguments, state: &State) -> Result<Vec<u64>> {
    let mut chosen: BTreeSet<u64> = given_up(arguments, state)?.into_iter().collect();
    chosen.extend(&arguments.forget);
    Ok(chosen.into_iter().collect())
}

pub fn run(arguments: &Arguments, plain: bool) -> Result<()> {
    let mut vault = arguments.target.open(plain)?;
    let forgotten = chosen(arguments, vault.state())?;
    let mut summary = Summary {
        vault: vault.id().to_string(),
        dry_run: arguments.dry_run,
        rewritten_packs: 0,
        swept_packs: 0,
        deleted_packs: 0,
        locked_packs: 0,
        waiting: Vec::new(),
        forgotten,
    };
    if !arguments.dry_run {
        sessions::fence(&mut vault, &arguments.fence)?;
        interrupt::catch();
        if !summary.forgotten.is_empty() {
            give_up(arguments, &mut vault, &summary.forgotten)?;
        }
        let pruned = prune_vault(&mut vault, SESSION)?;
        summary.rewritten_packs = pruned.rewritten;
        summary.swept_packs = pruned.swept;
        summary.deleted_packs = pruned.deleted;
        summary.locked_packs = pruned.locked;
        summary.waiting = pruned.waiting;
    }
    print(arguments.json, &summary, || text(&summary))
}

fn waiting(state: &State, sessions: &[amita_backup::SessionId]) -> Vec<String> {
    let shown = |id| match state.sessions().get(id) {
        Some(open) => sessions::shown(*id, open),
        None => format!("session {id}"),
    };
    sessions.iter().map(shown).collect()
}

fn text(summary: &Summary) -> String {
    let points: Vec<String> = summary.forgotten.iter().map(ToString::to_string).collect();
    let points = match (points.is_empty(), summary.dry_run) {
        (true, _) => "No point is given up.\n".to_owned(),
        (false, true) => format!("Points that would be given up: {}.\n", points.join(", ")),
        (false, false) => format!("Points that are given up: {}.\n", points.join(", ")),
    };
    if summary.dry_run {
        return points;
    }
    let mut text = format!(
        "{points}{} packs that nothing needs are removed, {} objects deleted; {} packs of which little was needed were put anew.\n",
        summary.swept_packs, summary.deleted_packs, summary.rewritten_packs
    );
    if summary.locked_packs > 0 {
        text.push_str(&format!(
            "{} objects are locked still, and are deleted later.\n",
            summary.locked_packs
        ));
    }
    if !summary.waiting.is_empty() {
        text.push_str(&format!(
            "What else nothing needs is removed by the next pruning, when these are over: {}. One whose process is dead for certain: --fence.\n",
            summary.waiting.join(", ")
        ));
    }
    text
}

#[cfg(test)]
mod tests;
