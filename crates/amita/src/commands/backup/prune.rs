//! `amita backup prune`.

use super::failure::Described as _;
use super::sessions;
use super::target::Target;
use amita_backup::{State, VolumePoint, prune};
use amita_terminal::error::Result;
use amita_terminal::table::print;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// `amita backup prune`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub target: Target,
    /// Give up the points that are not among the newest so many of any of their volumes
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_last: Option<u32>,
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

/// The points that are not among the newest so many of any of their volumes. They come with what their volumes are, the newest first.
fn older<V: Ord>(points: impl Iterator<Item = (u64, Vec<V>)>, keep: u32) -> BTreeSet<u64> {
    let mut seen: BTreeMap<V, u32> = BTreeMap::new();
    let mut older = BTreeSet::new();
    for (number, volumes) in points {
        let mut is_kept = false;
        for volume in volumes {
            let seen = seen.entry(volume).or_default();
            *seen = seen.saturating_add(1);
            is_kept |= *seen <= keep;
        }
        if !is_kept {
            older.insert(number);
        }
    }
    older
}

pub fn run(arguments: &Arguments, plain: bool) -> Result<()> {
    let mut vault = arguments.target.open(plain)?;
    let points = vault.state().points().iter().rev();
    let known = |volume: &VolumePoint| (volume.identity.cluster, volume.identity.volume);
    let points = points.map(|(number, point)| (*number, point.volumes.iter().map(known).collect()));
    let mut forgotten: BTreeSet<u64> = arguments.keep_last.map(|keep| older(points, keep)).unwrap_or_default();
    forgotten.extend(&arguments.forget);
    let forgotten: Vec<u64> = forgotten.into_iter().collect();
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
        if !summary.forgotten.is_empty() {
            vault.forget(&summary.forgotten).described()?;
        }
        let pruned = prune::run(&mut vault).described()?;
        summary.rewritten_packs = pruned.rewritten;
        summary.swept_packs = pruned.swept.swept;
        summary.deleted_packs = pruned.collected.deleted + pruned.collected.orphans;
        summary.locked_packs = pruned.collected.locked.len();
        summary.waiting = waiting(vault.state(), &pruned.waiting);
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
mod tests {
    use super::*;

    #[test]
    fn a_point_stays_for_any_of_its_volumes() {
        let points = || {
            let points = [(9, "a"), (7, "ab"), (6, "b"), (4, "ac"), (2, "b")];
            points
                .into_iter()
                .map(|(number, volumes)| (number, volumes.chars().collect()))
        };
        // 7 is the newest of b, 4 of c.
        assert_eq!(older(points(), 1), BTreeSet::from([2, 6]));
        assert_eq!(older(points(), 2), BTreeSet::from([2]));
        assert!(older(points(), 3).is_empty());
    }
}
