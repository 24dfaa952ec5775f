//! Each rule switched off is found by the random play, or by a test that aims at it (feature `planted`).

use crate::common::play::{Rules, play};
use crate::common::{BLOCK, Disk, Requester, Rig, Rng, image, params, version};
use amita_reactor::{Pool, Time};
use amita_store::{Config, Fault, Faults, State};
use amita_types::Version;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn config(plant: Fault) -> Config {
    Config {
        faults: Faults::NONE.with(plant),
        ..Config::default()
    }
}

/// Plays until the fault shows; says in which seed.
fn found(plant: Fault) {
    for seed in 0..160 {
        let mut rules = Rules::new(seed, 5_000);
        rules.config = config(plant);
        if catch_unwind(AssertUnwindSafe(|| play(rules))).is_err() {
            println!("{plant:?} is found with seed {seed}");
            return;
        }
    }
    panic!("{plant:?} is not found");
}

#[test]
fn r1_any_predecessor() {
    found(Fault::AnyPredecessor);
}

#[test]
fn r4_no_lease_wait() {
    found(Fault::NoLeaseWait);
}

#[test]
fn r6_no_drain() {
    found(Fault::NoDrain);
}

#[test]
fn r8_resend_at_once() {
    found(Fault::ResendAtOnce);
}

#[test]
fn d1_reuse_at_once() {
    found(Fault::ReuseAtOnce);
}

#[test]
fn d2_answers_out_of_order() {
    found(Fault::AnswersOutOfOrder);
}

#[test]
fn d2_chain_unchecked() {
    found(Fault::ChainUnchecked);
}

#[test]
fn d6_no_pin() {
    found(Fault::NoPin);
}

#[test]
#[ignore = "takes minutes: scripts/soak runs it"]
fn s12_restore_unpinned() {
    let is_found = |seed| {
        let mut rules = Rules::named("restores", seed).expect("the game is known");
        rules.config.faults = Faults::NONE.with(Fault::RestoreUnpinned);
        catch_unwind(AssertUnwindSafe(|| play(rules))).is_err()
    };
    let seed = (0..160).find(|&seed| is_found(seed));
    println!("it is found with seed {:?}", seed.expect("it is found"));
}

#[test]
fn r2_fence_not_persisted() {
    found(Fault::FenceNotPersisted);
}

#[test]
fn replay_unverified() {
    found(Fault::ReplayUnverified);
}

#[test]
fn d5_loses_slots() {
    found(Fault::LosesSlots);
}

fn rig_with(config: Config) -> (Rig, Requester) {
    let mut rig = Rig::open(
        Disk::new(image(&params(2 << 20)), false),
        config,
        Time(1),
        1,
        Pool::heap(),
    );
    rig.run();
    let mut asker = Requester::new(1);
    asker.fence(&mut rig).unwrap();
    (rig, asker)
}

#[test]
fn sum_unchecked() {
    for planted in [false, true] {
        let config = if planted {
            config(Fault::SumUnchecked)
        } else {
            Config::default()
        };
        let (mut rig, mut asker) = rig_with(config);
        let bytes = Rng(1).bytes(BLOCK);
        asker
            .write(&mut rig, 0, 0, &bytes, version(1, 1), Version::NONE)
            .unwrap();
        let at = rig.disk.view.chunks(BLOCK).position(|block| block == bytes).unwrap() * BLOCK;
        rig.disk.view[at] ^= 1;
        let request = asker.read_request(0, 0, 1, Version::NONE);
        let served = asker.ask(&mut rig, request, Default::default()).answer.result.is_ok();
        assert_eq!(
            served, planted,
            "a rotten block is served only where the rule is switched off"
        );
    }
}

#[test]
fn d4_end_at_first_bad() {
    for planted in [false, true] {
        let config = if planted {
            config(Fault::EndAtFirstBad)
        } else {
            Config::default()
        };
        let (mut rig, mut asker) = rig_with(config);
        for n in 0..10 {
            let previous = if n == 0 { Version::NONE } else { version(1, n) };
            asker
                .write(&mut rig, 0, 0, &[n as u8; BLOCK], version(1, n + 1), previous)
                .unwrap();
        }
        let log = amita_store::format::Geometry::divide(2 << 20, None).unwrap().log_offset as usize;
        let mut image = rig.disk.durable.clone();
        image[log + 3 * BLOCK + 100] ^= 1;
        let mut again = rig.reopened(image);
        again.run();
        if planted {
            asker.fence(&mut again).unwrap();
            assert!(
                asker.open(&mut again, 0) < version(1, 10),
                "acknowledged writes are silently gone"
            );
        } else {
            assert!(
                matches!(again.store.state(), State::Refused(_)),
                "{:?}",
                again.store.state()
            );
        }
    }
}
