//! The mutants, by their rule.

use super::{Ground, Mutant};
use crate::cluster::Plants;
use crate::scenarios::plant;
#[cfg(feature = "planted")]
use amita_store::Plant;

const fn store(name: &'static str, rule: &'static str, plant: fn(&mut Plants), known: &'static [u64]) -> Mutant {
    Mutant {
        name,
        rule,
        ground: Ground::Store,
        plant,
        known,
    }
}

const fn cluster(name: &'static str, rule: &'static str, plant: fn(&mut Plants), known: &'static [u64]) -> Mutant {
    Mutant {
        name,
        rule,
        ground: Ground::Cluster,
        plant,
        known,
    }
}

/// Switches a rule of the stores off.
macro_rules! of_store {
    ($plant:ident) => {
        plant!(plants => plants.store = plants.store.with(Plant::$plant))
    };
}

/// Switches a rule of the sequencers off.
macro_rules! of_volume {
    ($plant:ident) => {
        plant!(plants => plants.volume.$plant = true)
    };
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Mutant> {
    let mut all = of_stores();
    all.extend(of_clusters());
    all.sort_by_key(|mutant| (mutant.rule.as_bytes()[0], mutant.rule[1..].parse::<u32>().unwrap_or(0)));
    all
}

fn of_stores() -> Vec<Mutant> {
    vec![
        store("any-predecessor", "R1", of_store!(AnyPredecessor), &[]),
        store("fence-not-persisted", "R2", of_store!(FenceNotPersisted), &[]),
        store("no-promise-wait", "R4", of_store!(NoPromiseWait), &[]),
        store("promise-forgotten", "R4", of_store!(PromiseForgotten), &[]),
        store("no-drain", "R6", of_store!(NoDrain), &[]),
        store("old-owner-let-in", "R6", of_store!(OldOwnerLetIn), &[]),
        store("resend-at-once", "R8", of_store!(ResendAtOnce), &[]),
        store("reuse-at-once", "D1", of_store!(ReuseAtOnce), &[]),
        store("mark-everything", "D1", of_store!(MarkEverything), &[]),
        store("answers-out-of-order", "D2", of_store!(AnswersOutOfOrder), &[]),
        store("chain-unchecked", "D2", of_store!(ChainUnchecked), &[]),
        store("holes-unflushed", "D3", of_store!(HolesUnflushed), &[]),
        store("end-at-first-bad", "D4", of_store!(EndAtFirstBad), &[]),
        store("free-map-stale", "D5", of_store!(FreeMapStale), &[]),
        store("checkpoint-unflushed", "D5", of_store!(CheckpointUnflushed), &[]),
        store("no-pin", "D6", of_store!(NoPin), &[]),
        store("discard-unpinned", "D6", of_store!(DiscardUnpinned), &[]),
        store("answer-at-once", "I1", of_store!(AnswerAtOnce), &[]),
        store("replay-unverified", "I3", of_store!(ReplayUnverified), &[]),
    ]
}

fn of_clusters() -> Vec<Mutant> {
    vec![
        cluster("skip-generation-check", "R2", of_volume!(skip_generation_check), &[]),
        cluster("old-epoch-let-in", "R2", of_store!(OldEpochLetIn), &[]),
        cluster(
            "blind-eviction",
            "R2",
            plant!(plants => plants.metadata.blind_eviction = true),
            &[],
        ),
        cluster("no-hold", "R3", of_volume!(no_hold), &[]),
        cluster("no-promises", "R4", of_volume!(no_promises), &[]),
        cluster("promise-from-arrival", "R4", of_volume!(promise_from_arrival), &[]),
        cluster(
            "read-groups-before-raise",
            "R6",
            of_volume!(read_groups_before_raise),
            &[],
        ),
        cluster("roll-in-parts", "R6", of_volume!(roll_in_parts), &[]),
        cluster("open-without-roll", "R6", of_volume!(open_without_roll), &[]),
        cluster("trust-unknown", "R6", of_volume!(trust_unknown), &[]),
        cluster(
            "blind-raise",
            "R6",
            plant!(plants => plants.metadata.blind_raise = true),
            &[],
        ),
        cluster("no-credits", "R7", of_volume!(no_credits), &[]),
        cluster("no-least", "R8", of_volume!(no_least), &[]),
        cluster("serve-half-fenced", "R10", of_volume!(serve_half_fenced), &[]),
        cluster("ignore-min-copies", "R10", of_volume!(ignore_min_copies), &[]),
        cluster("ignore-lost", "R12", of_volume!(ignore_lost), &[]),
        cluster(
            "blind-coordinator",
            "R12",
            plant!(plants => plants.metadata.blind_coordinator = true),
            &[],
        ),
        cluster("acknowledge-early", "I1", of_volume!(acknowledge_early), &[]),
        cluster(
            "acknowledge-by-majority",
            "I1",
            of_volume!(acknowledge_by_majority),
            &[],
        ),
        cluster("fresh-sum", "D7", of_store!(FreshSum), &[]),
        cluster("sum-unchecked", "I3", of_store!(SumUnchecked), &[]),
    ]
}
