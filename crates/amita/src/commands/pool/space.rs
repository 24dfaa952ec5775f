//! `amita pool show` and `quota`: what a pool's volumes ask for, what they hold, and what its stores have.

use super::{QuotaArguments, ShowArguments};
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::space;
use amita_control::access::Action;
use amita_control::admin::{self, Asked, GroupCounts};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::condition::{POOL_LEVELS, StoreSpace};
use amita_types::map::{Pool, PoolKind, Quota, Volume, is_hidden};
use amita_types::{StoreId, VolumeId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long the stores may count what the volumes hold.
const COUNT_PATIENCE: Duration = Duration::from_secs(60);

/// The levels of pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percents(pub [u8; POOL_LEVELS]);

/// Reads `75,85,95`.
///
/// # Errors
/// Says what it should look like.
pub fn parse_percents(text: &str) -> std::result::Result<Percents, String> {
    let wrong = || format!("{text:?} is not understood: give {POOL_LEVELS} percents, like 75,85,95");
    let read: Option<Vec<u8>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
    let percents = read.and_then(|read| read.try_into().ok()).ok_or_else(wrong)?;
    Ok(Percents(percents))
}

pub(super) fn quota(arguments: &QuotaArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let QuotaArguments {
        name,
        provisioned,
        volumes,
        snapshots,
        none,
        ..
    } = arguments;
    let changes = *none || provisioned.is_some() || volumes.is_some() || snapshots.is_some();
    let quota = match changes {
        true => admin.act(Action::PoolQuota, name, |meta| {
            admin::set_quota(meta, name, |quota| {
                let kept = |limit: Option<u64>| limit.filter(|_| !none);
                quota.provisioned_bytes = provisioned.or(kept(quota.provisioned_bytes));
                quota.volumes = volumes.or(kept(quota.volumes));
                quota.snapshots = snapshots.or(kept(quota.snapshots));
            })
        }),
        false => admin::quota(&admin.reader(), name),
    };
    let quota = Limits::of(&quota.described()?);
    let asked = admin::asked(&admin.reader(), name).described()?;
    let found = serde_json::json!({ "pool": name, "quota": quota, "asked": asked });
    print(arguments.json, &found, || {
        let line = |asked: String, limit: Option<String>| match limit {
            Some(limit) => format!("{asked} of {limit}"),
            None => format!("{asked}, without a limit"),
        };
        let number = |number: u64| number.to_string();
        format!(
            "Pool {name}: volumes of {}; volumes: {}; snapshots: {}.\n",
            line(
                size::show(asked.provisioned_bytes),
                quota.provisioned_bytes.map(size::show)
            ),
            line(number(asked.volumes), quota.volumes.map(number)),
            line(number(asked.snapshots), quota.snapshots.map(number)),
        )
    })
}

/// A pool's quota as JSON says it: null is no limit.
#[derive(Clone, Copy, Debug, Serialize)]
struct Limits {
    provisioned_bytes: Option<u64>,
    volumes: Option<u64>,
    snapshots: Option<u64>,
}

impl Limits {
    fn of(quota: &Quota) -> Limits {
        Limits {
            provisioned_bytes: quota.provisioned_bytes,
            volumes: quota.volumes,
            snapshots: quota.snapshots,
        }
    }
}

/// A pool, as JSON says it.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    pool: Pool,
    copies: Option<u8>,
    min_copies: Option<u8>,
    group_counts: GroupCounts,
    /// Bytes of its stores, for data of all pools that lie there.
    raw_bytes: u64,
    /// Of them: what holds something, and what is free.
    used_bytes: u64,
    free_bytes: u64,
    /// Is that of all its stores? Those that are not served do not tell.
    all_stores_known: bool,
    fullest_percent: Option<u8>,
    asked: Asked,
    provisioned_bytes: u64,
    /// The sizes of all volumes, by what fits in, free or not; null: nothing fits in.
    overcommit_ratio: Option<f64>,
    volumes: u64,
    deleted_volumes: u64,
    quota: Limits,
    /// What the heads of its volumes hold, one copy of each block; what clones share counts for each of them.
    volumes_used_bytes: Option<u64>,
    /// What all volumes hold together, with all snapshots, and with deleted volumes that are kept; what is shared counts once.
    held_bytes: Option<u64>,
    freeing_bytes: Option<u64>,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    space_unknown: Option<String>,
    stores: Vec<ShownStore>,
}

#[derive(Debug, Serialize)]
struct ShownStore {
    id: StoreId,
    node: String,
    serves: bool,
    capacity_bytes: Option<u64>,
    used_bytes: Option<u64>,
    free_bytes: Option<u64>,
    used_percent: Option<u8>,
}

pub(super) fn show(arguments: &ShowArguments, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let (name, reader) = (&arguments.name, admin.reader());
    let status = admin.status()?;
    let Some(found) = status.pools.iter().find(|found| &found.pool.name == name) else {
        return Err(Failure::new(format!("there is no pool {name:?}"))
            .kind(Kind::NotFound)
            .advice("`amita pool list` shows those that are there."));
    };
    let mut volumes: Vec<Volume> = admin::with_deleted(&reader).described()?;
    volumes.retain(|volume| &volume.pool == name);
    let counted = space::count(&reader, &status, &found.pool, &volumes, COUNT_PATIENCE).described()?;
    let sum = |of: fn(&space::VolumeSpace) -> u64, deleted: bool| {
        let counted = counted.as_ref().ok()?;
        let own = volumes.iter().filter(|volume| deleted || !is_hidden(&volume.name));
        // One that is not known: nor is the sum.
        own.map(|volume| counted.get(&volume.id).map(of)).sum::<Option<u64>>()
    };
    // One that is not known: nor is what all have together.
    let is_known = |counted: &&BTreeMap<VolumeId, space::VolumeSpace>| {
        let mut all = volumes.iter();
        all.all(|volume| counted.contains_key(&volume.id))
    };
    let together = counted.as_ref().ok().filter(is_known);
    let asked = admin::asked(&reader, name).described()?;
    let (copies, min_copies) = match found.pool.kind {
        PoolKind::Replicated { copies, min_copies } => (Some(copies), Some(min_copies)),
        _ => (None, None),
    };
    let stores = status
        .stores
        .iter()
        .filter(|store| found.stores.contains(&store.store.id));
    let stores: Vec<ShownStore> = stores
        .map(|store| ShownStore {
            id: store.store.id,
            node: store.node_name.clone(),
            serves: store.alive,
            capacity_bytes: store.space.map(|space| space.capacity_bytes),
            used_bytes: store.space.as_ref().map(StoreSpace::used_bytes),
            free_bytes: store.space.map(|space| space.free_bytes),
            used_percent: store.space.as_ref().map(StoreSpace::used_percent),
        })
        .collect();
    let fits = found.raw_bytes / u64::from(copies.unwrap_or(1).max(1));
    let shown = Shown {
        copies,
        min_copies,
        group_counts: found.group_counts,
        raw_bytes: found.raw_bytes,
        used_bytes: found.used_bytes,
        free_bytes: found.raw_bytes.saturating_sub(found.used_bytes),
        all_stores_known: stores.len() == found.stores.len()
            && stores.iter().all(|store| store.capacity_bytes.is_some()),
        fullest_percent: found.fullest_percent,
        provisioned_bytes: asked.provisioned_bytes,
        overcommit_ratio: (fits > 0).then(|| asked.provisioned_bytes as f64 / fits as f64),
        volumes: asked.volumes,
        deleted_volumes: volumes.iter().filter(|volume| volume.is_deleted()).count() as u64,
        asked,
        quota: Limits::of(&admin::quota(&reader, name).described()?),
        volumes_used_bytes: sum(|found| found.used_bytes, false),
        held_bytes: together.map(|counted| space::held_together(counted.values())),
        freeing_bytes: sum(|found| found.freeing_bytes, true),
        space_unknown: match &counted {
            Err(why) => Some(why.clone()),
            Ok(_) => together.is_none().then(|| space::OF_RECORDS.to_owned()),
        },
        stores,
        pool: found.pool.clone(),
    };
    print(arguments.json, &shown, || text(&shown))
}

fn text(shown: &Shown) -> String {
    let known = |bytes: Option<u64>| bytes.map_or_else(|| "not known".to_owned(), size::show);
    let of = |number: u64, limit: Option<u64>| match limit {
        Some(limit) => format!("{number} (quota {limit})"),
        None => number.to_string(),
    };
    let number = |number: Option<u8>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    let overcommit = shown
        .overcommit_ratio
        .map_or_else(String::new, |ratio| format!(", {ratio:.2} of what fits in"));
    let quota = shown.quota.provisioned_bytes;
    let quota = quota.map_or_else(String::new, |limit| format!(" (quota {})", size::show(limit)));
    let mut lines = vec![
        ("name", shown.pool.name.clone()),
        (
            "copies",
            format!("{}; writes need {}", number(shown.copies), number(shown.min_copies)),
        ),
        ("groups", shown.pool.groups.to_string()),
        (
            "stores hold",
            format!(
                "{} of {}, {} free{}",
                size::show(shown.used_bytes),
                size::show(shown.raw_bytes),
                size::show(shown.free_bytes),
                if shown.all_stores_known {
                    ""
                } else {
                    "; not all of them tell"
                }
            ),
        ),
        (
            "provisioned",
            format!("{}{quota}{overcommit}", size::show(shown.provisioned_bytes)),
        ),
        ("volumes", of(shown.volumes, shown.quota.volumes)),
        ("deleted", shown.deleted_volumes.to_string()),
        ("snapshots", of(shown.asked.snapshots, shown.quota.snapshots)),
        (
            "volumes use",
            format!(
                "{}; with snapshots and deleted volumes {}",
                known(shown.volumes_used_bytes),
                known(shown.held_bytes)
            ),
        ),
        ("freeing", known(shown.freeing_bytes)),
    ];
    if let Some(why) = &shown.space_unknown {
        lines.push(("not known", why.clone()));
    }
    let mut out: String = lines
        .iter()
        .map(|(key, value)| format!("{key:<12} {value}\n"))
        .collect();
    let mut table = Table::new(&["store", "node", "serves", "capacity", "used", "free", "percent"]);
    for store in &shown.stores {
        let size = |bytes: Option<u64>| bytes.map_or_else(String::new, size::show);
        table.row([
            store.id.to_string(),
            store.node.clone(),
            if store.serves { "yes" } else { "NO" }.to_owned(),
            size(store.capacity_bytes),
            size(store.used_bytes),
            size(store.free_bytes),
            store
                .used_percent
                .map_or_else(String::new, |percent| format!("{percent} %")),
        ]);
    }
    out.push('\n');
    out.push_str(&table.text());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_percents_are_read() {
        assert_eq!(parse_percents("75,85,95"), Ok(Percents([75, 85, 95])));
        assert_eq!(parse_percents("1, 2, 3"), Ok(Percents([1, 2, 3])));
        for bad in ["", "75", "75,85", "75,85,95,99", "a,b,c", "75,85,300"] {
            assert!(parse_percents(bad).is_err(), "{bad}");
        }
    }
}
