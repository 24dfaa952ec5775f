//! `amita backup list` and `show`, what nodes answer of points, and how a point is named.

use super::failure::Described as _;
use super::sessions;
use super::target::Target;
use crate::logging::timestamp;
use amita_api::{BackupPointFound, BackupPointVolumeFound};
use amita_backup::{Point, State, Vault, VolumePoint};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::BackupRepository;
use serde::Serialize;

/// The code of what another node can answer.
pub const ANOTHER_NODE: &str = "another-node";

/// `amita backup list`.
#[derive(Debug, clap::Args)]
pub struct ListArguments {
    #[command(flatten)]
    pub target: Target,
    /// Only points that have a volume of this name
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita backup show`.
#[derive(Debug, clap::Args)]
pub struct ShowArguments {
    /// The point: its number, or `latest`
    #[arg(value_name = "POINT", value_parser = parse)]
    pub point: Which,
    #[command(flatten)]
    pub target: Target,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Which point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Number(u64),
    Latest,
}

/// Reads a point as it is named.
///
/// # Errors
/// Says how points are named.
pub fn parse(text: &str) -> std::result::Result<Which, String> {
    match text {
        "latest" => Ok(Which::Latest),
        number => number
            .parse()
            .map(Which::Number)
            .map_err(|_| "a point is named by its number (`amita backup list`), or is the `latest` one".to_owned()),
    }
}

impl Which {
    /// The point, and its number. The latest one is that which has a volume of this name, if one is given.
    ///
    /// # Errors
    /// There is none.
    pub fn find<'a>(self, state: &'a State, volume: Option<&str>) -> Result<(u64, &'a Point)> {
        let none = |what: String| {
            Failure::new(what)
                .kind(Kind::NotFound)
                .advice("`amita backup list` shows what there is.")
        };
        match self {
            Which::Number(number) => {
                let found = state.points().get(&number).map(|point| (number, point));
                found.ok_or_else(|| none(format!("there is no point {number}")))
            }
            Which::Latest => {
                let mut points = state.points().iter().rev();
                let found = points.find(|(_, point)| volume.is_none_or(|name| place(point, name).is_some()));
                found.map(|(number, point)| (*number, point)).ok_or_else(|| {
                    none(match volume {
                        Some(name) => format!("there is no point that has a volume {name}"),
                        None => "there is no point".to_owned(),
                    })
                })
            }
        }
    }
}

/// Which of a point's volumes has this name.
pub fn place(point: &Point, name: &str) -> Option<usize> {
    point.volumes.iter().position(|volume| volume.identity.name == name)
}

/// When a point was, for people.
pub fn taken(point: &Point) -> String {
    timestamp(u64::try_from(point.time).unwrap_or(0), 0)
}

#[derive(Serialize)]
struct Listed<'a> {
    point: u64,
    name: &'a str,
    /// In seconds since 1970.
    taken_at: i64,
    volumes: Vec<ListedVolume<'a>>,
}

#[derive(Serialize)]
struct ListedVolume<'a> {
    volume: &'a str,
    /// The cluster's UUID, and the volume's, by which they are known whatever they are called.
    cluster: String,
    uuid: String,
    size_bytes: u64,
    /// It was encrypted at rest, and is where it is restored.
    encrypted: bool,
    /// The point that its changes were counted from; nothing is read from it.
    parent: Option<u64>,
}

fn listed(number: u64, point: &Point) -> Listed<'_> {
    let volume = |found: &'_ VolumePoint| (found.identity.cluster, found.identity.volume);
    let uuid = |bytes: [u8; 16]| uuid::Uuid::from_bytes(bytes).to_string();
    Listed {
        point: number,
        name: &point.name,
        taken_at: point.time,
        volumes: point
            .volumes
            .iter()
            .map(|found| ListedVolume {
                volume: &found.identity.name,
                cluster: uuid(volume(found).0),
                uuid: uuid(volume(found).1),
                size_bytes: found.bytes,
                encrypted: found.encrypted,
                parent: found.parent,
            })
            .collect(),
    }
}

/// The points of a repository that the cluster knows, as this node finds them: those that have a volume of this name, where one is given.
///
/// # Errors
/// The node may not work with it, or has not its key file; it is away, or damaged.
pub fn known(
    repository: &BackupRepository,
    node: &str,
    plain: bool,
    volume: Option<&str>,
) -> Result<Vec<BackupPointFound>> {
    let has_key = || std::fs::metadata(&repository.key_file).is_ok();
    if !repository.is_for(node) || !has_key() {
        let which = match repository.nodes.is_empty() {
            true => format!("one that has {}", repository.key_file),
            false => format!("one of {}, with {}", repository.nodes.join(", "), repository.key_file),
        };
        let what = format!("backup repository {} is not opened by node {node}", repository.name);
        return Err(Failure::new(what)
            .kind(Kind::Conflict)
            .code(ANOTHER_NODE)
            .advice(format!("Ask another node: {which}.")));
    }
    let vault = Target::of(repository)?.open(plain)?;
    let points = vault.state().points().iter();
    let points = points.filter(|(_, point)| volume.is_none_or(|name| place(point, name).is_some()));
    let shown = points.map(|(number, point)| {
        let listed = listed(*number, point);
        let volumes = listed.volumes.into_iter().map(|found| BackupPointVolumeFound {
            name: found.volume.to_owned(),
            cluster: found.cluster,
            uuid: found.uuid,
            size_bytes: found.size_bytes,
            encrypted: found.encrypted,
            parent: found.parent,
        });
        BackupPointFound {
            number: *number,
            name: listed.name.to_owned(),
            taken_at: u64::try_from(listed.taken_at).unwrap_or(0),
            volumes: volumes.collect(),
        }
    });
    Ok(shown.collect())
}

pub fn list(arguments: &ListArguments, plain: bool) -> Result<()> {
    let vault = arguments.target.open(plain)?;
    let points = vault.state().points().iter();
    let name = arguments.volume.as_deref();
    let points = points.filter(|(_, point)| name.is_none_or(|name| place(point, name).is_some()));
    let points: Vec<(u64, &Point)> = points.map(|(number, point)| (*number, point)).collect();
    let shown: Vec<Listed<'_>> = points.iter().map(|(number, point)| listed(*number, point)).collect();
    print(arguments.json, &shown, || {
        let mut table = Table::new(&["point", "taken", "volumes", "size"]);
        for (number, point) in &points {
            let names: Vec<&str> = point
                .volumes
                .iter()
                .map(|volume| volume.identity.name.as_str())
                .collect();
            let bytes = point.volumes.iter().map(|volume| volume.bytes).sum();
            table.row([number.to_string(), taken(point), names.join(","), size::show(bytes)]);
        }
        table.text()
    })
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    point: Listed<'a>,
    /// Of each volume: what a restore reads.
    data_bytes: Vec<u64>,
    vault: ShownVault,
}

#[derive(Serialize)]
struct ShownVault {
    id: String,
    /// The journal's last entry.
    entries: u64,
    points: usize,
    packs: usize,
    pack_bytes: u64,
    /// Packs that no point needs, and that are not swept yet; that are swept, and not known to be deleted; that were found damaged or missing.
    condemned_packs: usize,
    swept_packs: usize,
    lost_packs: usize,
    open_sessions: Vec<String>,
}

fn shown_vault(vault: &Vault) -> ShownVault {
    let state = vault.state();
    let ((packs, pack_bytes), (condemned_packs, swept_packs, lost_packs)) = (state.packs(), state.waiting());
    let sessions = state.sessions().iter();
    ShownVault {
        id: vault.id().to_string(),
        entries: state.number(),
        points: state.points().len(),
        packs,
        pack_bytes,
        condemned_packs,
        swept_packs,
        lost_packs,
        open_sessions: sessions.map(|(id, open)| sessions::shown(*id, open)).collect(),
    }
}

pub fn show(arguments: &ShowArguments, plain: bool) -> Result<()> {
    let vault = arguments.target.open(plain)?;
    let (number, point) = arguments.point.find(vault.state(), None)?;
    let mut data_bytes = Vec::new();
    for at in 0..point.volumes.len() {
        let mut reader = vault.reader(number, at).described()?;
        data_bytes.push(reader.data_bytes().described()?);
    }
    let shown = Shown {
        point: listed(number, point),
        data_bytes,
        vault: shown_vault(&vault),
    };
    print(arguments.json, &shown, || text(&shown, point))
}

fn text(shown: &Shown<'_>, point: &Point) -> String {
    let mut table = Table::new(&["volume", "size", "data", "encrypted", "counted from", "uuid"]);
    for (volume, data_bytes) in shown.point.volumes.iter().zip(&shown.data_bytes) {
        table.row([
            volume.volume.to_owned(),
            size::show(volume.size_bytes),
            size::show(*data_bytes),
            if volume.encrypted { "yes" } else { "" }.to_owned(),
            volume
                .parent
                .map_or_else(String::new, |parent| format!("point {parent}")),
            volume.uuid.clone(),
        ]);
    }
    let vault = &shown.vault;
    let mut text = format!(
        "Point {} of {}, in vault {}, which has {} points in {} packs of {} together.\n{}",
        shown.point.point,
        taken(point),
        vault.id,
        vault.points,
        vault.packs,
        size::show(vault.pack_bytes),
        table.text()
    );
    if vault.lost_packs > 0 {
        text.push_str(&format!(
            "{} packs were found damaged or missing: `amita backup verify` says which points are whole.\n",
            vault.lost_packs
        ));
    }
    for session in &vault.open_sessions {
        text.push_str(&format!("At work, or dead: {session}.\n"));
    }
    text
}
