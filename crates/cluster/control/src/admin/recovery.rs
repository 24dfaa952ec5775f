//! How hard recovery may work, how far it has come, and which stores are slow.

use super::{AdminError, Result, get, put_if, tries};
use amita_metadata::{Call, KeyValue, Transact};
use amita_types::recovery::{
    HealthReport, Progress, Recovery, StoreHealth, StoreProgress, health_prefix, progress_prefix, recovery_key,
};
use amita_types::{NodeId, StoreId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// The settings of recovery; the defaults where nobody has set any.
///
/// # Errors
/// The metadata is away, or the record is not readable.
pub fn recovery(meta: &dyn Transact) -> Result<Recovery> {
    Ok(get(meta, &recovery_key())?.map(|(found, _)| found).unwrap_or_default())
}

/// Changes the settings of recovery; every node goes by them from then on.
///
/// # Errors
/// A setting that makes no sense; the metadata is away or refuses.
pub fn set_recovery(meta: &dyn Transact, change: impl Fn(&mut Recovery)) -> Result<Recovery> {
    let key = recovery_key();
    for _ in tries(meta) {
        let (mut settings, revision) = get::<Recovery>(meta, &key)?.unwrap_or_default();
        change(&mut settings);
        check(&settings)?;
        if put_if(meta, &key, revision, &settings)? {
            return Ok(settings);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

fn check(settings: &Recovery) -> Result<()> {
    let bad = |name: &str, why: &str| {
        Err(AdminError::BadSetting {
            what: "recovery",
            name: name.to_owned(),
            why: why.to_owned(),
        })
    };
    if settings.p99_percent < 110 {
        return bad(
            "p99",
            "at least 110 percent of normal: the clients' latency is never quite even",
        );
    }
    if !(1..=95).contains(&settings.iops_percent) {
        return bad("iops", "1 to 95 percent of normal");
    }
    if settings.slow_stores.after_s < 5 {
        return bad("slow-after", "at least 5 seconds: a moment says nothing of a store");
    }
    if settings.slow_stores.rest_s < 10 {
        return bad("slow-rest", "at least 10 seconds");
    }
    if settings.sick_networks.after_s < 10 {
        return bad("sick-after", "at least 10 seconds: nodes measure their links so often");
    }
    if settings.sick_networks.rest_s < 10 {
        return bad("sick-rest", "at least 10 seconds");
    }
    Ok(())
}

/// How far a store has come, all volumes and nodes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecoveryStatus {
    pub store: StoreId,
    /// Groups of volumes in which it is being brought up to date.
    pub groups: u64,
    /// Of those: it holds everything.
    pub groups_done: u64,
    /// Chunks that are to be compared, as far as is known.
    pub chunks_to_do: u64,
    /// Of those: they have been.
    pub chunks_done: u64,
    /// Bytes of data that were sent to it.
    pub bytes_moved: u64,
    /// Bytes a second, on the average.
    pub bytes_per_s: u64,
    /// Seconds that it will take yet, if it goes on so; unknown at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_s: Option<u64>,
}

/// A store that nodes find slow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlowStatus {
    pub store: StoreId,
    /// Nodes that find it slow.
    pub slow: Vec<NodeId>,
    /// Nodes that find it well.
    pub well: Vec<NodeId>,
    /// For how long, in seconds.
    pub for_s: u32,
    /// What one of them has seen.
    pub why: String,
}

/// Reads records `PREFIX/NODE/CORE` of living nodes.
pub(super) fn of_nodes<T: DeserializeOwned>(
    meta: &dyn Transact,
    prefix: &str,
    alive: &BTreeSet<NodeId>,
) -> Result<Vec<(NodeId, T)>> {
    let reply = meta.txn(&Call::prefix(prefix))?;
    let read = |found: &KeyValue| {
        let node = found.key.strip_prefix(prefix)?.split('/').next()?.parse().ok()?;
        // News of an older or newer version are no reason to show nothing.
        alive.contains(&node).then(|| Some((node, found.json().ok()?)))?
    };
    Ok(reply.values(0).iter().filter_map(read).collect())
}

pub(super) fn progress(meta: &dyn Transact, alive: &BTreeSet<NodeId>) -> Result<Vec<RecoveryStatus>> {
    let mut of_store: BTreeMap<StoreId, Vec<StoreProgress>> = BTreeMap::new();
    for (_, record) in of_nodes::<Progress>(meta, &progress_prefix(), alive)? {
        for found in record.stores {
            of_store.entry(found.store).or_default().push(found);
        }
    }
    Ok(of_store.into_iter().map(|(store, parts)| sum(store, &parts)).collect())
}

fn sum(store: StoreId, parts: &[StoreProgress]) -> RecoveryStatus {
    let total = |of: fn(&StoreProgress) -> u64| parts.iter().map(of).sum::<u64>();
    let elapsed_ms = parts.iter().map(|part| part.elapsed_ms).max().unwrap_or(0);
    let groups = total(|part| part.groups.into());
    let groups_done = total(|part| part.groups_done.into());
    let (to_do, done) = (total(|part| part.chunks_to_do), total(|part| part.chunks_done));
    let bytes_moved = total(|part| part.bytes_moved);
    // As many chunks again in each group that is not listed yet as in those that are.
    let listed = total(|part| part.groups_listed.into()).max(groups_done).min(groups);
    let expected = (u128::from(to_do) * u128::from(groups)).checked_div(u128::from(listed));
    let left = |expected: u128| {
        let left = expected.saturating_sub(u128::from(done)) * u128::from(elapsed_ms);
        Some((left.checked_div(u128::from(done))? / 1000) as u64)
    };
    RecoveryStatus {
        store,
        groups,
        groups_done,
        chunks_to_do: to_do,
        chunks_done: done,
        bytes_moved,
        bytes_per_s: (bytes_moved * 1000).checked_div(elapsed_ms).unwrap_or(0),
        left_s: expected.and_then(left),
    }
}

/// What nodes say of a store: who finds it slow, who finds it well, and the worst that was seen.
type Said = (BTreeSet<NodeId>, BTreeSet<NodeId>, Option<StoreHealth>);

pub(super) fn slow(meta: &dyn Transact, alive: &BTreeSet<NodeId>) -> Result<Vec<SlowStatus>> {
    let mut of_store: BTreeMap<StoreId, Said> = BTreeMap::new();
    for (node, report) in of_nodes::<HealthReport>(meta, &health_prefix(), alive)? {
        for found in report.stores {
            let (slow, well, worst) = of_store.entry(found.store).or_default();
            if found.slow {
                slow.insert(node);
                if worst.as_ref().is_none_or(|worst| worst.for_s < found.for_s) {
                    *worst = Some(found);
                }
            } else {
                well.insert(node);
            }
        }
    }
    let stores = of_store.into_iter().filter_map(|(store, (slow, well, worst))| {
        let worst = worst?;
        Some(SlowStatus {
            store,
            well: well.difference(&slow).copied().collect(),
            slow: slow.into_iter().collect(),
            for_s: worst.for_s,
            why: worst.why,
        })
    });
    Ok(stores.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_metadata::model::State;
    use amita_types::VolumeId;
    use amita_types::recovery::{SlowPolicy, progress_key};
    use std::sync::Mutex;

    fn part(
        volume: u64,
        groups: (u32, u32, u32),
        chunks: (u64, u64),
        bytes_moved: u64,
        elapsed_ms: u64,
    ) -> StoreProgress {
        StoreProgress {
            volume: VolumeId(volume),
            store: StoreId(5),
            groups: groups.0,
            groups_listed: groups.1,
            groups_done: groups.2,
            chunks_listed: chunks.0 * 2,
            chunks_to_do: chunks.0,
            chunks_done: chunks.1,
            bytes_moved,
            elapsed_ms,
        }
    }

    #[test]
    fn settings_are_changed_one_at_a_time_and_checked() {
        let meta = Mutex::new(State::new());
        assert_eq!(recovery(&meta).unwrap(), Recovery::default());
        set_recovery(&meta, |settings| settings.scrub.iops = 100).unwrap();
        set_recovery(&meta, |settings| settings.slow_stores.policy = SlowPolicy::Off).unwrap();
        let found = recovery(&meta).unwrap();
        assert_eq!((found.scrub.iops, found.slow_stores.policy), (100, SlowPolicy::Off));
        assert!(set_recovery(&meta, |settings| settings.p99_percent = 100).is_err());
        assert!(set_recovery(&meta, |settings| settings.sick_networks.after_s = 9).is_err());
        assert!(set_recovery(&meta, |settings| settings.sick_networks.rest_s = 9).is_err());
        assert_eq!(recovery(&meta).unwrap(), found);
    }

    #[test]
    fn progress_of_living_nodes_is_summed() {
        let meta = Mutex::new(State::new());
        let put = |node: u32, core: usize, stores: Vec<StoreProgress>| {
            let value = serde_json::to_vec(&Progress { stores }).unwrap();
            meta.txn(&Call::put(progress_key(NodeId(node), core), value)).unwrap();
        };
        put(1, 0, vec![part(1, (4, 2, 1), (10, 5), 1 << 20, 10_000)]);
        put(1, 1, vec![part(1, (4, 2, 1), (10, 5), 1 << 20, 8_000)]);
        put(2, 0, vec![part(2, (9, 9, 9), (9, 9), 9 << 20, 1)]);
        let found = progress(&meta, &BTreeSet::from([NodeId(1)])).unwrap();
        let expected = RecoveryStatus {
            store: StoreId(5),
            groups: 8,
            groups_done: 2,
            chunks_to_do: 20,
            chunks_done: 10,
            bytes_moved: 2 << 20,
            bytes_per_s: (2 << 20) / 10,
            // Ten of forty in ten seconds.
            left_s: Some(30),
        };
        assert_eq!(found, vec![expected]);
    }
}
