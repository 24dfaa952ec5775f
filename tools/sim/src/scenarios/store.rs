//! Histories of one store.

use super::{Runs, Scenario, plant};
use crate::random::Random;
use crate::solo::Profile;
use amita_reactor::sim::Backing;
use amita_store::Discard;
#[cfg(feature = "planted")]
use amita_store::Fault as StoreFault;
use std::time::Duration;

fn any(seed: u64) -> Profile {
    Profile {
        rot_percent: 0,
        gap_percent: 0,
        ..Profile::draw(&mut Random::new(seed).fork(1))
    }
}

/// Much under way at once, on a disk that loses what was not flushed, and every life ends by a power cut.
fn busy(seed: u64) -> Profile {
    Profile {
        depth: 24,
        volatile_cache: true,
        kill_percent: 0,
        pause_percent: 0,
        lives: 8,
        requests: 80,
        ..any(seed)
    }
}

fn tight(seed: u64) -> Profile {
    Profile {
        clear_percent: 10,
        ..busy(seed).tight()
    }
}

/// So much is under way, and so little is free, that what was given back a moment ago is wanted again.
fn crowded(seed: u64) -> Profile {
    Profile {
        chunks: 2,
        max_blocks: 16,
        depth: 64,
        clear_percent: 0,
        read_percent: 5,
        part_percent: 0,
        requests: 300,
        ..tight(seed)
    }
}

/// A file that was written full, on a device that keeps what was written, gives its free space back.
fn holes(seed: u64) -> Profile {
    Profile {
        backing: Backing::File,
        discard: Discard::Always,
        volatile_cache: false,
        clear_percent: 30,
        read_percent: 5,
        max_blocks: 16,
        requests: 300,
        ..tight(seed)
    }
}

/// Reads that take longer than a slot needs to be freed, let go by the log, and taken again.
fn slow_reads(seed: u64) -> Profile {
    let slowest_read = Duration::from_millis(15);
    Profile {
        read_percent: 25,
        depth: 32,
        slowest_read,
        part_percent: 0,
        requests: 300,
        ..tight(seed)
    }
}

fn fences(seed: u64) -> Profile {
    Profile {
        fence_percent: 5,
        read_percent: 5,
        depth: 32,
        ..busy(seed)
    }
}

/// The histories of one store.
pub fn all() -> Vec<Scenario> {
    let scenario = |name, story, setup, broken| Scenario {
        name,
        story,
        runs: Runs::Store(setup),
        hostile: |_| {},
        broken: Some(broken),
        seeds: 60,
    };
    vec![
        scenario(
            "R1: a write is applied only onto its predecessor",
            "A write arrives without the one before it: a store that took it would hold a hole.",
            |seed| Profile {
                gap_percent: 5,
                ..any(seed)
            },
            plant!(plants => plants.store = plants.store.with(StoreFault::AnyPredecessor)),
        ),
        scenario(
            "R2: a fence is durable before it is answered",
            "A store answers a fence, loses power, and a sequencer of old comes by.",
            fences,
            plant!(plants => plants.store = plants.store.with(StoreFault::FenceNotPersisted)),
        ),
        scenario(
            "R4: a store restarts and is fenced at once",
            "It granted its owner a lease; the lease outlives the process.",
            |seed| Profile {
                fence_percent: 3,
                ..any(seed)
            },
            plant!(plants => plants.store = plants.store.with(StoreFault::NoLeaseWait)),
        ),
        scenario(
            "R6: a fence drains what was accepted before it",
            "M2 says v9 with v10 on its way to the disk, which surfaces when the next sequencer has counted without it.",
            fences,
            plant!(plants => plants.store = plants.store.with(StoreFault::NoDrain)),
        ),
        scenario(
            "R8: a resend is answered once the original is durable",
            "Answered from memory, an acknowledged write is gone after a power cut.",
            |seed| Profile {
                resend_percent: 30,
                ..busy(seed)
            },
            plant!(plants => plants.store = plants.store.with(StoreFault::ResendAtOnce)),
        ),
        Scenario {
            seeds: 400,
            ..scenario(
                "D1: a freed slot waits for a durable mark",
                "v5's slot is overwritten; after a crash replay finds v5's checksum wrong and throws v6 away too.",
                crowded,
                plant!(plants => plants.store = plants.store.with(StoreFault::ReuseAtOnce)),
            )
        },
        scenario(
            "D2: answers go out in log order",
            "Page k+1 is answered, page k is lost by a power cut.",
            busy,
            plant!(plants => plants.store = plants.store.with(StoreFault::AnswersOutOfOrder)),
        ),
        scenario(
            "D2: a page names its predecessor and its mount",
            "After a replay that ended short, an old page k+1 is taken for a new one.",
            busy,
            plant!(plants => plants.store = plants.store.with(StoreFault::ChainUnchecked)),
        ),
        scenario(
            "D4: damage is not the end of the log",
            "A bit of an older page rots; what follows it was acknowledged and may not be dropped in silence.",
            |seed| Profile {
                rot_percent: 60,
                ..busy(seed)
            },
            plant!(plants => plants.store = plants.store.with(StoreFault::EndAtFirstBad)),
        ),
        scenario(
            "D3: what is written into a hole of a file is flushed",
            "Space of a file was given back; the power fails after a write into it, and acknowledged data reads as zeros.",
            holes,
            plant!(plants => plants.store = plants.store.with(StoreFault::HolesUnflushed)),
        ),
        scenario(
            "D5: the free map comes from the checkpoint",
            "The log goes round many times; a mount starts from a checkpoint and applies only what came later.",
            tight,
            plant!(plants => plants.store = plants.store.with(StoreFault::FreeMapStale)),
        ),
        scenario(
            "D6: slots are pinned by reads under way",
            "A slot is freed and written again while a read of it is on its way: the read looks like rot.",
            slow_reads,
            plant!(plants => plants.store = plants.store.with(StoreFault::NoPin)),
        ),
        scenario(
            "I3: replay takes a record only with all of its data",
            "A power cut keeps the log's page and loses some of the data that was written beside it.",
            busy,
            plant!(plants => plants.store = plants.store.with(StoreFault::ReplayUnverified)),
        ),
    ]
}
