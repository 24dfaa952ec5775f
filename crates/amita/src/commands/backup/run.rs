//! `amita backup run`: what it is told, and what it says. The work is [`Task`]'s.

use super::base::Subject;
use super::by::By;
use super::sessions;
use super::target::{self, Target};
use super::task::{self, How, Shows, Task, VolumeSummary};
use crate::admin::Admin;
use crate::cli::Endpoints;
use crate::commands::volume::data::Access;
use amita_control::access::Action;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;
use amita_terminal::{interrupt, size};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The shortest and the longest time that is waited for snapshots, in seconds.
const TIMEOUT_S: std::ops::RangeInclusive<u64> = 1..=86_400;

/// `amita backup run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volumes: several are one point, of one moment
    #[arg(required = true, value_name = "VOLUME")]
    pub volumes: Vec<String>,
    #[command(flatten)]
    pub target: Target,
    /// Read all of the volumes, and count on no earlier point: for a repository of which something was lost. What is there is not sent again
    #[arg(long)]
    pub full: bool,
    /// Take a session for dead that still backs one of the volumes up, as far as the repository knows; if it is not, it makes no point
    #[arg(long, value_name = "SESSION")]
    pub fence: Vec<u64>,
    /// How long to wait for the snapshots, in seconds, up to a day
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(TIMEOUT_S))]
    pub timeout: u64,
    #[command(flatten)]
    pub access: Access,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Summary {
    vault: String,
    point: u64,
    session: u64,
    /// In seconds since 1970.
    taken_at: u64,
    volumes: Vec<VolumeSummary>,
    /// Pieces that were put, and their bytes before compression.
    pieces: u64,
    raw_bytes: u64,
    /// Pieces that were there already.
    found_pieces: u64,
    /// Bytes of packs that went to the repository.
    sent_bytes: u64,
    seconds: f64,
}

pub fn run(arguments: &Arguments, endpoints: &Endpoints) -> Result<()> {
    let start = Instant::now();
    let admin = Admin::connect(endpoints)?;
    let way = arguments.access.way_of_gateway(
        endpoints,
        &admin,
        "volumes are backed up",
        "what was changed is told to gateways alone",
    )?;
    for action in [Action::SnapshotCreate, Action::SnapshotDelete] {
        admin.permit(action)?;
    }
    let volumes = &arguments.volumes;
    if let Some(twice) = (1..volumes.len()).find(|at| volumes[..*at].contains(&volumes[*at])) {
        return Err(Failure::new(format!("volume {} is named twice", volumes[twice])).kind(Kind::Usage));
    }
    let by = By::Operator(&admin);
    let subjects: Vec<Subject> = volumes
        .iter()
        .map(|name| Subject::find(&by, name))
        .collect::<Result<_>>()?;
    let mut vault = arguments.target.open(endpoints.insecure_network())?;
    sessions::fence(&mut vault, &arguments.fence)?;
    if let Some(lost) = task::lost(&vault).filter(|_| !arguments.full) {
        log::warn!("{lost}");
    }
    interrupt::catch();
    let task = Task {
        by,
        way: &way,
        subjects: &subjects,
        is_full: arguments.full,
        patience: Duration::from_secs(arguments.timeout),
        session: "a backup",
        point: None,
        snapshot: None,
        shows: Shows::Terminal,
    };
    let made = task.back_up(&mut vault)?;
    for note in &made.notes {
        log::warn!("{note}");
    }
    task::lock(&mut vault, &arguments.target, Some(made.point))?;
    target::checkpoint(&mut vault);
    let summary = Summary {
        vault: vault.id().to_string(),
        point: made.point,
        session: made.session.0,
        taken_at: made.taken_at,
        volumes: made.volumes,
        pieces: made.sent.pieces,
        raw_bytes: made.sent.raw_bytes,
        found_pieces: made.sent.found,
        sent_bytes: made.sent.pack_bytes,
        seconds: start.elapsed().as_secs_f64(),
    };
    print(arguments.json, &summary, || text(&summary))
}

fn text(summary: &Summary) -> String {
    let mut text = String::new();
    for VolumeSummary {
        volume,
        size_bytes,
        read_bytes,
        how,
    } in &summary.volumes
    {
        let (read, whole) = (size::show(*read_bytes), size::show(*size_bytes));
        text.push_str(&match how {
            How::Whole => format!("Volume {volume}: all of {whole} was read.\n"),
            How::Changes { since } => {
                format!("Volume {volume}: {read} of {whole} changed since point {since}, and were read.\n")
            }
            How::Compared { with, why } => {
                format!("Volume {volume}: all of {whole} was read and compared with point {with}: {why}.\n")
            }
        });
    }
    text.push_str(&format!(
        "Point {} is made: {} in {} new pieces, of which {} went to the repository; {} pieces were there. {:.1} s.\n",
        summary.point,
        size::show(summary.raw_bytes),
        summary.pieces,
        size::show(summary.sent_bytes),
        summary.found_pieces,
        summary.seconds
    ));
    text
}
