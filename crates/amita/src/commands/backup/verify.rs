//! `amita backup verify`.

use super::failure::Described as _;
use super::target::Target;
use amita_backup::verify::{Report, Scope, verify};
use amita_backup::{Error, PackName, Vault};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;
use amita_terminal::{interrupt, size};
use serde::Serialize;
use std::time::{SystemTime, UNIX_EPOCH};

/// `amita backup verify`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub target: Target,
    /// Read everything: all packs, and the journal from its first entry on
    #[arg(long, conflicts_with = "sample")]
    pub whole: bool,
    /// Read so many percent of the packs, others each time
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub sample: u32,
    /// Say in the repository that what is damaged is lost: then copies elsewhere are read first, and later backups put it again if it comes by
    /// (`amita backup run --full` has all of a volume come by)
    #[arg(long)]
    pub give_up: bool,
    /// Say what was found as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Summary {
    vault: String,
    /// Packs that were read whole, and their bytes.
    packs: usize,
    bytes: u64,
    points: usize,
    damage: Vec<String>,
    points_lost: Vec<PointLost>,
    /// Packs that were given up.
    given_up: usize,
}

#[derive(Serialize)]
struct PointLost {
    point: u64,
    why: String,
}

pub fn run(arguments: &Arguments, plain: bool) -> Result<()> {
    let scope = match arguments.whole {
        true => Scope::Whole,
        false => Scope::Sampled {
            per_mille: arguments.sample * 10,
            seed: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
        },
    };
    let mut vault = arguments.target.open(plain)?;
    interrupt::catch();
    let report = checked(&mut vault, scope)?;
    let packs: Vec<PackName> = report.packs_lost.iter().copied().collect();
    let given_up = match arguments.give_up && !packs.is_empty() {
        true => {
            vault.give_up(&packs).described()?;
            packs.len()
        }
        false => 0,
    };
    let lost = report.points_lost.iter();
    let summary = Summary {
        vault: vault.id().to_string(),
        packs: report.packs,
        bytes: report.bytes,
        points: report.points,
        damage: report.damage.iter().map(ToString::to_string).collect(),
        points_lost: lost
            .map(|(point, why)| PointLost {
                point: *point,
                why: why.to_string(),
            })
            .collect(),
        given_up,
    };
    print(arguments.json, &summary, || text(&summary))?;
    match report.is_clean() {
        true => Ok(()),
        false => Err(Failure::said(Kind::Failed)),
    }
}

/// Checks a vault, under a session, so that nothing is pruned meanwhile. Where nothing can be written, it is done without one.
fn checked(vault: &mut Vault, scope: Scope) -> Result<Report> {
    match vault.begin("a check") {
        Ok(session) => {
            let report = verify(session.vault(), scope);
            // Of what was swept meanwhile nothing is to be said, nor given up.
            let ended = session.end_held();
            let report = report.described()?;
            ended.described()?;
            Ok(report)
        }
        Err(why @ Error::Store { .. }) => {
            log::warn!("{why}; so what is checked is not kept from being pruned meanwhile");
            verify(vault, scope).described()
        }
        Err(why) => Err(why).described(),
    }
}

fn text(summary: &Summary) -> String {
    let read = format!(
        "{} packs were read, {}, and the trees of {} points",
        summary.packs,
        size::show(summary.bytes),
        summary.points
    );
    if summary.damage.is_empty() && summary.points_lost.is_empty() {
        return format!("{read}: all is whole.\n");
    }
    let mut text = format!("{read}. Damaged or missing:\n");
    for damage in &summary.damage {
        text.push_str(&format!("  {damage}\n"));
    }
    match summary.points_lost.is_empty() {
        true => text.push_str("Every point is whole all the same.\n"),
        false => text.push_str("Points that are not whole:\n"),
    }
    for PointLost { point, why } in &summary.points_lost {
        text.push_str(&format!("  {point}: {why}\n"));
    }
    text.push_str(match summary.given_up {
        0 => "With --give-up later backups put again what is lost, if it comes by.\n",
        _ => "It is given up: `amita backup run --full` puts again what the volumes still have of it.\n",
    });
    text
}
