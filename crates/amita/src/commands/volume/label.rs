//! `amita volume show` and `label`.

use crate::admin::{Admin, Described};
use crate::commands::nbd::for_whom;
use crate::space::{self, Counted};
use amita_control::access::Action;
use amita_control::admin::{self, Job, JobKind, NamespaceStatus, Status, VolumeStatus};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::print;
use amita_types::map::Volume;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long the stores may count what a volume holds.
const COUNT_PATIENCE: Duration = Duration::from_secs(60);

/// `amita volume show`.
#[derive(Debug, clap::Args)]
pub struct ShowArguments {
    /// The volume's name
    pub name: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume label`.
#[derive(Debug, clap::Args)]
pub struct LabelArguments {
    /// The volume's name
    pub name: String,
    /// KEY=VALUE sets a label, KEY- takes it away
    #[arg(required = true, value_name = "KEY=VALUE|KEY-", value_parser = parse_change)]
    pub changes: Vec<Change>,
    /// Say what labels it has as JSON
    #[arg(long)]
    pub json: bool,
}

/// A change of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Set(String, String),
    Remove(String),
}

/// Reads `key=value`.
///
/// # Errors
/// Says what a label looks like.
pub fn parse_label(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is no label: write KEY=VALUE")),
    }
}

fn parse_change(text: &str) -> std::result::Result<Change, String> {
    if let Ok((key, value)) = parse_label(text) {
        return Ok(Change::Set(key, value));
    }
    match text.strip_suffix('-') {
        Some(key) if !key.is_empty() && !key.contains('=') => Ok(Change::Remove(key.to_owned())),
        _ => Err(format!(
            "{text:?} is no label: write KEY=VALUE to set one, KEY- to take it away"
        )),
    }
}

/// Labels in a cell of a table.
pub(super) fn shown(labels: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.join(" ")
}

#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    volume: VolumeStatus,
    namespaces: Vec<NamespaceStatus>,
    /// The job by which it is moved, or written anew.
    #[serde(skip)]
    job: Option<Job>,
    #[serde(flatten)]
    space: Space,
}

/// What a volume takes; null where that is not known.
#[derive(Debug, Serialize)]
pub(super) struct Space {
    provisioned_bytes: u64,
    pub(super) used_bytes: Option<u64>,
    held_bytes: Option<u64>,
    unique_bytes: Option<u64>,
    freeing_bytes: Option<u64>,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    space_unknown: Option<String>,
}

impl Space {
    pub(super) fn of(volume: &Volume, counted: &Counted) -> Space {
        let found = counted.as_ref().ok().and_then(|found| space::of_chain(found, volume));
        let found = found.as_ref();
        Space {
            provisioned_bytes: volume.size_bytes,
            used_bytes: found.map(|found| found.used_bytes),
            held_bytes: found.map(|found| found.held_bytes),
            unique_bytes: found.map(|found| found.unique_bytes),
            freeing_bytes: found.map(|found| found.freeing_bytes),
            space_unknown: match counted {
                Err(why) => Some(why.clone()),
                Ok(_) => found.is_none().then(|| space::OF_RECORDS.to_owned()),
            },
        }
    }
}

/// What the volume holds; that may have to be counted.
pub(super) fn counted(metadata: &Admin, status: &Status, volume: &Volume) -> Result<Counted> {
    let pool = status.pools.iter().find(|found| found.pool.name == volume.pool);
    let Some(pool) = pool else {
        return Ok(Err(format!("its pool, {}, does not exist", volume.pool)));
    };
    let reader = metadata.reader();
    let volumes = admin::with_former(&reader, std::slice::from_ref(volume)).described()?;
    space::count(&reader, status, &pool.pool, &volumes, COUNT_PATIENCE).described()
}

pub(super) fn show(arguments: &ShowArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let status = metadata.status()?;
    let Some(volume) = status.volumes.iter().find(|found| &found.volume.name == name) else {
        return Err(Failure::new(format!("there is no volume {name:?}"))
            .kind(Kind::NotFound)
            .advice("`amita volume list` shows those that are there."));
    };
    let mut namespaces = admin::namespaces(&metadata.reader()).described()?.readable;
    namespaces.retain(|found| volume.volume.has_data(found.namespace.volume));
    let space = Space::of(&volume.volume, &counted(metadata, &status, &volume.volume)?);
    let moving = match volume.volume.lineage.moving {
        Some(target) => admin::copy_of(&metadata.reader(), target).described()?,
        None => None,
    };
    let shown = Shown {
        volume: volume.clone(),
        namespaces,
        job: moving.map(|moving| admin::copy_job(&moving, Duration::ZERO)),
        space,
    };
    print(arguments.json, &shown, || text(&shown))
}

fn text(shown: &Shown) -> String {
    let VolumeStatus {
        volume,
        stable_id,
        owner_name,
        owner_alive,
        export,
        created_at,
        labels,
        protected,
        import,
        tenant,
        encrypted,
        data_key_since,
        locked,
        shrink,
        flatten,
        parent,
        clones,
    } = &shown.volume;
    let owner = match (owner_name, owner_alive) {
        (None, _) => "none".to_owned(),
        (Some(name), true) => name.clone(),
        (Some(name), false) => format!("{name}, which does not live"),
    };
    let namespaces = shown.namespaces.iter();
    let namespaces: Vec<String> = namespaces
        .map(|found| {
            let which = format!("{} of subsystem {}", found.namespace.nsid, found.subsystem);
            match &found.namespace.snapshot {
                None => which,
                Some(_) => format!("{which} ({})", found.of()),
            }
        })
        .collect();
    let mut lines = vec![
        ("name", volume.name.clone()),
        (
            "id",
            match *stable_id {
                host if host == volume.id => volume.id.to_string(),
                host => format!(
                    "{} (it was reverted, moved to another pool, or written anew: hosts and certificates know it as {host})",
                    volume.id
                ),
            },
        ),
        (
            "pool",
            match &shown.job {
                None => volume.pool.clone(),
                Some(job) => {
                    let what = match job.kind {
                        JobKind::Rekey => "written anew there",
                        _ => "moved to another one",
                    };
                    format!("{} (it is being {what}: `amita job show {}`)", volume.pool, job.id)
                }
            },
        ),
        ("tenant", tenant.clone().unwrap_or_default()),
        (
            "size",
            format!("{} ({} bytes)", size::show(volume.size_bytes), volume.size_bytes),
        ),
        ("used", bytes(shown.space.used_bytes)),
        ("held", bytes(shown.space.held_bytes)),
        ("unique", bytes(shown.space.unique_bytes)),
        ("freeing", bytes(shown.space.freeing_bytes.filter(|bytes| *bytes > 0))),
        ("not known", shown.space.space_unknown.clone().unwrap_or_default()),
        ("parent", parent.clone().unwrap_or_default()),
        (
            "clones",
            match clones {
                0 => String::new(),
                clones => clones.to_string(),
            },
        ),
        ("owner", owner),
        (
            "nbd",
            export.as_ref().map_or_else(|| "not exported".to_owned(), for_whom),
        ),
        ("namespace", namespaces.join(", ")),
        ("labels", self::shown(labels)),
        (
            "encrypted",
            match (encrypted, data_key_since) {
                (false, _) => String::new(),
                (true, None) => "yes".to_owned(),
                (true, Some(since)) => {
                    format!(
                        "yes, by a data key that is there since {}",
                        crate::logging::timestamp(*since, 0)
                    )
                }
            },
        ),
        (
            "locked",
            locked
                .as_ref()
                .map_or_else(String::new, |why| format!("it waits for its keys: {why}")),
        ),
        ("protected", if *protected { "yes" } else { "" }.to_owned()),
    ];
    if let Some(created_at) = created_at {
        lines.push(("made", crate::logging::timestamp(*created_at, 0)));
    }
    if let Some(import) = import {
        let (done, all) = (size::show(import.done_bytes), size::show(import.image_bytes));
        lines.push(("import", format!("not at its end: at least {done} of {all}")));
    }
    if let Some(shrink) = shrink {
        let (name, bytes) = (&volume.name, shrink.size_bytes);
        lines.push((
            "shrink",
            format!(
                "to {} is not at its end: `amita volume resize {name} --size {bytes} --shrink` ends it",
                size::show(bytes)
            ),
        ));
    }
    if let Some(flatten) = flatten {
        let ails = flatten
            .ails
            .as_ref()
            .map(|why| format!("; it does not go on now: {why}"));
        lines.push((
            "flatten",
            format!(
                "{} of {} chunks{}",
                flatten.done,
                flatten.chunks,
                ails.unwrap_or_default()
            ),
        ));
    }
    let lines = lines.into_iter().filter(|(_, value)| !value.is_empty());
    lines
        .map(|(key, value)| format!("{key:<10} {}\n", amita_audit::plain(&value)))
        .collect()
}

fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!("{} ({bytes} bytes)", size::show(bytes)))
}

pub(super) fn label(arguments: &LabelArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let mut set = BTreeMap::new();
    let mut remove = Vec::new();
    for change in &arguments.changes {
        match change {
            Change::Set(key, value) => drop(set.insert(key.clone(), value.clone())),
            Change::Remove(key) => remove.push(key.clone()),
        }
    }
    let labeled = metadata.act(Action::VolumeLabel, name, |meta| {
        admin::label_volume(meta, name, &set, &remove)
    });
    let about = labeled.described()?;
    print(arguments.json, &about.labels, || match about.labels.is_empty() {
        true => format!("Volume {name} has no labels.\n"),
        false => format!("Volume {name} has the labels {}.\n", shown(&about.labels)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_labels_are_read() {
        let set = |key: &str, value: &str| Ok(Change::Set(key.to_owned(), value.to_owned()));
        assert_eq!(parse_change("team=db"), set("team", "db"));
        assert_eq!(parse_change("team="), set("team", ""));
        assert_eq!(parse_change("a=b-"), set("a", "b-"));
        assert_eq!(parse_change("team-"), Ok(Change::Remove("team".to_owned())));
        for bad in ["", "-", "=x", "team"] {
            assert!(parse_change(bad).is_err(), "{bad}");
        }
    }
}
