//! `amita volume delete`, and what belongs to it: `undelete`, `purge`, `protect`; and `rename`, which asks the same of its owner.

use crate::admin::{Admin, Described};
use crate::commands::events::parse_age;
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_control::admin::{self, Deleted, Deletion, Fate};
use amita_terminal::confirm;
use amita_terminal::error::Result;
use amita_terminal::table::{Table, print};
use amita_terminal::{output, size};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it is looked whether a volume's owner has closed it, and how long that may take: it is done within milliseconds, and a
/// node that is gone loses its liveness within this.
const CLOSE_LOOK: Duration = Duration::from_millis(5);
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// `amita volume delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArguments {
    /// Its name
    pub name: String,
    /// Also where clients use it, or it is a namespace: that goes too
    #[arg(long)]
    pub force: bool,
    /// For good: it cannot be had back
    #[arg(long, conflicts_with = "keep")]
    pub now: bool,
    /// With --now: its snapshots too
    #[arg(long, requires = "now")]
    pub snapshots: bool,
    /// For how long it can be had back: like 12h or 7d [default: what its pool says]
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    pub keep: Option<Duration>,
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume rename`.
#[derive(Debug, clap::Args)]
pub struct RenameArguments {
    /// Its name
    pub name: String,
    /// The new one
    pub new_name: String,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume protect`.
#[derive(Debug, clap::Args)]
pub struct ProtectArguments {
    /// Its name
    pub name: String,
    /// Protect it no longer
    #[arg(long)]
    pub off: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume undelete`.
#[derive(Debug, clap::Args)]
pub struct UndeleteArguments {
    /// What it was called, or its number, as 12 or .12 (`amita volume list --deleted`)
    pub name: String,
    /// Under another name
    #[arg(long = "as", value_name = "NAME")]
    pub new_name: Option<String>,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume purge`.
#[derive(Debug, clap::Args)]
pub struct PurgeArguments {
    /// What it was called, or its number, as 12 or .12 (`amita volume list --deleted`)
    pub name: String,
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}

fn carry_out(metadata: &Admin, action: Action, name: &str, force: bool, fate: Fate) -> Result<Deleted> {
    let until = Instant::now() + CLOSE_PATIENCE;
    let mut pause = || {
        std::thread::sleep(CLOSE_LOOK);
        Instant::now() < until
    };
    let done = metadata.act(action, name, |meta| {
        admin::carry_out(meta, Deletion::of(name, force, fate), &mut pause)
    });
    done.described()
}

pub(super) fn delete(arguments: &DeleteArguments, metadata: &Admin) -> Result<()> {
    let DeleteArguments { name, force, .. } = arguments;
    let reader = metadata.reader();
    let keep = match (arguments.now, arguments.keep) {
        (true, _) => Duration::ZERO,
        (false, Some(keep)) => keep,
        (false, None) => {
            let volume = admin::volume(&reader, name).described()?;
            admin::recycle_time(&reader, &volume.pool).described()?
        }
    };
    let purge_at = now().saturating_add(keep.as_secs());
    let fate = match keep.as_secs() {
        0 => Fate::Purge {
            snapshots: arguments.snapshots,
            now: now(),
        },
        _ => Fate::Recycle {
            deleted_at: now(),
            purge_at,
        },
    };
    let is_kept = matches!(fate, Fate::Recycle { .. });
    if !is_kept {
        let lost = format!("Volume {name} goes for good, with its data: it cannot be had back.");
        confirm::destroys(arguments.yes, name, &lost)?;
    }
    let deleted = carry_out(metadata, Action::VolumeDelete, name, *force, fate)?;
    let number = deleted.volume.id;
    let found = serde_json::json!({
        "name": name,
        "id": number,
        "deleted": true,
        "hidden": deleted.hidden,
        "purge_at": is_kept.then_some(purge_at),
        "gone": deleted.gone,
        "unheard_node": deleted.unheard,
    });
    let clones = match deleted.hidden {
        true => admin::clones(&reader, &deleted.volume, None).described()?,
        false => Vec::new(),
    };
    print(arguments.json, &found, || match is_kept {
        _ if deleted.hidden => format!(
            "Volume {name} is deleted and hidden: {}. It goes for good when the last of them has; until then it takes space.\n",
            held_by(&clones)
        ),
        true => format!(
            "Volume {name} is deleted. Until {} it can be had back: `amita volume undelete {number}`; until then it takes space.\n",
            timestamp(purge_at, 0)
        ),
        false => format!("Volume {name} is deleted; its space comes back by and by.\n"),
    })?;
    say_unheard(&deleted);
    Ok(())
}

/// What keeps something that is deleted.
fn held_by(clones: &[String]) -> String {
    const MOST: usize = 8;
    let mut names = clones.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if clones.len() > MOST {
        names.push_str(", and others");
    }
    match clones.len() {
        1 => format!("it is held by a clone ({names})"),
        count => format!("it is held by {count} clones ({names})"),
    }
}

/// Who may not have heard of it.
fn say_unheard(deleted: &Deleted) {
    if let Some(node) = &deleted.unheard {
        output::beside(&format!(
            "Node {node} had it open and does not answer: until it hears of this, it may go on serving clients from stores that \
             nobody else reaches."
        ));
    } else if deleted.gone {
        output::beside(
            "The node that had it open last is not known as living, and was not waited for: if it runs after all, it may serve \
             clients until it hears of this.",
        );
    }
}

pub(super) fn rename(arguments: &RenameArguments, metadata: &Admin) -> Result<()> {
    let RenameArguments { name, new_name, .. } = arguments;
    let fate = Fate::Rename { to: new_name.clone() };
    let renamed = carry_out(metadata, Action::VolumeRename, name, false, fate)?;
    let found = serde_json::json!({ "name": new_name, "id": renamed.volume.id, "before": name });
    print(arguments.json, &found, || {
        format!("Volume {name} is called {new_name}.\n")
    })?;
    say_unheard(&renamed);
    Ok(())
}

pub(super) fn protect(arguments: &ProtectArguments, metadata: &Admin) -> Result<()> {
    let ProtectArguments { name, off, .. } = arguments;
    let done = metadata.act(Action::VolumeProtect, name, |meta| {
        admin::protect_volume(meta, name, !off)
    });
    let about = done.described()?;
    let found = serde_json::json!({ "name": name, "id": about.volume, "protected": about.protected });
    print(arguments.json, &found, || match off {
        true => format!("Volume {name} may be deleted.\n"),
        false => format!("Volume {name} is protected: it cannot be deleted.\n"),
    })
}

pub(super) fn undelete(arguments: &UndeleteArguments, metadata: &Admin) -> Result<()> {
    let UndeleteArguments { name, new_name, .. } = arguments;
    let back = metadata.act(Action::VolumeUndelete, name, |meta| {
        admin::undelete_volume(meta, name, new_name.as_deref())
    });
    let volume = back.described()?;
    print(arguments.json, &volume, || {
        format!(
            "Volume {} is there again. It is served by nothing: `amita nbd export {0}`, or `amita volume attach {0}`.\n",
            volume.name
        )
    })
}

pub(super) fn purge(arguments: &PurgeArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let lost =
        format!("The deleted volume {name} goes for good, with its data and its snapshots: it cannot be had back.");
    confirm::destroys(arguments.yes, name, &lost)?;
    let gone = metadata.act(Action::VolumePurge, name, |meta| admin::purge_volume(meta, name, now()));
    let gone = gone.described()?;
    let (name, number) = (&gone.trashed.name, gone.trashed.volume);
    print(arguments.json, &gone, || match gone.held_by.as_slice() {
        [] => format!("Volume {name} (number {number}) is gone for good; its space comes back by and by.\n"),
        clones => format!(
            "Volume {name} (number {number}) stays hidden: {}. It goes for good when the last of them has, or was flattened \
             (`amita volume flatten`).\n",
            held_by(clones)
        ),
    })
}

pub(super) fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    let deleted = admin::trash(&metadata.reader()).described()?;
    print(as_json, &deleted, || {
        let mut table = Table::new(&["volume", "id", "pool", "size", "deleted", "goes for good", "clones"]);
        for found in &deleted {
            let trashed = &found.trashed;
            table.row([
                trashed.name.clone(),
                trashed.volume.to_string(),
                found.pool.clone(),
                size::show(found.size_bytes),
                timestamp(trashed.deleted_at, 0),
                match trashed.purge_at <= now() && found.clones > 0 {
                    true => "with its clones".to_owned(),
                    false => timestamp(trashed.purge_at, 0),
                },
                match found.clones {
                    0 => String::new(),
                    clones => clones.to_string(),
                },
            ]);
        }
        table.text()
    })
}
